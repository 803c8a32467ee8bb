"""Sealed files as they are read, where a run came from, and what its entries must be for tables and figures to be made of them.

file --read_sealed(check)--> record     each check takes `demand(ok, what is wrong)`, which raises with the file and the remedy
"""

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rltok.config import from_dict
from rltok.errors import RltokError
from rltok.system.digest import is_sealed
from rltok.system.files import MISSING, read_file

# By the start of a contender's name: what every difference is of.
RULE_OF = {"ours": "learned", "policy": "learned", "even": "even"}
CLEAN = re.compile(r"[0-9a-f]{40}")
SPLITS = ("validation", "test")
SUMS, MEANS = 1e-5, 1e-3  # relative, of bits per byte: units are kept to seven digits, items to four
SHARES = ("rate", "whitespace_share", "accuracy")
COUNTED = ("bytes", "seconds", "flops", "attention_flops", "matrix_parameters")  # each of a finished run is positive
CURVE = (
    "step",
    "bytes",
    "flops",
    "attention_flops",
    "rate",
    "whitespace_share",
    "policy_entropy",
    "advantage_rms",
    "nll",
    "early_nll",
)
HELD_OUT = ("step", "bytes", "flops", "bits_per_byte", "whitespace_share")

Demand = Callable[[bool, str], None]


def demanding(where: str, remedy: str) -> Demand:
    """What raises `RltokError` for all that is not as it should be, with the place and a sentence that says what to do."""

    def demand(ok: bool, what: str) -> None:
        if not ok:
            raise RltokError(f"{where}: {what}. {remedy}")

    return demand


def read_sealed(path: Path, where: str, remedy: str, check: Callable[[Any, Demand], None]) -> dict[str, Any]:
    """The content of a file that `check` finds nothing wrong with.

    Args:
        path: of the file.
        where, remedy: of errors, see `demanding`.
        check: takes what was read and a `Demand`, and calls `check_sealed` first.

    Raises:
        RltokError: no such file, no JSON (nor are NaN and Infinity), or what `check` found.
    """
    try:
        found = json.loads(read_file(path), parse_constant=_no_number)
    except RltokError as error:
        raise RltokError(f"{where}: {error} {remedy}") from error
    except (*MISSING, ValueError, RecursionError) as error:
        raise RltokError(f"{where} is missing or no JSON ({error}). {remedy}") from error
    try:
        check(found, demanding(where, remedy))
    except RltokError:
        raise
    except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError) as error:
        raise RltokError(f"{where}: an entry is missing or of another kind ({error!r}). {remedy}") from error
    return found


def _no_number(text: str) -> float:
    raise ValueError(f"{text} is no number")


def check_sealed(found: Any, demand: Demand, what: str, schema: int) -> None:
    """A record of this kind and schema, as it was when it was made."""
    demand(isinstance(found, dict) and found.get("what") == what, f"this is no record of {what}")
    demand(found.get("schema") == schema, f"schema {found.get('schema')!r} is unknown; this version reads {schema}")
    demand(is_sealed(found), "it was changed after it was made: its digest differs")


def check_origin(record: Mapping[str, Any], demand: Demand) -> None:
    """Settings of its hash and seed, a commit that can be looked up, and the rule that its name says."""
    config, told = record["config"], record.get("config_hash")
    try:
        digest = from_dict(config).digest()
    except (RltokError, KeyError, TypeError) as error:
        demand(False, f"its configuration cannot be read ({error})")
    demand(digest == told, f"config_hash is {told!r}, its configuration has {digest}")
    demand(config["train"]["seed"] == record["seed"], f"seed is {record['seed']}, its configuration has another")
    check_commit(record["commit"], demand)
    rule, named = config["model"]["rule"]["name"], record["name"].split("_")[0]
    demand(RULE_OF.get(named, rule) == rule, f"it is called {record['name']}, its boundaries are those of the rule {rule}")


def check_commit(commit: Any, demand: Demand) -> None:
    """A state of the code that can be looked up."""
    demand(
        isinstance(commit, str) and is_clean(commit),
        f"commit {str(commit)!r} is none that can be looked up, or its tree was not clean when the run began: commit, then train"
        " again in an empty folder",
    )


def is_clean(commit: str | None) -> bool:
    """Whether a commit names a state of the code that can be looked up."""
    return CLEAN.fullmatch(commit or "") is not None


def is_number(value: Any, low: float = -math.inf, high: float = math.inf) -> bool:
    """A finite number in [low, high]; JSON's true is none, and 1e999 is not finite."""
    return type(value) in (int, float) and math.isfinite(value) and low <= value <= high


def check_whole(record: Mapping[str, Any], demand: Demand) -> None:
    """Entries of a finished run; `demand(ok, what is wrong)` raises.

    An entry of a quite different kind may also raise KeyError, TypeError or AttributeError.
    """
    for key in COUNTED:
        demand(is_number(record[key], low=1e-12), f"{key} is {record[key]!r}, which is no positive number")
    demand(type(record["full"]) is bool, f"full is {record['full']!r}")
    demand(isinstance(record["device"], str) and isinstance(record["data"], dict), "device or data is of another kind")
    _check_scores(record["scores"], demand)
    for key in ("curve", "held_out", "snapshots", "samples"):
        demand(isinstance(record[key], list) and len(record[key]) > 0, f"{key} is empty")
    _check_curve("curve", record["curve"], CURVE, demand)
    _check_curve("held_out", record["held_out"], HELD_OUT, demand)
    ends = record["held_out"][-1]
    demand(ends["bytes"] == record["bytes"], f"it read {record['bytes']} bytes, its curve ends at {ends['bytes']}")
    _check_positions(record["positions"], demand)
    _check_drawn(record, demand)


def _check_scores(scores: Any, demand: Demand) -> None:
    demand(isinstance(scores, dict) and scores.get("validation") is not None and "test" in scores, "it has no validation score")
    for place, found in scores.items():
        if found is None:
            continue
        for key in (key for key in SHARES if found.get(key) is not None):
            demand(is_number(found[key], 0, 1), f"{key} of {place} is {found[key]!r}, which is no share")
        unit = "unit_bits" if place in SPLITS else "item_bits_per_byte"
        bits = np.array(found[unit])  # many: one by one they would take longer than all the rest
        good = bits.dtype.kind in "if" and np.isfinite(bits).all() and bits.min(initial=0) >= 0 and bits.any()
        demand(bool(good), f"bits of {place} are no positive numbers")
        if place in SPLITS:
            demand(is_number(found["rate"], 0, 1), f"rate of {place} is {found['rate']!r}, which is no share")
            same = len(found["unit_bits"]) == len(found["unit_bytes"]) > 0
            demand(same, f"bits and bytes of its {place} units do not belong together")
            told, summed = found["bits_per_byte"], sum(found["unit_bits"]) / sum(found["unit_bytes"])
            demand(abs(told - summed) <= SUMS * summed, f"{place} is {told} bits per byte, its units sum to {summed}")
        else:
            demand(len(found["item_bits_per_byte"]) == found["items"] > 0, f"the items of {place} are not as many as it says")
            told, mean = found["bits_per_byte"], sum(found["item_bits_per_byte"]) / found["items"]
            demand(abs(told - mean) <= MEANS * mean, f"{place} is {told} bits per byte, the mean of its items {mean}")


def _check_curve(name: str, points: Sequence[Any], keys: Sequence[str], demand: Demand) -> None:
    """Every point has these numbers (or None, where a rule has none), and steps and FLOPs only grow."""
    for point in points:
        odd = [key for key in keys if point[key] is not None and not is_number(point[key])]
        demand(not odd, f"a point of {name} has {', '.join(f'{key} {point[key]!r}' for key in odd)}")
    for key in ("step", "flops"):
        values = [point[key] for point in points]
        grows = all(before < after for before, after in zip(values, values[1:], strict=False))
        demand(grows and values[-1] > 0, f"the points of {name} are not in the order of {key}")


def _check_positions(found: Any, demand: Demand) -> None:
    sides = [found[key] for key in ("start", "rewards", "returns")]
    numbers = all(value is None or is_number(value) for side in sides for value in side)
    demand(numbers and len({len(side) for side in sides}) == 1, "positions hold no numbers, or not as many of each")
    demand(any(value is not None for value in sides[2]), "positions hold no return")


def _check_drawn(record: Mapping[str, Any], demand: Demand) -> None:
    """Snapshots in order, and passages whose boundaries are as many as their bytes."""
    steps = [shot["step"] for shot in record["snapshots"]]
    demand(steps == sorted(set(steps)) and steps[-1] > 0, "snapshots are not in the order of their steps")
    for sample in record["samples"]:
        same = len(sample["text"]) == len(sample["boundaries"]) and set(sample["boundaries"]) <= {"0", "1"}
        demand(same, "a passage's boundaries are not as many as its bytes, or no bits")
