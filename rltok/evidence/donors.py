"""What a difference of one seed lacks: how much differences between contenders deviate from seed to seed, where three are known.

sweep --deviation--> of the contenders with three seeds     gap, lend--> a difference that borrows it for its error over seeds
(sweep, sweep of another size) --borrowing--> a sweep that borrows from the other where none of its own contenders has three seeds
"""

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import combinations

from rltok.evidence.records import Sweep
from rltok.evidence.verdicts import LEAST_SEEDS
from rltok.statistics import Gap


def full(sweep: Sweep) -> list[str]:
    """Contenders with as many seeds as a verdict needs."""
    return [name for name, seeds in sweep.runs.items() if len(seeds) >= LEAST_SEEDS]


def pooled(gaps: Iterable[Sequence[float]]) -> float | None:
    """Standard deviation over seeds, s^2 = mean over pairs of contenders of the variance of their differences; None of none.

    Args:
        gaps: of every pair one difference a seed; pairs with fewer than three seeds do not count.
    """
    variances = [statistics.variance(each) for each in gaps if len(each) >= LEAST_SEEDS]
    return math.sqrt(statistics.fmean(variances)) if variances else None


def borrowing(sweep: Sweep, lender: Sweep | None) -> Sweep:
    """The sweep, which borrows from the other what its own seeds don't say; from nobody where that is None or itself."""
    return sweep if lender is None or lender is sweep else replace(sweep, lender=lender)


def bits_by_seed(sweep: Sweep, name: str, place: str) -> dict[int, float]:
    """Bits per byte of a contender by seed, the mean over its runs that have a score."""
    return {seed: float(bits.sum() / sizes.sum()) for seed, (bits, sizes) in sweep.scored(name, place).items()}


def by_pair(sweep: Sweep, place: str) -> dict[tuple[str, str], list[float]]:
    """Differences in bits per byte by seed, of every pair of contenders with three seeds."""
    bits = {name: bits_by_seed(sweep, name, place) for name in full(sweep)}
    return {
        (first, second): [bits[first][seed] - bits[second][seed] for seed in bits[first] if seed in bits[second]]
        for first, second in combinations(bits, 2)
    }


def source(sweep: Sweep, place: str) -> Sweep:
    """The sweep whose seeds say how much differences deviate: itself where two contenders share three, else its lender.

    Seeds count that have a score at the place.
    """
    return sweep if sweep.lender is None or pooled(by_pair(sweep, place).values()) is not None else sweep.lender


def deviation(sweep: Sweep, place: str) -> float | None:
    """By how much a difference between two contenders deviates from seed to seed, bits per byte; None where nobody knows."""
    return pooled(by_pair(source(sweep, place), place).values())


def lend(gap: Gap, seeds: int, known: float | None) -> Gap:
    """The difference of fewer than three seeds with `known` / sqrt(seeds) for its error over seeds, unless its own is larger."""
    if seeds >= LEAST_SEEDS or known is None:
        return gap
    return replace(gap, seeds=max(gap.seeds or 0.0, known / math.sqrt(seeds)), lent=True)


def in_deviations(sweep: Sweep, beside: Sweep, first: str, second: str, place: str) -> str:
    """In words: a difference in deviations from seed to seed of another sweep, |Delta| / s, of all its pairs and of this pair."""
    found, spread = sweep.gap(first, second, place), deviation(beside, place)
    if found is None or spread is None:
        return f"{first} minus {second}: not known"
    size, pairs = abs(found[0].bits), by_pair(beside, place)
    own = pairs.get((first, second)) or pairs.get((second, first)) or []
    of_pair = f", {size / statistics.stdev(own):.1f} of this pair" if len(own) >= LEAST_SEEDS else ""
    return f"{first} minus {second}: {found[0].bits:+.4f}, which is {size / spread:.1f} deviations of all pairs{of_pair}"


def gap(sweep: Sweep, first: str, second: str, place: str) -> tuple[Gap, int] | None:
    """`Sweep.gap`; from fewer than three seeds its error over seeds is borrowed."""
    found = sweep.gap(first, second, place)
    if found is None or found[1] >= LEAST_SEEDS:
        return found
    return lend(*found, deviation(sweep, place)), found[1]
