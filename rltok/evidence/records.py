"""Evidence records from a folder: checked, grouped by sweep and method, and compared in pairs.

    folder/SWEEP/NAME-seedK.json          --read_sweeps--> {sweep: Sweep} --scores--> bits and bytes of every unit, in one frame
    folder/SWEEP/repeats/NAME-seedK-R.json   the same seed once more: run R of it, from 2 on

A difference is paired by seed and by document (or row, or benchmark item), so that what all methods share cancels. A seed that
was run several times counts once, with the mean of its runs that have the score.
"""

import copy
import statistics
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from rltok.config import ADDED_SETTINGS, TrainConfig, place_of
from rltok.errors import RltokError
from rltok.evidence.packed import read_folder
from rltok.evidence.record_file import Record
from rltok.evidence.record_schema import SPLITS, unit_lists
from rltok.policy_settings import OF_POLICY
from rltok.runs.checkpoint import differences
from rltok.statistics import Difference, difference_of_units

OWN = ("seed", "micro_batch", *OF_POLICY)  # settings of training that belong to a method, as its rule does
RATE_OF = "_rate_"  # METHOD_rate_RIVAL has for its target rate the one at which the rival's run of the same seed ended
AGAIN = "_again"  # METHOD_again_rate_RIVAL aims as much lower as METHOD_rate_RIVAL drew more
SCHEDULE = ("learning_rate", "warmup_fraction", "sequences_per_update")  # in what runs that ask about the schedule may differ


def is_learned(record: Record) -> bool:
    """Whether its boundaries are those of a policy."""
    return record["config"]["model"]["rule"]["name"] == "learned"


@dataclass(frozen=True)
class Sweep:
    """The runs of one sweep, by method and seed; failed ones apart, and those of a seed that was run before.

    `donor` is another sweep, mostly of another size, whose deviations from seed to seed this one borrows where no two of its
    methods have enough seeds (`rltok.evidence.differences`).
    """

    name: str
    runs: dict[str, dict[int, Record]]
    failed: list[Record]
    repeats: dict[str, dict[int, list[Record]]] = field(default_factory=dict)
    donor: "Sweep | None" = None

    @property
    def records(self) -> list[Record]:
        """One finished run for each method and seed."""
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
        """Every run of a method with this seed."""
        return [self.runs[name][seed], *self.repeats.get(name, {}).get(seed, [])]

    def each(self, name: str, number: Callable[[Record], float | None]) -> list[float]:
        """A number of every seed of a method: the mean over its runs that have it; none of a seed whose runs have it not."""
        by_seed = [[number(run) for run in self.of_seed(name, seed)] for seed in self.runs.get(name, {})]
        known = [[value for value in values if value is not None] for values in by_seed]
        return [statistics.fmean(values) for values in known if values]

    def on(self, device: str) -> "Sweep":
        """The runs of one kind of device alone, one a seed."""
        by_method = [[(seed, run) for seed in self.runs[name] for run in self.of_seed(name, seed)] for name in self.runs]
        kept = [{seed: run for seed, run in reversed(runs) if run["device"] == device} for runs in by_method]
        return Sweep(
            self.name, {name: dict(sorted(runs.items())) for name, runs in zip(self.runs, kept, strict=True) if runs}, []
        )

    @property
    def full(self) -> bool:
        """False for a smoke sweep, whose numbers say that everything runs and nothing else."""
        return all(run["full"] for run in self.records)

    @cached_property
    def scores(self) -> pd.DataFrame:
        """A row for each unit that a run was scored on: method, seed, run (0, then repeats), place, unit, bits, bytes.

        A unit is a document of a split, or an item of a benchmark, which has bits per byte and counts as one byte.
        """
        frames = [
            pd.DataFrame({"method": name, "seed": seed, "run": number, "place": place, "bits": None, "bytes": 1}
                         | {column: score[key] for column, key in unit_lists(place).items()})
            for name in self.runs for seed in self.runs[name] for number, run in enumerate(self.of_seed(name, seed))
            for place, score in run["scores"].items() if score is not None
        ]  # fmt: skip
        columns = ("method", "seed", "run", "place", "bits", "bytes")
        return pd.concat(frames or [pd.DataFrame(columns=columns)]).rename_axis("unit").reset_index()

    @cached_property
    def by_unit(self) -> dict[str, tuple[pd.DataFrame, pd.DataFrame]]:
        """By place (bits, bytes) of every unit, a row each, with a column for each method and seed that has a score there.

        A seed that was run several times has the mean of its runs that have a score.
        """
        shape = {"index": "unit", "columns": ["method", "seed"], "values": ["bits", "bytes"]}
        wide = {place: scores.pivot_table(**shape) for place, scores in self.scores.groupby("place")}
        return {place: (table["bits"], table["bytes"]) for place, table in wide.items()}

    @cached_property
    def bits_per_byte(self) -> dict[str, pd.Series]:
        """By place, bits per byte of each method and seed."""
        return {place: bits.sum() / sizes.sum() for place, (bits, sizes) in self.by_unit.items()}

    def mean(self, name: str, place: str) -> Difference | None:
        """Bits per byte of a method: mean over seeds, with both errors. None without a score."""
        bits, sizes = (table.get(name) for table in self.by_unit.get(place, ({}, {})))
        return None if bits is None else difference_of_units(bits.T.to_numpy(), sizes.iloc[:, 0].to_numpy())

    def paired(self, first: str, second: str, place: str) -> tuple[np.ndarray, np.ndarray] | None:
        """(bits of the first minus the second's [S, U], a row for each seed that both have; bytes [U]). None without such a seed.

        Raises:
            RltokError: the two were scored on other units.
        """
        tables = self.by_unit.get(place, ({}, {}))
        (bits, sizes), (others, other_sizes) = ([table.get(name) for table in tables] for name in (first, second))
        if bits is None or others is None or (seeds := bits.columns.intersection(others.columns)).empty:
            return None
        each = np.concatenate([sizes[seeds], other_sizes[seeds]], axis=1)
        if (each != each[:, :1]).any():
            raise RltokError(f"{first} and {second} of sweep {self.name} were scored on other text ({place}). Score them again.")
        return (bits[seeds] - others[seeds]).T.to_numpy(), each[:, 0]

    def values(self, name: str, key: str, place: str = "validation") -> list[float]:
        """A number of a split's score for every seed, such as rate or whitespace_share; none where it is not known."""
        return self.each(name, lambda run: None if run["scores"][place] is None else run["scores"][place].get(key))


def read_sweeps(folder: Path, varied: Collection[str] = (), only: str = "*") -> dict[str, Sweep]:
    """Every sweep of a folder, that of most runs first: those at full size where there are any, else the smoke ones.

    Args:
        varied: settings of training that methods may differ in because a sweep is about them, such as 'learning_rate'.
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
    sweeps: dict[str, Sweep] = {}
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
        sweep = sweeps.setdefault(record["sweep"], Sweep(record["sweep"], {}, []))
        if record.get("failed"):
            sweep.failed.append(record)
        elif not again:
            sweep.runs.setdefault(record["name"], {})[record["seed"]] = record
        elif record["seed"] in sweep.runs.get(record["name"], {}):
            sweep.repeats.setdefault(record["name"], {}).setdefault(record["seed"], []).append(record)
        else:
            raise RltokError(f"{path} repeats a run that is not there. Move it to {lies[0]}/{lies[1]}.json.")
    for sweep in sweeps.values():
        _check_alike(sweep, varied)
    whole = {name: sweep for name, sweep in sorted(sweeps.items(), key=lambda one: -len(one[1].records)) if sweep.runs}
    full = {name: sweep for name, sweep in whole.items() if sweep.full}
    return full or whole


def filled(config: dict[str, Any]) -> dict[str, Any]:
    """A record's configuration; settings that the code did not have yet at the value by which it went."""
    config = copy.deepcopy(config)
    for name, old in ADDED_SETTINGS.items():
        place, last = place_of(config, name)
        place.setdefault(last, old)
    return config


def shared(record: Record, varied: Collection[str]) -> dict[str, Any]:
    """What runs that are compared have in common: budget, text, size, whether they are full; and of the text each score is of.

    `varied` are settings of training that may differ.
    """
    config = filled(record["config"])
    train = {key: value for key, value in config["train"].items() if key not in (*OWN, *varied)}
    scored = {split: record["scores"][split] for split in SPLITS}
    texts = {f"{split} text": (score["hash"], len(score["unit_bits"])) for split, score in scored.items() if score is not None}
    texts |= {
        f"items of {task}": (score["fingerprint"], score["items"])
        for task, score in record["scores"].items() if task not in SPLITS and score is not None
    }  # fmt: skip
    model = {key: value for key, value in config["model"].items() if key != "rule"}
    data = record["data"].get("train", {}).get("hash")
    return {"train": train, "model": model, "training text": data, "full": record["full"]} | texts


def _check_alike(sweep: Sweep, varied: Collection[str]) -> None:
    """Raise `RltokError` unless runs may be compared: shared settings, and one configuration, but for the seed, a method."""
    common: dict[str, Any] = {}
    for name, seeds in sweep.runs.items():
        config = _of_all_seeds(next(iter(seeds.values())))
        for seed, run in ((number, one) for number in seeds for one in sweep.of_seed(name, number)):
            mine = shared(run, varied)
            common = mine | common  # a split may be scored in some runs only
            other = differences({key: common[key] for key in mine}, mine) or differences(config, _of_all_seeds(run))
            if other:
                about = other[0].split(" ")[0].partition("train.")[2]
                raise RltokError(
                    f"sweep {sweep.name}: {name}, seed {seed}, differs from its neighbours: {'; '.join(other[:3])}. Runs of a"
                    " sweep share budget, size and text, and seeds of a method all settings."
                    + (f" If contenders are to differ in {about}, read them with varied=['{about}']." if about else "")
                )


def _of_all_seeds(record: Record) -> dict[str, Any]:
    """The configuration but for what belongs to a seed: the seed, and a rate that another run came to draw."""
    config = filled(record["config"])
    rule = config["model"]["rule"]
    taken = "rate_of" in record or RATE_OF in record["name"]  # older records say so by their name alone
    model = config["model"] | {"rule": rule | ({"target_rate": None} if taken else {})}
    return config | {"train": config["train"] | {"seed": None}, "model": model}
