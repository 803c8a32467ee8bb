"""Chapter 09: estimators beyond the paper, from a record of scripts/measure/measure_estimators.py.

record --rungs_table--> bias, variance and cost of each     --times_less--> by how much an estimator cuts the variance
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
LEFT_OUT = ("baseline of 3 other draws", "antithetic, 4 draws", "linear value, later states")  # between two that are shown
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
    """Markdown: a row for each rung: exact bias, exact variance on short rows, variance on full rows, FLOPs of an update.

    Variances are the paper's one draw over the rung's, so that more is better; from least to most over moments of training.
    """
    rows, stages = [], record["stages"]
    for rung in SHOWN:
        exact = [stage["exact"][FLIPPED_SHORT if rung == FLIPPED else rung] for stage in stages]
        bias = max(max(one["bias"], one["bias_true"]) for one in exact)
        short, full = ends([one["ratio"] for one in exact], ".2g"), ends(times_less(record, rung), ".2g")
        rows.append([rung, f"{bias:.0e}", short, full, f"{stages[-1]['costs'][rung]['flops']:.2f}"])
    lengths = record["exact_bytes"], record["config"]["data"]["sequence_length"]
    less = [f"times less variance, {length} bytes" for length in lengths]
    return markdown(["estimator", "largest bias", *less, "times the FLOPs"], rows)
