"""Exact duplicates over all shards, found with memory that does not grow with the corpus: digests bucket by bucket."""

import os
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from rltok.data.shards import SPLITS, Plain, entries

DUPLICATE, KEPT, BEYOND = 0, 1, 2  # values in the file of kept documents; BEYOND: after the limit of max_bytes
ZEROS = 1 << 20  # bytes written at a time
CHUNK = 1 << 16  # entries of an index looked at together
BUCKET = 1 << 19  # entries of a bucket, about
MAX_BUCKETS = 128  # files open at a time, of the 256 that some systems allow; past 2**26 documents buckets grow
FOUND = np.dtype([("high", "<u8"), ("low", "<u8"), ("order", "<u8")])
PLACE_BITS = 56  # of `order`: a document's number; above them the rank of its split
RANK = np.array([2, 1, 0], dtype=np.uint64)  # of train, validation, test: a text that is in two splits stays in the first


def chunks(folder: Path, shards: list[dict[str, Any]]) -> Iterator[tuple[int, int, np.ndarray]]:
    """(shard's place in the list, number of the first document in all, entries) over all shards, piece by piece."""
    first = 0
    for place, shard in enumerate(shards):
        found = entries(folder, shard)
        for start in range(0, len(found), CHUNK):
            yield place, first + start, np.array(found[start : start + CHUNK])
        first += len(found)


def _spill(
    folder: Path, shards: list[dict[str, Any]], groups: list[int], max_bytes: int | None, bits: int, kept: np.ndarray, place: Path
) -> dict[int, int]:
    """Write digest and order of each document within the limit to the file of its bucket, and mark the others.

    Returns:
        Bytes within the limit of each group.
    """
    stored: dict[int, int] = {}
    within: dict[int, int] = {}
    files = [(place / str(bucket)).open("wb") for bucket in range(1 << bits)]
    try:
        for shard, first, found in chunks(folder, shards):
            group = groups[shard]
            reached = stored.get(group, 0) + np.cumsum(found["length"].astype(np.int64))
            inside = np.ones(len(found), dtype=bool) if max_bytes is None else reached <= max_bytes
            stored[group] = int(reached[-1])
            within[group] = within.get(group, 0) + int(found["length"][inside].sum(dtype=np.int64))
            kept[first : first + len(found)][~inside] = BEYOND
            spilled = np.zeros(len(found), dtype=FOUND)
            spilled["high"], spilled["low"] = found["high"], found["low"]
            spilled["order"] = RANK[found["split"]] << np.uint64(PLACE_BITS) | np.arange(
                first, first + len(found), dtype=np.uint64
            )
            spilled = spilled[inside]
            bucket = spilled["high"] >> np.uint64(64 - bits) if bits else np.zeros(len(spilled), dtype=np.uint64)
            for number in np.unique(bucket):
                files[int(number)].write(spilled[bucket == number].tobytes())
    finally:
        for file in files:
            file.close()
    return within


def _zeros(path: Path, total: int) -> None:
    """A .npy file of so many zeros on the disk: a map over a file with holes would end the process where the disk is full."""
    with path.open("wb") as file:
        header = {"descr": "|u1", "fortran_order": False, "shape": (total,)}
        np.lib.format.write_array_header_1_0(Plain(file), header)
        for start in range(0, total, ZEROS):
            file.write(bytes(min(ZEROS, total - start)))
        file.flush()
        os.fsync(file.fileno())


def mark_kept(folder: Path, shards: list[dict[str, Any]], groups: list[int], max_bytes: int | None, path: Path) -> dict[int, int]:
    """Write what becomes of each document, uint8 [documents] in the order of the shards, as a .npy file.

    Of documents with the same bytes the first is KEPT, test before validation before training; the others are DUPLICATE.

    Args:
        groups: for each shard, which limit it counts against.
        max_bytes: most bytes of a group; documents from the first that goes past it on are BEYOND.
        path: the file, written in one step.

    Returns:
        Bytes within the limit of each group, duplicates too.
    """
    total = sum(shard["documents"] for shard in shards)
    bits = min(MAX_BUCKETS.bit_length() - 1, max(0, (total - 1) // BUCKET).bit_length())
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        _zeros(temporary, total)
        kept = np.load(temporary, mmap_mode="r+", allow_pickle=False)
        with TemporaryDirectory(dir=folder, prefix=".buckets-", suffix=".tmp") as place:
            within = _spill(folder, shards, groups, max_bytes, bits, kept, Path(place))
            for bucket in range(1 << bits):
                found = np.fromfile(Path(place, str(bucket)), dtype=FOUND)
                ordered = found[np.lexsort((found["order"], found["low"], found["high"]))]
                first = np.ones(len(ordered), dtype=bool)
                first[1:] = (ordered["high"][1:] != ordered["high"][:-1]) | (ordered["low"][1:] != ordered["low"][:-1])
                kept[(ordered["order"][first] & np.uint64((1 << PLACE_BITS) - 1)).astype(np.int64)] = KEPT
        kept.flush()
        del kept
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    return within


def count_kept(folder: Path, shards: list[dict[str, Any]], path: Path, rows_of: Any) -> dict[str, dict[str, int]]:
    """Documents, bytes and rows kept, and duplicates dropped, of each split; `rows_of` gives the rows of documents by length."""
    kept = np.load(path, mmap_mode="r", allow_pickle=False)
    names = ("documents", "bytes", "rows", "duplicates", "beyond_max_bytes")
    counts = {split: dict.fromkeys(names, 0) for split in SPLITS}
    for _, first, found in chunks(folder, shards):
        fate = np.array(kept[first : first + len(found)])
        for code, split in enumerate(SPLITS):
            mine = found["split"] == code
            lengths = found["length"][mine & (fate == KEPT)].astype(np.int64)
            counts[split]["documents"] += len(lengths)
            counts[split]["bytes"] += int(lengths.sum())
            counts[split]["rows"] += int(rows_of(lengths).sum())
            counts[split]["duplicates"] += int((mine & (fate == DUPLICATE)).sum())
            counts[split]["beyond_max_bytes"] += int((mine & (fate == BEYOND)).sum())
    return counts


def count_parts(folder: Path, shards: list[dict[str, Any]], path: Path) -> dict[str, int]:
    """Of documents kept: how many are parts, of how many longer ones, and the parts of the one that has most."""
    kept = np.load(path, mmap_mode="r", allow_pickle=False)
    keys, counts = np.zeros(0, dtype=np.uint64), np.zeros(0, dtype=np.int64)
    waiting: list[np.ndarray] = []

    def joined() -> tuple[np.ndarray, np.ndarray]:
        found, which = np.unique(np.concatenate([keys, *waiting]), return_inverse=True)
        weights = np.concatenate([counts, *(np.ones(len(each), dtype=np.int64) for each in waiting)])
        total = np.zeros(len(found), dtype=np.int64)
        np.add.at(total, which, weights)
        return found, total

    for _, first, found in chunks(folder, shards):
        waiting.append(found["part_of"][(found["part_of"] != 0) & (kept[first : first + len(found)] == KEPT)])
        if sum(map(len, waiting)) > max(CHUNK, len(keys)):
            keys, counts, waiting = *joined(), []
    keys, counts = joined()
    return {"documents": int(counts.sum()), "wholes": len(keys), "most": int(counts.max(initial=0))}
