"""Statistics of an estimator from inner products of its gradients: bias, variance, signal, and rows for a useful direction.

Every squared length of an expectation is estimated from *pairs of different batches*: for independent g and g' with mean m,
E[g . g'] = |m|^2, while E[g . g] would add the variance. Intervals come from a bootstrap over batches.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from rltok.errors import RltokError
from rltok.variance.laboratory import LOSS, Gradients, counterpart, factor
from rltok.variance.ladder import REFERENCE

RESAMPLES = 1000
SUBSETS = 200  # of batches, for a cosine that is seen directly
USEFUL = 0.5  # cosine with the true gradient at which `rows_needed` asks for no more rows
INTERVAL = (2.5, 97.5)  # percent
# What a resample without a signal says of a value, at the lower and at the upper end of its interval: left out, such resamples
# would make intervals the narrower, the weaker the signal. Rows are without end then, at both.
UNRESOLVED = {
    "signal": (0.0, 0.0), "snr": (0.0, 0.0), "limit": (-1.0, 1.0), "bias": (0.0, math.inf), "scale": (-math.inf, math.inf),
    "rows_needed": (math.inf, math.inf),
}  # fmt: skip


def inner(a: Tensor, b: Tensor) -> np.ndarray:
    """All inner products [n, n] of gradients [n, P]."""
    return (a.double() @ b.double().T).cpu().numpy()


def pairs(products: np.ndarray, weights: np.ndarray) -> float:
    """Mean over pairs of different batches, each batch counted as often as its weight says."""
    total = weights @ products @ weights - (weights**2) @ np.diag(products)
    count = weights.sum() ** 2 - (weights**2).sum()
    return float(total / count) if count > 0 else math.nan  # a resample of one batch alone


def rows_needed(limit: float, noise: float, rows: int, wanted: float = USEFUL) -> float:
    """Rows after which the expected cosine with the true gradient reaches `wanted`; infinite if it never does.

        cos(n) = limit / sqrt(1 + noise / n),   n batches of `rows` rows

    Args:
        limit: cosine of the estimator's expectation with the true gradient, 1 if it has no bias.
        noise: trace of the covariance of one batch's gradient over the squared length of its expectation.
    """
    if not limit > wanted:
        return math.inf
    return rows * noise / ((limit / wanted) ** 2 - 1)


@dataclass(frozen=True)
class Products:
    """Inner products of one group of parameters' gradients; `own` of an estimator, `other` of its counterpart; [n, n]."""

    other_other: np.ndarray
    other_reference: np.ndarray
    reference_reference: np.ndarray
    own_own: np.ndarray
    own_reference: np.ndarray
    square: np.ndarray  # [n], mean over draws of |g|^2
    factor: float
    rows: int
    draws: int


def products_of(gradients: Gradients, name: str, group: str) -> Products:
    """Collect the inner products that `measure` needs."""
    if not gradients.full:
        raise RltokError("some rows end early (PAD): how much centring scales their gradient is not known. Measure full rows.")
    part, own = gradients.slices[group], gradients.mean[name][:, gradients.slices[group]]
    other, reference = gradients.long[counterpart(name)][:, part], gradients.long[REFERENCE][:, part]
    square = gradients.square[name][:, list(gradients.slices).index(group)].cpu().numpy()
    return Products(
        inner(other, other), inner(other, reference), inner(reference, reference), inner(own, own), inner(own, reference),
        square, factor(name, gradients.sizes.rows), gradients.sizes.rows, gradients.sizes.draws,
    )  # fmt: skip


def measure(p: Products, weights: np.ndarray) -> dict[str, float]:
    """Point estimates with batches weighted; NaN where the signal is not resolved.

    signal: |E g|, variance: tr Cov g of one batch with one draw, draw_share: the part of it that is due to the draw,
    limit: cosine of E g with the true gradient, snr: |E g|^2 / tr Cov g, bias: |E g - true| / |true|,
    scale: E g along the true gradient over its length, measured on the estimator itself.
    """
    total = weights.sum()
    true2, other2 = pairs(p.reference_reference, weights), pairs(p.other_other, weights)
    cross = pairs(p.other_reference, weights)
    mean2 = p.factor**2 * other2
    variance = float(weights @ p.square / total) - mean2
    of_draw = float(weights @ (p.square - np.diag(p.own_own)) / total) * p.draws / (p.draws - 1)
    resolved = true2 > 0 and other2 > 0
    limit = max(-1.0, min(1.0, cross / math.sqrt(true2 * other2))) if resolved else math.nan
    apart = mean2 - 2 * p.factor * cross + true2
    return {
        "signal": math.sqrt(mean2) if resolved else math.nan,
        "variance": variance,
        "draw_share": of_draw / variance if variance > 0 else math.nan,
        "limit": limit,
        "snr": mean2 / variance if resolved and variance > 0 else math.nan,
        "bias": math.sqrt(max(0.0, apart) / true2) if resolved else math.nan,
        "scale": pairs(p.own_reference, weights) / true2 if resolved else math.nan,
        "rows_needed": rows_needed(limit, max(0.0, variance) / mean2, p.rows) if resolved else math.nan,
    }


def with_intervals(p: Products, seed: int = 0, resamples: int = RESAMPLES) -> dict[str, Any]:
    """`measure` with a 95 % bootstrap interval over batches: {"variance": [value, low, high], ...}.

    What is not finite is None. In `rows_needed` that means without end: never (`never` is the share of resamples whose bias
    forbids it) or not resolved. Other values are not resolved by so few rows, their ends open (`resolved` is the share of
    resamples with a signal; the others count with `UNRESOLVED`).
    """
    count = len(p.square)
    value = measure(p, np.ones(count))
    generator = np.random.default_rng(seed)
    drawn = [measure(p, generator.multinomial(count, np.full(count, 1 / count)).astype(float)) for _ in range(resamples)]
    result: dict[str, Any] = {}
    for key, point in value.items():
        sample = np.array([one[key] for one in drawn])
        low, high = _percentiles(sample, UNRESOLVED.get(key))
        result[key] = [_finite(point), _finite(low), _finite(high)]
    result["never"] = float(np.mean([one["limit"] <= USEFUL for one in drawn]))
    result["resolved"] = float(np.mean([not math.isnan(one["limit"]) for one in drawn]))
    return result


def _percentiles(sample: np.ndarray, unresolved: tuple[float, float] | None) -> list[float]:
    """Ends of the interval, without interpolation because some values are infinite; NaN counts as what `unresolved` says."""
    if unresolved is None:  # no signal is needed for these
        sample, unresolved = sample[~np.isnan(sample)], (math.nan, math.nan)
    if not sample.size:
        return [math.nan, math.nan]
    ends = zip(INTERVAL, unresolved, strict=True)
    return [float(np.percentile(np.where(np.isnan(sample), worst, sample), q, method="nearest")) for q, worst in ends]


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


KNOWN = 1.0  # standard error of the reference, in its own length, from which on nothing can be said of directions


def reference_error(gradients: Gradients, group: str) -> float | None:
    """Standard error of the long-run reference: sqrt(tr Cov of its mean) over its length; None if no signal is resolved."""
    p = products_of(gradients, REFERENCE, group)
    count = len(p.square)
    true2 = pairs(p.reference_reference, np.ones(count))
    scatter = (np.trace(p.reference_reference) / count - true2) / count
    return math.sqrt(max(0.0, scatter) / true2) if true2 > 0 else None


def measured_cosines(gradients: Gradients, name: str, group: str) -> list[list[float]]:
    """[rows, cosine] seen directly: mean gradient of some batches, one draw each, against the reference on all others.

    The check of the formula in `rows_needed`. The noise of the reference lowers a cosine; it is divided out by its own
    reliability, |E r| / |mean r|.
    """
    part = gradients.slices[group]
    first, reference = gradients.first[name][:, part], gradients.long[REFERENCE][:, part]
    own, cross, truth = inner(first, first), inner(first, reference), inner(reference, reference)
    count = len(own)
    true2 = pairs(truth, np.ones(count))
    generator, rows = np.random.default_rng(0), []
    size = 1
    while size <= count // 2 and true2 > 0:
        seen = []
        for _ in range(SUBSETS):
            order = generator.permutation(count)
            chosen, rest = order[:size], order[size:]
            length = math.sqrt(own[np.ix_(chosen, chosen)].mean())
            seen.append(cross[np.ix_(chosen, rest)].mean() / (length * math.sqrt(true2)))
        rows.append([size * gradients.sizes.rows, float(np.mean(seen))])
        size *= 2
    return rows


def shared_parameters(gradients: Gradients, name: str, weights_of_policy: list[float]) -> list[dict[str, Any]]:
    """The whole gradient loss + lambda * policy on parameters that both terms share, the encoder's, for several lambda.

    The true gradient of eq. (11) has lambda = 1. `limit` is the cosine of the expectation with it, `rows_needed` as above;
    `share` is the length of the policy term's expectation over that of the loss term's.
    """
    part, f = gradients.slices["encoder"], factor(name, gradients.sizes.rows)
    loss, own = gradients.first[LOSS][:, part], gradients.first[name][:, part]
    other, truth = gradients.long[counterpart(name)][:, part], gradients.long[REFERENCE][:, part]
    one = np.ones(len(loss))
    ll, lo, oo = inner(loss, loss), inner(loss, own), inner(own, own)
    l2, lt, lr = pairs(ll, one), pairs(inner(loss, other), one), pairs(inner(loss, truth), one)
    t2, tr, r2 = pairs(inner(other, other), one), pairs(inner(other, truth), one), pairs(inner(truth, truth), one)
    true2, results = l2 + 2 * lr + r2, []
    for weight in weights_of_policy:
        mean2 = l2 + 2 * weight * f * lt + (weight * f) ** 2 * t2
        square = (np.diag(ll) + 2 * weight * np.diag(lo) + weight**2 * np.diag(oo)).mean()
        along = l2 + lr + weight * f * (lt + tr)
        ok = min(true2, mean2, l2) > 0
        limit = min(1.0, along / math.sqrt(mean2 * true2)) if ok else math.nan
        rows = rows_needed(limit, max(0.0, square - mean2) / mean2, gradients.sizes.rows) if ok else math.nan
        share = math.sqrt(max(0.0, r2) / l2) if ok else math.nan
        values = {
            "limit": _finite(limit),
            "variance": float(square - mean2),
            "rows_needed": _finite(rows),
            "share": _finite(share),
        }
        results.append({"lambda": weight, **values})
    return results
