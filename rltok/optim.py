"""AdamW with decay on matrices only, and the learning rate as a pure function of the step."""

import math

import torch
from torch import nn

from rltok.config import TrainConfig


def make_optimizer(model: nn.Module, train: TrainConfig) -> torch.optim.AdamW:
    """AdamW over fp32 parameters; weight decay on matrices of the blocks and heads, none on norms, embedding and policy.

    Frozen parameters, such as a fitted rule's, are left out.
    """

    def decays(name: str, parameter: nn.Parameter) -> bool:
        return parameter.ndim == 2 and not name.startswith(("embedding.", "rule."))

    named = [(name, parameter) for name, parameter in model.named_parameters() if parameter.requires_grad]
    groups = [
        {"params": [p for name, p in named if decays(name, p)], "weight_decay": train.weight_decay},
        {"params": [p for name, p in named if not decays(name, p)], "weight_decay": 0.0},
    ]
    fused = all(parameter.is_cuda for _, parameter in named)  # one kernel instead of a dozen passes over the state
    return torch.optim.AdamW(
        groups, lr=train.learning_rate, betas=(train.beta1, train.beta2), eps=train.adam_eps, fused=fused or None
    )


def learning_rate(step: int, num_updates: int, train: TrainConfig) -> float:
    """Rate of update `step` (from 0): linear from warmup_start to 1, then a cosine to final_fraction, times the peak rate."""
    warmup = max(1, round(train.warmup_fraction * num_updates))
    if step < warmup and train.warmup_fraction > 0:
        factor = train.warmup_start + (1 - train.warmup_start) * step / warmup
    else:
        progress = min(1.0, (step - warmup) / max(1, num_updates - warmup)) if train.warmup_fraction > 0 else step / num_updates
        factor = train.final_fraction + (1 - train.final_fraction) * 0.5 * (1 + math.cos(math.pi * progress))
    return train.learning_rate * factor


def gradient_norm(parameters: list[nn.Parameter]) -> torch.Tensor:
    """Euclidean norm over all gradients; 0 where there are none."""
    norms = [p.grad.norm() for p in parameters if p.grad is not None]
    return torch.stack(norms).norm() if norms else torch.zeros(())
