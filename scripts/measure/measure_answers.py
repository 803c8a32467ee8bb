"""Where on a benchmark item differences to `even` sit: bits per item in quarters of the items by bytes of the right answer.

    python scripts/measure/measure_answers.py --sweeps notebooks/results/sweeps --tasks FOLDER \
        --out notebooks/results/answers.json

Evidence records hold bits per byte of every item, not how long its answer is, and the items are not part of the repository.
FOLDER holds them (`rltok.benchmarks.sets` names the files), and they must be those that the runs were scored on. No model
is loaded.
Run it again after records were added: the file names those that it was made of, and a test compares.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rltok.benchmarks.sets import TASKS
from rltok.benchmarks.task_items import TaskItems, read_items
from rltok.errors import RltokError
from rltok.evidence.chapters.ch07_answers import ANSWERS_RECORD, against_even, lengths_of, quarters
from rltok.evidence.measuring import clean_commit, rounded, run, stored_record, stored_sweeps
from rltok.evidence.records import Sweep
from rltok.runs.results import versions
from rltok.system.digest import with_digest
from rltok.system.files import write_record


def of_task(items: TaskItems, lengths: np.ndarray) -> dict[str, Any]:
    """What names the items of a set, and how they are divided."""
    return {
        "fingerprint": items.fingerprint,
        "items": len(items),
        "scored_bytes": int(lengths.sum()),
        "quarters": quarters(lengths),
    }


def of_sweep(sweep: Sweep, lengths: dict[str, np.ndarray]) -> dict[str, Any]:
    """The digests of a sweep's records, and by set and method the differences."""
    return {
        "records": sweep.digests,
        "gaps": {task: rounded(against_even(sweep, task, each)) for task, each in lengths.items()},
    }


def measure(sweeps: Sequence[Sweep], items: dict[str, TaskItems]) -> dict[str, Any]:
    """All that the record holds of the answers, in the order of the sweeps."""
    lengths = {task: lengths_of(each, sweeps) for task, each in items.items()}
    return {
        "tasks": {task: of_task(each, lengths[task]) for task, each in items.items()},
        "sweeps": {sweep.name: of_sweep(sweep, lengths) for sweep in sweeps},
    }


def main() -> None:
    """Compute and write the record."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--sweeps", type=Path, default=Path("notebooks/results/sweeps"))
    parser.add_argument("--tasks", type=Path, required=True, help="folder with the files of the benchmark sets")
    parser.add_argument("--out", type=Path, default=Path("notebooks/results/answers.json"))
    options = parser.parse_args()
    stored_record(options.out, ANSWERS_RECORD)
    commit = clean_commit()
    measured = measure(stored_sweeps(options.sweeps), {task: read_items(task, options.tasks) for task in TASKS})
    gaps = [gap for sweep in measured["sweeps"].values() for task in sweep["gaps"].values() for gap in task]
    if not gaps:
        raise RltokError("no run of a sweep was scored on one of the sets together with `even`, so there is nothing to tell.")
    write_record(
        options.out, with_digest({"schema": 1, "what": ANSWERS_RECORD, "commit": commit, "versions": versions()} | measured)
    )
    print(f"{options.out}: {len(gaps)} differences of {', '.join(measured['sweeps'])}")


if __name__ == "__main__":
    run(main)
