"""Text that a command reads from a file or from standard input."""

import argparse
import os
import sys
from pathlib import Path

from rltok.errors import RltokError
from rltok.runs.loading import locate
from rltok.system.files import quoted

MOST_TEXT = 50_000  # bytes in one row: the attention of a longer one takes gigabytes


def showable(data: bytes) -> bytes:
    """A text of which boundaries are to be shown, unchanged. Raises `RltokError` for an empty and for a long one."""
    if len(data) > MOST_TEXT:
        raise RltokError(f"the text has {len(data)} bytes; at most {MOST_TEXT} can be shown. Give a part of it.")
    if not data:
        raise RltokError("there is no text to show. Give at least one byte.")
    return data


def file_bytes(name: str, most: int) -> bytes:
    """The first bytes of a file, at most so many; of standard input where its name is '-'."""
    if name == "-":
        if sys.stdin is None:
            raise RltokError("standard input is closed. Pipe a text in, or name a file.")
        return sys.stdin.buffer.read(most)
    if not name:
        raise RltokError("--file is empty. Name a file, or '-' for standard input.")
    if os.path.isdir(name):
        raise RltokError(f"{name} is a folder. Name one of its files.")
    if os.path.exists(name) and not os.path.isfile(name):
        raise RltokError(f"{name} is no ordinary file. Pipe its text in: --file -")
    with Path(name).open("rb") as handle:
        return handle.read(most)


def located(options: argparse.Namespace, text: object) -> Path:
    """`locate` for a command that takes a text after the model; where there is none, what was given first may be the text."""
    try:
        return locate(options.run)
    except RltokError as error:
        run, spaces = options.run, any(map(str.isspace, options.run))
        if text or os.path.lexists(run) or not run.strip() or ("/" in run and not spaces):
            raise
        why = f"there is no run, file or model {run!r}." if spaces else str(error)
        order = f"If it is a text, name a model before it: rltok {options.command} small-english {quoted(run)}"
        raise RltokError(f"{why}{'' if why[-1] in '.?' else '.'} {order}") from error
