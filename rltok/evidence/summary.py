"""A sweep in short, and how sure it is: order of the methods, verdicts, repeated runs, runs of one device.

sweep --in_short--> Markdown: the order on held-out text, what contradicts the paper, what supports it
sweep --repeated_pairs, spread_of_seeds--> how far a seed fixes a result   sweep --one_device--> differences without mixed devices
sweep --one_seed, single_seeds--> what a difference of a single seed can say
"""

import math
import statistics
from collections.abc import Sequence
from itertools import combinations
from typing import Any

from rltok.errors import RltokError
from rltok.evidence import differences, words
from rltok.evidence.criteria import Claim
from rltok.evidence.records import Sweep
from rltok.evidence.tables import BASELINE, judged_claims, methods_of, over_seeds
from rltok.evidence.verdicts import CONTRADICTED, LEANS, LEAST_SEEDS, SUPPORTED, Finding, one_sided
from rltok.evidence.words import NONE, with_interval
from rltok.show.tables import markdown
from rltok.statistics import SURE, Difference, t_limit

GAMMAS = ("0.99", "0.9")  # of the two columns of claims
TITLES = {
    CONTRADICTED: "Contradicts the paper",
    LEANS[CONTRADICTED]: "Leans against the paper, below the threshold or from fewer than three seeds",
    SUPPORTED: "Supports the paper",
    LEANS[SUPPORTED]: "Leans for the paper, below the threshold or from fewer than three seeds",
}
IN_FULL = (CONTRADICTED, LEANS[CONTRADICTED])  # of the others the claims that matter most
LOWER = {SUPPORTED: "lower", CONTRADICTED: "higher"}  # of a difference that is no claim of the paper
LOWER |= {LEANS[verdict]: f"leans {side}" for verdict, side in LOWER.items()}


def need(sweep: Sweep, names: Sequence[str]) -> None:
    """Raise `RltokError` unless these methods have finished runs in the sweep, with a seed in common."""
    missing = [name for name in names if name not in sweep.runs]
    shared = set.intersection(*(set(sweep.runs[name]) for name in names)) if names and not missing else {0}
    if not shared:
        seeds = "; ".join(f"{name} {', '.join(map(str, sorted(sweep.runs[name])))}" for name in names)
        raise RltokError(
            f"in the sweep {sweep.name} no seed is common to {', '.join(names)}, which this page compares (seeds: {seeds})."
            " Run one of them with a seed of the others: scripts/measure/run_sweep.py ... --seeds K."
        )
    if missing:
        raise RltokError(
            f"the sweep {sweep.name} has no finished run of {', '.join(missing)}, which this page compares with. Make it:"
            f" scripts/measure/run_sweep.py ... --only {' '.join(missing)}."
        )


def minus_baseline(sweep: Sweep, place: str) -> dict[str, Difference | None]:
    """The difference of every method from even spacing."""
    return {name: differences.gap(sweep, name, BASELINE, place) for name in methods_of(sweep)}


def order(sweep: Sweep, place: str = "test", page: bool = True) -> str:
    """Markdown: methods by their difference from even spacing, lowest first; those with fewer than three seeds are only counted.

    `page` says where those stand on the page. Without it, and where none but the baseline has three seeds, all are listed.
    """
    gaps = minus_baseline(sweep, place)
    ordered = sorted((gap.bits, name, gap) for name, gap in gaps.items() if gap is not None)
    sure = [(name, gap) for _, name, gap in ordered if gap.seeds >= LEAST_SEEDS]
    if not page or all(name == BASELINE for name, _ in sure):
        sure = [(name, gap) for _, name, gap in ordered]
    listed = ", ".join(f"`{name}`" + ("" if name == BASELINE else f" {with_interval(gap)}") for name, gap in sure)
    left = len(ordered) - len(sure)
    more = f" {left} more with fewer than {LEAST_SEEDS} seeds stand under *What one seed says*." if left else ""
    apart = [f"`{name}`" for name, gap in gaps.items() if gap is None]
    if apart:
        more += f" Without a score on {place} text of a seed that `{BASELINE}` has, too: {', '.join(apart)}."
    head = f"its per byte on {place} text minus those of `{BASELINE}`, lowest first:"
    return f"{f'**B{head}**' if page else f'b{head}'} {listed or 'nothing to compare'}.{more}"


def _lines(judged: Sequence[tuple[Claim, list[Finding | None]]], verdict: str) -> tuple[list[str], int]:
    """The claims with this verdict for one gamma at least, a line each; and how many are left to the table."""
    lines, left = [], 0
    for claim, findings in judged:
        sides = [
            f"γ = {gamma}: {words.deciding(finding)}"
            for gamma, finding in zip(GAMMAS, findings, strict=True) if finding is not None and finding.verdict == verdict
        ]  # fmt: skip
        if sides and (claim.headline or verdict in IN_FULL):
            lines.append(f"{claim.text} ({claim.source}). {'; '.join(sides)}")
        left += bool(sides) and not (claim.headline or verdict in IN_FULL)
    return lines, left


def in_short(sweep: Sweep) -> str:
    """Markdown: the order of the methods, then what the verdicts come to, what contradicts the paper first."""
    blocks = [order(sweep), single_seeds(sweep)] if differences.deviation(sweep, "test") is None else [order(sweep)]
    judged = judged_claims(sweep)
    for verdict, title in TITLES.items():
        lines, left = _lines(judged, verdict)
        more = [f"{left} more in the table of claims"] if left else []
        blocks.append(f"**{title}:**\n\n" + "\n".join(f"* {line}" for line in [*lines, *more] or ["nothing"]))
    undecided = sum(not any(one is not None and one.verdict in TITLES for one in findings) for _, findings in judged)
    blocks.append(f"Undecided, or not run: {undecided} of {len(judged)} claims. {chance(sweep)}".rstrip())
    return "\n\n".join(filter(None, blocks))


def chance(sweep: Sweep) -> str:
    """How wide an interval from three seeds is, and what it leaves to chance; "" where no method has three."""
    if all(len(seeds) < LEAST_SEEDS for seeds in sweep.runs.values()):
        return ""
    return (
        f"From {LEAST_SEEDS} seeds the interval reaches {t_limit(SURE, LEAST_SEEDS - 1):.1f} errors over seeds to either side"
        f" (Student's t). Chance alone takes {1 - SURE:.0%} of differences beyond it, so of many verdicts a few are chance."
    )


def single_seeds(sweep: Sweep) -> str:
    """How little a single seed says; "" where every method has three."""
    if all(len(seeds) >= LEAST_SEEDS for seeds in sweep.runs.values()):
        return ""
    spread = differences.deviation(sweep, "test")
    if spread is None:
        return (
            "A single seed has no error over seeds, which would be the large one, and no two contenders have several, from which"
            " it could be borrowed. So these differences look surer than they are."
        )
    return (
        f"A single seed has no error over seeds and borrows one, in parentheses: from seed to seed a difference between two"
        f" methods on test text deviates by {spread:.3f}."
    )


def _validation(run: dict[str, Any]) -> float:
    return run["scores"]["validation"]["bits_per_byte"]


def repeated_pairs(sweep: Sweep) -> list[tuple[str, int, float, tuple[str, str]]]:
    """Pairs of runs with one seed: method, seed, bits per byte of one minus the other, and their devices, in one order."""
    pairs = []
    for name, seeds in sweep.repeats.items():
        for seed in seeds:
            for pair in combinations(sweep.of_seed(name, seed), 2):
                first, second = sorted(pair, key=lambda run: run["device"], reverse=True)
                pairs.append((name, seed, _validation(first) - _validation(second), (first["device"], second["device"])))
    return pairs


def spread_of_seeds(sweep: Sweep, names: Sequence[str]) -> list[float]:
    """Differences in bits per byte between the runs of every pair of seeds of these methods."""
    each = [[_validation(run) for run in sweep.runs[name].values()] for name in names]
    return [a - b for bits in each for a, b in combinations(bits, 2)]


def one_seed(sweep: Sweep, reference: str) -> str:
    """Markdown: methods with fewer than three seeds, lowest first, with their rates and white space.

    Minus the reference's runs of the same seeds, which all rows have in common; and minus the mean of all its seeds, whose error
    is the deviation s of a run from seed to seed: s sqrt(1 / seeds of the method + 1 / seeds of the reference). Behind both
    stands half the width of their interval.
    """
    level = sweep.mean(reference, "test")
    by_seed = [list(seeds.values()) for seeds in differences.bits_by_seed(sweep, "test").values()]
    own, limit = differences.pooled(by_seed), t_limit(SURE, max(1, sum(len(each) - 1 for each in by_seed)))
    rows = []
    for name in (name for name in methods_of(sweep) if name != reference and len(sweep.runs[name]) < LEAST_SEEDS):
        mean, paired = sweep.mean(name, "test"), differences.gap(sweep, name, reference, "test")
        if mean is not None and level is not None:
            bits = mean.bits - level.bits
            error = own and own * math.sqrt(1 / len(sweep.runs[name]) + 1 / len(sweep.runs[reference]))
            whole = f"{bits:+.4f}" + (f" ± ({error:.4f}) ({SURE:.0%}: ± {limit * error:.4f})" if error else "")
            rows.append((bits, name, NONE if paired is None else with_interval(paired), whole))
    keys = ("rate", "whitespace_share")
    cells = [
        [f"`{name}`", paired, whole, *(over_seeds(sweep.values(name, key), ".2f") for key in keys)]
        for _, name, paired, whole in sorted(rows)
    ]
    head = [
        "test text, bits per byte",
        f"minus `{reference}`, same seed",
        f"minus the mean of `{reference}`",
        "rate",
        "white space",
    ]
    return markdown(head, cells)


def _scored_minus_lost(sweep: Sweep) -> dict[str, list[float]]:
    """By method, for every seed whose runs only partly have a test score: validation of those with one minus the others."""
    by_method: dict[str, list[float]] = {}
    for name in methods_of(sweep):
        for seed in sweep.runs[name]:
            sides: dict[bool, list[float]] = {True: [], False: []}
            for run in sweep.of_seed(name, seed):
                sides[run["scores"]["test"] is not None].append(_validation(run))
            if all(sides.values()):
                by_method.setdefault(name, []).append(statistics.fmean(sides[True]) - statistics.fmean(sides[False]))
    return by_method


def in_fp16(sweep: Sweep | None, first: str = "ours_gamma0.9_fp16", second: str = "ours_gamma0.9") -> str:
    """What fp16 costs: its bits per byte on validation text minus those of bf16, beside what seeds of the latter differ by."""
    paired = sweep and differences.gap(sweep, first, second, "validation")
    if not sweep or paired is None or len(sweep.runs[second]) < 2:
        return "Not measured yet: no records of `scripts/measure/sweeps/32m_fp16.toml`."
    spread = statistics.stdev(sweep.each(second, _validation))
    side = "within" if abs(paired.bits) <= spread else "beyond"
    counts = [str(run.get("skipped", NONE)) for run in sweep.runs[first].values()]
    return (
        f"fp16 minus bf16, {words.with_seeds(paired)}: {side} the noise of seeds, {spread:.4f} from one run in bf16 to another."
        f" Updates that fp16 skipped, by seed: {', '.join(counts)}."
    )


def unscored(sweep: Sweep) -> str:
    """Markdown: how runs with a test score and runs of the same seed without one differ on validation, by method."""
    rows = [[f"`{name}`", str(len(gaps)), f"{statistics.fmean(gaps):+.4f}"] for name, gaps in _scored_minus_lost(sweep).items()]
    return markdown(["validation, bits per byte", "seeds with both", "runs with a test score minus those without"], rows)


def luck(sweep: Sweep) -> str:
    """The method whose test score depends most on which of its runs could be scored; "" where all were."""
    gaps = {name: statistics.fmean(gaps) for name, gaps in _scored_minus_lost(sweep).items()}
    if not gaps:
        return ""
    name = max(gaps, key=lambda name: abs(gaps[name]))
    return (
        f"Some runs were lost before they could be scored on test text; on validation text the scored ones of `{name}` differ"
        f" most from its lost ones, by {gaps[name]:+.4f}."
    )


def one_device(sweep: Sweep, firsts: Sequence[str], seconds: Sequence[str], place: str = "validation") -> str:
    """Markdown: differences from all runs, and from the runs of one kind of device alone."""
    devices = sorted({run["device"] for run in sweep.everything})
    sides = {"all runs": sweep} | {device: sweep.on(device) for device in devices}
    rows = []
    for first in firsts:
        for second in seconds:
            cells = []
            for side in sides.values():
                gap = differences.gap(side, first, second, place)
                verdict = NONE if gap is None else one_sided(gap, -1)
                cells.append(NONE if gap is None else f"{words.with_seeds(gap)}: {LOWER.get(verdict, verdict)}")
            rows.append([f"{first} minus {second}", *cells])
    return markdown([f"{place}, bits per byte", *sides], rows)
