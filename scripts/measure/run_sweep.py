"""Train every run of a plan, one after the other in one process, and leave an evidence record of each.

python scripts/measure/run_sweep.py scripts/measure/sweeps/32m.toml --runs runs/32m --records notebooks/results/runs/32m \
    --data 'corpora/english-train-*.parquet' --validation corpora/english-validation.parquet --tasks corpora/eval

Going on after an interruption is the same command: finished records stay, a run goes on from its checkpoint. A run that fails
(a loss that is not finite, too little memory) leaves a record that says so. The test split is not touched here: see
scripts/measure/score_test.py.
"""

import argparse
import sys
import time
from dataclasses import replace
from pathlib import Path

from rltok.benchmarks.sets import TASKS
from rltok.benchmarks.task_items import TaskItems, hub_items, read_items
from rltok.data import load_corpus
from rltok.errors import RltokError
from rltok.evidence import measuring
from rltok.evidence.packed import read_folder
from rltok.evidence.plan import check_packages, read_plan, wanted
from rltok.evidence.runner import Setting, run_plan


def items_of(where: str | None) -> dict[str, TaskItems]:
    """The benchmarks of a folder, or of the hub; none without one."""
    if where is None:
        return {}
    return {task: hub_items(task, force=False) if where == "hub" else read_items(task, where) for task in TASKS}


def main() -> None:
    """Everything that is not there yet."""
    parser = argparse.ArgumentParser(description="Train every run of a plan and leave an evidence record of each.")
    parser.add_argument("plan", type=Path)
    parser.add_argument("--runs", type=Path, required=True, help="folder for the runs themselves")
    parser.add_argument("--records", type=Path, required=True, help="folder for the records")
    parser.add_argument("--data", default="sample", help="training text")
    parser.add_argument("--validation", help="held-out text; default: the sample's own, or the last rows of --data")
    parser.add_argument("--tasks", help="folder of the benchmark files, or hub; without it they are left out")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="some methods")
    parser.add_argument("--seeds", type=int, nargs="+", help="some seeds")
    parser.add_argument(
        "--repeat", type=int, default=1, metavar="R", help="run each seed for the R-th time, beside what is there"
    )
    parser.add_argument("--stop-after", type=float, metavar="SECONDS", help="start no run later than this")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--progress", action="store_true")
    options = parser.parse_args()
    plan, start = read_plan(options.plan), time.perf_counter()
    runs = [replace(run, repeat=options.repeat) for run in wanted(plan, options.only, options.seeds)]
    check_packages(plan, runs)
    corpus = load_corpus(options.data, plan.config(plan.runs[0], {}).data, validation_spec=options.validation)
    tasks = items_of(options.tasks)
    measuring.clean_commit()
    if options.repeat < 1:
        raise RltokError(
            f"--repeat is {options.repeat}; a seed is run for the first time, the second, and so on. Give 1 or more."
        )
    options.records.mkdir(parents=True, exist_ok=True)
    setting = Setting(
        plan.name, corpus, {"validation": corpus.validation}, options.device, plan.full, options.runs, options.records,
        tasks=tasks, max_items=plan.max_items, keep_failures=True, progress=options.progress,
    )  # fmt: skip
    records = {Path(name).stem: record for name, record in read_folder(options.records, whole=False).items()}
    left_out: list[str] = []
    for number, done in enumerate(run_plan(plan, runs, setting, records), start=1):
        seconds, result = time.perf_counter() - start, f"left out, {done.left_out}"
        if done.record is None:
            left_out.append(done.run.stem)
        else:
            result = done.record.get("failed") or f"{done.record['scores']['validation']['bits_per_byte']:.4f} bits per byte"
            result += f", {seconds:.0f} s so far"
        print(f"{number}/{len(runs)}  {done.run.stem}: {result}", file=sys.stderr, flush=True)
        if number < len(runs) and options.stop_after is not None and seconds > options.stop_after:
            print(f"stopped after {done.run.stem}; the same command goes on", file=sys.stderr)
            return
    if left_out:
        raise RltokError(f"not run: {', '.join(left_out)}. What they take a number from has no finished record.")


if __name__ == "__main__":
    measuring.run(main)
