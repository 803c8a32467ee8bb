"""What the entries of an evidence record must be for tables and figures to be made of them: a JSON Schema, and what must add up.

Entries that the schema does not name are free. It is compiled when the first record is checked.
"""

import functools
import math
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

from rltok.evidence.record_checks import Demand

SPLITS = ("validation", "test")
SUMS, MEANS = 1e-5, 1e-3  # relative, of bits per byte: units are kept to seven digits, items to four
CURVE_NEEDS = ("step", "bytes", "flops", "attention_flops", "rate", "whitespace_share", "policy_entropy", "advantage_rms", "nll",
               "early_nll")  # fmt: skip
HELD_OUT_NEEDS = ("step", "bytes", "flops", "bits_per_byte", "whitespace_share")
LONGEST_VALUE = 60  # characters of a wrong value that an error repeats

NUMBER = {"type": "number", "minimum": -1e300, "maximum": 1e300}  # 1e999 is none
MAYBE = NUMBER | {"type": ["number", "null"]}
POSITIVE, AT_LEAST_0 = NUMBER | {"exclusiveMinimum": 0}, NUMBER | {"minimum": 0}
SHARE = NUMBER | {"minimum": 0, "maximum": 1}
MAYBE_SHARE = MAYBE | {"minimum": 0, "maximum": 1}
COUNT, TEXT, TABLE = {"type": "integer", "minimum": 1}, {"type": "string"}, {"type": "object"}


def unit_lists(place: str) -> dict[str, str]:
    """The entries of a score that list its units, by what they list: documents of a split, or items, each one byte."""
    return {"bits": "unit_bits", "bytes": "unit_bytes"} if place in SPLITS else {"bits": "item_bits_per_byte"}


def _object(**entries: Any) -> dict[str, Any]:
    return {"type": "object", "properties": entries, "required": list(entries)}


def _list(items: Any, least: int = 1) -> dict[str, Any]:
    return {"type": "array", "items": items, "minItems": least}


SPLIT = _object(bits_per_byte=POSITIVE, rate=SHARE, unit_bits=_list(AT_LEAST_0), unit_bytes=_list(COUNT))
SPLIT["properties"]["whitespace_share"] = MAYBE_SHARE
TASK = _object(bits_per_byte=POSITIVE, items=COUNT, item_bits_per_byte=_list(AT_LEAST_0))
TASK["properties"]["accuracy"] = MAYBE_SHARE
SCORES = _object(validation=SPLIT, test={"anyOf": [{"type": "null"}, SPLIT]})
SCORES["additionalProperties"] = {"anyOf": [{"type": "null"}, TASK]}
AT_RATES = _list(_object(target_rate=SHARE, bits_per_byte=POSITIVE, rate=SHARE, tokens_per_byte=AT_LEAST_0, hash=TEXT), 0)
ATTEMPT = _object(sweep=TEXT, name=TEXT, seed={"type": "integer"}, commit={"type": ["string", "null"]}, device=TEXT,
                  versions=TABLE, data=TABLE)  # fmt: skip
FINISHED = _object(
    **ATTEMPT["properties"],
    full={"type": "boolean"},
    **dict.fromkeys(("bytes", "seconds", "flops", "attention_flops", "matrix_parameters"), POSITIVE),
    scores=SCORES,
    curve=_list(_object(**dict.fromkeys(CURVE_NEEDS, MAYBE))),
    held_out=_list(_object(**dict.fromkeys(HELD_OUT_NEEDS, MAYBE))),
    positions=_object(**dict.fromkeys(("start", "rewards", "returns"), _list(MAYBE, 0))),
    samples=_list(_object(text=TEXT, boundaries={"type": "string", "pattern": "^[01]*$"})),
    snapshots=_list(_object(step={"type": "integer"})),
)  # a failed run has what an ATTEMPT has
FINISHED["properties"]["rates"] = _object(validation=AT_RATES, test={"anyOf": [{"type": "null"}, AT_RATES]})


@functools.cache
def _compiled(failed: bool) -> Callable[[Any], Any]:
    import fastjsonschema  # machines that only train write records and need none of it

    return fastjsonschema.compile({"$schema": "http://json-schema.org/draft-07/schema#"} | (ATTEMPT if failed else FINISHED))


def check_entries(record: Mapping[str, Any], demand: Demand) -> None:
    """Entries of a record, of a finished or of a failed run; `demand(ok, what is wrong)` raises."""
    failed = bool(record.get("failed"))
    try:
        _compiled(failed)(record)
    except ValueError as error:  # JsonSchemaValueException is one
        value = repr(error.value)
        shown = f", and is {value}" if error.rule != "required" and len(value) <= LONGEST_VALUE else ""
        demand(False, ("it" + error.message.removeprefix("data")).removeprefix("it.") + shown)
    if not failed:
        _check_sums(record["scores"], demand)
        _check_order(record, demand)


def check_rates(record: Mapping[str, Any], demand: Demand) -> None:
    """A run with a range of target rates has scores at some of them, on the text of its other scores; no other run has any."""
    rule, rates = record["config"]["model"]["rule"], record.get("rates")
    ranged = rule.get("lowest_rate") is not None
    demand(ranged == (rates is not None), f"it has {'no ' * (rates is None)}scores at several rates, unlike its settings")
    for split, scores in (rates or {}).items():
        own, targets = record["scores"][split], [score["target_rate"] for score in scores or []]
        demand((own is None) == (scores is None), f"{split} is scored at its target rate alone, or at the others alone")
        inside = all(rule["lowest_rate"] <= target <= rule["highest_rate"] for target in targets)
        demand(inside and len(set(targets)) == len(targets), f"{split} is scored at a rate outside its range, or at one twice")
        demand(all(score["hash"] == own["hash"] for score in scores or []), f"{split} is not the same text at all rates")


def _check_sums(scores: Mapping[str, Any], demand: Demand) -> None:
    """Bits per byte are those of the units, or the mean of the items."""
    for place, score in ((place, score) for place, score in scores.items() if score is not None):
        split = place in SPLITS
        bits, sizes = (score["unit_bits"], score["unit_bytes"]) if split else (score["item_bits_per_byte"], [1] * score["items"])
        demand(len(bits) == len(sizes), f"the bits of {place} are not as many as its units")
        said, mean = score["bits_per_byte"], sum(bits) / sum(sizes)
        close = math.isclose(said, mean, rel_tol=SUMS if split else MEANS)
        demand(close, f"{place} is {said} bits per byte, its units have {mean}")


def _check_order(record: Mapping[str, Any], demand: Demand) -> None:
    """Steps and FLOPs only grow, the curve ends where training did, and each list has as many entries as those beside it."""

    for name, keys in {"curve": ("step", "flops"), "held_out": ("step", "flops"), "snapshots": ("step",)}.items():
        for key in keys:
            values = [point[key] for point in record[name]]
            grows = values[-1] > 0 and all(before < after for before, after in pairwise(values))
            demand(grows, f"the points of {name} are not in the order of {key}")
    ends = record["held_out"][-1]["bytes"]
    demand(ends == record["bytes"], f"it read {record['bytes']} bytes, its curve ends at {ends}")
    start, rewards, returns = (record["positions"][key] for key in ("start", "rewards", "returns"))
    demand(len(start) == len(rewards) == len(returns), "positions hold not as many of each")
    demand(any(value is not None for value in returns), "positions hold no return")
    same = all(len(sample["text"]) == len(sample["boundaries"]) for sample in record["samples"])
    demand(same, "a passage's boundaries are not as many as its bytes")
