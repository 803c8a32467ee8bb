"""Rules that look at nothing but positions: the paper's uniform baseline in both readings."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from rltok.rules.base import Boundaries, Rule, first_position
from rltok.vocab import PAD


def _tokens_per_row(ids: Int[Tensor, "B N"], rate: float) -> tuple[Int[Tensor, "B 1"], Int[Tensor, "B 1"]]:
    """Positions that count in each row, and round(count * rate) of them (at least 1, the BOS boundary)."""
    length = (ids != PAD).sum(dim=1, keepdim=True)
    return length, (length * rate).round().long().clamp(min=1)


class EvenRule(Rule):
    """round(n * rate) evenly spaced boundaries in a row of n positions, the one on BOS included."""

    reads_length = True

    def __init__(self, target_rate: float) -> None:
        super().__init__()
        self.target_rate = target_rate

    def decide(self, byte_states: Float[Tensor, "B N d"], ids: Int[Tensor, "B N"], uniforms: Float[Tensor, "B N"]) -> Boundaries:
        """A boundary wherever floor(i * K / n) grows."""
        length, tokens = _tokens_per_row(ids, self.target_rate)
        i = torch.arange(ids.shape[1], device=ids.device)
        grows = (i * tokens) // length.clamp(min=1) != ((i - 1) * tokens) // length.clamp(min=1)
        return Boundaries(grows | first_position(ids))


class RandomKRule(Rule):
    """round(n * rate) boundaries in a row of n positions, the one on BOS included, the others anywhere with equal chance."""

    has_threshold = False  # it compares uniforms with each other, not with probabilities
    looks_ahead = "it compares the random numbers of the whole row"

    def __init__(self, target_rate: float) -> None:
        super().__init__()
        self.target_rate = target_rate

    def decide(self, byte_states: Float[Tensor, "B N d"], ids: Int[Tensor, "B N"], uniforms: Float[Tensor, "B N"]) -> Boundaries:
        """The positions of the K smallest uniforms, BOS first."""
        _, tokens = _tokens_per_row(ids, self.target_rate)
        order = torch.where(ids == PAD, 2.0, uniforms).masked_fill(first_position(ids), -1.0)
        rank = order.argsort(dim=1, stable=True).argsort(dim=1)
        return Boundaries(rank < tokens)
