"""What early head and policy read of the byte states, in one pass: the unit-norm state in 16 bits, and its products with a few
vectors in fp32.

One program handles a few whole rows. The backward pass also takes the gradient that reaches the byte states on their other
way, through the token level, and hands on the sum. Weights of norms are folded into head and vectors by the caller.
"""

from typing import no_type_check

import torch
import triton
import triton.language as tl
from torch import Tensor

SHAPE = {"ROWS": 2, "num_warps": 1}  # a warp holds whole rows: sums stay inside it


@triton.jit(do_not_specialize=["rows"])
@no_type_check
def _norm_readout_forward(
    x_ptr, vectors_ptr, unit_ptr, terms_ptr, rows, width, eps, TERMS: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    row = (tl.program_id(0) * ROWS + tl.arange(0, ROWS)).to(tl.int64)
    column = tl.arange(0, BLOCK)
    inside = (row < rows)[:, None] & (column < width)[None, :]
    place = row[:, None] * width + column[None, :]
    x = tl.load(x_ptr + place, mask=inside, other=0.0).to(tl.float32)
    unit = x * (1.0 / tl.sqrt_rn(tl.sum(x * x, axis=1) / width + eps))[:, None]
    tl.store(unit_ptr + place, unit.to(unit_ptr.dtype.element_ty), mask=inside)
    for term in tl.static_range(TERMS):
        vector = tl.load(vectors_ptr + term * width + column, mask=column < width, other=0.0)
        tl.store(terms_ptr + row * TERMS + term, tl.sum(unit * vector[None, :], axis=1), mask=row < rows)


@triton.jit(do_not_specialize=["rows"])
@no_type_check
def _norm_readout_backward(
    x_ptr, vectors_ptr, dpassed_ptr, dunit_ptr, dterms_ptr, dx_ptr, rows, width, eps, TERMS: tl.constexpr,
    ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    row = (tl.program_id(0) * ROWS + tl.arange(0, ROWS)).to(tl.int64)
    column = tl.arange(0, BLOCK)
    inside = (row < rows)[:, None] & (column < width)[None, :]
    place = row[:, None] * width + column[None, :]
    x = tl.load(x_ptr + place, mask=inside, other=0.0).to(tl.float32)
    slope = tl.load(dunit_ptr + place, mask=inside, other=0.0).to(tl.float32)
    passed = tl.load(dpassed_ptr + place, mask=inside, other=0.0).to(tl.float32)
    for term in tl.static_range(TERMS):
        vector = tl.load(vectors_ptr + term * width + column, mask=column < width, other=0.0)
        dterm = tl.load(dterms_ptr + row * TERMS + term, mask=row < rows, other=0.0)
        slope += dterm[:, None] * vector[None, :]
    factor = 1.0 / tl.sqrt_rn(tl.sum(x * x, axis=1) / width + eps)
    unit = x * factor[:, None]
    dx = passed + factor[:, None] * (slope - unit * (tl.sum(slope * unit, axis=1) / width)[:, None])
    tl.store(dx_ptr + place, dx.to(dx_ptr.dtype.element_ty), mask=inside)


class _Readout(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, vectors, eps, kind):
        x, vectors, width = x.contiguous(), vectors.contiguous(), x.shape[-1]
        rows, block = x.numel() // width, triton.next_power_of_2(width)
        ctx.shape = {"TERMS": len(vectors), **SHAPE, "BLOCK": block}
        unit, terms = torch.empty_like(x, dtype=kind), x.new_empty(*x.shape[:-1], len(vectors), dtype=torch.float32)
        grid = (triton.cdiv(rows, ctx.shape["ROWS"]),)
        _norm_readout_forward[grid](x, vectors, unit, terms, rows, width, eps, **ctx.shape)
        ctx.save_for_backward(x, vectors, unit)
        ctx.eps = eps
        return x.view_as(x), unit, terms

    @staticmethod
    def backward(ctx, dpassed, dunit, dterms):
        x, vectors, unit = ctx.saved_tensors
        width, dx, dterms = x.shape[-1], torch.empty_like(x), dterms.contiguous()
        rows = x.numel() // width
        _norm_readout_backward[(triton.cdiv(rows, ctx.shape["ROWS"]),)](
            x, vectors, dpassed.contiguous(), dunit.contiguous(), dterms, dx, rows, width, ctx.eps, **ctx.shape
        )
        narrow = dterms.view(rows, len(vectors)).to(unit.dtype)
        return dx, (narrow.t() @ unit.view(rows, width)).to(vectors.dtype), None, None


def readout(x: Tensor, vectors: Tensor, eps: float, kind: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
    """(x, x / rms(x) in 16 bits, its products with `vectors` [terms, d] in fp32); the returned x must take the place of x."""
    return _Readout.apply(x, vectors, eps, kind)
