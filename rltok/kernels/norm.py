"""RMS norms between residual stream and sublayers: x + norm(h) and the next norm in one pass over the row.

One program handles whole rows, which stay in registers between the two norms; in the backward pass it walks many rows, so
that the gradient of the weights is summed in registers and written once a program. After the last byte layer the second norm
is the one that early head and policy read: it has no weight, which the caller folds into what reads it, and the policy's
products with it are summed in fp32 while the row is there (TERMS of them). Their gradient is the business of `nll`.
"""

from typing import no_type_check

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

PROGRAMS = 132 * 8  # of the backward pass: eight for each multiprocessor of an H100


@triton.jit
@no_type_check
def _norm_factor(x, width, eps):
    return 1.0 / tl.sqrt_rn(tl.sum(x * x, axis=1) / width + eps)


@triton.jit
@no_type_check
def _norm_backward_row(x, factor, scaled, width):
    """Gradient of x * factor(x) with the gradient `scaled` of the result."""
    unit = x * factor[:, None]
    return factor[:, None] * (scaled - unit * (tl.sum(scaled * unit, axis=1) / width)[:, None])


@triton.jit(do_not_specialize=["rows"])
@no_type_check
def _norm_forward(x_ptr, weight_ptr, y_ptr, rows, width, eps, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    column = tl.arange(0, BLOCK)
    inside = (row < rows)[:, None] & (column < width)[None, :]
    place = row[:, None] * width + column[None, :]
    x = tl.load(x_ptr + place, mask=inside, other=0.0).to(tl.float32)
    weight = 1.0 + tl.load(weight_ptr + column, mask=column < width, other=0.0)
    y = x * _norm_factor(x, width, eps)[:, None] * weight[None, :]
    tl.store(y_ptr + place, y.to(y_ptr.dtype.element_ty), mask=inside)


@triton.jit(do_not_specialize=["rows"])
@no_type_check
def _norm_backward(
    x_ptr, weight_ptr, dy_ptr, dx_ptr, dweight_ptr, rows, width, eps, ROWS: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    column = tl.arange(0, BLOCK)
    weight = 1.0 + tl.load(weight_ptr + column, mask=column < width, other=0.0)
    dweight = tl.zeros((BLOCK,), tl.float32)
    for first in range(tl.program_id(0) * ROWS, rows, tl.num_programs(0) * ROWS):
        row = (first + tl.arange(0, ROWS)).to(tl.int64)
        inside = (row < rows)[:, None] & (column < width)[None, :]
        place = row[:, None] * width + column[None, :]
        x = tl.load(x_ptr + place, mask=inside, other=0.0).to(tl.float32)
        dy = tl.load(dy_ptr + place, mask=inside, other=0.0).to(tl.float32)
        factor = _norm_factor(x, width, eps)
        dweight += tl.sum(dy * x * factor[:, None], axis=0)
        dx = _norm_backward_row(x, factor, dy * weight[None, :], width)
        tl.store(dx_ptr + place, dx.to(dx_ptr.dtype.element_ty), mask=inside)
    tl.store(dweight_ptr + tl.program_id(0) * width + column, dweight, mask=column < width)


@triton.jit(do_not_specialize=["rows"])
@no_type_check
def _norm_residual_forward(
    x_ptr, h_ptr, post_ptr, pre_ptr, sum_ptr, y_ptr, vectors_ptr, terms_ptr, rows, width, eps, PRE: tl.constexpr,
    TERMS: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    column = tl.arange(0, BLOCK)
    inside = (row < rows)[:, None] & (column < width)[None, :]
    place = row[:, None] * width + column[None, :]
    x = tl.load(x_ptr + place, mask=inside, other=0.0).to(tl.float32)
    h = tl.load(h_ptr + place, mask=inside, other=0.0).to(tl.float32)
    post = 1.0 + tl.load(post_ptr + column, mask=column < width, other=0.0)
    x += h * _norm_factor(h, width, eps)[:, None] * post[None, :]
    tl.store(sum_ptr + place, x.to(sum_ptr.dtype.element_ty), mask=inside)
    if PRE:
        pre = 1.0 + tl.load(pre_ptr + column, mask=column < width, other=0.0)
        y = x * _norm_factor(x, width, eps)[:, None] * pre[None, :]
        tl.store(y_ptr + place, y.to(y_ptr.dtype.element_ty), mask=inside)
        for term in tl.static_range(TERMS):
            vector = tl.load(vectors_ptr + term * width + column, mask=column < width, other=0.0)
            tl.store(terms_ptr + row * TERMS + term, tl.sum(y * vector[None, :], axis=1), mask=row < rows)


@triton.jit(do_not_specialize=["rows"])
@no_type_check
def _norm_residual_backward(
    sum_ptr, h_ptr, post_ptr, pre_ptr, dsum_ptr, dy_ptr, dx_ptr, dh_ptr, dpost_ptr, dpre_ptr, rows, width, eps,
    PRE: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    column = tl.arange(0, BLOCK)
    post = 1.0 + tl.load(post_ptr + column, mask=column < width, other=0.0)
    dpost, dpre = tl.zeros((BLOCK,), tl.float32), tl.zeros((BLOCK,), tl.float32)
    for first in range(tl.program_id(0) * ROWS, rows, tl.num_programs(0) * ROWS):
        row = (first + tl.arange(0, ROWS)).to(tl.int64)
        inside = (row < rows)[:, None] & (column < width)[None, :]
        place = row[:, None] * width + column[None, :]
        dx = tl.load(dsum_ptr + place, mask=inside, other=0.0).to(tl.float32)
        h = tl.load(h_ptr + place, mask=inside, other=0.0).to(tl.float32)
        if PRE:
            x = tl.load(sum_ptr + place, mask=inside, other=0.0).to(tl.float32)
            dy = tl.load(dy_ptr + place, mask=inside, other=0.0).to(tl.float32)
            pre = 1.0 + tl.load(pre_ptr + column, mask=column < width, other=0.0)
            factor = _norm_factor(x, width, eps)
            dpre += tl.sum(dy * x * factor[:, None], axis=0)
            dx += _norm_backward_row(x, factor, dy * pre[None, :], width)
        tl.store(dx_ptr + place, dx.to(dx_ptr.dtype.element_ty), mask=inside)
        factor = _norm_factor(h, width, eps)
        dpost += tl.sum(dx * h * factor[:, None], axis=0)
        dh = _norm_backward_row(h, factor, dx * post[None, :], width)
        tl.store(dh_ptr + place, dh.to(dh_ptr.dtype.element_ty), mask=inside)
    tl.store(dpost_ptr + tl.program_id(0) * width + column, dpost, mask=column < width)
    if PRE:
        tl.store(dpre_ptr + tl.program_id(0) * width + column, dpre, mask=column < width)


def _shape(width: int, warps: int = 2) -> dict[str, int]:
    block = triton.next_power_of_2(width)
    return {"BLOCK": block, "ROWS": max(1, 2048 // block), "num_warps": warps}


def _programs(rows: int, shape: dict[str, int]) -> int:
    return min(PROGRAMS, triton.cdiv(rows, shape["ROWS"]))


class _Norm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, eps, kind):
        x, width = x.contiguous(), x.shape[-1]
        y, shape = torch.empty_like(x, dtype=kind), _shape(width)
        rows = x.numel() // width
        _norm_forward[(triton.cdiv(rows, shape["ROWS"]),)](x, weight, y, rows, width, eps, **shape)
        ctx.save_for_backward(x, weight)
        ctx.eps = eps
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx, dy):
        x, weight = ctx.saved_tensors
        width, shape = x.shape[-1], _shape(x.shape[-1])
        rows = x.numel() // width
        programs = _programs(rows, shape)
        dx, partial = torch.empty_like(x), x.new_empty(programs, width, dtype=torch.float32)
        _norm_backward[(programs,)](x, weight, dy.contiguous(), dx, partial, rows, width, ctx.eps, **shape)
        return dx, partial.sum(0), None, None


class _ResidualNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, h, post, pre, vectors, eps, kind):
        x, h, width, count = x.contiguous(), h.contiguous(), x.shape[-1], 0 if vectors is None else len(vectors)
        # products with vectors: one warp holds whole rows, so that their sums stay inside it
        added, shape, rows = torch.empty_like(x), _shape(width, 1 if count else 2), x.numel() // width
        y = None if pre is None else torch.empty_like(x, dtype=kind)
        terms = None if vectors is None else x.new_empty(*x.shape[:-1], count, dtype=torch.float32)
        _norm_residual_forward[(triton.cdiv(rows, shape["ROWS"]),)](
            x, h, post, post if pre is None else pre, added, added if y is None else y,
            post if vectors is None else vectors.contiguous(), added if terms is None else terms, rows, width, eps,
            PRE=pre is not None, TERMS=count, **shape,
        )  # fmt: skip
        ctx.save_for_backward(h, post, *(() if pre is None else (pre, added)))
        if terms is not None:
            ctx.mark_non_differentiable(terms)
        ctx.eps = eps
        return added, y, terms

    @staticmethod
    @once_differentiable
    def backward(ctx, dsum, dy, _):
        h, post, *rest = ctx.saved_tensors
        pre, added = rest or (None, None)
        width, shape, rows = h.shape[-1], _shape(h.shape[-1]), h.numel() // h.shape[-1]
        programs = _programs(rows, shape)
        dsum = dsum.contiguous()
        dx, dh = torch.empty_like(dsum), torch.empty_like(h)
        partial = h.new_empty(1 if pre is None else 2, programs, width, dtype=torch.float32)  # of post, then of pre
        _norm_residual_backward[(programs,)](
            h if pre is None else added, h, post, post if pre is None else pre, dsum, h if pre is None else dy.contiguous(),
            dx, dh, partial[0], partial[-1], rows, width, ctx.eps, PRE=pre is not None, **shape,
        )  # fmt: skip
        sums = partial.sum(1)
        return dx, dh, sums[0], None if pre is None else sums[1], None, None, None


def norm(x: Tensor, weight: Tensor, eps: float, kind: torch.dtype) -> Tensor:
    """RMSNorm of `layers.RMSNorm`, its result of dtype `kind`: x [..., d], weight [d] in fp32."""
    return _Norm.apply(x, weight, eps, kind)


def residual_norm(
    x: Tensor, h: Tensor, post: Tensor, pre: Tensor | None, eps: float, kind: torch.dtype
) -> tuple[Tensor, Tensor | None]:
    """(x + norm(h; post), norm of that sum; pre): the sum in x's dtype, its norm of dtype `kind`, or None without `pre`."""
    return _ResidualNorm.apply(x, h, post, pre, None, eps, kind)[:2]


def residual_readout(
    x: Tensor, h: Tensor, post: Tensor, vectors: Tensor, eps: float, kind: torch.dtype
) -> tuple[Tensor, Tensor, Tensor]:
    """(s, u, terms): s = x + norm(h; post), u = s / rms(s) of dtype `kind`, terms = its products with `vectors` [terms, d].

    The products take u before it is rounded, and are in fp32. They have no gradient here: `nll.head_nll_and_terms` gives it.
    """
    return _ResidualNorm.apply(x, h, post, torch.zeros_like(post), vectors, eps, kind)
