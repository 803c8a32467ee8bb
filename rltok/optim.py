"""AdamW with decay on matrices only; the learning rate, and all else that changes in training, as pure functions of the step.

Also how far the learning rates take the policy.
"""

import math
from dataclasses import replace

import numpy as np
import torch
from torch import nn

from rltok.config import Config, TrainConfig
from rltok.data.order import rank_rows
from rltok.policy_settings import OF_POLICY
from rltok.ranks import Ranks
from rltok.rng import drawn_rate


def make_optimizer(model: nn.Module, train: TrainConfig) -> torch.optim.AdamW:
    """AdamW over fp32 parameters; weight decay on matrices of the blocks and heads, none on norms, embedding and policy.

    Frozen parameters, such as a fitted rule's, are left out. With a setting of `OF_POLICY` the rule's parameters are a group of
    their own; without any they stay where checkpoints have always had them.
    """
    apart = any(getattr(train, name) != value for name, value in OF_POLICY.items())

    def decays(name: str, parameter: nn.Parameter) -> bool:
        return parameter.ndim == 2 and not name.startswith(("embedding.", "rule."))

    def is_apart(name: str) -> bool:
        return apart and name.startswith("rule.")

    named = [(name, parameter) for name, parameter in model.named_parameters() if parameter.requires_grad]
    groups = [
        {"params": [p for name, p in named if decays(name, p)], "weight_decay": train.weight_decay},
        {"params": [p for name, p in named if not (decays(name, p) or is_apart(name))], "weight_decay": 0.0},
    ]
    if apart:
        own = [p for name, p in named if is_apart(name)]
        betas = (train.beta1, train.beta2 if train.policy_beta2 is None else train.policy_beta2)
        groups.append({"params": own, "weight_decay": 0.0, "betas": betas, "lr_multiplier": train.policy_lr_multiplier})
    fused = all(parameter.is_cuda for _, parameter in named)  # one kernel instead of a dozen passes over the state
    return torch.optim.AdamW(
        groups, lr=train.learning_rate, betas=(train.beta1, train.beta2), eps=train.adam_eps, fused=fused or None
    )


def warmup_updates(num_updates: int, train: TrainConfig) -> int:
    """Updates before the peak of the learning rate; 0 without a warm-up."""
    return max(1, round(train.warmup_fraction * num_updates)) if train.warmup_fraction > 0 else 0


def learning_rate(step: int, num_updates: int, train: TrainConfig) -> float:
    """Rate of update `step` (from 0): linear from warmup_start to 1, then a cosine to final_fraction, times the peak rate."""
    warmup = warmup_updates(num_updates, train)
    if step < warmup:
        factor = train.warmup_start + (1 - train.warmup_start) * step / warmup
    else:
        progress = min(1.0, (step - warmup) / max(1, num_updates - warmup))
        factor = train.final_fraction + (1 - train.final_fraction) * 0.5 * (1 + math.cos(math.pi * progress))
    return train.learning_rate * factor


def policy_start(num_updates: int, train: TrainConfig) -> int:
    """Updates before the policy's own multiplier sets in."""
    return round(train.policy_start_fraction * num_updates)


def set_learning_rate(optimizer: torch.optim.Optimizer, rate: float, first: float | None = None) -> None:
    """Give every group the rate; the policy's own group, if there is one, its multiple of it, or this `first` one.

    With 0 it stays put. Adam averages gradients all the while, so the first step after that is as long as any other.
    """
    for group in optimizer.param_groups:
        own = group.get("lr_multiplier")
        group["lr"] = rate if own is None else rate * (own if first is None else first)


def restarts(num_updates: int, train: TrainConfig) -> list[int]:
    """Numbers of finished updates after which the policy is set back: the last at half of training, evenly spaced."""
    return [round(num_updates * each / (2 * train.policy_restarts)) for each in range(1, train.policy_restarts + 1)]


@torch.no_grad()
def restart(policy: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """Set the policy's weights to 0, where it draws at the wanted rate whatever the text, and with them Adam's averages."""
    for parameter in policy.parameters():
        for value in (parameter, *optimizer.state.get(parameter, {}).values()):
            value.zero_()


def annealed(config: Config, step: int) -> Config:
    """The settings of update `step` (from 1): those that anneal over `policy_anneal_fraction` of training at their values there.

    Wanted rate, D of eq. (22) and least entropy go in a line; all updates after that, at least the last, have the final values,
    and so has the model of an earlier checkpoint when it is loaded.
    """
    train, rule, objective = config.train, config.model.rule, config.objective
    lasts = min(round(train.policy_anneal_fraction * config.num_updates), config.num_updates - 1)
    if lasts == 0:
        return config
    left = max(0.0, 1 - (step - 1) / lasts)
    first = rule.target_rate if train.policy_first_rate is None else train.policy_first_rate
    rate = rule.target_rate + left * (first - rule.target_rate)
    scale = rule.scale * (1 + left * (train.policy_first_temperature - 1))
    return replace(
        config,
        model=replace(config.model, rule=replace(rule, target_rate=rate, scale=scale)),
        objective=replace(objective, least_entropy=left * objective.least_entropy),
        train=replace(train, policy_anneal_fraction=0.0, policy_first_rate=None, policy_first_temperature=1.0),
    )


def with_drawn_rate(config: Config, step: int, number: int, ranks: Ranks) -> Config:
    """The settings of micro-batch `number` (from 0) of this process in update `step` (from 1): the same where the rule has one
    target rate, else with the one that falls to it (`drawn_rate`), whichever process computes it."""
    rule, train = config.model.rule, config.train
    if rule.lowest_rate is None:
        return config
    rows = rank_rows(np.arange(train.sequences_per_update), ranks.number, ranks.count, train.micro_batch)
    rate = drawn_rate(train.seed, step, int(rows[number, 0]) // train.micro_batch, rule.lowest_rate, rule.highest_rate)
    return replace(config, model=replace(config.model, rule=replace(rule, target_rate=rate)))


def policy_travel(config: Config) -> float:
    """How far a run can move a logit of the policy for each unit of its input: learning rates summed over updates, over D.

        travel = 1 / D * sum_t multiplier(t) * learning_rate(t),    t from the last restart, or from the first update

    Adam moves a weight by about its learning rate an update, whatever the size of the gradient, and eq. (22) divides by D = 16.
    """
    train, updates = config.train, config.num_updates
    begin = max(restarts(updates, train), default=0)
    start, final = (_summed_rates(max(begin, until), updates, train) for until in (policy_start(updates, train), updates))
    first = train.policy_first_multiplier * (start - _summed_rates(begin, updates, train))
    return (first + train.policy_lr_multiplier * (final - start)) / config.model.rule.scale


def _summed_rates(steps: int, num_updates: int, train: TrainConfig) -> float:
    """Sum of `learning_rate` over the first steps, in closed form, so that a budget of any length costs nothing."""
    warmup = warmup_updates(num_updates, train)
    rising, falling = min(steps, warmup), max(0, steps - warmup)
    climb = rising * train.warmup_start + (1 - train.warmup_start) * rising * max(0, rising - 1) / 2 / max(1, warmup)
    angle = math.pi / max(1, num_updates - warmup)  # sum_{k < n} cos(k a) = sin(n a / 2) cos((n - 1) a / 2) / sin(a / 2)
    cosines = math.sin(falling * angle / 2) * math.cos((falling - 1) * angle / 2) / math.sin(angle / 2)
    fall = falling * train.final_fraction + (1 - train.final_fraction) * (falling + cosines) / 2
    return train.learning_rate * (climb + fall)


def gradient_norm(parameters: list[nn.Parameter]) -> torch.Tensor:
    """Euclidean norm over all gradients; 0 where there are none."""
    norms = [p.grad.norm() for p in parameters if p.grad is not None]
    return torch.stack(norms).norm() if norms else torch.zeros(())
