"""rltok.rules.dynamic_pooling: gates, groups, prior, and the gradients that reach the gates, against dense matrices."""

import math

import numpy as np
import pytest
import torch
from helpers import ragged_ids, random, random_boundaries, random_uniforms, sigmoid, tiny_model
from numpy_unet import head_log_probs, rms_norm, stack, weights

from rltok.config import with_settings
from rltok.errors import RltokError
from rltok.optim import make_optimizer
from rltok.presets import preset
from rltok.rules.dynamic_pooling import (
    DynamicPoolingRule,
    binomial_prior_loss,
    group_centres,
    group_means,
    membership,
    relaxed_bernoulli,
    straight_through,
)
from rltok.runs.checkpoint import save_checkpoint
from rltok.runs.loading import load, load_config
from rltok.runs.models import new_model
from rltok.unet import AutoregressiveUNet
from rltok.vocab import PAD

DIM = 6


def make_rule(variant="faithful", **settings):
    settings = {"target_rate": 0.2, "temperature": 0.5, "prior_weight": 1.0, "norm_eps": 1e-6} | settings
    torch.manual_seed(0)
    return DynamicPoolingRule(DIM, variant=variant, **settings).double()


def inputs_of(lengths):
    ids = ragged_ids(lengths)[:, :-1]
    return ids.masked_fill(torch.arange(ids.shape[1]) >= torch.tensor(lengths).clamp(min=1)[:, None], PAD)


# Gates


def test_a_soft_gate_is_the_relaxed_bernoulli_of_its_uniform_and_crosses_one_half_where_the_uniform_crosses_p():
    logits, uniforms = 2 * random(3, 50), random_uniforms(3, 50).double()
    x, u = logits.numpy(), uniforms.numpy()
    for temperature in (0.5, 1.0):
        hard, actual = relaxed_bernoulli(logits, uniforms, temperature)
        np.testing.assert_allclose(actual, sigmoid((x + np.log((1 - u) / u)) / temperature), rtol=0, atol=1e-13)
        assert ((actual.numpy() > 0.5) == (u < sigmoid(x))).all() and torch.equal(hard, actual > 0.5)


def test_gates_of_the_extreme_uniforms_are_sure_and_their_gradients_finite():
    logits = torch.zeros(1, 2, requires_grad=True)
    hard, soft = relaxed_bernoulli(logits, torch.tensor([[0.0, 1 - 2**-24]]), 0.5)
    soft.sum().backward()
    assert hard.tolist() == [[True, False]] and soft[0, 0] == 1 and soft[0, 1] < 1e-13 and logits.grad.isfinite().all()


def test_gates_are_boundaries_with_the_chance_of_their_logit():
    share = relaxed_bernoulli(torch.full((1, 20000), -1.0), random_uniforms(1, 20000), 0.5)[0].float().mean()
    assert share.item() == pytest.approx(sigmoid(-1.0), abs=4 * 0.0032)  # four standard deviations


def test_straight_through_has_the_hard_values_to_the_bit_and_the_soft_gradient():
    soft = torch.rand(1, 1000, generator=torch.Generator().manual_seed(0)).requires_grad_()
    hard = soft.detach() > 0.5
    actual = straight_through(hard, soft)
    assert torch.equal(actual, hard.float())
    weight = torch.arange(1000.0)
    (actual * weight).sum().backward()
    assert torch.equal(soft.grad[0], weight)


# Groups


def dense_means(states, gates):
    """Tokens of one row by a dense matrix of bytes and groups, as the original has it; closed groups only."""
    before = gates.cumsum(0) - gates
    closed = int(gates.detach().sum())
    distance = torch.arange(closed)[None, :] - before[:, None]
    weights = torch.where(distance == 0, 1 - distance, 0.0)
    return (weights / weights.sum(0, keepdim=True)).T @ states


def pooled(states, boundaries, soft):
    return group_means(states, boundaries, membership(straight_through(boundaries, soft)))


@pytest.mark.parametrize("seed", range(5))
def test_group_means_and_their_gradients_equal_those_of_a_dense_matrix_in_ragged_rows(seed):
    lengths = (17, 9, 1, 12)
    states, soft = random(4, 17, DIM, seed=seed), torch.rand(4, 17, dtype=torch.float64)
    boundaries = random_boundaries(4, 17, seed=seed) & (torch.arange(17) < torch.tensor(lengths)[:, None])
    target = random(int(boundaries.sum()), DIM, seed=seed + 1)

    def gradients(make):
        x, s = (value.clone().requires_grad_() for value in (states, soft))
        tokens = make(x, s)
        return tokens, *torch.autograd.grad((tokens * target).sum(), (x, s))

    estimates = gradients(lambda x, s: pooled(x, boundaries, s))
    expected = gradients(
        lambda x, s: torch.cat(
            [dense_means(x[b], straight_through(boundaries[b : b + 1], s[b : b + 1])[0]) for b in range(len(lengths))]
        )
    )
    for one, other in zip(estimates, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-12)
    assert estimates[2].abs().max() > 1e-3


def test_the_gradient_of_a_gate_is_what_the_rest_of_its_group_adds_to_the_token():
    states, boundaries = random(1, 9, DIM), torch.tensor([[1, 0, 0, 1, 0, 0, 0, 1, 0]]).bool()
    soft = torch.full((1, 9), 0.5, dtype=torch.float64, requires_grad=True)
    push = random(3, DIM, seed=1)
    (pooled(states, boundaries, soft) * push).sum().backward()
    x, expected = states[0].numpy(), np.zeros(9)
    for start, stop, token in ((1, 4, 1), (4, 8, 2)):  # groups of the bytes 1..3 and 4..7; BOS is a group of its own
        share = (x[start:stop] - x[start:stop].mean(0)) @ push[token].numpy() / (stop - start)
        for k in range(start, stop):  # w_l grows with every gate before l; whole groups that follow sum to 0
            expected[k] = share[k + 1 - start :].sum()
    np.testing.assert_allclose(soft.grad[0], expected, rtol=0, atol=1e-14)
    assert soft.grad[0, 8] == 0  # nothing after it, and its bytes reach no token


def test_a_boundary_closes_its_group_and_the_bytes_after_the_last_one_reach_no_token():
    states = torch.tensor([[[1.0], [2.0], [4.0], [6.0], [100.0]]])
    marks = torch.tensor([[1, 0, 0, 1, 0]]).bool()
    assert pooled(states, marks, torch.zeros(1, 5)).flatten().tolist() == [1.0, 4.0]


def test_every_byte_a_boundary_gives_every_byte_its_own_token_and_none_gives_bos_alone():
    states = random(2, 5, DIM)
    everything = torch.ones(2, 5, dtype=torch.bool)
    torch.testing.assert_close(pooled(states, everything, torch.ones(2, 5).double()), states.flatten(0, 1), rtol=0, atol=0)
    nothing = torch.arange(5).expand(2, 5) == 0
    torch.testing.assert_close(pooled(states, nothing, torch.zeros(2, 5).double()), states[:, 0], rtol=0, atol=0)


def test_groups_are_counted_exactly_in_rows_far_longer_than_bf16_can_count():
    boundaries = torch.ones(1, 4096, dtype=torch.bool)
    states = torch.arange(4096.0)[None, :, None].bfloat16()
    means = pooled(states, boundaries, torch.zeros(1, 4096))
    assert torch.equal(means, states[0].float())


# Losses


def test_the_prior_is_minus_the_log_binomial_per_position_with_the_same_gradient_for_every_gate_of_a_row():
    gates = random_boundaries(3, 12, seed=3).double().requires_grad_()
    mask = torch.arange(12) < torch.tensor([12, 5, 0])[:, None]
    loss = binomial_prior_loss(gates, 0.2, mask)
    loss.backward()
    total, slopes = 0.0, np.zeros((3, 12))
    for row, n in enumerate((12, 5, 0)):
        k = int(gates[row, :n].sum())
        total -= math.log(math.comb(n, k) * 0.2**k * 0.8 ** (n - k))
        # digamma of a whole number is a harmonic number less a constant
        slope = sum(1 / i for i in range(1, k + 1)) - sum(1 / i for i in range(1, n - k + 1)) - math.log(0.2 / 0.8)
        slopes[row, :n] = slope / 17
    assert loss.item() == pytest.approx(total / 17, abs=1e-12)
    np.testing.assert_allclose(gates.grad, slopes, rtol=0, atol=1e-12)


def test_the_rules_own_loss_is_the_weighted_prior_over_drawn_positions():
    rule, ids = make_rule(prior_weight=3.0), inputs_of((9, 4))
    decided = rule.decide(random(2, 9, DIM), ids, random_uniforms(2, 9))
    counts = [(int(row[1:n].sum()), n - 1) for row, n in zip(decided.boundaries, (9, 4), strict=True)]
    expected = -sum(math.log(math.comb(n, k) * 0.2**k * 0.8 ** (n - k)) for k, n in counts) / 11
    assert decided.aux_loss.item() == pytest.approx(3 * expected, abs=1e-12)
    assert decided.logits is None  # no score-function policy


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_the_authors_pressure_is_eq_24_on_the_noisy_gates_of_drawn_positions(temperature):
    rule, ids, states = make_rule("authors", prior_weight=2.0, temperature=temperature), inputs_of((9, 4)), random(2, 9, DIM)
    leaf, uniforms = random(2, 9, seed=4).requires_grad_(), random_uniforms(2, 9)
    rule.logits = lambda states: leaf
    decided = rule.decide(states, ids, uniforms)
    decided.aux_loss.backward()
    drawn = np.array([[0 < i < n for i in range(9)] for n in (9, 4)])
    x, u = leaf.detach().numpy(), uniforms.double().numpy()
    noisy = ((x + np.log(1 - u) - np.log(u)) / temperature)[drawn]
    gap = sigmoid(noisy).mean() - 0.2
    assert abs(gap - (sigmoid(x[drawn]).mean() - 0.2)) > 0.01  # the noise matters
    assert decided.aux_loss.item() == pytest.approx(2 * noisy.mean() * gap, abs=1e-12)
    np.testing.assert_allclose(leaf.grad, np.where(drawn, 2 * gap / 11 / temperature, 0), rtol=0, atol=1e-14)


# The rule


@pytest.mark.parametrize("variant", ["faithful", "authors"])
def test_the_perceptron_has_gelu_as_published_and_relu_as_the_authors_ran_it(variant):
    rule, states = make_rule(variant), random(1, 50, DIM)
    w = weights(rule)
    x = rms_norm(states[0].numpy(), w["norm.weight"], 1e-6) @ w["hidden.weight"].T + w["hidden.bias"]
    hidden = np.maximum(x, 0) if variant == "authors" else x * np.vectorize(math.erfc)(-x / math.sqrt(2)) / 2
    expected = hidden @ w["gate.weight"][0] + w["gate.bias"]
    np.testing.assert_allclose(rule.logits(states)[0].detach(), expected, rtol=0, atol=1e-12)


def test_gates_follow_logits_uniforms_and_temperature_and_are_forced_on_bos_only():
    rule, ids, states = make_rule(temperature=0.7), inputs_of((9, 4)), random(2, 9, DIM)
    uniforms = random_uniforms(2, 9)
    decided = rule.decide(states, ids, uniforms)
    x, u = rule.logits(states).detach().numpy(), uniforms.double().numpy()
    expected = sigmoid((x + np.log((1 - u) / u)) / 0.7)
    expected[:, 0] = 1
    expected[1, 4:] = 0
    np.testing.assert_allclose(decided.soft.detach(), expected, rtol=0, atol=1e-12)
    np.testing.assert_array_equal(decided.boundaries, expected > 0.5)
    evaluated = rule.eval().decide(states, ids, uniforms)
    assert torch.equal(evaluated.soft, decided.soft)  # draws in evaluation too


def test_the_loss_reaches_a_logit_through_the_pooling_weights_and_the_slope_of_its_soft_gate():
    rule = make_rule("authors", prior_weight=0.0)
    ids, states = inputs_of((8,)), random(1, 8, DIM)
    seen = {}

    def logits_as_leaf(states):
        return seen["logits"]

    seen["logits"] = random(1, 8, seed=4).requires_grad_()
    rule.logits = logits_as_leaf
    decided = rule.decide(states, ids, random_uniforms(1, 8, seed=2))
    packed = rule.downsample(states, decided)
    push = random(*packed.states.shape, seed=5)
    (packed.states * push).sum().backward()
    gates = decided.soft.detach().clone().requires_grad_()
    (pooled(states, decided.boundaries, gates) * push).sum().backward()
    slope = (decided.soft * (1 - decided.soft)).detach() / 0.5
    expected = torch.where(torch.arange(8) > 0, gates.grad * slope, 0.0)
    torch.testing.assert_close(seen["logits"].grad, expected, rtol=0, atol=1e-13)
    assert expected.abs().max() > 1e-3


def test_the_null_group_stands_where_bos_is_and_bytes_before_the_first_boundary_read_it():
    rule, states = make_rule(), random(2, 6, DIM)
    marks = torch.tensor([[1, 0, 0, 1, 0, 0], [1, 0, 0, 0, 0, 0]]).bool()
    decided = rule.prescribed(states, marks)
    packed = rule.downsample(states, decided)
    assert (packed.offsets.tolist(), packed.positions.tolist()) == ([0, 2, 3], [0, 3, 0])
    null, mean = rule.null_group.detach().numpy(), states[0, 1:4].numpy().mean(0)
    normed = [(x - x.mean()) / np.sqrt(x.var() + 1e-5) for x in (null, mean, null)]
    np.testing.assert_allclose(packed.states.detach(), normed, rtol=0, atol=1e-12)
    added = rule.upsample(packed.states, states, decided) - states
    torch.testing.assert_close(added[0], packed.states[[0, 0, 0, 1, 1, 1]], rtol=0, atol=1e-12)
    torch.testing.assert_close(added[1], packed.states[[2] * 6], rtol=0, atol=1e-12)


def test_the_authors_variant_has_bos_as_its_own_group_and_no_norm():
    rule, states = make_rule("authors"), random(1, 4, DIM)
    packed = rule.downsample(states, rule.prescribed(states, torch.tensor([[1, 0, 1, 0]]).bool()))
    torch.testing.assert_close(packed.states, torch.stack([states[0, 0], states[0, 1:3].mean(0)]), rtol=0, atol=1e-14)
    assert packed.positions.tolist() == [0.0, 1.5] and not hasattr(rule, "null_group")


@pytest.mark.parametrize("seed", range(3))
def test_a_group_stands_at_the_mean_of_its_bytes_positions(seed):
    boundaries, expected = random_boundaries(4, 17, seed=seed), []
    boundaries[2, 1:] = False  # BOS alone
    for row in boundaries.tolist():
        group = []
        for position, closes in enumerate(row):
            group.append(position)
            if closes:
                expected.append(sum(group) / len(group))
                group = []
    assert group_centres(boundaries).tolist() == expected


def test_a_network_of_the_authors_variant_equals_numpy_position_by_position():
    model = tiny_model("dynamic_pooling", variant="authors", dtype=torch.float64)
    ids, uniforms = ragged_ids((30,)), random_uniforms(1, 30)
    w, config, places = weights(model), model.config, np.arange(30)
    x = model.encode(ids[:, :-1])[0].detach().numpy()
    marks = model(ids, uniforms=uniforms).boundaries[0].numpy()
    groups = np.split(places, np.flatnonzero(marks) + 1)[: marks.sum()]
    assert len({len(group) for group in groups}) > 2
    tokens, centres = (np.stack([values[group].mean(0) for group in groups]) for values in (x, places))
    mixed = stack(w, "mid_blocks", config.mid_layers, tokens, centres, len(tokens), config)
    y = np.stack([x[j] + mixed[marks[: j + 1].sum() - 1] for j in places])
    decoded = stack(w, "up_blocks", config.up_layers, y, places, config.window, config)
    actual = model.log_probs(ids, uniforms=uniforms)[0].detach().numpy()
    expected = head_log_probs(w, "output_norm", "output_head", decoded, config)
    np.testing.assert_allclose(actual[:, [*range(256), 257]], expected, rtol=0, atol=1e-11)


def test_the_earlier_port_is_refused_by_name_while_its_settings_can_still_be_read(tmp_path):
    new = preset("tiny_dynamic_pooling_port", {"model.embedding_dim": 16})
    old = with_settings(new, {"model.rule.variant": "port"})
    assert old.digest() != new.digest()
    model = new_model(new, torch.device("cpu"))
    progress = {"step": 0, "bytes": 0, "tokens": 0, "seconds": 0.0}
    checkpoint = save_checkpoint(tmp_path, progress, model, make_optimizer(model, old.train), old)
    assert load_config(checkpoint) == old
    for use in (lambda: load(checkpoint), lambda: new_model(old, torch.device("cpu"))):
        with pytest.raises(
            RltokError, match=r"^model\.rule\.variant='port' of dynamic_pooling .*'authors'.*version that wrote.*$"
        ):
            use()
    with pytest.raises(RltokError, match=r"variant must be 'faithful' or 'port' for hnet; got 'authors'"):
        with_settings(preset("tiny_hnet"), {"model.rule.variant": "authors"})


def test_prescribing_the_drawn_boundaries_predicts_the_same_and_shows_probabilities_as_gates():
    model = tiny_model("dynamic_pooling", dtype=torch.float64)
    ids = ragged_ids((13, 7, 1, 0))
    drawn = model(ids, uniforms=random_uniforms(4, 13))
    given = model(ids, boundaries=drawn.boundaries)
    assert torch.equal(given.nll, drawn.nll) and given.aux_loss == 0
    chances = model.rule.logits(model.encode(ids[:, :-1])).sigmoid()
    assert torch.equal(given.soft[:, 1:], chances[:, 1:]) and (given.soft[:, 0] == 1).all()


def test_a_fresh_model_has_about_one_boundary_in_two_bytes():
    torch.manual_seed(0)
    model = AutoregressiveUNet(tiny_model("dynamic_pooling").config)
    out = model(ragged_ids((500, 500)), uniforms=random_uniforms(2, 500))
    assert out.boundaries[out.drawn].float().mean().item() == pytest.approx(0.5, abs=0.1)
