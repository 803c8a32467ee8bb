"""Chapter 09: what boundaries can give, and at which price: each rule at each of its rates.

sweep, results --rules_at_rates--> one sweep --points--> rate, FLOPs and loss of each method --figure, flops_table, headroom-->
"""

import re
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from rltok.errors import RltokError
from rltok.evidence.chapters.ch09_courses import PLACE, cell
from rltok.evidence.differences import gap
from rltok.evidence.headline import FAST
from rltok.evidence.ranking import MARKERS
from rltok.evidence.records import SCHEDULE, Sweep, read_sweeps, shared
from rltok.evidence.tables import BASELINE
from rltok.evidence.words import ends
from rltok.runs.checkpoint import differences
from rltok.show.plots import PALETTE
from rltok.show.tables import markdown
from rltok.statistics import Difference, difference_of_seeds

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BESIDE = {"tiny_ceiling": (("rules", "tiny"), ("causes", "tiny_travel")), "32m_ceiling": (("best", "32m_best"),)}  # one in five
KINDS = {
    "even": "even spacing", "random_k": "random places", FAST: "policy", "entropy": "entropy rule",
    "whitespace": "white space", "bpe": "BPE guidance", "bpe_causal": "causal BPE",
}  # fmt: skip
LOOKS_AHEAD = "bpe"  # which no model can follow while it writes
NAME = re.compile(rf"(?P<kind>even|random_k|{FAST}|entropy|whitespace|bpe_causal|bpe)(_every_\d+|_(rate|as)_[a-z_]+|_\d+)?")
ALIKE = ("train", "model", "training text", f"{PLACE} text")  # what runs of several sweeps must share to be compared
IN_GREY = ("random_k", "whitespace")  # of the figure, so that fewer colours are left to tell apart


def kind_of(name: str) -> str | None:
    """The rule of a method, whatever its rate; None for a method that the figure leaves out."""
    known = NAME.fullmatch(name)
    return known and known["kind"]


def rules_at_rates(sweep: Sweep, results: Path) -> Sweep:
    """A sweep of rules at several rates together with the stored runs at one boundary in five, which were made before it.

    Raises:
        RltokError: the runs made before differ in budget, size or text.
    """
    runs, first = dict(sweep.runs), sweep.records[0]
    for folder, plan in BESIDE[sweep.name]:
        other = read_sweeps(results / folder, varied=SCHEDULE, only=plan)[plan]
        for name in (name for name in other.runs if kind_of(name) and name not in runs):
            runs[name] = other.runs[name]
            pair = (shared(run, (*SCHEDULE, "keep_checkpoints")) for run in (first, next(iter(runs[name].values()))))
            mine, theirs = ({key: one[key] for key in ALIKE} for one in pair)
            if apart := differences(mine, theirs):
                raise RltokError(
                    f"{name} of sweep {plan} differs from sweep {sweep.name}: {apart[0]}. Compare runs of one budget."
                )
    return replace(sweep, runs=runs)


@dataclass(frozen=True)
class Point:
    """A method: means over its seeds."""

    name: str
    kind: str
    rate: float  # tokens per byte, on held-out text
    flops: float  # of training per byte, attention included
    gap: Difference  # bits per byte minus even spacing at one boundary in five


def points(sweep: Sweep) -> list[Point]:
    """Every method of a known kind, by kind and rate."""
    made = []
    for name in (name for name in sweep.runs if kind_of(name)):
        rate = statistics.fmean(sweep.values(name, "tokens_per_byte", PLACE))
        flops = statistics.fmean(sweep.each(name, lambda run: (run["flops"] + run["attention_flops"]) / run["bytes"]))
        made.append(Point(name, kind_of(name), rate, flops, gap(sweep, name, BASELINE, PLACE)))
    return sorted(made, key=lambda point: (list(KINDS).index(point.kind), point.rate))


def figure(sweep: Sweep) -> "Figure":
    """Loss against tokens per byte (left, with half an interval up and down) and FLOPs per byte (right): a line for each rule."""
    import matplotlib.pyplot as plt

    drawing, panels = plt.subplots(1, 2, figsize=(8.4, 4.2), sharey=True, layout="constrained")
    every = points(sweep)
    for index, (kind, words) in enumerate(KINDS.items()):
        own = [point for point in every if point.kind == kind]
        up, reach = [point.gap.bits for point in own], [point.gap.reach() or 0.0 for point in own]
        colour = "0.65" if kind in IN_GREY else PALETTE[index]
        style = {"color": colour, "marker": MARKERS[index % len(MARKERS)], "markersize": 4, "linewidth": 1, "label": words}
        panels[0].errorbar([point.rate for point in own], up, yerr=reach, elinewidth=0.6, capsize=2, **style)
        panels[1].plot([point.flops / 1e6 for point in own], up, **style)
    for axes in panels:
        axes.axhline(0, color="0.5", linewidth=0.8)
    panels[0].set(title="at equal tokens", xscale="log", xlabel="tokens per byte")
    panels[0].set(ylabel="bits per byte, minus even spacing at 1/5")
    panels[0].set_xticks([1, 1 / 2, 1 / 3, 1 / 5, 1 / 8], ["1", "1/2", "1/3", "1/5", "1/8"])
    panels[0].minorticks_off()
    panels[1].set(title="at equal FLOPs", xlabel="million FLOPs per byte of training, with attention")
    drawing.legend(*panels[1].get_legend_handles_labels(), loc="outside upper center", ncols=4, fontsize=8)
    return drawing


def at_equal_flops(sweep: Sweep, point: Point, every: Sequence[Point]) -> Difference | None:
    """Bits per byte minus those of even spacing at as many FLOPs, seed by seed; None where no even spacing costs less, or more.

    Between two rates of even spacing its loss is taken to lie on the straight line over FLOPs.
    """
    even = sorted((one for one in every if one.kind == "even"), key=lambda one: one.flops)
    around = next((pair for pair in pairwise(even) if pair[0].flops <= point.flops <= pair[1].flops), None)
    if around is None:
        return None
    share = (point.flops - around[0].flops) / (around[1].flops - around[0].flops)
    bits = sweep.bits_per_byte[PLACE]
    apart = bits[point.name] - (1 - share) * bits[around[0].name] - share * bits[around[1].name]
    errors = [found.error_units for one in around if (found := gap(sweep, point.name, one.name, PLACE)) and found.error_units]
    return difference_of_seeds(list(apart.dropna()), errors)


def flops_table(sweep: Sweep) -> str:
    """Markdown: a row for each rule: its differences `at_equal_flops`, and how many count in either direction."""
    every, rows = points(sweep), []
    for kind in (kind for kind in KINDS if kind != "even"):
        found = [one for point in every if point.kind == kind and (one := at_equal_flops(sweep, point, every))]
        if found:
            verdicts = [one.verdict for one in found]
            counts = [str(len(found)), str(verdicts.count("lower")), str(verdicts.count("higher"))]
            rows.append([KINDS[kind], ends((one.bits for one in found), "+.3f"), *counts])
    return markdown(["rule", "bits per byte, minus even spacing", "points", "clearly better", "clearly worse"], rows)


def best(every: Sequence[Point], *kinds: str) -> Point:
    """The method with the lowest loss, of these kinds or of all."""
    return min((point for point in every if not kinds or point.kind in kinds), key=lambda point: point.gap.bits)


def headroom(sweep: Sweep) -> str:
    """Sentences: which rules have the lowest losses, with look ahead and without, and how far the policy is from the latter."""
    every = points(sweep)
    lowest, policy, causal = best(every), best(every, FAST), best(every, *(kind for kind in KINDS if kind != LOOKS_AHEAD))
    said = [f"Of {len(every)} combinations of rule and rate, {called(lowest)} has the lowest loss."]
    if causal.name != lowest.name:
        said.append(f"Without look ahead, {called(causal)} has the lowest, {_from(sweep, causal, lowest)}.")
    if causal.name != policy.name:
        said.append(f"The policy's lowest, at {policy.rate:.2f}, is {_from(sweep, policy, causal)}.")
    return " ".join(said)


def _from(sweep: Sweep, point: Point, other: Point) -> str:
    """How far a loss is from another, at which part of its FLOPs, and whether luck may have done it."""
    apart = gap(sweep, point.name, other.name, PLACE)
    luck = " (it may be luck)" if apart.verdict == "undecided" else ""
    return f"{cell(apart)} from that of {KINDS[other.kind]}{luck}, at {point.flops / other.flops:.2f} times its FLOPs"


def called(point: Point) -> str:
    """The rule and its tokens per byte."""
    return f"{KINDS[point.kind]} at {point.rate:.2f} tokens per byte"
