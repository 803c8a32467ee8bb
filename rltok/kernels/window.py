"""Window attention over byte rows with the rotation of queries and keys inside: q, k, v are read as the projection left them.

One program handles one head of one block of positions: in the forward pass its queries, in the backward pass its queries and
its keys, so nothing is added up across programs. A block of 64 meets its own and the previous block of keys; no other tile is
touched. Scores depend on differences of positions only, so angles are counted from the start of the block, and one small
table serves all. Exponents are in base 2.
"""

import functools
import math
from typing import no_type_check

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

from rltok.kernels import FIXED_CAP, strips
from rltok.kernels.scores import capped, hardware, seen

BLOCK = strips.BLOCK
# how the passes are launched; one with a STRIP walks along rows (`strips`) where no window is longer than a block:
# {"STRIP": 16, "STAGES": 2, "TMA": True, "num_warps": 4}
LAUNCH = {"num_warps": 4}
FORWARD: dict[str, int] = LAUNCH
BACKWARD: dict[str, int] = LAUNCH


@triton.jit
@no_type_check
def _window_rotated(ptr, place, inside, cos_ptr, sin_ptr, turn, HALF: tl.constexpr):
    """Rows `place`, rotated by the table's rows `turn`: x cos + (x with its halves swapped) (-sin, sin)."""
    column = tl.arange(0, 2 * HALF)[None, :]
    swapped = (column + HALF) % (2 * HALF)
    x = tl.load(ptr + place[:, None] + column, mask=inside[:, None], other=0.0)
    partner = tl.load(ptr + place[:, None] + swapped, mask=inside[:, None], other=0.0)
    cos = tl.load(cos_ptr + turn[:, None] * HALF + column % HALF)
    sin = tl.load(sin_ptr + turn[:, None] * HALF + column % HALF)
    return (x * cos + tl.where(column < HALF, -partner, partner) * sin).to(x.dtype)


@triton.jit
@no_type_check
def _window_back(ptr, place, inside, dx, cos_ptr, sin_ptr, turn, SIZE: tl.constexpr, HALF: tl.constexpr):
    """Store the gradient of rotated rows as that of the rows before."""
    a, b = tl.split(tl.permute(tl.reshape(dx, (SIZE, 2, HALF)), (0, 2, 1)))
    half = tl.arange(0, HALF)[None, :]
    cos = tl.load(cos_ptr + turn[:, None] * HALF + half)
    sin = tl.load(sin_ptr + turn[:, None] * HALF + half)
    kind = ptr.dtype.element_ty
    tl.store(ptr + place[:, None] + half, (a * cos + b * sin).to(kind), mask=inside[:, None])
    tl.store(ptr + place[:, None] + HALF + half, (b * cos - a * sin).to(kind), mask=inside[:, None])


@triton.jit
@no_type_check
def _window_scores(q, k, distance, real, scale, cap, WINDOW: tl.constexpr, CAP: tl.constexpr, HARDWARE: tl.constexpr):
    """Capped scores in base 2, -inf where a query does not see a key; and tanh of the score over the cap."""
    scores, share = capped(tl.dot(q, tl.trans(k)), scale, cap, CAP, HARDWARE)
    return tl.where(seen(distance, WINDOW) & real, scores, float("-inf")), share


@triton.jit
@no_type_check
def _window_forward(
    qkv_ptr, out_ptr, norm_ptr, cos_ptr, sin_ptr, length, heads, scale, cap, WINDOW: tl.constexpr, BACK: tl.constexpr,
    CAP: tl.constexpr, FIXED: tl.constexpr, HARDWARE: tl.constexpr, HALF: tl.constexpr, SIZE: tl.constexpr,
):  # fmt: skip
    block, head, row = tl.program_id(0), tl.program_id(1) % heads, (tl.program_id(1) // heads).to(tl.int64)
    width: tl.constexpr = 2 * HALF
    step = 3 * heads * width  # from one position to the next
    q_ptr = qkv_ptr + row * length * step + head * width
    k_ptr, v_ptr = q_ptr + heads * width, q_ptr + 2 * heads * width
    local, column = tl.arange(0, SIZE), tl.arange(0, width)[None, :]
    i, between = block * SIZE + local, local[:, None] - local[None, :]
    q = _window_rotated(q_ptr, i * step, i < length, cos_ptr, sin_ptr, BACK * SIZE + local, HALF)
    top, total = tl.full((SIZE,), 0.0 if FIXED else -1e30, tl.float32), tl.zeros((SIZE,), tl.float32)
    mixed = tl.zeros((SIZE, width), tl.float32)
    for back in tl.static_range(BACK + 1):  # own block first: there every query sees at least itself
        j = i - back * SIZE
        inside = (j >= 0) & (j < length)
        k = _window_rotated(k_ptr, j * step, inside, cos_ptr, sin_ptr, (BACK - back) * SIZE + local, HALF)
        scores, _ = _window_scores(q, k, between + back * SIZE, block >= back, scale, cap, WINDOW, CAP, HARDWARE)
        if not FIXED:
            higher = tl.maximum(top, tl.max(scores, axis=1))
            shrink = tl.exp2(top - higher)
            mixed, total, top = mixed * shrink[:, None], total * shrink, higher
        weights = tl.exp2(scores - top[:, None])
        v = tl.load(v_ptr + (j * step)[:, None] + column, mask=inside[:, None], other=0.0)
        mixed += tl.dot(weights.to(v.dtype), v)
        total += tl.sum(weights, axis=1)
    place = (row * length + i) * heads * width + head * width
    mixed *= (1.0 / total)[:, None]  # one division a row
    tl.store(out_ptr + place[:, None] + column, mixed.to(out_ptr.dtype.element_ty), (i < length)[:, None])
    tl.store(norm_ptr + tl.program_id(1).to(tl.int64) * length + i, top + tl.log2(total), mask=i < length)


@triton.jit
@no_type_check
def _window_slopes(
    q, k, v, dout, norm, delta, distance, real, scale, cap, WINDOW: tl.constexpr, CAP: tl.constexpr, HARDWARE: tl.constexpr
):  # fmt: skip
    """Weights of the softmax, and the gradient by the products q k but for 1 / sqrt(D)."""
    scores, share = _window_scores(q, k, distance, real, scale, cap, WINDOW, CAP, HARDWARE)
    weights = tl.exp2(scores - norm[:, None])
    slopes = weights * (tl.dot(dout, tl.trans(v)) - delta[:, None])
    if CAP:
        slopes = slopes * (1.0 - share * share)
    return weights.to(v.dtype), slopes.to(v.dtype)


@triton.jit
@no_type_check
def _window_queries(
    q_ptr, out_ptr, dout_ptr, norm_ptr, i, length, step, out_step, cos_ptr, sin_ptr, turn, HALF: tl.constexpr
):  # fmt: skip
    """Rotated queries, gradient of their result, normaliser, and sum of result times gradient; zeros beyond the row."""
    inside, column = i < length, tl.arange(0, 2 * HALF)[None, :]
    q = _window_rotated(q_ptr, i * step, inside, cos_ptr, sin_ptr, turn, HALF)
    dout = tl.load(dout_ptr + (i * out_step)[:, None] + column, mask=inside[:, None], other=0.0)
    out = tl.load(out_ptr + (i * out_step)[:, None] + column, mask=inside[:, None], other=0.0)
    delta = tl.sum(out.to(tl.float32) * dout.to(tl.float32), axis=1)
    return q, dout, tl.load(norm_ptr + i, mask=inside, other=0.0), delta


@triton.jit
@no_type_check
def _window_backward(
    qkv_ptr, out_ptr, dout_ptr, norm_ptr, dqkv_ptr, cos_ptr, sin_ptr, length, heads, scale, cap, WINDOW: tl.constexpr,
    BACK: tl.constexpr, CAP: tl.constexpr, FIXED: tl.constexpr, HARDWARE: tl.constexpr, HALF: tl.constexpr, SIZE: tl.constexpr,
):  # fmt: skip
    block, head, row = tl.program_id(0), tl.program_id(1) % heads, (tl.program_id(1) // heads).to(tl.int64)
    width: tl.constexpr = 2 * HALF
    step, out_step = 3 * heads * width, heads * width
    start = row * length * step + head * width
    q_ptr, k_ptr, v_ptr = qkv_ptr + start, qkv_ptr + start + out_step, qkv_ptr + start + 2 * out_step
    out_ptr, dout_ptr = out_ptr + row * length * out_step + head * width, dout_ptr + row * length * out_step + head * width
    norm_ptr += tl.program_id(1).to(tl.int64) * length
    local, column = tl.arange(0, SIZE), tl.arange(0, width)[None, :]
    i, between = block * SIZE + local, local[:, None] - local[None, :]
    inside, here = i < length, BACK * SIZE + local
    small = scale * 0.6931471805599453  # 1 / sqrt(D)
    # this block as keys, with the queries of the blocks after it
    k = _window_rotated(k_ptr, i * step, inside, cos_ptr, sin_ptr, here, HALF)
    v = tl.load(v_ptr + (i * step)[:, None] + column, mask=inside[:, None], other=0.0)
    dk, dv = tl.zeros((SIZE, width), tl.float32), tl.zeros((SIZE, width), tl.float32)
    for ahead in tl.static_range(1, BACK + 1):
        q, dout, norm, delta = _window_queries(
            q_ptr, out_ptr, dout_ptr, norm_ptr, i + ahead * SIZE, length, step, out_step, cos_ptr, sin_ptr,
            here + ahead * SIZE, HALF,
        )  # fmt: skip
        weights, slopes = _window_slopes(
            q, k, v, dout, norm, delta, between + ahead * SIZE, True, scale, cap, WINDOW, CAP, HARDWARE
        )  # fmt: skip
        dv += tl.dot(tl.trans(weights), dout)
        dk += tl.dot(tl.trans(slopes), q)
    # keys and queries of this block
    q, dout, norm, delta = _window_queries(
        q_ptr, out_ptr, dout_ptr, norm_ptr, i, length, step, out_step, cos_ptr, sin_ptr, here, HALF
    )
    weights, slopes = _window_slopes(q, k, v, dout, norm, delta, between, True, scale, cap, WINDOW, CAP, HARDWARE)
    dv += tl.dot(tl.trans(weights), dout)
    dk += tl.dot(tl.trans(slopes), q)
    _window_back(dqkv_ptr + start + out_step, i * step, inside, dk * small, cos_ptr, sin_ptr, here, SIZE, HALF)
    place = dqkv_ptr + start + 2 * out_step + (i * step)[:, None] + column
    tl.store(place, dv.to(dqkv_ptr.dtype.element_ty), mask=inside[:, None])
    # this block as queries, with the keys of the blocks before it
    dq = tl.dot(slopes, k)
    for back in tl.static_range(1, BACK + 1):
        j = i - back * SIZE
        earlier = (j >= 0) & (j < length)
        k = _window_rotated(k_ptr, j * step, earlier, cos_ptr, sin_ptr, here - back * SIZE, HALF)
        v = tl.load(v_ptr + (j * step)[:, None] + column, mask=earlier[:, None], other=0.0)
        _, slopes = _window_slopes(
            q, k, v, dout, norm, delta, between + back * SIZE, block >= back, scale, cap, WINDOW, CAP, HARDWARE
        )  # fmt: skip
        dq += tl.dot(slopes, k)
    _window_back(dqkv_ptr + start, i * step, inside, dq * small, cos_ptr, sin_ptr, here, SIZE, HALF)


@functools.lru_cache(maxsize=16)
def _table(back: int, half: int, theta: float, device: torch.device) -> tuple[Tensor, Tensor]:
    """cos and sin of the angles of positions -back * BLOCK .. (back + 1) * BLOCK - 1, fp32."""
    position = torch.arange(-back * BLOCK, (back + 1) * BLOCK, dtype=torch.float64, device=device)
    angle = position[:, None] * theta ** (-torch.arange(half, dtype=torch.float64, device=device) / half)
    return angle.cos().float(), angle.sin().float()


def _settings(qkv: Tensor, window: int, softcap: float | None) -> dict[str, object]:
    half = qkv.shape[-1] // 2
    return {
        "scale": (2 * half) ** -0.5 * math.log2(math.e),
        "cap": softcap or 1.0,
        "CAP": softcap is not None,
        "FIXED": softcap is not None and softcap <= FIXED_CAP[qkv.dtype],
        "HARDWARE": hardware(),
        "WINDOW": window,
        "HALF": half,
        "SIZE": BLOCK,
    }


def _walks(launch: dict[str, int], window: int) -> bool:
    return "STRIP" in launch and window <= BLOCK


def _plain(launch: dict[str, int]) -> dict[str, int]:
    return LAUNCH if "STRIP" in launch else launch


def _blocks(qkv: Tensor, theta: float, settings: dict[str, object]) -> tuple[int, tuple[Tensor, Tensor]]:
    """How many blocks before its own a query meets, and the table of angles for them."""
    back = triton.cdiv(settings["WINDOW"] - 1, BLOCK)
    return back, _table(back, qkv.shape[-1] // 2, theta, qkv.device)


def _forward(qkv: Tensor, theta: float, settings: dict[str, object]) -> tuple[Tensor, Tensor]:
    rows, length, _, heads, width = qkv.shape
    out, norm = qkv.new_empty(rows, length, heads, width), qkv.new_empty(rows * heads, length, dtype=torch.float32)
    back, table = _blocks(qkv, theta, settings)
    _window_forward[(triton.cdiv(length, BLOCK), rows * heads)](
        qkv, out, norm, *table, length, heads, BACK=back, **settings, **_plain(FORWARD)
    )
    return out, norm


def _backward(qkv: Tensor, out: Tensor, dout: Tensor, norm: Tensor, theta: float, settings: dict[str, object]) -> Tensor:
    rows, length, _, heads, _ = qkv.shape
    dqkv, (back, table) = torch.empty_like(qkv), _blocks(qkv, theta, settings)
    _window_backward[(triton.cdiv(length, BLOCK), rows * heads)](
        qkv, out, dout, norm, dqkv, *table, length, heads, BACK=back, **settings, **_plain(BACKWARD)
    )
    return dqkv


class _Window(torch.autograd.Function):
    @staticmethod
    def forward(ctx, qkv, window, softcap, theta):
        qkv = qkv.contiguous()
        settings = _settings(qkv, window, softcap)
        out, norm = strips.forward(qkv, theta, settings, FORWARD) if _walks(FORWARD, window) else _forward(qkv, theta, settings)
        ctx.save_for_backward(qkv, out, norm)
        ctx.settings, ctx.theta = settings, theta
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx, dout):
        (qkv, out, norm), settings, dout = ctx.saved_tensors, ctx.settings, dout.contiguous()
        if _walks(BACKWARD, settings["WINDOW"]):
            return strips.backward(qkv, out, dout, norm, ctx.theta, settings, BACKWARD), None, None, None
        return _backward(qkv, out, dout, norm, ctx.theta, settings), None, None, None


def window_attention(qkv: Tensor, *, window: int, softcap: float | None, theta: float) -> Tensor:
    """`attention.window_attention` of rotated queries and keys: qkv [B, N, 3, H, D] in bf16, not yet rotated, -> [B, N, H, D]."""
    return _Window.apply(qkv, window, softcap, theta)
