"""From the scores of single runs to the table of a comparison: means over seeds, paired differences, a figure."""

import statistics
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from rltok.evaluation import Evaluation
from rltok.show.plots import PALETTE, use_style
from rltok.statistics import difference_of_units, error_of_mean

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LEARNED = "learned"
MARKERS = "osD^v"
MEANS = ("rate", "tokens_per_byte", "whitespace_share", "last_fifth_rate", "flops_per_byte", "seconds")


def _mean(values: Sequence[float | None]) -> float | None:
    there = [value for value in values if value is not None]
    return statistics.fmean(there) if there else None


def evaluation_of(result: dict[str, Any]) -> Evaluation:
    """The evaluation that a run's score holds, entries of single rows included."""
    return Evaluation(**result["evaluation"], row_bits_per_byte=tuple(result["row_bits_per_byte"]))


def averaged(found: Sequence[Evaluation]) -> Evaluation:
    """Bits per byte of every row averaged over seeds that scored the same rows; all else is the first seed's."""
    rows = tuple(statistics.fmean(bits) for bits in zip(*(one.row_bits_per_byte for one in found), strict=True))
    total = statistics.fmean(one.bits_per_byte for one in found)
    # what stands for documents would be of one seed alone
    return replace(
        found[0], bits_per_byte=total, standard_error=error_of_mean(rows), row_bits_per_byte=rows, standard_error_documents=None,
        document_bits=(), document_bytes=(),
    )  # fmt: skip


def standings(results: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """One line a contender, in the order in which they first occur; see `_standing`."""
    by_name: dict[str, dict[int, dict[str, Any]]] = {}
    for result in results:
        by_name.setdefault(result["name"], {})[result["seed"]] = result
    return [_standing(name, runs, by_name.get(LEARNED)) for name, runs in by_name.items()]


def _standing(name: str, runs: dict[int, dict[str, Any]], reference: dict[int, dict[str, Any]] | None) -> dict[str, Any]:
    """Means over seeds with two standard errors: of rows (of the seeds' mean) and, from two seeds on, of seeds."""
    found = {seed: evaluation_of(run) for seed, run in runs.items()}
    whole = averaged(list(found.values()))
    line = {
        "name": name,
        "seeds": list(runs),
        "rows": whole.rows,
        "bits_per_byte": whole.bits_per_byte,
        "standard_error_rows": whole.standard_error,
        "standard_error_seeds": error_of_mean([one.bits_per_byte for one in found.values()]),
    }
    numbers = [{**run["evaluation"], **run} for run in runs.values()]
    line |= {key: _mean([run[key] for run in numbers]) for key in MEANS}
    return line | {"minus_learned": None if reference is None or name == LEARNED else _gap(found, reference)}


def _gap(found: dict[int, Evaluation], reference: dict[int, dict[str, Any]]) -> dict[str, Any]:
    """Paired by seed and row: this rule's bits per byte minus the learned rule's."""
    pairs = [(one, evaluation_of(reference[seed])) for seed, one in found.items()]
    bits = np.array([np.subtract(one.row_bits_per_byte, other.row_bits_per_byte) for one, other in pairs])
    gap = difference_of_units(bits, np.ones(bits.shape[1]))
    return {"bits_per_byte": gap.bits, "standard_error_rows": gap.error_units, "standard_error_seeds": gap.error_seeds}


def _shown(value: float | None, digits: int = 3, sign: str = "") -> str:
    return "-" if value is None else f"{value:{sign}.{digits}f}"


def _with_errors(values: dict[str, Any] | None, sign: str = "") -> str:
    if values is None:
        return "-"
    rows, seeds = values["standard_error_rows"], values["standard_error_seeds"]
    told = _shown(values["bits_per_byte"], 4, sign) + ("" if rows is None else f" +- {rows:.4f}")
    return told + ("" if seeds is None else f" / {seeds:.4f}")


def table(lines: Sequence[dict[str, Any]]) -> list[str]:
    """The standings as lines of text."""
    wide = max(26, *(len(_with_errors(line)) + 2 for line in lines))
    shown = [
        f"{'rule':24s}{'bits per byte':>{wide}s}{'minus learned':>{wide}s}{'rate':>8s}{'tokens/byte':>13s}"
        f"{'white space':>13s}{'MFLOPs/byte':>13s}{'seconds':>9s}"
    ]
    for line in lines:
        shown.append(
            f"{line['name']:24s}{_with_errors(line):>{wide}s}{_with_errors(line['minus_learned'], '+'):>{wide}s}"
            f"{_shown(line['rate']):>8s}{_shown(line['tokens_per_byte']):>13s}{_shown(line['whitespace_share']):>13s}"
            f"{line['flops_per_byte'] / 1e6:>13.3f}{line['seconds']:>9.1f}"
        )
    errors = "rows" if all(line["standard_error_seeds"] is None for line in lines) else "rows / of seeds"
    return [
        *shown,
        f"+- standard error of {errors}, over {lines[0]['rows']} rows; minus learned: paired by row and seed. Rate, tokens and"
        " white space with a boundary: of these rows; twins are matched to their tokens.",
        "FLOPs: of training, attention left out, with the tokens that training drew. Seconds: in updates, mean of a rule's runs.",
    ]


def figure(lines: Sequence[dict[str, Any]]) -> "Figure":
    """Bits per byte against training FLOPs per byte, with standard errors of rows; down and left is better."""
    import matplotlib.pyplot as plt

    use_style()
    drawn, axes = plt.subplots(figsize=(7.4, 4.2))
    for number, line in enumerate(lines):
        marker, colour = MARKERS[number // len(PALETTE) % len(MARKERS)], PALETTE[number % len(PALETTE)]
        axes.errorbar(
            line["flops_per_byte"] / 1e6, line["bits_per_byte"], yerr=line["standard_error_rows"] or 0.0, fmt=marker,
            color=colour, capsize=3, label=line["name"],
        )  # fmt: skip
    axes.set(xlabel="training FLOPs per byte, millions (attention left out)", ylabel="held-out bits per byte")
    drawn.legend(loc="outside right upper", fontsize=8)
    return drawn
