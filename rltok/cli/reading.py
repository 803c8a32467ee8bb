"""Text that a command reads from a file or from standard input."""

import os
import sys
from pathlib import Path

from rltok.errors import RltokError

MOST_TEXT = 50_000  # bytes in one row: the attention of a longer one takes gigabytes


def file_bytes(name: str, most: int) -> bytes:
    """The first bytes of a file, at most so many; of standard input where its name is '-'."""
    if name == "-":
        if sys.stdin is None:
            raise RltokError("standard input is closed. Pipe a text in, or name a file.")
        return sys.stdin.buffer.read(most)
    if os.path.isdir(name):
        raise RltokError(f"{name} is a folder. Name one of its files.")
    if os.path.exists(name) and not os.path.isfile(name):
        raise RltokError(f"{name} is no ordinary file. Pipe its text in: --file -")
    with Path(name).open("rb") as handle:
        return handle.read(most)
