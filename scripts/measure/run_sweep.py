"""Train every run of a plan, one after the other in one process, and leave an evidence record of each.

python scripts/measure/run_sweep.py scripts/measure/sweeps/32m.toml --runs runs/32m --records notebooks/results/runs/32m \
    --data 'corpora/english-train-*.parquet' --validation corpora/english-validation.parquet --tasks corpora/eval

Going on after an interruption is the same command: finished records stay, a run goes on from its checkpoint. A run that fails
(a loss that is not finite, too little memory) leaves a record that says so. The test split is not touched here: see
scripts/measure/score_test.py.
"""

import argparse
import statistics
import sys
import time
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rltok.benchmarks.task_items import TASKS, TaskItems, hub_items, read_items
from rltok.config import Config, with_settings
from rltok.data import Corpus, load_corpus
from rltok.device import resolve_device
from rltok.errors import RltokError, TrainingFailed
from rltok.evidence import measuring
from rltok.evidence.export import evidence_of, failure_of
from rltok.evidence.packed import read_folder
from rltok.evidence.record_file import Record, write_record
from rltok.presets import preset
from rltok.rules.byte_pairs import require_tokenizers
from rltok.runs.results import device_name, repository_commit, versions
from rltok.runs.training import train

PLAN_KEYS = {"preset", "full", "seeds", "settings", "run", "schedule", "max_items"}
RUN_KEYS = {"name", "variant", "settings", "seeds", "rate_of", "same_pull_as"}
SCHEDULE_KEYS = {"name", "settings"}


class MissingRun(RltokError):
    """A run that needs another one's record."""


@dataclass(frozen=True)
class Planned:
    """One run of a plan: a contender and a seed."""

    name: str
    seed: int
    variant: str | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    rate_of: str | None = None  # target rate: what this contender came to draw
    same_pull_as: str | None = None  # lambda_policy * RMS of the advantages as of this contender
    repeat: int = 1  # how many times this seed is run with this one

    @property
    def stem(self) -> str:
        """Name of its folder and record."""
        return f"{self.name}-seed{self.seed}" + (f"-{self.repeat}" if self.repeat > 1 else "")

    def record(self, folder: Path) -> Path:
        """Where its record lies among those of the sweep."""
        return (folder / "repeats" if self.repeat > 1 else folder) / f"{self.stem}.json"


@dataclass(frozen=True)
class Plan:
    """What a sweep consists of; `name` is that of its file."""

    name: str
    preset: str
    full: bool
    settings: dict[str, Any]
    runs: list[Planned]
    max_items: int | None

    def base(self, run: Planned) -> Config:
        """The preset that a run changes."""
        return preset(f"{self.preset}_{run.variant}" if run.variant else self.preset)

    def config(self, run: Planned, records: dict[str, Record]) -> Config:
        """Settings of a run; what it takes from another run's record must be there."""
        base = self.base(run)
        settings = self.settings | run.settings | {"train.seed": run.seed, "name": f"{self.preset}_{run.name}"}
        if run.rate_of:
            settings["model.rule.target_rate"] = taken(records, run, run.rate_of)["scores"]["validation"]["rate"]
        config = with_settings(base, settings)
        if run.same_pull_as:
            model, now = taken(records, run, run.same_pull_as), taken(records, run, same_gamma(self, run))
            weight = config.objective.lambda_policy * pull(model) / pull(now)
            config = with_settings(config, {"objective.lambda_policy": weight})
        return config


def same_gamma(plan: Plan, run: Planned) -> str:
    """The contender with the same settings and nothing taken from others."""
    for other in plan.runs:
        if (
            other.settings == run.settings
            and other.seed == run.seed
            and not (other.same_pull_as or other.rate_of or other.variant)
        ):
            return other.name
    raise RltokError(f"{run.name} has no run of the same settings to compare advantages with. Add one to the plan.")


def taken(records: dict[str, Record], run: Planned, name: str) -> Record:
    """The record of another contender at this run's seed."""
    found = records.get(f"{name}-seed{run.seed}")
    if found is None or found.get("failed"):
        raise MissingRun(f"{run.stem} takes a number from {name}-seed{run.seed}, which has no finished record. Run that first.")
    return found


def pull(record: Record) -> float:
    """RMS of the advantages, median over the second half of training."""
    sizes = [point["advantage_rms"] for point in record["curve"]]
    return statistics.median(sizes[len(sizes) // 2 :])


def _check_types(found: dict[str, Any]) -> None:
    """Raise TypeError or KeyError for a plan whose entries are of another kind."""
    kinds = {"preset": str, "full": bool, "seeds": list, "settings": dict, "run": list, "schedule": list, "max_items": int}
    wrong = [key for key, kind in kinds.items() if key in found and type(found[key]) is not kind]
    for run in found.get("run", []):
        kinds = {"name": str, "variant": str, "settings": dict, "seeds": list, "rate_of": str, "same_pull_as": str}
        wrong += [f"run.{key}" for key, kind in kinds.items() if key in run and type(run[key]) is not kind]
        wrong += [] if "name" in run else ["run.name"]
    for schedule in found.get("schedule", []):
        kinds = {"name": str, "settings": dict}
        wrong += [f"schedule.{key}" for key, kind in kinds.items() if type(schedule.get(key)) is not kind]
    seeds = [*found.get("seeds", []), *(seed for run in found.get("run", []) for seed in run.get("seeds", []))]
    wrong += [f"seed {seed!r}" for seed in seeds if type(seed) is not int or seed < 0]
    if wrong:
        raise TypeError(", ".join(wrong))


def read_plan(path: Path) -> Plan:
    """A plan from its file; unknown keys and double names are errors.

    With schedules, each run is made under each of them: run `even` and schedule `late` give `even_late`.
    """
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise RltokError(f"{path} is no plan: {error}.") from error
    try:
        _check_types(found)
    except (TypeError, KeyError, AttributeError) as error:
        raise RltokError(f"{path}: a value is missing or of another kind ({error}).") from error
    unknown = [key for key in found if key not in PLAN_KEYS]
    unknown += [f"run.{key}" for run in found.get("run", []) for key in run if key not in RUN_KEYS]
    unknown += [f"schedule.{key}" for schedule in found.get("schedule", []) for key in schedule if key not in SCHEDULE_KEYS]
    if unknown or not found.get("run") or not found.get("seeds") or "preset" not in found or "full" not in found:
        raise RltokError(f"{path} needs preset, full, seeds and runs; it has unknown keys: {', '.join(unknown) or 'none'}.")
    runs = [
        Planned(f"{run['name']}{schedule['name'] and '_' + schedule['name']}", seed, run.get("variant"),
                schedule["settings"] | run.get("settings", {}), run.get("rate_of"), run.get("same_pull_as"))
        for run in found["run"] for schedule in found.get("schedule") or [{"name": "", "settings": {}}]
        for seed in run.get("seeds", found["seeds"])
    ]  # fmt: skip
    if len({run.stem for run in runs}) < len(runs):
        raise RltokError(f"{path} names a run twice. Each needs a name of its own.")
    return Plan(path.stem, found["preset"], found["full"], found.get("settings", {}), runs, found.get("max_items"))


def stored(
    found: Record | None, path: Path, config: Config, corpus: Corpus, tasks: dict[str, TaskItems], max_items: int | None
) -> Record | None:  # fmt: skip
    """The record of a path if it is of a finished run; None without one, and of a run that failed.

    Benchmarks that were left out may be there or not; those that are scored must be of these items.

    Raises:
        RltokError: it is of other settings, or scored on other text or items.
    """
    if found is None or found.get("failed"):
        return None
    same = found["config_hash"] == config.digest() and found["data"]["train"] == corpus.description["train"]
    same = same and found["scores"]["validation"]["hash"] == corpus.validation.hash
    for task, items in tasks.items():
        score = found["scores"].get(task)
        count = len(items) if max_items is None else min(len(items), max_items)
        same = same and score is not None and (score["fingerprint"], score["items"]) == (items.fingerprint, count)
    if not same:
        raise RltokError(f"{path} is of other settings, text or benchmarks. Name another --records, or remove it.")
    return found


def run_one(plan: Plan, run: Planned, config: Config, options: argparse.Namespace, corpus: Corpus, tasks: dict) -> Record:
    """Train and measure one run; training that fails becomes a record, too."""
    folder, named = options.runs / run.stem, {"sweep": plan.name, "name": run.name}
    try:
        train(config, corpus, folder, resume=folder.exists(), device=options.device, full=plan.full, progress=options.progress)
        return evidence_of(
            folder, **named, validation=corpus.validation, tasks=tasks, device=options.device, max_items=plan.max_items
        )
    except TrainingFailed as error:
        device = device_name(resolve_device(options.device))
        return failure_of(
            config, **named, why=str(error), commit=repository_commit(), device=device, versions=versions(),
            data=corpus.description, full=plan.full,
        )  # fmt: skip


def check_packages(plan: Plan, runs: Sequence[Planned]) -> None:
    """Raise `RltokError` before anything is trained where a rule lacks a package, which else shows after hours."""
    if any(plan.base(run).model.rule.name == "bpe" for run in runs):
        require_tokenizers()


def corpus_of(plan: Plan, options: argparse.Namespace) -> Corpus:
    """The text, cut as the first run asks; all runs share it."""
    first = plan.config(plan.runs[0], {})
    return load_corpus(options.data, first.data, validation_spec=options.validation)


def items_of(where: str | None) -> dict[str, TaskItems]:
    """The benchmarks of a folder, or of the hub; none without one."""
    if where is None:
        return {}
    return {task: hub_items(task, force=False) if where == "hub" else read_items(task, where) for task in TASKS}


def wanted(plan: Plan, only: Sequence[str] | None, seeds: Sequence[int] | None) -> list[Planned]:
    """The runs asked for, in the plan's order; an unknown name or seed is an error."""
    unknown = [name for name in only or () if name not in {run.name for run in plan.runs}]
    if unknown:
        raise RltokError(
            f"the plan has no run {', '.join(unknown)}. It has: {', '.join(dict.fromkeys(r.name for r in plan.runs))}."
        )
    known = sorted({run.seed for run in plan.runs if not only or run.name in only})
    if odd := [seed for seed in seeds or () if seed not in known]:
        raise RltokError(f"the plan has no seed {', '.join(map(str, odd))} of these runs. It has: {', '.join(map(str, known))}.")
    return [run for run in plan.runs if (not only or run.name in only) and (not seeds or run.seed in seeds)]


def main() -> None:
    """Everything that is not there yet."""
    parser = argparse.ArgumentParser(description="Train every run of a plan and leave an evidence record of each.")
    parser.add_argument("plan", type=Path)
    parser.add_argument("--runs", type=Path, required=True, help="folder for the runs themselves")
    parser.add_argument("--records", type=Path, required=True, help="folder for the records")
    parser.add_argument("--data", default="sample", help="training text")
    parser.add_argument("--validation", help="held-out text; default: the sample's own, or the last rows of --data")
    parser.add_argument("--tasks", help="folder of the benchmark files, or hub; without it they are left out")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="some contenders")
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
    corpus, tasks = corpus_of(plan, options), items_of(options.tasks)
    measuring.clean_commit()
    if options.repeat < 1:
        raise RltokError(
            f"--repeat is {options.repeat}; a seed is run for the first time, the second, and so on. Give 1 or more."
        )
    (options.records / "repeats" if options.repeat > 1 else options.records).mkdir(parents=True, exist_ok=True)
    left_out: list[str] = []
    kept = read_folder(options.records, whole=False)
    records = {Path(name).stem: record for name, record in kept.items()}
    for number, run in enumerate(runs, start=1):
        if options.stop_after is not None and time.perf_counter() - start > options.stop_after:
            print(f"stopped before {run.stem}; the same command goes on", file=sys.stderr)
            return
        try:
            config, path = plan.config(run, records), run.record(options.records)
        except MissingRun as error:
            print(f"{number}/{len(runs)}  {run.stem}: left out, {error}", file=sys.stderr, flush=True)
            left_out.append(run.stem)
            continue
        record = stored(records.get(run.stem), path, config, corpus, tasks, plan.max_items)
        if record is None:
            record = run_one(plan, run, config, options, corpus, tasks)
            write_record(path, record)
        records[run.stem] = record  # a repeat has a name of its own here, so no run takes a number from it
        told = record.get("failed") or f"{record['scores']['validation']['bits_per_byte']:.4f} bits per byte"
        seconds = time.perf_counter() - start
        print(f"{number}/{len(runs)}  {run.stem}: {told}, {seconds:.0f} s so far", file=sys.stderr, flush=True)
    if left_out:
        raise RltokError(f"not run: {', '.join(left_out)}. What they take a number from has no finished record.")


if __name__ == "__main__":
    measuring.run(main)
