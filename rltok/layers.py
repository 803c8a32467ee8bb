"""Building blocks of both levels, after Gemma 2: RMSNorm, rotary positions, GeGLU, a block with norms before and after.

    x -> x + norm(attention(norm(x))) -> x + norm(mlp(norm(x)))

A block treats positions one by one; only `attend`, which it is given, mixes them. So the same block serves byte rows
`[B, N, d]` and packed tokens `[M, d]`.
"""

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from jaxtyping import Float, Real
from torch import Tensor, nn

Attend = Callable[[Tensor, Tensor, Tensor], Tensor]


class RMSNorm(nn.Module):
    """Root-mean-square norm in fp32: x / sqrt(mean(x^2) + eps) * (1 + weight), weight starting at 0 (Gemma 2)."""

    def __init__(self, dim: int, eps: float) -> None:
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.zeros(dim))

    def forward(self, x: Float[Tensor, "... d"]) -> Float[Tensor, "... d"]:
        """Same shape and dtype as x."""
        wide = x.to(torch.promote_types(x.dtype, torch.float32))  # keeps float64 in tests, lifts bf16
        return F.rms_norm(wide, self.weight.shape, 1 + self.weight.to(wide.dtype), self.eps).to(x.dtype)


def rotary_table(
    positions: Real[Tensor, " *S"], head_dim: int, theta: float, dtype: torch.dtype = torch.float32
) -> tuple[Float[Tensor, "*S half"], Float[Tensor, "*S half"]]:
    """Cosine and sine of position * theta^(-2k / head_dim), k = 0 .. head_dim / 2 - 1.

    Angles are computed in float64 and stored in fp32 whatever the activations' dtype: in bf16 only 769 of the
    positions 0..4095 differ.
    """
    half = head_dim // 2
    frequencies = theta ** (-torch.arange(half, dtype=torch.float64, device=positions.device) / half)
    angles = positions.to(torch.float64)[..., None] * frequencies
    return angles.cos().to(dtype), angles.sin().to(dtype)


def apply_rotary(
    x: Float[Tensor, "... H D"], cos: Float[Tensor, "... half"], sin: Float[Tensor, "... half"]
) -> Float[Tensor, "... H D"]:
    """Rotate the pairs (x_k, x_{k + D/2}) by their angle; arithmetic in the table's precision, result in x's dtype."""
    first, second = x.to(cos.dtype).chunk(2, dim=-1)
    cos, sin = cos[..., None, :], sin[..., None, :]  # one table for all heads
    return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1).to(x.dtype)


class GeGLU(nn.Module):
    """Gated feed-forward layer: W_down(gelu(W_gate x) * W_up x)."""

    def __init__(self, dim: int, hidden: int) -> None:
        super().__init__()
        self.hidden = hidden
        self.gate_up = nn.Linear(dim, 2 * hidden, bias=False)
        self.down = nn.Linear(hidden, dim, bias=False)

    def forward(self, x: Float[Tensor, "... d"]) -> Float[Tensor, "... d"]:
        """Same shape as x."""
        gate, up = self.gate_up(x).chunk(2, dim=-1)
        return self.down(F.gelu(gate, approximate="tanh") * up)


class Block(nn.Module):
    """Transformer block with RMSNorm before and after attention and feed-forward layer."""

    def __init__(self, dim: int, num_heads: int, mlp_hidden: int, norm_eps: float) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.out = nn.Linear(dim, dim, bias=False)
        self.mlp = GeGLU(dim, mlp_hidden)
        self.pre_attention, self.post_attention = RMSNorm(dim, norm_eps), RMSNorm(dim, norm_eps)
        self.pre_mlp, self.post_mlp = RMSNorm(dim, norm_eps), RMSNorm(dim, norm_eps)

    def forward(self, x: Float[Tensor, "... d"], rotary: tuple[Tensor, Tensor], attend: Attend) -> Float[Tensor, "... d"]:
        """x of any leading shape; `rotary` is (cos, sin) for these positions; `attend(q, k, v)` takes `[..., H, D]`."""
        qkv = self.qkv(self.pre_attention(x)).unflatten(-1, (3, self.num_heads, -1))
        q, k, v = qkv.unbind(-3)
        mixed = attend(apply_rotary(q, *rotary), apply_rotary(k, *rotary), v)
        x = x + self.post_attention(self.out(mixed.flatten(-2)))
        return x + self.post_mlp(self.mlp(self.pre_mlp(x)))


def initialise(module: nn.Module) -> None:
    """Linear weights normal with variance 1 / (3 fan_in), embeddings normal with variance 1.

    The norms after each sublayer set the scale of what is added to the residual stream (1 per sublayer, as the
    embedding), so the scale of the weights decides only how fast they turn, not the size of the activations.
    """
    for part in module.modules():
        if isinstance(part, nn.Linear):
            nn.init.normal_(part.weight, std=1 / math.sqrt(3 * part.in_features))
        elif isinstance(part, nn.Embedding):
            nn.init.normal_(part.weight)
