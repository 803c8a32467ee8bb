"""What the measuring scripts share: a file for a record is checked before anything is measured, and errors are one line."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rltok.errors import RltokError


def stored_record(path: Path, what: str) -> dict[str, Any] | None:
    """The record that the file holds, None without a file. Raises `RltokError` where the file cannot become this record."""
    if not path.resolve().parent.is_dir():
        raise RltokError(f"--out {path}: there is no folder {path.parent}. Make it first.")
    if path.is_dir():
        raise RltokError(f"--out {path} is a folder. Name a file in it.")
    if not path.exists():
        return None
    if not path.is_file():
        raise RltokError(f"--out {path} is no ordinary file. Name another one.")
    try:
        record = json.loads(path.read_bytes())
        same = record["what"] == what
    except (ValueError, KeyError, TypeError, RecursionError):
        same = False
    if not same:
        raise RltokError(f"--out {path} exists and is no record of this measurement, so it stays. Name another file.")
    return record


def at_least(least: int, **values: int | None) -> None:
    """Raise `RltokError` for a value below; None is not given."""
    for name, value in values.items():
        if value is not None and value < least:
            raise RltokError(f"--{name.replace('_', '-')} must be at least {least}; got {value}.")


def run(main: Callable[[], None]) -> None:
    """Call it; an `RltokError` is told in one line, with exit code 2."""
    try:
        main()
    except RltokError as error:
        print(f"{Path(sys.argv[0]).name}: {error}", file=sys.stderr)
        raise SystemExit(2) from None
