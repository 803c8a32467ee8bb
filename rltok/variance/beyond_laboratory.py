"""The rungs beyond the paper on real rows: many updates with each, from the same draws, and how much less they scatter.

    rows -> batches -> share, draw -> updates -> every rung's gradients -> Sampled -> variance, ratio, rows needed

Everything is measured against the paper's one draw, centred over the other rows (`BASE`), whose expectation all rungs share.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from rltok.baselines import fit_value, value_features
from rltok.config import ModelConfig
from rltok.flops import extra_draw_flops_per_byte, flops_per_byte
from rltok.policy import entropy
from rltok.rng import row_uniforms
from rltok.unet import AutoregressiveUNet
from rltok.variance.beyond import (
    ORACLE,
    RUNGS,
    Baseline,
    Coefficients,
    Updates,
    all_draws,
    minus,
    other_draws,
    returns_of,
    toggled,
    updates_of,
    weights_of,
)
from rltok.variance.gradients import SharedPass, draw, pull_back, share
from rltok.variance.laboratory import Sizes
from rltok.variance.statistics import INTERVAL, inner, pairs, rows_needed

DRAWS = 4  # independent draws of an update; rungs with fewer take the first of them
CENTRED = "+loo"  # ending of a rung's name that centres over the other rows, eq. (17), too
BASE = f"one draw{CENTRED}"
STRIDE = 16
HEADS = {  # what each fitted value sees, see `value_features`
    "linear value": "past",
    "linear value, later states": "later states",
    "linear value, whole text": "text",
}
FLIPPED = f"one decision in {STRIDE} flipped"
RIDGE = 1e-4
RESAMPLES = 1000


def value_weights(
    model: AutoregressiveUNet, batches: list[Int[Tensor, "B N_plus_1"]], seed: int, *, gamma: float, sees: str
) -> Float[Tensor, " features"]:
    """The linear value fitted to one draw of each of these batches; `sees` as in `value_features`."""
    seen, paid = [], []
    for number, ids in enumerate(batches):
        shared = share(model, ids)
        draws = draw(model, shared, uniforms_of(seed, range(1), number * len(ids), ids))
        lags = shared.terms.shape[-1] - 1
        features = value_features(shared.byte_states, shared.early_nll, draws.boundaries, lags=lags, gamma=gamma, sees=sees)
        seen.append(features[0][shared.drawn])
        paid.append(returns_of(shared, draws, gamma)[0][shared.drawn])
    return fit_value(torch.cat(seen), torch.cat(paid), RIDGE)


def uniforms_of(seed: int, draws: range, start: int, ids: Tensor) -> Float[Tensor, "K B N"]:
    """Uniforms of numbered draws of the rows from number `start` on."""
    numbers = range(start, start + len(ids))
    return torch.stack([row_uniforms(seed, number, numbers, ids.shape[1] - 1) for number in draws]).to(ids.device)


@dataclass(frozen=True)
class Seen:
    """All the draws that rungs make of one batch, in M updates."""

    independent: Updates  # of DRAWS draws
    antithetic: Updates  # draws 0 and 1 of those, then their twins
    toggled: tuple[Updates, Coefficients]  # of draw 0 of the first update alone: every flip is a pass of its own
    mean_return: Float[Tensor, "B N"]  # over the reference draws, which are others


def see(
    model: AutoregressiveUNet, shared: SharedPass, number: int, sizes: Sizes, seed: int, gamma: float
) -> tuple[Seen, Updates, Updates]:
    """(draws of all rungs, reference draws at gamma, the same at gamma 1) of batch `number`; updates have draws of their own."""
    start, many = number * sizes.rows, sizes.draws
    uniforms = uniforms_of(seed, range(DRAWS * many), start, shared.ids)
    made = draw(model, shared, torch.cat([uniforms, 1 - uniforms[: 2 * many]]))
    every = updates_of(shared, made, DRAWS + 2, gamma)
    numbers = range(DRAWS * many, DRAWS * many + sizes.reference_draws)
    reference = draw(model, shared, uniforms_of(seed, numbers, start, shared.ids))
    at_gamma, at_1 = (updates_of(shared, reference, sizes.reference_draws, discount) for discount in (gamma, 1.0))
    offset = int(np.random.default_rng([seed, number]).integers(STRIDE))
    flips = toggled(model, shared, uniforms[:1], gamma=gamma, stride=STRIDE, offset=offset)
    seen = Seen(every.chosen([0, 1, 2, 3]), every.chosen([0, 1, 4, 5]), flips, at_gamma.returns.mean(dim=(0, 1)))
    return seen, at_gamma, at_1


def rungs(values: dict[str, Baseline], seen: Seen) -> Iterator[tuple[str, Updates, Coefficients]]:
    """(name, updates, coefficients) of every rung, alone and centred over the other rows."""
    taken = {("antithetic", 2): seen.antithetic.chosen([0, 2]), ("antithetic", 4): seen.antithetic}

    def mean_return(updates: Updates) -> Float[Tensor, "1 M B N"]:
        return seen.mean_return.expand_as(updates.returns[:1])

    others = {name: ("independent", 1, minus(value)) for name, value in (values | {ORACLE: mean_return}).items()}
    for name, (kind, number, rung) in (RUNGS | others).items():
        updates = taken.get((kind, number)) or seen.independent.chosen(list(range(number)))
        yield name, updates, rung(updates)
        centred = replace(updates, centring="leave_one_out")
        yield name + CENTRED, centred, rung(centred)
    yield FLIPPED, *seen.toggled


@dataclass(frozen=True)
class Sampled:
    """Gradients of the policy's own parameters on n batches: of every rung the mean over M updates, and the mean of |g|^2."""

    mean: dict[str, Float[Tensor, "n P"]]
    square: dict[str, Float[Tensor, " n"]]
    at_gamma: Float[Tensor, "n P"]  # the expectation that all rungs share, from all reference draws, left one out
    at_1: Float[Tensor, "n P"]  # the same without a discount: the true gradient
    sizes: Sizes
    means: dict[str, float]  # rate, policy_entropy (nats), early_nll (nats per byte), mean_return (nats)


def sample(
    model: AutoregressiveUNet, batches: list[Int[Tensor, "B N_plus_1"]], values: dict[str, Baseline], sizes: Sizes, seed: int,
    gamma: float,
) -> Sampled:  # fmt: skip
    """Gradients of every rung on every batch, `sizes.draws` updates each.

    Args:
        values: fitted values by name, see `value_weights`.
        sizes: `draws` is the number of updates, `reference_draws` that of the draws behind the oracle and the references.
        gamma: discount of all rungs.
    """
    rows = dict[str, list[tuple[Tensor, Tensor]]]()
    references, means = list[Tensor](), list[dict[str, float]]()
    for number, ids in enumerate(batches):
        shared = share(model, ids)
        seen, *longs = see(model, shared, number, sizes, seed, gamma)
        means.append(_means(seen.independent))
        stacked = torch.cat([weights_of(model, long, all_draws(long)) for long in longs])
        references.append(pull_back(model, shared, stacked, groups=("policy",)))
        for name, updates, coefficients in rungs(values, seen):
            grads = pull_back(model, shared, weights_of(model, updates, coefficients), groups=("policy",)).double()
            rows.setdefault(name, []).append((grads.mean(dim=0), grads.square().sum(dim=1).mean()))
    mean, square = ({name: torch.stack([one[i] for one in each]) for name, each in rows.items()} for i in (0, 1))
    at_gamma, at_1 = torch.stack(references).unbind(dim=1)
    of_all = {key: float(np.mean([one[key] for one in means])) for key in means[0]}
    return Sampled(mean, square, at_gamma, at_1, sizes, of_all)


def _means(updates: Updates) -> dict[str, float]:
    shared, drawn = updates.shared, updates.shared.drawn
    of_decisions = entropy(updates.logits.flatten(0, 2)).view_as(updates.logits)
    return {
        "rate": float(updates.boundaries[..., drawn].double().mean()),
        "policy_entropy": float(of_decisions[..., drawn].double().mean()),
        "early_nll": float(shared.early_nll[shared.scored].double().mean()),
        "mean_return": float(updates.returns[..., drawn].double().mean()),
    }


def measures(sampled: Sampled) -> dict[str, Any]:
    """What `sample` shows, each value with its 95 % bootstrap interval over batches, None where a signal is not resolved.

    signal: |E g| of the expectation that all rungs share; limit: its cosine with the true gradient. Of every rung variance:
    tr Cov of one update's gradient; draw_share: the part of it due to the draws; ratio: variance of `BASE` over it; bias:
    |E g - shared|^2 / |shared|^2, from pairs of batches, so that nothing is left of noise but its scatter around 0;
    rows_needed: until the expected cosine with the true gradient is 0.5.
    """
    count = len(sampled.at_1)
    generator = np.random.default_rng(0)
    weights = [np.ones(count), *generator.multinomial(count, np.full(count, 1 / count), RESAMPLES).astype(float)]
    shared, cross, true = (
        np.array([pairs(inner(a, b), each) for each in weights])
        for a, b in (
            (sampled.at_gamma, sampled.at_gamma),
            (sampled.at_gamma, sampled.at_1),
            (sampled.at_1, sampled.at_1),
        )
    )
    with np.errstate(invalid="ignore"):
        signal, limit = np.sqrt(shared), np.clip(cross / np.sqrt(shared * true), -1, 1)
    scatter = {name: _scatter(sampled, name, weights) for name in sampled.mean}
    found = {}
    for name, (variance, of_draw) in scatter.items():
        apart = inner(*[sampled.mean[name] - sampled.at_gamma] * 2)
        rows = [
            rows_needed(each, most / length, sampled.sizes.rows) if length > 0 else math.nan
            for each, most, length in zip(limit, variance, shared, strict=True)
        ]
        values = {
            "variance": variance, "draw_share": of_draw / variance, "ratio": scatter[BASE][0] / variance,
            "bias": np.array([pairs(apart, each) for each in weights]) / shared, "rows_needed": np.array(rows),
        }  # fmt: skip
        found[name] = {key: _with_ends(value) for key, value in values.items()}
    return {"signal": _with_ends(signal), "limit": _with_ends(limit), "means": sampled.means, "rungs": found}


def _scatter(sampled: Sampled, name: str, weights: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """tr Cov of one update's gradient, E|g|^2 - |E g|^2, and the part of it within batches, for every weighting of batches."""
    products, square = inner(sampled.mean[name], sampled.mean[name]), sampled.square[name].numpy()
    many = 1 if name == FLIPPED else sampled.sizes.draws
    within = (square - np.diag(products)) * (many / (many - 1) if many > 1 else math.nan)
    whole = [each @ square / each.sum() - pairs(products, each) for each in weights]
    return np.array(whole), np.array([each @ within / each.sum() for each in weights])


def _with_ends(values: np.ndarray) -> list[float | None]:
    """[value, low, high] of the value and its resamples; None for what is not finite."""
    known = values[1:][np.isfinite(values[1:])]
    ends = np.percentile(known, INTERVAL) if len(known) else (math.nan, math.nan)
    return [float(value) if math.isfinite(value) else None for value in (values[0], *ends)]


def costs(model: ModelConfig, length: int, rate: float, sizes: Sizes) -> dict[str, dict[str, float]]:
    """Of every rung: forward passes after the shared encoder, and FLOPs of training over those with one draw.

    The loss (25) trains on draw 0 alone, and no other draw needs a backward pass through the layers after the boundaries: where
    other draws train the policy, that goes back through its own matrix, once more for each, and through the encoder, once.
    """
    whole, forward = flops_per_byte(model, rate), extra_draw_flops_per_byte(model, rate, trains=False)
    d, lags = model.embedding_dim, model.rule.lags
    taken = {name: (1, 6.0 * (1 + lags + size)) for name, size in zip(HEADS, (d, 2 * d, 2 * d + 1), strict=True)}
    for name, (_, number, rung) in RUNGS.items():
        taken[name] = (number, (number - 1) * extra_draw_flops_per_byte(model, rate, trains=rung is not other_draws))
    for name, more in ((ORACLE, sizes.reference_draws), (FLIPPED, length // STRIDE)):
        taken[name] = (1 + more, more * forward)
    return {name: {"passes": passes, "flops": 1 + added / whole} for name, (passes, added) in taken.items()}
