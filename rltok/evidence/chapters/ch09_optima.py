"""Which optimum a policy found: at which places around words its boundaries lie, how often that happens, and at what loss.

run --found--> name of its places     runs --optima--> each name: runs, share, loss with its interval --optima_table--> rows
sweep --figure--> loss by place, a point for each run
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING

from rltok.errors import RltokError
from rltok.evidence.chapters.ch06_where import around_words
from rltok.evidence.record_file import Record
from rltok.evidence.records import Sweep
from rltok.evidence.words import number, on_one_line
from rltok.show.plots import PALETTE
from rltok.show.tables import markdown
from rltok.statistics import SURE, mean_and_reach

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PLACES = {"after spaces": "the space", "before second letters": "letter 1", "at last letters": "last letter before the space"}
MOST = 0.5  # share of words with a boundary at a place from which on it counts as found
NOWHERE = "at none of these"


def word_shares(run: Record) -> dict[str, float]:
    """The share of words that have a boundary at each of PLACES, in the held-out passages that the record keeps.

    Raises:
        RltokError: the passages hold no word after a letter and a space.
    """
    each = [around_words(sample) for sample in run["samples"]]
    drawn = {name: [bit for one in each for bit in one[place]] for name, place in PLACES.items()}
    if not all(drawn.values()):
        raise RltokError(f"the passages of {run['name']}, seed {run['seed']}, hold no words, so its boundaries have no place.")
    return {name: fmean(bits) for name, bits in drawn.items()}


def named(shares: dict[str, float]) -> str:
    """The places at which most words have a boundary, in the order of PLACES: runs with the same ones found the same optimum."""
    return ", ".join(name for name, share in shares.items() if share > MOST) or NOWHERE


def found(run: Record) -> str:
    """The optimum that a run found, see `named`."""
    return named(word_shares(run))


def beside_seeds(runs: Sequence[Record]) -> list[float]:
    """Validation bits per byte of each run minus the mean of all these runs with its seed: what is left of luck with the text."""
    bits: dict[int, list[float]] = {}
    for run in runs:
        bits.setdefault(run["seed"], []).append(_bits(run))
    return [_bits(run) - fmean(bits[run["seed"]]) for run in runs]


def _bits(run: Record) -> float:
    return run["scores"]["validation"]["bits_per_byte"]


@dataclass(frozen=True)
class Optimum:
    """Runs that found the same places."""

    name: str  # of `named`
    runs: int
    share: float  # of all runs that were looked at
    bits: float  # validation bits per byte, their mean
    apart: float  # mean of `beside_seeds`
    reach: float | None  # half the width of its interval by Student's t; None for a single run
    places: dict[str, float]  # means of `word_shares`


def optima(runs: Sequence[Record]) -> list[Optimum]:
    """The optima that runs found, the most frequent first."""
    by_name: dict[str, list[tuple[Record, float, dict[str, float]]]] = {}
    for run, apart in zip(runs, beside_seeds(runs), strict=True):
        shares = word_shares(run)
        by_name.setdefault(named(shares), []).append((run, apart, shares))
    made = []
    for name, alike in sorted(by_name.items(), key=lambda one: (-len(one[1]), one[0])):
        apart, reach = mean_and_reach([one[1] for one in alike])
        places = {place: fmean(shares[place] for _, _, shares in alike) for place in PLACES}
        bits = fmean(_bits(run) for run, _, _ in alike)
        made.append(Optimum(name, len(alike), len(alike) / len(runs), bits, apart, reach, places))
    return made


def optima_table(runs: Sequence[Record]) -> str:
    """Markdown: a row for each optimum that these runs found."""
    rows = [
        [
            one.name, f"{one.runs} of {len(runs)}", f"{one.share:.0%}", f"{one.bits:.3f}",
            on_one_line(number(one.apart, one.reach, "+.3f")), *(f"{one.places[place]:.2f}" for place in PLACES),
        ]
        for one in optima(runs)
    ]  # fmt: skip
    head = ["most words have a boundary", "runs", "share", "bits per byte", f"minus its seeds' means, {SURE:.0%}", *PLACES]
    return markdown(head, rows)


def figure(sweep: Sweep) -> "Figure":
    """Loss beside the mean of the seed by the place that a run found: a point for each run, a bar for the mean of a place."""
    import matplotlib.pyplot as plt

    drawing, axes = plt.subplots(figsize=(7.2, 3.4), layout="constrained")
    names, apart = [one.name for one in optima(sweep.records)], beside_seeds(sweep.records)
    ended = [found(run) for run in sweep.records]
    methods = list(sweep.runs)
    for number_of, name in enumerate(names):
        own = [(run, bits) for run, bits, place in zip(sweep.records, apart, ended, strict=True) if place == name]
        for run, bits in own:
            index = methods.index(run["name"])
            shift = (index - (len(methods) - 1) / 2) * 0.6 / len(methods)
            style = {"color": PALETTE[index % len(PALETTE)], "marker": "osD"[index // len(PALETTE)], "markersize": 4}
            axes.plot(number_of + shift, bits, linestyle="", **style)
        axes.plot([number_of - 0.35, number_of + 0.35], [fmean(bits for _, bits in own)] * 2, color="k", linewidth=1)
    for index, method in enumerate(methods):
        axes.plot([], [], linestyle="", color=PALETTE[index % len(PALETTE)], marker="osD"[index // len(PALETTE)], label=method)
    axes.axhline(0, color="0.5", linewidth=0.6)
    axes.set_xticks(range(len(names)), [f"{name}\n{ended.count(name)} runs" for name in names])
    axes.set(ylabel="bits per byte,\nminus the mean of the seed")
    drawing.legend(loc="outside right upper", fontsize=8)
    return drawing
