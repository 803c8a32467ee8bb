"""Differences between methods of a sweep, and what one of few seeds lacks: the error over seeds, which it borrows.

(sweep, first, second, place) --gap--> Difference      sweep --deviation--> by how much one deviates from seed to seed
(sweep, sweep of another size) --borrowing--> a sweep that borrows from the other where no two of its own methods share two seeds
"""

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import combinations

from rltok.errors import RltokError
from rltok.evidence.records import RATE_OF, Sweep
from rltok.evidence.verdicts import LEAST_SEEDS
from rltok.statistics import Difference, difference_of_units

RATE_TOLERANCE = 0.005  # boundaries per byte by which rates that count as equal may differ
Pairs = Mapping[tuple[str, str], Sequence[float]]  # differences by seed, of pairs of methods


def gap(sweep: Sweep, first: str, second: str, place: str) -> Difference | None:
    """Bits per byte of the first minus the second's, paired by unit and seed; None without a scored seed that both have.

    From fewer than three seeds its error over seeds is borrowed.
    """
    paired = sweep.paired(first, second, place)
    if paired is None:
        return None
    own = difference_of_units(*paired)
    return own if own.seeds >= LEAST_SEEDS else borrow(own, by_pair(source(sweep, place), place))


def matched_gap(sweep: Sweep, name: str, place: str) -> Difference | None:
    """Bits per byte of METHOD_rate_RIVAL minus the rival's; None without a seed of both.

    Raises:
        RltokError: their boundaries per byte, means over seeds, differ by more than `RATE_TOLERANCE`.
    """
    rival = name.partition(RATE_OF)[2]
    difference = gap(sweep, name, rival, place) if name in sweep.runs else None
    if difference is None:
        return None
    own, theirs = rates_beside(sweep, name, place)
    if abs(own - theirs) > RATE_TOLERANCE:
        raise RltokError(
            f"{name} of sweep {sweep.name} draws {own:.4f} boundaries per byte and {rival} {theirs:.4f}: rates that are to"
            f" be equal differ by at most {RATE_TOLERANCE}. Run it again with a target rate that comes nearer."
        )
    return difference


def rates_beside(sweep: Sweep, name: str, place: str) -> tuple[float, float]:
    """Boundaries per byte of METHOD_rate_RIVAL and of the rival, means over the seeds that both have."""
    rival = name.partition(RATE_OF)[2]
    seeds = sweep.runs[name].keys() & sweep.runs[rival].keys()
    own, theirs = (statistics.fmean(sweep.runs[each][seed]["scores"][place]["rate"] for seed in seeds) for each in (name, rival))
    return own, theirs


def borrow(difference: Difference, pairs: Pairs) -> Difference:
    """The difference of fewer than three seeds with the deviation of these pairs over sqrt(seeds) for its error over seeds."""
    known = pooled(pairs.values())
    if difference.seeds >= LEAST_SEEDS or known is None:
        return difference
    return replace(difference, error_seeds=known / math.sqrt(difference.seeds), borrowed_freedom=freedom(pairs))


def borrowing(sweep: Sweep, donor: Sweep | None) -> Sweep:
    """The sweep with another one to borrow from; without where that is None or the sweep itself."""
    return sweep if donor is None or donor is sweep else replace(sweep, donor=donor)


def repeated(sweep: Sweep) -> list[str]:
    """Methods with several seeds, which know how much they deviate."""
    return [name for name, seeds in sweep.runs.items() if len(seeds) > 1]


def pooled(by_seed: Iterable[Sequence[float]]) -> float | None:
    """Standard deviation over seeds, s^2 = mean of the variances of several lists of numbers by seed; None without any.

    Variances weigh as much as they have degrees of freedom.

    Args:
        by_seed: lists, such as the differences of each pair of methods; a single number does not count.
    """
    known = [each for each in by_seed if len(each) > 1]
    weights = [len(each) - 1 for each in known]
    return math.sqrt(statistics.fmean(map(statistics.variance, known), weights)) if known else None


def freedom(pairs: Pairs) -> int:
    """Degrees of freedom of the deviation `pooled` over pairs of methods, which are not independent of each other.

    The mean over all pairs of M methods with n seeds is twice the mean square of what is left of their scores without the means
    of methods and of seeds, which has (M - 1) (n - 1) degrees of freedom. Where pairs differ in seeds, their mean number counts.
    """
    known = {pair: each for pair, each in pairs.items() if len(each) > 1}
    methods = len({name for pair in known for name in pair})
    return max(1, int(sum(len(each) - 1 for each in known.values()) * 2 / max(1, methods)))


def bits_by_seed(sweep: Sweep, place: str) -> dict[str, dict[int, float]]:
    """Bits per byte of each method with several seeds, by seed."""
    bits = sweep.bits_per_byte.get(place, {})
    return {name: dict(bits.get(name, {})) for name in repeated(sweep)}


def by_pair(sweep: Sweep, place: str) -> Pairs:
    """Differences in bits per byte by seed, of every pair of methods with several seeds."""
    bits = bits_by_seed(sweep, place)
    return {
        (first, second): [bits[first][seed] - bits[second][seed] for seed in bits[first] if seed in bits[second]]
        for first, second in combinations(bits, 2)
    }


def source(sweep: Sweep, place: str) -> Sweep:
    """The sweep whose seeds say how much differences deviate: itself where two methods share two, else its donor.

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
