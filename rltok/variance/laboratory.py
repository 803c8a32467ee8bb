"""The variance laboratory: how noisy, how biased and how useful each policy-gradient estimator is on real rows.

    rows -> batches -> share + draw -> policy gradients -> Gradients (means by batch) -> statistics: measures with intervals

A *sample* is what one training step sees: a fresh batch of B rows, one draw of boundaries each. Its gradient g scatters
because of the draw and because of the rows; both are measured. Several draws on the same batch share one encoder pass. For each
batch and estimator two gradients are kept, the mean and the first, and for counterparts a third, the mean over more draws.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from rltok.data.rows import Rows
from rltok.errors import RltokError
from rltok.policy import entropy
from rltok.rng import row_uniforms
from rltok.unet import AutoregressiveUNet
from rltok.variance.gradients import (
    Draws,
    SharedPass,
    advantages_of_draws,
    draw,
    group_slices,
    loss_gradients,
    policy_weights,
    pull_back,
    pull_back_each,
    share,
)  # fmt: skip
from rltok.variance.ladder import REFERENCE, discounted_reference, estimator, gamma_sweep, ladder, spelled
from rltok.vocab import PAD

AT_ONCE = 32  # draws that are scored together
MOST = 100_000  # rows, batches, draws
LOSS = "loss"  # the first term, eq. (12), beside the estimators of the second


def counterpart(name: str) -> str:
    """The estimator with little variance whose expectation is that of `name` up to `factor`; bias is measured against it.

    Early rewards, causal credit and centring change the variance, not the direction of the expected gradient; a discount does.
    """
    return discounted_reference(estimator(name).gamma)


def factor(name: str, rows: int) -> float:
    """Expected gradient divided by its counterpart's: (B - 1) / B if the mean of eq. (17) includes the row itself, else 1."""
    return (rows - 1) / rows if estimator(name).centring == "batch" else 1.0


@dataclass(frozen=True)
class Sizes:
    """The size of a measurement."""

    rows: int  # B, rows in a batch
    batches: int  # n
    draws: int  # K, of every estimator on each batch
    reference_draws: int  # of the counterparts on each batch; the first K are those of all estimators

    def __post_init__(self) -> None:
        for what, value, least, why in (
            ("rows", self.rows, 2, "the reference compares rows (eq. 17), and of one row alone every advantage is 0"),
            ("batches", self.batches, 4, "bias and interval come from differences between batches"),
            ("draws", self.draws, 2, "the noise of the draw is seen by comparing draws on the same rows"),
            ("reference_draws", self.reference_draws, self.draws, "the reference takes part in every draw"),
        ):
            if value < least:
                raise RltokError(f"{what} must be at least {least}, because {why}; got {value}.")
        if max(self.rows, self.batches, self.reference_draws) > MOST:
            raise RltokError(
                f"rows, batches and draws are at most {MOST} each; got {self.rows}, {self.batches} and {self.reference_draws}."
                " Intervals shrink with the root of batches times draws: a hundred of each is much."
            )


@dataclass(frozen=True)
class Gradients:
    """Gradients of n batches for each estimator."""

    mean: dict[str, Float[Tensor, "n P"]]  # over K draws on each batch
    first: dict[str, Float[Tensor, "n P"]]  # of the first draw
    square: dict[str, Float[Tensor, "n groups"]]  # mean of |g|^2 over K draws
    long: dict[str, Float[Tensor, "n P"]]  # mean over the reference draws, of counterparts only
    slices: dict[str, slice]
    sizes: Sizes
    full: bool  # no row ended early
    means: dict[str, float]  # rate, policy_entropy (nats), nll, early_nll (nats per byte) over all draws
    advantage_rms: dict[str, float]
    rewards: Float[Tensor, " N"]  # mean relative reward by position, nats
    return_spread: dict[str, Float[Tensor, " N"]]  # standard deviation of the return by position, for each discount


def measure_gradients(
    model: AutoregressiveUNet,
    batches: list[Int[Tensor, "B N_plus_1"]],
    names: list[str],
    sizes: Sizes,
    seed: int,
) -> Gradients:
    """Draw boundaries many times on every batch and take the gradient of every estimator from the same draws.

    Args:
        batches: ids on the model's device, as many as `sizes` says.
        names: estimators; the counterpart of each is added, because the bias is measured against it.
        seed: of the uniforms, which are a function of (seed, draw, row).
    """
    _check_batches(batches, sizes)
    counterparts = list(dict.fromkeys([*(counterpart(name) for name in names), REFERENCE]))
    names = list(dict.fromkeys([*names, *counterparts]))
    slices, positions = group_slices(model), _Positions(names)
    kept: dict[str, dict[str, list[Tensor]]] = {what: {} for what in ("mean", "first", "square", "long")}

    def keep(what: str, name: str, value: Tensor) -> None:
        kept[what].setdefault(name, []).append(value)

    for number, ids in enumerate(batches):
        shared, weights = share(model, ids), dict.fromkeys(counterparts, 0.0)
        sums = {name: [0.0, 0.0] for name in names}  # of gradients, of their squared lengths
        for numbers in _portions(sizes):
            made = draw(model, shared, _uniforms(seed, numbers, number * sizes.rows, ids))
            _check_finite(made, number)
            for_all = numbers.start < sizes.draws
            by_name = policy_weights(model, shared, made, names if for_all else counterparts)
            for name in counterparts:
                weights[name] = weights[name] + by_name[name].sum(dim=0)  # gradients are linear in them: one pull-back for all
            if not for_all:
                continue
            positions.add(shared, made)
            for name, grads in pull_back_each(model, shared, by_name).items():
                squares = torch.stack([grads[:, part].double().square().sum() for part in slices.values()])
                sums[name] = [sums[name][0] + grads.sum(dim=0), sums[name][1] + squares]
                if numbers.start == 0:
                    keep("first", name, grads[0])
            if numbers.start == 0:
                keep("first", LOSS, loss_gradients(model, ids, made.boundaries[:1])[0])
        for name, (total, square) in sums.items():
            keep("mean", name, total / sizes.draws)
            keep("square", name, square / sizes.draws)
        means = pull_back(model, shared, torch.stack([weights[name] / sizes.reference_draws for name in counterparts]))
        for name, mean in zip(counterparts, means, strict=True):
            keep("long", name, mean)
    full = not any(bool((ids == PAD).any()) for ids in batches)
    stacked = {what: {name: torch.stack(parts) for name, parts in tensors.items()} for what, tensors in kept.items()}
    return Gradients(**stacked, slices=slices, sizes=sizes, full=full, **positions.summary())


def _check_batches(batches: list[Tensor], sizes: Sizes) -> None:
    """Raise `RltokError` unless all batches have `sizes.rows` rows; otherwise `factor` would be wrong."""
    counts = [len(ids) for ids in batches]
    if counts != [sizes.rows] * sizes.batches:
        raise RltokError(
            f"the sizes ask for {sizes.batches} batches of {sizes.rows} rows; got {len(counts)} of {sorted(set(counts))} rows."
            " Make them with batches_of(rows, sizes, ...)."
        )


def _check_finite(made: Draws, number: int) -> None:
    if not bool(made.nll.isfinite().all() & made.logits.isfinite().all()):
        raise RltokError(
            f"the model's loss or logits on batch {number} are not finite, so no gradient can be measured."
            " Train with a lower train.learning_rate, or measure an earlier checkpoint."
        )


def _portions(sizes: Sizes) -> list[range]:
    """Numbers of the draws that are scored together: first the K draws of all estimators, then the rest."""
    edges = [*range(0, sizes.draws, AT_ONCE), *range(sizes.draws, sizes.reference_draws, AT_ONCE), sizes.reference_draws]
    return [range(start, stop) for start, stop in zip(edges[:-1], edges[1:], strict=True)]


def _uniforms(seed: int, draws: range, start: int, ids: Tensor) -> Float[Tensor, "K B N"]:
    numbers = range(start, start + len(ids))
    return torch.stack([row_uniforms(seed, number, numbers, ids.shape[1] - 1) for number in draws]).to(ids.device)


class _Positions:
    """Sums over rows and draws: rewards and returns by position (section 2.4), advantages overall."""

    def __init__(self, names: list[str]) -> None:
        self.names = names
        self.count, self.rewards = 0, 0.0
        self.squares = dict.fromkeys(names, 0.0)
        self.drawn, self.scored = 0, 0
        self.sums = dict.fromkeys(("rate", "policy_entropy", "nll", "early_nll"), 0.0)
        self.returns = {spelled(estimator(name).gamma): [0.0, 0.0] for name in names}

    def add(self, shared: SharedPass, made: Draws) -> None:
        """Add the draws on one batch."""
        self.rewards = self.rewards + (shared.early_nll - made.nll).double().sum(dim=(0, 1))
        self.count += made.nll.shape[0] * made.nll.shape[1]
        self.drawn += int(shared.drawn.sum()) * len(made.nll)
        self.scored += int(shared.scored.sum()) * len(made.nll)
        of_draws = {
            "rate": made.boundaries & shared.drawn,
            "policy_entropy": torch.where(shared.drawn, entropy(made.logits.flatten(0, 1)).view_as(made.logits), 0.0),
        }
        for key, values in (*of_draws.items(), ("nll", made.nll), ("early_nll", shared.early_nll.expand_as(made.nll))):
            self.sums[key] += float(values.double().sum())
        for name in self.names:
            paid = advantages_of_draws(shared, made, name).double()
            self.squares[name] = self.squares[name] + torch.where(shared.drawn, paid, 0.0).square().sum()
        for gamma, sums in self.returns.items():
            plain = "causal+early" if float(gamma) == 1 else f"causal+early+gamma{gamma}"
            returns = advantages_of_draws(shared, made, plain).double()
            sums[0] = sums[0] + returns.sum(dim=(0, 1))
            sums[1] = sums[1] + returns.square().sum(dim=(0, 1))

    def summary(self) -> dict[str, Any]:
        """RMS of the advantages; mean reward and spread of returns by position."""
        spread = {
            gamma: (square / self.count - (total / self.count) ** 2).clamp(min=0).sqrt()
            for gamma, (total, square) in self.returns.items()
        }
        rms = {name: math.sqrt(float(square) / max(1, self.drawn)) for name, square in self.squares.items()}
        per = {"rate": self.drawn, "policy_entropy": self.drawn, "nll": self.scored, "early_nll": self.scored}
        means = {key: total / max(1, per[key]) for key, total in self.sums.items()}
        return {"means": means, "advantage_rms": rms, "rewards": self.rewards / self.count, "return_spread": spread}


def batches_of(rows: Rows, sizes: Sizes, seed: int, device: torch.device) -> list[Int[Tensor, "B N_plus_1"]]:
    """Batches of distinct full rows, chosen by the seed."""
    if not 0 <= seed < 2**63:
        raise RltokError(f"the seed must lie between 0 and 2**63 - 1; got {seed}.")
    order = np.random.default_rng(seed).permutation(len(rows))
    full = order[rows.lengths[order] == rows.sequence_length]
    wanted = sizes.rows * sizes.batches
    if wanted > len(full):
        raise RltokError(
            f"{sizes.batches} batches of {sizes.rows} rows need {wanted} full rows; the text has {len(full)}."
            f" Give more text, or ask for less: at most {len(full)} rows in all."
        )
    return [rows.ids(full[start : start + sizes.rows]).to(device) for start in range(0, wanted, sizes.rows)]


def default_names() -> list[str]:
    """The estimators that `rltok variance` measures: the ladder and the sweep over the discount."""
    return list(dict.fromkeys([*ladder(), *gamma_sweep()]))
