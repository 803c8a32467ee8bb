"""Byte layers of a training step as two CUDA graphs, which the processor starts with one call each, forward and backward.

    ids -> [encode: byte layers, early head, terms of the policy] -> draw, token level -> [decode: byte layers, head] -> nll

Both have the same shapes in every micro-batch, unlike the token level between them. A graph writes to the same memory each
time, so one forward pass must be followed by its backward pass before the next; where that is not so, nothing is captured or
replayed. Losses and terms are copied out of it, `byte_states` are not: they are those of the last forward pass.
"""

import weakref
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from rltok.fast.products import narrowed
from rltok.kernels import attempts

Function = Callable[..., Tensor | tuple[Tensor, ...]]


@dataclass
class Pair:
    """The two functions of one model, captured; `under_way`: between a forward pass and its backward pass."""

    key: tuple
    encoders: list[nn.Parameter]
    decoders: list[nn.Parameter]
    encode: Function
    decode: Function
    under_way: bool = False


_kept: weakref.WeakKeyDictionary[nn.Module, Pair] = weakref.WeakKeyDictionary()


class _Fresh(torch.autograd.Function):
    """Weights as they are, with gradients in memory of their own: a weight keeps the first gradient that it is given."""

    @staticmethod
    def forward(ctx, done, *weights):
        ctx.done = done
        return tuple(weight.view_as(weight) for weight in weights)

    @staticmethod
    @once_differentiable
    def backward(ctx, *gradients):
        ctx.done()
        return None, *torch._foreach_mul(gradients, 1.0)


def capture(functions: tuple[Function, ...], samples: tuple[tuple[Tensor, ...], ...], kind: torch.dtype) -> tuple[Function, ...]:
    """`functions` as graphs; autocast must not keep narrowed weights from one replay to the next."""
    with torch.autocast("cuda", kind, cache_enabled=False):
        return torch.cuda.make_graphed_callables(functions, samples)


def possible(ids: Tensor) -> bool:
    """Whether this is a training step on a card."""
    return ids.is_cuda and torch.is_grad_enabled() and not torch.cuda.is_current_stream_capturing()


def pair(
    model: nn.Module, ids: Tensor, row: Tensor, kind: torch.dtype, encode: Function, decode: Function, of_decoder: tuple[str, ...]
) -> Pair | None:
    """The graphs of a model for ids of this shape, captured at the first call; None where they cannot be used.

    Args:
        row: a row of the sum after the token level, for its width and dtype.
        kind: 16-bit dtype of products.
        encode, decode: of (model, ids) and of (model, the sum after the token level, targets).
        of_decoder: beginnings of the names of weights that `decode` reads; `encode` reads all others but the token level's.
    """
    known = _kept.get(model)
    if not possible(ids) or (known is not None and known.under_way):
        return None
    named = [(name, weight) for name, weight in model.named_parameters() if not name.startswith("mid_blocks.")]
    if not all(weight.requires_grad for _, weight in named):
        return None
    key = ids.shape, kind, attempts.taken(), tuple(weight.data_ptr() for _, weight in named)
    if known is None or known.key != key:
        encoders = [weight for name, weight in named if not name.startswith(of_decoder)]
        decoders = [weight for name, weight in named if name.startswith(of_decoder)]
        _kept.pop(model, None)  # its memory, before as much is asked for again
        ids, own = ids.clone(), weakref.ref(model)  # what is kept must not keep its model
        summed = row.new_zeros(*ids[:, 1:].shape, row.shape[-1])
        samples = (ids, *encoders), (summed.requires_grad_(), ids[:, 1:].clone(), *decoders)
        made = capture(
            (lambda ids, *_: encode(own(), ids), lambda summed, targets, *_: decode(own(), summed, targets)), samples, kind
        )
        known = _kept[model] = Pair(key, encoders, decoders, *made)
    return known


def run_encoder(graphs: Pair, ids: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """(byte states, loss of the early head, terms of the policy)."""

    def done() -> None:
        graphs.under_way = False

    graphs.under_way = True
    byte_states, early_nll, terms = graphs.encode(ids, *_Fresh.apply(done, *graphs.encoders))
    return byte_states, early_nll.clone(), terms.clone()


def run_decoder(graphs: Pair, summed: Tensor, targets: Tensor) -> Tensor:
    """Loss of each byte from the sum after the token level."""
    return graphs.decode(summed, targets, *_Fresh.apply(lambda: None, *graphs.decoders)).clone()


def refresh(parts: list[nn.ModuleList], kind: torch.dtype) -> None:
    """Narrow weights that changed since: a replay runs no Python that would look."""
    if attempts.on("weights"):
        for each in parts:
            narrowed(each, kind)
