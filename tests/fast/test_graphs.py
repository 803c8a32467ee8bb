"""graphs: byte layers whose memory is the same in every replay give the losses and gradients of those that have their own.

No CPU captures a graph. A stand-in keeps what matters of one: inputs, outputs and gradients are written to the same memory.
"""

import copy
import gc

import pytest
import torch
from helpers import ragged_ids, random_boundaries, random_uniforms, tiny_model
from kernel_help import DEVICE, NARROW

from rltok.fast import graphs
from rltok.fast.unet import FastUNet
from rltok.kernels import attempts, backends

pytestmark = [
    pytest.mark.usefixtures("shapes_unchecked"),
    pytest.mark.skipif(DEVICE.type == "cuda", reason="here a card has graphs of its own: tests/test_cuda.py"),
]


class Replayed(torch.autograd.Function):
    @staticmethod
    def forward(ctx, graph, *given):
        ctx.graph = graph
        return graph.forward(given)

    @staticmethod
    def backward(ctx, *slopes):
        return None, *ctx.graph.backward(slopes)


class Graph:
    """What `torch.cuda.make_graphed_callables` makes of a function, but for the card."""

    def __init__(self, function, sample):
        self.function, self.inputs, self.outputs, self.slopes = function, sample, None, None

    def __call__(self, *given):
        made = Replayed.apply(self, *given)
        return made[0] if len(made) == 1 else made

    def forward(self, given):
        for own, other in zip(self.inputs, given, strict=True):
            if own.data_ptr() != other.data_ptr():
                own.data.copy_(other)
        with torch.enable_grad():
            made = self.function(*self.inputs)
        self.made = made if isinstance(made, tuple) else (made,)
        self.outputs = self.outputs or [torch.empty_like(each) for each in self.made]
        for own, new in zip(self.outputs, self.made, strict=True):
            own.data.copy_(new)
        return tuple(each.detach() for each in self.outputs)

    def backward(self, slopes):
        wanted = [each for each in self.inputs if each.requires_grad]
        new = torch.autograd.grad(self.made, wanted, slopes)  # as a graph: every weight that was named has a gradient
        self.slopes = self.slopes or [torch.empty_like(each) for each in new]
        for own, other in zip(self.slopes, new, strict=True):
            own.copy_(other)
        of_inputs = iter(self.slopes)
        return tuple(next(of_inputs).detach() if each.requires_grad else None for each in self.inputs)


@pytest.fixture
def captures(monkeypatch):
    made = []

    def capture(functions, samples, kind):
        made.append(kind)
        return tuple(Graph(function, sample) for function, sample in zip(functions, samples, strict=True))

    monkeypatch.setattr(graphs, "capture", capture)
    monkeypatch.setattr(graphs, "possible", lambda ids: torch.is_grad_enabled())
    return made


def update(model, names, seeds=(0, 1), boundaries=True):
    """Losses of several micro-batches, and the gradients that they leave together."""
    model.zero_grad()
    losses = []
    with attempts.trying(*names), backends.use("triton"):
        for seed in seeds:
            ids = ragged_ids((13, 6), seed=seed).to(DEVICE)
            given = {"boundaries": random_boundaries(2, 13, seed=seed)} if boundaries else {}
            with torch.autocast(DEVICE.type, NARROW):
                out = model(ids, **given or {"uniforms": random_uniforms(2, 13, seed=seed)})
            (out.nll.sum() + 0.3 * out.early_nll.sum() + 0.1 * (out.boundary_logits * out.drawn).sum()).backward()
            losses += [out.nll.detach(), out.early_nll.detach(), out.boundary_logits.detach()]
    return losses, {name: weight.grad.clone() for name, weight in model.named_parameters()}


def fresh_model(**settings):
    return tiny_model(network=FastUNet, embedding_dim=32, num_heads=1, mid_layers=1, **settings).to(DEVICE)


@pytest.mark.parametrize("others", [(), ("weights",), ("stream", "zeros", "weights")], ids=str)
@pytest.mark.parametrize("boundaries", [True, False])
def test_losses_and_gradients_of_an_update_are_those_without_graphs(others, boundaries, captures):
    model = fresh_model()
    expected = update(copy.deepcopy(model), others, boundaries=boundaries)
    actual = update(model, ("graphs", *others), boundaries=boundaries)
    assert captures == [NARROW]
    for one, other in zip(actual[0], expected[0], strict=True):
        assert torch.equal(one, other)
    assert actual[1].keys() == expected[1].keys()
    for name, gradient in expected[1].items():
        assert torch.equal(actual[1][name], gradient), name


def test_weights_that_change_are_those_of_the_next_update(captures):
    model = fresh_model()
    update(model, ("graphs", "weights"), seeds=(0,))
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(1.1)
    expected, actual = update(copy.deepcopy(model), ("weights",)), update(model, ("graphs", "weights"))
    assert captures == [NARROW]
    assert all(torch.equal(*each) for each in zip(actual[0], expected[0], strict=True))


def test_a_second_forward_pass_before_the_backward_pass_takes_its_own_memory(captures):
    model, ids, boundaries = fresh_model(), ragged_ids((13, 6)), random_boundaries(2, 13, seed=0)
    with attempts.trying("graphs"), backends.use("triton"), torch.autocast(DEVICE.type, NARROW):
        first, second = (model(each, boundaries=boundaries) for each in (ids, ragged_ids((13, 6), seed=5)))
    kept = first.byte_states.clone()
    second.nll.sum().backward()
    assert torch.equal(first.byte_states, kept)
    model.zero_grad()
    first.nll.sum().backward()
    assert model.embedding.weight.grad.abs().sum() > 0 and len(captures) == 1
    update(model, ("graphs",))
    assert len(captures) == 1


def test_what_no_graph_can_hold_is_computed_as_before(captures):
    for settings in ({"head_norm": "none"}, {"lowest_rate": 0.1, "highest_rate": 0.6}, {"rotary_positions": "bf16"}):
        update(fresh_model(**settings), ("graphs",))
    frozen = fresh_model()
    frozen.output_head.weight.requires_grad_(False)
    ids, boundaries = ragged_ids((13, 6)), random_boundaries(2, 13, seed=0)
    with attempts.trying("graphs"), backends.use("triton"), torch.autocast(DEVICE.type, NARROW):
        frozen(ids, boundaries=boundaries)
        with torch.no_grad():
            fresh_model()(ids, boundaries=boundaries)
    assert captures == []


def test_another_shape_is_captured_anew_and_graphs_go_with_their_model(captures):
    model = fresh_model()
    update(model, ("graphs",))
    before = len(graphs._kept)
    ids, boundaries = ragged_ids((9, 4)), random_boundaries(2, 9, seed=0)
    with attempts.trying("graphs"), backends.use("triton"), torch.autocast(DEVICE.type, NARROW):
        model(ids, boundaries=boundaries).nll.sum().backward()
    assert len(captures) == 2 and len(graphs._kept) == before
    del model
    gc.collect()
    assert len(graphs._kept) == before - 1
