"""Bytes as ids, and ids back to text.

    text --UTF-8--> bytes 0..255 --encode--> ids;  BOS, EOS and PAD frame them in a row;  ids --decode--> bytes

Nothing is learned here: every byte is its own id, so that any file can be read and no text is ever out of vocabulary.
"""

import codecs
from collections.abc import Iterable
from typing import Any

import numpy as np

from rltok.errors import RltokError

BOS = 256  # first id of every row, never predicted
EOS = 257  # after the last byte of a document that ends inside its row
PAD = 258  # fills a row after that, never predicted and never scored
NUM_IDS = 259
PADDED_IDS = 264  # rows of embedding and heads: the next multiple of 8, which tensor cores want
PREDICTED = (*range(256), EOS)  # the 257 ids that a head may give probability to
Texts = str | bytes | Iterable[str | bytes]  # one text or several: what takes it, passes it to `as_texts`


def to_utf8(text: str | bytes) -> bytes:
    """UTF-8 bytes of a string; bytes pass unchanged. Raises `RltokError` for half a surrogate pair, and for no text."""
    if isinstance(text, bytes):
        return text
    if not isinstance(text, str):
        raise RltokError(f"a text must be str or bytes; got {type(text).__name__}. Give one text, such as 'Once upon a time'.")
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise RltokError(
            f"character {error.start} is the lone surrogate U+{ord(text[error.start]):04X}, which has no UTF-8 form."
            " Remove it, or give bytes."
        ) from error


def as_texts(texts: Texts) -> list[bytes]:
    """UTF-8 bytes of each of several texts; a plain string is one text, not one a letter. Raises `RltokError` as `to_utf8`."""
    several = isinstance(texts, Iterable) and not isinstance(texts, str | bytes)
    return [to_utf8(text) for text in (texts if several else [texts])]


def encode(text: str | bytes) -> np.ndarray:
    """Ids of a text, int64 [n], one per byte, without BOS or EOS."""
    return np.frombuffer(to_utf8(text), dtype=np.uint8).astype(np.int64)


def decode(ids: Iterable[Any]) -> bytes:
    """Bytes of ids [n] (integers, an array or a CPU tensor) without BOS, EOS and PAD. Raises `RltokError` for any other id."""
    array = np.asarray(ids if hasattr(ids, "__len__") else list(ids)).reshape(-1)
    if array.size == 0:
        return b""
    if not np.issubdtype(array.dtype, np.integer):
        raise RltokError(f"ids must be whole numbers from 0 to {NUM_IDS - 1}; got {array.dtype}. Convert them to integers first.")
    wrong = array[(array < 0) | (array >= NUM_IDS)]
    if wrong.size:
        raise RltokError(
            f"ids must lie between 0 and {NUM_IDS - 1} (bytes, BOS, EOS, PAD); got {wrong[0]}."
            f" Predict only the {len(PREDICTED)} ids of vocab.PREDICTED."
        )
    return array[array < BOS].astype(np.uint8).tobytes()


class StreamingDecoder:
    """Text from ids that arrive in pieces. Never returns half a character; invalid bytes become U+FFFD."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def feed(self, ids: int | np.integer | bytes | Iterable[Any]) -> str:
        """The characters completed by one more id, or by a chunk of ids or bytes; BOS, EOS and PAD add nothing."""
        if not isinstance(ids, bytes):
            ids = decode([ids] if isinstance(ids, int | np.integer) else ids)
        return self._decoder.decode(ids)

    def finish(self) -> str:
        """What an unfinished character at the end decodes to (U+FFFD, or nothing); the decoder then starts afresh."""
        return self._decoder.decode(b"", final=True)


def character_spans(data: bytes) -> list[tuple[int, int]]:
    """(start, stop) of every UTF-8 character in turn; a byte that belongs to no valid character is a span of its own.

    The spans tile the data. Views show a character once, with the value of its last byte, `stop - 1`.
    """
    spans, start = [], 0
    for character in data.decode("utf-8", errors="surrogateescape"):
        # an invalid byte comes out as one lone surrogate, which valid UTF-8 can never produce
        stop = start + (1 if 0xDC80 <= ord(character) <= 0xDCFF else len(character.encode("utf-8")))
        spans.append((start, stop))
        start = stop
    return spans
