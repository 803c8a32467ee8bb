"""Chapter 09: what boundaries can give, and at which price: each rule at each of its rates.

results --rules_at_rates--> one sweep --points--> rate, FLOPs and loss of each method --figure, rates_table, headroom-->
"""

import re
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from rltok.errors import RltokError
from rltok.evidence.chapters.ch09_courses import PLACE, cell
from rltok.evidence.chapters.ch09_stored import largest
from rltok.evidence.differences import gap
from rltok.evidence.headline import FAST
from rltok.evidence.ranking import MARKERS
from rltok.evidence.records import SCHEDULE, Sweep, read_sweeps, shared
from rltok.evidence.tables import BASELINE
from rltok.runs.checkpoint import differences
from rltok.show.plots import PALETTE
from rltok.show.tables import markdown
from rltok.statistics import Difference

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
TO_COMPARE = ("even", "entropy")  # rules that take any rate, as the policy does
NEAR = 0.02  # tokens per byte by which rates of one row of the table may differ


def kind_of(name: str) -> str | None:
    """The rule of a method, whatever its rate; None for a method that the figure leaves out."""
    known = NAME.fullmatch(name)
    return known and known["kind"]


def rules_at_rates(results: Path) -> Sweep:
    """The sweep about rates of the largest model, with the methods at one boundary in five, which ran before it.

    Raises:
        RltokError: there are no such runs, or those that ran before differ in budget, size or text.
    """
    sweep = largest(results, "ceiling")
    runs, first = dict(sweep.runs), sweep.records[0]
    for folder, plan in BESIDE[sweep.name]:
        other = read_sweeps(results / folder, varied=SCHEDULE, only=plan)[plan]
        for name in (name for name in other.runs if kind_of(name) and name not in runs):
            runs[name] = other.runs[name]
            mine, theirs = ({key: of[key] for key in ALIKE} for of in map(_shared, (first, next(iter(runs[name].values())))))
            if apart := differences(mine, theirs):
                raise RltokError(
                    f"{name} of sweep {plan} differs from sweep {sweep.name}: {apart[0]}. Compare runs of one budget."
                )
    return replace(sweep, runs=runs)


def _shared(run: dict) -> dict:
    return shared(run, (*SCHEDULE, "keep_checkpoints"))


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
    """Loss against tokens per byte (left) and FLOPs per byte (right): a line for each rule, half an interval up and down."""
    import matplotlib.pyplot as plt

    drawing, panels = plt.subplots(1, 2, figsize=(8.4, 3.9), sharey=True, layout="constrained")
    every = points(sweep)
    for index, (kind, words) in enumerate(KINDS.items()):
        own = [point for point in every if point.kind == kind]
        for axes, key in zip(panels, ("rate", "flops"), strict=True):
            across, up = [getattr(point, key) for point in own], [point.gap.bits for point in own]
            across = [one / 1e6 for one in across] if key == "flops" else across
            reach = [point.gap.reach() or 0.0 for point in own]
            style = {"color": PALETTE[index], "marker": MARKERS[index % len(MARKERS)], "markersize": 4, "label": words}
            axes.errorbar(across, up, yerr=reach, linewidth=1, elinewidth=0.6, capsize=2, **style)
    for axes in panels:
        axes.axhline(0, color="0.5", linewidth=0.8)
    panels[0].set(xscale="log", xlabel="tokens per byte", ylabel="bits per byte, minus even spacing at 1/5")
    panels[0].set_xticks([1, 1 / 2, 1 / 3, 1 / 5, 1 / 8], ["1", "1/2", "1/3", "1/5", "1/8"])
    panels[0].minorticks_off()
    panels[1].set(xlabel="million FLOPs per byte of training, with attention")
    drawing.legend(*panels[0].get_legend_handles_labels(), loc="outside upper center", ncols=4, fontsize=8)
    return drawing


def rates_table(sweep: Sweep) -> str:
    """Markdown: a row for each rate of the policy: its loss, and its difference from the other rules at that rate."""
    every, rows = points(sweep), []
    for own in (point for point in every if point.kind == FAST and not point.name.partition(FAST)[2].startswith("_rate_")):
        near = {kind: [p for p in every if p.kind == kind and abs(p.rate - own.rate) < NEAR] for kind in TO_COMPARE}
        closest = {kind: min(of, key=lambda p: abs(p.rate - own.rate)).name for kind, of in near.items() if of}
        minus = [cell(gap(sweep, own.name, closest[kind], PLACE) if kind in closest else None) for kind in TO_COMPARE]
        rows.append([f"{own.rate:.2f}", f"{own.flops / 1e6:.3g}", cell(own.gap), *minus])
    head = ["the policy's tokens per byte", "million FLOPs per byte", "minus even spacing at 1/5"]
    return markdown([*head, *(f"minus {KINDS[kind]}, same rate" for kind in TO_COMPARE)], rows)


def best(every: Sequence[Point], *kinds: str) -> Point:
    """The method with the lowest loss, of these kinds or of all."""
    return min((point for point in every if not kinds or point.kind in kinds), key=lambda point: point.gap.bits)


def headroom(sweep: Sweep) -> str:
    """Sentences: which methods have the lowest loss, how far the policy is from them, and what a token for every byte gives."""
    every = points(sweep)
    lowest, policy, names = best(every), best(every, FAST), {point.name: point for point in every}
    causal = best(every, *(kind for kind in KINDS if kind != LOOKS_AHEAD))
    said = [f"The lowest loss of {len(every)} methods has {_called(lowest)}."]
    if causal.name != lowest.name:
        said.append(f"It looks ahead; of those that do not, {_called(causal)} has the lowest.")
    if causal.name != policy.name:
        left, price = gap(sweep, policy.name, causal.name, PLACE), policy.flops / causal.flops
        said.append(
            f"The policy's lowest, at {policy.rate:.2f} tokens per byte, is {cell(left)} bits per byte from that, at {price:.2f}"
            " times its FLOPs."
        )
    if "even_every_1" in names:
        all_bytes = names["even_every_1"]
        times, gives = all_bytes.flops / names[BASELINE].flops, f" and gives {cell(all_bytes.gap)}" * (all_bytes != causal)
        said.append(f"A token for every byte costs {times:.1f} times the FLOPs of one for five{gives}.")
    return " ".join(said)


def _called(point: Point) -> str:
    return f"{KINDS[point.kind]} at {point.rate:.2f} tokens per byte ({cell(point.gap)} from even spacing at 1/5)"
