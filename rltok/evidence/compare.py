"""All ways of drawing boundaries against each other: which runs, in which order, and what is recorded of them."""

import json
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from rltok.config import Config, from_dict
from rltok.device import resolve_device
from rltok.errors import RltokError
from rltok.evidence.methods import RULES, TWIN, TWINS, contender, twin
from rltok.evidence.ranking import standings
from rltok.evidence.runner import Job, Result, Setting, stored_result, workers
from rltok.runs.checkpoint import differences
from rltok.runs.results import device_name, repository_commit, versions
from rltok.system.files import MISSING, read_file
from rltok.system.stopwatch import duration

SCHEMA = 1
RECORD = "compare.json"
WHAT = "rltok compare"  # how every record's `what` begins
RUN = re.compile(rf"({'|'.join(RULES + TWINS)})-seed\d+")  # name of a run's folder


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


def stored_record(out: Path) -> dict[str, Any] | None:
    """The record in the folder of a comparison; None for an empty folder, or where a damaged one stands beside runs.

    Raises:
        RltokError: the folder holds something else.
    """
    if not out.exists() or not any(out.iterdir()):
        return None
    path = out / RECORD
    try:
        data = read_file(path)
    except MISSING as error:
        raise RltokError(
            f"{out} holds no comparison ({RECORD} is missing), so there is nothing to resume. Choose another --out."
        ) from error
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as error:
        if not data or any(RUN.fullmatch(entry.name) and entry.is_dir() for entry in out.iterdir()):
            return None  # just begun, or the runs say themselves what they are of
        raise RltokError(f"{path} is damaged, and no run of a comparison stands beside it. Choose another --out.") from error
    if not isinstance(found, dict) or not str(found.get("what")).startswith(WHAT):
        raise RltokError(f"{path} is no record of {WHAT}, so it stays as it is. Choose another --out.")
    if found.get("schema") != SCHEMA:
        raise RltokError(f"{path} has schema {found.get('schema')!r}; this version reads {SCHEMA}. Choose another --out.")
    return found


def check_agrees(comparison: Comparison, setting: Setting, split: str) -> None:
    """Raise `RltokError` unless going on in the folder loses nothing: the same comparison, and no finished run left out."""
    out, found = comparison.out, stored_record(comparison.out)
    if found is None:
        return
    now = {
        "config": comparison.bases[0].to_dict(), "data": setting.corpus.description, "split": split, "full": setting.full,
    }  # fmt: skip
    try:
        changed = differences(_identity(found), _identity(now))
        runs = [(run["name"], run["seed"]) for run in found["runs"]] if found["finished"] else []
        rules = [str(name) for name in dict.fromkeys(name for name, _ in runs) if name not in comparison.names]
        wanted = [base.train.seed for base in comparison.bases]
        seeds = [str(seed) for seed in dict.fromkeys(seed for _, seed in runs) if seed not in wanted]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise RltokError(f"{out / RECORD} is damaged ({error!r}). Restore it, or choose another --out.") from error
    if changed:
        raise RltokError(
            f"{out} holds another comparison: {'; '.join(changed[:3])}. Resume with the same, or choose another --out."
        )
    if rules or seeds:
        left = " ".join([*(["--rules", *rules] if rules else []), *(["--seeds", *seeds] if seeds else [])])
        raise RltokError(
            f"{out} holds finished runs that this call leaves out. Name them as well: {left}, or choose another --out."
        )


def _identity(record: dict[str, Any]) -> dict[str, Any]:
    """What all calls on one folder share; of the configuration all but the seed and what each contender has of its own."""
    config = from_dict(record["config"]).to_dict()  # settings that came later have their defaults
    del config["name"], config["train"]["seed"], config["model"]["rule"]["name"]
    texts = {f"--data, {part} text": (record["data"][part] or {}).get("hash") for part in ("train", "validation", "test")}
    return config | texts | {"--split": record["split"], "--budget": "full" if record["full"] else "smoke"}


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
        "what": f"{WHAT}: ways of drawing boundaries on one network, one data order, one budget of bytes",
        "finished": bool(results),
        "full": setting.full,
        "split": split,
        "rules": list(comparison.names),
        "seeds": [base.train.seed for base in comparison.bases],
        "config": base.to_dict(),  # of all runs, but for seed and what each run names: rule and micro_batch
        "config_hash": base.digest(),
        "data": setting.corpus.description,
        "commit": repository_commit(),
        "device": device_name(resolve_device(setting.device)),
        "versions": found,
        "standings": standings(results),
        "runs": [{key: value for key, value in result.items() if key != "row_bits_per_byte"} for result in results],
    }
