"""The U-Net with its token level in place: slow and plain, the reference of the packed layout.

Token layers run at every byte position, and attention is masked so that only boundary positions can be seen. What stands
elsewhere is computed and never used. All shapes are the same whatever the boundaries are, so a change of one byte leaves
everything before it equal to the last bit; in the packed layout the number of tokens decides the shapes of the matrix
products, and another shape may round differently.

How bytes become tokens and back is the rule's business in both layouts, so they agree for rules that average or smooth too.
"""

import torch
from jaxtyping import Bool, Float, Int, Real
from torch import Tensor

from rltok.attention import masked_attention
from rltok.losses import next_byte_nll
from rltok.unet import AutoregressiveUNet


def token_states_in_place(
    model: AutoregressiveUNet,
    tokens: Float[Tensor, "B N d"],
    boundaries: Bool[Tensor, "B N"],
    positions: Real[Tensor, "B N"],
) -> Float[Tensor, "B N d"]:
    """Token states Y' of eq. (4) from X', both at boundary positions (elsewhere: not used), as are the tokens' positions."""
    config, order = model.config, torch.arange(boundaries.shape[1], device=boundaries.device)
    index = boundaries.long().cumsum(dim=1) - 1
    rotary = model.rotary(index if config.token_positions == "index" else positions, tokens.dtype)
    visible = boundaries[:, None, None, :] & (order[:, None] >= order[None, :])  # B 1 N N

    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        heads_first = (x.transpose(1, 2) for x in (q, k, v))
        return masked_attention(*heads_first, visible, config.attention_softcap).transpose(1, 2)

    states = tokens
    for block in model.mid_blocks:
        states = block(states, rotary, attend)
    return states - tokens if config.upsample == "deviation" else states


def log_probs_in_place(
    model: AutoregressiveUNet, ids: Int[Tensor, "B N_plus_1"], boundaries: Bool[Tensor, "B N"]
) -> Float[Tensor, "B N ids"]:
    """Predictive log-probabilities of `model.log_probs` for given boundaries, by the plain layout."""
    byte_states = model.encode(ids[:, :-1])
    decided = model.rule.prescribed(byte_states, boundaries)
    places = boundaries.nonzero(as_tuple=True)
    packed = model.rule.downsample(byte_states, decided)
    tokens = byte_states.index_put(places, packed.states)
    positions = packed.positions.new_zeros(boundaries.shape).index_put(places, packed.positions)
    token_states = token_states_in_place(model, tokens, boundaries, positions)
    upsampled = model.rule.upsample(token_states[places], byte_states, decided)
    return model.output_logits(model.decode(upsampled)).log_softmax(dim=-1)


def nll_in_place(
    model: AutoregressiveUNet, ids: Int[Tensor, "B N_plus_1"], boundaries: Bool[Tensor, "B N"]
) -> Float[Tensor, "B N"]:
    """`model(ids, boundaries=boundaries).nll` by the plain layout, in nats."""
    return next_byte_nll(log_probs_in_place(model, ids, boundaries), ids[:, 1:])
