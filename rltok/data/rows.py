"""Documents cut into rows of N bytes, the only form in which the model sees text.

    documents --cut_documents--> Rows --ids(indices)--> [B, N+1]: BOS, bytes, EOS where a document ends early, PAD

A row may begin or end inside a character: to a byte model that is text like any other.
"""

import hashlib
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from rltok import vocab
from rltok.data.documents import Document
from rltok.errors import RltokError

Cut = Literal["documents", "windows", "full_windows"]
MIN_TAIL = 16  # bytes: a shorter rest of a document is not worth a row
HASHED_ROWS = 1024  # read at a time


class MappedBytes:
    """uint8 [R, N], read-only: rows are copied out of a mapped file when indexed, and padded with zeros.

    A copy sent to another process carries the file's name, not its bytes.

    Args:
        path: the file.
        start: where in it each row begins, [R].
        lengths: bytes of each row, [R], at most N.
        width: N.
    """

    def __init__(self, path: Path, start: np.ndarray, lengths: np.ndarray, width: int) -> None:
        self._path, self._start, self._lengths = path, start, lengths
        self.shape = (len(lengths), width)
        self.dtype = np.dtype(np.uint8)

    @cached_property
    def _file(self) -> np.ndarray:
        return np.memmap(self._path, dtype=np.uint8, mode="r")

    def __getstate__(self) -> dict[str, Any]:
        """The state without the map, which belongs to this process."""
        return {name: value for name, value in self.__dict__.items() if name != "_file"}

    def __len__(self) -> int:
        """R, the number of rows."""
        return self.shape[0]

    def view(self, indices: slice | np.ndarray | Sequence[int]) -> "MappedBytes":
        """Some of the rows in the order given, without reading them."""
        return MappedBytes(self._path, self._start[indices], self._lengths[indices], self.shape[1])

    def __getitem__(self, key: Any) -> Any:
        """A copy of one row (a number), of some (a slice or an array), or of a part of them (a pair), as from an array."""
        rows, *rest = key if isinstance(key, tuple) else (key,)
        if isinstance(rows, int | np.integer):
            return self._read(np.array([range(len(self))[rows]]))[0][tuple(rest)]
        return self._read(np.arange(len(self))[rows])[(slice(None), *rest)]

    def _read(self, rows: np.ndarray) -> np.ndarray:
        copies = np.zeros((len(rows), self.shape[1]), dtype=np.uint8)
        for copy, start, length in zip(copies, self._start[rows], self._lengths[rows], strict=True):
            copy[:length] = self._file[start : start + length]
        return copies


@dataclass(frozen=True, eq=False)
class Rows:
    """R rows of at most N bytes in corpus order. The arrays are read-only, and a subset by slice shares them."""

    bytes_: np.ndarray | MappedBytes  # uint8 [R, N], zero after a row's length
    lengths: np.ndarray  # int32 [R], 1 to N
    ends_document: np.ndarray  # bool [R]: the row's last byte is the last of its document
    document: np.ndarray  # int32 [R]: number of the row's document in the corpus; parts of one, read in turn, share it
    name: str
    cut: Cut
    skipped_documents: int = field(default=0)  # too short for a row; 0 in a subset

    def __post_init__(self) -> None:
        for array in (self.bytes_, self.lengths, self.ends_document, self.document):
            if isinstance(array, np.ndarray):
                array.flags.writeable = False

    def __len__(self) -> int:
        """R, the number of rows."""
        return len(self.lengths)

    @property
    def sequence_length(self) -> int:
        """N, the bytes of a full row."""
        return self.bytes_.shape[1]

    @property
    def num_documents(self) -> int:
        """How many documents have at least one row here."""
        return len(np.unique(self.document))

    @property
    def total_bytes(self) -> int:
        """Bytes of text in all rows."""
        return int(self.lengths.sum(dtype=np.int64))

    @property
    def scored(self) -> np.ndarray:
        """int [R]: predictions of each row: its bytes, and the end mark if its document ends before N bytes."""
        return self.lengths + (self.ends_document & (self.lengths < self.sequence_length))

    @cached_property
    def hash(self) -> str:
        """First 16 hex digits of the SHA-256 of everything that decides `ids`: N, bytes, lengths, ends."""
        digest = hashlib.sha256(str(self.sequence_length).encode())
        for start in range(0, len(self), HASHED_ROWS):
            digest.update(np.ascontiguousarray(self.bytes_[start : start + HASHED_ROWS]))
        digest.update(self.lengths.astype("<i4").tobytes())
        digest.update(self.ends_document.astype(np.uint8).tobytes())
        return digest.hexdigest()[:16]

    def ids(self, indices: np.ndarray | Sequence[int]) -> torch.Tensor:
        """Input ids int64 [B, N+1] of rows [B]: BOS, the bytes, EOS if the document ends before N bytes, then PAD."""
        indices = np.asarray(indices, dtype=np.int64)
        lengths = self.lengths[indices, None]
        position = np.arange(self.sequence_length)
        ids = np.full((len(indices), self.sequence_length + 1), vocab.BOS, dtype=np.int64)
        ids[:, 1:] = self.bytes_[indices]
        if (lengths < self.sequence_length).any():  # most batches have full rows only, and masks take time
            ids[:, 1:][position >= lengths] = vocab.PAD
            ids[:, 1:][(position == lengths) & self.ends_document[indices, None]] = vocab.EOS
        return torch.from_numpy(ids)

    def subset(self, indices: slice | np.ndarray) -> "Rows":
        """Some of the rows, in the order given: a slice shares memory, an index array copies; mapped rows stay in their files."""
        bytes_ = self.bytes_.view(indices) if isinstance(self.bytes_, MappedBytes) else self.bytes_[indices]
        arrays = (array[indices] for array in (self.lengths, self.ends_document, self.document))
        return Rows(bytes_, *arrays, name=self.name, cut=self.cut)


@dataclass
class _Cutter:
    """Rows under construction. Bytes go to one growing buffer, so memory stays near the size of the text."""

    sequence_length: int
    max_bytes: int | None
    buffer: bytearray = field(default_factory=bytearray)
    lengths: list[int] = field(default_factory=list)
    ends: list[bool] = field(default_factory=list)
    document: list[int] = field(default_factory=list)
    num_documents: int = 0
    parted: dict[tuple[str, str], int] = field(default_factory=dict)  # source and name of documents in parts -> their number
    skipped: int = 0
    longest: int = 0
    kept: int = 0

    def room(self) -> float:
        """Bytes that may still be added; infinity without a limit."""
        return math.inf if self.max_bytes is None else self.max_bytes - self.kept

    def add(self, document: Document, pieces: list[tuple[int, int]]) -> None:
        """Add (start, stop) pieces of one document as rows; a document without pieces is counted as skipped."""
        text, number = document.text, self.num_documents
        if document.whole:  # its parts need not follow each other
            number = self.parted.setdefault((document.source, document.whole), number)
        self.num_documents += number == self.num_documents
        self.longest = max(self.longest, len(text))
        self.skipped += not pieces
        for start, stop in pieces:
            self.buffer += memoryview(text)[start:stop]
            self.buffer += bytes(self.sequence_length - (stop - start))
            self.lengths.append(stop - start)
            self.ends.append(stop == len(text))
            self.document.append(number)
            self.kept += stop - start


def first_bytes(size: int, sequence_length: int) -> list[tuple[int, int]]:
    """Cut "documents": the first N bytes of a document of at least N, as (start, stop); shorter ones give nothing."""
    return [(0, sequence_length)] if size >= sequence_length else []


def windows(size: int, sequence_length: int) -> list[tuple[int, int]]:
    """Cut "windows": consecutive (start, stop) of N bytes, then the rest if it has at least MIN_TAIL bytes."""
    starts = range(0, size, sequence_length)
    return [(s, min(s + sequence_length, size)) for s in starts if size - s >= min(MIN_TAIL, sequence_length)]


def full_windows(size: int, sequence_length: int) -> list[tuple[int, int]]:
    """Cut "full_windows": consecutive (start, stop) of N bytes, the rest dropped."""
    return [(s, s + sequence_length) for s in range(0, size - sequence_length + 1, sequence_length)]


PIECES = {"documents": first_bytes, "windows": windows, "full_windows": full_windows}


def _until_full(documents: Iterable[Document], cutter: _Cutter, smallest: int) -> Iterator[Document]:
    """Documents until the room left is less than the smallest row: a stream is not read further than needed."""
    for document in documents:
        yield document
        if cutter.room() < smallest:
            return


def require_a_row(max_bytes: int | None, sequence_length: int) -> None:
    """Raise `RltokError` when a limit in bytes leaves no room for a row."""
    if max_bytes is not None and max_bytes < sequence_length:
        raise RltokError(
            f"max_bytes={max_bytes} is less than one row of data.sequence_length={sequence_length} bytes."
            " Raise the first or lower the second."
        )


def cut_documents(
    documents: Iterable[Document], sequence_length: int, cut: Cut, *, name: str, max_bytes: int | None = None
) -> Rows:
    """Rows of `sequence_length` = N bytes from a stream of documents.

    Args:
        cut: "documents" keeps the first N bytes of each document of at least N bytes (the paper's rule) and skips the
            others; "windows" keeps consecutive windows of N bytes and a shorter row for a rest of at least 16;
            "full_windows" keeps the windows of N bytes alone.
        name: what the rows are called in records.
        max_bytes: reading stops when so many bytes are kept; never more are.

    Raises:
        RltokError: no row came out, or `max_bytes` is less than one row.
    """
    require_a_row(max_bytes, sequence_length)
    cutter = _Cutter(sequence_length, max_bytes)
    smallest = min(MIN_TAIL, sequence_length) if cut == "windows" else sequence_length
    for document in _until_full(documents, cutter, smallest):
        cutter.add(document, PIECES[cut](min(len(document.text), cutter.room()), sequence_length))
    if not cutter.lengths:
        raise RltokError(_no_rows(cutter, name, cut, smallest))
    return Rows(
        np.frombuffer(cutter.buffer, dtype=np.uint8).reshape(-1, sequence_length),
        np.array(cutter.lengths, dtype=np.int32),
        np.array(cutter.ends, dtype=bool),
        np.array(cutter.document, dtype=np.int32),
        name=name,
        cut=cut,
        skipped_documents=cutter.skipped,
    )


def _no_rows(cutter: _Cutter, name: str, cut: Cut, smallest: int) -> str:
    """Message for text that is too short for a single row."""
    remedy = "Set data.cut=windows, or a smaller data.sequence_length" if cut != "windows" else "Give more text"
    return (
        f"{name!r} has no document of at least {smallest} bytes, which data.cut={cut} needs for a row;"
        f" the longest of {cutter.num_documents} has {cutter.longest}. {remedy}."
    )
