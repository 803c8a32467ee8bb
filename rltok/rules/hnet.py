"""H-Net's dynamic chunking (Hwang et al. 2025): a boundary where a byte state is unlike the one before it.

    byte_states --cosine of neighbours--> gates p --p > 1/2--> boundaries --select--> mid --smooth, distribute--> bytes

Nothing is drawn. The loss reaches the router through the smoothing of the tokens, which mixes each with those before it as
the gates say, and through a factor of 1 whose gradient is that of the gate.
"""

from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

import rltok.resample as resample
from rltok.config import ModelConfig
from rltok.losses import mean_over
from rltok.rules.base import Boundaries, Rule, drawn_positions, settings_of

LEAST_GATE = 1e-4  # gates of the smoothing stay this far from 0 and 1


def dissimilarity(
    byte_states: Float[Tensor, "B N d"], query: Float[Tensor, "d d"], key: Float[Tensor, "d d"]
) -> Float[Tensor, "B N"]:
    """Gates p_t = (1 - cos(W_q X_{t-1}, W_k X_t)) / 2, p_0 = 1; the cosine in fp32 or wider."""
    before, here = F.linear(byte_states[:, :-1], query), F.linear(byte_states[:, 1:], key)
    wide = torch.promote_types(before.dtype, torch.float32)
    gates = ((1 - F.cosine_similarity(before.to(wide), here.to(wide), dim=-1)) / 2).clamp(0, 1)
    return torch.cat([gates.new_ones(len(gates), 1), gates], dim=1)


def ratio_loss(
    gates: Float[Tensor, "B N"], boundaries: Bool[Tensor, "B N"], target_rate: float, mask: Bool[Tensor, "B N"]
) -> Float[Tensor, ""]:
    """N / (N - 1) * ((N - 1) F G + (1 - F) (1 - G)): F share of boundaries, G mean gate, N = 1 / target_rate bytes a token.

    1 at the target. Only G has a gradient, N / (N - 1) * (N F - 1): gates fall while there are too many boundaries.
    """
    bytes_per_token = 1 / target_rate
    share, mean = mean_over(boundaries.to(gates.dtype), mask), mean_over(gates, mask)
    both = (bytes_per_token - 1) * share * mean + (1 - share) * (1 - mean)
    return bytes_per_token / (bytes_per_token - 1) * both


def _scan(decay: Tensor, values: Tensor, longest: int) -> Tensor:
    """z_k = values_k + decay_k z_{k-1} by doubling: after the step of width s each z_k holds its last 2 s terms."""
    step = 1
    while step < min(longest, len(values)):
        values = torch.cat([values[:step], torch.addcmul(values[step:], decay[step:, None], values[:-step])])
        decay = torch.cat([decay[:step], decay[step:] * decay[:-step]])
        step *= 2
    return values


class _Recurrence(torch.autograd.Function):
    """z_k = values_k + decay_k z_{k-1}. Keeps z and the decays only; the gradient is the same recurrence from the end."""

    @staticmethod
    def forward(ctx: Any, decay: Tensor, values: Tensor, longest: int) -> Tensor:
        """Decays [M], 0 wherever a row starts; values [M, d]; a bound on the length of a row."""
        states = _scan(decay, values, longest)
        ctx.save_for_backward(decay, states)
        ctx.longest = longest
        return states

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None]:
        """g_k + decay_{k+1} (g_{k+1} + ...) for the values; times z_{k-1} for the decays."""
        decay, states = ctx.saved_tensors
        following = torch.cat([decay[1:], decay.new_zeros(1)])
        to_values = _scan(following.flip(0), gradient.flip(0), ctx.longest).flip(0)
        to_decay = torch.cat([decay.new_zeros(1), (to_values[1:] * states[:-1]).sum(dim=1)])
        return to_decay, to_values, None


def smooth_tokens(
    token_states: Float[Tensor, "M d"], gates: Float[Tensor, " M"], offsets: Int[Tensor, " rows_plus_one"], longest: int
) -> Float[Tensor, "M d"]:
    """Moving average over the tokens of each row: z_k = p_k h_k + (1 - p_k) z_{k-1}, z = h at the first token.

    Every row holds a token. The work is log2(longest) passes over all tokens, the memory that of two copies of them, and any
    gates will do: those of prescribed boundaries may be below 1/2, where the average remembers for long.

    Args:
        token_states: h, after `mid`.
        gates: p of each token's boundary; kept inside 0.0001 .. 0.9999.
        offsets: where rows start.
        longest: at least the number of tokens in any row.
    """
    wide = torch.promote_types(token_states.dtype, gates.dtype)
    first = torch.zeros_like(gates, dtype=torch.bool).index_fill(0, offsets[:-1], True)
    p = torch.where(first, 1.0, gates.clamp(LEAST_GATE, 1 - LEAST_GATE)).to(wide)
    return _Recurrence.apply(1 - p, p[:, None] * token_states.to(wide), longest)


def confidence(gates: Float[Tensor, "B N"], boundaries: Bool[Tensor, "B N"]) -> Float[Tensor, "B N"]:
    """The factor 1 with the gradient of c_t: p_t at a boundary, 1 - p_t elsewhere."""
    chosen = torch.where(boundaries, gates, 1 - gates)
    return 1 + (chosen - chosen.detach())


class HNetRule(Rule):
    """Deterministic boundaries between byte states that point in different directions.

    `faithful`: bytes keep their own states through a linear layer in fp32 that starts at 0, so that at first the decoder sees
    tokens only. `port`: what the paper's authors compared with; byte states are added as they are. In both the moving average
    stands (`smooth="none"` drops it), and the outer layers are this package's, not H-Net's state space model; its learning
    rates per stage are left out.

    Neighbouring embeddings are nearly orthogonal in the beginning, which alone would make gates of 1/2 and a boundary at about
    every second byte. Behind this package's byte layers neighbours are alike (a cosine of 0.3 in `tiny_hnet`, 0.6 in
    `32m_hnet`), so training begins with hardly any boundary; the ratio loss then raises the rate, beyond one half for a while
    in `tiny_hnet_port`. An update with a boundary at every second byte fits on one H100 in presets of 32M to 147M
    (notebooks/results/memory.json).

    Args:
        embedding_dim: d of the byte states.
        target_rate: wanted boundaries per byte, of the ratio loss.
        variant: "faithful" or "port".
        smooth: "ema" or "none".
        ratio_weight: weight of the ratio loss.
    """

    sees = 2

    def __init__(self, embedding_dim: int, *, target_rate: float, variant: str, smooth: str, ratio_weight: float) -> None:
        super().__init__()
        self.target_rate, self.ratio_weight = target_rate, ratio_weight
        self.faithful, self.smooths = variant == "faithful", smooth == "ema"
        # plain parameters, not linear layers: `initialise` gives new weights to those, and these starts are part of the method
        self.query, self.key = nn.Parameter(torch.eye(embedding_dim)), nn.Parameter(torch.eye(embedding_dim))
        if self.faithful:
            self.residual = nn.Parameter(torch.zeros(embedding_dim, embedding_dim))
            self.residual_bias = nn.Parameter(nn.Linear(embedding_dim, 1).weight[0].detach().clone())  # as a linear layer's bias

    @classmethod
    def for_model(cls, model: ModelConfig) -> Rule:
        """Sized for the model."""
        return cls(model.embedding_dim, **settings_of(model))

    def decide(self, byte_states: Float[Tensor, "B N d"], ids: Int[Tensor, "B N"], uniforms: Float[Tensor, "B N"]) -> Boundaries:
        """A boundary wherever the gate is above 1/2; a tie is none. The uniforms are not used."""
        gates, drawn = dissimilarity(byte_states, self.query, self.key), drawn_positions(ids)
        boundaries = gates > 0.5
        loss = ratio_loss(gates, boundaries, self.target_rate, drawn)
        return Boundaries(boundaries, soft=gates, aux_loss=self.ratio_weight * loss)

    def prescribed(self, byte_states: Float[Tensor, "B N d"], boundaries: Bool[Tensor, "B N"]) -> Boundaries:
        """Boundaries made elsewhere with the router's own gates, which smooth as they would; no loss of its own."""
        return Boundaries(boundaries, soft=dissimilarity(byte_states, self.query, self.key))

    def settle(self, token_states: Float[Tensor, "M d"], decided: Boundaries) -> Float[Tensor, "M d"]:
        """Moving averages of the tokens of each row."""
        if not self.smooths:
            return token_states
        boundaries = decided.boundaries
        return smooth_tokens(token_states, decided.soft[boundaries], resample.row_offsets(boundaries), boundaries.shape[1])

    def upsample(
        self, token_states: Float[Tensor, "M d"], byte_states: Float[Tensor, "B N d"], decided: Boundaries
    ) -> Float[Tensor, "B N d"]:
        """Smooth, give each byte the latest token, multiply by the confidence, add the byte's own state."""
        boundaries = decided.boundaries
        settled = self.settle(token_states, decided)
        distributed = settled[resample.latest_token(boundaries, resample.row_offsets(boundaries))]
        return self._own(byte_states) + confidence(decided.soft, boundaries)[..., None] * distributed

    def _own(self, byte_states: Tensor) -> Tensor:
        if not self.faithful:
            return byte_states
        wide = byte_states.to(torch.promote_types(byte_states.dtype, torch.float32))
        with torch.autocast(wide.device.type, enabled=False):
            return F.linear(wide, self.residual, self.residual_bias)
