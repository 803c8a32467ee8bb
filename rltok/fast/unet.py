"""One forward pass of the U-Net on the fast path: what `AutoregressiveUNet.forward` computes, through `rltok.fast.blocks`."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from rltok.fast import blocks
from rltok.layers import RMSNorm
from rltok.rules import Boundaries, LearnedRule, Rule
from rltok.vocab import PAD


def _read_terms(rule: Rule, eps: float) -> bool:
    """Whether the terms of eq. (21) can be summed where the byte states are normed: no rule of the user's, same norm, not too
    many."""
    if type(rule) is not LearnedRule or type(rule.project) is not nn.Linear or rule.project.bias is not None:
        return False
    return len(rule.project.weight) <= blocks.MOST_TERMS and isinstance(rule.norm, RMSNorm) and rule.norm.eps == eps


def _encode_and_read(model: nn.Module, ids: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
    """Byte states (1), loss of the early head (14), terms of the policy (21) or None where the rule makes them itself."""
    rule, head, never, inputs, targets = model.rule, model.early_head, model.never_predicted, ids[:, :-1], ids[:, 1:]
    if not isinstance(model.early_norm, RMSNorm):
        byte_states = model.encode(inputs)
        return byte_states, blocks.head_nll(byte_states, head, never, targets, PAD), None
    read = _read_terms(rule, model.early_norm.eps)
    vectors = rule.project.weight * (1 + rule.norm.weight) if read else head.weight[:0]
    embedded, attend = model.embedding(inputs), _window_attend(model)
    byte_states, unit, terms = blocks.blocks_and_readers(model.down_blocks, embedded, attend, vectors)
    folded = head.weight * (1 + model.early_norm.weight)
    early_nll, terms = blocks.early_nll_and_terms(unit, terms, folded, vectors, never, targets, PAD)
    return byte_states, early_nll, terms if read else None


def _window_attend(model: nn.Module) -> blocks.Attend:
    config = model.config
    return blocks.window_attend(config.window, config.attention_softcap, config.rope_theta)


def _through_tokens(model: nn.Module, byte_states: Tensor, decided: Boundaries) -> Tensor:
    """Eqs. (3) to (5); rules that pool in their own way do it as on the plain path."""
    rule = model.rule
    if type(rule).downsample is not Rule.downsample or type(rule).upsample is not Rule.upsample:
        return rule.upsample(model.mid(rule.downsample(byte_states, decided)), byte_states, decided)
    segments = blocks.Segments(decided.boundaries)
    byte_states, packed = segments.select(byte_states)
    return segments.add(byte_states, model.mid(packed))


def _nll(model: nn.Module, byte_states: Tensor, decided: Boundaries, targets: Tensor) -> Tensor:
    """Eqs. (3) to (6) and the loss of each byte."""
    upsampled = _through_tokens(model, byte_states, decided).to(torch.float32)
    following = model.output_norm if isinstance(model.output_norm, RMSNorm) else None
    decoded, normed = blocks.blocks(model.up_blocks, upsampled, _window_attend(model), following)
    return blocks.head_nll(decoded if normed is None else normed, model.output_head, model.never_predicted, targets, PAD)


def fused_pass(
    model: nn.Module,
    ids: Int[Tensor, "B N_plus_1"],
    uniforms: Float[Tensor, "B N"] | None,
    boundaries: Bool[Tensor, "B N"] | None,
) -> tuple[Float[Tensor, "B N"], Float[Tensor, "B N"], Boundaries]:
    """nll and early_nll of `UNetOutput`, and what the rule decided; arguments as in `AutoregressiveUNet.forward`."""
    targets = ids[:, 1:]
    byte_states, early_nll, terms = _encode_and_read(model, ids)
    decided = model.decide(byte_states, ids, uniforms=uniforms, boundaries=boundaries, terms=terms)
    return _nll(model, byte_states, decided, targets), early_nll, decided


def fused_given(model: nn.Module, ids: Int[Tensor, "B N_plus_1"], boundaries: Bool[Tensor, "B N"]) -> Float[Tensor, "B N"]:
    """What `AutoregressiveUNet.given_nll` computes."""
    return _nll(model, model.encode(ids[:, :-1]), Boundaries(boundaries), ids[:, 1:])
