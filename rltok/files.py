"""Reading and writing a run's files: trouble with the disk becomes one line that says what to do."""

import errno
import json
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rltok.errors import RltokError

MISSING = (FileNotFoundError, NotADirectoryError)


def cannot_read(path: Path, error: OSError) -> RltokError:
    """The error for a file or folder that is there and that the system does not hand out."""
    remedy = "Check its permissions." if isinstance(error, PermissionError) else "Check its disk."
    return RltokError(f"cannot read {path} ({error.strerror or error}). {remedy}")


def require_regular(path: Path) -> None:
    """Raise `RltokError` for a pipe, a device or a folder, which would block or never end; a missing file is none of them."""
    try:
        mode = os.stat(path).st_mode
    except MISSING:
        return
    except OSError as error:
        raise cannot_read(path, error) from error
    if not stat.S_ISREG(mode):
        raise RltokError(f"{path} is {'a folder' if stat.S_ISDIR(mode) else 'no ordinary file'}. Put the run's own file there.")


def read_file(path: Path) -> bytes:
    """All of an ordinary file; a missing one raises as usual (`MISSING`), any other trouble is an `RltokError`."""
    require_regular(path)
    try:
        return path.read_bytes()
    except MISSING:
        raise
    except OSError as error:
        raise cannot_read(path, error) from error


@contextmanager
def room(folder: Path) -> Iterator[None]:
    """Around writing: a full disk, or a quota used up, becomes an `RltokError` that says how to go on."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise RltokError(f"no room left on the disk of {folder}. Make room, then go on with --resume.") from error


def write_json(path: Path, values: Any) -> None:
    """Write plain values in one step: a kill or a full disk leaves what was there before."""
    temporary = path.with_name(path.name + ".tmp")
    temporary.write_text(json.dumps(values, indent=1, allow_nan=False) + "\n")
    os.replace(temporary, path)
