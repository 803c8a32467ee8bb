"""What a sweep comes to, in short, and how sure that is: order of the methods, verdicts, runs made twice, one card alone.

sweep --in_short--> Markdown: the order on held-out text, what contradicts the paper, what supports it
sweep --twins, spread_of_seeds--> how far a seed fixes a result        sweep --one_device--> differences without mixed devices
sweep --one_seed, single_seeds--> what a difference of a single seed can say
"""

import math
import statistics
from collections.abc import Sequence
from itertools import combinations
from typing import Any

from rltok.errors import RltokError
from rltok.evidence import donors
from rltok.evidence.claims import claims
from rltok.evidence.criteria import many, seeds_told
from rltok.evidence.records import Sweep
from rltok.evidence.tables import MISSING, REFERENCE, SMOKE, claim_rows, contenders_of, over_seeds
from rltok.evidence.verdicts import CONTRADICTED, INDICATIVE, LEAST_SEEDS, SUPPORTED, by_chance, directed, in_sigmas
from rltok.show.tables import markdown
from rltok.statistics import Gap

GAMMAS = ("0.99", "0.9")  # of the two columns of claims
TITLES = {
    CONTRADICTED: "Contradicts the paper",
    INDICATIVE[CONTRADICTED]: "Speaks against the paper, from fewer than three seeds",
    SUPPORTED: "Supports the paper",
    INDICATIVE[SUPPORTED]: "Speaks for the paper, from fewer than three seeds",
}
IN_FULL = (CONTRADICTED, INDICATIVE[CONTRADICTED])  # of the others the claims that matter most
LOWER = {SUPPORTED: "lower", CONTRADICTED: "higher"}  # of a difference that is no claim of the paper
LOWER |= {INDICATIVE[verdict]: f"indicative: {told}" for verdict, told in LOWER.items()}


def need(sweep: Sweep, names: Sequence[str]) -> None:
    """Raise `RltokError` unless these contenders have finished runs in the sweep, with a seed in common."""
    missing = [name for name in names if name not in sweep.runs]
    shared = set.intersection(*(set(sweep.runs[name]) for name in names)) if names and not missing else {0}
    if not shared:
        seeds = "; ".join(f"{name} {', '.join(map(str, sorted(sweep.runs[name])))}" for name in names)
        raise RltokError(
            f"in the sweep {sweep.name} no seed is common to {', '.join(names)}, which this page compares (seeds: {seeds})."
            " Run one of them with a seed of the others: scripts/run_sweep.py ... --seeds K."
        )
    if missing:
        raise RltokError(
            f"the sweep {sweep.name} has no finished run of {', '.join(missing)}, which this page compares with. Make it:"
            f" scripts/run_sweep.py ... --only {' '.join(missing)}."
        )


def order(sweep: Sweep, place: str = "test", pointer: bool = True) -> str:
    """Markdown: contenders by their difference from even spacing, lowest first; of those with fewer than three seeds the number.

    `pointer` says where those stand on the page. Without it, and where none but the reference has three seeds, all are told.
    """
    gaps = {name: donors.gap(sweep, name, REFERENCE, place) for name in contenders_of(sweep)}
    found = sorted((gap[0].bits, name, *gap) for name, gap in gaps.items() if gap is not None)
    sure = [(name, gap) for _, name, gap, seeds in found if seeds >= LEAST_SEEDS]
    if not pointer or all(name == REFERENCE for name, _ in sure):
        sure = [(name, gap) for _, name, gap, _ in found]
    told = [f"`{name}`" + ("" if name == REFERENCE else f" {in_sigmas(gap)}") for name, gap in sure]
    left = len(found) - len(told)
    where = f" {left} more with fewer than {LEAST_SEEDS} seeds stand below, under *What one seed says*."
    more = where if left and pointer else ""
    apart = [f"`{name}`" for name, gap in gaps.items() if gap is None]
    if apart:
        more += f" Without a score on {place} text of a seed that `{REFERENCE}` has, too: {', '.join(apart)}."
    head = f"**Bits per byte on {place} text minus those of `{REFERENCE}`, lowest first:**"
    return f"{head} {', '.join(told) or 'nothing to compare'}.{more}"


def parts_of(told: str, verdict: str) -> str:
    """Of a claim that says several things at once the parts that decide, and how many others there are."""
    parts = told.split("; ")
    deciding = [part.removesuffix(f": {verdict}") for part in parts if part.endswith(f": {verdict}")]
    if len(parts) == 1 or not deciding:
        return ", ".join(parts)
    left = len(parts) - len(deciding)
    return ", ".join(deciding) + (f" ({many(left, 'other part')} in the table)" if left else "")


def _lines(rows: Sequence[Sequence[str]], verdict: str) -> tuple[list[str], int]:
    """The rows of all claims with this verdict for one gamma at least, a line each; and how many are left to the table."""
    lines, left = [], 0
    for claim, row in zip(claims(), rows, strict=True):
        text, where, _, *found = row
        sides = zip(GAMMAS, found[::2], found[1::2], strict=True)
        told = [f"γ = {gamma}: {parts_of(ours, verdict)}" for gamma, ours, said in sides if said.removeprefix(SMOKE) == verdict]
        if told and (claim.headline or verdict in IN_FULL):
            lines.append(f"{text} ({where}). {'; '.join(told)}")
        left += bool(told) and not (claim.headline or verdict in IN_FULL)
    return lines, left


def in_short(sweep: Sweep) -> str:
    """Markdown: the order of the methods, then what the verdicts come to, what contradicts the paper first."""
    blocks = [order(sweep), single_seeds(sweep)] if donors.deviation(sweep, "test") is None else [order(sweep)]
    rows = claim_rows(sweep)
    for verdict, title in TITLES.items():
        lines, left = _lines(rows, verdict)
        more = [f"{left} more in the table of claims"] if left else []
        blocks.append(f"**{title}:**\n\n" + "\n".join(f"* {line}" for line in [*lines, *more] or ["nothing"]))
    open_ = sum(not any(said.removeprefix(SMOKE) in TITLES for said in (row[4], row[6])) for row in rows)
    blocks.append(f"Undecided, or not run: {open_} of {len(rows)} claims. {chance(sweep)}".rstrip())
    return "\n\n".join(filter(None, blocks))


def chance(sweep: Sweep) -> str:
    """How little two standard errors from three seeds are; nothing where nobody has three."""
    if not donors.full(sweep):
        return ""
    return (
        f"Chance alone takes a difference of {LEAST_SEEDS} seeds beyond 2 σ, where we say supported or contradicted, in"
        f" {by_chance(LEAST_SEEDS):.0%} of cases; so see how far beyond it lies."
    )


def single_seeds(sweep: Sweep, place: str = "test") -> str:
    """How little a single seed says; nothing where every contender has three."""
    if all(len(seeds) >= LEAST_SEEDS for seeds in sweep.runs.values()):
        return ""
    spread = donors.deviation(sweep, place)
    if spread is None:
        return (
            "A single seed has no error over seeds, which would be the large one, and no two contenders have three, from which it"
            " could be borrowed. So these differences look surer than they are."
        )
    return (
        f"A single seed has no error over seeds and borrows one, in parentheses: from seed to seed a difference between two"
        f" methods on {place} text deviates by {spread:.3f}."
    )


def _validation(run: dict[str, Any]) -> float:
    return run["scores"]["validation"]["bits_per_byte"]


def twins(sweep: Sweep) -> list[tuple[str, int, float, tuple[str, str]]]:
    """Pairs of runs with one seed: contender, seed, bits per byte of one minus the other, and their devices, in one order."""
    found = []
    for name, seeds in sweep.repeats.items():
        for seed in seeds:
            for pair in combinations(sweep.of_seed(name, seed), 2):
                first, second = sorted(pair, key=lambda run: run["device"], reverse=True)
                found.append((name, seed, _validation(first) - _validation(second), (first["device"], second["device"])))
    return found


def spread_of_seeds(sweep: Sweep, names: Sequence[str]) -> list[float]:
    """Differences in bits per byte between the runs of every pair of seeds of these contenders."""
    each = [[_validation(run) for run in sweep.runs[name].values()] for name in names]
    return [a - b for bits in each for a, b in combinations(bits, 2)]


def one_seed(sweep: Sweep, reference: str, place: str = "test") -> str:
    """Markdown: contenders with fewer than three seeds, lowest first, with their rates and white space.

    Minus the reference's runs of the same seeds, which all rows have in common; and minus the mean of all its seeds, whose error
    is the deviation s of a run from seed to seed: s sqrt(1 / seeds of the contender + 1 / seeds of the reference).
    """
    level = sweep.mean(reference, place)
    own = _own_deviation(sweep, place)
    rows = []
    for name in (name for name in contenders_of(sweep) if name != reference and len(sweep.runs[name]) < LEAST_SEEDS):
        mean, paired = sweep.mean(name, place), donors.gap(sweep, name, reference, place)
        if mean is not None and level is not None:
            bits = mean.bits - level.bits
            error = own and own * math.sqrt(1 / len(sweep.runs[name]) + 1 / len(sweep.runs[reference]))
            rows.append((bits, name, MISSING if paired is None else in_sigmas(paired[0]), _in_errors(bits, error)))
    keys = ("rate", "whitespace_share")
    cells = [
        [f"`{name}`", paired, whole, *(over_seeds(sweep.values(name, key), ".2f") for key in keys)]
        for _, name, paired, whole in sorted(rows)
    ]
    head = [
        f"{place} text, bits per byte",
        f"minus `{reference}`, same seed",
        f"minus the mean of `{reference}`",
        "rate",
        "white space",
    ]
    return markdown(head, cells)


def _own_deviation(sweep: Sweep, place: str) -> float | None:
    """Standard deviation over seeds of a contender's own bits per byte, pooled over those with three."""
    return donors.pooled(list(donors.bits_by_seed(sweep, name, place).values()) for name in donors.full(sweep))


def _in_errors(bits: float, error: float | None) -> str:
    return f"{bits:+.4f}" + (f" ± ({error:.4f}) ({abs(bits) / error:.1f} σ)" if error else "")


def _scored_minus_lost(sweep: Sweep) -> dict[str, list[float]]:
    """Of every seed of which some runs have a test score and some have none: validation of the former minus theirs."""
    found: dict[str, list[float]] = {}
    for name in contenders_of(sweep):
        for seed in sweep.runs[name]:
            sides: dict[bool, list[float]] = {True: [], False: []}
            for run in sweep.of_seed(name, seed):
                sides[run["scores"]["test"] is not None].append(_validation(run))
            if all(sides.values()):
                found.setdefault(name, []).append(statistics.fmean(sides[True]) - statistics.fmean(sides[False]))
    return found


def unscored(sweep: Sweep) -> str:
    """Markdown: how runs with a test score and runs of the same seed without one differ on validation, by contender."""
    rows = [[f"`{name}`", str(len(gaps)), f"{statistics.fmean(gaps):+.4f}"] for name, gaps in _scored_minus_lost(sweep).items()]
    return markdown(["validation, bits per byte", "seeds with both", "runs with a test score minus those without"], rows)


def luck(sweep: Sweep) -> str:
    """Whose test score owes most to which of its runs could be scored; nothing where all were."""
    gaps = {name: statistics.fmean(gaps) for name, gaps in _scored_minus_lost(sweep).items()}
    if not gaps:
        return ""
    name = max(gaps, key=lambda name: abs(gaps[name]))
    return (
        f"Some runs were lost before they could be scored on test text; on validation text the scored ones of `{name}` differ"
        f" most from its lost ones, by {gaps[name]:+.4f}."
    )


def _told(gap: Gap, seeds: int) -> str:
    return f"{in_sigmas(gap)}, {seeds_told(seeds)}: {LOWER.get(found := directed(gap, -1, seeds), found)}"


def one_device(sweep: Sweep, firsts: Sequence[str], seconds: Sequence[str], place: str = "validation") -> str:
    """Markdown: differences from all runs, and from the runs of one kind of device alone."""
    devices = sorted({run["device"] for run in sweep.everything})
    sides = {"all runs": sweep} | {device: sweep.on(device) for device in devices}
    rows = []
    for first in firsts:
        for second in seconds:
            cells = []
            for side in sides.values():
                found = donors.gap(side, first, second, place)
                cells.append(MISSING if found is None else _told(*found))
            rows.append([f"{first} minus {second}", *cells])
    return markdown([f"{place}, bits per byte", *sides], rows)
