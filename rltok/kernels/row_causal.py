"""Causal attention inside packed rows, with rotation: rows of any lengths in one launch, no padding, no mask in memory.

One program handles one head of one block of entries: its queries against all keys from the start of the first query's row, or
its keys against all queries to the end of the last key's row. `start` and `end` say where each entry's row begins and ends.
"""

import math
from typing import no_type_check

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

from rltok.kernels import FIXED_CAP
from rltok.kernels.scores import capped, hardware, seen

# entries in a block of queries and of keys, as measured best on an H100; SKIP: no mask where queries see all keys of a tile
LAUNCH = {"QUERIES": 64, "KEYS": 64, "num_warps": 4, "num_stages": 3, "SKIP": False}
FORWARD = BACK_QUERIES = BACK_KEYS = LAUNCH  # of the three passes


@triton.jit
@no_type_check
def _rope_turn(from_ptr, to_ptr, cos_ptr, sin_ptr, heads, from_step, to_step, sign, HALF: tl.constexpr, HEADS: tl.constexpr):
    """Rotate queries and keys (2 * heads of them) of one entry; sign -1 turns a gradient back."""
    entry, half = tl.program_id(0).to(tl.int64), tl.arange(0, HALF)
    head = tl.arange(0, HEADS)[:, None]
    place, inside = head * 2 * HALF + half[None, :], head < 2 * heads
    a = tl.load(from_ptr + entry * from_step + place, mask=inside, other=0.0)
    b = tl.load(from_ptr + entry * from_step + place + HALF, mask=inside, other=0.0)
    cos = tl.load(cos_ptr + entry * HALF + half)[None, :]
    sin = tl.load(sin_ptr + entry * HALF + half)[None, :] * sign
    tl.store(to_ptr + entry * to_step + place, (a * cos - b * sin).to(a.dtype), mask=inside)
    tl.store(to_ptr + entry * to_step + place + HALF, (b * cos + a * sin).to(a.dtype), mask=inside)


@triton.jit
@no_type_check
def _row_causal_masked(scores, i, j, reach):
    return tl.where(seen(i[:, None] - j[None, :], reach[:, None] + 1), scores, float("-inf"))


@triton.jit
@no_type_check
def _row_causal_scores(
    q, k, i, j, reach, whole, scale, cap, CAP: tl.constexpr, HARDWARE: tl.constexpr, SKIP: tl.constexpr
):  # fmt: skip
    """Capped scores in base 2, -inf where a query does not see a key; and tanh of the score over the cap.

    reach: how many entries of its row stand before a query, -1 beyond the end; whole: whether each query here sees each key.
    """
    scores, share = capped(tl.dot(q, tl.trans(k)), scale, cap, CAP, HARDWARE)
    if not SKIP:
        scores = _row_causal_masked(scores, i, j, reach)
    elif not whole:
        scores = _row_causal_masked(scores, i, j, reach)
    return scores, share


@triton.jit(do_not_specialize=["entries"])
@no_type_check
def _row_causal_forward(
    qk_ptr, v_ptr, start_ptr, out_ptr, norm_ptr, entries, heads, scale, cap, CAP: tl.constexpr, FIXED: tl.constexpr,
    HARDWARE: tl.constexpr, WIDTH: tl.constexpr, QUERIES: tl.constexpr, KEYS: tl.constexpr, SKIP: tl.constexpr,
):  # fmt: skip
    block, head = tl.num_programs(0) - 1 - tl.program_id(0), tl.program_id(1)
    column = tl.arange(0, WIDTH)[None, :]
    i = block * QUERIES + tl.arange(0, QUERIES)
    inside = i < entries
    qk_ptr += head * WIDTH
    v_ptr += head * WIDTH
    step = heads * WIDTH
    q = tl.load(qk_ptr + i[:, None] * 2 * step + column, mask=inside[:, None], other=0.0)
    reach = i - tl.load(start_ptr + i, mask=inside, other=0)
    lowest = tl.load(start_ptr + block * QUERIES) // KEYS * KEYS
    latest = tl.load(start_ptr + tl.minimum((block + 1) * QUERIES, entries) - 1)  # from here on all queries see
    top, total = tl.full((QUERIES,), 0.0 if FIXED else -1e30, tl.float32), tl.zeros((QUERIES,), tl.float32)
    mixed = tl.zeros((QUERIES, WIDTH), tl.float32)
    for first in range(lowest, tl.minimum((block + 1) * QUERIES, entries), KEYS):
        j = first + tl.arange(0, KEYS)
        k = tl.load(qk_ptr + step + j[:, None] * 2 * step + column, mask=(j < entries)[:, None], other=0.0)
        v = tl.load(v_ptr + j[:, None] * 3 * step + column, mask=(j < entries)[:, None], other=0.0)
        whole = (first >= latest) & (first + KEYS <= block * QUERIES + 1)
        scores, _ = _row_causal_scores(q, k, i, j, reach, whole, scale, cap, CAP, HARDWARE, SKIP)
        if not FIXED:
            higher = tl.maximum(top, tl.max(scores, axis=1))
            shrink = tl.exp2(top - higher)
            mixed, total, top = mixed * shrink[:, None], total * shrink, higher
        weights = tl.exp2(scores - top[:, None])
        mixed += tl.dot(weights.to(v.dtype), v)
        total += tl.sum(weights, axis=1)
    total = tl.where(inside, total, 1.0)
    mixed *= (1.0 / total)[:, None]  # one division a row
    tl.store(out_ptr + i[:, None] * step + head * WIDTH + column, mixed.to(out_ptr.dtype.element_ty), inside[:, None])
    tl.store(norm_ptr + head * entries + i, top + tl.log2(total), mask=inside)


@triton.jit
@no_type_check
def _row_causal_slopes(
    q, k, v, dout, norm, delta, i, j, reach, whole, scale, cap, CAP: tl.constexpr, HARDWARE: tl.constexpr, SKIP: tl.constexpr
):  # fmt: skip
    """Weights of the softmax, and the gradient by the products q k but for 1 / sqrt(D); both [queries, keys]."""
    scores, share = _row_causal_scores(q, k, i, j, reach, whole, scale, cap, CAP, HARDWARE, SKIP)
    weights = tl.exp2(scores - norm[:, None])
    slopes = weights * (tl.dot(dout, tl.trans(v)) - delta[:, None])
    if CAP:
        slopes = slopes * (1.0 - share * share)
    return weights.to(v.dtype), slopes.to(v.dtype)


@triton.jit(do_not_specialize=["entries"])
@no_type_check
def _row_causal_backward_queries(
    qk_ptr, v_ptr, start_ptr, out_ptr, dout_ptr, norm_ptr, delta_ptr, dqkv_ptr, entries, heads, scale, cap,
    CAP: tl.constexpr, FIXED: tl.constexpr, HARDWARE: tl.constexpr, WIDTH: tl.constexpr, QUERIES: tl.constexpr,
    KEYS: tl.constexpr, SKIP: tl.constexpr,
):  # fmt: skip
    block, head = tl.num_programs(0) - 1 - tl.program_id(0), tl.program_id(1)
    column = tl.arange(0, WIDTH)[None, :]
    i = block * QUERIES + tl.arange(0, QUERIES)
    inside, step = i < entries, heads * WIDTH
    qk_ptr += head * WIDTH
    v_ptr += head * WIDTH
    q = tl.load(qk_ptr + i[:, None] * 2 * step + column, mask=inside[:, None], other=0.0)
    out = tl.load(out_ptr + i[:, None] * step + head * WIDTH + column, mask=inside[:, None], other=0.0)
    dout = tl.load(dout_ptr + i[:, None] * step + head * WIDTH + column, mask=inside[:, None], other=0.0)
    delta = tl.sum(out.to(tl.float32) * dout.to(tl.float32), axis=1)
    tl.store(delta_ptr + head * entries + i, delta, mask=inside)
    norm = tl.load(norm_ptr + head * entries + i, mask=inside, other=0.0)
    reach = i - tl.load(start_ptr + i, mask=inside, other=0)
    lowest = tl.load(start_ptr + block * QUERIES) // KEYS * KEYS
    latest = tl.load(start_ptr + tl.minimum((block + 1) * QUERIES, entries) - 1)  # from here on all queries see
    dq = tl.zeros((QUERIES, WIDTH), tl.float32)
    for first in range(lowest, tl.minimum((block + 1) * QUERIES, entries), KEYS):
        j = first + tl.arange(0, KEYS)
        k = tl.load(qk_ptr + step + j[:, None] * 2 * step + column, mask=(j < entries)[:, None], other=0.0)
        v = tl.load(v_ptr + j[:, None] * 3 * step + column, mask=(j < entries)[:, None], other=0.0)
        whole = (first >= latest) & (first + KEYS <= block * QUERIES + 1)
        _, slopes = _row_causal_slopes(q, k, v, dout, norm, delta, i, j, reach, whole, scale, cap, CAP, HARDWARE, SKIP)
        dq += tl.dot(slopes, k)
    place = dqkv_ptr + i[:, None] * 3 * step + head * WIDTH + column
    dq *= scale * 0.6931471805599453  # 1 / sqrt(D)
    tl.store(place, dq.to(dqkv_ptr.dtype.element_ty), mask=inside[:, None])


@triton.jit(do_not_specialize=["entries"])
@no_type_check
def _row_causal_backward_keys(
    qk_ptr, v_ptr, start_ptr, end_ptr, dout_ptr, norm_ptr, delta_ptr, dqkv_ptr, entries, heads, scale, cap,
    CAP: tl.constexpr, FIXED: tl.constexpr, HARDWARE: tl.constexpr, WIDTH: tl.constexpr, QUERIES: tl.constexpr,
    KEYS: tl.constexpr, SKIP: tl.constexpr,
):  # fmt: skip
    block, head = tl.program_id(0), tl.program_id(1)
    column = tl.arange(0, WIDTH)[None, :]
    j = block * KEYS + tl.arange(0, KEYS)
    inside, step = j < entries, heads * WIDTH
    qk_ptr += head * WIDTH
    k = tl.load(qk_ptr + step + j[:, None] * 2 * step + column, mask=inside[:, None], other=0.0)
    v = tl.load(v_ptr + j[:, None] * 3 * step + head * WIDTH + column, mask=inside[:, None], other=0.0)
    sooner = tl.load(end_ptr + block * KEYS)  # up to here all keys are seen
    highest = tl.load(end_ptr + tl.minimum((block + 1) * KEYS, entries) - 1)
    dk, dv = tl.zeros((KEYS, WIDTH), tl.float32), tl.zeros((KEYS, WIDTH), tl.float32)
    for first in range(block * KEYS // QUERIES * QUERIES, highest, QUERIES):
        i = first + tl.arange(0, QUERIES)
        real = i < entries
        q = tl.load(qk_ptr + i[:, None] * 2 * step + column, mask=real[:, None], other=0.0)
        dout = tl.load(dout_ptr + i[:, None] * step + head * WIDTH + column, mask=real[:, None], other=0.0)
        norm = tl.load(norm_ptr + head * entries + i, mask=real, other=0.0)
        delta = tl.load(delta_ptr + head * entries + i, mask=real, other=0.0)
        reach = tl.where(real, i - tl.load(start_ptr + i, mask=real, other=0), -1)
        whole = (first + QUERIES <= sooner) & (first >= (block + 1) * KEYS - 1)
        weights, slopes = _row_causal_slopes(q, k, v, dout, norm, delta, i, j, reach, whole, scale, cap, CAP, HARDWARE, SKIP)
        dv += tl.dot(tl.trans(weights), dout)
        dk += tl.dot(tl.trans(slopes), q)
    place = dqkv_ptr + j[:, None] * 3 * step + step + head * WIDTH + column
    dk *= scale * 0.6931471805599453  # 1 / sqrt(D)
    tl.store(place, dk.to(dqkv_ptr.dtype.element_ty), mask=inside[:, None])
    tl.store(place + step, dv.to(dqkv_ptr.dtype.element_ty), mask=inside[:, None])


class _RowCausal(torch.autograd.Function):
    @staticmethod
    def forward(ctx, qkv, start, end, cos, sin, softcap):
        qkv = qkv.contiguous()
        entries, _, heads, width = qkv.shape
        turned = qkv.new_empty(entries, 2, heads, width)
        turn = {"HALF": width // 2, "HEADS": triton.next_power_of_2(2 * heads)}
        _rope_turn[(entries,)](qkv, turned, cos, sin, heads, 3 * heads * width, 2 * heads * width, 1.0, **turn)
        out, norm = qkv.new_empty(entries, heads, width), qkv.new_empty(heads, entries, dtype=torch.float32)
        settings = {
            "scale": width**-0.5 * math.log2(math.e), "cap": softcap or 1.0, "CAP": softcap is not None,
            "FIXED": softcap is not None and softcap <= FIXED_CAP[qkv.dtype], "HARDWARE": hardware(), "WIDTH": width,
        }  # fmt: skip
        v = qkv[:, 2]
        _row_causal_forward[(triton.cdiv(entries, FORWARD["QUERIES"]), heads)](
            turned, v, start, out, norm, entries, heads, **settings, **FORWARD
        )
        ctx.save_for_backward(turned, v, start, end, cos, sin, out, norm)
        ctx.settings, ctx.turn = settings, turn
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx, dout):
        turned, v, start, end, cos, sin, out, norm = ctx.saved_tensors
        entries, heads, width = out.shape
        dqkv, delta, dout = out.new_empty(entries, 3, heads, width), torch.empty_like(norm), dout.contiguous()
        _row_causal_backward_queries[(triton.cdiv(entries, BACK_QUERIES["QUERIES"]), heads)](
            turned, v, start, out, dout, norm, delta, dqkv, entries, heads, **ctx.settings, **BACK_QUERIES
        )
        _row_causal_backward_keys[(triton.cdiv(entries, BACK_KEYS["KEYS"]), heads)](
            turned, v, start, end, dout, norm, delta, dqkv, entries, heads, **ctx.settings, **BACK_KEYS
        )
        step = 3 * heads * width
        _rope_turn[(entries,)](dqkv, dqkv, cos, sin, heads, step, step, -1.0, **ctx.turn)
        return dqkv, None, None, None, None, None


def row_causal_attention(
    qkv: Tensor, start: Tensor, end: Tensor, rotary: tuple[Tensor, Tensor], *, softcap: float | None
) -> Tensor:  # fmt: skip
    """`attention.row_causal_attention` of rotated queries and keys: qkv [M, 3, H, D] in bf16, not yet rotated, -> [M, H, D].

    start, end [M] int32: first entry of each entry's row, and one past its last; rotary: (cos, sin) [M, D / 2] in fp32.
    """
    return _RowCausal.apply(qkv, start, end, *(x.contiguous() for x in rotary), softcap)
