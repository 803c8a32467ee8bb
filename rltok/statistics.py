"""Standard errors, and differences with theirs: the one rule of when a difference counts, by Student's t."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

SURE, LEANING = 0.95, 0.8  # two-sided levels: beyond the interval of the first a difference counts, beyond the second it leans
ROUNDING = 1e-9  # bits per byte; equal scores differ by rounding alone


def t_limit(level: float, freedom: float) -> float:
    """Standard errors within which a difference that is none lies with probability `level`: Student's t, two-sided.

    Args:
        freedom: degrees of freedom of the error, math.inf for one that is known, as the error over many units is.
    """
    from scipy.special import stdtrit  # here, or importing rltok would take nearly twice as long

    return float(stdtrit(freedom, (1 + level) / 2))


def by_guessing(right: int, items: int, chance: float) -> float:
    """Probability of so many right answers or more of these items by guessing: P(X >= right), X binomial, exact."""
    from scipy.special import bdtrc

    return float(bdtrc(right - 1, items, chance)) if right > 0 else 1.0


def beats_guessing(right: int, items: int, chance: float, methods: int = 1) -> bool:
    """Whether so many right answers are more than guessing gives: exact binomial test at 5 %, shared among the methods tried."""
    return by_guessing(right, items, chance) <= (1 - SURE) / methods


def error_of_mean(values: Sequence[float] | np.ndarray) -> float | None:
    """Standard error of the mean of values [n]; None for a single one."""
    return float(np.std(values, ddof=1) / math.sqrt(len(values))) if len(values) > 1 else None


def mean_and_error(values: Sequence[float] | np.ndarray) -> tuple[float, float | None]:
    """Mean of values [n] with its standard error."""
    return float(np.mean(values)), error_of_mean(values)


def mean_and_reach(values: Sequence[float] | np.ndarray, level: float = SURE) -> tuple[float, float | None]:
    """Mean of values [n], one a seed, with half the width of its interval by Student's t; None for a single one."""
    mean, error = mean_and_error(values)
    return mean, None if error is None else t_limit(level, len(values) - 1) * error


def ratio_error(sums: np.ndarray, sizes: np.ndarray) -> float | None:
    """Standard error of sum(sums) / sum(sizes) over units [U], such as documents; None for a single one.

        r = S / B,    SE = sqrt(U / (U - 1) * sum_u (S_u - r B_u)^2) / B

    The rows of a document are alike, so an error over rows is too small; documents are taken as independent.
    """
    units, total = len(sums), sizes.sum()
    rest = sums - sums.sum() / total * sizes
    return float(np.sqrt(units / (units - 1) * (rest**2).sum()) / total) if units > 1 else None


@dataclass(frozen=True)
class Difference:
    """A difference in bits per byte with its standard errors; negative where the first of the two has the lower loss."""

    bits: float
    error_units: float | None  # over units of text: documents, rows or items; None where there is one, or none is known
    error_seeds: float | None  # over seeds of training; None for a single one
    seeds: int  # number of seeds
    borrowed_freedom: int | None = None  # degrees of freedom of an error_seeds of other methods (`evidence.differences`)

    @property
    def borrowed(self) -> bool:
        """Whether the error over seeds is that of other methods, printed in parentheses."""
        return self.borrowed_freedom is not None

    def reach(self, level: float = SURE) -> float | None:
        """Half the width of the interval of this level, of that error whose interval is wider; None where neither is known.

        The error over units is taken as known; that over n seeds has n - 1 degrees of freedom, a borrowed one its own.
        """
        freedom = self.seeds - 1 if self.borrowed_freedom is None else self.borrowed_freedom
        errors = ((self.error_units, math.inf), (self.error_seeds, freedom))
        return max((t_limit(level, degrees) * error for error, degrees in errors if error is not None), default=None)

    def sign(self, level: float = SURE) -> int:
        """-1 or 1 for a difference beyond its interval of this level; 0 for one inside it, or without any error."""
        reach = self.reach(level)
        if reach is None or abs(self.bits) <= reach + ROUNDING:
            return 0
        return 1 if self.bits > 0 else -1

    @property
    def verdict(self) -> str:
        """'lower', 'higher' or 'undecided'; a single seed decides nothing."""
        return "undecided" if self.error_seeds is None else ("undecided", "higher", "lower")[self.sign()]

    def __str__(self) -> str:
        """The difference, its error over units, and the one over seeds."""
        units, seeds = ("-" if error is None else f"{error:.4f}" for error in (self.error_units, self.error_seeds))
        return f"{self.bits:+.4f} ± {units} / {f'({seeds})' if self.borrowed else seeds}"


def difference_of_seeds(bits: Sequence[float], errors: Sequence[float] = ()) -> Difference:
    """The mean of one difference a seed, the largest of their errors over units, and the error over seeds.

    The seeds score the same units, so averaging them does not shrink the error over units as if they were independent.
    """
    mean, error = mean_and_error(bits)
    return Difference(mean, max(errors, default=None), error, len(bits))


def difference_of_units(bits: np.ndarray, sizes: np.ndarray) -> Difference:
    """Paired by unit: bits [S, U] of the first minus the second, a row for each seed, over bytes [U].

    Delta = sum_u d_u / sum_u n_u,    d_u = mean over seeds

    The error over units is that of this ratio, the error over seeds that of the mean of the seeds' own ratios.
    """
    mean, error = mean_and_error(bits.sum(axis=1) / sizes.sum())
    return Difference(mean, ratio_error(bits.mean(axis=0), sizes), error, len(bits))
