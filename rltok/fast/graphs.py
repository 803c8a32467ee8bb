"""Byte layers of a training step as two CUDA graphs, which the processor starts with one call each, forward and backward.

    ids -> [encode: byte layers, early head, terms of the policy] -> draw, token level -> [decode: byte layers, head] -> nll

Both have the same shapes in every micro-batch, unlike the token level between them. A graph works in the same memory each time:
so what it gives is copied out, and its backward pass comes once, before the next forward pass. `backends.graphs` says where that
is so; in a step of training it is.
"""

import warnings
import weakref
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from rltok.errors import RltokError
from rltok.kernels import backends

Function = Callable[..., Tensor | tuple[Tensor, ...]]

# Bytes of a micro-batch times width squared, in which its matrix products grow: up to here the processor queues kernels more
# slowly than the card computes them. Measured on an H200, 32 rows of 4096 bytes: width 512 (3.4e10) takes 10.9 % less time with
# graphs, median of 67 updates, width 768 (7.7e10) 0.9 % more, of 13.
MOST_WORK = 5e10
MOST_CAPTURES = 3  # for one model: what moves its weights, or grows its batches, more often than that would capture for ever


@dataclass
class Graph:
    """A function of (input tensors, weights) as a graph, forward and backward; `last`: its forward pass that may go back."""

    names: list[str]  # of the weights
    replay: Function
    last: object = None

    def __call__(self, weights: dict[str, Tensor], *given: Tensor) -> tuple[Tensor, ...]:
        """What the function gives, in memory of its own."""
        made = self.replay(*given, *_Fresh.apply(*(weights[name] for name in self.names)))
        return _CopiedOut.apply(self, *(made if isinstance(made, tuple) else (made,)))


@dataclass
class Pair:
    """Both graphs of a model, for ids of one shape; `key`: what else must be as it was when they were captured."""

    shape: torch.Size
    key: tuple
    encode: Graph
    decode: Graph


@dataclass
class Kept:
    """What there is for one model."""

    pair: Pair | None = None
    captures: int = 0


_kept: weakref.WeakKeyDictionary[nn.Module, Kept] = weakref.WeakKeyDictionary()  # apart from models: copies have none


class _Fresh(torch.autograd.Function):
    """Weights as they are, with gradients in memory of their own: a weight keeps the first gradient that it is given."""

    @staticmethod
    def forward(ctx, *weights):
        return tuple(weight.view_as(weight) for weight in weights)

    @staticmethod
    @once_differentiable
    def backward(ctx, *gradients):
        return tuple(torch._foreach_mul(gradients, 1.0))


class _CopiedOut(torch.autograd.Function):
    """Results of a graph, in memory of their own; going back through them a second time, or after another forward pass, fails."""

    @staticmethod
    def forward(ctx, graph, *made):
        ctx.graph, ctx.own = graph, object()
        graph.last = ctx.own
        return tuple(each.clone() for each in made)

    @staticmethod
    @once_differentiable
    def backward(ctx, *slopes):
        if ctx.graph.last is not ctx.own:
            raise RltokError(
                "inside backends.graphs(True) each forward pass has one backward pass, before the next forward pass; this was"
                " another. Put backends.graphs(False) around them."
            )
        ctx.graph.last = None
        return None, *slopes


class _Call(nn.Module):
    """A function of a model, for `functional_call`."""

    def __init__(self, model: nn.Module, function: Function) -> None:
        super().__init__()
        self.model, self.function = model, function

    def forward(self, *given: Tensor) -> Tensor | tuple[Tensor, ...]:
        """The function's result."""
        return self.function(self.model, *given)


def on_a_card(ids: Tensor) -> bool:
    """Whether a graph could be captured here."""
    return ids.is_cuda and not torch.cuda.is_current_stream_capturing()


def capture(functions: tuple[Function, ...], samples: tuple[tuple[Tensor, ...], ...], kind: torch.dtype) -> tuple[Function, ...]:
    """`functions` as graphs; autocast must not keep narrowed weights from one replay to the next."""
    with torch.cuda.device(samples[0][0].device), torch.autocast("cuda", kind, cache_enabled=False):
        return torch.cuda.make_graphed_callables(functions, samples)


def wanted(ids: Tensor, width: int) -> bool:
    """Whether this is the forward pass of a step, on one card, in which the processor would be what takes the time."""
    if not (backends.graphs_allowed() and torch.is_grad_enabled() and ids[:, 1:].numel() * width**2 <= MOST_WORK):
        return False
    several = dist.is_initialized() and dist.get_world_size() > 1  # exchange gradients in the backward pass; never tried
    return not several and on_a_card(ids)


def pair(
    model: nn.Module, ids: Tensor, width: int, kind: torch.dtype, encode: Function, decode: Function, of_decoder: tuple[str, ...]
) -> tuple[Pair, dict[str, Tensor]] | None:
    """The graphs of a model for ids of this shape, and the weights that they take; None where there are none to be used.

    They are captured at the first call, and again for more bytes or where weights have moved. A smaller batch, such as the last
    one of an update, runs without.

    Args:
        width, kind: of the residual stream.
        encode, decode: of (model, ids) and of (model, the sum after the token level, targets).
        of_decoder: beginnings of the names of weights that `decode` reads; `encode` reads all others but the token level's.
    """
    if not wanted(ids, width) or (weights := _weights(model)) is None:
        return None
    kept = _kept.setdefault(model, Kept())
    known, places = kept.pair, tuple(each.data_ptr() for each in (*weights.values(), *model.buffers()))
    key = (kind, model.config, places)
    last = kept.captures == MOST_CAPTURES
    if known is None or known.key != key or (ids.numel() > known.shape.numel() and not last):
        kept.pair = None  # its memory, before as much is asked for again
        if last:
            return None
        kept.captures += 1
        known = kept.pair = _captured(model, ids, width, kind, encode, decode, of_decoder, weights, key)
    return (known, weights) if known is not None and ids.shape == known.shape else None


def _weights(model: nn.Module) -> dict[str, Tensor] | None:
    """All but the token level's, by name; None where one is frozen or has two names, or a hook waits for calls of a part."""
    hooks = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
    if any(getattr(part, name) for part in model.modules() if part is not model for name in hooks):
        return None
    named = dict(model.named_parameters(remove_duplicate=False))
    named = {name: weight for name, weight in named.items() if not name.startswith("mid_blocks.")}
    apart = len({id(weight) for weight in named.values()}) == len(named)
    return named if apart and all(weight.requires_grad for weight in named.values()) else None


def _captured(
    model: nn.Module, ids: Tensor, width: int, kind: torch.dtype, encode: Function, decode: Function, of_decoder: tuple[str, ...],
    weights: dict[str, Tensor], key: tuple,
) -> Pair | None:  # fmt: skip
    """Both graphs; None, with a warning and for good, where they cannot be had: training goes on without."""
    names = (
        [name for name in weights if not name.startswith(of_decoder)],
        [name for name in weights if name.startswith(of_decoder)],
    )
    # Leaves of their own in the same memory: what autograd keeps of a captured weight would hold every later gradient of it to
    # the stream of the capture, and wait for that ("AccumulateGrad node's stream does not match").
    own = [[weights[name].detach().requires_grad_() for name in each] for each in names]
    inputs = (ids.clone(),), (ids.new_zeros(*ids[:, 1:].shape, width, dtype=kind).requires_grad_(), ids[:, 1:].clone())
    model_of = weakref.ref(model)  # what is kept must not keep its model

    def with_weights(function: Function, names: list[str], count: int) -> Function:
        def run(*given: Tensor) -> Tensor | tuple[Tensor, ...]:
            named = {f"model.{name}": weight for name, weight in zip(names, given[count:], strict=True)}
            return torch.func.functional_call(_Call(model_of(), function), named, given[:count])

        return run

    functions = tuple(map(with_weights, (encode, decode), names, map(len, inputs)))
    try:
        made = capture(functions, tuple((*given, *each) for given, each in zip(inputs, own, strict=True)), kind)
    except RuntimeError as error:  # too little memory, too
        _kept[model].captures = MOST_CAPTURES
        why = (str(error) or type(error).__name__).splitlines()[0]
        warnings.warn(f"byte layers train without CUDA graphs, to the same effect but slower: {why}", stacklevel=2)
        return None
    return Pair(ids.shape, key, *map(Graph, names, made))


def has(model: nn.Module) -> bool:
    """Whether graphs of a model are kept, whose memory torch reserves but does not count as allocated."""
    return model in _kept and _kept[model].pair is not None


def refuse(model: nn.Module) -> bool:
    """Let go of the graphs of a model for good; whether there were any."""
    if not has(model):
        return False
    _kept[model] = Kept(captures=MOST_CAPTURES)
    return True


def forget(model: nn.Module) -> None:
    """Let go of what is kept for a model, and of its memory."""
    _kept.pop(model, None)
