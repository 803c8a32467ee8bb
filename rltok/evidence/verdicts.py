"""The rule by which a claim is judged.

    Delta: mean over seeds of the paired difference per document.    sigma: the larger of its two standard errors, from seeds and
    from documents.

    supported       Delta lies beyond 2 sigma in the direction of the paper
    contradicted    beyond 2 sigma in the other direction
    undecided       in between, or no run yet
    indicative      what would be one of the first two, from fewer than 3 seeds

Fewer than 3 seeds say little of their own error. They borrow one: by how much a difference between two methods with 3 seeds
deviates from seed to seed, over the root of the number of seeds. Where nobody has 3, it is that of the runs of another size that
the page compares with; where nobody has 3 there either, nothing can be borrowed.

A claim that a method is as good as another names a margin: supported when Delta + 2 sigma stays below it, contradicted when
Delta - 2 sigma is beyond it; one that two methods are alike, the same with |Delta|. A claim about one number is judged by its
distance from a limit and the error over seeds; a single seed has none. A claim of several parts is as good as its worst.

Written before the runs at scale, and changed three times since. After the first runs (commit 76fddca): "as good as" had meant
"alike", so that doing better counted against a claim; and a few claims were added. After the runs with one seed: they had only
the error from documents, which is the small one. After the runs at a larger size, of one seed each: nobody among them had three
to borrow from, so they had the small one again. The borrowed error can turn verdicts into undecided and nothing else.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from scipy.special import stdtr

from rltok.statistics import SURE, Difference

LEAST_SEEDS = 3
SUPPORTED, CONTRADICTED, UNDECIDED = "supported", "contradicted", "undecided"
NO_RUN = "undecided: no run yet"
NO_PAIR = "undecided: no score in common"
INDICATIVE = {SUPPORTED: "indicative: for", CONTRADICTED: "indicative: against"}


@dataclass(frozen=True)
class Number:
    """A mean over seeds."""

    mean: float
    error: float | None  # over seeds; None for a single one
    seeds: int
    shown: str  # how it is formatted, such as ".3f"
    after_bytes: float | None = None  # of training text, for a number of its early part


@dataclass(frozen=True)
class Part:
    """One comparison of a claim, with its verdict."""

    name: str  # "" in a claim of one part
    measured: Difference | Number | str | None  # words for what has no common form; None without a run
    verdict: str


@dataclass(frozen=True)
class Finding:
    """What our runs say of a claim: one part, or several of which the worst counts."""

    parts: tuple[Part, ...]
    smoke: bool = False  # of runs that show that everything works, and nothing else

    @property
    def verdict(self) -> str:
        """The verdict on the whole claim."""
        return conjunction(part.verdict for part in self.parts)

    @property
    def measured(self) -> list[Part]:
        """The parts that have a run."""
        return [part for part in self.parts if part.measured is not None]


def finding(measured: Difference | Number | str | None, verdict: str) -> Finding:
    """A finding with a single part."""
    return Finding((Part("", measured, verdict),))


def weakened(verdict: str, seeds: int) -> str:
    """The verdict that so many seeds can carry."""
    return INDICATIVE.get(verdict, verdict) if seeds < LEAST_SEEDS else verdict


def one_sided(difference: Difference, wanted: int) -> str:
    """Verdict on a difference that the paper says is negative (wanted = -1) or positive (+1)."""
    if difference.sign == 0:
        return UNDECIDED
    return weakened(SUPPORTED if difference.sign == wanted else CONTRADICTED, difference.seeds)


def non_inferior(difference: Difference, margin: float) -> str:
    """Verdict on a method that the paper says is as good as another: at most a margin worse, in bits per byte."""
    return _within(difference.bits, difference, margin)


def equivalent(difference: Difference, margin: float) -> str:
    """Verdict on two methods that the paper says do not differ by more than a margin, in bits per byte."""
    return _within(abs(difference.bits), difference, margin)


def _within(bits: float, difference: Difference, margin: float) -> str:
    if difference.sigma is None:
        return UNDECIDED
    return bounded(bits, difference.sigma, difference.seeds, high=margin)


def bounded(mean: float, error: float | None, seeds: int, *, low: float | None = None, high: float | None = None) -> str:
    """Verdict on a number that the paper says lies between limits; one seed has no error and is taken as it is."""
    reach = SURE * (error or 0.0)
    if (low is None or mean - reach >= low) and (high is None or mean + reach <= high):
        return weakened(SUPPORTED, seeds)
    beyond = (low is not None and mean + reach < low) or (high is not None and mean - reach > high)
    return weakened(CONTRADICTED, seeds) if beyond else UNDECIDED


def by_chance(seeds: int) -> float:
    """How often a difference of 0 lies beyond two standard errors of so many seeds: P(|t| > 2), seeds - 1 degrees of freedom.

    Differences between seeds are taken as normal.
    """
    return 2 * float(stdtr(seeds - 1, -SURE))


def conjunction(verdicts: Iterable[str]) -> str:
    """One verdict on a claim that says several things at once: contradicted if one part is, supported if all are."""
    order = (CONTRADICTED, INDICATIVE[CONTRADICTED], NO_RUN, NO_PAIR, UNDECIDED, INDICATIVE[SUPPORTED], SUPPORTED)
    return min(verdicts, key=order.index)
