"""Rungs beyond the paper: which draws an update makes with each, the coefficients of their logits, and the gradient that follows.

    shared, draws -> updates_of -> Updates [K, M, B, N] -> a rung -> coefficients -> weights -> pull_back -> g [M, P]

A rung takes M updates at once: all of them that can happen to short rows (`beyond_exact`), or a sample (`beyond_laboratory`).
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from rltok.baselines import (
    against_other_draws,
    antithetic_coefficients,
    check_pairs,
    flipped_uniforms,
    local_expectation,
    score_coefficients,
    value_features,
)
from rltok.errors import RltokError
from rltok.estimator import batch_relative_advantages
from rltok.unet import AutoregressiveUNet
from rltok.variance.gradients import Draws, SharedPass, advantages_of_draws, draw, stack
from rltok.variance.ladder import spelled


@dataclass(frozen=True)
class Updates:
    """M updates on the same rows with K draws each, and how they centre over rows, eq. (17)."""

    shared: SharedPass
    boundaries: Bool[Tensor, "K M B N"]
    logits: Float[Tensor, "K M B N"]
    returns: Float[Tensor, "K M B N"]  # of eq. (16), from the rewards of eq. (15)
    centring: str

    def centred(self, advantages: Float[Tensor, "k M B N"]) -> Float[Tensor, "k M B N"]:
        """Eq. (17) within each draw of each update, or as they are where `centring` is "none"."""
        if self.centring == "none":
            return advantages
        alone, scored = self.centring == "leave_one_out", self.shared.scored
        return torch.vmap(torch.vmap(lambda paid: batch_relative_advantages(paid, scored, alone)))(advantages)

    def chosen(self, draws: list[int]) -> "Updates":
        """The same updates with some of their draws."""
        return replace(self, **{name: getattr(self, name)[draws] for name in ("boundaries", "logits", "returns")})

    def scored_with(self, advantages: Float[Tensor, "k M B N"]) -> Float[Tensor, "k M B N"]:
        """Coefficients of the score function for the first k draws."""
        return score_coefficients(self.logits[: len(advantages)], self.boundaries[: len(advantages)], self.centred(advantages))


Coefficients = Float[Tensor, "k M B N"]  # of the first k draws of each update
Rung = Callable[[Updates], Coefficients]
Baseline = Callable[[Updates], Float[Tensor, "1 M B N"]]  # of draw 0


def one_draw(updates: Updates) -> Coefficients:
    """The paper's: draw 0 trains, eq. (18)."""
    return updates.scored_with(updates.returns[:1])


def other_draws(updates: Updates) -> Coefficients:
    """Draw 0 trains; the mean return of the others, which run forward only, is its baseline."""
    return updates.scored_with(against_other_draws(updates.returns)[:1])


def all_draws(updates: Updates) -> Coefficients:
    """Every draw trains, against the mean of the others (RLOO)."""
    return updates.scored_with(against_other_draws(updates.returns)) / len(updates.returns)


def antithetic(updates: Updates) -> Coefficients:
    """Pairs of draws from u and 1 - u (DisARM); with several, against the mean return of the other pairs."""
    returns = updates.returns
    pairs = check_pairs(len(returns))
    if pairs > 1:
        first, second = returns.chunk(2)
        mean = (first + second) / 2
        returns = returns + (against_other_draws(mean) - mean).repeat(2, 1, 1, 1)
    return antithetic_coefficients(updates.logits, updates.boundaries, updates.centred(returns)) / pairs


ORACLE = "mean return of the text"
RUNGS: dict[str, tuple[str, int, Rung]] = {  # how the draws of an update depend on each other, how many, coefficients
    "one draw": ("independent", 1, one_draw),
    "baseline of 1 other draw": ("independent", 2, other_draws),
    "baseline of 3 other draws": ("independent", 4, other_draws),
    "leave one out, 2 draws": ("independent", 2, all_draws),
    "leave one out, 4 draws": ("independent", 4, all_draws),
    "antithetic, 2 draws": ("antithetic", 2, antithetic),
    "antithetic, 4 draws": ("antithetic", 4, antithetic),
}


def minus(baseline: Baseline) -> Rung:
    """Draw 0 trains against a function of the text and of earlier draws."""
    return lambda updates: updates.scored_with(updates.returns[:1] - baseline(updates))


def linear_value(weights: Float[Tensor, " features"], *, lags: int, gamma: float, sees: str) -> Baseline:
    """The fitted value of `baselines.fit_value` as a baseline."""

    def value(updates: Updates) -> Float[Tensor, "1 M B N"]:
        shared = updates.shared
        seen = value_features(shared.byte_states, shared.early_nll, updates.boundaries[0], lags=lags, gamma=gamma, sees=sees)
        return (seen.double() @ weights).to(updates.returns.dtype)[None]

    return value


def returns_of(shared: SharedPass, draws: Draws, gamma: float) -> Float[Tensor, "K B N"]:
    """Returns of relative rewards, eqs. (15) and (16)."""
    return advantages_of_draws(shared, draws, "causal+early" if gamma == 1 else f"causal+early+gamma{spelled(gamma)}")


def updates_of(shared: SharedPass, draws: Draws, number: int, gamma: float, centring: str = "none") -> Updates:
    """K * M draws as updates of K = `number` draws; draw k of update m is number k * M + m.

    Raises:
        RltokError: the draws do not make whole updates, or none at all.
    """
    if number < 1 or len(draws.nll) % number:
        raise RltokError(f"draws must be at least 1, and divide the {len(draws.nll)} that were made; got {number}.")
    fields = (draws.boundaries, draws.logits, returns_of(shared, draws, gamma))
    return Updates(shared, *(field.unflatten(0, (number, -1)) for field in fields), centring)


def weights_of(model: AutoregressiveUNet, updates: Updates, coefficients: Coefficients) -> Float[Tensor, "M B N terms"]:
    """Gradient of - 1/count sum c grad l with respect to `terms`, of each update; count is the number of scored bytes."""
    used, many = updates.boundaries[: len(coefficients)], updates.boundaries.shape[1]
    leaf = stack(updates.shared.terms.detach(), many).requires_grad_()
    logits = torch.stack([model.rule.logits(leaf, part.flatten(0, 1)) for part in used]).view_as(coefficients)
    chosen = torch.where(updates.shared.drawn, coefficients.detach() * logits, 0.0)
    loss = -chosen.sum() / updates.shared.scored.sum()  # a sum over updates, each on its own copy of the terms
    return torch.autograd.grad(loss, leaf)[0].unflatten(0, (many, -1))


def toggled(
    model: AutoregressiveUNet, shared: SharedPass, uniforms: Float[Tensor, "M B N"], *, gamma: float, stride: int, offset: int
) -> tuple[Updates, Coefficients]:  # fmt: skip
    """Draw once, then once more for each `stride`-th decision from `offset` on, with that one flipped; later uniforms stay.

    With an offset drawn evenly from 0 ... stride - 1 the coefficients, `stride` times those of `local_expectation` and 0
    elsewhere, are unbiased. Decisions of all rows at a position are flipped in one pass: rows do not influence each other.
    """
    updates = updates_of(shared, draw(model, shared, uniforms), 1, gamma)
    boundaries, logits, returns = updates.boundaries[0], updates.logits[0], updates.returns[0]
    coefficients = torch.zeros_like(returns)
    for i in range(offset or stride, uniforms.shape[-1], stride):  # position 0 is forced
        flipped = returns_of(shared, draw(model, shared, flipped_uniforms(uniforms, boundaries, i)), gamma)
        at = local_expectation(logits[..., i], boundaries[..., i], returns[..., i], flipped[..., i])
        coefficients[..., i] = stride * at
    return updates, coefficients[None]
