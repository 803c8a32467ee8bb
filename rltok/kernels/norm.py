"""RMS norms between residual stream and sublayers: x + norm(h) and the next norm in one pass over the row.

One program handles whole rows, which stay in registers between the two norms; in the backward pass it walks many rows, so
that the gradient of the weights is summed in registers and written once a program. After the last byte layer the second norm
is the one that early head and policy read: it has no weight, which the caller folds into what reads it, and the policy's
products with it are summed in fp32 while the row is there (TERMS of them). Their gradient is the business of `nll`.
"""

from typing import Any, no_type_check

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

PROGRAMS = 132 * 8  # of the backward pass: eight for each multiprocessor of an H100

# Row by row in tiles of BLOCK columns, for widths that stand here; other widths take one tile, padded to a power of two.
# {768: {"BLOCK": 128, "num_warps": 1}}, and for the backward pass also "programs", "STAGES" and "LEAN" of its kernel.
FORWARD: dict[int, dict[str, int]] = {}
BACKWARD: dict[int, dict[str, int]] = {}


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
def _inner(x, y, PARTS: tl.constexpr, BLOCK: tl.constexpr):
    products = tl.zeros((BLOCK,), tl.float32)
    for part in tl.static_range(PARTS):
        products += x[part] * y[part]
    return tl.sum(products, axis=0)


@triton.jit
@no_type_check
def _norm_residual_forward_tiles(
    x_ptr, h_ptr, post_ptr, pre_ptr, sum_ptr, y_ptr, vectors_ptr, terms_ptr, width, eps, PRE: tl.constexpr,
    TERMS: tl.constexpr, PARTS: tl.constexpr, BLOCK: tl.constexpr, WHOLE: tl.constexpr,
):  # fmt: skip
    """`_norm_residual_forward` for one row a program."""
    row = tl.program_id(0).to(tl.int64)
    x = _tiles(x_ptr + row * width, width, PARTS, BLOCK, WHOLE)
    h = _tiles(h_ptr + row * width, width, PARTS, BLOCK, WHOLE)
    weight = _tiles(post_ptr, width, PARTS, BLOCK, WHOLE)
    factor = 1.0 / tl.sqrt_rn(_inner(h, h, PARTS, BLOCK) / width + eps)
    added = ()
    for part in tl.static_range(PARTS):
        added += (x[part] + h[part] * factor * (1.0 + weight[part]),)
    _store_tiles(sum_ptr + row * width, added, width, PARTS, BLOCK, WHOLE)
    if PRE:
        weight = _tiles(pre_ptr, width, PARTS, BLOCK, WHOLE)
        factor = 1.0 / tl.sqrt_rn(_inner(added, added, PARTS, BLOCK) / width + eps)
        y = ()
        for part in tl.static_range(PARTS):
            y += (added[part] * factor * (1.0 + weight[part]),)
        _store_tiles(y_ptr + row * width, y, width, PARTS, BLOCK, WHOLE)
        for term in tl.static_range(TERMS):
            vector = _tiles(vectors_ptr + term * width, width, PARTS, BLOCK, WHOLE)
            tl.store(terms_ptr + row * TERMS + term, _inner(y, vector, PARTS, BLOCK))


@triton.jit
@no_type_check
def _both_sums(one, other, one_more, other_more):
    return one + one_more, other + other_more


@triton.jit
@no_type_check
def _norm_backward_tiles(x, dy, weight, dweight, width, eps, PARTS: tl.constexpr, BLOCK: tl.constexpr):
    """Gradient of x * factor(x) * (1 + weight) with the gradient dy of the result, and dweight with what this row adds.

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


@triton.jit(do_not_specialize=["rows"])
@no_type_check
def _norm_residual_backward_tiles(
    sum_ptr, h_ptr, post_ptr, pre_ptr, dsum_ptr, dy_ptr, dx_ptr, dh_ptr, dpost_ptr, dpre_ptr, rows, width, eps,
    PRE: tl.constexpr, PARTS: tl.constexpr, BLOCK: tl.constexpr, WHOLE: tl.constexpr, STAGES: tl.constexpr, LEAN: tl.constexpr,
):  # fmt: skip
    """`_norm_residual_backward`, row by row; STAGES above 1: the next rows are on their way to shared memory meanwhile.

    LEAN needs fewer registers: h is read after the first store, and weights are read again for each row.
    """
    post, pre = _tiles(post_ptr, width, PARTS, BLOCK, WHOLE), _tiles(pre_ptr, width, PARTS, BLOCK, WHOLE)
    dpost, dpre = (), ()
    for _ in tl.static_range(PARTS):
        dpost += (tl.zeros((BLOCK,), tl.float32),)
        dpre += (tl.zeros((BLOCK,), tl.float32),)
    for row in tl.range(tl.program_id(0), rows, tl.num_programs(0), num_stages=STAGES):
        place = tl.cast(row, tl.int64) * width
        dx = _tiles(dsum_ptr + place, width, PARTS, BLOCK, WHOLE)
        if not LEAN:
            h = _tiles(h_ptr + place, width, PARTS, BLOCK, WHOLE)
        if PRE:
            x = _tiles(sum_ptr + place, width, PARTS, BLOCK, WHOLE)
            dy = _tiles(dy_ptr + place, width, PARTS, BLOCK, WHOLE)
            weight = _tiles(pre_ptr, width, PARTS, BLOCK, WHOLE) if LEAN else pre
            of_norm, dpre = _norm_backward_tiles(x, dy, weight, dpre, width, eps, PARTS, BLOCK)
            both = ()
            for part in tl.static_range(PARTS):
                both += (dx[part] + of_norm[part],)
        else:
            both = dx
        _store_tiles(dx_ptr + place, both, width, PARTS, BLOCK, WHOLE)
        if LEAN:
            h = _tiles(h_ptr + place, width, PARTS, BLOCK, WHOLE)
        weight = _tiles(post_ptr, width, PARTS, BLOCK, WHOLE) if LEAN else post
        dh, dpost = _norm_backward_tiles(h, both, weight, dpost, width, eps, PARTS, BLOCK)
        _store_tiles(dh_ptr + place, dh, width, PARTS, BLOCK, WHOLE)
    _store_tiles(dpost_ptr + tl.program_id(0) * width, dpost, width, PARTS, BLOCK, WHOLE)
    if PRE:
        _store_tiles(dpre_ptr + tl.program_id(0) * width, dpre, width, PARTS, BLOCK, WHOLE)


def _shape(width: int, warps: int = 2) -> dict[str, int]:
    block = triton.next_power_of_2(width)
    return {"BLOCK": block, "ROWS": max(1, 2048 // block), "num_warps": warps}


def _tiled(width: int, launch: dict[str, int]) -> dict[str, int]:
    parts = triton.cdiv(width, launch["BLOCK"])
    return launch | {"PARTS": parts, "WHOLE": parts * launch["BLOCK"] == width}


def _programs(rows: int, shape: dict[str, int]) -> int:
    return min(PROGRAMS, triton.cdiv(rows, shape["ROWS"]))


def _backward_kernel(width: int, rows: int) -> tuple[Any, dict[str, int], int]:
    """Which kernel of the backward pass of `residual_norm`, in which shape, by how many programs."""
    if width in BACKWARD:
        shape = _tiled(width, BACKWARD[width])
        return _norm_residual_backward_tiles, shape, min(shape.pop("programs"), rows)
    shape = _shape(width)
    return _norm_residual_backward, shape, _programs(rows, shape)


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
        added, rows = torch.empty_like(x), x.numel() // width
        y = None if pre is None else torch.empty_like(x, dtype=kind)
        terms = None if vectors is None else x.new_empty(*x.shape[:-1], count, dtype=torch.float32)
        given = (
            x, h, post, post if pre is None else pre, added, added if y is None else y,
            post if vectors is None else vectors.contiguous(), added if terms is None else terms,
        )  # fmt: skip
        flags = {"PRE": pre is not None, "TERMS": count}
        if width in FORWARD:
            _norm_residual_forward_tiles[(rows,)](*given, width, eps, **flags, **_tiled(width, FORWARD[width]))
        else:
            shape = _shape(width, 1 if count else 2)
            _norm_residual_forward[(triton.cdiv(rows, shape["ROWS"]),)](*given, rows, width, eps, **flags, **shape)
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
        kernel, shape, programs = _backward_kernel(width, rows)
        dsum = dsum.contiguous()
        dx, dh = torch.empty_like(dsum), torch.empty_like(h)
        partial = h.new_empty(1 if pre is None else 2, programs, width, dtype=torch.float32)  # of post, then of pre
        kernel[(programs,)](
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
