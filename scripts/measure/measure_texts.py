"""Count the texts that runs at scale train and score on: by split and source, and how few documents a held-out split may be.

    python scripts/measure/measure_texts.py FOLDER --out notebooks/results/texts.json

FOLDER holds english-train-*.parquet, english-validation.parquet and english-test.parquet, with columns text, source and id, and
eval/ with the benchmark sets. Nothing but counts, names and hashes is kept, and no model is loaded. `scripts/book/make_texts.py`
makes a page of the record.
"""

import argparse
import hashlib
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

from rltok.benchmarks.sets import TASKS
from rltok.benchmarks.task_items import read_items
from rltok.data.tables import JSONL_SUFFIXES, parquet_documents
from rltok.errors import RltokError
from rltok.evidence.measuring import run, stored_record
from rltok.runs.results import repository_commit, versions
from rltok.system.files import write_record

WHAT = "texts of the runs"
PATTERNS = {"train": "english-train-*.parquet", "validation": "english-validation.parquet", "test": "english-test.parquet"}
WINDOW = 4096  # bytes; what a run reads and scores at a time
LARGEST = 3  # documents of a split that are named


class Row(NamedTuple):
    """One row of a table: a document, or a part of one."""

    source: str
    document: str  # parts such as book#0 and book#1 have one name, that of the whole
    size: int  # bytes of UTF-8

    @property
    def windows(self) -> int:
        """Full windows; the rest of a row is not used."""
        return self.size // WINDOW


def files(folder: Path) -> dict[str, list[Path]]:
    """The tables of every split."""
    paths = {split: sorted(folder.glob(pattern)) for split, pattern in PATTERNS.items()}
    for split, pattern in PATTERNS.items():
        if not paths[split]:
            raise RltokError(f"{folder} holds no {pattern}. Name the folder that does.")
    return paths


def rows(paths: list[Path]) -> list[Row]:
    """Rows of some tables without their text."""
    return [Row(each.source, each.whole or each.id, len(each.text)) for path in paths for each in parquet_documents(path)]


def counts(selected: list[Row]) -> dict[str, int]:
    """How much text some rows are."""
    return {
        "documents": len({(row.source, row.document) for row in selected}),
        "rows": len(selected),
        "bytes": sum(row.size for row in selected),
        "windows": sum(row.windows for row in selected),
    }


def concentration(selected: list[Row]) -> dict[str, Any]:
    """How unevenly the windows of a split, each of which counts alike in a score, lie in its documents.

    With n windows in a document, (sum n)² / sum n² documents of one length would be as uneven.
    """
    windows: Counter[tuple[str, str]] = Counter()
    for row in selected:
        windows[row.source, row.document] += row.windows
    largest = sorted(windows.items(), key=lambda item: (-item[1], item[0]))[:LARGEST]
    return {
        "effective_documents": sum(windows.values()) ** 2 / sum(number**2 for number in windows.values()),
        "largest": [{"source": source, "document": document, "windows": number} for (source, document), number in largest],
    }


def named(path: Path) -> dict[str, Any]:
    """Name, size and hash of a file; no folder."""
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return {"name": path.name, "bytes": path.stat().st_size, "sha256": digest}


def tasks(folder: Path) -> dict[str, Any]:
    """The benchmark sets: their files, numbers of items, and the fingerprints that scores of runs carry."""
    described = {}
    for name, task in TASKS.items():
        items = read_items(name, folder)
        path = next(path for suffix in JSONL_SUFFIXES if (path := folder / f"{task.stem}{suffix}").exists())
        described[name] = {"file": named(path), "items": len(items), "fingerprint": items.fingerprint}
    return described


def measure(folder: Path) -> dict[str, Any]:
    """All that the record holds of the texts."""
    paths = files(folder)
    rows_of = {split: rows(paths[split]) for split in PATTERNS}
    sources = sorted({row.source for each in rows_of.values() for row in each})
    return {
        "window_bytes": WINDOW,
        "files": {split: [named(path) for path in paths[split]] for split in PATTERNS},
        "splits": {split: counts(each) for split, each in rows_of.items()},
        "sources": {
            source: {split: counts([row for row in each if row.source == source]) for split, each in rows_of.items()}
            for source in sources
        },
        "held_out": {split: concentration(each) for split, each in rows_of.items() if split != "train"},
        "tasks": tasks(folder / "eval"),
    }


def main() -> None:
    """Count and write the record."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path, help="with english-*.parquet and eval/")
    parser.add_argument("--out", type=Path, default=Path("notebooks/results/texts.json"))
    options = parser.parse_args()
    stored_record(options.out, WHAT)
    record = {"schema": 1, "what": WHAT, "commit": repository_commit(), "versions": versions()}
    write_record(options.out, record | measure(options.folder))


if __name__ == "__main__":
    run(main)
