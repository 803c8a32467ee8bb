"""Chapter 09: policies that differ in one thing: in their loss, in when they decide, and in where their boundaries end.

run --ended--> places around words     run --bytes_to_decide--> bytes     sweep --courses_table, figure--> the page
runs --optima--> each ending: how often, and at what loss
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING

from rltok.errors import RltokError
from rltok.evidence.chapters.ch06_where import around_words
from rltok.evidence.differences import gap
from rltok.evidence.record_file import Record
from rltok.evidence.records import Sweep
from rltok.evidence.words import NONE, amount
from rltok.show.plots import PALETTE
from rltok.show.tables import markdown
from rltok.statistics import Difference, difference_of_seeds, mean_and_reach

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PLACE = "validation"
DECIDED = 0.1  # nats per decision: below it a policy counts as decided
FIRST, SECOND, LAST, NOWHERE = "after spaces", "before second letters", "at last letters", "at none of these"
WORD_PLACES = {FIRST: "the space", SECOND: "letter 1", LAST: "last letter before the space"}  # names of `around_words`
MOST = 0.5  # of the words: a run ends at a place where more of them have a boundary
WORDS = {
    "policy_one_draw": "one draw", "policy_two_draws": "baseline of 1 other draw",
    "policy_two_draws_train": "leave one out, 2 draws", "policy_antithetic": "antithetic, 2 draws",
    "policy_early": "unchanged", "policy_late": "late start", "policy_dense": "dense start",
    "policy_warm": "warm start", "policy_entropy": "entropy held up", "policy_beta2": "another β₂", "policy_D": "smaller D",
    "policy_slow_then_fast": "slow, then fast", "policy_fast_then_slow": "fast, then slow", "policy_restarts": "two restarts",
}  # fmt: skip


def word_shares(run: Record) -> dict[str, float]:
    """The share of words that have a boundary at each of WORD_PLACES, in the held-out passages that the record keeps.

    Raises:
        RltokError: the passages hold no word after a letter and a space.
    """
    each = [around_words(sample) for sample in run["samples"]]
    drawn = {name: [bit for one in each for bit in one[place]] for name, place in WORD_PLACES.items()}
    if not all(drawn.values()):
        raise RltokError(f"the passages of {run['name']}, seed {run['seed']}, hold no words, so its boundaries have no place.")
    return {name: fmean(bits) for name, bits in drawn.items()}


def ended(run: Record) -> str:
    """The places at which most words have a boundary, in the order of WORD_PLACES."""
    return ", ".join(name for name, share in word_shares(run).items() if share > MOST) or NOWHERE


def beside_seeds(runs: Sequence[Record]) -> list[float]:
    """Validation bits per byte of each run minus the mean of all these runs with its seed: less of the luck of a seed is left."""
    bits: dict[int, list[float]] = {}
    for run in runs:
        bits.setdefault(run["seed"], []).append(_bits(run))
    return [_bits(run) - fmean(bits[run["seed"]]) for run in runs]


def _bits(run: Record) -> float:
    return run["scores"][PLACE]["bits_per_byte"]


@dataclass(frozen=True)
class Optimum:
    """Runs that ended at the same places."""

    name: str  # of `ended`
    runs: int
    apart: float  # mean of `beside_seeds`
    reach: float | None  # half the width of its interval by Student's t; None for a single run


def optima(runs: Sequence[Record]) -> list[Optimum]:
    """The places where runs ended, the most frequent first."""
    by_name: dict[str, list[float]] = {}
    for run, apart in zip(runs, beside_seeds(runs), strict=True):
        by_name.setdefault(ended(run), []).append(apart)
    most_first = sorted(by_name.items(), key=lambda one: (-len(one[1]), one[0]))
    return [Optimum(name, len(apart), *mean_and_reach(apart)) for name, apart in most_first]


def bytes_to_decide(run: Record) -> int | None:
    """Bytes read by the first point of the curve at which the policy's entropy is `DECIDED` or less; None where it never is."""
    low = (p["bytes"] for p in run["curve"] if p["policy_entropy"] is not None and p["policy_entropy"] <= DECIDED)
    return next(low, None)


def later(sweep: Sweep, name: str, reference: str) -> Difference | None:
    """Megabytes to a decided policy minus the reference's, seed by seed; None where a run of either never decides."""
    pairs = [
        (bytes_to_decide(run), bytes_to_decide(sweep.runs[reference][seed]))
        for seed, run in sweep.runs[name].items() if seed in sweep.runs[reference]
    ]  # fmt: skip
    if not pairs or any(None in pair for pair in pairs):
        return None
    return difference_of_seeds([(mine - theirs) / 1e6 for mine, theirs in pairs])


def moved(sweep: Sweep, reference: str) -> dict[str, str]:
    """Of each method but the reference whether its loss is lower, higher, or undecided, by the interval over seeds and text."""
    return {name: gap(sweep, name, reference, PLACE).verdict for name in sweep.runs if name != reference}


def cell(found: Difference | None, shown: str = "+.3f") -> str:
    """A difference ± half its interval, on one line."""
    return NONE if found is None else amount(found, shown)


def _decides(runs: Sequence[Record]) -> str:
    """Megabytes to a decided policy, mean over the runs that get there; how many do not."""
    known = [bytes_to_decide(run) for run in runs]
    there = [one / 1e6 for one in known if one is not None]
    never = len(known) - len(there)
    return (f"{fmean(there):.2f}" if there else NONE) + (f", never in {never}" if never else "")


def courses_table(sweep: Sweep, reference: str, *more: str) -> str:
    """Markdown: a row for each method, the reference first: loss, FLOPs, and `more` columns of `COLUMNS`.

    Of the loss the reference has its own, and the others have their difference from it, seed by seed. Bold: what differs from the
    reference beyond its interval.
    """
    rows = []
    for name in sorted(sweep.runs, key=lambda name: name != reference):
        flops = [run["flops"] / sweep.runs[reference][seed]["flops"] for seed, run in sweep.runs[name].items()]
        apart = None if name == reference else gap(sweep, name, reference, PLACE)
        loss = f"{sweep.mean(name, PLACE).bits:.3f}" if name == reference else _bold(cell(apart), apart)
        rows.append([WORDS[name], loss, f"{fmean(flops):.2f}", *(COLUMNS[one][1](sweep, name, reference) for one in more)])
    heads = [f"bits per byte (others: minus {WORDS[reference]})", "times the FLOPs", *(COLUMNS[one][0] for one in more)]
    return markdown(["policy", *heads], rows)


def _decided(sweep: Sweep, name: str, reference: str) -> str:
    return _bold(_decides(list(sweep.runs[name].values())), later(sweep, name, reference))


def _there(sweep: Sweep, name: str, reference: str) -> str:
    runs = sweep.runs[name].values()
    return f"{sum(ended(run) == FIRST for run in runs)} of {len(runs)}"


COLUMNS = {"decided": (f"MB to {DECIDED} nats", _decided), FIRST: (f"seeds {FIRST}", _there)}


def _bold(shown: str, found: Difference | None) -> str:
    """In bold where the difference lies beyond its interval."""
    return f"**{shown}**" if found and found.sign() else shown


def figure(sweep: Sweep) -> "Figure":
    """Loss beside the mean of the seed: a line for each method, a point for each run whose form says where it ended."""
    import matplotlib.pyplot as plt

    drawing, axes = plt.subplots(figsize=(7.2, 3.6), layout="constrained")
    each: dict[str, list[tuple[float, str]]] = {name: [] for name in sweep.runs}
    for run, apart in zip(sweep.records, beside_seeds(sweep.records), strict=True):
        each[run["name"]].append((apart, ended(run)))
    names = sorted(each, key=lambda name: fmean(apart for apart, _ in each[name]), reverse=True)
    for index, place in enumerate(one.name for one in optima(sweep.records)):
        points = [(apart, row) for row, name in enumerate(names) for apart, found in each[name] if found == place]
        axes.plot(*zip(*points, strict=True), "osD^"[index % 4], color=PALETTE[index], markersize=5, alpha=0.7, label=place)
    means = [fmean(apart for apart, _ in each[name]) for name in names]
    axes.plot(means, range(len(names)), "|", color="k", markersize=14, label="mean")
    axes.axvline(0, color="0.5", linewidth=0.8)
    axes.set_yticks(range(len(names)), [WORDS[name] for name in names])
    axes.set(xlabel="bits per byte, minus the mean of the seed")
    drawing.legend(loc="outside upper center", ncols=5, fontsize=8)
    return drawing
