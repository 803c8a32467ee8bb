"""From bytes to tokens and back (eqs. 7 to 9): select the boundary positions, distribute the tokens, add.

    byte_states [B, N, d] --downsample--> Packed.states [M, d] ... mid ... --upsample--> [B, N, d]

Rows have different numbers of tokens, so the token level is packed: the rows' tokens stand one after the other, and
`offsets` says where each row starts. Nothing is padded.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int, Real
from torch import Tensor


@dataclass(frozen=True)
class Packed:
    """Tokens of all rows, one row after the other."""

    states: Float[Tensor, "M d"]
    offsets: Int[Tensor, " rows_plus_one"]  # row b holds states[offsets[b] : offsets[b + 1]]
    positions: Real[Tensor, " M"]  # of each token among the bytes: its boundary, or a mean of its bytes' positions


def row_offsets(boundaries: Bool[Tensor, "B N"]) -> Int[Tensor, " rows_plus_one"]:
    """Where each row's tokens start in the packed list, and at the end how many there are."""
    counts = boundaries.sum(dim=1)
    return torch.cat([counts.new_zeros(1), counts.cumsum(0)])


def downsample(byte_states: Float[Tensor, "B N d"], boundaries: Bool[Tensor, "B N"]) -> Packed:
    """Select the states at boundary positions, in order, eqs. (7) and (8): X'_j = X_i, i the j-th position with a_i = 1."""
    rows, positions = boundaries.nonzero(as_tuple=True)
    return Packed(byte_states[rows, positions], row_offsets(boundaries), positions)


def latest_token(boundaries: Bool[Tensor, "B N"], offsets: Int[Tensor, " rows_plus_one"]) -> Int[Tensor, "B N"]:
    """Packed index of the latest token at or before each byte: c(j) - 1 of eq. (9), moved to where its row starts."""
    return boundaries.long().cumsum(dim=1) - 1 + offsets[:-1, None]


def upsample(
    token_states: Float[Tensor, "M d"], byte_states: Float[Tensor, "B N d"], boundaries: Bool[Tensor, "B N"]
) -> Float[Tensor, "B N d"]:
    """Add to every byte the latest token at or before it, eq. (9): Y_j = X_j + Y'_{c(j)}.

    Needs a boundary at position 0 of every row, so that each byte has such a token.
    """
    return byte_states + token_states[latest_token(boundaries, row_offsets(boundaries))]
