"""Cross-entropy over the few ids of a byte vocabulary: one pass over the logits forward, none backward.

One program handles one position. It has the whole row of logits in registers, so it writes, beside the loss, softmax - onehot:
the gradient by the logits up to the factor that arrives later. The policy's terms (21) are linear in the states that the early
head reads; their gradients stand beside those of the logits, so that the same two products carry both backward.
"""

from typing import no_type_check

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable


@triton.jit
@no_type_check
def _nll_forward(logits_ptr, mask_ptr, target_ptr, nll_ptr, slope_ptr, ids, ignored, BLOCK: tl.constexpr):
    row, column = tl.program_id(0).to(tl.int64), tl.arange(0, BLOCK)
    inside = column < ids
    target = tl.load(target_ptr + row)
    logits = tl.load(logits_ptr + row * ids + column, mask=inside, other=float("-inf")).to(tl.float32)
    logits += tl.load(mask_ptr + column, mask=inside, other=float("-inf"))
    top = tl.max(logits, axis=0)
    weights = tl.exp(logits - top)
    total = tl.sum(weights, axis=0)
    counts = target != ignored
    chosen = tl.sum(tl.where(column == target, logits, 0.0), axis=0)
    tl.store(nll_ptr + row, tl.where(counts, tl.log(total) + top - chosen, 0.0))
    slope = tl.where(counts, weights / total - tl.where(column == target, 1.0, 0.0), 0.0)
    tl.store(slope_ptr + row * ids + column, slope.to(slope_ptr.dtype.element_ty), mask=inside)


@triton.jit
@no_type_check
def _nll_scale(
    slope_ptr, by_ptr, dterms_ptr, out_ptr, ids, columns, TERMS: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    """Rows of gradients: by the logits, by the terms, zeros."""
    row, column = tl.program_id(0).to(tl.int64), tl.arange(0, BLOCK)
    slope = tl.load(slope_ptr + row * ids + column, mask=column < ids, other=0.0).to(tl.float32) * tl.load(by_ptr + row)
    if TERMS:
        of_term = (column >= ids) & (column < ids + TERMS)
        slope += tl.load(dterms_ptr + row * TERMS + column - ids, mask=of_term, other=0.0)
    tl.store(out_ptr + row * columns + column, slope.to(out_ptr.dtype.element_ty), mask=column < columns)


def _product(a: Tensor, b: Tensor) -> Tensor:
    """a @ b of 16-bit matrices, summed and returned in fp32."""
    if a.is_cuda:
        return torch.mm(a, b, out_dtype=torch.float32)
    return a.float() @ b.float()


class _HeadNll(torch.autograd.Function):
    @staticmethod
    def forward(ctx, states, weight, mask, targets, ignored, terms, vectors):
        narrow, ids = weight.to(states.dtype), weight.shape[0]
        flat = states.reshape(-1, states.shape[-1])
        logits = _product(flat, narrow.t())
        nll = logits.new_empty(targets.shape)
        slope = torch.empty_like(logits, dtype=states.dtype)
        block = triton.next_power_of_2(ids)
        _nll_forward[(len(flat),)](logits, mask, targets.contiguous(), nll, slope, ids, ignored, BLOCK=block, num_warps=2)
        ctx.save_for_backward(flat, narrow, slope, vectors)
        return nll, terms.view_as(terms)

    @staticmethod
    @once_differentiable
    def backward(ctx, dnll, dterms):
        flat, narrow, slope, vectors = ctx.saved_tensors
        ids, terms = slope.shape[1], len(vectors)
        columns = ids + 16 * triton.cdiv(terms, 16)  # products of odd widths are slow
        slopes = slope.new_empty(len(slope), columns)
        _nll_scale[(len(slope),)](
            slope, dnll.reshape(-1).contiguous(), dterms.contiguous(), slopes, ids, columns,
            TERMS=terms, BLOCK=triton.next_power_of_2(columns), num_warps=2,
        )  # fmt: skip
        if terms:
            narrow = torch.cat([narrow, vectors.to(narrow.dtype), narrow.new_zeros(columns - ids - terms, narrow.shape[1])])
        dstates, dweights = (slopes @ narrow).view(*dnll.shape, -1), _product(slopes.t(), flat)
        return dstates, dweights[:ids], None, None, None, None, dweights[ids : ids + terms]


def head_nll(states: Tensor, weight: Tensor, mask: Tensor, targets: Tensor, ignored: int) -> Tensor:
    """-log p(target) in nats and fp32 from normed 16-bit states [B, N, d] and a head's weight [ids, d]; 0 where ignored.

    Logits are sums of 16-bit products in fp32, plus mask [ids] (0 or -inf).
    """
    nothing = mask.new_empty(0)
    return _HeadNll.apply(states, weight, mask, targets, ignored, nothing, nothing.view(0, states.shape[-1]))[0]


def head_nll_and_terms(
    states: Tensor, weight: Tensor, mask: Tensor, targets: Tensor, ignored: int, terms: Tensor, vectors: Tensor
) -> tuple[Tensor, Tensor]:
    """(`head_nll`, terms): terms [B, N, T], computed already, have the gradient of states @ vectors.T, vectors [T, d].

    Gradients of terms are rounded to 16 bits on their way to states and vectors, like those of logits.
    """
    return _HeadNll.apply(states, weight, mask, targets, ignored, terms, vectors)
