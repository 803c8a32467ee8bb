"""Matrix products of blocks, with weights that are narrowed once an update instead of once a forward pass."""

import weakref
from collections.abc import Callable

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from rltok.kernels import attempts

Multiply = Callable[[nn.Linear, Tensor], Tensor]
# of each list of blocks: what its weights were when they were narrowed, and what came of them
_kept: weakref.WeakKeyDictionary[nn.ModuleList, tuple[list[tuple[int, int]], list[Tensor]]] = weakref.WeakKeyDictionary()


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, narrow):
        ctx.save_for_backward(x, narrow)
        return F.linear(x, narrow)

    @staticmethod
    @once_differentiable
    def backward(ctx, dy):
        from rltok.kernels.nll import wide_product

        x, narrow = ctx.saved_tensors
        return dy @ narrow, wide_product(dy.flatten(0, -2).t(), x.flatten(0, -2)), None


def narrowed(parts: nn.ModuleList, kind: torch.dtype) -> dict[int, Float[Tensor, "out into"]]:
    """16-bit copies of the weights of all products, by the id of the weight: made anew, all at once, where one has changed."""
    weights = [w for part in parts for w in (part.qkv.weight, part.out.weight, part.mlp.gate_up.weight, part.mlp.down.weight)]
    stamp = [(weight.data_ptr(), weight._version) for weight in weights]
    known, copies = _kept.get(parts, (None, []))
    if known != stamp or copies[0].dtype != kind:
        with torch.no_grad():
            if known is None or copies[0].dtype != kind or copies[0].device != weights[0].device:
                copies = [torch.empty_like(weight, dtype=kind) for weight in weights]
            torch._foreach_copy_(copies, [weight.detach() for weight in weights])
        _kept[parts] = stamp, copies
    return {id(weight): copy for weight, copy in zip(weights, copies, strict=True)}


def multiply(parts: nn.ModuleList, kind: torch.dtype) -> Multiply:
    """How the blocks multiply by a weight: as autocast does, or, as an attempt, with weights that were narrowed before.

    The gradient of such a weight comes out of its product in fp32, where autocast rounds it to 16 bits and widens it again.
    """
    if not attempts.on("weights"):
        return lambda linear, x: linear(x)
    copies = narrowed(parts, kind)
    return lambda linear, x: _Product.apply(x, linear.weight, copies[id(linear.weight)])
