"""What a document is, and whether bytes look like text at all."""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from rltok.errors import RltokError

HEAD_BYTES = 1 << 16  # how much of a file is looked at
MAX_JUNK = 0.3  # share of bytes that are no UTF-8 or control codes; Latin-1 text stays far below, compressed data far above

# tab, line ends, form feed, backspace, bell and escape do occur in text files
_CONTROL = bytes(code for code in (*range(32), 127) if code not in (7, 8, 9, 10, 11, 12, 13, 27))


class Document(NamedTuple):
    """One text with where it came from. No field holds a folder of this machine."""

    text: bytes
    source: str  # corpus or file it belongs to
    id: str  # its name there
    whole: str = ""  # of a part of a longer document: the name of the whole; empty for a document that is whole itself


class _NullText(bytes):
    """Empty text of its own, so that a table's null can be told from an empty string."""


NULL_TEXT = _NullText()  # the text of a row whose text is null


def label_of(value: Any, otherwise: str) -> str:
    """A source or id that a table states, as text that has a UTF-8 form; the other one where the row states none."""
    if value is None or value != value:  # null, or the NaN that pandas puts in its place
        return otherwise
    text = value.decode(errors="backslashreplace") if isinstance(value, bytes) else str(value)
    return text.encode(errors="backslashreplace").decode()


def printable(name: str) -> str:
    """A file's name on one line: what cannot be printed is escaped."""
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


def require_text(documents: Iterable[Document], name: str) -> Iterator[Document]:
    """The same documents; raises `RltokError` at the end when there was no byte of text among them."""
    found = False
    for document in documents:
        found = found or len(document.text) > 0
        yield document
    if not found:
        raise RltokError(f"{name!r} holds no text: it is empty, or every document in it is. Give another file or folder.")


def one_line(error: BaseException) -> str:
    """A library's message on one line, at most 200 characters."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= 200 else text[:197] + "..."
