"""Small texts and requests for the tests of `rltok prepare`, and a reader of its folders that shares no code with rltok."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from rltok.data.request import Request
from rltok.data.unit_writer import Rules

RULES = {
    "cut": "documents", "sequence_length": 4096, "validation_fraction": 0.0, "test_fraction": 0.0, "max_bytes": None,
    "shard_bytes": 1 << 28, "any_bytes": False,
}  # fmt: skip


def request(sources, *, validation=None, test=None, **rules) -> Request:
    return Request(tuple(map(str, sources)), Rules(**(RULES | rules)), validation, test)


def write_jsonl(path: Path, rows: list[dict]) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def write_parquet(path: Path, rows: list[dict]) -> str:
    pq.write_table(pa.Table.from_pylist(rows), path, row_group_size=10)
    return str(path)


def documents_of(folder: Path) -> dict[str, list[bytes]]:
    """Bytes of the kept documents of each split, in order."""
    record = json.loads((folder / "prepared.json").read_text())
    kept = np.load(folder / "kept.npy").tolist()
    found = {"train": [], "validation": [], "test": []}
    for shard in record["shards"]:
        data = (folder / f"{shard['shard']}.bin").read_bytes()
        for entry in np.load(folder / f"{shard['shard']}.idx"):
            start = int(entry["offset"])
            if kept.pop(0) == 1:
                found[list(found)[entry["split"]]].append(data[start : start + int(entry["length"])])
    assert not kept
    return found
