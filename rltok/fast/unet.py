"""The U-Net on the fast path: what `AutoregressiveUNet` computes, through `rltok.fast.blocks`."""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from rltok.fast import blocks
from rltok.kernels import backends
from rltok.layers import RMSNorm
from rltok.resample import Packed
from rltok.rules import Boundaries, Rule
from rltok.rules.learned import LearnedRule
from rltok.unet import AutoregressiveUNet
from rltok.vocab import PAD


class FastUNet(AutoregressiveUNet):
    """`AutoregressiveUNet` that runs Triton kernels where `backends.fused` allows them, and its base's code elsewhere.

    Each call decides anew, so `backends.use` and RLTOK_BACKEND hold for a model that is there already. Weights and their
    names are those of the base: a checkpoint of either loads into the other.
    """

    def _fused(self) -> bool:
        """Whether this call takes the kernels, whose weights are in fp32, as training has them."""
        weight = self.embedding.weight
        return weight.dtype == torch.float32 and backends.fused(weight, self.config.head_dim)

    def _rounded(self) -> bool:
        """Whether byte layers take the plain code: the kernel of windows knows how far two positions are apart, not where they
        are, so it has no rounded ones."""
        return self.config.rotary_positions == "bf16"

    def _window_attend(self) -> blocks.Attend:
        return blocks.window_attend(self.config.window, self.config.attention_softcap, self.config.rope_theta)

    def _byte_layers(self, parts: nn.ModuleList, states: Float[Tensor, "B N d"]) -> Float[Tensor, "B N d"]:
        if not self._fused() or self._rounded():
            return super()._byte_layers(parts, states)
        return blocks.blocks(parts, states, self._window_attend())[0]

    def _token_layers(self, packed: Packed, rotary: tuple[Tensor, Tensor]) -> Float[Tensor, "M d"]:
        if not self._fused():
            return super()._token_layers(packed, rotary)
        attend = blocks.row_causal_attend(packed.offsets, rotary, self.config.attention_softcap)
        return blocks.blocks(self.mid_blocks, packed.states, attend)[0]

    def _both_nll(
        self, ids: Tensor, uniforms: Tensor | None, boundaries: Tensor | None
    ) -> tuple[Tensor, Tensor, Boundaries, Tensor]:  # fmt: skip
        if not self._fused():
            return super()._both_nll(ids, uniforms, boundaries)
        byte_states, early_nll, terms = self._encode_and_read(ids)
        decided = self.decide(byte_states, ids, uniforms=uniforms, boundaries=boundaries, terms=terms)
        return self._output_nll(byte_states, decided, ids[:, 1:]), early_nll, decided, byte_states

    def _encode_and_read(self, ids: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        """Byte states (1), loss of the early head (14), terms of the policy (21) or None where the rule makes them itself."""
        rule, head, never, inputs, targets = self.rule, self.early_head, self.never_predicted, ids[:, :-1], ids[:, 1:]
        if self._rounded() or not isinstance(self.early_norm, RMSNorm):
            byte_states = self.encode(inputs)
            return byte_states, blocks.head_nll(self.early_norm(byte_states), head, never, targets, PAD), None
        read = _reads_terms(rule, self.early_norm.eps)
        vectors = rule.vectors() * (1 + rule.norm.weight) if read else head.weight[:0]
        embedded, attend = F.embedding(inputs, blocks.stream(self.embedding.weight)), self._window_attend()
        byte_states, unit, terms = blocks.blocks_and_readers(self.down_blocks, embedded, attend, vectors)
        folded = head.weight * (1 + self.early_norm.weight)
        early_nll, terms = blocks.early_nll_and_terms(unit, terms, folded, vectors, never, targets, PAD)
        return byte_states, early_nll, terms if read else None

    def _output_nll(self, byte_states: Tensor, decided: Boundaries, targets: Tensor) -> Tensor:
        if not self._fused():
            return super()._output_nll(byte_states, decided, targets)
        upsampled = self._through_tokens(byte_states, decided)
        if self._rounded():
            normed = self.output_norm(self.decode(upsampled))
            return blocks.head_nll(normed, self.output_head, self.never_predicted, targets, PAD)
        following = self.output_norm if isinstance(self.output_norm, RMSNorm) else None
        decoded, normed = blocks.blocks(self.up_blocks, upsampled, self._window_attend(), following)
        return blocks.head_nll(decoded if normed is None else normed, self.output_head, self.never_predicted, targets, PAD)

    def _through_tokens(self, byte_states: Tensor, decided: Boundaries) -> Tensor:
        """Eqs. (3) to (5); rules that pool in their own way do it as on the plain path."""
        rule = self.rule
        if type(rule).downsample is not Rule.downsample or type(rule).upsample is not Rule.upsample:
            return rule.upsample(self.mid(rule.downsample(byte_states, decided)), byte_states, decided)
        segments = blocks.Segments(decided.boundaries)
        byte_states, packed = segments.select(byte_states)
        return segments.add(byte_states, self.mid(packed))


def _reads_terms(rule: Rule, eps: float) -> bool:
    """Whether the terms of eq. (21) can be summed where the byte states are normed: no rule of the user's, same norm, not too
    many."""
    if type(rule) is not LearnedRule or type(rule.project) is not nn.Linear or rule.project.bias is not None:
        return False
    return len(rule.project.weight) <= blocks.MOST_TERMS and isinstance(rule.norm, RMSNorm) and rule.norm.eps == eps
