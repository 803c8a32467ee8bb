"""All ways of drawing boundaries against each other: which runs, in which order, and what is recorded of them."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from rltok.config import Config
from rltok.contenders import TWIN, TWINS, contender, twin
from rltok.contest import Job, Result, Setting, stored_result, workers
from rltok.results import device_name, repository_commit, versions
from rltok.standings import standings
from rltok.step import resolve_device

SCHEMA = 1
RECORD = "compare.json"


@dataclass(frozen=True)
class Comparison:
    """Who competes: contenders, one base configuration a seed, and where the runs go."""

    names: Sequence[str]
    bases: Sequence[Config]
    size: str | None  # a preset without variant; None: tiny
    settings: dict[str, Any]
    out: Path

    def jobs(self) -> list[Job]:
        """The runs of the rules."""
        return [
            (name, contender(base, self.size, name, self.settings), self._folder(name, base))
            for base in self.bases for name in self.names if name not in TWINS
        ]  # fmt: skip

    def twin_jobs(self, results: Sequence[Result]) -> list[Job]:
        """The runs at random places, at the tokens per byte that came out of the rules."""
        tokens = {(result["name"], result["seed"]): result["evaluation"]["tokens_per_byte"] for result in results}
        made = []
        for base in self.bases:
            for name in self.names:
                if name in TWINS:
                    rate = tokens[name.removeprefix(TWIN), base.train.seed]
                    made.append((name, twin(base, self.size, name, rate), self._folder(name, base)))
        return made

    def expected_jobs(self, setting: Setting) -> list[Job]:
        """All runs, for an estimate: twins have the target rate where their own is not known yet."""
        guesses = [
            {"name": name, "seed": base.train.seed, "evaluation": {"tokens_per_byte": base.model.rule.target_rate}}
            for base in self.bases for name in self.names
        ]  # fmt: skip
        jobs = self.jobs()
        return jobs + self.twin_jobs(guesses + [found for job in jobs if (found := stored_result(job, setting))])

    def _folder(self, name: str, base: Config) -> Path:
        return self.out / f"{name}-seed{base.train.seed}"


def run_all(comparison: Comparison, setting: Setting, count: int, say: Callable[[str], None]) -> list[Result]:
    """Every run, with a line for each when it is done; the results in the order of seeds and names."""
    stored = {job[2].name for job in comparison.expected_jobs(setting) if stored_result(job, setting)}
    results: list[Result] = []
    runs, start = len(comparison.names) * len(comparison.bases), time.perf_counter()

    def told(result: Result) -> str:
        found, spent = result["evaluation"], time.perf_counter() - start
        line = f"{len(results)}/{runs}  {result['name']}, seed {result['seed']}: {found['bits_per_byte']:.3f} bits per byte"
        if result["folder"] in stored:
            return line + ", was finished"
        fresh = sum(done["folder"] not in stored for done in results)
        line += f", rate {found['rate']:.3f}; {duration(spent)} so far"
        if fresh <= count or len(results) == runs:  # too early to tell, or over
            return line
        return line + f", about {duration(spent / fresh * (runs - len(results)))} left"

    with workers(count, setting) as run:
        for wave in (comparison.jobs, lambda: comparison.twin_jobs(list(results))):  # twins wait for the rates
            for result in run(wave()):
                results.append(result)
                say(told(result))
    seeds = [base.train.seed for base in comparison.bases]
    return sorted(results, key=lambda result: (seeds.index(result["seed"]), comparison.names.index(result["name"])))


def duration(seconds: float) -> str:
    """Seconds as a person says them."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


def record_of(comparison: Comparison, setting: Setting, split: str, results: Sequence[Result]) -> dict[str, Any]:
    """Everything that names the comparison, and what came out; without results it marks a folder that is under way."""
    found = versions()
    try:
        found["tokenizers"] = version("tokenizers")
    except PackageNotFoundError:
        found["tokenizers"] = "not installed"
    base = comparison.bases[0]
    return {
        "schema": SCHEMA,
        "what": "rltok compare: ways of drawing boundaries on one network, one data order, one budget of bytes",
        "finished": bool(results),
        "full": setting.full,
        "split": split,
        "config": base.to_dict(),  # of all runs, but for seed and what each run names: rule and micro_batch
        "config_hash": base.digest(),
        "data": setting.corpus.description,
        "commit": repository_commit(),
        "device": device_name(resolve_device(setting.device)),
        "versions": found,
        "standings": standings(results),
        "runs": [{key: value for key, value in result.items() if key != "row_bits_per_byte"} for result in results],
    }
