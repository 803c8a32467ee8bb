"""Chapter 07's views of all comparisons: the one table, policies with other learning rates, and what an early peak turns.

stored records --settings--> the sweeps of the table, smallest first    --minus_table, share_table--> Markdown, a row for each
sweep of the headline --verdicts_table, by_seed, matched_table, places_table--> Markdown     --policies_figure-->
sweeps --peaks_figure-->
"""

import math
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rltok.evidence import differences
from rltok.evidence.differences import gap
from rltok.evidence.headline import BEST, FAST, NAMES, SLOW, place_of, shares
from rltok.evidence.paper import TABLE_1
from rltok.evidence.records import AGAIN, RATE_OF, Sweep, read_sweeps
from rltok.evidence.summary import LOWER
from rltok.evidence.tables import by_size
from rltok.evidence.verdicts import one_sided
from rltok.evidence.words import NONE, TOGETHER, many_seeds, number
from rltok.presets import size_of
from rltok.show.tables import markdown
from rltok.statistics import SURE, Difference, t_limit

if TYPE_CHECKING:
    from matplotlib.figure import Figure

EARLY = "32m"  # the sweep whose learning rate peaks early for every method; it stands apart from the table
COMPARED = "tiny"  # made by a command, not by a plan
RUNS = {SLOW: (SLOW, "ours_gamma0.9", "learned")}  # names of one method in several sweeps
HEADS = {
    FAST: NAMES[FAST],
    SLOW: NAMES[SLOW],
    "bpe": "BPE guidance",
    "bpe_causal": "causal BPE",
    "hnet_port": "H-Net",
    "whitespace": "white-space rule",
    "entropy": "entropy rule",
    "random_k": "random places",
    "even": NAMES["even"],
}
PAPER = {SLOW: "ours", "bpe": "bpe", "hnet_port": "hnet_port", "even": "even"}  # in the paper's Table 1
PAIRS = ((FAST, "even"), (SLOW, "even"), (FAST, "hnet_port"), (FAST, "whitespace"),
         (f"{FAST}{RATE_OF}bpe", "bpe"), (f"{FAST}{RATE_OF}bpe_causal", "bpe_causal"),
         (f"{FAST}{AGAIN}{RATE_OF}hnet_port", "hnet_port"), (f"{FAST}{AGAIN}{RATE_OF}whitespace", "whitespace"))  # fmt: skip
GROUPS = {
    NAMES[SLOW]: (SLOW,),
    NAMES[FAST]: (FAST,),
    "fast policy, other discounts": (f"{FAST}_gamma0.9", f"{FAST}_gamma0.99"),
    "fast policy, fewer lags": (f"{FAST}_lags0", f"{FAST}_lags7"),
}
KINDS = {"space": "white space", "word start": "first letters", "letter": "other letters", "punctuation": "punctuation"}


def settings(results: Path) -> list[Sweep]:
    """The sweeps of the one table, smallest model first: the comparison at `tiny`, those under results/best, and larger models.

    One of single seeds borrows its error over seeds from the headline's.
    """
    best = read_sweeps(results / "best", varied=("learning_rate", "warmup_fraction"))
    large = {name: sweep for name, sweep in read_sweeps(results / "sweeps").items() if sweep.full and name != EARLY}
    found = by_size([read_sweeps(results / "rules")[COMPARED], *best.values(), *large.values()])
    return [differences.borrowing(sweep, best[BEST]) for sweep in found]


def name_in(sweep: Sweep, method: str) -> str | None:
    """By what name a method ran in a sweep; None where it did not."""
    return next((name for name in RUNS.get(method, (method,)) if name in sweep.runs), None)


def called(name: str) -> str:
    """A method in the words of the tables; one that has none keeps its name."""
    base, _, rival = name.partition(RATE_OF)
    base = base.removesuffix(AGAIN)
    method = next((method for method, names in RUNS.items() if base in names), base)
    words = HEADS.get(method, method)
    return f"{words}, equally many boundaries" if rival else words


def setting(sweep: Sweep, methods: Sequence[str]) -> str:
    """Size, text, seeds of these methods and plan of a sweep, in a cell."""
    run = sweep.records[0]
    counted = many_seeds(len(sweep.runs[name]) for method in methods if (name := name_in(sweep, method)))
    made = "`rltok compare`" if sweep.name == COMPARED else f"`{sweep.name}`"
    read = statistics.fmean(run["bytes"] for run in sweep.records) / 1e6
    return f"{size_of(run['config']['name'])}, {read:.3g} MB, {counted}: {made}"


def minus(sweep: Sweep, method: str, reference: str) -> Difference | None:
    """Bits per byte of a method minus the reference's in a sweep, on the split that its verdicts are about; None without both."""
    first, second = name_in(sweep, method), name_in(sweep, reference)
    return gap(sweep, first, second, place_of(sweep)) if first and second and first != second else None


def cell(difference: Difference | None) -> str:
    """The difference ± half its interval, in parentheses where the error is borrowed; a line may break in front of ± alone."""
    if difference is None:
        return NONE
    reach = difference.reach()
    shown = "" if reach is None else f" ±{TOGETHER}({reach:.3f})" if difference.borrowed else f" ±{TOGETHER}{reach:.3f}"
    return f"{difference.bits:+.3f}{shown}"


def side(difference: Difference) -> str:
    """The verdict on a difference: lower, higher, undecided, or, below the threshold or from fewer than three seeds, leaning."""
    verdict = one_sided(difference, wanted=-1)
    return LOWER.get(verdict, verdict)


def paper_cell(method: str, reference: str) -> str:
    """The paper's difference on held-out text ± half an interval of its errors, which are those of its text alone."""
    if not {method, reference} <= PAPER.keys() or method == reference:
        return NONE
    ours, theirs = (TABLE_1[PAPER[name]]["test"] for name in (method, reference))
    reach = t_limit(SURE, math.inf) * math.hypot(ours.error, theirs.error)
    return number(ours.mean - theirs.mean, reach, "+.3f").replace("± ", f"±{TOGETHER}")


def minus_table(sweeps: Sequence[Sweep], reference: str, methods: Sequence[str]) -> str:
    """Markdown: bits per byte minus the reference's, a row for each sweep and one for the paper, ± half a 95 % interval."""
    rows = [
        [setting(sweep, [*methods, reference]), *(cell(minus(sweep, method, reference)) for method in methods)]
        for sweep in sweeps
    ]
    rows.append(["the paper: 147M, 6 GB", *(paper_cell(method, reference) for method in methods)])
    return markdown([f"bits per byte, minus {NAMES[reference]}", *(HEADS[method] for method in methods)], rows)


def share_table(sweeps: Sequence[Sweep], methods: Sequence[str]) -> str:
    """Markdown: share of white space with a boundary after it, a row for each sweep."""
    rows = [
        [setting(sweep, methods), *(shares(sweep, name) if (name := name_in(sweep, method)) else NONE for method in methods)]
        for sweep in sweeps
    ]
    return markdown(["white space with a boundary", *(HEADS[method] for method in methods)], rows)


def bits_of(sweep: Sweep, name: str) -> Mapping[int, float]:
    """Bits per byte of each seed of a method, on the split that verdicts are about."""
    return dict(sweep.bits_per_byte[place_of(sweep)][name])


def by_seed(sweep: Sweep, names: Sequence[str]) -> str:
    """Lines: bits per byte of each seed of these methods."""
    seeds = sorted(sweep.runs[names[0]])
    lines = [f"{'bits per byte':24s}" + "".join(f"  seed {seed}" for seed in seeds)]
    for name in names:
        lines.append(f"{called(name):24s}" + "".join(f"{bits:8.4f}" for bits in bits_of(sweep, name).values()))
    return "\n".join(lines)


def verdicts_table(sweep: Sweep) -> str:
    """Markdown: differences of the policy in the sweep of the headline, seed by seed, with interval, verdict and both rates.

    Raises:
        RltokError: rates of a pair that is to have equal ones are not equal (`differences.matched_gap`).
    """
    place, rows = place_of(sweep), []
    for first, second in PAIRS:
        matched = RATE_OF in first
        found = differences.matched_gap(sweep, first, place) if matched else gap(sweep, first, second, place)
        if found is None:
            continue
        ours, theirs = bits_of(sweep, first), bits_of(sweep, second)
        each = ", ".join(f"{ours[seed] - theirs[seed]:+.3f}" for seed in ours if seed in theirs)
        rates = " and ".join(f"{statistics.fmean(sweep.values(name, 'rate', place)):.3f}" for name in (first, second))
        rows.append([f"{called(first)} − {called(second)}", each, cell(found), f"**{side(found)}**", rates])
    return markdown([f"`{sweep.name}`, {place} text", "by seed", "mean", "verdict", "boundaries per byte"], rows)


def matched_table(sweep: Sweep) -> str:
    """Markdown: runs that aim at a rival's boundaries per byte: both rates, and the difference where these count as equal."""
    place, rows = place_of(sweep), []
    for name in (name for name in sweep.runs if RATE_OF in name and name.partition(RATE_OF)[2] in sweep.runs):
        rival = name.partition(RATE_OF)[2]
        own, theirs = differences.rates_beside(sweep, name, place)
        found = gap(sweep, name, rival, place) if abs(own - theirs) <= differences.RATE_TOLERANCE else None
        verdict = f"{cell(found)}, **{side(found)}**" if found else "rates differ"
        seeds = str(len(sweep.runs[name].keys() & sweep.runs[rival].keys()))
        rows.append([f"`{name}`", seeds, f"{own:.3f}", f"{theirs:.3f}", verdict])
    compared = f"bits minus the rival, rates at most {differences.RATE_TOLERANCE:g} apart"
    return markdown(["contender", "seeds", "boundaries per byte", "of the rival", compared], rows)


def spread(sweep: Sweep, name: str) -> float:
    """By how much the best and the worst seed of a method differ, bits per byte."""
    bits = bits_of(sweep, name).values()
    return max(bits) - min(bits)


def places_table(sweeps: Sequence[tuple[Sweep, Sequence[str]]]) -> str:
    """Markdown: of each kind of byte the share with a boundary after it on validation text, a row for each run."""
    rows = []
    for sweep, names in sweeps:
        for name in (name for name in names if name in sweep.runs):
            for seed, run in sorted(sweep.runs[name].items()):
                rates = run["scores"]["validation"]["class_rates"]
                rows.append([f"`{sweep.name}`: {called(name)}, seed {seed}", *(f"{rates[kind] or 0:.0%}" for kind in KINDS)])
    return markdown(["a boundary after", *KINDS.values()], rows)


def policies_figure(sweep: Sweep) -> "Figure":
    """White space with a boundary (left, held-out text) and the policy's entropy (right) by text read, a line for each seed."""
    import matplotlib.pyplot as plt

    from rltok.show.plots import PALETTE

    drawing, (left, right) = plt.subplots(1, 2, figsize=(8.4, 3.4), layout="constrained")
    for colour, (told, names) in zip(PALETTE, GROUPS.items(), strict=False):
        label = told
        for run in (run for name in names for run in sweep.runs.get(name, {}).values()):
            for axes, points, key in ((left, run["held_out"], "whitespace_share"), (right, run["curve"], "policy_entropy")):
                line = [(point["bytes"] / 1e6, point[key]) for point in points if point[key] is not None]
                axes.plot(*zip(*line, strict=True), color=colour, linewidth=0.9, label=label)
            label = None
    left.set(xlabel="training text read (MB)", ylabel="white space with a boundary", ylim=(0, 1.02))
    right.set(xlabel="training text read (MB)", ylabel="entropy (nats per decision)", ylim=(0, None))
    drawing.legend(*left.get_legend_handles_labels(), loc="outside upper center", ncols=4, fontsize=8)
    return drawing


def peaks_figure(sweeps: Mapping[str, Sweep], methods: Sequence[str]) -> "Figure":
    """Differences from even spacing ± half a 95 % interval: a row for each method, a colour for each schedule."""
    import matplotlib.pyplot as plt

    from rltok.show.plots import PALETTE

    drawing, axes = plt.subplots(figsize=(7.2, 3.4), layout="constrained")
    for index, (told, sweep) in enumerate(sweeps.items()):
        found = [(row, minus(sweep, method, "even")) for row, method in enumerate(methods)]
        points = [(row - 0.2 + 0.2 * index, one.bits, one.reach() or 0.0) for row, one in found if one is not None]
        rows, bits, reach = zip(*points, strict=True)
        axes.errorbar(bits, rows, xerr=reach, fmt="os^"[index % 3], color=PALETTE[index], label=told, capsize=2, markersize=5)
    axes.axvline(0, color="0.5", linewidth=0.8)
    axes.set_yticks(range(len(methods)), [HEADS[method] for method in methods])
    axes.set_ylim(len(methods) - 0.5, -0.5)
    axes.set_xlabel("bits per byte minus those of even spacing, test text")
    drawing.legend(*axes.get_legend_handles_labels(), loc="outside upper center", ncols=3, fontsize=8)
    return drawing
