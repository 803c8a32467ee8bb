"""Boundaries after words, recognised by the bytes alone (SpaceByte, Slagle 2024)."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from rltok.rules.base import Boundaries, Rule, first_position
from rltok.vocab import BOS, EOS, PADDED_IDS


def _table() -> Tensor:
    spacelike = torch.ones(PADDED_IDS, dtype=torch.bool)
    for byte in range(256):
        spacelike[byte] = not (chr(byte).isascii() and chr(byte).isalnum()) and byte & 0b1100_0000 != 0b1000_0000
    return spacelike


_SPACELIKE = _table()
assert _SPACELIKE[[BOS, EOS]].all()  # ends of text


class WhitespaceRule(Rule):
    """A boundary on the first of consecutive spacelike bytes, visible when the byte after it is predicted.

        a_i = s(x_i) and not s(x_{i-1}),    a_0 = 1

    s: the byte is no ASCII letter, no digit, and no continuation byte of UTF-8; so white space, punctuation, control
    codes and the first byte of every character beyond ASCII. BOS and EOS count as spacelike. This is where SpaceByte puts
    its global blocks. Causal, without parameters and without rate control: the rate is what the text gives, and
    `target_rate` is not looked at. White space alone would leave scripts that write none without tokens.
    """

    sees = 2

    def spacelike(self, ids: Int[Tensor, "B N"]) -> Bool[Tensor, "B N"]:
        """s of each id."""
        return _SPACELIKE.to(ids.device)[ids]

    def decide(self, byte_states: Float[Tensor, "B N d"], ids: Int[Tensor, "B N"], uniforms: Float[Tensor, "B N"]) -> Boundaries:
        """Look at each id and the one before it."""
        spacelike = self.spacelike(ids)
        follows = torch.nn.functional.pad(spacelike[:, :-1], (1, 0), value=False)
        return Boundaries((spacelike & ~follows) | first_position(ids))
