"""Differences between methods of a sweep, and what one of few seeds lacks: the error over seeds, which it borrows.

(sweep, first, second, place) --gap--> Difference      sweep --deviation--> by how much one deviates from seed to seed
(sweep, sweep of another size) --borrowing--> a sweep that borrows from the other where none of its own methods has three seeds
"""

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import combinations

from rltok.evidence.records import Sweep
from rltok.evidence.verdicts import LEAST_SEEDS
from rltok.statistics import Difference, difference_of_units


def gap(sweep: Sweep, first: str, second: str, place: str) -> Difference | None:
    """Bits per byte of the first minus the second's, paired by unit and seed; None without a scored seed that both have.

    From fewer than three seeds its error over seeds is borrowed.
    """
    paired = sweep.paired(first, second, place)
    if paired is None:
        return None
    found = difference_of_units(*paired)
    return found if found.seeds >= LEAST_SEEDS else borrow(found, deviation(sweep, place))


def borrow(difference: Difference, known: float | None) -> Difference:
    """The difference of fewer than three seeds with `known` / sqrt(seeds) for its error over seeds, unless its own is larger."""
    if difference.seeds >= LEAST_SEEDS or known is None:
        return difference
    error = max(difference.error_seeds or 0.0, known / math.sqrt(difference.seeds))
    return replace(difference, error_seeds=error, borrowed=True)


def borrowing(sweep: Sweep, donor: Sweep | None) -> Sweep:
    """The sweep with another one to borrow from; without where that is None or the sweep itself."""
    return sweep if donor is None or donor is sweep else replace(sweep, donor=donor)


def full(sweep: Sweep) -> list[str]:
    """Methods with as many seeds as a verdict needs."""
    return [name for name, seeds in sweep.runs.items() if len(seeds) >= LEAST_SEEDS]


def pooled(by_seed: Iterable[Sequence[float]]) -> float | None:
    """Standard deviation over seeds, s^2 = mean of the variances of several lists of numbers by seed; None without any.

    Args:
        by_seed: lists, such as the differences of each pair of methods; those of fewer than three seeds do not count.
    """
    variances = [statistics.variance(each) for each in by_seed if len(each) >= LEAST_SEEDS]
    return math.sqrt(statistics.fmean(variances)) if variances else None


def bits_by_seed(sweep: Sweep, place: str) -> dict[str, dict[int, float]]:
    """Bits per byte of each method with three seeds, by seed."""
    found = sweep.bits_per_byte.get(place, {})
    return {name: dict(found.get(name, {})) for name in full(sweep)}


def by_pair(sweep: Sweep, place: str) -> dict[tuple[str, str], list[float]]:
    """Differences in bits per byte by seed, of every pair of methods with three seeds."""
    bits = bits_by_seed(sweep, place)
    return {
        (first, second): [bits[first][seed] - bits[second][seed] for seed in bits[first] if seed in bits[second]]
        for first, second in combinations(bits, 2)
    }


def source(sweep: Sweep, place: str) -> Sweep:
    """The sweep whose seeds say how much differences deviate: itself where two methods share three, else its donor.

    Seeds count that have a score at the place.
    """
    return sweep if sweep.donor is None or pooled(by_pair(sweep, place).values()) is not None else sweep.donor


def deviation(sweep: Sweep, place: str) -> float | None:
    """By how much a difference between two methods deviates from seed to seed, bits per byte; None where no sweep knows."""
    return pooled(by_pair(source(sweep, place), place).values())


def in_deviations(sweep: Sweep, beside: Sweep, first: str, second: str, place: str) -> str:
    """In words: a difference in deviations from seed to seed of another sweep, |Delta| / s, of all its pairs and of this pair."""
    difference, spread = gap(sweep, first, second, place), deviation(beside, place)
    if difference is None or spread is None:
        return f"{first} minus {second}: not known"
    size, pairs = abs(difference.bits), by_pair(beside, place)
    own = pairs.get((first, second)) or pairs.get((second, first)) or []
    of_pair = f", {size / statistics.stdev(own):.1f} of this pair" if len(own) >= LEAST_SEEDS else ""
    return f"{first} minus {second}: {difference.bits:+.4f}, which is {size / spread:.1f} deviations of all pairs{of_pair}"
