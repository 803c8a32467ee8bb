"""Dynamic pooling (Nawrot et al. 2023): gates drawn from a relaxed Bernoulli, groups of bytes averaged into tokens.

    byte_states --MLP--> logits --uniforms, temperature--> soft gates --> hard gates, with the gradient of the soft ones

A boundary byte closes its group, and every byte reads the latest group that is closed, the one it closes included. The loss
reaches the gates through the weights of the averages.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

import rltok.resample as resample
from rltok.config import ModelConfig
from rltok.errors import RltokError
from rltok.layers import RMSNorm
from rltok.losses import target_rate_loss
from rltok.ranks import batch_sum
from rltok.resample import Packed
from rltok.rules.base import Boundaries, Rule, drawn_positions, first_position, settings_of


def noisy_logits(
    logits: Float[Tensor, "B N"], uniforms: Float[Tensor, "B N"], temperature: float
) -> Float[Tensor, "B N"]:  # fmt: skip
    """Logits of the soft gates of a draw: (l + log(1 - u) - log(u)) / temperature, positive where u < sigmoid(l)."""
    u = uniforms.to(logits.dtype).clamp(min=torch.finfo(logits.dtype).tiny)  # u = 0 is a sure boundary without infinities
    return (logits + torch.log1p(-u) - u.log()) / temperature


def relaxed_bernoulli(
    logits: Float[Tensor, "B N"], uniforms: Float[Tensor, "B N"], temperature: float
) -> tuple[Bool[Tensor, "B N"], Float[Tensor, "B N"]]:
    """Hard gates of a draw, u < sigmoid(l), and soft ones, the sigmoid of `noisy_logits`.

    The hard ones are the sign of those logits: a soft gate of a high temperature may round to 1/2 on either side of it.
    """
    noisy = noisy_logits(logits, uniforms, temperature)
    return noisy > 0, torch.sigmoid(noisy)


def straight_through(hard: Bool[Tensor, "B N"], soft: Float[Tensor, "B N"]) -> Float[Tensor, "B N"]:
    """The values of `hard`, to the bit, with the gradient of `soft`."""
    return hard.to(soft.dtype) + (soft - soft.detach())


def membership(gates: Float[Tensor, "B N"]) -> Float[Tensor, "B N"]:
    """Weight of each byte in the average of its group: 1, with the gradient 1 for each earlier gate of the row.

        w_l = 1 + sum_{k < l} (a_k - detach(a_k))

    The original writes 1 - (s - sum_{k < l} a_k) in a dense matrix of bytes and groups s, and sets to 0 what is not 1. Sums
    are taken in the precision of the gates, which is fp32 or wider: bf16 cannot count beyond 256.
    """
    before = gates.cumsum(dim=1) - gates
    return 1 + (before - before.detach())


def group_means(
    byte_states: Float[Tensor, "B N d"], boundaries: Bool[Tensor, "B N"], weights: Float[Tensor, "B N"]
) -> Float[Tensor, "M d"]:
    """Weighted mean over each group: sum_l w_l X_l / sum_l w_l, l from after one boundary to the next, that one included.

    Bytes after the last boundary of a row belong to no token. Needs a boundary at position 0, which is a group of its own.
    """
    earlier = boundaries.long().cumsum(dim=1) - boundaries.long()  # boundaries strictly before each byte
    offsets = resample.row_offsets(boundaries)
    closed = earlier < offsets.diff()[:, None]
    group = (earlier + offsets[:-1, None])[closed]
    w = weights[closed]
    total = int(boundaries.sum())
    sums = byte_states.new_zeros(total, byte_states.shape[-1]).to(w.dtype).index_add(0, group, w[:, None] * byte_states[closed])
    return sums / w.new_zeros(total).index_add(0, group, w)[:, None]


def group_centres(boundaries: Bool[Tensor, "B N"]) -> Float[Tensor, " M"]:
    """Mean position of the bytes of each group of `group_means`, in fp64: half-way between its first byte and its boundary."""
    last = boundaries.nonzero(as_tuple=True)[1].double()
    before = torch.cat([last.new_full((1,), -1.0), last[:-1]])
    return (torch.where(last == 0, -1.0, before) + 1 + last) / 2


def binomial_prior_loss(gates: Float[Tensor, "B N"], target_rate: float, mask: Bool[Tensor, "B N"]) -> Float[Tensor, ""]:
    """- log Binomial(k; n, target_rate) of each row's number k of boundaries among n, summed over rows, per position.

    The original averages over rows of equal length and divides by it, which is the same. Its gradient with respect to every
    gate of a row is equal: digamma(k + 1) - digamma(n - k + 1) - logit(target_rate), over all positions.
    """
    n = mask.sum(dim=1).to(gates.dtype)
    k = torch.where(mask, gates, 0.0).sum(dim=1)
    ways = torch.lgamma(n + 1) - torch.lgamma(k + 1) - torch.lgamma(n - k + 1)
    rate = gates.new_tensor(target_rate)
    return -batch_sum((ways + k * rate.log() + (n - k) * torch.log1p(-rate)).sum()) / batch_sum(n.sum()).clamp(min=1)


class DynamicPoolingRule(Rule):
    """Gates from a two-layer perceptron, drawn in training and evaluation alike; tokens are means of groups.

    `faithful`, as published: the forced boundary on BOS yields a learned null group, which bytes before the first drawn boundary
    read; GELU in the perceptron; LayerNorm after pooling; binomial prior; a token's rotary position is the byte that closes its
    group, where the original has relative positions. Gates start at 1/2, so early batches have about 2.5 times as many tokens.

    `authors`, what the paper's authors compared with. As in their code: ReLU in the perceptron; no norm after pooling, no null
    group; the pressure of eq. (24) in place of the prior, on the noisy gates, whose mean it holds near the target and not the
    mean probability; a token's rotary position is the mean of the positions of its bytes. Not as there: BOS is a forced
    boundary and a group of its own, and stays out of the pressure; rotary positions are not rounded to bf16; the rest of the
    network, such as the norm before the perceptron, follows the settings of the model.

    Args:
        embedding_dim: d of the byte states, and width of the hidden layer, which is that of the byte-level blocks.
        target_rate: wanted boundaries per byte, of prior or pressure.
        variant: "faithful" or "authors".
        temperature: of the relaxed Bernoulli.
        prior_weight: weight of prior or pressure in the loss.
        norm_eps: of the RMSNorm before the perceptron; None leaves the norm out.
    """

    sees = 1

    def __init__(
        self,
        embedding_dim: int,
        *,
        target_rate: float,
        variant: str,
        temperature: float,
        prior_weight: float,
        norm_eps: float | None,
    ) -> None:
        super().__init__()
        self.target_rate, self.faithful = target_rate, variant == "faithful"
        self.temperature, self.prior_weight = temperature, prior_weight
        self.norm = nn.Identity() if norm_eps is None else RMSNorm(embedding_dim, norm_eps)
        self.hidden, self.gate = nn.Linear(embedding_dim, embedding_dim), nn.Linear(embedding_dim, 1)
        if self.faithful:
            self.null_group = nn.Parameter(torch.randn(embedding_dim))
            self.pooled_norm = nn.LayerNorm(embedding_dim)

    @classmethod
    def for_model(cls, model: ModelConfig) -> Rule:
        """Sized for the model; without a norm where its heads have none.

        Raises:
            RltokError: the variant `port`, which only records and checkpoints of earlier versions name.
        """
        if model.rule.variant == "port":
            raise RltokError(
                "model.rule.variant='port' of dynamic_pooling (GELU, pressure on noise-free logits) is gone from this version."
                " Train with 'authors', as the presets *_dynamic_pooling_port do, or use the version that wrote the checkpoint."
            )
        return cls(model.embedding_dim, norm_eps=model.policy_norm_eps, **settings_of(model))

    def logits(self, byte_states: Float[Tensor, "B N d"]) -> Float[Tensor, "B N"]:
        """Logit of a boundary at each byte; its last product in fp32 or wider even under autocast."""
        hidden = (F.gelu if self.faithful else F.relu)(self.hidden(self.norm(byte_states)))
        wide = hidden.to(torch.promote_types(hidden.dtype, torch.float32))
        with torch.autocast(wide.device.type, enabled=False):
            return self.gate(wide)[..., 0]

    def decide(self, byte_states: Float[Tensor, "B N d"], ids: Int[Tensor, "B N"], uniforms: Float[Tensor, "B N"]) -> Boundaries:
        """Hard and soft gates from the uniforms, forced on BOS."""
        logits, drawn = self.logits(byte_states), drawn_positions(ids)
        forced = first_position(ids)
        hard, soft = relaxed_bernoulli(logits, uniforms, self.temperature)
        soft = torch.where(drawn, soft, forced.to(logits.dtype))
        boundaries = (hard & drawn) | forced
        if self.faithful:
            loss = binomial_prior_loss(straight_through(boundaries, soft), self.target_rate, drawn)
        else:
            loss = target_rate_loss(noisy_logits(logits, uniforms, self.temperature), self.target_rate, drawn)
        return Boundaries(boundaries, soft=soft, aux_loss=self.prior_weight * loss)

    def prescribed(self, byte_states: Float[Tensor, "B N d"], boundaries: Bool[Tensor, "B N"]) -> Boundaries:
        """Boundaries made elsewhere, with the probabilities as gates, since no noise belongs to them; no loss of its own."""
        chances = torch.sigmoid(self.logits(byte_states))
        return Boundaries(boundaries, soft=torch.where(first_position(boundaries), 1.0, chances))

    def downsample(self, byte_states: Float[Tensor, "B N d"], decided: Boundaries) -> Packed:
        """One token a closed group: the mean of its bytes; the gates receive their gradient here."""
        boundaries = decided.boundaries
        means = group_means(byte_states, boundaries, membership(straight_through(boundaries, decided.soft)))
        if not self.faithful:
            return Packed(means, resample.row_offsets(boundaries), group_centres(boundaries))
        positions = boundaries.nonzero(as_tuple=True)[1]
        means = self.pooled_norm(torch.where((positions == 0)[:, None], self.null_group, means))
        return Packed(means, resample.row_offsets(boundaries), positions)
