"""FlexAttention (`torch.nn.attention.flex_attention`): the two attentions as a rule about pairs, which torch makes a kernel of.

For comparison with the other backends on a CUDA card with Triton. Compiled once there, which takes a minute; on the CPU it
runs without compilation, slowly, and forward only.
"""

import functools
import warnings
from collections.abc import Callable

import torch
from torch import Tensor

Pairs = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]  # row of the batch, head, query, key -> may it see it


@functools.cache
def _compiled() -> tuple[Callable, Callable]:
    """Attention and maker of block masks; torch takes a length for a variable once it has seen a second one."""
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention  # here, because it imports half of torch

    return torch.compile(flex_attention), torch.compile(create_block_mask)


def _attend(q: Tensor, k: Tensor, v: Tensor, sees: Pairs, softcap: float | None) -> Tensor:
    """q, k, v [B, H, N, D]."""
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    attend, make_mask = _compiled() if q.is_cuda else (flex_attention, create_block_mask)
    cap = None if softcap is None else lambda score, b, h, i, j: softcap * torch.tanh(score / softcap)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="flex_attention called without torch.compile")  # meant so on the CPU
        mask = make_mask(sees, None, None, q.shape[2], k.shape[2], device=q.device)
        return attend(q, k, v, score_mod=cap, block_mask=mask)


def window_flex(q: Tensor, k: Tensor, v: Tensor, window: int, softcap: float | None) -> Tensor:
    """q, k, v [B, N, H, D]; position i sees j with i - window < j <= i."""
    heads_first = (x.transpose(1, 2) for x in (q, k, v))
    return _attend(*heads_first, lambda b, h, i, j: (j <= i) & (i - j < window), softcap).transpose(1, 2)


def row_causal_flex(q: Tensor, k: Tensor, v: Tensor, rows: Tensor, softcap: float | None) -> Tensor:
    """q, k, v [M, H, D], one sequence of all packed rows; `rows` [M] numbers the row of each entry."""
    one_sequence = (x.transpose(0, 1)[None] for x in (q, k, v))
    return _attend(*one_sequence, lambda b, h, i, j: (j <= i) & (rows[i] == rows[j]), softcap)[0].transpose(0, 1)
