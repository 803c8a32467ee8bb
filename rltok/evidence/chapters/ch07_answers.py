"""Where on a benchmark item a difference sits: at the start of the answer, or along it. Differences in bits by length of answer.

records, items --lengths_of--> bytes of every answer     sweep --against_even--> bits per item in quarters     record --table-->

A difference that sits at the start is as many bits in long answers as in short ones; one that sits along them grows with length.
On which bytes it sits, lengths alone do not say: a difference at the last byte would look like one at the first.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rltok.benchmarks.task_items import TaskItems
from rltok.errors import RltokError
from rltok.evidence.record_checks import Demand, check_digest, read_with_digest
from rltok.evidence.records import Sweep
from rltok.evidence.tables import BASELINE
from rltok.evidence.verdicts import LEAST_SEEDS
from rltok.evidence.words import NONE
from rltok.show.tables import markdown
from rltok.statistics import error_of_mean
from rltok.vocab import to_utf8

QUARTERS = 4
NO_DIFFERENCES = "None of these contenders has a run of a size that it was made of."
ANSWERS_RECORD = "differences to even in bits per item, by length of the answer"
SCRIPT = "scripts/measure/measure_answers.py"
BYTES_RECORD = "bits per item of benchmarks by the byte of the answer"
REMEDY = f"Restore it from the repository, or make it again: {SCRIPT}."


def lengths_of(items: TaskItems, sweeps: Sequence[Sweep]) -> np.ndarray:
    """Bytes of every right answer [n], the space before it included, as they were scored in all runs of the sweeps.

    Raises:
        RltokError: a run was scored on other items than these, or on some of them only.
    """
    lengths = np.array([len(to_utf8(item.choices[item.gold])) for item in items.items])
    here = {"fingerprint": items.fingerprint, "items": len(items), "scored_bytes": int(lengths.sum())}
    for run in (run for sweep in sweeps for run in sweep.everything):
        score = run["scores"].get(items.task)
        if score is not None and score["items"] < len(items):
            raise RltokError(
                f"{items.task}: sweep {run['sweep']}, {run['name']}, seed {run['seed']} was scored on {score['items']} items,"
                f" these are {len(items)}. Smoke runs are scored on few; take runs at full size."
            )
        for key, value in here.items():
            if score is not None and score[key] != value:
                raise RltokError(
                    f"{items.task}: sweep {run['sweep']}, {run['name']}, seed {run['seed']} was scored on items whose {key} is"
                    f" {score[key]!r}; that of these is {value!r}. Name the folder with the items that the runs were scored on."
                )
    return lengths


def quarter_of(lengths: np.ndarray) -> np.ndarray:
    """The quarter [n] of every item by its length [n], bytes: q = floor(4 * items that are shorter / items), 0 to 3.

    Items of one length are all in the same quarter, so quarters may be uneven, and some may have no items.
    """
    shorter = np.searchsorted(np.sort(lengths), lengths)
    return QUARTERS * shorter // len(lengths)


def quarters(lengths: np.ndarray) -> list[dict[str, int]]:
    """The quarters of lengths [n] that have items, short answers first: bytes of the `shortest` and `longest`, number of `items`.

    The ranges [shortest, longest] do not overlap.
    """
    groups = [lengths[quarter_of(lengths) == group] for group in range(QUARTERS)]
    return [{"shortest": int(one.min()), "longest": int(one.max()), "items": len(one)} for one in groups if len(one)]


def gaps_by_length(gaps: np.ndarray, lengths: np.ndarray) -> dict[str, Any]:
    """Differences in bits per item, averaged over the items of each quarter that has some, with their errors.

    bits_q = mean over seeds s and items i of q of gap_si

    Args:
        gaps: [S, n], bits of an item under one method minus those under the other, a row for each seed.
        lengths: [n], bytes of its answer.

    Returns:
        number of `seeds`; by quarter, in bits per item: `bits`, the standard error `over_items` of the seeds' mean (None for a
        single item), and `over_seeds` (None for all of them from fewer than three seeds).
    """
    group = quarter_of(lengths)
    parts = [gaps[:, group == one] for one in np.unique(group)]
    known = len(gaps) >= LEAST_SEEDS
    return {
        "seeds": len(gaps),
        "bits": [float(part.mean()) for part in parts],
        "over_items": [error_of_mean(part.mean(axis=0)) for part in parts],
        "over_seeds": [error_of_mean(part.mean(axis=1)) for part in parts] if known else None,
    }


def by_byte(bits: Sequence[np.ndarray]) -> dict[str, float]:
    """Mean bits per item at the space before an answer, the byte after it, the last one, and all others; they add up.

    Args:
        bits: of each byte of every answer, the space first; an answer of two bytes has no last one of its own.
    """
    parts = {
        "the space": [each[0] for each in bits],
        "the byte after it": [each[1:2].sum() for each in bits],
        "between": [each[2:-1].sum() for each in bits],
        "the last byte": [each[2:][-1:].sum() for each in bits],
    }
    return {part: float(np.mean(values)) for part, values in parts.items()}


def against_even(sweep: Sweep, task: str, lengths: np.ndarray) -> dict[str, dict[str, Any]]:
    """`gaps_by_length` to `even` of every method that has a scored seed in common with it, paired by seed and item.

    bits of an item = bits per byte * bytes [n]; a seed that was run several times counts with the mean of its runs.
    """
    gaps_of = {}
    for name in (name for name in sweep.runs if name != BASELINE):
        gaps = sweep.paired(name, BASELINE, task)
        if gaps is not None:
            gaps_of[name] = gaps_by_length(gaps[0] * lengths, lengths)
    return gaps_of


def _cells(entry: Mapping[str, Any]) -> list[str]:
    errors = entry["over_seeds"] or entry["over_items"]
    shown = [NONE if error is None else f"{error:.2f}" for error in errors]
    return [f"{bits:+.2f} ± {error}" for bits, error in zip(entry["bits"], shown, strict=True)]


def table(record: Mapping[str, Any], task: str, methods: Sequence[str]) -> str:
    """Markdown: bits per item minus `even`'s in quarters of the items by bytes of the answer, a row for each size and method.

    After ± stands the standard error over seeds from three seeds on, that over items where there are fewer.

    Args:
        record: of scripts/measure/measure_answers.py.
        task: one of `rltok.benchmarks.sets.TASKS`.
        methods: in the order of the rows; those that a size lacks have no row in it.
    """
    head = []
    for one in record["tasks"][task]["quarters"]:
        ends = sorted({one["shortest"], one["longest"]})
        head.append("–".join(map(str, ends)) + ("" if head else " bytes"))
    rows = [
        [size, f"`{name}`", str(entry["seeds"]), *_cells(entry)]
        for size, sweep in record["sweeps"].items()
        for name in methods if (entry := sweep["gaps"][task].get(name)) is not None
    ]  # fmt: skip
    return markdown(["size", "contender", "seeds", *head], rows) if rows else NO_DIFFERENCES


def read(path: Path) -> dict[str, Any]:
    """A record of scripts/measure/measure_answers.py.

    Raises:
        RltokError: no such file, another kind of file, or an edited one.
    """
    return read_with_digest(path, path.name, REMEDY, _check)


def read_bytes(path: Path) -> dict[str, Any]:
    """A record of scripts/measure/measure_answer_bytes.py; errors as of `read`."""
    remedy = "Restore it from the repository, or make it again: scripts/measure/measure_answer_bytes.py."
    return read_with_digest(path, path.name, remedy, lambda record, demand: check_digest(record, demand, BYTES_RECORD, 1))


def bytes_table(record: Mapping[str, Any], tasks: Sequence[str]) -> str:
    """Markdown: bits per item by the byte of the answer, those of the first run as they are, of the others minus the first's."""
    rows, head = [], list(record["runs"][0]["tasks"][tasks[0]]["bits"])
    for task in tasks:
        first = record["runs"][0]["tasks"][task]["bits"]
        for run in record["runs"]:
            entry = run["tasks"][task]
            minus = run is not record["runs"][0]
            shown = [f"{bits - first[part]:+.2f}" if minus else f"{bits:.2f}" for part, bits in entry["bits"].items()]
            space = "{:.2f} to {:.2f}".format(*entry["space"])
            name = f"`{run['name']}`" + (", minus the first" if minus else "")
            rows.append([f"{task}, {entry['items']} items", name, *shown, space])
    return markdown(["set", "run", *head, "probability of the space"], rows)


def _check(record: Any, demand: Demand) -> None:
    check_digest(record, demand, ANSWERS_RECORD, 1)
    check_gaps(record, demand, {task: task for task in record["tasks"]})
    demand(all("quarters" in task for task in record["tasks"].values()), "it lacks quarters of a set")


def check_gaps(record: Mapping[str, Any], demand: Demand, places: Mapping[str, str]) -> None:
    """Check that every size names its records and has differences at all places, given by their names in errors."""
    for words, place in places.items():
        lacking = [name for name, sweep in record["sweeps"].items() if place not in sweep["gaps"] or "records" not in sweep]
        demand(not lacking, f"it lacks entries about {words}, {', '.join(lacking)}")


def fitting(record: Mapping[str, Any], sweeps: Sequence[Sweep], script: str = SCRIPT) -> tuple[dict[str, Any], str]:
    """(the record with only the sizes that were made of all runs of these sweeps; in words, what was left out).

    `script` makes such records; it may be of another kind, too, with `records` under each of its `sweeps`.
    """
    here = {sweep.name: sweep.digests for sweep in sweeps}
    kept = {name: one for name, one in record["sweeps"].items() if one["records"] == here.get(name)}
    other = [name for name in record["sweeps"] if name not in kept]
    lacking = [name for name in here if name not in record["sweeps"]]
    left_out = [f"without {', '.join(other)}, made of other records than those on this page"] if other else []
    left_out += [f"without {', '.join(lacking)}, made before there were such records"] if lacking else []
    said = f"{' and '.join(left_out)}; run {script}" if left_out else "made of the records on this page"
    return {**record, "sweeps": kept}, said
