"""The rule by which a claim is judged, that of 29 November 2026.

    Delta: mean over seeds of the paired difference per document, with two standard errors, from documents and from seeds.
    interval: Delta +- t * error, of the error that makes it wider. t is Student's, two-sided, at the level 95 % (leaning: 80 %);
    an error from n seeds has n - 1 degrees of freedom, that from documents is taken as known.

    supported       Delta lies beyond the 95 % interval in the direction of the paper
    contradicted    beyond it in the other direction
    leans for, leans against    beyond the 80 % interval; or beyond the 95 % one, from fewer than 3 seeds
    undecided       in between, or no run yet

A single seed does not know its own error, and two hardly. They take that of their sweep, wherever two of its methods share two
seeds: by how much a difference between two methods deviates from seed to seed, s^2 = the mean of the variances of all pairs,
over the root of the number of seeds. M methods with n seeds each give it (M - 1) (n - 1) degrees of freedom, all pairs together.
Only where a sweep has no such methods, it borrows that of the runs of another size that the page compares with.

A claim that a method is as good as another names a margin: supported when the interval ends below it, contradicted when it
begins beyond it, and the same at 80 % for leaning; one that two methods are alike, the same with |Delta|. A claim about one
number is judged by its limits and the interval over its seeds; a single seed has none and leans at most. A claim of several
parts is as good as its worst. Claims that were judged by the very same runs carry the same number: chance that helped one
of them helped all. (All claims about the policy share its runs; those with one number share their rivals' as well.) A benchmark
on which no method answers better than by guessing (exact binomial test at 5 %, shared among the methods) is marked as not
interpretable at this size, and so is a claim about it.

The rule was written before the runs at scale, and changed four times since. After the first runs (commit 76fddca): "as good as"
had meant "alike", so that doing better counted against a claim; and a few claims were added. After the runs with one seed: they
had only the error from documents, which is the small one. After the runs at a larger size, of one seed each: nobody among them
had three to borrow from, so they had the small one again. And on 29 November 2026, with all these runs known: before, a
difference counted beyond two of the larger error, however few seeds that was from, and "indicative" was said of fewer than 3
seeds. For 3 seeds t is 4.3. The last change makes no verdict surer than it was; some that were undecided lean now. The book
lists what it moved, under Numbers that moved.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from rltok.statistics import LEANING, SURE, Difference, t_limit

RULE = "Student's t (29 November 2026)"

LEAST_SEEDS = 3
SUPPORTED, CONTRADICTED, UNDECIDED = "supported", "contradicted", "undecided"
NO_RUN = "undecided: no run yet"
NO_PAIR = "undecided: no score in common"
LEANS = {SUPPORTED: "leans for", CONTRADICTED: "leans against"}


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
    runs: frozenset[tuple[str, int]] = frozenset()  # method and seed of what it was judged by
    place: str = ""  # text or benchmark of a difference in bits per byte


@dataclass(frozen=True)
class Finding:
    """What our runs say of a claim: one part, or several of which the worst counts."""

    parts: tuple[Part, ...]
    smoke: bool = False  # of runs that show that everything works, and nothing else
    at_chance: bool = False  # of a benchmark on which no method of the sweep answers better than by guessing

    @property
    def verdict(self) -> str:
        """The verdict on the whole claim."""
        return conjunction(part.verdict for part in self.parts)

    @property
    def measured(self) -> list[Part]:
        """The parts that have a run."""
        return [part for part in self.parts if part.measured is not None]

    @property
    def runs(self) -> frozenset[tuple[str, int]]:
        """Method and seed of all runs that it was judged by."""
        return frozenset().union(*(part.runs for part in self.parts))


def finding(
    measured: Difference | Number | str | None, verdict: str, runs: Iterable[tuple[str, int]] = (), place: str = ""
) -> Finding:  # fmt: skip
    """A finding with a single part."""
    return Finding((Part("", measured, verdict, frozenset(runs), place),))


def _graded(verdict_at: Callable[[float], str], seeds: int) -> str:
    """The verdict at the level of SURE; else the way in which that at LEANING leans. Fewer than LEAST_SEEDS only lean."""
    sure, leaning = verdict_at(SURE), verdict_at(LEANING)
    return sure if sure != UNDECIDED and seeds >= LEAST_SEEDS else LEANS.get(leaning, UNDECIDED)


def one_sided(difference: Difference, wanted: int) -> str:
    """Verdict on a difference that the paper says is negative (wanted = -1) or positive (+1)."""
    sides = {0: UNDECIDED, wanted: SUPPORTED, -wanted: CONTRADICTED}
    return _graded(lambda level: sides[difference.sign(level)], difference.seeds)


def non_inferior(difference: Difference, margin: float) -> str:
    """Verdict on a method that the paper says is as good as another: at most a margin worse, in bits per byte."""
    return _within(difference.bits, difference, margin)


def equivalent(difference: Difference, margin: float) -> str:
    """Verdict on two methods that the paper says do not differ by more than a margin, in bits per byte."""
    return _within(abs(difference.bits), difference, margin)


def _within(bits: float, difference: Difference, margin: float) -> str:
    if difference.reach() is None:
        return UNDECIDED
    return _graded(lambda level: _held(bits, difference.reach(level), None, margin), difference.seeds)


def bounded(mean: float, error: float | None, seeds: int, *, low: float | None = None, high: float | None = None) -> str:
    """Verdict on a number that the paper says lies between limits; one seed has no error and is taken as it is."""
    return _graded(lambda level: _held(mean, (error and t_limit(level, seeds - 1) * error) or 0.0, low, high), seeds)


def _held(mean: float, reach: float, low: float | None, high: float | None) -> str:
    """A number that may be off by `reach`, held against limits."""
    if (low is None or mean - reach >= low) and (high is None or mean + reach <= high):
        return SUPPORTED
    beyond = (low is not None and mean + reach < low) or (high is not None and mean - reach > high)
    return CONTRADICTED if beyond else UNDECIDED


def conjunction(verdicts: Iterable[str]) -> str:
    """One verdict on a claim that says several things at once: contradicted if one part is, supported if all are."""
    order = (CONTRADICTED, LEANS[CONTRADICTED], NO_RUN, NO_PAIR, UNDECIDED, LEANS[SUPPORTED], SUPPORTED)
    return min(verdicts, key=order.index)
