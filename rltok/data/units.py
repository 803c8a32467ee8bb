"""The request to `rltok prepare`, and its units of work: parts of the sources that processes read independently.

Request.units --> Unit.documents --skip_reason, split_of--> write_unit: an Arrow file of COLUMNS
"""

import codecs
import hashlib
import json
import math
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from rltok.config import LONGEST_ROW
from rltok.data import hub, tables
from rltok.data.documents import HEAD_BYTES, NULL_TEXT, SPLITS, Document, junk_reason, one_line, require_file
from rltok.data.files import select_files
from rltok.data.prepared import file_facts
from rltok.data.rows import PIECES, Cut
from rltok.data.sources import file_documents, folder_documents, is_hub, sample_documents, spec_name
from rltok.errors import RltokError

GROUP_BYTES, GROUP_FILES = 1 << 26, 4096  # text files read as one unit: a folder may hold many small ones
UNPACKED = 3  # times larger than its file is compressed text, about
BATCH_BYTES, BATCH_ROWS = 1 << 20, 1024  # of a record batch, whose text is held in memory; a longer document is one of its own
NAMED = {"null": 5, "invalid_utf8": 5, "no_text": 5}  # how many documents that are not stored are named, by reason
BEYOND = "beyond_max_bytes"
STORED = pa.schema({"text": pa.large_binary(), "source": pa.string(), "part_of": pa.uint64(), "complete": pa.bool_()})
# A row is a document that is stored. Where `reason` is not null it stands for `count` documents that are not.
COLUMNS = pa.schema([
    *STORED, ("length", pa.int64()), ("high", pa.uint64()), ("low", pa.uint64()), ("split", pa.int8()), ("size", pa.int64()),
    ("reason", pa.string()), ("count", pa.int64()), ("names", pa.list_(pa.string())),
])  # fmt: skip


@dataclass(frozen=True)
class Request:
    """What to prepare, and how.

    Attributes:
        sources: texts of which each document goes to a split by its hash.
        validation, test: texts that are these splits whatever their hashes.
        cut, sequence_length: as of `cut_documents`; "documents" stores no more than its row.
        validation_fraction, test_fraction: shares of the sources' documents in these splits.
        max_bytes: most bytes stored of the sources, and of each text of its own.
        any_bytes: store documents that are not valid UTF-8 or do not look like text.

    Raises:
        RltokError: a value out of its range.
    """

    sources: tuple[str, ...]
    cut: Cut
    sequence_length: int
    validation_fraction: float
    test_fraction: float
    max_bytes: int | None = None
    any_bytes: bool = False
    validation: str | None = None
    test: str | None = None

    def __post_init__(self) -> None:
        """Check the values."""
        length, shares = self.sequence_length, (self.validation_fraction, self.test_fraction)
        share = "at least 0 and less than 1"
        for name, value, fine, allowed in (
            ("--sequence-length", length, 8 <= length <= LONGEST_ROW, f"between 8 and {LONGEST_ROW}"),
            ("--validation-fraction", shares[0], math.isfinite(shares[0]) and 0 <= shares[0] < 1, share),
            ("--test-fraction", shares[1], math.isfinite(shares[1]) and 0 <= shares[1] < 1, share),
            ("their sum", sum(shares), sum(shares) < 1, "less than 1, or nothing is left for training"),
        ):
            if not fine:
                raise RltokError(f"{name} must be {allowed}; got {value}.")
        if self.max_bytes is not None and self.max_bytes < length:
            raise RltokError(f"--max-bytes must be at least one row of --sequence-length {length}; got {self.max_bytes}.")
        if not self.sources or not all(spec.strip() for spec in self.sources):
            raise RltokError("there is no SOURCE, or one is empty. Name a file, a folder, a pattern or a dataset.")

    def record(self) -> dict[str, Any]:
        """Plain values without folders of this machine."""
        names = {"sources": [spec_name(source) for source in self.sources]}
        names |= {role: spec_name(spec) for role in ("validation", "test") if (spec := getattr(self, role)) is not None}
        return asdict(self) | names

    def skip_reason(self, text: bytes) -> str | None:
        """Why a document is not stored, one of `prepared.SKIPPED`, or None."""
        if text is NULL_TEXT:
            return "null"
        if not text:
            return "empty"
        if not (self.any_bytes or is_utf8(text)):
            return "invalid_utf8"
        if not self.any_bytes and junk_reason(text):
            return "no_text"
        return None if PIECES[self.cut](min(len(text), self.sequence_length), self.sequence_length) else "too_short"

    def split_of(self, digest: tuple[int, int]) -> int:
        """The split of a document, as its place in SPLITS, by the digest of what is stored or of the name of the whole."""
        u = digest[0] / 2**64
        return 2 if u < self.test_fraction else 1 if u < self.test_fraction + self.validation_fraction else 0

    def units(self, force: bool, with_hub: bool = True) -> list["Unit"]:
        """All units in order; without `with_hub` those of files alone. Raises `RltokError` as `documents` does."""
        texts = [*((source, "sources") for source in self.sources), (self.validation, "validation"), (self.test, "test")]
        specs = [(spec, role) for spec, role in texts if spec is not None and (with_hub or not is_hub(spec))]
        return [unit for spec, role in specs for unit in _units(spec, role, force)]


@dataclass(frozen=True)
class Unit:
    """A part of a source that one process reads on its own.

    Attributes:
        name: for records, without folders of this machine.
        role: sources, or validation or test for a text that is this split.
        split: the split that its documents belong to whatever they are; None: by their hash.
        paths: one table, or text files in order; none for what is no file.
        folder: the folder below which text files have their names.
        spec: a dataset on the hub, or a split of the sample.
        part: (i, n) for the i-th of n files of a dataset.
        expected_bytes: bytes of text, roughly, for the progress bar; None where nothing is known.
    """

    name: str
    role: str
    split: str | None
    paths: tuple[Path, ...] = ()
    folder: Path | None = None
    spec: str = ""
    part: tuple[int, int] = (0, 1)
    expected_bytes: int | None = None

    @cached_property
    def fingerprint(self) -> str | None:
        """A short digest of the name and content of each file; None for what is no file."""
        digest = hashlib.blake2b(digest_size=8)
        for path in self.paths:
            name = path.relative_to(self.folder).as_posix() if self.folder is not None else path.name
            try:
                digest.update(f"{name}\0{file_facts(path)['sha256']}\0".encode(errors="surrogateescape"))
            except OSError as error:
                raise RltokError(
                    f"cannot read {str(path)!r}: {one_line(error)}. Check its permissions, or leave it out."
                ) from error
        return digest.hexdigest() if self.paths else None

    def file_name(self, request: Request) -> str:
        """The name of its Arrow file, which changes with the text and with the settings."""
        settings = {key: value for key, value in asdict(request).items() if key not in ("sources", "validation", "test")}
        facts = [settings, self.name, self.split, self.spec, self.part, self.fingerprint]
        return hashlib.blake2b(json.dumps(facts).encode(), digest_size=16).hexdigest() + ".arrow"

    def documents(self, force: bool, sleep: Callable[[float], None], max_bytes: int | None) -> Iterator[Document]:
        """Its documents. Nulls are `NULL_TEXT`; a text longer than `max_bytes` is cut a little behind that."""
        if self.spec.startswith("sample:"):
            return sample_documents(self.spec.removeprefix("sample:"))
        if self.spec:
            return hub.shard_documents(self.spec, opened(self.spec, force), self.part, allow_null=True, sleep=sleep)
        if self.folder is not None:
            return folder_documents(self.folder, self.paths, True, max_bytes)
        return file_documents(self.paths[0], allow_binary=True, allow_null=True, max_bytes=max_bytes)


@lru_cache(maxsize=2)
def opened(spec: str, force: bool) -> Any:
    """A dataset on the hub, resolved once per process: with thousands of files that takes seconds."""
    return hub.open_texts(spec, force)


def _text_bytes(path: Path) -> int:
    """Approximate bytes of text in a file, without reading it."""
    name = path.name.lower()
    if name.endswith(tables.PARQUET_SUFFIXES):
        return tables.parquet_text_bytes(path)
    return os.path.getsize(path) * (UNPACKED if name.endswith((".gz", ".zst")) else 1)


def _groups(paths: list[Path]) -> Iterator[list[Path]]:
    """Consecutive files in groups of at most GROUP_BYTES and GROUP_FILES, at least one file each."""
    group, size = [], 0
    for path in paths:
        if group and (size + os.path.getsize(path) > GROUP_BYTES or len(group) == GROUP_FILES):
            yield group
            group, size = [], 0
        group.append(path)
        size += os.path.getsize(path)
    yield group


def _units(spec: str, role: str, force: bool) -> list[Unit]:
    """The units of one text, in order. Asks the hub how many files a dataset has.

    Raises:
        RltokError: nothing is there that `documents` would take.
    """
    split = None if role == "sources" else role
    if spec == "sample":
        return [Unit(f"sample:{part}", role, split or part, spec=f"sample:{part}") for part in SPLITS]
    if spec.startswith("sample:"):
        next(sample_documents(spec.removeprefix("sample:")))  # an error for another word
        return [Unit(spec, role, split, spec=spec)]
    if is_hub(spec):
        spec = hub.ALIASES.get(spec, spec)
        count = opened(spec, force).num_shards
        return [Unit(f"{spec}, file {i + 1} of {count}", role, split, spec=spec, part=(i, count)) for i in range(count)]
    selection = select_files(spec)
    for path in selection.paths:
        require_file(path)
    if not selection.whole:
        return [Unit(selection.name(path), role, split, (path,), expected_bytes=_text_bytes(path)) for path in selection.paths]
    units = []
    for group in _groups(selection.paths):
        name = f"{selection.base.resolve().name}/{selection.name(group[0])}"
        name += f" and {len(group) - 1} more" if len(group) > 1 else ""
        units.append(Unit(name, role, split, tuple(group), selection.base, expected_bytes=sum(map(os.path.getsize, group))))
    return units


def is_utf8(text: bytes) -> bool:
    """Whether bytes are valid UTF-8 from end to end."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        for start in range(0, len(text), HEAD_BYTES):  # as a string at once it would take up to five times as much memory
            decoder.decode(memoryview(text)[start : start + HEAD_BYTES])
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return False
    return True


def digest_of(text: bytes) -> tuple[int, int]:
    """The 16-byte BLAKE2b digest of a text as two 64-bit numbers."""
    digest = hashlib.blake2b(text, digest_size=16).digest()
    return int.from_bytes(digest[:8], "big"), int.from_bytes(digest[8:], "big")


def _rows(unit: Unit, documents: Iterable[Document], request: Request, tell: Callable[[int], None]) -> Iterator[tuple[Any, ...]]:
    """Rows of COLUMNS: the documents that are stored, then one row for each reason why others are not."""
    stored, left_out = 0, {}
    for document in documents:
        text = document.text[: request.sequence_length] if request.cut == "documents" else document.text
        reason = request.skip_reason(document.text)
        if reason is None and request.max_bytes is not None and stored + len(text) > request.max_bytes:
            left_out[BEYOND] = (1, 0, ())
            break
        tell(len(document.text))
        if reason is not None:
            count, size, names = left_out.get(reason, (0, 0, ()))
            names += (f"{unit.name}: {document.id}",) * (len(names) < NAMED.get(reason, 0))
            left_out[reason] = (count + 1, size + len(document.text), names)
            continue
        digest = digest_of(text)
        whole = digest_of(f"{document.source}\0{document.whole}".encode()) if document.whole else None
        split = request.split_of(whole or digest) if unit.split is None else SPLITS.index(unit.split)
        part_of = max(1, whole[0]) if whole else 0
        size, complete = len(document.text), len(text) == len(document.text)
        yield text, document.source, part_of, complete, len(text), *digest, split, size, None, 1, ()
        stored += len(text)
    for reason, (count, size, names) in left_out.items():
        yield b"", "", 0, True, 0, 0, 0, -1, size, reason, count, names


def _batch(rows: list[tuple[Any, ...]]) -> pa.RecordBatch:
    """Rows as a record batch; a single text is not copied."""
    texts, *columns = zip(*rows, strict=True)
    offsets = np.concatenate([[0], np.cumsum([len(text) for text in texts])]).astype(np.int64)
    text = pa.Array.from_buffers(pa.large_binary(), len(rows), [None, pa.py_buffer(offsets), pa.py_buffer(b"".join(texts))])
    arrays = [pa.array(column, field.type) for column, field in zip(columns, list(COLUMNS)[1:], strict=True)]
    return pa.record_batch([text, *arrays], schema=COLUMNS)


@contextmanager
def new_arrow(path: Path, schema: pa.Schema) -> Iterator[pa.RecordBatchFileWriter]:
    """A writer of an Arrow file, which is renamed to its final name once it is complete and on the disk."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        with pa.OSFile(str(temporary), "wb") as sink, pa.ipc.new_file(sink, schema) as writer:
            yield writer
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def write_unit(
    unit: Unit, path: Path, request: Request, force: bool, tell: Callable[[int], None], sleep: Callable[[float], None]
) -> None:  # fmt: skip
    """Read a unit and write its Arrow file.

    Args:
        path: the file.
        force: ask the hub without first testing that it answers.
        tell: called with the bytes of each document.
        sleep: waits before another try to reach the hub.

    Raises:
        RltokError: text that cannot be read; there is no file then.
    """
    rows, size = [], 0
    with new_arrow(path, COLUMNS) as writer:
        for row in _rows(unit, unit.documents(force, sleep, request.max_bytes), request, tell):
            if rows and (size + len(row[0]) > BATCH_BYTES or len(rows) == BATCH_ROWS):
                writer.write_batch(_batch(rows))
                rows, size = [], 0
            rows.append(row)
            size += len(row[0])
        if rows:
            writer.write_batch(_batch(rows))
