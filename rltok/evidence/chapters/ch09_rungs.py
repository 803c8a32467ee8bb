"""Chapter 09: estimators beyond the paper, from a record of scripts/measure/measure_estimators.py.

record --rungs_table--> variance and cost of each     --exactly--> bias     --times_less--> how much less variance
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rltok.errors import RltokError
from rltok.evidence.words import ends
from rltok.show.tables import markdown
from rltok.variance.beyond import ORACLE, RUNGS
from rltok.variance.beyond_laboratory import CENTRED, FLIPPED, HEADS

WHAT = "estimators beyond the paper"  # how a record of them says what it is
FLIPPED_SHORT = "one decision in 2 flipped"  # of short rows, which have no 16 decisions
LEFT_OUT = (
    "baseline of 3 other draws",
    "antithetic, 4 draws",
    "linear value",
    "linear value, later states",
)  # between two that are shown
SHOWN = [rung for rung in (*RUNGS, *HEADS, ORACLE, FLIPPED) if rung not in LEFT_OUT]


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


def rungs_table(record: Mapping[str, Any]) -> str:
    """Markdown: a row for each rung but the paper's: variance on full rows and FLOPs of an update, both beside one draw.

    Variances are the paper's over the rung's, so that more is better; from least to most over moments of training.
    """
    costs = record["stages"][-1]["costs"]
    rows = [[rung, ends(times_less(record, rung), ".2g"), f"{costs[rung]['flops']:.1f}"] for rung in SHOWN[1:]]
    return markdown(["estimator", "times less variance", "times the FLOPs"], rows)


def exactly(record: Mapping[str, Any]) -> str:
    """A sentence on short rows, over all outcomes of a draw: the largest bias of all rungs, and what the oracle does there."""
    bias, oracle = 0.0, []
    for stage in record["stages"]:
        shown = [stage["exact"][FLIPPED_SHORT if rung == FLIPPED else rung] for rung in SHOWN]
        bias = max([bias, *(max(one["bias"], one["bias_true"]) for one in shown)])
        oracle.append(stage["exact"][ORACLE]["ratio"])
    left = ends((1 / one for one in oracle), ".1f")
    return (
        f"Over all draws of rows of {record['exact_bytes']} bytes, the largest bias of all estimators is {bias:.0e} of the"
        f" gradient's largest entry, mere rounding. Computed exactly, the *{ORACLE}* has {left} times one draw's variance there,"
        " by moment of training."
    )
