"""Standard errors, and differences with theirs: the one rule of when a difference counts."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

SURE = 2.0  # standard errors that a difference must exceed before it counts
ROUNDING = 1e-9  # bits per byte; equal scores differ by rounding alone


def error_of_mean(values: Sequence[float] | np.ndarray) -> float | None:
    """Standard error of the mean of values [n]; None for a single one."""
    return float(np.std(values, ddof=1) / math.sqrt(len(values))) if len(values) > 1 else None


def mean_and_error(values: Sequence[float] | np.ndarray) -> tuple[float, float | None]:
    """Mean of values [n] with its standard error."""
    return float(np.mean(values)), error_of_mean(values)


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
    borrowed: bool = False  # error_seeds is that of other methods (`rltok.evidence.differences`), printed in parentheses

    @property
    def sigma(self) -> float | None:
        """The larger standard error; None where neither is known."""
        return max((error for error in (self.error_units, self.error_seeds) if error is not None), default=None)

    @property
    def sign(self) -> int:
        """-1 or 1 for a difference that counts, beyond SURE of the larger standard error; 0 for one that does not."""
        if self.sigma is None or abs(self.bits) <= SURE * self.sigma + ROUNDING:
            return 0
        return 1 if self.bits > 0 else -1

    @property
    def verdict(self) -> str:
        """'lower', 'higher' or 'undecided'; a single seed decides nothing."""
        return "undecided" if self.error_seeds is None else ("undecided", "higher", "lower")[self.sign]

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
