"""RMS norms between residual stream and sublayers: x + norm(h) and the next norm in one pass over the row.

A program is one warp, and a row a tuple of tiles of BLOCK columns: 768 is 6 tiles, not 1024 columns, and sums over a row stay in
the warp. A row stays in registers between the two norms. In the backward pass a program walks many rows, the next on its way to
shared memory meanwhile; the gradient of the weights is summed in registers and written once a program. After the last byte layer
the second norm is the one that early head and policy read: it has no weight, which the caller folds into what reads it, and the
policy's products with it are summed in fp32 while the row is there (TERMS of them). Their gradient is the business of `nll`.
"""

from typing import no_type_check

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

PROGRAMS = 132 * 8  # of the backward pass: eight for each multiprocessor of an H100
BLOCK = 128  # four numbers a thread of one warp, in fp32 and in 16 bits alike


@triton.jit
@no_type_check
def _tiles(ptr, width, PARTS: tl.constexpr, BLOCK: tl.constexpr, WHOLE: tl.constexpr):
    """A row in fp32, as a tuple of PARTS tiles of BLOCK columns; WHOLE: none of them reaches beyond the row."""
    tiles = ()
    for part in tl.static_range(PARTS):
        column = part * BLOCK + tl.arange(0, BLOCK)
        if WHOLE:
            tiles += (tl.load(ptr + column).to(tl.float32),)
        else:
            tiles += (tl.load(ptr + column, mask=column < width, other=0.0).to(tl.float32),)
    return tiles


@triton.jit
@no_type_check
def _store_tiles(ptr, tiles, width, PARTS: tl.constexpr, BLOCK: tl.constexpr, WHOLE: tl.constexpr):
    for part in tl.static_range(PARTS):
        column = part * BLOCK + tl.arange(0, BLOCK)
        if WHOLE:
            tl.store(ptr + column, tiles[part].to(ptr.dtype.element_ty))
        else:
            tl.store(ptr + column, tiles[part].to(ptr.dtype.element_ty), mask=column < width)


@triton.jit
@no_type_check
def _zeros(PARTS: tl.constexpr, BLOCK: tl.constexpr):
    tiles = ()
    for _ in tl.static_range(PARTS):
        tiles += (tl.zeros((BLOCK,), tl.float32),)
    return tiles


@triton.jit
@no_type_check
def _added(x, y, PARTS: tl.constexpr):
    tiles = ()
    for part in tl.static_range(PARTS):
        tiles += (x[part] + y[part],)
    return tiles


@triton.jit
@no_type_check
def _inner(x, y, PARTS: tl.constexpr, BLOCK: tl.constexpr):
    products = tl.zeros((BLOCK,), tl.float32)
    for part in tl.static_range(PARTS):
        products += x[part] * y[part]
    return tl.sum(products, axis=0)


@triton.jit
@no_type_check
def _normed(x, weight, width, eps, PARTS: tl.constexpr, BLOCK: tl.constexpr):
    factor = 1.0 / tl.sqrt_rn(_inner(x, x, PARTS, BLOCK) / width + eps)
    tiles = ()
    for part in tl.static_range(PARTS):
        tiles += (x[part] * factor * (1.0 + weight[part]),)
    return tiles


@triton.jit
@no_type_check
def _both_sums(one, other, one_more, other_more):
    return one + one_more, other + other_more


@triton.jit
@no_type_check
def _norm_backward_row(x, dy, weight, dweight, width, eps, PARTS: tl.constexpr, BLOCK: tl.constexpr):
    """Gradient of `_normed` by x with the gradient dy of the result, and dweight with what this row adds.

    Both sums over the row are made at once: the gradient is f (dy w - x f^2 sum(x dy w) / width), with w = 1 + weight.
    """
    squares, slopes = tl.zeros((BLOCK,), tl.float32), tl.zeros((BLOCK,), tl.float32)
    for part in tl.static_range(PARTS):
        squares += x[part] * x[part]
        slopes += x[part] * dy[part] * (1.0 + weight[part])
    square, slope = tl.reduce((squares, slopes), 0, _both_sums)
    factor = 1.0 / tl.sqrt_rn(square / width + eps)
    slope *= factor * factor * factor / width
    dx, sums = (), ()
    for part in tl.static_range(PARTS):
        dx += (factor * (dy[part] * (1.0 + weight[part])) - slope * x[part],)
        sums += (dweight[part] + x[part] * dy[part] * factor,)
    return dx, sums


@triton.jit
@no_type_check
def _norm_forward(
    x_ptr, weight_ptr, y_ptr, width, eps, PARTS: tl.constexpr, BLOCK: tl.constexpr, WHOLE: tl.constexpr
):  # fmt: skip
    place = tl.program_id(0).to(tl.int64) * width
    x, weight = _tiles(x_ptr + place, width, PARTS, BLOCK, WHOLE), _tiles(weight_ptr, width, PARTS, BLOCK, WHOLE)
    _store_tiles(y_ptr + place, _normed(x, weight, width, eps, PARTS, BLOCK), width, PARTS, BLOCK, WHOLE)


@triton.jit(do_not_specialize=["rows"])
@no_type_check
def _norm_backward(
    x_ptr, weight_ptr, dy_ptr, dx_ptr, dweight_ptr, rows, width, eps, PARTS: tl.constexpr, BLOCK: tl.constexpr,
    WHOLE: tl.constexpr,
):  # fmt: skip
    weight, dweight = _tiles(weight_ptr, width, PARTS, BLOCK, WHOLE), _zeros(PARTS, BLOCK)
    for row in tl.range(tl.program_id(0), rows, tl.num_programs(0), num_stages=2):
        place = tl.cast(row, tl.int64) * width
        x, dy = _tiles(x_ptr + place, width, PARTS, BLOCK, WHOLE), _tiles(dy_ptr + place, width, PARTS, BLOCK, WHOLE)
        dx, dweight = _norm_backward_row(x, dy, weight, dweight, width, eps, PARTS, BLOCK)
        _store_tiles(dx_ptr + place, dx, width, PARTS, BLOCK, WHOLE)
    _store_tiles(dweight_ptr + tl.program_id(0) * width, dweight, width, PARTS, BLOCK, WHOLE)


@triton.jit
@no_type_check
def _norm_residual_forward(
    x_ptr, h_ptr, post_ptr, pre_ptr, sum_ptr, y_ptr, vectors_ptr, terms_ptr, width, eps, PRE: tl.constexpr,
    TERMS: tl.constexpr, PARTS: tl.constexpr, BLOCK: tl.constexpr, WHOLE: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    x = _tiles(x_ptr + row * width, width, PARTS, BLOCK, WHOLE)
    h = _tiles(h_ptr + row * width, width, PARTS, BLOCK, WHOLE)
    post = _tiles(post_ptr, width, PARTS, BLOCK, WHOLE)
    added = _added(x, _normed(h, post, width, eps, PARTS, BLOCK), PARTS)
    _store_tiles(sum_ptr + row * width, added, width, PARTS, BLOCK, WHOLE)
    if PRE:
        y = _normed(added, _tiles(pre_ptr, width, PARTS, BLOCK, WHOLE), width, eps, PARTS, BLOCK)
        _store_tiles(y_ptr + row * width, y, width, PARTS, BLOCK, WHOLE)
        for term in tl.static_range(TERMS):
            vector = _tiles(vectors_ptr + term * width, width, PARTS, BLOCK, WHOLE)
            tl.store(terms_ptr + row * TERMS + term, _inner(y, vector, PARTS, BLOCK))


@triton.jit(do_not_specialize=["rows"])
@no_type_check
def _norm_residual_backward(
    sum_ptr, h_ptr, post_ptr, pre_ptr, dsum_ptr, dy_ptr, dx_ptr, dh_ptr, dpost_ptr, dpre_ptr, rows, width, eps,
    PRE: tl.constexpr, PARTS: tl.constexpr, BLOCK: tl.constexpr, WHOLE: tl.constexpr,
):  # fmt: skip
    post, pre = _tiles(post_ptr, width, PARTS, BLOCK, WHOLE), _tiles(pre_ptr, width, PARTS, BLOCK, WHOLE)
    dpost, dpre = _zeros(PARTS, BLOCK), _zeros(PARTS, BLOCK)
    for row in tl.range(tl.program_id(0), rows, tl.num_programs(0), num_stages=2):
        place = tl.cast(row, tl.int64) * width
        dx = _tiles(dsum_ptr + place, width, PARTS, BLOCK, WHOLE)
        h = _tiles(h_ptr + place, width, PARTS, BLOCK, WHOLE)
        if PRE:
            x = _tiles(sum_ptr + place, width, PARTS, BLOCK, WHOLE)
            dy = _tiles(dy_ptr + place, width, PARTS, BLOCK, WHOLE)
            of_norm, dpre = _norm_backward_row(x, dy, pre, dpre, width, eps, PARTS, BLOCK)
            dx = _added(dx, of_norm, PARTS)
        _store_tiles(dx_ptr + place, dx, width, PARTS, BLOCK, WHOLE)
        dh, dpost = _norm_backward_row(h, dx, post, dpost, width, eps, PARTS, BLOCK)
        _store_tiles(dh_ptr + place, dh, width, PARTS, BLOCK, WHOLE)
    _store_tiles(dpost_ptr + tl.program_id(0) * width, dpost, width, PARTS, BLOCK, WHOLE)
    if PRE:
        _store_tiles(dpre_ptr + tl.program_id(0) * width, dpre, width, PARTS, BLOCK, WHOLE)


def _shape(width: int) -> dict[str, int]:
    parts = triton.cdiv(width, BLOCK)
    return {"PARTS": parts, "BLOCK": BLOCK, "WHOLE": parts * BLOCK == width, "num_warps": 1}


class _Norm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, eps, kind):
        x, width = x.contiguous(), x.shape[-1]
        y = torch.empty_like(x, dtype=kind)
        _norm_forward[(x.numel() // width,)](x, weight, y, width, eps, **_shape(width))
        ctx.save_for_backward(x, weight)
        ctx.eps = eps
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx, dy):
        x, weight = ctx.saved_tensors
        width, rows = x.shape[-1], x.numel() // x.shape[-1]
        programs = min(PROGRAMS, rows)
        dx, partial = torch.empty_like(x), x.new_empty(programs, width, dtype=torch.float32)
        _norm_backward[(programs,)](x, weight, dy.contiguous(), dx, partial, rows, width, ctx.eps, **_shape(width))
        return dx, partial.sum(0), None, None


class _ResidualNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, h, post, pre, vectors, eps, kind):
        x, h, width, count = x.contiguous(), h.contiguous(), x.shape[-1], 0 if vectors is None else len(vectors)
        added, y = torch.empty_like(x), None if pre is None else torch.empty_like(x, dtype=kind)
        terms = None if vectors is None else x.new_empty(*x.shape[:-1], count, dtype=torch.float32)
        _norm_residual_forward[(x.numel() // width,)](
            x, h, post, post if pre is None else pre, added, added if y is None else y,
            post if vectors is None else vectors.contiguous(), added if terms is None else terms, width, eps,
            PRE=pre is not None, TERMS=count, **_shape(width),
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
        width, rows = h.shape[-1], h.numel() // h.shape[-1]
        programs = min(PROGRAMS, rows)
        dsum = dsum.contiguous()
        dx, dh = torch.empty_like(dsum), torch.empty_like(h)
        partial = h.new_empty(1 if pre is None else 2, programs, width, dtype=torch.float32)  # of post, then of pre
        _norm_residual_backward[(programs,)](
            h if pre is None else added, h, post, post if pre is None else pre, dsum, h if pre is None else dy.contiguous(),
            dx, dh, partial[0], partial[-1], rows, width, ctx.eps, PRE=pre is not None, **_shape(width),
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
