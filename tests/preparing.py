"""Small texts and requests for the tests of `rltok prepare`, and a reader of its folders that shares no code with rltok."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from rltok.data.units import Request


def request(sources, **settings) -> Request:
    defaults = {"cut": "documents", "sequence_length": 4096, "validation_fraction": 0.0, "test_fraction": 0.0}
    return Request(tuple(map(str, sources)), **(defaults | settings))


def write_jsonl(path: Path, rows: list[dict]) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def write_parquet(path: Path, rows: list[dict]) -> str:
    pq.write_table(pa.Table.from_pylist(rows), path, row_group_size=10)
    return str(path)


def documents_of(folder: Path) -> dict[str, list[bytes]]:
    """Bytes of the documents of each split, in order."""
    return {
        split: pa.ipc.open_file(folder / f"{split}.arrow").read_all()["text"].to_pylist()
        for split in ("train", "validation", "test")
    }
