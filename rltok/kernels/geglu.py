"""gelu(gate) * up in one pass, forward and backward; gate and up stand side by side in the rows of one matrix product.

One program handles a stretch of one row. The tanh form of gelu is x * sigmoid(2 u), u = sqrt(2 / pi) (x + 0.044715 x^3).
"""

from typing import no_type_check

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable


@triton.jit
@no_type_check
def _geglu_gate(x):
    """sigmoid(2 u) and its derivative by x."""
    share = tl.sigmoid(1.5957691216057308 * (x + 0.044715 * x * x * x))
    return share, share * (1.0 - share) * 1.5957691216057308 * (1.0 + 0.134145 * x * x)


@triton.jit
@no_type_check
def _geglu_forward(gate_up_ptr, out_ptr, hidden, BLOCK: tl.constexpr):
    row, column = tl.program_id(0).to(tl.int64), tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = column < hidden
    gate = tl.load(gate_up_ptr + row * 2 * hidden + column, mask=inside, other=0.0).to(tl.float32)
    up = tl.load(gate_up_ptr + row * 2 * hidden + hidden + column, mask=inside, other=0.0).to(tl.float32)
    share, _ = _geglu_gate(gate)
    tl.store(out_ptr + row * hidden + column, (gate * share * up).to(out_ptr.dtype.element_ty), mask=inside)


@triton.jit
@no_type_check
def _geglu_backward(gate_up_ptr, dout_ptr, dgate_up_ptr, hidden, BLOCK: tl.constexpr):
    row, column = tl.program_id(0).to(tl.int64), tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = column < hidden
    gate = tl.load(gate_up_ptr + row * 2 * hidden + column, mask=inside, other=0.0).to(tl.float32)
    up = tl.load(gate_up_ptr + row * 2 * hidden + hidden + column, mask=inside, other=0.0).to(tl.float32)
    dout = tl.load(dout_ptr + row * hidden + column, mask=inside, other=0.0).to(tl.float32)
    share, slope = _geglu_gate(gate)
    dgate, dup = dout * up * (share + gate * slope), dout * gate * share
    kind = dgate_up_ptr.dtype.element_ty
    tl.store(dgate_up_ptr + row * 2 * hidden + column, dgate.to(kind), mask=inside)
    tl.store(dgate_up_ptr + row * 2 * hidden + hidden + column, dup.to(kind), mask=inside)


def _launch(hidden: int, rows: int) -> tuple[tuple[int, int], int]:
    block = min(1024, triton.next_power_of_2(hidden))
    return (rows, triton.cdiv(hidden, block)), block


class _GeGLU(torch.autograd.Function):
    @staticmethod
    def forward(ctx, gate_up):
        gate_up, hidden = gate_up.contiguous(), gate_up.shape[-1] // 2
        out = gate_up.new_empty(*gate_up.shape[:-1], hidden)
        grid, block = _launch(hidden, out.numel() // hidden)
        _geglu_forward[grid](gate_up, out, hidden, BLOCK=block)
        ctx.save_for_backward(gate_up)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx, dout):
        (gate_up,) = ctx.saved_tensors
        hidden, dgate_up = gate_up.shape[-1] // 2, torch.empty_like(gate_up)
        grid, block = _launch(hidden, gate_up.numel() // gate_up.shape[-1])
        _geglu_backward[grid](gate_up, dout.contiguous(), dgate_up, hidden, BLOCK=block)
        return dgate_up


def geglu(gate_up: Tensor) -> Tensor:
    """gelu(gate) * up of `layers.GeGLU`: [..., 2 h] -> [..., h], same dtype."""
    return _GeGLU.apply(gate_up)
