"""The oracle against numpy and brute force: strings, both sides of eq. (10), the exact gradient, the influence of each reward."""

import math
from functools import partial

import numpy as np
import pytest
import torch
from brute import all_strings, close, numpy_row, numpy_rows, reached, scores, training_gradients
from helpers import ragged_ids, ranged_model, tiny_model

from rltok.errors import RltokError
from rltok.step import losses_of
from rltok.variance.exact import enumerate_boundaries, enumerate_row, exact_gradient, expected_loss, influence, joint_moments
from rltok.variance.gradients import policy_parameters

pytestmark = pytest.mark.usefixtures("shapes_unchecked")
SMALL = {"lags": 2, "mid_layers": 1, "dtype": torch.float64}
VARIANTS = ({}, {"lags": 0}, {"head_norm": "rms", "token_positions": "index"}, {"upsample": "deviation", "softcap": None})


def names_of(model):
    return list(policy_parameters(model))


def numpy_expected_loss(model, ids):
    rows = numpy_rows(model, ids)
    return sum((row.chances * row.nll.sum(1)).sum() for row in rows) / sum(row.nll.shape[1] for row in rows)


@pytest.mark.parametrize("n", range(1, 8))
def test_all_strings_of_a_row_are_there_once_in_counting_order(n):
    strings = enumerate_boundaries(n)
    assert strings.dtype == torch.bool and strings.shape == (2 ** (n - 1), n) and strings[:, 0].all()
    assert [int("".join(map(str, row)), 2) for row in strings.int().tolist()] == list(range(2 ** (n - 1), 2**n))


def test_twelve_free_positions_are_enumerated_and_one_more_is_refused_with_its_cost_and_the_limit():
    assert enumerate_boundaries(13).unique(dim=0).shape == (4096, 13)
    with pytest.raises(RltokError, match=r"14 positions has 13 free.*2\*\*13 = 8192 strings.*limit is 12 \(4096.*shorter rows"):
        enumerate_boundaries(14)


@pytest.mark.parametrize("n", [0, -3])
def test_a_row_without_positions_is_refused(n):
    with pytest.raises(RltokError, match=f"at least 1 position.*got n = {n}"):
        enumerate_boundaries(n)


@pytest.mark.parametrize(
    ("call", "lengths", "message"),
    [
        (enumerate_row, (14,), "the row has 13 free"),
        (expected_loss, (2, 14), "the row has 13 free"),
        (exact_gradient, (14,), "the row has 13 free"),
        (influence, (15,), "the row has 14 free"),
        (lambda model, ids: joint_moments(model, ids, ["naive"]), (8, 8), "the batch of 2 rows has 14 free.* 16384 strings"),
    ],
)
def test_whatever_enumerates_refuses_too_many_strings_before_it_scores_one(call, lengths, message, monkeypatch):
    model = tiny_model(**SMALL)
    monkeypatch.setattr(model, "encode", None)
    with pytest.raises(RltokError, match=f"{message}.*the limit is 12"):
        call(model, ragged_ids(lengths))


@pytest.mark.parametrize("call", [enumerate_row, influence])
def test_what_is_about_one_row_refuses_two(call):
    with pytest.raises(RltokError, match="takes one row; got 2"):
        call(tiny_model(**SMALL), ragged_ids((2, 2)))


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_a_row_at_every_string_equals_numpy(variant, training):
    model, ids = tiny_model(**SMALL | variant).train(training), ragged_ids((4,), width=6, seed=3)
    row, wanted = enumerate_row(model, ids), numpy_row(model, ids[0])
    assert (row.boundaries[:, :4].numpy() == wanted.strings).all() and not row.boundaries[:, 4:].any()
    close(row.log_policy, wanted.log_pi.sum(1), atol=1e-11)
    close(row.nll[:, :4], wanted.nll, atol=1e-11)
    close(row.early_nll[:4], wanted.early_nll, atol=1e-11)
    assert row.log_policy.exp().sum().item() == pytest.approx(1, abs=1e-12) and not row.nll[:, 4:].any()


def test_the_losses_of_more_strings_than_are_scored_at_a_time_stay_in_order():
    model, ids = tiny_model(**SMALL), ragged_ids((11,))
    row = enumerate_row(model, ids)
    for number in (0, 511, 512, 1023):
        assert torch.allclose(row.nll[number], model(ids, boundaries=row.boundaries[number, None]).nll[0], rtol=0, atol=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_both_sides_of_eq_10_equal_numpy_and_their_gap_is_never_negative(seed):
    model, ids = tiny_model(seed=seed, **SMALL), ragged_ids((5,), seed=seed)
    row, wanted = enumerate_row(model, ids), numpy_row(model, ids[0])
    log_likelihood = -wanted.nll.sum(1)
    assert row.expected.item() == pytest.approx((wanted.chances * log_likelihood).sum(), abs=1e-10)
    assert row.marginal.item() == pytest.approx(math.log((wanted.chances * np.exp(log_likelihood)).sum()), abs=1e-10)
    assert row.jensen_gap.item() == pytest.approx(row.marginal.item() - row.expected.item(), abs=1e-12)
    assert row.jensen_gap > 1e-3


def test_the_marginal_of_a_row_too_unlikely_for_a_floating_point_number_is_finite():
    model, ids = tiny_model(**SMALL), ragged_ids((4,))
    with torch.no_grad():
        model.output_head.weight *= 400
    row, wanted = enumerate_row(model, ids), numpy_row(model, ids[0])
    assert (-row.log_likelihood > 1000).all()  # e^-1000 is 0 in float64
    assert row.marginal.item() == pytest.approx(np.logaddexp.reduce(wanted.log_pi.sum(1) - wanted.nll.sum(1)), rel=1e-12)


def test_the_gap_is_nothing_where_boundaries_do_not_matter_or_leave_nothing_to_chance():
    ids = ragged_ids((5,))
    silent = tiny_model(upsample="deviation", **SMALL)
    with torch.no_grad():
        for block in silent.mid_blocks:  # the token level adds nothing
            block.out.weight.zero_()
            block.mlp.down.weight.zero_()
    certain = tiny_model(**SMALL).eval()
    certain.rule.bias = -200.0  # no boundary but the forced one
    for model in (silent, certain):
        assert abs(enumerate_row(model, ids).jensen_gap.item()) < 1e-12
    assert enumerate_row(tiny_model(upsample="deviation", **SMALL), ids).jensen_gap > 1e-3


@pytest.mark.parametrize("lengths", [(4,), (4, 1, 3)], ids=str)
def test_the_expected_loss_equals_numpy_per_scored_byte(lengths):
    model, ids = tiny_model(**SMALL), ragged_ids(lengths, seed=1)
    loss = expected_loss(model, ids)
    assert loss.item() == pytest.approx(numpy_expected_loss(model, ids), abs=1e-11) and loss.requires_grad


@pytest.mark.parametrize("rate", [None, 0.1, 0.6])  # None: of a policy with one rate
def test_the_exact_gradient_equals_finite_differences_of_numpys_expected_loss_in_every_parameter(rate):
    make = tiny_model if rate is None else partial(ranged_model, rate)
    model, ids, step = make(lags=1, mid_layers=1, dtype=torch.float64), ragged_ids((3, 2), seed=4), 1e-5
    gradient = exact_gradient(model, ids).total
    assert set(gradient) == set(dict(model.named_parameters()))
    generator, seen = np.random.default_rng(0), 0
    for name, parameter in model.named_parameters():
        flat, exact = parameter.detach().view(-1), gradient[name].flatten()
        for at in (int(exact.abs().argmax()), int(generator.integers(len(flat)))):
            value, ends = flat[at].item(), []
            for sign in (1, -1):
                flat[at] = value + sign * step
                ends.append(numpy_expected_loss(model, ids))
            flat[at] = value
            assert exact[at].item() == pytest.approx((ends[0] - ends[1]) / (2 * step), rel=1e-6, abs=1e-9), (name, at)
            seen += abs(exact[at].item()) > 1e-5
    assert seen > 20  # of two coordinates each


@pytest.mark.parametrize("training", [True, False])
def test_each_term_of_the_exact_gradient_equals_brute_force_and_they_add_up(training):
    model, ids = tiny_model(**SMALL).train(training), ragged_ids((4, 3), seed=2)
    exact, rows, parameters = exact_gradient(model, ids), numpy_rows(model, ids), dict(model.named_parameters())
    conditional, policy = {name: 0.0 for name in parameters}, 0.0
    for row, alone in zip(rows, ids, strict=True):
        size = len(row.early_nll)
        for chance, string in zip(row.chances, torch.from_numpy(row.strings), strict=True):
            out = model(alone[None, : size + 1], boundaries=string[None])
            loss = losses_of(out, torch.zeros_like(out.nll), 0.3).auto * size / 7
            grads = torch.autograd.grad(loss, parameters.values(), allow_unused=True, materialize_grads=True)
            conditional = {name: conditional[name] + chance * grad for name, grad in zip(parameters, grads, strict=True)}
        each = scores(model, alone, row.strings).sum(1)  # grad log pi of the whole string
        policy = policy + np.einsum("s,s,sp->p", row.chances, row.nll.sum(1), each) / 7
    for name in parameters:  # eq. (12), then (13)
        close(exact.conditional[name], conditional[name], atol=1e-11, what=name)
        close(exact.total[name], exact.conditional[name] + exact.policy[name], atol=1e-12, what=name)
    close(exact.flat("policy", names_of(model)), policy, atol=1e-11)
    assert np.abs(policy).max() > 1e-3
    assert not any(exact.policy[name].any() for name in set(parameters) - set(names_of(model)))


@pytest.fixture(scope="module")
def influenced():
    """Model, ids with padding, I_ij of the oracle and by brute force."""
    model, ids = tiny_model(**SMALL), ragged_ids((4,), width=5, seed=5)
    row = numpy_row(model, ids[0])
    brute = np.einsum("s,sj,sip->ijp", row.chances, row.nll, scores(model, ids[0], row.strings)) / 4
    return model, ids, influence(model, ids).numpy(), brute


def test_the_influence_of_every_reward_on_every_decision_equals_brute_force(influenced):
    model, _, influences, brute = influenced
    assert influences.shape == (5, 5, sum(p.numel() for p in reached(model)))
    close(influences[:4, :4], brute, atol=1e-11)
    assert not influences[4:].any() and not influences[:, 4:].any()  # padding decides nothing and pays nothing


def test_no_decision_influences_an_earlier_reward_and_the_forced_one_influences_nothing(influenced):
    largest = np.abs(influenced[2][:4, :4]).max(axis=2)
    assert largest[np.tril_indices(4, -1)].max() < 1e-14  # j < i
    assert not largest[0].any()
    assert largest[1:][np.triu_indices(3, 1, 4)].min() > 1e-5 and largest[[1, 2, 3], [1, 2, 3]].min() > 1e-5


def test_the_influences_add_up_to_the_policy_term(influenced):
    model, ids, influences, _ = influenced
    close(influences.sum(axis=(0, 1)), exact_gradient(model, ids).flat("policy", names_of(model)), atol=1e-12)


@pytest.mark.parametrize("gamma", [0, 0.5, 0.9, 0.995])
def test_weighted_by_gamma_they_are_what_discounted_training_expects(gamma, influenced):
    model, ids, influences, _ = influenced
    name, chances = f"causal+early+gamma{gamma}", numpy_row(model, ids[0]).chances
    brute = chances @ training_gradients(model, ids, all_strings(ids), [name])[name].numpy()
    weights = np.array([[gamma ** (j - i) if j >= i else 0.0 for j in range(5)] for i in range(5)])
    close(np.einsum("ij,ijp->p", weights, influences), brute, atol=1e-11)
    close(joint_moments(model, ids, [name])[name].mean, brute, atol=1e-11)
