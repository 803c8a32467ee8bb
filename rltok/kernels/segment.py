"""Resampling between bytes and tokens: contiguous segments of bytes, one a token, over all rows at once.

Every row begins with a boundary, so token m owns the flat byte positions first[m] .. first[m + 1] - 1, rows one after the
other. One program of the backward pass adds up the gradient of one token's bytes, in order and without atomics.
"""

from typing import no_type_check

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable


@triton.jit
@no_type_check
def _segment_add(x_ptr, tokens_ptr, index_ptr, out_ptr, width, BLOCK: tl.constexpr):
    row, column = tl.program_id(0).to(tl.int64), tl.arange(0, BLOCK)
    inside, token = column < width, tl.load(index_ptr + row).to(tl.int64)
    x = tl.load(x_ptr + row * width + column, mask=inside, other=0.0).to(tl.float32)
    x += tl.load(tokens_ptr + token * width + column, mask=inside, other=0.0).to(tl.float32)
    tl.store(out_ptr + row * width + column, x.to(out_ptr.dtype.element_ty), mask=inside)


@triton.jit
@no_type_check
def _segment_sum(x_ptr, first_ptr, out_ptr, width, BLOCK: tl.constexpr):
    token, column = tl.program_id(0).to(tl.int64), tl.arange(0, BLOCK)
    inside, total = column < width, tl.zeros((BLOCK,), tl.float32)
    for row in range(tl.load(first_ptr + token), tl.load(first_ptr + token + 1)):  # 0 * token: counts in 64 bits
        total += tl.load(x_ptr + (row + 0 * token) * width + column, mask=inside, other=0.0).to(tl.float32)
    tl.store(out_ptr + token * width + column, total.to(out_ptr.dtype.element_ty), mask=inside)


@triton.jit
@no_type_check
def _segment_scatter_add(dx_ptr, dtokens_ptr, index_ptr, first_ptr, out_ptr, width, BLOCK: tl.constexpr):
    row, column = tl.program_id(0).to(tl.int64), tl.arange(0, BLOCK)
    inside, token = column < width, tl.load(index_ptr + row).to(tl.int64)
    opened = tl.where(tl.load(first_ptr + token) == row, width, 0)  # columns to add: all of them at a token's first byte
    x = tl.load(dx_ptr + row * width + column, mask=inside, other=0.0).to(tl.float32)
    x += tl.load(dtokens_ptr + token * width + column, mask=column < opened, other=0.0).to(tl.float32)
    tl.store(out_ptr + row * width + column, x.to(out_ptr.dtype.element_ty), mask=inside)


class _Add(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, tokens, index, first):
        x, tokens, width = x.contiguous(), tokens.contiguous(), x.shape[-1]
        out = torch.empty_like(x)
        _segment_add[(x.numel() // width,)](x, tokens, index, out, width, BLOCK=triton.next_power_of_2(width))
        ctx.save_for_backward(first)
        ctx.kind = tokens.dtype
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx, dout):
        (first,) = ctx.saved_tensors
        dout, width = dout.contiguous(), dout.shape[-1]
        dtokens = dout.new_empty(len(first) - 1, width, dtype=ctx.kind)
        _segment_sum[(len(dtokens),)](dout, first, dtokens, width, BLOCK=triton.next_power_of_2(width))
        return dout, dtokens, None, None


class _Select(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, index, first):
        ctx.save_for_backward(index, first)
        return x.view_as(x), x.flatten(0, -2)[first[:-1]]

    @staticmethod
    @once_differentiable
    def backward(ctx, dx, dtokens):
        index, first = ctx.saved_tensors
        dx, width = dx.contiguous(), dx.shape[-1]
        out = torch.empty_like(dx)
        _segment_scatter_add[(dx.numel() // width,)](
            dx, dtokens.contiguous(), index, first, out, width, BLOCK=triton.next_power_of_2(width)
        )
        return out, None, None


def add_tokens(x: Tensor, tokens: Tensor, index: Tensor, first: Tensor) -> Tensor:
    """x + tokens[index], eq. (9): x [B, N, d], tokens [M, d], index [B, N] ascending, first [M + 1] as above."""
    return _Add.apply(x, tokens, index, first)


def select_tokens(x: Tensor, index: Tensor, first: Tensor) -> tuple[Tensor, Tensor]:
    """(x, the tokens x[first] of eqs. (7) and (8)); the returned x must take the place of x, or its gradient is lost."""
    return _Select.apply(x, index, first)
