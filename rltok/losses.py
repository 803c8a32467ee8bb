"""The parts of the loss and their sum (sections 2.6 and 2.7, eqs. 24 to 27). Means over scored bytes, in nats."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from rltok.policy import entropy
from rltok.ranks import batch_sum
from rltok.vocab import PAD


def next_byte_nll(logits: Float[Tensor, "B N ids"], targets: Int[Tensor, "B N"]) -> Float[Tensor, "B N"]:
    """-log p(target) of each position in nats, in fp32 or wider; exactly 0 where the target is PAD."""
    wide = logits.to(torch.promote_types(logits.dtype, torch.float32))
    return F.cross_entropy(wide.flatten(0, 1), targets.flatten(), ignore_index=PAD, reduction="none").view(targets.shape)


def mean_over(values: Float[Tensor, "B N"], mask: Bool[Tensor, "B N"]) -> Float[Tensor, ""]:
    """Mean of the values where the mask is True; eqs. (25) and (26) with `scored`. 0 where nothing counts."""
    return batch_sum(torch.where(mask, values, 0.0).sum()) / batch_sum(mask.sum()).clamp(min=1)


def target_rate_loss(
    boundary_logits: Float[Tensor, "B N"], target_rate: float, mask: Bool[Tensor, "B N"] | None = None
) -> Float[Tensor, ""]:
    """Even pressure on all logits towards the target rate, eq. (24): mean(l) * detach(mean(p) - target).

    Args:
        boundary_logits: l of eq. (23), as used for the draw.
        target_rate: wanted boundaries per byte.
        mask: decisions that were drawn; forced ones stay out of both means. All by default.
    """
    chosen = torch.ones_like(boundary_logits, dtype=torch.bool) if mask is None else mask
    gap = mean_over(torch.sigmoid(boundary_logits), chosen) - target_rate
    return mean_over(boundary_logits, chosen) * gap.detach()


def probability_rate_loss(
    boundary_logits: Float[Tensor, "B N"], target_rate: float, mask: Bool[Tensor, "B N"] | None = None
) -> Float[Tensor, ""]:
    """Eq. (24) with probabilities in place of logits, which the paper has not: mean(p) * detach(mean(p) - target).

    Its gradient is that of (mean(p) - target)^2 / 2. By the chain rule a logit gets the gap times p (1 - p), so the pressure
    is gone where a decision is certain, however far the rate is from its target; arguments as in `target_rate_loss`.
    """
    chosen = torch.ones_like(boundary_logits, dtype=torch.bool) if mask is None else mask
    rate = mean_over(torch.sigmoid(boundary_logits), chosen)
    return rate * (rate - target_rate).detach()


def least_entropy_loss(
    boundary_logits: Float[Tensor, "B N"], least: float, mask: Bool[Tensor, "B N"]
) -> Float[Tensor, ""]:  # fmt: skip
    """Pressure that keeps decisions open, which the paper has not: -mean(H) * detach(max(0, least - mean(H))), in nats.

    Controls the entropy as eq. (24) controls the rate, but from below alone: 0 while the mean over the mask is at least `least`.
    """
    mean = mean_over(entropy(boundary_logits), mask)
    return -mean * (least - mean.detach()).clamp(min=0)


@dataclass(frozen=True)
class Losses:
    """The four parts of eq. (27) and what a rule adds of its own; scalars."""

    auto: Float[Tensor, ""]  # eq. (25)
    early: Float[Tensor, ""]  # eq. (26)
    policy: Float[Tensor, ""]  # eq. (18)
    target: Float[Tensor, ""]  # eq. (24)
    aux: Float[Tensor, ""]  # a rule's own loss, and what keeps a policy's entropy up; already weighted

    def total(self, *, lambda_auto: float, lambda_early: float, lambda_policy: float, lambda_target: float) -> Float[Tensor, ""]:
        """Eq. (27): lambda_auto L_auto + lambda_policy L_policy + lambda_target L_target + lambda_early L_early, plus aux."""
        return (
            lambda_auto * self.auto
            + lambda_policy * self.policy
            + lambda_target * self.target
            + lambda_early * self.early
            + self.aux
        )
