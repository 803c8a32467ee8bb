"""What a sweep comes to, in short, and how sure that is: order of the methods, verdicts, runs made twice, one card alone.

sweep --in_short--> Markdown: the order on held-out text, what contradicts the paper, what supports it
sweep --twins, spread_of_seeds--> how far a seed fixes a result        sweep --one_device--> differences without mixed devices
sweep --paired_spread, one_seed--> what a difference of a single seed can say
"""

import math
import statistics
from collections.abc import Sequence
from itertools import combinations
from typing import Any

from rltok.claims import claims
from rltok.errors import RltokError
from rltok.evidence_tables import MISSING, REFERENCE, SMOKE, claim_rows, contenders_of
from rltok.judges import seeds_told
from rltok.records import Sweep
from rltok.rule_views import Gap, markdown
from rltok.verdicts import CONTRADICTED, INDICATIVE, LEAST_SEEDS, SUPPORTED, by_chance, directed, in_sigmas

GAMMAS = ("0.99", "0.9")  # of the two columns of claims
TITLES = {
    CONTRADICTED: "Contradicts the paper",
    INDICATIVE[CONTRADICTED]: "Speaks against the paper, from fewer than three seeds",
    SUPPORTED: "Supports the paper",
    INDICATIVE[SUPPORTED]: "Speaks for the paper, from fewer than three seeds",
}
IN_FULL = (CONTRADICTED, INDICATIVE[CONTRADICTED])  # of the others the claims that matter most
OFF_TARGET = 0.1  # of the target rate
LOWER = {SUPPORTED: "lower", CONTRADICTED: "higher"}  # of a difference that is no claim of the paper
LOWER |= {INDICATIVE[verdict]: f"indicative: {told}" for verdict, told in LOWER.items()}


def need(sweep: Sweep, names: Sequence[str]) -> None:
    """Raise `RltokError` unless every one of these contenders has a finished run in the sweep."""
    missing = [name for name in names if name not in sweep.runs]
    if missing:
        raise RltokError(
            f"the sweep {sweep.name} has no finished run of {', '.join(missing)}, which this page compares with. Make it:"
            f" scripts/run_sweep.py ... --only {' '.join(missing)}."
        )


def order(sweep: Sweep, place: str = "test") -> str:
    """Markdown: contenders by their difference from even spacing, lowest first; those with fewer than three seeds apart."""
    gaps = {name: sweep.gap(name, REFERENCE, place) for name in contenders_of(sweep)}
    found = sorted((gap[0].bits, name, *gap) for name, gap in gaps.items() if gap is not None)
    sure = [_named(name, gap) for _, name, gap, seeds in found if seeds >= LEAST_SEEDS]
    single = [_named(name, gap) for _, name, gap, seeds in found if seeds < LEAST_SEEDS and name != REFERENCE]
    told = [f"**Bits per byte on {place} text minus those of `{REFERENCE}`, lowest first:** {', '.join(sure) or 'too few seeds'}"]
    if single:
        told.append(f"**From fewer than three seeds:** {', '.join(single)}. {single_seeds(sweep, place)}".rstrip())
    off = _off_target(sweep)
    if off:
        told.append(f"**Rate more than a tenth off the target, so more tokens or fewer:** {', '.join(off)}")
    return "\n\n".join(told)


def _named(name: str, gap: Gap) -> str:
    return f"`{name}`" + ("" if name == REFERENCE else f" {in_sigmas(gap)}")


def _off_target(sweep: Sweep) -> list[str]:
    """Contenders that draw more than a tenth more or fewer boundaries than all were asked for, with their rates."""
    target = sweep.records[0]["config"]["model"]["rule"]["target_rate"]
    rates = [(name, statistics.fmean(sweep.values(name, "rate"))) for name in contenders_of(sweep)]
    return [f"`{name}` {rate:.2f}" for name, rate in rates if abs(rate - target) > OFF_TARGET * target]


def _lines(sweep: Sweep, verdict: str) -> tuple[list[str], int]:
    """The claims with this verdict for one gamma at least, a line each; and how many are left to the table."""
    lines, left = [], 0
    for claim, row in zip(claims(), claim_rows(sweep), strict=True):
        text, where, _, *found = row
        sides = zip(GAMMAS, found[::2], found[1::2], strict=True)
        told = [f"γ = {gamma}: {ours.replace('; ', ', ')}" for gamma, ours, said in sides if said.removeprefix(SMOKE) == verdict]
        if told and (claim.headline or verdict in IN_FULL):
            lines.append(f"{text} ({where}). {'; '.join(told)}")
        left += bool(told) and not (claim.headline or verdict in IN_FULL)
    return lines, left


def in_short(sweep: Sweep) -> str:
    """Markdown: the order of the methods, then what the verdicts come to, what contradicts the paper first."""
    blocks = [order(sweep)]
    for verdict, title in TITLES.items():
        lines, left = _lines(sweep, verdict)
        more = [f"{left} more in the table of claims"] if left else []
        blocks.append(f"**{title}:**\n\n" + "\n".join(f"* {line}" for line in [*lines, *more] or ["nothing"]))
    rows = claim_rows(sweep)
    open_ = sum(not any(said.removeprefix(SMOKE) in TITLES for said in (row[4], row[6])) for row in rows)
    blocks.append(f"Undecided, or not run: {open_} of {len(rows)} claims. {chance()}")
    return "\n\n".join(blocks)


def chance() -> str:
    """How little two standard errors from three seeds are."""
    return (
        f"Chance alone takes a difference of {LEAST_SEEDS} seeds beyond 2 σ, where we say supported or contradicted, in"
        f" {by_chance(LEAST_SEEDS):.0%} of cases; so see how far beyond it lies."
    )


def single_seeds(sweep: Sweep, place: str = "test") -> str:
    """How little a single seed says; nothing where it is not known or every contender has three."""
    spread = paired_spread(sweep, place)
    if spread is None or all(len(seeds) >= LEAST_SEEDS for seeds in sweep.runs.values()):
        return ""
    return (
        f"A single seed has no error over seeds: from seed to seed a difference on {place} text deviates by {spread:.3f}, and"
        " what is smaller than a few times that says little."
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


def paired_spread(sweep: Sweep, place: str) -> float | None:
    """Standard deviation from seed to seed of a difference between two contenders in bits per byte; None without three seeds.

    s^2 = mean over pairs (A, B) of the variance over seeds of bits(A) - bits(B),    pairs with three seeds in common or more
    """
    found = {name: sweep.scored(name, place) for name in sweep.runs}
    bits = {name: {seed: b.sum() / n.sum() for seed, (b, n) in scores.items()} for name, scores in found.items()}
    variances = []
    for first, second in combinations(bits.values(), 2):
        shared = first.keys() & second.keys()
        if len(shared) >= LEAST_SEEDS:
            variances.append(statistics.variance(first[seed] - second[seed] for seed in shared))
    return math.sqrt(statistics.fmean(variances)) if variances else None


def one_seed(sweep: Sweep, reference: str, place: str = "test") -> str:
    """Markdown: contenders with fewer than three seeds minus a reference, also in deviations from seed to seed."""
    gaps = {name: sweep.gap(name, reference, place) for name in contenders_of(sweep) if name != reference}
    few = sorted((gap[0].bits, name, *gap) for name, gap in gaps.items() if gap is not None and gap[1] < LEAST_SEEDS)
    spread = paired_spread(sweep, place)
    rows = [[f"`{name}`", f"{gap}", MISSING if spread is None else f"{bits / spread:+.1f}"] for bits, name, gap, _ in few]
    return markdown([f"{place} text, minus `{reference}`", "bits per byte", "in deviations of a seed"], rows)


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
                found = side.gap(first, second, place)
                cells.append(MISSING if found is None else _told(*found))
            rows.append([f"{first} minus {second}", *cells])
    return markdown([f"{place}, bits per byte", *sides], rows)
