"""The score-function estimator and its variance reductions (section 2.4, eqs. 15 to 18).

    nll, early_nll -> rewards -> returns -> advantages -> policy loss

Each reduction is one function that can be left out: relative rewards, discounting, causal credit, batch-relative centring.
"""

import functools

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from rltok.errors import RltokError
from rltok.policy import log_prob
from rltok.ranks import batch_sum


def relative_rewards(nll: Float[Tensor, "B N"], early_nll: Float[Tensor, "B N"]) -> Float[Tensor, "B N"]:
    """Nats that the token level gains on each byte over the early head, eq. (15): R_i = log p - log p_early.

    Entry i belongs to the prediction made at position i (the paper's R_{i+1}); 0 where both are 0. Without gradient.
    """
    return (early_nll - nll).detach()


def _check_gamma(gamma: float) -> None:
    if not 0.0 <= gamma <= 1.0:
        raise RltokError(f"gamma must be between 0 and 1, got {gamma}.")


def discounted_returns_plain(rewards: Float[Tensor, "B N"], gamma: float) -> Float[Tensor, "B N"]:
    """Eq. (16) as a loop from the last position back: G_i = R_i + gamma * G_{i+1}. The reference of `discounted_returns`."""
    _check_gamma(gamma)
    returns = rewards.clone()
    for i in range(rewards.shape[1] - 2, -1, -1):
        returns[:, i] += gamma * returns[:, i + 1]
    return returns


@functools.lru_cache(maxsize=16)
def _discounts(gamma: float, size: int, least: int, device: torch.device, dtype: torch.dtype) -> Tensor:
    """[size, size]: gamma^(row - column - least) from a position (column) to a reward at least `least` later (row), else 0."""
    i = torch.arange(size, device=device)
    distance = i[:, None] - i[None, :] - least
    return torch.where(distance >= 0, gamma ** distance.clamp(min=0).to(dtype), 0.0)


def discounted_returns(rewards: Float[Tensor, "B N"], gamma: float) -> Float[Tensor, "B N"]:
    """Discounted sum of the rewards that each boundary decision can influence, eq. (16).

        G_i = sum_{j >= 0} gamma^j R_{i+j}

    rewards[:, i] is earned at position i by predicting byte i + 1 (the paper's R_{i+1}). A boundary at i is already
    visible there, so R_i counts. Works in blocks: a triangular matrix inside them and another one between them.

    Args:
        rewards: R of eq. (15), nats.
        gamma: discount from 0 (only the next byte counts) to 1 (plain sum).

    Raises:
        RltokError: gamma outside [0, 1].

    Example:
        >>> discounted_returns(torch.tensor([[1.0, 2.0, 4.0]]), gamma=0.5)
        tensor([[3., 4., 4.]])
    """
    _check_gamma(gamma)
    rows, length = rewards.shape
    block = min(length, 256)
    blocks = -(-length // block)
    # Products of float64 never pass through TF32, whatever `torch.backends` allows; the CPU has no TF32.
    wide = torch.float64 if rewards.is_cuda else rewards.dtype
    padded = torch.nn.functional.pad(rewards.to(wide), (0, blocks * block - length)).view(rows, blocks, block)
    inside = padded @ _discounts(gamma, block, 0, rewards.device, wide)
    # all later blocks, seen from the start of the next
    later = inside[:, :, 0] @ _discounts(gamma**block, blocks, 1, rewards.device, wide)
    reach = gamma ** torch.arange(block, 0, -1, device=rewards.device, dtype=wide)  # from each position to that start
    returns = inside + later[:, :, None] * reach
    return returns.view(rows, -1)[:, :length].to(rewards.dtype)


def total_returns(rewards: Float[Tensor, "B N"]) -> Float[Tensor, "B N"]:
    """The whole row's reward for every decision: REINFORCE without causal credit."""
    return rewards.sum(dim=1, keepdim=True).expand_as(rewards)


def batch_relative_advantages(
    returns: Float[Tensor, "B N"], mask: Bool[Tensor, "B N"] | None = None, leave_one_out: bool = False
) -> Float[Tensor, "B N"]:
    """Returns minus their mean over the rows at the same position, eq. (17): A_{i,b} = G_{i,b} - (1/B_i) sum_b G_{i,b}.

    Args:
        returns: G of eq. (16).
        mask: True where a row counts at a position (`scored`); B_i is their number. All count by default.
        leave_one_out: leave the row itself out of its mean. Eq. (17) keeps it in, which multiplies the expected
            gradient by (B_i - 1) / B_i; leaving it out does not.

    Returns:
        0 outside the mask and wherever there is no other row to compare with.
    """
    counts = torch.ones_like(returns) if mask is None else mask.to(returns.dtype)
    total = batch_sum((returns * counts).sum(dim=0, keepdim=True))
    number = batch_sum(counts.sum(dim=0, keepdim=True))
    if leave_one_out:
        mean = (total - returns) / (number - 1).clamp(min=1)
    else:
        mean = total / number.clamp(min=1)
    return torch.where((counts > 0) & (number > 1), returns - mean, 0.0)


def advantages(
    nll: Float[Tensor, "B N"], early_nll: Float[Tensor, "B N"], mask: Bool[Tensor, "B N"], *,
    gamma: float, relative: bool, credit: str, centring: str,
) -> Float[Tensor, "B N"]:  # fmt: skip
    """Advantage of every decision, eqs. (15) to (17) composed, each of which can be switched off; nats, without gradient.

    Args:
        nll, early_nll: of the network and of its early head.
        mask: bytes that count (`scored`).
        gamma: discount of eq. (16).
        relative: subtract the early head, eq. (15); False rewards -nll.
        credit: "causal" pays a decision for later bytes, "total" for the whole row.
        centring: "batch" as in eq. (17), "leave_one_out", or "none".
    """
    rewards = relative_rewards(nll, early_nll) if relative else -nll.detach()  # eq. (15)
    returns = total_returns(rewards) if credit == "total" else discounted_returns(rewards, gamma)  # eq. (16)
    if centring == "none":
        return returns
    return batch_relative_advantages(returns, mask, centring == "leave_one_out")  # eq. (17)


def policy_loss(
    boundary_logits: Float[Tensor, "B N"], boundaries: Bool[Tensor, "B N"], advantages: Float[Tensor, "B N"],
    mask: Bool[Tensor, "B N"] | None = None, count: Tensor | int | None = None,
) -> Float[Tensor, ""]:  # fmt: skip
    """Surrogate whose gradient is the score-function estimate, eq. (18): - sum log pi(a_i) detach(A_i) / count.

    Args:
        boundary_logits: l of eq. (23).
        boundaries: the decisions as executed.
        advantages: A of eq. (17); no gradient flows through them.
        mask: decisions that were drawn, not forced. All by default.
        count: denominator; training passes the number of scored bytes, the denominator of the NLL mean, so that with
            weight 1, gamma 1 and no centring the expected total gradient is that of the right side of eq. (10), written out in
            eqs. (11) to (13). Default: mask.sum().
    """
    chosen = torch.ones_like(boundaries) if mask is None else mask
    weighted = torch.where(chosen, log_prob(boundary_logits, boundaries) * advantages.detach(), 0.0)
    return -batch_sum(weighted.sum()) / (batch_sum(chosen.sum()) if count is None else count)
