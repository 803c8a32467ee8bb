"""Evidence records from a folder: checked, grouped by sweep and contender, and compared in pairs.

    folder/SWEEP/NAME-seedK.json          --read_sweeps--> {sweep: Sweep} --gap(first, second, place)--> Gap
    folder/SWEEP/repeats/NAME-seedK-R.json   the same seed once more: run R of it, from 2 on

A difference is paired by seed and by document (or row, or benchmark item), so that what all contenders share cancels. A seed that
was run several times counts once, with the mean of its runs that have the score.
"""

import statistics
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np

from rltok.config import TrainConfig
from rltok.errors import RltokError
from rltok.evidence.packed import read_folder
from rltok.evidence.record_file import Record
from rltok.evidence.record_schema import SPLITS
from rltok.runs.checkpoint import differences
from rltok.statistics import Gap, gap_of_units

OWN = ("seed", "micro_batch", "policy_lr_multiplier")  # settings of training that belong to a contender, as its rule does
SCHEDULE = ("learning_rate", "warmup_fraction", "sequences_per_update")  # in what runs that ask about the schedule may differ


def is_learned(record: Record) -> bool:
    """Whether its boundaries are those of a policy."""
    return record["config"]["model"]["rule"]["name"] == "learned"


@dataclass(frozen=True)
class Sweep:
    """The runs of one sweep, by contender and seed; failed ones apart, and those of a seed that was run before.

    `lender` is another sweep, mostly of another size, whose deviations from seed to seed this one borrows where nobody in it has
    enough seeds (`rltok.evidence.donors`).
    """

    name: str
    runs: dict[str, dict[int, Record]]
    failed: list[Record]
    repeats: dict[str, dict[int, list[Record]]] = field(default_factory=dict)
    lender: "Sweep | None" = None

    @property
    def records(self) -> list[Record]:
        """One finished run for each contender and seed."""
        return [run for seeds in self.runs.values() for run in seeds.values()]

    @property
    def everything(self) -> list[Record]:
        """Every finished run, repeats too."""
        return [run for name in self.runs for seed in self.runs[name] for run in self.of_seed(name, seed)]

    @property
    def digests(self) -> list[str]:
        """Digests of `everything`, sorted: what something was made of when it was made of the whole sweep."""
        return sorted(run["digest"] for run in self.everything)

    def of_seed(self, name: str, seed: int) -> list[Record]:
        """Every run of a contender with this seed."""
        return [self.runs[name][seed], *self.repeats.get(name, {}).get(seed, [])]

    def each(self, name: str, number: Callable[[Record], float | None]) -> list[float]:
        """A number of every seed of a contender: the mean over its runs that have it; none of a seed whose runs have it not."""
        found = [[number(run) for run in self.of_seed(name, seed)] for seed in self.runs.get(name, {})]
        known = [[value for value in values if value is not None] for values in found]
        return [statistics.fmean(values) for values in known if values]

    def on(self, device: str) -> "Sweep":
        """The runs of one kind of device alone, one a seed."""
        found = [[(seed, run) for seed in self.runs[name] for run in self.of_seed(name, seed)] for name in self.runs]
        kept = [{seed: run for seed, run in reversed(runs) if run["device"] == device} for runs in found]
        return Sweep(
            self.name, {name: dict(sorted(runs.items())) for name, runs in zip(self.runs, kept, strict=True) if runs}, []
        )

    @property
    def full(self) -> bool:
        """False for a smoke sweep, whose numbers say that everything runs and nothing else."""
        return all(run["full"] for run in self.records)

    def score(self, run: Record, place: str) -> tuple[np.ndarray, np.ndarray] | None:
        """(bits, bytes) of every unit of a split, or (bits per byte, ones) of every item; None where it was not scored."""
        found = run["scores"].get(place)
        if found is None:
            return None
        if place in SPLITS:
            return np.array(found["unit_bits"]), np.array(found["unit_bytes"], dtype=float)
        bits = np.array(found["item_bits_per_byte"])
        return bits, np.ones(len(bits))

    def scored(self, name: str, place: str) -> dict[int, tuple[np.ndarray, np.ndarray]]:
        """`score` of every seed that has one, the mean over its runs that have one."""
        found = {}
        for seed in self.runs.get(name, {}):
            scores = [one for run in self.of_seed(name, seed) if (one := self.score(run, place)) is not None]
            if scores:
                found[seed] = np.mean([bits for bits, _ in scores], axis=0), scores[0][1]
        return found

    def mean(self, name: str, place: str) -> Gap | None:
        """Bits per byte of a contender: mean over seeds, errors over units and over seeds. None without a score."""
        scored = self.scored(name, place)
        return gap_of_units([bits for bits, _ in scored.values()], next(iter(scored.values()))[1]) if scored else None

    def gap(self, first: str, second: str, place: str) -> tuple[Gap, int] | None:
        """Delta = bits per byte of the first minus the second's, over seeds that both have, and the number of these seeds."""
        found = self.paired(first, second, place)
        return None if found is None else (gap_of_units(*found), len(found[0]))

    def paired(self, first: str, second: str, place: str) -> tuple[np.ndarray, np.ndarray] | None:
        """(bits of the first minus the second's [S, U], a row a seed that both have; bytes [U]) of every unit at a place.

        A unit is a document of a split, or an item of a benchmark. None without a seed in common.

        Raises:
            RltokError: the two were scored on other units.
        """
        ours, theirs = self.scored(first, place), self.scored(second, place)
        seeds = [seed for seed in ours if seed in theirs]
        if not seeds:
            return None
        sizes = ours[seeds[0]][1]
        if any(not np.array_equal(side[seed][1], sizes) for seed in seeds for side in (ours, theirs)):
            raise RltokError(f"{first} and {second} of sweep {self.name} were scored on other text ({place}). Score them again.")
        return np.array([ours[seed][0] - theirs[seed][0] for seed in seeds]), sizes

    def values(self, name: str, key: str, place: str = "validation") -> list[float]:
        """A number of a split's score for every seed, such as rate or whitespace_share; none where it is not known."""
        return self.each(name, lambda run: None if run["scores"][place] is None else run["scores"][place].get(key))


def read_sweeps(folder: Path, varied: Collection[str] = (), only: str = "*") -> dict[str, Sweep]:
    """Every sweep of a folder, that of most runs first: those at full size where there are any, else the smoke ones.

    Args:
        varied: settings of training that contenders may differ in because a sweep is about them, such as 'learning_rate'.
        only: the sweep that is wanted; others are not looked at.

    Raises:
        RltokError: a record is damaged, of another schema, in another place, or of other settings or text than its neighbours;
            `varied` names what is no setting of training.
    """
    known = [setting.name for setting in fields(TrainConfig)]
    if odd := [name for name in varied if name not in known]:
        raise RltokError(
            f"{odd[0]!r} is no setting of training, so contenders cannot differ in it. Name some of {', '.join(known)}."
        )
    found: dict[str, Sweep] = {}
    seen: dict[str, Path] = {}
    files = {path.relative_to(folder) / name: record for path in sorted(folder.glob(only)) if path.is_dir()
             for name, record in read_folder(path).items()}  # fmt: skip
    for path, record in files.items():
        again = path.parent.name == "repeats"
        stem, _, number = path.stem.rpartition("-") if again else (path.stem, "", "")
        if again and not (number.isdecimal() and int(number) > 1):
            raise RltokError(f"{path} is a run of a seed that was run before, so its number is 2 or more.")
        lies = (path.parts[0], stem)
        if lies != (record["sweep"], f"{record['name']}-seed{record['seed']}"):
            raise RltokError(
                f"{path} holds {record['name']}, seed {record['seed']}, of sweep {record['sweep']}."
                " A record lies at SWEEP/NAME-seedK.json, one of a seed that was run before at SWEEP/repeats/NAME-seedK-2.json."
            )
        if record["digest"] in seen:
            raise RltokError(f"{path} is the same run as {seen[record['digest']]}. Remove one of them.")
        seen[record["digest"]] = path
        sweep = found.setdefault(record["sweep"], Sweep(record["sweep"], {}, []))
        if record.get("failed"):
            sweep.failed.append(record)
        elif not again:
            sweep.runs.setdefault(record["name"], {})[record["seed"]] = record
        elif record["seed"] in sweep.runs.get(record["name"], {}):
            sweep.repeats.setdefault(record["name"], {}).setdefault(record["seed"], []).append(record)
        else:
            raise RltokError(f"{path} repeats a run that is not there. Move it to {lies[0]}/{lies[1]}.json.")
    for sweep in found.values():
        _check_alike(sweep, varied)
    whole = {name: sweep for name, sweep in sorted(found.items(), key=lambda one: -len(one[1].records)) if sweep.runs}
    full = {name: sweep for name, sweep in whole.items() if sweep.full}
    return full or whole


def shared(record: Record, varied: Collection[str]) -> dict[str, Any]:
    """What runs that are compared have in common: budget, text, size, whether they are full; and of the text each score is of.

    `varied` are settings of training that may differ.
    """
    train = {key: value for key, value in record["config"]["train"].items() if key not in (*OWN, *varied)}
    scored = {split: record["scores"][split] for split in SPLITS}
    texts = {f"{split} text": (found["hash"], len(found["unit_bits"])) for split, found in scored.items() if found is not None}
    texts |= {
        f"items of {task}": (found["fingerprint"], found["items"])
        for task, found in record["scores"].items() if task not in SPLITS and found is not None
    }  # fmt: skip
    model = {key: value for key, value in record["config"]["model"].items() if key != "rule"}
    data = record["data"].get("train", {}).get("hash")
    return {"train": train, "model": model, "training text": data, "full": record["full"]} | texts


def _check_alike(sweep: Sweep, varied: Collection[str]) -> None:
    """Raise `RltokError` unless runs may be compared: shared settings, and one configuration, but for the seed, a contender."""
    common: dict[str, Any] = {}
    for name, seeds in sweep.runs.items():
        config = _without_seed(next(iter(seeds.values()))["config"])
        for seed, run in ((number, one) for number in seeds for one in sweep.of_seed(name, number)):
            mine = shared(run, varied)
            common = mine | common  # a split may be scored in some runs only
            other = differences({key: common[key] for key in mine}, mine) or differences(config, _without_seed(run["config"]))
            if other:
                about = other[0].split(" ")[0].partition("train.")[2]
                raise RltokError(
                    f"sweep {sweep.name}: {name}, seed {seed}, differs from its neighbours: {'; '.join(other[:3])}. Runs of a"
                    " sweep share budget, size and text, and seeds of a contender all settings."
                    + (f" If contenders are to differ in {about}, read them with varied=['{about}']." if about else "")
                )


def _without_seed(config: dict[str, Any]) -> dict[str, Any]:
    return config | {"train": config["train"] | {"seed": None}}
