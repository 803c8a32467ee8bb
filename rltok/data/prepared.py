"""A folder that `rltok prepare` wrote: an Arrow file for each split, whose text stays on the disk, and a record of them.

    train.arrow  validation.arrow  test.arrow  prepared.json

The files have the columns `text` (bytes), `source`, `part_of` (what the parts of one document share, 0 for a whole document) and
`complete` (false where the text is only the beginning of its document); any library that reads Arrow opens them.
"""

import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rltok.config import DataConfig
from rltok.data.documents import one_line
from rltok.data.rows import MIN_TAIL, Cut, MappedBytes, Rows, require_a_row
from rltok.errors import RltokError
from rltok.system.digest import digest_matches
from rltok.system.files import MISSING, read_file, require_regular

RECORD, UNFINISHED = "prepared.json", ".unfinished"
OLD_REQUEST = "request.json"  # up to schema 2
PREPARED = "rltok prepare"
PREPARED_SCHEMA = 3  # 3: Arrow files
TIMING = ("seconds", "bytes", "bytes_per_second")
NOT_IN_DIGEST = ("timing",)  # differs from one preparation to the next, and nothing depends on it
AGAIN = "Delete the folder and give the same `rltok prepare` again."
SKIPPED = ("too_short", "empty", "null", "invalid_utf8", "no_text")  # why a document is not stored
_REMEDY = {
    "train": "Prepare more text, or load with a smaller data.sequence_length.",
    "validation": "Give --validation TEXT, or prepare with a larger --validation-fraction.",
    "test": "Prepare with --test TEXT, or with a larger --test-fraction.",
}


def is_prepared(spec: Any) -> bool:
    """Whether a spec names a folder in which `rltok prepare` has worked."""
    if not isinstance(spec, str | Path) or not os.path.isdir(spec):
        return False
    return any(os.path.exists(os.path.join(spec, name)) for name in (RECORD, UNFINISHED, OLD_REQUEST))


def piece_counts(sizes: np.ndarray, sequence_length: int, cut: Cut) -> np.ndarray:
    """The number of rows that `rows.PIECES` cuts from documents of these sizes."""
    full, rest = np.divmod(sizes, sequence_length)
    if cut == "documents":
        return np.minimum(full, 1)
    return full + (rest >= min(MIN_TAIL, sequence_length)) if cut == "windows" else full


def arrow_batches(path: Path, mapped: bool = False) -> Iterator[tuple[Any, int]]:
    """The record batches of an Arrow file, one by one.

    Args:
        path: the file.
        mapped: map the file instead of reading it; each batch comes with the address of the file's first byte, otherwise 0.

    Raises:
        RltokError: a file that is not whole.
    """
    import pyarrow as pa

    try:
        with pa.memory_map(str(path)) if mapped else pa.OSFile(str(path)) as file:
            address = file.read_buffer().address if mapped else 0
            file.seek(0)
            reader = pa.ipc.open_file(file)
            for number in range(reader.num_record_batches):
                yield reader.get_batch(number), address
    except (OSError, pa.ArrowInvalid) as error:
        raise RltokError(f"{path} is damaged ({one_line(error)}). {AGAIN}") from error


@dataclass(frozen=True)
class Prepared:
    """A finished folder and its record."""

    folder: Path
    record: dict[str, Any]

    @property
    def name(self) -> str:
        """The folder's own name, for records."""
        return self.folder.resolve().name

    def text_bytes(self, split: str) -> int:
        """Bytes of text in a split."""
        return self.record["splits"][split]["bytes"]

    def describe(self, split: str) -> dict[str, int] | None:
        """The entry of a split in a run's record if its rows are not read; None if it is empty."""
        counts = self.record["splits"][split]
        return {"documents": counts["documents"], "bytes": counts["bytes"]} if counts["documents"] else None

    def damaged(self, hashed: bool = True) -> list[str]:
        """What is wrong with the files, a line each.

        Args:
            hashed: read them whole and compare hashes; otherwise only their sizes are looked at.
        """
        return [line for name, file in self.record["files"].items() if (line := _damage(self.folder, name, file, hashed))]

    def verify(self) -> None:
        """Raise `RltokError` for the first file that is not what was written."""
        if damaged := self.damaged():
            raise RltokError(damaged[0])

    def check_cut(self, config: DataConfig) -> None:
        """Raise `RltokError` for rows that cannot be cut from what is stored."""
        stored = self.record["settings"]
        has = (stored["cut"], stored["sequence_length"])
        if has[0] == "documents" and (config.cut, config.sequence_length) != has:
            raise RltokError(
                f"{self.folder} holds the first {has[1]} bytes of documents (prepared with cut=documents,"
                f" sequence_length={has[1]}), and data.cut={config.cut} data.sequence_length={config.sequence_length} was asked"
                f" for. Set data.cut=documents data.sequence_length={has[1]}, or prepare with --cut windows."
            )

    def rows(self, split: str, config: DataConfig, max_bytes: int | None = None) -> Rows:
        """The rows of a split, mapped from its file.

        Raises:
            RltokError: another cut than was prepared, a damaged file, or no row.
        """
        self.check_cut(config)
        width, cut = config.sequence_length, config.cut
        require_a_row(max_bytes, width)
        path = self.folder / f"{split}.arrow"
        start, sizes, part_of, complete = _stored_documents(path)
        counts = piece_counts(sizes, width, cut)
        document = np.repeat(np.arange(len(sizes), dtype=np.int32), counts)
        begin = (np.arange(len(document)) - np.repeat(np.cumsum(counts) - counts, counts)) * width
        lengths = np.minimum(width, sizes[document] - begin).astype(np.int32)
        ends = (begin + lengths == sizes[document]) & complete[document]
        start = start[document] + begin
        number = _join_parts(document, part_of)
        if max_bytes is not None:
            count, last = _within(lengths, max_bytes, min(MIN_TAIL, width) if cut == "windows" else width, width)
            start, lengths, ends, number = start[:count], lengths[:count], ends[:count], number[:count]
            if last is not None:
                lengths[-1], ends[-1] = last, False
        if not len(lengths):
            raise RltokError(f"{self.folder} has no {split} document for a row of data.sequence_length={width}. {_REMEDY[split]}")
        skipped = int((counts == 0).sum()) + sum(self.record["read"][reason] for reason in SKIPPED)
        return Rows(
            MappedBytes(path, start, lengths, width), lengths, ends, number,
            name=self.name, cut=cut, skipped_documents=skipped if split == "train" else 0,
        )  # fmt: skip


def _stored_documents(path: Path) -> tuple[np.ndarray, ...]:
    """Where the text of each document starts in an Arrow file, how many bytes it has, its `part_of` and `complete`; each [n]."""
    columns = [(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.uint64), np.zeros(0, bool))]
    for batch, address in arrow_batches(path, mapped=True):
        _, offsets, text = batch.column("text").buffers()
        offsets = np.frombuffer(offsets, dtype=np.int64, count=len(batch) + 1)
        complete = batch.column("complete").to_numpy(zero_copy_only=False)
        columns.append((text.address - address + offsets[:-1], np.diff(offsets), batch.column("part_of").to_numpy(), complete))
    return tuple(np.concatenate(each) for each in zip(*columns, strict=True))


def _join_parts(document: np.ndarray, part_of: np.ndarray) -> np.ndarray:
    """The document number of each row; all parts of one document get that of its first row."""
    number, key = document.copy(), part_of[document]
    parts = np.flatnonzero(key)
    _, first, which = np.unique(key[parts], return_index=True, return_inverse=True)
    number[parts] = document[parts][first][which]
    return number


def _within(lengths: np.ndarray, max_bytes: int, least: int, width: int) -> tuple[int, int | None]:
    """The number of rows within `max_bytes`, and the bytes of the last one if it is cut short, as in `cut_documents`."""
    reached = np.cumsum(lengths, dtype=np.int64)
    count = int(np.searchsorted(reached, max_bytes, side="right"))
    left = max_bytes - (int(reached[count - 1]) if count else 0)
    if count < len(lengths) and least <= left < width and least < width:
        return count + 1, left
    return count, None


def file_facts(path: Path) -> dict[str, Any]:
    """Size and SHA-256 of a file, in the form of a record."""
    require_regular(path)
    with path.open("rb") as file:
        return {"bytes": os.fstat(file.fileno()).st_size, "sha256": hashlib.file_digest(file, "sha256").hexdigest()}


def _damage(folder: Path, name: str, stated: dict[str, Any], hashed: bool) -> str | None:
    """One line that says how a file differs from the record, or None."""
    path = folder / name
    if os.path.exists(path) and not os.path.isfile(path):
        return f"{name} of {folder} is no ordinary file. {AGAIN}"
    try:
        size = path.stat().st_size
        if size != stated["bytes"]:
            return f"{name} of {folder} is damaged: expected {stated['bytes']} bytes, found {size}. {AGAIN}"
        digest = file_facts(path)["sha256"] if hashed else stated["sha256"]
    except OSError as error:
        return f"{name} of {folder} cannot be read ({one_line(error)}). {AGAIN}"
    if digest != stated["sha256"]:
        return f"{name} of {folder} is damaged: expected SHA-256 {stated['sha256']}, found {digest}. {AGAIN}"
    return None


def open_prepared(spec: str | Path) -> Prepared:
    """Open a prepared folder without reading its Arrow files.

    Raises:
        RltokError: the folder is not finished, damaged, or of another version of rltok.
    """
    folder = Path(spec)
    path = folder / RECORD
    try:
        record = json.loads(read_file(path))
        if record["what"] == PREPARED and record["schema"] != PREPARED_SCHEMA:
            raise _of_another_version(folder)
        timing = [record["timing"][key] for key in TIMING]
        if (
            record["what"] == PREPARED
            and digest_matches(record, NOT_IN_DIGEST)
            and all(isinstance(time, int | float) for time in timing)
        ):
            return Prepared(folder, record)
        raise RltokError(f"{path} is damaged: its digest is not that of its entries. {AGAIN}")
    except MISSING as error:
        if (folder / OLD_REQUEST).exists():
            raise _of_another_version(folder) from error
        raise RltokError(f"{folder} is not finished. Give the `rltok prepare` command that began it again.") from error
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        if isinstance(error, RltokError):
            raise
        raise RltokError(f"{path} is damaged ({one_line(error)}). {AGAIN}") from error


def _of_another_version(folder: Path) -> RltokError:
    return RltokError(
        f"{folder} was written by another version of rltok prepare, in a format that this one does not read. Prepare its text"
        " again, with another --out."
    )
