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

import math
from dataclasses import dataclass

from rltok.statistics import SURE, Gap

LEAST_SEEDS = 3
ROUNDING = 1e-9  # bits per byte
SUPPORTED, CONTRADICTED, UNDECIDED = "supported", "contradicted", "undecided"
NO_RUN = "undecided: no run yet"
NO_PAIR = "undecided: no score in common"
INDICATIVE = {SUPPORTED: "indicative: for", CONTRADICTED: "indicative: against"}


@dataclass(frozen=True)
class Finding:
    """What we measured, in words, and the verdict."""

    ours: str
    verdict: str


NOTHING = Finding("-", NO_RUN)


def weakened(verdict: str, seeds: int) -> str:
    """The verdict that so many seeds can carry."""
    return INDICATIVE.get(verdict, verdict) if seeds < LEAST_SEEDS else verdict


def sigma(gap: Gap) -> float | None:
    """The larger standard error; None where neither is known."""
    known = [error for error in (gap.rows, gap.seeds) if error is not None]
    return max(known, default=None)


def in_sigmas(gap: Gap) -> str:
    """A difference with its errors, and how many of the larger one it is where both are known."""
    error = sigma(gap)
    unknown = gap.seeds is None or error is None or error < ROUNDING  # equal scores differ by rounding alone
    return f"{gap}" if unknown else f"{gap} ({abs(gap.bits) / error:.1f} σ)"


def directed(gap: Gap, wanted: int, seeds: int) -> str:
    """Verdict on a difference that the paper says is negative (wanted = -1) or positive (+1)."""
    error = sigma(gap)
    if error is None or abs(gap.bits) <= SURE * error + ROUNDING:
        return UNDECIDED
    return weakened(SUPPORTED if gap.bits * wanted > 0 else CONTRADICTED, seeds)


def no_worse(gap: Gap, margin: float, seeds: int) -> str:
    """Verdict on a method that the paper says is as good as another: at most a margin worse, in bits per byte."""
    error = sigma(gap)
    if error is None:
        return UNDECIDED
    if gap.bits + SURE * error <= margin:
        return weakened(SUPPORTED, seeds)
    return weakened(CONTRADICTED, seeds) if gap.bits - SURE * error > margin else UNDECIDED


def alike(gap: Gap, margin: float, seeds: int) -> str:
    """Verdict on two methods that the paper says do not differ, by a margin in bits per byte."""
    error = sigma(gap)
    if error is None:
        return UNDECIDED
    if abs(gap.bits) + SURE * error <= margin:
        return weakened(SUPPORTED, seeds)
    return weakened(CONTRADICTED, seeds) if abs(gap.bits) - SURE * error > margin else UNDECIDED


def bounded(mean: float, error: float | None, seeds: int, *, low: float | None = None, high: float | None = None) -> str:
    """Verdict on a number that the paper says lies between limits; one seed has no error and is taken as it is."""
    reach = SURE * (error or 0.0)
    if (low is None or mean - reach >= low) and (high is None or mean + reach <= high):
        return weakened(SUPPORTED, seeds)
    beyond = (low is not None and mean + reach < low) or (high is not None and mean - reach > high)
    return weakened(CONTRADICTED, seeds) if beyond else UNDECIDED


def by_chance(seeds: int) -> float:
    """How often a difference of 0 lies beyond two standard errors of 3 seeds: P(|t| > 2) with 2 degrees of freedom.

    Of normal differences between seeds; for another number of seeds there is no such simple form.
    """
    if seeds != LEAST_SEEDS:
        raise ValueError(f"known in closed form for {LEAST_SEEDS} seeds; got {seeds}")
    return 1 - SURE / math.sqrt(2 + SURE**2)


def together(verdicts: list[str]) -> str:
    """One verdict on a claim that says several things at once: contradicted if one part is, supported if all are."""
    order = (CONTRADICTED, INDICATIVE[CONTRADICTED], NO_RUN, NO_PAIR, UNDECIDED, INDICATIVE[SUPPORTED], SUPPORTED)
    return min(verdicts, key=order.index)
