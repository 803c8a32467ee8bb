"""The fast path: the same blocks and heads as in `layers` and `unet`, spelled with the Triton kernels.

Matrix products stay with torch; all else between them is one kernel: residual sum with the norm after and the norm before,
gated activation, rotation with attention, what early head and policy read. Inside bf16 autocast only, `backends.fused`. The
residual stream is in autocast's 16 bits, too: sums are computed in fp32 and rounded once a sublayer.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from rltok.attention import row_numbers
from rltok.kernels import LARGEST_CAP
from rltok.layers import RMSNorm
from rltok.resample import Packed, row_offsets

Attend = Callable[[Tensor], Tensor]  # qkv [..., 3, H, D], not yet rotated, -> [..., H, D]
MOST_TERMS = 17  # of the policy, that `blocks_and_readers` takes along: 16 lags


def _felt(softcap: float | None) -> float | None:
    return None if softcap is None or softcap > LARGEST_CAP else softcap


def _kind(x: Tensor) -> torch.dtype:
    return torch.get_autocast_dtype(x.device.type)


def stream(x: Float[Tensor, "*S d"]) -> Float[Tensor, "*S d"]:
    """x as the residual stream has it, in autocast's 16 bits: half the bytes for a kernel to move."""
    return x.to(_kind(x))


def _until_the_last_sum(parts: nn.ModuleList, x: Tensor, attend: Attend) -> tuple[Tensor, Tensor, RMSNorm]:
    """`layers.Block` after `layers.Block`, but for the last of their sums: (x, h, norm of h) whose x + norm(h) is missing."""
    from rltok.kernels.geglu import geglu
    from rltok.kernels.norm import norm, residual_norm

    x, kind, eps = stream(x), _kind(x), parts[0].pre_attention.eps
    y = norm(x, parts[0].pre_attention.weight, eps, kind)
    for block, following in zip(parts, [*parts[1:], None], strict=True):
        qkv = block.qkv(y).unflatten(-1, (3, block.num_heads, -1))
        h = block.out(attend(qkv).flatten(-2))
        x, y = residual_norm(x, h, block.post_attention.weight, block.pre_mlp.weight, eps, kind)
        h = block.mlp.down(geglu(block.mlp.gate_up(y)))
        if following is not None:
            x, y = residual_norm(x, h, block.post_mlp.weight, following.pre_attention.weight, eps, kind)
    return x, h, parts[-1].post_mlp


def blocks(
    parts: nn.ModuleList, x: Float[Tensor, "*S d"], attend: Attend, following: RMSNorm | None = None
) -> tuple[Float[Tensor, "*S d"], Float[Tensor, "*S d"] | None]:
    """`layers.Block` after `layers.Block`; also the norm `following` of the last result, in 16 bits."""
    from rltok.kernels.norm import residual_norm

    x, h, post = _until_the_last_sum(parts, x, attend)
    return residual_norm(x, h, post.weight, None if following is None else following.weight, post.eps, _kind(x))


def blocks_and_readers(
    parts: nn.ModuleList, x: Float[Tensor, "B N d"], attend: Attend, vectors: Float[Tensor, "terms d"]
) -> tuple[Float[Tensor, "B N d"], Float[Tensor, "B N d"], Float[Tensor, "B N terms"]]:
    """`blocks`, and what early head and policy read of the result: its RMS norm without a weight, in 16 bits, and the
    products of that norm with `vectors`, in fp32 and without gradient until `early_nll_and_terms` has seen them.
    """
    from rltok.kernels.norm import residual_readout

    x, h, post = _until_the_last_sum(parts, x, attend)
    return residual_readout(x, h, post.weight, vectors, post.eps, _kind(x))


def window_attend(window: int, softcap: float | None, theta: float) -> Attend:
    """`attention.window_attention` of byte rows [B, N, 3, H, D], positions counted from the start of the row."""
    from rltok.kernels.window import window_attention

    softcap = _felt(softcap)
    return lambda qkv: window_attention(qkv, window=window, softcap=softcap, theta=theta)


def row_causal_attend(offsets: Int[Tensor, " rows_plus_one"], rotary: tuple[Tensor, Tensor], softcap: float | None) -> Attend:
    """`attention.row_causal_attention` of packed tokens [M, 3, H, D]."""
    from rltok.kernels.row_causal import row_causal_attention

    softcap, rows = _felt(softcap), row_numbers(offsets, len(rotary[0]))
    start, end = offsets[rows].int(), offsets[rows + 1].int()
    return lambda qkv: row_causal_attention(qkv, start, end, rotary, softcap=softcap)


def head_nll(
    states: Float[Tensor, "B N d"], head: nn.Linear, never: Float[Tensor, " ids"], targets: Int[Tensor, "B N"], ignored: int
) -> Float[Tensor, "B N"]:
    """`losses.next_byte_nll` of a head's logits, from normed states in 16 bits."""
    from rltok.kernels.nll import head_nll as kernel

    return kernel(states.to(_kind(states)), head.weight, never, targets, ignored)


def early_nll_and_terms(
    unit: Float[Tensor, "B N d"], terms: Float[Tensor, "B N terms"], head: Float[Tensor, "ids d"],
    vectors: Float[Tensor, "terms d"], never: Float[Tensor, " ids"], targets: Int[Tensor, "B N"], ignored: int,
) -> tuple[Float[Tensor, "B N"], Float[Tensor, "B N terms"]]:  # fmt: skip
    """(`losses.next_byte_nll` of the early head's logits (14), terms of eq. (21)) from what `blocks_and_readers` gives.

    The readers' norms have the eps of the blocks; their weights are folded into `head` and `vectors` by the caller.
    """
    from rltok.kernels.nll import head_nll_and_terms

    return head_nll_and_terms(unit, head, never, targets, ignored, terms, vectors)


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
