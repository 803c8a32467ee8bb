"""Documents, a check whether bytes look like text, and a text file as one document."""

import codecs
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from rltok.errors import RltokError

HEAD_BYTES = 1 << 16  # how much of a file is looked at
CHARACTER = 4  # most bytes of one in UTF-8
SPLITS = ("train", "validation", "test")
MAX_JUNK = 0.3  # share of bytes that are no UTF-8 or control codes; Latin-1 text stays far below, compressed data far above

# tab, line ends, form feed, backspace, bell and escape do occur in text files
_CONTROL = bytes(code for code in (*range(32), 127) if code not in (7, 8, 9, 10, 11, 12, 13, 27))


class Document(NamedTuple):
    """One text with where it came from. No field holds a folder of this machine."""

    text: bytes
    source: str  # corpus or file it belongs to
    id: str  # its name there
    whole: str = ""  # for a part of a longer document, the name of that document; empty otherwise


class _NullText(bytes):
    """Empty text of a type of its own, which distinguishes a table's null from an empty string."""


NULL_TEXT = _NullText()  # the text of a row whose text is null


def label_of(value: Any, otherwise: str) -> str:
    """A source or id from a table as valid UTF-8; `otherwise` if the row has none."""
    if value is None or value != value:  # null, or the NaN that pandas puts in its place
        return otherwise
    text = value.decode(errors="backslashreplace") if isinstance(value, bytes) else str(value)
    return text.encode(errors="backslashreplace").decode()


def printable(name: str) -> str:
    """A file's name on one line, with escapes for what cannot be printed."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in name)


def junk_reason(data: bytes) -> str | None:
    """Why bytes do not look like UTF-8 text, judged by the first 64 KiB, or None when they do."""
    head = data[:HEAD_BYTES]
    if b"\0" in head:
        return f"byte {head.index(0)} is NUL"
    escaped = head.decode("utf-8", errors="surrogateescape")
    invalid = sum(0xDC80 <= ord(character) <= 0xDCFF for character in escaped)
    control = len(head) - len(head.translate(None, delete=_CONTROL))
    share = (invalid + control) / max(1, len(head))
    if share > MAX_JUNK:
        return f"{share:.0%} of its first {len(head)} bytes are control codes or no UTF-8"
    return None


def check_text(data: bytes, name: str, allow_binary: bool) -> bytes:
    """The data unchanged; raises `RltokError` when it does not look like text and `allow_binary` is False."""
    reason = None if allow_binary else junk_reason(data)
    if reason:
        raise RltokError(
            f"{name!r} does not look like text: {reason}. Convert it to UTF-8, leave it out,"
            " or let any bytes through (--any-bytes, allow_binary=True)."
        )
    return data


def require_file(path: Path) -> None:
    """Raise `RltokError` unless the path is an ordinary file: a pipe or device would block or never end."""
    if not os.path.isfile(path):
        if os.path.islink(path) and not os.path.exists(path):
            raise RltokError(f"cannot read {str(path)!r}: it is a link to nothing. Mend the link, or remove it.")
        kind = "a folder" if os.path.isdir(path) else "not an ordinary file" if os.path.exists(path) else "missing"
        raise RltokError(f"cannot read {str(path)!r}: it is {kind}. Name an existing file.")


def read_text_file(path: Path, source: str, name: str, allow_binary: bool, max_bytes: int | None = None) -> Document:
    """A whole file as one document; of a file longer than `max_bytes`, a beginning a little longer than that.

    Such a beginning ends with a whole character, so that it is valid UTF-8 where the file is.

    Raises:
        RltokError: the file cannot be read or does not look like text.
    """
    require_file(path)
    try:
        if max_bytes is None or os.path.getsize(path) <= (most := max(0, max_bytes) + CHARACTER):
            data = path.read_bytes()
        else:
            with path.open("rb") as file:
                data = _whole_characters(file.read(most))
    except OSError as error:
        raise RltokError(f"cannot read {str(path)!r}: {one_line(error)}. Check its permissions, or leave it out.") from error
    return Document(check_text(data, str(path), allow_binary), label_of(source, ""), label_of(name, ""))


def _whole_characters(data: bytes) -> bytes:
    """The bytes without an incomplete character at the end."""
    decoder = codecs.getincrementaldecoder("utf-8")(errors="ignore")
    decoder.decode(data[-CHARACTER:])
    waiting, _ = decoder.getstate()
    return data[: len(data) - len(waiting)]


def require_text(documents: Iterable[Document], name: str) -> Iterator[Document]:
    """The same documents; raises `RltokError` at the end when there was no byte of text among them."""
    has_text = False
    for document in documents:
        has_text = has_text or len(document.text) > 0
        yield document
    if not has_text:
        raise RltokError(f"{name!r} holds no text: it is empty, or every document in it is. Give another file or folder.")


def one_line(error: BaseException) -> str:
    """A library's message on one line, at most 200 characters."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= 200 else text[:197] + "..."
