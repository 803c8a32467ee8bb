"""Chapter 09: estimators beyond the paper, from a record of scripts/measure/measure_estimators.py.

record --rungs_table--> bias, variance and cost of each     --times_less--> by how much a rung cuts the variance
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rltok.errors import RltokError
from rltok.show.tables import markdown
from rltok.variance.beyond import ORACLE, RUNGS, all_draws, antithetic
from rltok.variance.beyond_laboratory import CENTRED, FLIPPED, HEADS

WHAT = "estimators beyond the paper"  # how a record of them says what it is
FLIPPED_SHORT = "one decision in 2 flipped"  # of short rows, which have no 16 decisions
LEFT_OUT = ("baseline of 3 other draws", "antithetic, 4 draws", "linear value, later states")  # between two that are shown
SHOWN = [rung for rung in (*RUNGS, *HEADS, ORACLE, FLIPPED) if rung not in LEFT_OUT]
TRAINING = (all_draws, antithetic)  # whose draws all go back through the policy
OUTSIDE = f"{ORACLE}, which no training run knows"


def read(path: Path) -> dict[str, Any]:
    """The record.

    Raises:
        RltokError: it is of another kind.
    """
    record = json.loads(path.read_text(encoding="utf-8"))
    if record.get("schema") != 1 or not str(record.get("what", "")).startswith(WHAT):
        raise RltokError(f"{path.name} is no record of {WHAT}. Make it: scripts/measure/measure_estimators.py --out {path}.")
    return record


def times_less(record: Mapping[str, Any], rung: str) -> list[float]:
    """At each moment of training, the variance of the paper's one draw over that of a rung, on full rows."""
    name = rung if rung == FLIPPED else rung + CENTRED
    return [stage["sampled"]["rungs"][name]["ratio"][0] for stage in record["stages"]]


def largest_bias(record: Mapping[str, Any]) -> float:
    """The largest bias of any rung at any moment, in the largest entry of the gradient that it should have on average."""
    return max(max(one["bias"], one["bias_true"]) for stage in record["stages"] for one in stage["exact"].values())


def backward_passes(rung: str) -> int:
    """Backward passes through the policy in an update: one for each draw that trains it."""
    _, draws, made = RUNGS.get(rung, ("", 1, None))
    return draws if made in TRAINING else 1


def _ends(values: list[float], shown: str) -> str:
    low, high = (format(end, shown) for end in (min(values), max(values)))
    return low if low == high else f"{low} to {high}"


def rungs_table(record: Mapping[str, Any]) -> str:
    """Markdown: a row for each rung: exact bias, exact variance on short rows, variance on full rows, passes and FLOPs.

    Variances are the paper's one draw over the rung's, so that more is better; from least to most over moments of training. Of a
    rung without a cost in the record its parts are counted at the last moment.
    """
    rows, stages = [], record["stages"]
    for rung in SHOWN:
        short = FLIPPED_SHORT if rung == FLIPPED else rung
        exact = [stage["exact"][short] for stage in stages]
        bias = max(max(one["bias"], one["bias_true"]) for one in exact)
        cost = stages[-1]["costs"][rung]
        rows.append([
            OUTSIDE if rung == ORACLE else rung, f"{bias:.0e}", _ends([one["ratio"] for one in exact], ".2g"),
            _ends(times_less(record, rung), ".2g"), f"{cost['passes']} and {backward_passes(rung)}", f"{cost['flops']:.2f}",
        ])  # fmt: skip
    length = record["exact_bytes"]
    heads = ["estimator", "bias", f"times less variance, rows of {length} bytes",
             f"rows of {record['config']['data']['sequence_length']}", "passes forward and back", "FLOPs"]  # fmt: skip
    return markdown(heads, rows)
