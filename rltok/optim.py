"""AdamW with decay on matrices only, the learning rate as a pure function of the step, and how far it takes the policy."""

import math

import torch
from torch import nn

from rltok.config import Config, TrainConfig


def make_optimizer(model: nn.Module, train: TrainConfig) -> torch.optim.AdamW:
    """AdamW over fp32 parameters; weight decay on matrices of the blocks and heads, none on norms, embedding and policy.

    Frozen parameters, such as a fitted rule's, are left out. With a `policy_lr_multiplier` the rule's parameters are a group
    of their own; without one they stay where checkpoints have always had them.
    """
    fast = train.policy_lr_multiplier != 1

    def decays(name: str, parameter: nn.Parameter) -> bool:
        return parameter.ndim == 2 and not name.startswith(("embedding.", "rule."))

    def is_fast(name: str) -> bool:
        return fast and name.startswith("rule.")

    named = [(name, parameter) for name, parameter in model.named_parameters() if parameter.requires_grad]
    groups = [
        {"params": [p for name, p in named if decays(name, p)], "weight_decay": train.weight_decay},
        {"params": [p for name, p in named if not (decays(name, p) or is_fast(name))], "weight_decay": 0.0},
    ]
    if fast:
        own = [p for name, p in named if is_fast(name)]
        groups.append({"params": own, "weight_decay": 0.0, "lr_multiplier": train.policy_lr_multiplier})
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


def set_learning_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """Give every group the rate, times the group's own multiplier if it has one."""
    for group in optimizer.param_groups:
        group["lr"] = rate * group.get("lr_multiplier", 1.0)


def policy_travel(config: Config) -> float:
    """How far a run can move a logit of the policy for each unit of its input: learning rates summed over updates, over D.

        travel = multiplier / D * sum_t learning_rate(t)

    Adam moves a weight by about its learning rate an update, whatever the size of the gradient, and eq. (22) divides by D = 16.
    The sum is that of `learning_rate`, in closed form, so that a budget of any length costs nothing.
    """
    train, updates = config.train, config.num_updates
    warmup = warmup_updates(updates, train)
    falling = updates - warmup
    climb = warmup * train.warmup_start + (1 - train.warmup_start) * max(0, warmup - 1) / 2
    fall = falling * train.final_fraction + (1 - train.final_fraction) * (falling + 1) / 2 if falling else 0.0
    return train.policy_lr_multiplier * train.learning_rate * (climb + fall) / config.model.rule.scale


def gradient_norm(parameters: list[nn.Parameter]) -> torch.Tensor:
    """Euclidean norm over all gradients; 0 where there are none."""
    norms = [p.grad.norm() for p in parameters if p.grad is not None]
    return torch.stack(norms).norm() if norms else torch.zeros(())
