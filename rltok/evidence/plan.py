"""A plan of runs: methods, seeds, and what settings each run has; from a file, or made by `rltok compare`.

TOML --read_plan--> Plan     plan.config(run, records) --> settings, where a run may take numbers from another one's record
"""

import statistics
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rltok.config import Config, with_settings
from rltok.errors import RltokError
from rltok.evidence.record_file import Record
from rltok.presets import preset
from rltok.rules.byte_pairs import require_tokenizers

HIGHEST_RATE = 0.999  # that a run takes from another one

PLAN_KEYS = {"preset", "full", "seeds", "settings", "run", "schedule", "max_items"}
RUN_KEYS = {"name", "variant", "settings", "seeds", "rate_of", "less_miss_of", "same_pull_as"}
SCHEDULE_KEYS = {"name", "settings"}


class MissingRun(RltokError):
    """A run that needs another one's record."""


@dataclass(frozen=True)
class Planned:
    """One run of a plan: a method and a seed.

    Its settings start from `base`, or, without one, from the plan's preset with this `variant`.
    """

    name: str
    seed: int
    variant: str | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    rate_of: str | None = None  # target rate: what this method came to draw
    less_miss_of: str | None = None  # less what this method, with the same target, came to draw beyond it
    same_pull_as: str | None = None  # lambda_policy * RMS of the advantages as of this method
    repeat: int = 1  # how many times this seed is run with this one
    base: Config | None = None

    @property
    def waits(self) -> bool:
        """Whether its settings need another run's record."""
        return bool(self.rate_of or self.same_pull_as)

    @property
    def stem(self) -> str:
        """Name of its folder and record."""
        return f"{self.name}-seed{self.seed}" + (f"-{self.repeat}" if self.repeat > 1 else "")

    def record(self, folder: Path) -> Path:
        """Where its record lies among those of the sweep."""
        return (folder / "repeats" if self.repeat > 1 else folder) / f"{self.stem}.json"


@dataclass(frozen=True)
class Plan:
    """What a sweep consists of; `name` is that of its file.

    `matched` names the number of a score, at the place `match_at`, that becomes the target rate of a run with `rate_of`: a policy
    is held at a rate of drawn positions, random places are counted in tokens per byte.
    """

    name: str
    preset: str
    full: bool
    settings: dict[str, Any]
    runs: list[Planned]
    max_items: int | None = None
    matched: str = "rate"
    match_at: str = "validation"

    def base(self, run: Planned) -> Config:
        """What the settings of a run change."""
        return run.base or preset(f"{self.preset}_{run.variant}" if run.variant else self.preset)

    def config(self, run: Planned, records: dict[str, Record]) -> Config:
        """Settings of a run; what it takes from another run's record must be there."""
        base = self.base(run)
        settings = self.settings | run.settings | {"train.seed": run.seed, "name": f"{self.preset}_{run.name}"}
        if run.rate_of:
            drawn = taken(records, run, run.rate_of)["scores"][self.match_at][self.matched]
            if run.less_miss_of:
                first = taken(records, run, run.less_miss_of)["scores"][self.match_at][self.matched]
                drawn -= first - drawn
            settings["model.rule.target_rate"] = min(drawn, HIGHEST_RATE)
        config = with_settings(base, settings)
        if run.same_pull_as:
            model, now = taken(records, run, run.same_pull_as), taken(records, run, same_gamma(self, run))
            weight = config.objective.lambda_policy * pull(model) / pull(now)
            config = with_settings(config, {"objective.lambda_policy": weight})
        return config


def same_gamma(plan: Plan, run: Planned) -> str:
    """The method with the same settings and nothing taken from others."""
    for other in plan.runs:
        if (
            other.settings == run.settings
            and other.seed == run.seed
            and not (other.same_pull_as or other.rate_of or other.variant)
        ):
            return other.name
    raise RltokError(f"{run.name} has no run of the same settings to compare advantages with. Add one to the plan.")


def taken(records: dict[str, Record], run: Planned, name: str) -> Record:
    """The record of another method at this run's seed."""
    record = records.get(f"{name}-seed{run.seed}")
    if record is None or record.get("failed"):
        raise MissingRun(f"{run.stem} takes a number from {name}-seed{run.seed}, which has no finished record. Run that first.")
    return record


def pull(record: Record) -> float:
    """RMS of the advantages, median over the second half of training."""
    sizes = [point["advantage_rms"] for point in record["curve"]]
    return statistics.median(sizes[len(sizes) // 2 :])


def _check_types(content: dict[str, Any]) -> None:
    """Raise TypeError or KeyError for a plan whose entries are of another kind."""
    kinds = {"preset": str, "full": bool, "seeds": list, "settings": dict, "run": list, "schedule": list, "max_items": int}
    wrong = [key for key, kind in kinds.items() if key in content and type(content[key]) is not kind]
    for run in content.get("run", []):
        kinds = {"name": str, "variant": str, "settings": dict, "seeds": list}
        kinds |= {"rate_of": str, "less_miss_of": str, "same_pull_as": str}
        wrong += [f"run.{key}" for key, kind in kinds.items() if key in run and type(run[key]) is not kind]
        wrong += [] if "name" in run else ["run.name"]
    for schedule in content.get("schedule", []):
        kinds = {"name": str, "settings": dict}
        wrong += [f"schedule.{key}" for key, kind in kinds.items() if type(schedule.get(key)) is not kind]
    seeds = [*content.get("seeds", []), *(seed for run in content.get("run", []) for seed in run.get("seeds", []))]
    wrong += [f"seed {seed!r}" for seed in seeds if type(seed) is not int or seed < 0]
    if wrong:
        raise TypeError(", ".join(wrong))


def read_plan(path: Path) -> Plan:
    """A plan from its file; unknown keys and double names are errors.

    With schedules, each run is made under each of them: run `even` and schedule `late` give `even_late`.
    """
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise RltokError(f"{path} is no plan: {error}.") from error
    try:
        _check_types(content)
    except (TypeError, KeyError, AttributeError) as error:
        raise RltokError(f"{path}: a value is missing or of another kind ({error}).") from error
    unknown = [key for key in content if key not in PLAN_KEYS]
    unknown += [f"run.{key}" for run in content.get("run", []) for key in run if key not in RUN_KEYS]
    unknown += [f"schedule.{key}" for schedule in content.get("schedule", []) for key in schedule if key not in SCHEDULE_KEYS]
    if unknown or not content.get("run") or not content.get("seeds") or "preset" not in content or "full" not in content:
        raise RltokError(f"{path} needs preset, full, seeds and runs; it has unknown keys: {', '.join(unknown) or 'none'}.")
    runs = [
        Planned(f"{run['name']}{schedule['name'] and '_' + schedule['name']}", seed, run.get("variant"),
                schedule["settings"] | run.get("settings", {}), run.get("rate_of"), run.get("less_miss_of"),
                run.get("same_pull_as"))
        for run in content["run"] for schedule in content.get("schedule") or [{"name": "", "settings": {}}]
        for seed in run.get("seeds", content["seeds"])
    ]  # fmt: skip
    adrift = [run.name for run in runs if run.less_miss_of and not run.rate_of]
    if adrift:
        raise RltokError(f"{path}: {adrift[0]} has less_miss_of without rate_of. Name the method whose rate was missed.")
    if len({run.stem for run in runs}) < len(runs):
        raise RltokError(f"{path} names a run twice. Each needs a name of its own.")
    return Plan(path.stem, content["preset"], content["full"], content.get("settings", {}), runs, content.get("max_items"))


def wanted(plan: Plan, only: Sequence[str] | None, seeds: Sequence[int] | None) -> list[Planned]:
    """The runs of some methods and seeds (None: all), in the plan's order; an unknown name or seed is an error."""
    unknown = [name for name in only or () if name not in {run.name for run in plan.runs}]
    if unknown:
        raise RltokError(
            f"the plan has no run {', '.join(unknown)}. It has: {', '.join(dict.fromkeys(r.name for r in plan.runs))}."
        )
    known = sorted({run.seed for run in plan.runs if not only or run.name in only})
    if odd := [seed for seed in seeds or () if seed not in known]:
        raise RltokError(f"the plan has no seed {', '.join(map(str, odd))} of these runs. It has: {', '.join(map(str, known))}.")
    return [run for run in plan.runs if (not only or run.name in only) and (not seeds or run.seed in seeds)]


def check_packages(plan: Plan, runs: Sequence[Planned]) -> None:
    """Raise `RltokError` before anything is trained where a rule lacks a package, which else shows after hours."""
    if any(plan.base(run).model.rule.name == "bpe" for run in runs):
        require_tokenizers()
