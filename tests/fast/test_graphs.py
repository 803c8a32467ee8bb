"""graphs: byte layers whose memory is the same in every replay give the losses and gradients of those that have their own.

No CPU captures a graph. A stand-in keeps what matters of one: inputs, outputs and gradients are written to the same memory, which
is filled with NaN once it was read, and what a function reads besides its inputs is what it was at the capture.
"""

import copy
import dataclasses
import gc
import pickle
import warnings

import pytest
import torch
from helpers import ragged_ids, random_boundaries, random_uniforms, tiny_model
from kernel_help import DEVICE, NARROW

from rltok.config import with_settings
from rltok.errors import RltokError
from rltok.evaluation import evaluation_mode
from rltok.fast import graphs
from rltok.fast.unet import FastUNet
from rltok.kernels import backends, window
from rltok.losses import next_byte_nll
from rltok.optim import make_optimizer
from rltok.presets import preset, presets
from rltok.runs import memory
from rltok.step import accumulate_gradient, train_step
from rltok.unet import AutoregressiveUNet

QUICK = torch.bfloat16  # of passes without kernels
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
        for own in self.outputs:
            own.data.fill_(float("nan"))
        wanted = [each for each in self.inputs if each.requires_grad]
        new = torch.autograd.grad(self.made, wanted, slopes)  # as a graph: every weight that was named has a gradient
        self.slopes = self.slopes or [torch.empty_like(each) for each in new]
        for own, other in zip(self.slopes, new, strict=True):
            own.copy_(other)
        of_inputs = iter(self.slopes)
        return tuple(next(of_inputs).detach() if each.requires_grad else None for each in self.inputs)


@pytest.fixture
def captures(monkeypatch):
    """The shape of the ids of every capture."""
    made = []

    def capture(functions, samples, kind):
        made.append(tuple(samples[0][0].shape))
        return tuple(Graph(function, sample) for function, sample in zip(functions, samples, strict=True))

    monkeypatch.setattr(graphs, "capture", capture)
    monkeypatch.setattr(graphs, "on_a_card", lambda ids: True)
    return made


class Quick(FastUNet):
    """The fast path without its kernels, which take seconds in Triton's interpreter."""

    _byte_layers, _token_layers = AutoregressiveUNet._byte_layers, AutoregressiveUNet._token_layers

    def _fused(self):
        return True

    def _encode_and_read(self, ids):
        byte_states = self.encode(ids[:, :-1]).to(QUICK)
        return byte_states, next_byte_nll(self.early_logits(byte_states), ids[:, 1:]), self.rule.terms(byte_states)

    def _through_tokens(self, byte_states, decided):
        token_states = self.mid(self.rule.downsample(byte_states, decided))
        return self.rule.upsample(token_states, byte_states, decided).to(QUICK)

    def _decoded_nll(self, upsampled, targets):
        return next_byte_nll(self.output_logits(self.decode(upsampled)), targets)


def fresh_model(network=Quick, **settings):
    return tiny_model(network=network, embedding_dim=16, num_heads=1, mid_layers=1, **settings)


def forward(model, lengths=(5, 2), seed=0, allowed=True, drawn=False):
    """One forward pass as training has it."""
    ids = ragged_ids(lengths, seed=seed)
    rows, size = ids.shape[0], ids.shape[1] - 1
    given = (
        {"uniforms": random_uniforms(rows, size, seed=seed)}
        if drawn
        else {"boundaries": random_boundaries(rows, size, seed=seed)}
    )
    path, kind = ("auto", QUICK) if isinstance(model, Quick) else ("triton", NARROW)
    with backends.use(path), backends.graphs(allowed), torch.autocast("cpu", kind):
        return model(ids, **given)


def backward(out):
    (out.nll.sum() + 0.3 * out.early_nll.sum() + 0.1 * (out.boundary_logits * out.drawn).sum()).backward()


def update(model, allowed=True, batches=((5, 2),), **how):
    """All numbers of an update of several micro-batches, and the gradients that these leave together."""
    model.zero_grad()
    numbers = {}
    for number, lengths in enumerate(batches):
        out = forward(model, lengths, seed=number, allowed=allowed, **how)
        backward(out)
        for name in ("nll", "early_nll", "boundary_logits", "boundaries", "byte_states"):
            numbers[number, name] = getattr(out, name).detach()
    return numbers | {name: weight.grad.clone() for name, weight in model.named_parameters()}


def assert_same(actual, expected):
    assert actual.keys() == expected.keys()
    for name, value in expected.items():
        assert torch.equal(actual[name], value), name


def assert_as_without(model, **how):
    assert_same(update(model, **how), update(copy.deepcopy(model), allowed=False, **how))


@pytest.mark.parametrize(("drawn", "network"), [(True, FastUNet), (True, Quick), (False, Quick)])
def test_everything_of_an_update_is_what_it_is_without_graphs(drawn, network, captures):
    model = fresh_model(network)
    assert_as_without(model, drawn=drawn, batches=((5, 2), (5, 2)))
    assert captures == [(2, 6)]


def test_the_last_micro_batch_with_fewer_rows_runs_without_and_keeps_the_graphs_of_the_others(captures):
    model = fresh_model()
    for _ in range(2):
        assert_as_without(model, batches=((5, 2), (5,)))
    assert captures == [(2, 6)]


def test_longer_rows_are_captured_anew_and_shorter_ones_run_without(captures):
    model = fresh_model()
    for lengths in ((4, 2), (6, 2), (4, 2), (6, 2)):
        assert_as_without(model, batches=(lengths,))
    assert captures == [(2, 5), (2, 7)]


def grow(model, number):
    """Nothing but rows change."""


def move(model, number):
    for weight in model.parameters():
        weight.data = weight.data.clone()


@pytest.mark.parametrize("change", [grow, move])
def test_what_would_be_captured_for_ever_is_captured_a_few_times(change, captures):
    model = fresh_model()
    for number in range(graphs.MOST_CAPTURES + 2):
        change(model, number)
        assert_as_without(model, batches=((5 + (change is grow) * number, 2),))
    assert len(captures) == graphs.MOST_CAPTURES
    assert graphs.has(model) == (change is grow)  # those of the largest batch that has any, or none of places that are left


def scale(model):
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(1.1)


def load(model):
    model.load_state_dict({name: -value for name, value in model.state_dict().items()}, strict=False)


def assign(model):
    model.load_state_dict({name: -value for name, value in model.state_dict().items()}, strict=False, assign=True)


def replace(model):
    for weight in model.parameters():
        weight.data = -weight.data


def rename(model):
    """Another parameter in the same memory."""
    model.output_head.weight = torch.nn.Parameter(model.output_head.weight.detach())


def forbid(model):
    model.never_predicted = model.never_predicted.clone().index_fill(0, torch.arange(65, 91), float("-inf"))


def set_otherwise(model):
    model.config = dataclasses.replace(model.config, window=2)


@pytest.mark.parametrize(
    ("change", "count"), [(scale, 1), (load, 1), (rename, 1), (assign, 2), (replace, 2), (forbid, 2), (set_otherwise, 2)]
)
def test_what_changes_between_updates_holds_in_the_next_one(change, count, captures):
    model = fresh_model()
    before = update(model)
    change(model)
    assert_as_without(model)
    assert not torch.equal(update(model)[0, "nll"], before[0, "nll"]) or change is rename
    assert len(captures) == count


def test_a_checkpoint_of_a_run_is_loaded_into_the_memory_that_the_graphs_read(captures):
    model, other = fresh_model(), fresh_model()
    scale(other)
    update(model)
    places = [weight.data_ptr() for weight in model.parameters()]
    model.load_state_dict(other.state_dict())
    assert places == [weight.data_ptr() for weight in model.parameters()]
    assert_same(update(model), update(other, allowed=False))
    assert len(captures) == 1


def test_two_models_in_turns_have_graphs_of_their_own(captures):
    models, gradients = [fresh_model(), fresh_model()], []
    scale(models[1])
    expected = [update(copy.deepcopy(model), allowed=False) for model in models]
    for model in models:
        model.zero_grad()
    outs = [forward(model) for model in models]
    for out in outs:
        backward(out)
    for model, out, wanted in zip(models, outs, expected, strict=True):
        assert torch.equal(out.nll, wanted[0, "nll"])
        gradients.append({name: weight.grad for name, weight in model.named_parameters()})
        assert_same(gradients[-1], {name: wanted[name] for name in gradients[-1]})
    assert captures == [(2, 6)] * 2


def test_copies_and_pickles_of_a_model_take_no_graphs_along(captures):
    model = fresh_model()
    expected = update(model)
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert not graphs.has(other)
        assert_same(update(other), expected)
    assert_same(update(model), expected)
    assert len(captures) == 3


def test_graphs_go_with_their_model(captures):
    model, before = fresh_model(), len(graphs._kept)
    update(model)
    assert len(graphs._kept) == before + 1
    del model
    gc.collect()
    assert len(graphs._kept) == before


def leaves(made):
    """What autograd would add gradients to, of everything that these were computed from."""
    found, seen, waiting = [], set(), [each.grad_fn for each in made]
    while waiting:
        node = waiting.pop()
        if node is not None and node not in seen:
            seen.add(node)
            found += [node.variable] if hasattr(node, "variable") else []
            waiting += [following for following, _ in node.next_functions]
    return found


def test_no_gradient_of_a_weight_is_bound_to_the_stream_of_the_capture(captures):
    """The node that adds to a weight's gradient lives as long as a graph refers to it, with the stream that it was made on."""
    model = fresh_model()
    forward(model)
    pair, weights = graphs._kept[model].pair, {id(weight) for weight in model.parameters()}
    for graph in (pair.encode, pair.decode):
        found = leaves(graph.replay.made)
        assert len(found) >= len(graph.names) and not {id(each) for each in found} & weights


def test_an_evaluation_between_forward_and_backward_pass_changes_nothing(captures):
    model = fresh_model()
    expected = update(copy.deepcopy(model), allowed=False)
    model.zero_grad()
    out = forward(model)
    with torch.no_grad(), evaluation_mode(model):
        for allowed in (True, False):
            forward(model, (5, 4), seed=5, allowed=allowed)
    backward(out)
    assert torch.equal(out.nll, expected[0, "nll"])
    for name, weight in model.named_parameters():
        assert torch.equal(weight.grad, expected[name]), name
    assert len(captures) == 1


def test_after_an_exception_between_forward_and_backward_pass_the_next_update_is_right(captures):
    model = fresh_model()
    left = forward(model)
    assert_as_without(model)
    with pytest.raises(RltokError, match=r"one backward pass, before the next forward pass.*graphs\(False\)"):
        backward(left)
    assert_as_without(model)
    assert len(captures) == 1


def test_a_second_backward_pass_is_refused_not_wrong(captures):
    model = fresh_model()
    out = forward(model)
    for part in (out.nll, out.early_nll):  # of either graph
        out = forward(model)
        loss = out.nll.sum() if part is out.nll else out.early_nll.sum()
        loss.backward(retain_graph=True)
        with pytest.raises(RltokError, match="one backward pass"):
            loss.backward()


def test_outside_of_a_step_and_inside_a_refusal_there_are_no_graphs(captures):
    model, ids = fresh_model(), ragged_ids((5, 2))
    with torch.autocast("cpu", QUICK):
        first, second = (model(ids, boundaries=random_boundaries(2, 5, seed=0)) for _ in range(2))
        backward(first)
        backward(second)
        with backends.graphs(False):
            forward(model)
    assert captures == []


def step_config(**settings):
    base = {"model.embedding_dim": 16, "train.precision": "auto", "data.sequence_length": 8, "train.sequences_per_update": 6}
    return with_settings(preset("tiny"), {**base, "train.micro_batch": 2, "train.training_bytes": 10_000, **settings})


def step_batches(draws):
    rows = [(5, 2), (4, 5), (3,)]
    return [
        (ragged_ids((*each, 5), seed=n)[: len(each)], random_uniforms(len(each), draws * 5, seed=n))
        for n, each in enumerate(rows)
    ]


@pytest.mark.parametrize(
    "settings",
    [
        {}, {"objective.draws": 3}, {"objective.draws": 2, "objective.further_draws": "train"},
        {"objective.draws": 4, "objective.further_draws": "antithetic"},
        {"train.policy_anneal_fraction": 0.5, "train.policy_first_rate": 0.6},
    ],
    ids=str,
)  # fmt: skip
def test_steps_of_training_with_several_draws_or_a_policy_that_changes_are_those_without(settings, captures, monkeypatch):
    config = step_config(**settings)
    monkeypatch.setattr("rltok.step.autocast", lambda config, device: torch.autocast(device.type, QUICK))
    made = []
    for allowed in (True, False):
        model = fresh_model()
        optimizer = make_optimizer(model, config.train)
        with backends.graphs(allowed):
            metrics = [train_step(model, optimizer, step_batches(config.objective.draws), config, n).to_dict() for n in (1, 2)]
        made.append((metrics, model.state_dict()))
    assert made[0][0] == made[1][0]
    assert_same(made[0][1], made[1][1])
    assert captures == [(2, 6)]


@pytest.mark.parametrize(
    "settings",
    [{"head_norm": "none"}, {"lowest_rate": 0.1, "highest_rate": 0.6}, {"rotary_positions": "bf16"}, {"lags": 20}],
    ids=str,
)
def test_what_no_graph_can_hold_is_computed_as_before(settings, captures):
    assert_as_without(fresh_model(**settings))
    assert captures == []


def freeze(model):
    model.output_head.weight.requires_grad_(False)


def tie(model):
    model.output_head.weight = model.embedding.weight


def hook(model):
    model.up_blocks[0].qkv.register_forward_hook(lambda *given: None)


@pytest.mark.parametrize("change", [freeze, tie, hook])
@pytest.mark.parametrize("before", [False, True])
def test_frozen_or_shared_weights_and_hooks_that_wait_for_a_part_need_a_pass_without(change, before, captures):
    model = fresh_model()
    if before:
        update(model)
    change(model)
    out = forward(model)
    backward(out)
    expected = copy.deepcopy(model)
    expected.zero_grad()
    backward(forward(expected, allowed=False))
    model.zero_grad()
    backward(forward(model))
    for (name, weight), other in zip(model.named_parameters(), expected.parameters(), strict=True):
        assert (weight.grad is None) == (other.grad is None) and (weight.grad is None or torch.equal(weight.grad, other.grad)), (
            name
        )
    assert len(captures) == before


def test_where_graphs_cannot_be_had_training_goes_on_and_says_so_once(captures, monkeypatch):
    tried = []

    def fails(*given):
        tried.append(1)
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB\nmore")

    monkeypatch.setattr(graphs, "capture", fails)
    model = fresh_model()
    with pytest.warns(UserWarning, match=r"without CUDA graphs.*slower: CUDA out of memory\. Tried to allocate 2 GiB$"):
        update(model)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert_as_without(model)
    assert tried == [1] and not graphs.has(model)


def test_small_networks_have_graphs_and_large_ones_or_several_processes_have_none(monkeypatch):
    monkeypatch.setattr(graphs, "on_a_card", lambda ids: True)

    def wanted(config):
        ids = torch.empty(config.train.micro_batch, config.data.sequence_length + 1, device="meta")
        with backends.graphs(True):
            return graphs.wanted(ids, config.model.embedding_dim)

    assert [name for name in presets() if "_" not in name and wanted(preset(name))] == ["24m", "32m", "40m", "small", "tiny"]
    assert not wanted(preset("147m")) and wanted(with_settings(preset("147m"), {"train.micro_batch": 16}))
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    for count in (1, 2):
        monkeypatch.setattr(torch.distributed, "get_world_size", lambda count=count: count)
        assert wanted(preset("32m")) == (count == 1)


def test_a_table_of_angles_stays_where_a_graph_reads_it():
    first = window._table(1, 8, 10_000.0, DEVICE)
    for theta in range(2, 40):
        window._table(1, 8, float(theta), DEVICE)
    assert window._table(1, 8, 10_000.0, DEVICE)[0] is first[0]


def test_the_memory_of_graphs_is_counted_and_given_back_before_smaller_batches_are_tried(captures, monkeypatch):
    monkeypatch.setattr("rltok.step.autocast", lambda config, device: torch.autocast(device.type, QUICK))
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda device: 1)
    monkeypatch.setattr(torch.cuda, "max_memory_reserved", lambda device: 2)
    model, config = fresh_model(), step_config()
    assert memory.peak_bytes(model, DEVICE) == 1
    batch = (ragged_ids((5, 2, 1, 3)), random_uniforms(4, 5))
    accumulate_gradient(model, batch, config, 1.0)
    assert memory.peak_bytes(model, DEVICE) == 2
    seen, fits = [], memory._fits

    def watched(model, optimizer, batch, config):
        seen.append(graphs.has(model))
        return fits(model, optimizer, batch, config) and len(batch[0]) < 3

    monkeypatch.setattr(memory, "_fits", watched)
    assert memory.largest_fitting(model, make_optimizer(model, config.train), batch, config, [3, 2]) == 2
    assert seen == [False, False] and captures == [(4, 6), (3, 6), (2, 6)]  # each size as training would have it
    assert not graphs.has(model)


def test_an_update_that_fits_without_the_memory_of_graphs_is_done_without(captures, monkeypatch):
    monkeypatch.setattr("rltok.step.autocast", lambda config, device: torch.autocast(device.type, QUICK))
    model, config = fresh_model(), step_config()
    optimizer, tried = make_optimizer(model, config.train), []

    def limited(*given):
        tried.append(train_step(*given))
        if graphs.has(model):
            raise torch.OutOfMemoryError("CUDA out of memory")
        return tried[-1]

    for step in (1, 2):
        assert memory.with_oom_advice(limited, model, optimizer, step_batches(1), config, step) is tried[-1]
    assert len(tried) == 3 and len(captures) == 1 and not graphs.has(model)
