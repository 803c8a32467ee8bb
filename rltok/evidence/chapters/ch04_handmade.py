"""Policies written by hand into the weights of eq. (21): what it can express, exactly, and what it cannot.

    draw_every(model, k)         every k-th byte of any text: k - 1 lags suffice, and fewer do not (`stride_log_prob`)
    draw_on(model, ids)          a boundary on every byte of a set, such as white space
    read_out(rule, states, ...)  W_0 by least squares, from byte states and wanted decisions

A decision whose logit is `reach` or more in size falls as wanted, but for a probability of `slip_probability`. Uniforms in fp32
are multiples of 2^-24, whose logit is -16.64: beyond `CERTAIN` only a uniform of exactly 0 still decides, which always draws.
"""

import math
from collections.abc import Iterable

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from rltok.errors import RltokError
from rltok.layers import RMSNorm
from rltok.rules.learned import LearnedRule
from rltok.unet import AutoregressiveUNet
from rltok.vocab import BOS

CERTAIN = 17.0


def slip_probability(reach: float, softcap: float | None) -> float:
    """Probability that a decision with a logit of +-reach falls the other way: sigmoid(-reach), and under a cap never below
    sigmoid(-softcap), which is 0.0025 at 6."""
    logit = reach if softcap is None else softcap * math.tanh(reach / softcap)
    return 1 / (1 + math.exp(logit))


def _check_reach(reach: float) -> None:
    if not 0 < reach < math.inf:
        raise RltokError(f"reach is the size of a logit, greater than 0 and finite; got {reach}. Take {CERTAIN:g} to be certain.")


def _rule_of(model: AutoregressiveUNet) -> LearnedRule:
    if not isinstance(model.rule, LearnedRule):
        raise RltokError(
            f"weights of a policy can be set in the rule 'learned' only; this model has {type(model.rule).__name__}."
            " Make it with model.rule.name='learned'."
        )
    return model.rule


@torch.no_grad()
def carry_constant(model: AutoregressiveUNet) -> None:
    """Coordinate 0 of every byte state becomes 1 for any text: every embedding holds 1 there, and no byte block writes to it.

    The policy has no bias that it could train or gate by a lag; this is the constant that eq. (21) lacks.
    """
    model.embedding.weight[:, 0] = 1
    for block in model.down_blocks:
        for norm in (block.post_attention, block.post_mlp):
            norm.weight[0] = -1  # RMSNorm multiplies by 1 + weight, so exactly 0 is added


@torch.no_grad()
def keep_embeddings(model: AutoregressiveUNet) -> None:
    """Byte states become the embeddings, to the bit: no byte block before the token level adds anything."""
    for block in model.down_blocks:
        for norm in (block.post_attention, block.post_mlp):
            norm.weight.fill_(-1)


@torch.no_grad()
def largest_rms(model: AutoregressiveUNet) -> float:
    """A bound on the root mean square of any byte state of any text: that of the embeddings plus what each norm lets through."""
    bound = float(model.embedding.weight.square().mean(dim=1).sqrt().max())
    norms = [norm for block in model.down_blocks for norm in (block.post_attention, block.post_mlp)]
    return bound + sum(float((1 + norm.weight).abs().max()) for norm in norms)


@torch.no_grad()
def draw_every(model: AutoregressiveUNet, k: int, *, reach: float) -> None:
    """Set embeddings and policy so that a boundary falls on every k-th position of any text, counted from BOS.

        W_0 X_i = s_i,  W_j X_i = -2 s_i for j < k,  0 for later lags:  logit_i = +-s_i / D + bias,  s_i > 0

    positive exactly when none of the last k - 1 positions has a boundary. s_i differs with the text, for X is normed; it is
    chosen so that every logit is `reach` or more in size. A slip moves the later boundaries, k apart again.

    Raises:
        RltokError: k below 1, or above lags + 1.
    """
    _check_reach(reach)
    rule = _rule_of(model)
    most = len(rule.project.weight)  # lags + 1
    if k < 1:
        raise RltokError(f"k counts bytes from one boundary to the next, at least 1; got k={k}.")
    if k > most:
        raise RltokError(
            f"a policy with model.rule.lags={most - 1} draws every k-th byte for k from 1 to lags + 1 = {most}; got k={k}."
            f" Take lags={k - 1} or more: it must see the k - 1 decisions before."
        )
    carry_constant(model)
    largest = 1.0
    if isinstance(rule.norm, RMSNorm):
        rule.norm.weight[0] = 0
        largest = largest_rms(model) + math.sqrt(rule.norm.eps)
    strength = rule.scale * (reach + abs(rule.bias)) * largest
    rule.project.weight.zero_()
    rule.project.weight[0, 0] = strength
    rule.project.weight[1:k, 0] = -2 * strength


def stride_log_prob(k: int, decisions: int, lags: int, p: float) -> float:
    """Log-probability in nats that a policy draws exactly every k-th byte of constant text: `decisions` after the forced one.

    On constant text all byte states are equal, once BOS is out of reach, and the past is all that a policy sees. Up to `lags`
    positions after a boundary it knows where it is. Later ones look alike, and there it draws with one probability p: at
    k - lags positions of every stride, once rightly. So, for k > lags + 1 and n decisions, the probability is

        p^m (1 - p)^(u - m),   m = floor(n / k),   u = m (k - lags) + max(0, n - m k - lags)

    With lags 0 that is p^m (1 - p)^(n - m). For k <= lags + 1 it is 1, by `draw_every`.
    """
    drawn, alike = _counts(k, decisions, lags)
    powers = ((drawn, p), (alike - drawn, 1 - p))
    if k <= lags + 1 or any(times and not base for times, base in powers):
        return 0.0 if k <= lags + 1 else -math.inf
    return math.fsum(times * math.log(base) for times, base in powers if times)


def best_stride_log_prob(k: int, decisions: int, lags: int) -> tuple[float, float]:
    """(p, log-probability in nats): the p that makes `stride_log_prob` largest, m / u, and what it reaches.

    p is 1 for k <= lags + 1.
    """
    drawn, alike = _counts(k, decisions, lags)
    p = 1.0 if k <= lags + 1 else drawn / max(1, alike)
    return p, stride_log_prob(k, decisions, lags, p)


def _counts(k: int, decisions: int, lags: int) -> tuple[int, int]:
    """(boundaries of the stride, positions whose last `lags` decisions are all 0)."""
    if k < 1 or decisions < 0 or lags < 0:
        raise RltokError(f"k must be at least 1, decisions and lags at least 0; got k={k}, decisions={decisions}, lags={lags}.")
    drawn = decisions // k
    return drawn, drawn * (k - lags) + max(0, decisions - drawn * k - lags)


@torch.no_grad()
def read_out(rule: LearnedRule, byte_states: Float[Tensor, "M d"], wanted: Bool[Tensor, " M"], *, reach: float) -> None:
    """W_0 by least squares: logits of +reach where a boundary is wanted, else -reach; no lags.

    Exact where the normed states are linearly independent, for any `wanted`; else the shortest best fit, which may err.
    """
    normed = rule.norm(byte_states.double())
    target = rule.scale * (torch.where(wanted, reach, -reach).double() - rule.bias)
    rule.project.weight.zero_()
    rule.project.weight[0] = torch.linalg.pinv(normed) @ target


@torch.no_grad()
def draw_on(model: AutoregressiveUNet, ids: Iterable[int], *, reach: float) -> None:
    """Set byte layers and policy so that a boundary falls on exactly the bytes of a set, by W_0 alone.

    Byte states become embeddings (`keep_embeddings`), and W_0 reads from them which byte stands there: exactly, as random
    embeddings of the 256 bytes are linearly independent in 256 dimensions or more.

    Raises:
        RltokError: the embeddings do not allow it, or an id is no byte.
    """
    _check_reach(reach)
    rule, chosen = _rule_of(model), sorted(set(ids))
    if any(not 0 <= byte < BOS for byte in chosen):
        raise RltokError(f"draw_on takes bytes, from 0 to {BOS - 1}; got {[byte for byte in chosen if not 0 <= byte < BOS][0]}.")
    wanted = torch.zeros(BOS, dtype=torch.bool, device=model.embedding.weight.device)
    wanted[chosen] = True
    states, before = model.embedding.weight[:BOS], rule.project.weight.clone()
    read_out(rule, states, wanted, reach=reach)
    logits = rule.terms(states[None])[0, :, 0] / rule.scale + rule.bias
    weak = int((torch.where(wanted, logits, -logits) < 0.99 * reach).sum())
    if weak:
        rule.project.weight.copy_(before)
        raise RltokError(
            f"with model.embedding_dim={states.shape[1]} no linear read-out by least squares tells these {len(chosen)} bytes from"
            f" the rest: the logits of {weak} of {BOS} are smaller than reach={reach:g}, or of the wrong sign. Take embedding_dim"
            f" {BOS} or more."
        )
    keep_embeddings(model)
