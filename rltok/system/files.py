"""Reading and writing files: an error of the disk becomes one line that says what to do."""

import errno
import json
import os
import secrets
import shlex
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any

from filelock import BaseFileLock, FileLock, Timeout

from rltok.errors import RltokError

LONGEST_INSIDE = "x" * 150  # room for the names of all that commands write into a folder of the user
MISSING = (FileNotFoundError, NotADirectoryError)
# What a file system says that has no locks, as some that are mounted over a network.
WITHOUT_LOCKS = (errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOLCK)


def cannot_read(path: Path, error: OSError) -> RltokError:
    """The error for an existing file or folder that cannot be read."""
    remedy = "Check its permissions." if isinstance(error, PermissionError) else "Check its disk."
    return RltokError(f"cannot read {path} ({error.strerror or error}). {remedy}")


def cannot_write(folder: Path, error: OSError) -> RltokError:
    """The error for a folder of --out that cannot be written to."""
    return RltokError(f"cannot write to {folder} ({error.strerror}). Choose a folder you may write to with --out.")


def quoted(path: str | Path) -> str:
    """A path as a word of a command that is printed to be pasted into a shell; with a dash in front it would be an option."""
    return shlex.quote(f"./{path}" if str(path).startswith("-") else str(path))


def require_own(path: Path) -> None:
    """Raise `RltokError` unless rltok may write a file here: a link may lead to a file that is not its own."""
    if os.path.islink(path):
        raise RltokError(f"{path} is a link, through which rltok does not write. Put the file itself there, or remove the link.")
    require_regular(path)


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
def room(folder: Path, how: str = "--resume") -> Iterator[None]:
    """Around writing: a full disk, or a quota or size limit used up, becomes an `RltokError` that says how to go on.

    So does whatever else befalls an open file, of which Python's error names none; one that names a file is as it was.
    """
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            if error.filename is not None:
                raise
            raise RltokError(f"cannot write to {folder} ({error.strerror}). Check its disk, then go on with {how}.") from error
        raise RltokError(f"no room left on the disk of {folder}. Make room, then go on with {how}.") from error


def locked(path: Path, in_use: str) -> BaseFileLock:
    """Take a lock without waiting; the system releases it when the process ends, however it ends.

    Where the file system has no locks, two processes in one place are for the user to avoid.

    Args:
        path: of the file that stands for the lock, made where it is not there.
        in_use: the error where another process holds it.

    Raises:
        RltokError: another process holds it.
        OSError: the file cannot be made.
    """
    lock = FileLock(path, fallback_to_soft=False)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise RltokError(in_use) from None
    except OSError as error:
        if error.errno not in WITHOUT_LOCKS:
            raise
    return lock


def json_text(values: dict[str, Any]) -> str:
    """JSON with an entry a line, and a line for each table of a list: short, and a difference shows what changed."""

    def text(value: Any) -> str:
        if isinstance(value, list) and value and isinstance(value[0], dict):
            return "[\n" + ",\n".join(json.dumps(each, allow_nan=False) for each in value) + "\n]"
        return json.dumps(value, allow_nan=False)

    return "{\n" + ",\n".join(f"{json.dumps(key)}: {text(value)}" for key, value in values.items()) + "\n}\n"


def write_json(path: Path, values: dict[str, Any]) -> None:
    """Write plain values in one step; see `write_bytes`."""
    write_bytes(path, json_text(values).encode())


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file in one step: a kill or a full disk leaves what was there before, and so does a link its target."""
    temporary = path.with_name(f".rltok-{secrets.token_hex(8)}.tmp")  # a name that no other file has
    try:
        with temporary.open("xb") as file:
            file.write(content)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def check_name(out: str | Path, what: str, option: str = "--out") -> None:
    """Raise `RltokError` where a folder or file, as `what` says, of this name could not be opened by every later command.

    option: which the name was given to, as the message calls it.
    """
    name = str(out)
    if not name.strip():
        raise RltokError(f"{option} is empty. Name a {what}.")
    try:
        in_utf8 = os.fsencode(name) == name.encode()  # parts of torch and safetensors take no other name
    except UnicodeEncodeError:
        in_utf8 = False
    if not in_utf8:
        raise RltokError(f"{option} {name[:60]!a} is no UTF-8 text, so later commands could not open it. Name another {what}.")
    try:
        os.lstat(os.path.join(os.path.abspath(name), LONGEST_INSIDE))
    except (*MISSING, PermissionError):
        pass
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise RltokError(f"{option} {name[:60]!a} cannot be a {what}'s name ({reason}). Name another {what}.") from error


@contextmanager
def new_folder(path: Path | None, stem: str) -> Iterator[Path]:
    """Make a folder of one's own: `path`, or runs/stem-N with the first N that no other process took.

    It goes again where an error leaves it empty.

    Raises:
        RltokError: `path` exists, or nothing can be made there.
    """
    for folder in (Path("runs") / f"{stem}-{number}" for number in count(1)) if path is None else [path]:
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
            folder.mkdir()
            break
        except FileExistsError as error:
            if not os.path.isdir(folder.parent):  # a file, or a link to a disk that is not there
                raise RltokError(f"{folder.parent} is no folder. Move it away, or choose another --out.") from error
            if path is not None:
                raise RltokError(f"{path} exists already. Leave --out away, or choose a new folder.") from None
        except OSError as error:
            raise cannot_write(folder, error) from error
    try:
        yield folder
    except BaseException:
        with suppress(OSError):  # not empty
            folder.rmdir()
        raise


def check_record_path(out: str, what: str) -> None:
    """Raise `RltokError` unless a record called `what`, or `what: ...`, may be written there: a new file, or such a record."""
    check_name(out, "file")
    path = Path(out)
    try:
        folder = path.parent.resolve()
        if not folder.is_dir():
            raise RltokError(f"--out {out}: there is no folder {folder}. Make it first.")
        if path.is_dir():
            raise RltokError(f"--out {out} is a folder. Name a file in it, such as {path / 'record.json'}.")
        if path.is_symlink():
            raise RltokError(f"--out {out} is a link. Name the file itself: {quoted(path.resolve())}.")
        if path.exists() and not path.is_file():
            raise RltokError(f"--out {out} is no ordinary file. Name another one.")
        if path.exists() and not _is_record(path, what):
            raise RltokError(f"--out {out} exists and is no record of this command, so it stays. Name another file.")
    except (OSError, RuntimeError) as error:  # a loop of links
        reason = getattr(error, "strerror", None) or str(error)[:60]
        raise RltokError(f"--out {out[:60]} cannot be a file's name ({reason}). Name another file.") from error
    check_writable(folder, f"--out {out}")


def check_writable(folder: Path, file: str) -> None:
    """Raise `RltokError`, which begins with `file`, where nothing can be written into a folder."""
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise RltokError(f"{file}: nothing can be written into {folder}. Name a file in a folder of yours.") from error


def _is_record(path: Path, what: str) -> bool:
    """Whether a file is a record of this kind, of the schema that is written."""
    try:
        record = json.loads(path.read_bytes())
        return (record["what"] == what or record["what"].startswith(f"{what}:")) and record.get("schema", 1) == 1
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return False


def write_record(path: Path, record: dict[str, Any]) -> None:
    """Write a record atomically; if that fails, print it, and the error says so."""
    try:
        write_json(path, record)
    except OSError as error:
        print(json_text(record))
        raise RltokError(
            f"cannot write {path} ({error.strerror}); the record stands above. Make room, or keep that text."
        ) from error
