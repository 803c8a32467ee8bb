"""One update, which spells the paper: forward, rewards, returns, advantages, losses, clip, step."""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace

import torch
from torch import Tensor, nn

import rltok.estimator as estimator
from rltok.baselines import antithetic_coefficients
from rltok.config import Config, ObjectiveConfig
from rltok.device import autocast
from rltok.errors import RltokError, overflow
from rltok.kernels import backends
from rltok.losses import Losses, least_entropy_loss, mean_over, target_rate_loss
from rltok.metrics import StepMetrics
from rltok.optim import (
    annealed,
    gradient_norm,
    learning_rate,
    policy_start,
    restart,
    restarts,
    set_learning_rate,
    with_drawn_rate,
)
from rltok.ranks import ALONE, Ranks, batch_sum
from rltok.unet import AutoregressiveUNet, UNetOutput
from rltok.vocab import PAD

MicroBatch = tuple[Tensor, Tensor]  # ids [B, N + 1], uniforms [B, draws * N], those of the first draw first
RateLoss = Callable[[Tensor, float, Tensor], Tensor]  # (logits, target rate, mask) -> scalar, as `target_rate_loss`
UNSCALED = torch.amp.GradScaler(enabled=False)


def losses_of(
    out: UNetOutput, advantages: Tensor, target_rate: float, rate_loss: RateLoss = target_rate_loss
) -> Losses:  # fmt: skip
    """The parts of eq. (27); policy and target are 0 for a rule without a policy, whose own loss is `aux`.

    Every rule keeps the early head and its loss, so that all train under equal terms; the authors gave it to their own
    rule alone. `rate_loss` takes the place of eq. (24).
    """
    zero = out.nll.new_zeros(())
    logits = out.boundary_logits
    return Losses(
        auto=mean_over(out.nll, out.scored),  # eq. (25)
        early=mean_over(out.early_nll, out.scored),  # eq. (26)
        policy=zero if logits is None else policy_loss_of(out, advantages),
        target=zero if logits is None else rate_loss(logits, target_rate, out.drawn),  # eq. (24)
        aux=out.aux_loss,
    )


def policy_loss_of(out: UNetOutput, advantages: Tensor) -> Tensor:
    """Eq. (18) over the drawn positions of a micro-batch, per scored byte."""
    return estimator.policy_loss(out.boundary_logits, out.boundaries, advantages, out.drawn, batch_sum(out.scored.sum()))


def advantages_of(draws: list[UNetOutput], objective: ObjectiveConfig) -> list[Tensor]:
    """Advantages [B, N] of every draw that trains the policy, eqs. (15) to (17), nats.

    In place of the early head stands the mean NLL of the draws that are independent of it, where there are any.
    """
    many, paid = len(draws), []
    apart = many // 2 if objective.further_draws == "antithetic" else many  # from a draw to its twin
    for k, draw in enumerate(draws if objective.further_draws != "baseline" else draws[:1]):
        others = [other.nll.detach() for m, other in enumerate(draws) if (m - k) % apart]
        compared = sum(others) / len(others) if others else draw.early_nll
        paid.append(estimator.advantages(draw.nll, compared, draw.scored, **objective.reductions))
    return paid


def policy_loss_of_draws(draws: list[UNetOutput], advantages: list[Tensor], objective: ObjectiveConfig) -> Tensor:
    """The surrogate whose gradient is the mean of the estimates of all draws that train the policy, as `further_draws` says."""
    if objective.further_draws != "antithetic":
        return sum(map(policy_loss_of, draws, advantages)) / len(advantages)
    logits, boundaries, paid = (
        torch.stack(each) for each in ([d.boundary_logits for d in draws], [d.boundaries for d in draws], advantages)
    )
    coefficients = antithetic_coefficients(logits.detach(), boundaries, paid) / (len(draws) // 2)
    chosen = torch.where(draws[0].drawn, coefficients * logits, 0.0)
    return -batch_sum(chosen.sum()) / batch_sum(draws[0].scored.sum())


def accumulate_gradient(
    model: AutoregressiveUNet, batch: MicroBatch, config: Config, share: Tensor | float,
    rate_loss: RateLoss = target_rate_loss, replica: nn.Module | None = None,
) -> tuple[UNetOutput, Losses, Tensor]:  # fmt: skip
    """Add `share` times the gradient of eq. (27) on one micro-batch to the gradients that the weights hold.

    `replica` is the model where other processes have it, too: `Ranks.replica`, which adds up their gradients.

    Returns the network's output, the parts of the loss, and the advantages [B, N] of the first draw, for the metrics.
    """
    ids, uniforms = batch
    objective = config.objective
    uniforms, *more = uniforms.split(ids.shape[1] - 1, dim=1)
    if objective.further_draws == "antithetic":
        alone = more[: len(more) // 2]
        more = [*alone, *(1 - each for each in (uniforms, *alone))]
    with autocast(config, ids.device), backends.graphs(True):  # whose backward pass is the last line
        out = (replica or model)(ids, uniforms=uniforms)  # eqs. (1) to (6), (14), (19) to (23)
        with torch.set_grad_enabled(objective.further_draws != "baseline"):
            draws = [out, *(model.redraw(ids, out, each) for each in more)]  # one by the paper
    advantages = advantages_of(draws, objective)
    losses = losses_of(out, advantages[0], config.model.rule.target_rate, rate_loss)
    if len(advantages) > 1:
        losses = replace(losses, policy=policy_loss_of_draws(draws, advantages, objective))
    if objective.lambda_entropy > 0:
        floor = least_entropy_loss(out.boundary_logits, objective.least_entropy, out.drawn)
        losses = replace(losses, aux=losses.aux + objective.lambda_entropy * floor)
    (losses.total(**objective.weights) * share).backward()  # eq. (27)
    return out, losses, advantages[0]


def train_step(
    model: AutoregressiveUNet, optimizer: torch.optim.Optimizer, batches: list[MicroBatch], config: Config, step: int,
    after_backward: Callable[[], None] = lambda: None, rate_loss: RateLoss = target_rate_loss, ranks: Ranks = ALONE,
    scaler: torch.amp.GradScaler = UNSCALED,
) -> StepMetrics:  # fmt: skip
    """One update: accumulate the gradient of eq. (27) over micro-batches, clip, step.

    Advantages are centred inside each micro-batch; losses are weighted by scored bytes, so that the update is the mean
    over all bytes of the update.

    Args:
        step: number of the update, from 1.
        after_backward: called after each micro-batch, when a card still has its backward pass to compute.
        rate_loss: takes the place of eq. (24) in experiments; runs that are recorded have that one.
        ranks: the processes that compute the update together; `batches` are this one's rows (`rank_rows`), metrics are of all.
        scaler: `device.gradient_scaler` of the run. Where it scales, an update whose gradient overflows is skipped: weights
            and optimizer stay, and the scale is halved.

    Raises:
        RltokError: a weight that no loss depends on, a loss that is not finite, a gradient that is not where nothing scales, or
            a scale that fell below 1; weights and optimizer are as before.
    """
    metrics, done, now = StepMetrics(step), step - 1, annealed(config, step)
    if now is not config:
        model.rule.take(now.model.rule.target_rate, now.model.rule.scale)
    scored = [(ids[:, 1:] != PAD).sum() for ids, _ in batches]
    total = ranks.mean(sum(scored))
    optimizer.zero_grad(set_to_none=True)
    for number, (batch, part) in enumerate(zip(batches, scored, strict=True)):
        own = with_drawn_rate(now, step, number, ranks)
        at_rate = nullcontext() if own is now else model.rule.at_rate(own.model.rule.target_rate)
        with ranks.micro_batch(last=number == len(batches) - 1), at_rate:
            share = scaler.scale(batch_sum(part) / total)
            metrics.add(batch[0], *accumulate_gradient(model, batch, own, share, rate_loss, ranks.replica))
        after_backward()
    _check_used(model, step)
    metrics.gather(ranks)
    scaler.unscale_(optimizer)  # before norms and clipping, which are those of the gradient itself
    metrics.grad_norm_rule = gradient_norm(list(model.rule.parameters()))
    metrics.grad_norm = torch.nn.utils.clip_grad_norm_(model.parameters(), config.train.clip_norm)
    metrics.check_finite(scaler.is_enabled())  # waits for the device
    metrics.learning_rate = learning_rate(done, config.num_updates, config.train)
    waits = done < policy_start(config.num_updates, config.train)
    set_learning_rate(optimizer, metrics.learning_rate, config.train.policy_first_multiplier if waits else None)
    if not metrics.skipped:
        scaler.step(optimizer)
    if step in restarts(config.num_updates, config.train):
        restart(model.rule, optimizer)
    # Each process decides this by itself, from the same numbers: gradients are summed over processes before they come here.
    scaler.update()
    if metrics.skipped and scaler.get_scale() < 1:
        raise overflow(step, scaler.get_scale() / scaler.get_backoff_factor())
    return metrics


def _check_used(model: AutoregressiveUNet, step: int) -> None:
    """Raise `RltokError` where no gradient reached a weight: it would never be trained, and processes wait for each gradient."""
    unused = [name for name, weight in model.named_parameters() if weight.requires_grad and weight.grad is None]
    if unused:
        raise RltokError(
            f"update {step}: no loss depends on {', '.join(unused[:3])}. Use it in every forward pass, freeze it with"
            " requires_grad_(False), or leave it out."
        )
