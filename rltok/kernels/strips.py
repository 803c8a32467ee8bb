"""Window attention that walks along a row: a program takes STRIP blocks of one head in turn, so that each key is turned once.

A window no longer than a block sees two tiles, each half: on and below the diagonal the block itself, above it the block before.
Both halves stand in one tile here, so that softcap, exponential and gradient are computed once a pair. Angles are counted from
the start of the strip and come from the card's own sine. The next block's tiles are on their way while this one is worked on:
by the card's unit for tiles (TMA) through descriptors, else by ordinary loads.
"""

import math
from typing import no_type_check

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.tools.tensor_descriptor import TensorDescriptor

from rltok.kernels.scores import capped

BLOCK = 64


@triton.jit
@no_type_check
def _window_tile(x, row, i, at, length, step, SIZE: tl.constexpr, WIDTH: tl.constexpr, TMA: tl.constexpr):
    """Positions i .. i + SIZE - 1, columns at .. at + WIDTH - 1 of a row of [rows, length, step]; zeros outside the row."""
    if TMA:
        tile = tl.reshape(x.load([row, i, at]), (SIZE, WIDTH))
    else:
        place, column = i + tl.arange(0, SIZE), at + tl.arange(0, WIDTH)
        inside = ((place >= 0) & (place < length))[:, None]
        tile = tl.load(x + row.to(tl.int64) * length * step + place[:, None] * step + column[None, :], mask=inside, other=0.0)
    return tile


@triton.jit
@no_type_check
def _window_put(x, row, i, at, tile, length, step, SIZE: tl.constexpr, WIDTH: tl.constexpr, TMA: tl.constexpr):
    """Store a tile where `_window_tile` reads it; from `length` on nothing is stored."""
    if TMA:
        x.store([row, i, at], tl.reshape(tile.to(x.dtype), (1, SIZE, WIDTH)))
    else:
        place, column = i + tl.arange(0, SIZE), at + tl.arange(0, WIDTH)
        x += row.to(tl.int64) * length * step
        tl.store(x + place[:, None] * step + column[None, :], tile.to(x.dtype.element_ty), mask=(place < length)[:, None])


@triton.jit
@no_type_check
def _window_angles(start, speed, SIZE: tl.constexpr, HALF: tl.constexpr, HARDWARE: tl.constexpr):
    """cos and sin of positions start, start + 1, ... of a strip; theta^(-c / HALF) is 2^(c speed)."""
    angle = (start + tl.arange(0, SIZE)).to(tl.float32)[:, None] * tl.exp2(tl.arange(0, HALF).to(tl.float32) * speed)[None, :]
    if HARDWARE:  # right to 1e-4, of which 16 bits see nothing
        cos = tl.inline_asm_elementwise("cos.approx.f32 $0, $1;", "=f,f", [angle], tl.float32, True, 1)
        sin = tl.inline_asm_elementwise("sin.approx.f32 $0, $1;", "=f,f", [angle], tl.float32, True, 1)
    else:
        cos, sin = tl.cos(angle), tl.sin(angle)
    return cos, sin


@triton.jit
@no_type_check
def _window_turned(
    x, row, i, at, cos, sin, length, step, SIZE: tl.constexpr, HALF: tl.constexpr, TMA: tl.constexpr
):  # fmt: skip
    """A tile of queries or keys, rotated: its halves of columns are read apart, so that a thread holds what it turns together."""
    a = _window_tile(x, row, i, at, length, step, SIZE, HALF, TMA)
    b = _window_tile(x, row, i, at + HALF, length, step, SIZE, HALF, TMA)
    both = tl.join((a * cos - b * sin).to(a.dtype), (b * cos + a * sin).to(a.dtype))
    return tl.reshape(tl.permute(both, (0, 2, 1)), (SIZE, 2 * HALF))


@triton.jit
@no_type_check
def _window_put_back(
    x, row, i, at, dx, cos, sin, length, step, SIZE: tl.constexpr, HALF: tl.constexpr, TMA: tl.constexpr
):  # fmt: skip
    """Store the gradient of a rotated tile as that of the tile before."""
    a, b = tl.split(tl.permute(tl.reshape(dx, (SIZE, 2, HALF)), (0, 2, 1)))
    _window_put(x, row, i, at, a * cos + b * sin, length, step, SIZE, HALF, TMA)
    _window_put(x, row, i, at + HALF, b * cos - a * sin, length, step, SIZE, HALF, TMA)


@triton.jit
@no_type_check
def _window_merged(
    raw, own, between, real, scale, cap, WINDOW: tl.constexpr, CAP: tl.constexpr, HARDWARE: tl.constexpr, SIZE: tl.constexpr
):  # fmt: skip
    """Capped scores in base 2 of a merged tile, -inf where a query does not see a key; and tanh of the score over the cap."""
    scores, share = capped(raw, scale, cap, CAP, HARDWARE)
    visible = own | real
    if WINDOW < SIZE:
        visible = visible & (tl.where(own, between, between + SIZE) < WINDOW)
    return tl.where(visible, scores, float("-inf")), share


@triton.jit
@no_type_check
def _window_strip_forward(
    halves, tiles, out, norm_ptr, length, heads, scale, cap, speed, WINDOW: tl.constexpr, CAP: tl.constexpr, FIXED: tl.constexpr,
    HARDWARE: tl.constexpr, HALF: tl.constexpr, SIZE: tl.constexpr, STRIP: tl.constexpr, STAGES: tl.constexpr,
    TMA: tl.constexpr,
):  # fmt: skip
    head, row, first = tl.program_id(1) % heads, tl.program_id(1) // heads, tl.program_id(0) * STRIP
    width: tl.constexpr = 2 * HALF
    step, out_step = 3 * heads * width, heads * width
    q_at, k_at, v_at = head * width, out_step + head * width, 2 * out_step + head * width
    norm_ptr += tl.program_id(1).to(tl.int64) * length
    local = tl.arange(0, SIZE)
    between = local[:, None] - local[None, :]
    own = between >= 0
    cos, sin = _window_angles(-SIZE, speed, SIZE, HALF, HARDWARE)
    before = _window_turned(halves, row, (first - 1) * SIZE, k_at, cos, sin, length, step, SIZE, HALF, TMA)
    for block in tl.range(first, tl.minimum(first + STRIP, tl.cdiv(length, SIZE)), num_stages=STAGES):
        i = block * SIZE
        cos, sin = _window_angles(i - first * SIZE, speed, SIZE, HALF, HARDWARE)
        q = _window_turned(halves, row, i, q_at, cos, sin, length, step, SIZE, HALF, TMA)
        k = _window_turned(halves, row, i, k_at, cos, sin, length, step, SIZE, HALF, TMA)
        raw = tl.where(own, tl.dot(q, tl.trans(k)), tl.dot(q, tl.trans(before)))
        scores, _ = _window_merged(raw, own, between, block > 0, scale, cap, WINDOW, CAP, HARDWARE, SIZE)
        top = tl.zeros((SIZE,), tl.float32)
        if not FIXED:
            top = tl.max(scores, axis=1)
        weights = tl.exp2(scores - top[:, None])
        total = tl.sum(weights, axis=1)
        v = _window_tile(tiles, row, i, v_at, length, step, SIZE, width, TMA)
        mixed = tl.dot(tl.where(own, weights, 0.0).to(v.dtype), v)
        v = _window_tile(tiles, row, i - SIZE, v_at, length, step, SIZE, width, TMA)
        mixed += tl.dot(tl.where(own, 0.0, weights).to(v.dtype), v)
        mixed *= (1.0 / total)[:, None]
        _window_put(out, row, i, head * width, mixed, length, out_step, SIZE, width, TMA)
        tl.store(norm_ptr + i + local, top + tl.log2(total), mask=i + local < length)
        before = k


@triton.jit
@no_type_check
def _window_strip_backward(
    halves, tiles, out, dout, norm_ptr, dhalves, dtiles, length, heads, scale, cap, speed, WINDOW: tl.constexpr,
    CAP: tl.constexpr, FIXED: tl.constexpr, HARDWARE: tl.constexpr, HALF: tl.constexpr, SIZE: tl.constexpr, STRIP: tl.constexpr,
    STAGES: tl.constexpr, TMA: tl.constexpr,
):  # fmt: skip
    """Each step has a block's queries, and keys of that block and the one before, whose gradients are then complete.

    One step beyond the strip brings the last keys' later queries; gradients that are another strip's are stored nowhere.
    """
    head, row, first = tl.program_id(1) % heads, tl.program_id(1) // heads, tl.program_id(0) * STRIP
    width: tl.constexpr = 2 * HALF
    step, out_step = 3 * heads * width, heads * width
    q_at, k_at, v_at = head * width, out_step + head * width, 2 * out_step + head * width
    norm_ptr += tl.program_id(1).to(tl.int64) * length
    local = tl.arange(0, SIZE)
    between = local[:, None] - local[None, :]
    own = between >= 0
    small = scale * 0.6931471805599453  # 1 / sqrt(D)
    cos, sin = _window_angles(-SIZE, speed, SIZE, HALF, HARDWARE)
    before = _window_turned(halves, row, (first - 1) * SIZE, k_at, cos, sin, length, step, SIZE, HALF, TMA)
    kind = before.dtype
    dk, dv = tl.zeros((SIZE, width), tl.float32), tl.zeros((SIZE, width), tl.float32)
    for block in tl.range(first, tl.minimum(first + STRIP, tl.cdiv(length, SIZE)) + 1, num_stages=STAGES):
        i, inside = block * SIZE, block * SIZE + local < length
        v = _window_tile(tiles, row, i, v_at, length, step, SIZE, width, TMA)
        v_before = _window_tile(tiles, row, i - SIZE, v_at, length, step, SIZE, width, TMA)
        slope = _window_tile(dout, row, i, head * width, length, out_step, SIZE, width, TMA)
        result = _window_tile(out, row, i, head * width, length, out_step, SIZE, width, TMA)
        delta = tl.sum(result.to(tl.float32) * slope.to(tl.float32), axis=1)
        paid = tl.where(own, tl.dot(slope, tl.trans(v)), tl.dot(slope, tl.trans(v_before))) - delta[:, None]
        cos, sin = _window_angles(i - first * SIZE, speed, SIZE, HALF, HARDWARE)
        q = _window_turned(halves, row, i, q_at, cos, sin, length, step, SIZE, HALF, TMA)
        k = _window_turned(halves, row, i, k_at, cos, sin, length, step, SIZE, HALF, TMA)
        raw = tl.where(own, tl.dot(q, tl.trans(k)), tl.dot(q, tl.trans(before)))
        scores, share = _window_merged(raw, own, between, block > 0, scale, cap, WINDOW, CAP, HARDWARE, SIZE)
        weights = tl.exp2(scores - tl.load(norm_ptr + i + local, mask=inside, other=0.0)[:, None])
        slopes = weights * paid
        if CAP:
            slopes = slopes * (1.0 - share * share)
        dv += tl.dot(tl.trans(tl.where(own, 0.0, weights).to(kind)), slope)
        there = tl.where(block > first, i - SIZE, length)
        _window_put(dtiles, row, there, v_at, dv, length, step, SIZE, width, TMA)
        dv = tl.dot(tl.trans(tl.where(own, weights, 0.0).to(kind)), slope)
        ours, earlier = tl.where(own, slopes, 0.0).to(kind), tl.where(own, 0.0, slopes).to(kind)
        dk += tl.dot(tl.trans(earlier), q)
        cos, sin = _window_angles(i - (first + 1) * SIZE, speed, SIZE, HALF, HARDWARE)
        _window_put_back(dhalves, row, there, k_at, dk * small, cos, sin, length, step, SIZE, HALF, TMA)
        dk = tl.dot(tl.trans(ours), q)
        dq = tl.dot(ours, k) + tl.dot(earlier, before)
        here = tl.where(block < first + STRIP, i, length)
        cos, sin = _window_angles(i - first * SIZE, speed, SIZE, HALF, HARDWARE)
        _window_put_back(dhalves, row, here, q_at, dq * small, cos, sin, length, step, SIZE, HALF, TMA)
        before = k


def _tiles(x: Tensor, columns: int, width: int, tma: bool) -> Tensor | TensorDescriptor:
    """What `_window_tile` reads tiles of `width` columns of [rows, length, columns] from."""
    x = x.view(*x.shape[:2], columns)
    return TensorDescriptor.from_tensor(x, [1, BLOCK, width]) if tma else x


def _speed(half: int, theta: float) -> float:
    return -math.log2(theta) / half


def forward(qkv: Tensor, theta: float, settings: dict[str, object], launch: dict[str, int]) -> tuple[Tensor, Tensor]:
    """The result, and the logarithm of each query's normaliser, as `window` has them; settings are its own."""
    rows, length, _, heads, width = qkv.shape
    out, norm = qkv.new_empty(rows, length, heads, width), qkv.new_empty(rows * heads, length, dtype=torch.float32)
    tma, both = bool(launch["TMA"]), heads * width
    _window_strip_forward[(triton.cdiv(triton.cdiv(length, BLOCK), launch["STRIP"]), rows * heads)](
        _tiles(qkv, 3 * both, width // 2, tma), _tiles(qkv, 3 * both, width, tma), _tiles(out, both, width, tma), norm, length,
        heads, speed=_speed(width // 2, theta), **settings, **launch,
    )  # fmt: skip
    return out, norm


def backward(
    qkv: Tensor, out: Tensor, dout: Tensor, norm: Tensor, theta: float, settings: dict[str, object], launch: dict[str, int]
) -> Tensor:
    """The gradient by qkv."""
    rows, length, _, heads, width = qkv.shape
    tma, both, dqkv = bool(launch["TMA"]), heads * width, torch.empty_like(qkv)
    _window_strip_backward[(triton.cdiv(triton.cdiv(length, BLOCK), launch["STRIP"]), rows * heads)](
        _tiles(qkv, 3 * both, width // 2, tma), _tiles(qkv, 3 * both, width, tma), _tiles(out, both, width, tma),
        _tiles(dout, both, width, tma), norm, _tiles(dqkv, 3 * both, width // 2, tma), _tiles(dqkv, 3 * both, width, tma),
        length, heads, speed=_speed(width // 2, theta), **settings, **launch,
    )  # fmt: skip
    return dqkv
