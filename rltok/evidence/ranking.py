"""From the records of a comparison to its table and figure: means over seeds, and paired differences from the learned rule."""

import statistics
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rltok.evidence.differences import gap
from rltok.evidence.records import Sweep
from rltok.show.plots import PALETTE, use_style
from rltok.statistics import Difference

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LEARNED = "learned"
MARKERS = "osD^v"


def last_fifth(points: Sequence[dict[str, Any]], key: str) -> float:
    """Mean of an entry of logged updates over the last fifth of a run, its last update at least."""
    last = [point[key] for point in points if point["step"] > 0.8 * points[-1]["step"]]
    return sum(last) / len(last)


def ranked(sweep: Sweep, split: str) -> list[dict[str, Any]]:
    """One line a method, in the order in which they first occur.

    Bits per byte and `minus_learned` (None without the learned rule, and for itself) are `Difference`s; all else are means over
    seeds, on the rows of the split or, of cost and the rate over the last fifth, in training.
    """
    return [_line(sweep, name, split) for name in sweep.runs]


def _line(sweep: Sweep, name: str, split: str) -> dict[str, Any]:
    whole, runs = sweep.mean(name, split), list(sweep.runs[name].values())
    means = {key: sweep.values(name, key, split) for key in ("rate", "tokens_per_byte", "whitespace_share")} | {
        "last_fifth_rate": [last_fifth(run["curve"], "rate") for run in runs],
        "flops_per_byte": [run["flops"] / run["bytes"] for run in runs],
        "seconds": [run["seconds"] for run in runs],
    }
    return {
        "name": name,
        "seeds": list(sweep.runs[name]),
        "unit": runs[0]["scores"][split]["unit"],
        "units": len(runs[0]["scores"][split]["unit_bits"]),
        "bits_per_byte": whole,
        "minus_learned": None if name == LEARNED else gap(sweep, name, LEARNED, split),
    } | {key: statistics.fmean(values) if values else None for key, values in means.items()}


def _shown(value: float | None, digits: int = 3, sign: str = "") -> str:
    return "-" if value is None else f"{value:{sign}.{digits}f}"


def _with_errors(gap: Difference | None, sign: str = "") -> str:
    if gap is None:
        return "-"
    units, seeds = ("" if error is None else f"{error:.4f}" for error in (gap.error_units, gap.error_seeds))
    return _shown(gap.bits, 4, sign) + (units and f" +- {units}") + (seeds and f" / {f'({seeds})' if gap.borrowed else seeds}")


def table(lines: Sequence[dict[str, Any]]) -> list[str]:
    """The ranking as lines of text."""
    wide = max(26, *(len(_with_errors(line["bits_per_byte"])) + 2 for line in lines))
    shown = [
        f"{'rule':24s}{'bits per byte':>{wide}s}{'minus learned':>{wide}s}{'rate':>8s}{'tokens/byte':>13s}"
        f"{'white space':>13s}{'MFLOPs/byte':>13s}{'seconds':>9s}"
    ]
    for line in lines:
        shown.append(
            f"{line['name']:24s}{_with_errors(line['bits_per_byte']):>{wide}s}{_with_errors(line['minus_learned'], '+'):>{wide}s}"
            f"{_shown(line['rate']):>8s}{_shown(line['tokens_per_byte']):>13s}{_shown(line['whitespace_share']):>13s}"
            f"{line['flops_per_byte'] / 1e6:>13.3f}{line['seconds']:>9.1f}"
        )
    unit = lines[0]["unit"]
    errors = unit if all(line["bits_per_byte"].seeds == 1 for line in lines) else f"{unit} / of seeds"
    return [
        *shown,
        f"+- standard error of {errors}, over {lines[0]['units']} {unit}; minus learned: paired by {unit[:-1]} and seed. Rate,"
        " tokens and white space with a boundary: of these; random_k_as_NAME is matched to the tokens of NAME.",
        "FLOPs: of training, attention left out, with the tokens that training drew. Seconds: in updates, mean of a rule's runs.",
    ]


def figure(lines: Sequence[dict[str, Any]]) -> "Figure":
    """Bits per byte against training FLOPs per byte, with standard errors over units of text; down and left is better."""
    import matplotlib.pyplot as plt

    use_style()
    drawn, axes = plt.subplots(figsize=(7.4, 4.2))
    for number, line in enumerate(lines):
        marker, colour, score = (
            MARKERS[number // len(PALETTE) % len(MARKERS)],
            PALETTE[number % len(PALETTE)],
            line["bits_per_byte"],
        )
        axes.errorbar(
            line["flops_per_byte"] / 1e6, score.bits, yerr=score.error_units or 0.0, fmt=marker, color=colour, capsize=3,
            label=line["name"],
        )  # fmt: skip
    axes.set(xlabel="training FLOPs per byte, millions (attention left out)", ylabel="held-out bits per byte")
    drawn.legend(loc="outside right upper", fontsize=8)
    return drawn
