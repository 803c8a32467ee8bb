"""Boundaries where words end, read off the bytes: what a policy that knew the lexicon would draw."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from rltok.rules.base import Boundaries, Rule, first_position
from rltok.toy.lexicon import NO_WORD, Lexicon


class OracleRule(Rule):
    """A boundary on the last byte of every word, visible when the next word's first byte is predicted.

    Causal, because no word begins another: the end of a word is known from the bytes up to it. Rows begin with a word.
    """

    def __init__(self, lexicon: Lexicon) -> None:
        super().__init__()
        self.lexicon = lexicon

    def decide(self, byte_states: Float[Tensor, "B N d"], ids: Int[Tensor, "B N"], uniforms: Float[Tensor, "B N"]) -> Boundaries:
        """Follow the words from the byte after BOS on."""
        ended = torch.from_numpy(self.lexicon.follow(ids[:, 1:].cpu().numpy()) != NO_WORD).to(ids.device)
        return Boundaries(torch.nn.functional.pad(ended, (1, 0), value=False) | first_position(ids))
