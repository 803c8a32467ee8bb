"""The fast path: the same blocks and heads as in `layers` and `unet`, spelled with the Triton kernels.

Matrix products stay with torch; all else between them is one kernel: residual sum with the norm after and the norm before,
gated activation, rotation with attention, what early head and policy read. Inside bf16 autocast only, `backends.fused`.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from rltok.attention import row_numbers
from rltok.layers import RMSNorm
from rltok.resample import Packed, row_offsets

Attend = Callable[[Tensor], Tensor]  # qkv [..., 3, H, D], not yet rotated, -> [..., H, D]
MOST_TERMS = 17  # of the policy, that `read_bytes` takes along: 16 lags


def _kind(x: Tensor) -> torch.dtype:
    return torch.get_autocast_dtype(x.device.type)


def blocks(
    parts: nn.ModuleList, x: Float[Tensor, "*S d"], attend: Attend, following: RMSNorm | None = None
) -> tuple[Float[Tensor, "*S d"], Float[Tensor, "*S d"] | None]:
    """`layers.Block` after `layers.Block`; also the norm `following` of the last result, in 16 bits."""
    from rltok.kernels.geglu import geglu
    from rltok.kernels.norm import norm, residual_norm

    kind, eps = _kind(x), parts[0].pre_attention.eps
    y = norm(x, parts[0].pre_attention.weight, eps, kind)
    after = [block.pre_attention for block in parts[1:]] + [following]
    for block, next_norm in zip(parts, after, strict=True):
        qkv = block.qkv(y).unflatten(-1, (3, block.num_heads, -1))
        h = block.out(attend(qkv).flatten(-2))
        x, y = residual_norm(x, h, block.post_attention.weight, block.pre_mlp.weight, eps, kind)
        h = block.mlp.down(geglu(block.mlp.gate_up(y)))
        x, y = residual_norm(x, h, block.post_mlp.weight, None if next_norm is None else next_norm.weight, eps, kind)
    return x, y


def window_attend(window: int, softcap: float | None, theta: float) -> Attend:
    """`attention.window_attention` of byte rows [B, N, 3, H, D], positions counted from the start of the row."""
    from rltok.kernels.window import window_attention

    return lambda qkv: window_attention(qkv, window=window, softcap=softcap, theta=theta)


def row_causal_attend(offsets: Int[Tensor, " rows_plus_one"], rotary: tuple[Tensor, Tensor], softcap: float | None) -> Attend:
    """`attention.row_causal_attention` of packed tokens [M, 3, H, D]."""
    from rltok.kernels.row_causal import row_causal_attention

    rows = row_numbers(offsets, len(rotary[0]))
    start, end = offsets[rows].int(), offsets[rows + 1].int()
    return lambda qkv: row_causal_attention(qkv, start, end, rotary, softcap=softcap)


def read_bytes(
    byte_states: Float[Tensor, "B N d"], norms: tuple[RMSNorm, RMSNorm], project: Float[Tensor, "terms d"]
) -> tuple[Float[Tensor, "B N d"], Float[Tensor, "B N d"], Float[Tensor, "B N terms"]]:
    """(byte states that take the place of those given, what the early head reads before its norm's weight, terms of eq. (21)).

    Args:
        byte_states: X of eq. (1).
        norms: of the early head, whose weight is left to `head_nll`, and of the policy.
        project: W_0, ..., W_w.
    """
    from rltok.kernels.readout import readout

    return readout(byte_states, project * (1 + norms[1].weight), norms[0].eps, _kind(byte_states))


def head_nll(
    states: Float[Tensor, "B N d"], head: nn.Linear, never: Float[Tensor, " ids"], targets: Int[Tensor, "B N"], ignored: int,
    folded: nn.Module | None = None,
) -> Float[Tensor, "B N"]:  # fmt: skip
    """`losses.next_byte_nll` of a head's logits, from normed states in 16 bits.

    folded: a norm whose weight the states still lack; it goes into the head's.
    """
    from rltok.kernels.nll import head_nll as kernel

    weight = head.weight if folded is None else head.weight * (1 + folded.weight)
    return kernel(states.to(_kind(states)), weight, never, targets, ignored)


class Segments:
    """Which bytes each token owns, over all rows at once: every row begins with a boundary.

    `first` [M + 1]: flat position of each token's boundary, and B * N; `index` [B, N]: token of each byte. Asking how many
    tokens there are is the one place where a training step waits for the device: memory for them must be had.
    """

    def __init__(self, boundaries: Bool[Tensor, "B N"]) -> None:
        flat = boundaries.flatten()
        self.boundaries = boundaries
        self.first = F.pad(flat.nonzero()[:, 0], (0, 1), value=flat.numel()).int()
        self.index = (flat.cumsum(0) - 1).view_as(boundaries).int()

    def select(self, byte_states: Float[Tensor, "B N d"]) -> tuple[Float[Tensor, "B N d"], Packed]:
        """`resample.downsample`, and the byte states that take the place of those given."""
        from rltok.kernels.segment import select_tokens

        byte_states, tokens = select_tokens(byte_states, self.index, self.first)
        return byte_states, Packed(tokens, row_offsets(self.boundaries), self.first[:-1].long() % self.boundaries.shape[1])

    def add(self, byte_states: Float[Tensor, "B N d"], token_states: Float[Tensor, "M d"]) -> Float[Tensor, "B N d"]:
        """`resample.upsample`."""
        from rltok.kernels.segment import add_tokens

        return add_tokens(byte_states, token_states, self.index, self.first)
