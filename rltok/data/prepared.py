"""Reading a folder that `rltok prepare` wrote: rows that stay in its files, after every file has shown its hash."""

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rltok.config import DataConfig
from rltok.data.documents import one_line
from rltok.data.duplicates import KEPT
from rltok.data.mapped import MappedBytes
from rltok.data.rows import MIN_TAIL, Cut, Rows, require_a_row
from rltok.data.shards import AGAIN, SPLITS, check_files, entries, mapped_array
from rltok.errors import RltokError
from rltok.system.digest import is_sealed
from rltok.system.files import read_file

RECORD, REQUEST, KEPT_FILE = "prepared.json", "request.json", "kept.npy"
WHAT = "rltok prepare"
SCHEMA = 2  # 2: with digests, and fingerprints of sources


TIMING = ("seconds", "bytes", "bytes_per_second")
UNSEALED = ("timing",)  # differs from session to session, and nothing depends on it


def is_prepared(spec: Any) -> bool:
    """Whether data named in a command is a folder in which `rltok prepare` has worked."""
    if not isinstance(spec, str | Path) or not os.path.isdir(spec):
        return False
    return any(os.path.isfile(os.path.join(spec, name)) for name in (RECORD, REQUEST))


def piece_counts(sizes: np.ndarray, sequence_length: int, cut: Cut) -> np.ndarray:
    """How many rows documents of these sizes give, as `rows.PIECES` would cut them."""
    full, rest = np.divmod(sizes, sequence_length)
    if cut == "documents":
        return np.minimum(full, 1)
    return full + (rest >= min(MIN_TAIL, sequence_length)) if cut == "windows" else full


@dataclass(frozen=True)
class Prepared:
    """A finished folder and its record."""

    folder: Path
    record: dict[str, Any]

    @property
    def name(self) -> str:
        """For records: the folder's own name."""
        return self.folder.resolve().name

    def text_bytes(self, split: str) -> int:
        """Bytes of text kept in a split."""
        return self.record["splits"][split]["bytes"]

    def describe(self, split: str) -> dict[str, int] | None:
        """What a record says about a split whose rows are not read."""
        counts = self.record["splits"][split]
        return {"documents": counts["documents"], "bytes": counts["bytes"]} if counts["documents"] else None

    def damaged(self) -> list[str]:
        """What is wrong with files of the folder, a line each, after reading all of them."""
        found = []
        for shard in (self.record["kept"], *self.record["shards"]):
            try:
                check_files(self.folder, shard, hashes=True)
            except RltokError as error:
                found.append(str(error))
        if not found:
            self.fate()
        return found

    def fate(self) -> np.ndarray:
        """What became of each document, mapped. Raises `RltokError` unless there is one entry for each."""
        count = sum(shard["documents"] for shard in self.record["shards"])
        return mapped_array(self.folder / KEPT_FILE, np.dtype(np.uint8), count)

    def verify(self) -> None:
        """Raise `RltokError` for the first file that is not what was written: sizes of all files first, then hashes."""
        for hashes in (False, True):
            for shard in (self.record["kept"], *self.record["shards"]):
                check_files(self.folder, shard, hashes)

    def check_cut(self, config: DataConfig) -> None:
        """Raise `RltokError` when rows are wanted that cannot be cut from what is stored."""
        stored = self.record["settings"]
        has = (stored["cut"], stored["sequence_length"])
        if has[0] == "documents" and (config.cut, config.sequence_length) != has:
            raise RltokError(
                f"{self.folder} holds the first {has[1]} bytes of documents (prepared with cut=documents,"
                f" sequence_length={has[1]}), and data.cut={config.cut} data.sequence_length={config.sequence_length} was asked"
                f" for. Set data.cut=documents data.sequence_length={has[1]}, or prepare with --cut windows."
            )

    def rows(self, split: str, config: DataConfig, max_bytes: int | None = None) -> Rows:
        """The rows of a split, mapped from the files.

        Raises:
            RltokError: another cut than was prepared, or no row.
        """
        self.check_cut(config)
        width, cut = config.sequence_length, config.cut
        require_a_row(max_bytes, width)
        fate = self.fate()
        parts, skipped, first = [], 0, 0
        for number, shard in enumerate(self.record["shards"]):
            found = np.array(entries(self.folder, shard))
            mine = (fate[first : first + len(found)] == KEPT) & (found["split"] == SPLITS.index(split))
            first += len(found)
            rows, without = _cut_rows(found[mine], shard["first_document"], number, width, cut)
            parts.append(rows)
            skipped += without
        file, start, lengths, ends, document, key = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
        _join_parts(document, key)
        if max_bytes is not None:
            least = min(MIN_TAIL, width) if cut == "windows" else width
            count, last = _within(lengths, max_bytes, least, width)
            file, start, lengths, ends, document = (array[:count] for array in (file, start, lengths, ends, document))
            if last is not None:
                lengths[-1], ends[-1] = last, False
        if not len(lengths):
            raise RltokError(f"{self.folder} has no {split} document for a row of data.sequence_length={width}. {_REMEDY[split]}")
        paths = [self.folder / f"{shard['shard']}.bin" for shard in self.record["shards"]]
        mapped = MappedBytes(paths, file, start, lengths, width)
        skipped += sum(self.record["read"][reason] for reason in ("too_short", "empty", "null", "invalid_utf8"))
        return Rows(
            mapped, lengths, ends, document, name=self.name, cut=cut, skipped_documents=skipped if split == "train" else 0
        )


_REMEDY = {
    "train": "Prepare more text, or load with a smaller data.sequence_length.",
    "validation": "Give --validation TEXT, or prepare with a larger --validation-fraction.",
    "test": "Prepare with --test TEXT, or with a larger --test-fraction.",
}


def _join_parts(document: np.ndarray, key: np.ndarray) -> None:
    """Give rows of parts of one document, wherever they stand, the number of its first one; a key of 0 belongs to no other."""
    parts = np.flatnonzero(key)
    _, first, which = np.unique(key[parts], return_index=True, return_inverse=True)
    document[parts] = document[parts][first][which]


def _cut_rows(found: np.ndarray, first_document: int, file: int, width: int, cut: Cut) -> tuple[Sequence[np.ndarray], int]:
    """(file, start, length, ends its document, document, key of parts) of each row, and how many documents have no row."""
    sizes = found["length"].astype(np.int64)
    counts = piece_counts(sizes, width, cut)
    of = np.repeat(np.arange(len(found)), counts)
    begin = (np.arange(len(of)) - np.repeat(np.cumsum(counts) - counts, counts)) * width
    lengths = np.minimum(width, sizes[of] - begin).astype(np.int32)
    ends = (begin + lengths == sizes[of]) & (found["complete"][of] == 1)
    document = (first_document + found["number"][of].astype(np.int64)).astype(np.int32)
    start = found["offset"][of].astype(np.int64) + begin
    return (np.full(len(of), file, dtype=np.int32), start, lengths, ends, document, found["part_of"][of]), int(
        (counts == 0).sum()
    )


def _within(lengths: np.ndarray, max_bytes: int, least: int, width: int) -> tuple[int, int | None]:
    """How many rows `max_bytes` lets through, and the bytes of the last where it is cut short, as `cut_documents` does it."""
    reached = np.cumsum(lengths, dtype=np.int64)
    count = int(np.searchsorted(reached, max_bytes, side="right"))
    left = max_bytes - (int(reached[count - 1]) if count else 0)
    if count < len(lengths) and least <= left < width and least < width:
        return count + 1, left
    return count, None


def open_prepared(spec: str | Path) -> Prepared:
    """A prepared folder, without looking into its shards. Raises `RltokError` for one that is unfinished or damaged."""
    folder = Path(spec)
    path = folder / RECORD
    if not path.exists():
        raise RltokError(f"{folder} is not finished. Give the `rltok prepare` command that began it again; it goes on by itself.")
    try:
        record = json.loads(read_file(path))
        if record["what"] != WHAT or record["schema"] != SCHEMA:
            raise RltokError(f"{path} is of another kind or version. Prepare again with this version of rltok.")
        if not is_sealed(record, UNSEALED) or not all(isinstance(record["timing"][key], int | float) for key in TIMING):
            raise RltokError(f"{path} is damaged: its digest is not that of its entries. {AGAIN}")
        return Prepared(folder, record)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        if isinstance(error, RltokError):
            raise
        raise RltokError(f"{path} is damaged ({one_line(error)}). {AGAIN}") from error
