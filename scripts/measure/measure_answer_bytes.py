"""On which byte of a benchmark's answer do runs differ? Bits per item at the space, the byte after it, the last one, and between.

    python scripts/measure/measure_answer_bytes.py --runs runs/32m/even-seed0 runs/32m/ours-seed0 --tasks FOLDER --out FILE

The scores of a set do not say: a difference of as many bits in short answers as in long ones sits on one byte, and only models
know on which. `--part` takes files that hold fewer items than the published sets. Commit first.
"""

import argparse
import math
from pathlib import Path
from typing import Any

from rltok.benchmarks.sets import TASKS
from rltok.benchmarks.task_items import read_items
from rltok.benchmarks.tasks import bits_of_bytes
from rltok.device import resolve_device
from rltok.evidence import measuring
from rltok.evidence.chapters.ch07_answers import BYTES_RECORD, by_byte
from rltok.runs.loading import load, load_config
from rltok.runs.results import device_name, versions
from rltok.system.digest import with_digest
from rltok.system.files import write_json


def scored(run: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Bits per item of each set by byte, and how probable the space before the answer is: least and most of all items."""
    model, tasks = load(run).to(resolve_device(options.device)), {}
    for task in TASKS:
        items = read_items(task, options.tasks, expected=not options.part).items
        bits = bits_of_bytes(model, items, seed=0, batch=options.batch)
        gold = [each[item.gold] for item, each in zip(items, bits, strict=True)]
        space = [math.exp2(-each[0]) for each in gold]
        tasks[task] = {"items": len(items), "bits": by_byte(gold), "space": [min(space), max(space)]}
    config = load_config(run)
    return {"name": run.name, "preset": config.name, "config_hash": config.digest(), "tasks": tasks}


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=Path, nargs="+", required=True, help="folders of runs; the first is the reference")
    parser.add_argument("--tasks", type=Path, required=True, help="folder of the benchmark files")
    parser.add_argument("--part", action="store_true", help="the files may hold fewer items than the published sets")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    measuring.stored_record(options.out, BYTES_RECORD)
    about = {"schema": 1, "what": BYTES_RECORD, "commit": measuring.clean_commit(), "versions": versions()}
    device = device_name(resolve_device(options.device))
    write_json(options.out, with_digest(about | {"device": device, "runs": [scored(run, options) for run in options.runs]}))


if __name__ == "__main__":
    measuring.run(main)
