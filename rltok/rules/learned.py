"""The paper's rule: a learned policy with a memory of its last decisions, eqs. (19) to (23)."""

import math

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from rltok.config import ModelConfig
from rltok.kernels import LARGEST_CAP, backends
from rltok.layers import RMSNorm
from rltok.policy import boundary_logits, next_boundary, sample_boundaries
from rltok.rules.base import Boundaries, Rule, settings_of
from rltok.rules.growing import GrowingRows


class LearnedRule(Rule):
    """Bernoulli decisions with logits linear in the byte state and in the last `lags` decisions.

    With a range of rates, which the paper has not, the policy has one more input, the rate that is wanted: eq. (22) has its logit
    as the bias, and one more vector says which places are worth a boundary only where there are many. At `target_rate` this is
    the paper's policy. Nothing else in the network sees the rate, but for the boundaries.

    Args:
        embedding_dim: d of the byte states.
        target_rate: boundaries per byte that the logits start from; its logit is the bias of eq. (22).
        lags: w of eq. (21).
        scale: D of eq. (22).
        softcap: c of eq. (23), applied in training mode only.
        norm_eps: of the RMSNorm before the projection; None leaves the norm out.
        lowest_rate, highest_rate: range of target rates to learn; None for `target_rate` alone, as in the paper.
    """

    def __init__(
        self, embedding_dim: int, *, target_rate: float, lags: int, scale: float, softcap: float | None, norm_eps: float | None,
        lowest_rate: float | None = None, highest_rate: float | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.take(target_rate, scale)
        self.middle = self.bias  # the rate at which W_r does nothing
        self.softcap = softcap
        self.norm = nn.Identity() if norm_eps is None else RMSNorm(embedding_dim, norm_eps)
        self.project = nn.Linear(embedding_dim, lags + 1, bias=False)
        if lowest_rate is not None:
            self.rates = lowest_rate, highest_rate
            self.of_rate = nn.Parameter(torch.zeros(embedding_dim))  # W_r

    @classmethod
    def for_model(cls, model: ModelConfig) -> Rule:
        """Sized for the model; without a norm where `head_norm` has none before the policy."""
        return cls(model.embedding_dim, norm_eps=model.policy_norm_eps, **settings_of(model))

    def _settings(self) -> dict[str, float | None]:
        return {"bias": self.bias, "scale": self.scale, "softcap": self.softcap if self.training else None}

    def take(self, target_rate: float, scale: float) -> None:
        """Have this rate, of which eq. (22) has the logit, and this D from now on."""
        self.rate, self.bias, self.scale = target_rate, math.log(target_rate / (1 - target_rate)), scale

    def use_rate(self, rate: float) -> None:
        """Draw at this rate from now on, in the range that was learned."""
        super().use_rate(rate)
        self.take(rate, self.scale)

    def vectors(self) -> Float[Tensor, "terms d"]:
        """W_0, ..., W_w of eq. (21); of a policy with a range of rates, W_0 + (logit(rate) - logit(target_rate)) W_r for W_0."""
        if self.rates is None:
            return self.project.weight
        first, *lagged = self.project.weight
        return torch.stack([first + (self.bias - self.middle) * self.of_rate, *lagged])

    def terms(self, byte_states: Float[Tensor, "B N d"]) -> Float[Tensor, "B N terms"]:
        """W_0 X, ..., W_w X of eq. (21) in one product, in fp32 or wider even under autocast."""
        wide = byte_states.to(torch.promote_types(byte_states.dtype, torch.float32))
        with torch.autocast(wide.device.type, enabled=False):
            normed = self.norm(wide)
            return self.project(normed) if self.rates is None else F.linear(normed, self.vectors())

    def logits(self, terms: Float[Tensor, "B N terms"], boundaries: Bool[Tensor, "B N"]) -> Float[Tensor, "B N"]:
        """Logits of given decisions from `terms`, eqs. (21) to (23)."""
        fits = terms.dtype == torch.float32 and (self.softcap or 0.0) <= LARGEST_CAP
        backend = "triton" if fits and backends.fused(terms) else "plain"
        return boundary_logits(terms, boundaries, **self._settings(), backend=backend)

    def decide(
        self, byte_states: Float[Tensor, "B N d"], ids: Int[Tensor, "B N"], uniforms: Float[Tensor, "B N"],
        terms: Float[Tensor, "B N terms"] | None = None,
    ) -> Boundaries:  # fmt: skip
        """Draw from left to right; the logits are those of the drawn string. `terms` of the byte states, if known already."""
        terms = self.terms(byte_states) if terms is None else terms
        boundaries = sample_boundaries(terms, uniforms, **self._settings())
        return Boundaries(boundaries, self.logits(terms, boundaries))

    def decide_newest(self, rows: GrowingRows) -> Boundaries:
        """Draw the newest decision of every row, given those before it, [B, 1]; without its logit."""
        terms = self.terms(rows.now(rows.byte_states)[:, None])[:, 0]
        earlier = rows.decisions_before(terms.shape[-1] - 1)
        return Boundaries(next_boundary(terms, earlier, rows.now(rows.uniforms), **self._settings())[:, None])

    def prescribed(
        self, byte_states: Float[Tensor, "B N d"], boundaries: Bool[Tensor, "B N"],
        terms: Float[Tensor, "B N terms"] | None = None,
    ) -> Boundaries:  # fmt: skip
        """Logits that the policy gives to decisions made elsewhere."""
        return Boundaries(boundaries, self.logits(self.terms(byte_states) if terms is None else terms, boundaries))
