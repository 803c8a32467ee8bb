"""Standard errors, and differences with theirs: the one rule of when a difference counts."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

SURE = 2.0  # standard errors that a difference must exceed before it is called one


def error_of_mean(values: Sequence[float]) -> float | None:
    """Standard error of the mean; None for a single value."""
    return statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else None


def mean_and_error(values: Sequence[float]) -> tuple[float, float | None]:
    """Mean over seeds with its standard error."""
    return statistics.fmean(values), error_of_mean(values)


def error_over(values: Tensor) -> float | None:
    """Standard error of the mean of values [n]; None for a single one."""
    return float(values.std() / math.sqrt(len(values))) if len(values) > 1 else None


def ratio_error(sums: Tensor, sizes: Tensor) -> float | None:
    """Standard error of sum(sums) / sum(sizes) over clusters [D], a document each; None for a single one.

        r = S / B,    SE = sqrt(D / (D - 1) * sum_d (S_d - r B_d)^2) / B

    The rows of a document are alike, so an error over rows is too small; documents are taken as independent.
    """
    count, whole = len(sums), sizes.sum()
    rest = sums - sums.sum() / whole * sizes
    return float((count / (count - 1) * (rest**2).sum()).sqrt() / whole) if count > 1 else None


@dataclass(frozen=True)
class Gap:
    """A difference in bits per byte with its standard errors; negative where the first of the two lost less."""

    bits: float
    rows: float | None  # standard error over rows of text
    seeds: float | None  # over seeds of training; None for a single one
    lent: bool = False  # the error over seeds is that of others (`rltok.evidence.donors`), and told in parentheses

    @property
    def error(self) -> float | None:
        """The larger of both; None while the spread between seeds is unknown."""
        return None if self.seeds is None else max(self.seeds, self.rows or 0.0)

    @property
    def verdict(self) -> str:
        """'lower', 'higher' or 'undecided': a difference counts beyond SURE standard errors, and never from one seed."""
        if self.error is None or abs(self.bits) <= SURE * self.error:
            return "undecided"
        return "lower" if self.bits < 0 else "higher"

    def __str__(self) -> str:
        """The difference, its error over rows, and the one over seeds."""
        known = [f"{error:.4f}" if error is not None else "-" for error in (self.rows, self.seeds)]
        if self.lent:
            known[1] = f"({known[1]})"
        return f"{self.bits:+.4f} ± {' / '.join(known)}"


def gap_of_seeds(gaps: Sequence[float], row_errors: Sequence[float] = ()) -> Gap:
    """From one difference a seed: their mean, the largest of the errors over rows, and the error over seeds.

    The seeds score the same rows, so averaging them does not shrink the error over rows as if they were independent.
    """
    return Gap(statistics.fmean(gaps), max(row_errors, default=None), error_of_mean(gaps))


def gap_of_units(bits: Sequence[np.ndarray] | np.ndarray, sizes: np.ndarray) -> Gap:
    """Total bits over total bytes of each seed, averaged; its error over units is that of a ratio, of the seeds' mean bits.

    Delta = sum_u d_u / sum_u n_u,    d_u = mean over seeds
    """
    total, mean = sizes.sum(), np.mean(bits, axis=0)
    error = ratio_error(torch.from_numpy(mean), torch.from_numpy(sizes))
    return Gap(float(mean.sum() / total), error, error_of_mean([float(one.sum() / total) for one in bits]))
