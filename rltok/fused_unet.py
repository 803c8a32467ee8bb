"""One forward pass of the U-Net on the fast path: what `AutoregressiveUNet.forward` computes, through `rltok.fused`."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from rltok import fused
from rltok.rules import Boundaries, LearnedRule, Rule
from rltok.vocab import PAD


def _byte_readers(model: nn.Module, byte_states: Tensor, targets: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
    """Byte states that take the place of those given, loss of the early head (14), terms of the policy (21) or None."""
    rule, head, never = model.rule, model.early_head, model.never_predicted
    if model.config.head_norm == "none":
        return byte_states, fused.head_nll(byte_states, head, never, targets, PAD), None
    learned = isinstance(rule, LearnedRule) and len(rule.project.weight) <= fused.MOST_TERMS
    project = rule.project.weight if learned else head.weight[:0]
    norms = (model.early_norm, rule.norm if learned else model.early_norm)
    byte_states, unit, terms = fused.read_bytes(byte_states, norms, project)
    return byte_states, fused.head_nll(unit, head, never, targets, PAD, model.early_norm), terms if learned else None


def _through_tokens(model: nn.Module, byte_states: Tensor, decided: Boundaries) -> Tensor:
    """Eqs. (3) to (5); rules that pool in their own way do it as on the plain path."""
    rule = model.rule
    if type(rule).downsample is not Rule.downsample or type(rule).upsample is not Rule.upsample:
        return rule.upsample(model.mid(rule.downsample(byte_states, decided)), byte_states, decided)
    segments = fused.Segments(decided.boundaries)
    byte_states, packed = segments.select(byte_states)
    return segments.add(byte_states, model.mid(packed))


def _nll(model: nn.Module, byte_states: Tensor, decided: Boundaries, targets: Tensor) -> Tensor:
    """Eqs. (3) to (6) and the loss of each byte."""
    config = model.config
    upsampled = _through_tokens(model, byte_states, decided).to(torch.float32)
    following = None if config.head_norm == "none" else model.output_norm
    attend = fused.window_attend(config.window, config.attention_softcap, config.rope_theta)
    decoded, normed = fused.blocks(model.up_blocks, upsampled, attend, following)
    return fused.head_nll(decoded if normed is None else normed, model.output_head, model.never_predicted, targets, PAD)


def fused_pass(
    model: nn.Module,
    ids: Int[Tensor, "B N_plus_1"],
    uniforms: Float[Tensor, "B N"] | None,
    boundaries: Bool[Tensor, "B N"] | None,
) -> tuple[Float[Tensor, "B N"], Float[Tensor, "B N"], Boundaries]:
    """nll and early_nll of `UNetOutput`, and what the rule decided; arguments as in `AutoregressiveUNet.forward`."""
    targets = ids[:, 1:]
    byte_states, early_nll, terms = _byte_readers(model, model.encode(ids[:, :-1]), targets)
    decided = model.decide(byte_states, ids, uniforms=uniforms, boundaries=boundaries, terms=terms)
    return _nll(model, byte_states, decided, targets), early_nll, decided


def fused_given(model: nn.Module, ids: Int[Tensor, "B N_plus_1"], boundaries: Bool[Tensor, "B N"]) -> Float[Tensor, "B N"]:
    """What `AutoregressiveUNet.given_nll` computes."""
    return _nll(model, model.encode(ids[:, :-1]), Boundaries(boundaries), ids[:, 1:])
