"""Peak memory of `rltok prepare` and of a pass over its rows, for little text and for much of it.

    python scripts/measure/measure_prepare.py FOLDER --out notebooks/results/prepare_memory.json

FOLDER holds english-train-*.parquet. Its text is written again as JSON Lines, 10 MB and all of it, into a folder that is removed
in the end; about three times as much disk as text is needed. Each measurement is a process of its own: the peak (VmHWM) of the
process that was started, that of the largest of its worker processes, and, of a pass over all rows, what is no file's (RssAnon).
"""

import argparse
import glob
import json
import os
import resource
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from rltok.errors import RltokError
from rltok.evidence.measuring import run, stored_record
from rltok.runs.results import device_name, repository_commit, versions
from rltok.system.files import write_json
from rltok.system.workers import printed_by

WHAT = "peak memory of rltok prepare"
SMALL, FILES = 10_000_000, 4
LENGTH, ROWS_AT_A_TIME = 4096, 32


def texts(folder: str, most: int | None) -> Iterator[dict[str, str]]:
    """Rows of the tables, up to so many bytes of text."""
    import pyarrow.parquet as pq

    paths = sorted(glob.glob(os.path.join(folder, "english-train-*.parquet")))
    if not paths:
        raise RltokError(f"{folder} holds no english-train-*.parquet. Name the folder that does.")
    total = 0
    for path in paths:
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=256):
                for row in batch.to_pylist():
                    total += len(row["text"].encode())
                    if most is not None and total > most:
                        return
                    yield row


def write_text(folder: str, place: Path, most: int | None) -> int:
    """JSON Lines of the tables in FILES files; the bytes of text."""
    place.mkdir()
    total, files = 0, [(place / f"{number}.jsonl").open("w") for number in range(FILES)]
    for number, row in enumerate(texts(folder, most)):
        files[number % FILES].write(json.dumps(row) + "\n")
        total += len(row["text"].encode())
    for file in files:
        file.close()
    return total


def in_a_process(*arguments: str) -> dict[str, Any]:
    """What this script prints when it is called with these arguments."""
    command = [sys.executable, __file__, *arguments]
    return json.loads(printed_by(" ".join(arguments), command).splitlines()[-1])


def prepare(source: str, out: str, jobs: str) -> dict[str, Any]:
    """Prepare in this process; its peak memory and that of its largest worker, in bytes."""
    from rltok.cli.main import main

    with open(os.devnull, "w") as nothing:
        stdout, sys.stdout = sys.stdout, nothing
        code = main(["prepare", source, "--out", out, "--jobs", jobs, "--cut", "windows", "--json"])
        sys.stdout = stdout
    record = json.loads((Path(out) / "prepared.json").read_text())
    # not ru_maxrss, in which a process starts with that of the one that forked it; workers are forked from this small one
    workers = 1024 * resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss if int(jobs) > 1 else None
    timing = {key: record["timing"][key] for key in ("seconds", "bytes_per_second")}
    return {"code": code, "process_peak_bytes": status_bytes("VmHWM"), "worker_peak_bytes": workers, **timing}


def status_bytes(name: str) -> int:
    """Memory of this process as the system counts it."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith(name))


def one_pass(folder: str) -> dict[str, Any]:
    """Read all rows once in a training order; anonymous memory before loading, after it, and at most during the pass."""
    from rltok.config import DataConfig
    from rltok.data import load_corpus, row_indices

    before = status_bytes("RssAnon")
    rows = load_corpus(folder, DataConfig(sequence_length=LENGTH, cut="windows")).train
    loaded = peak = status_bytes("RssAnon")
    total = 0
    for step in range(len(rows) // ROWS_AT_A_TIME):
        ids = rows.ids(row_indices(0, step, ROWS_AT_A_TIME, len(rows)))
        total += int((ids[:, 1:] < 256).sum())
        if step % 16 == 0:
            peak = max(peak, status_bytes("RssAnon"))
    return {
        "rows": len(rows),
        "bytes_read": total,
        "before": before,
        "loaded": loaded,
        "peak": max(peak, status_bytes("RssAnon")),
    }


def measure(folder: str) -> list[dict[str, Any]]:
    """Both sizes, with one process and with two."""
    measured = []
    for most in (SMALL, None):
        with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR")) as place:
            total = write_text(folder, Path(place, "text"), most)
            for jobs in ("1", "2"):
                out = str(Path(place, f"out-{jobs}"))
                each = {"text_bytes": total, "jobs": int(jobs), **in_a_process("--prepare", f"{place}/text", out, jobs)}
                print(json.dumps(each), file=sys.stderr)
                measured.append(each)
            measured[-1]["one_pass"] = in_a_process("--pass", out)
            print(json.dumps(measured[-1]["one_pass"]), file=sys.stderr)
    return measured


def main() -> None:
    """Measure both sizes and write the record; or, in the processes that are measured, do one thing and print."""
    if sys.argv[1:2] in (["--prepare"], ["--pass"]):
        print(json.dumps((prepare if sys.argv[1] == "--prepare" else one_pass)(*sys.argv[2:])))
        return
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", help="with english-train-*.parquet")
    parser.add_argument("--out", type=Path, default=Path("notebooks/results/prepare_memory.json"))
    options = parser.parse_args()
    stored_record(options.out, WHAT)
    record = {"schema": 1, "what": WHAT, "commit": repository_commit(), "device": device_name(torch.device("cpu"))}
    write_json(options.out, record | {"versions": versions(), "data": "english-train", "measured": measure(options.folder)})


if __name__ == "__main__":
    run(main)
