"""With weight 1, gamma 1 and no centring the expected gradient is exactly that of the expected NLL, eq. (11).

Expectations are sums over all boundary strings of short rows, so nothing here is a statistical test.
"""

import dataclasses
import itertools
import math

import pytest
import torch
from helpers import ragged_ids, ranged_model, tiny_model

from rltok.config import ObjectiveConfig
from rltok.estimator import advantages
from rltok.step import losses_of

pytestmark = pytest.mark.usefixtures("shapes_unchecked")

EXACT = 1e-10  # float64; gradients are of size 0.01 to 1
UNBIASED = ObjectiveConfig(gamma=1.0, centring="none")


def strings(length, width):
    """All decisions of a row of `length` bytes, position 0 forced, False on the padding up to `width`."""
    tails = itertools.product([False, True], repeat=length - 1)
    return [[True, *tail, *[False] * (width - length)] for tail in tails]


def all_decisions(lengths):
    """bool [S, B, N]: every combination of the rows' strings."""
    width = max(lengths)
    return torch.tensor(list(itertools.product(*(strings(n, width) for n in lengths))))


def logit_of(rate):
    return math.log(rate / (1 - rate))


def policy_logits(model, states, row, n):
    """Logits of one row's decisions after the forced one, from eqs. (21) to (23), one after the other."""
    rule, logits = model.config.rule, []
    normed, rate = model.rule.norm(states), model.rule.rate
    terms = normed @ model.rule.project.weight.T
    if model.rule.rates:
        more = logit_of(rate) - logit_of(rule.target_rate)
        terms = terms + torch.nn.functional.pad(more * (normed @ model.rule.of_rate)[:, None], (0, rule.lags))
    for i in range(1, n):
        raw = terms[i, 0] + sum(terms[i, j] for j in range(1, rule.lags + 1) if i >= j and row[i - j])
        logit = raw / rule.scale + logit_of(rate)
        if model.training and rule.softcap is not None:
            logit = rule.softcap * torch.tanh(logit / rule.softcap)
        logits.append(logit)
    return torch.stack(logits) if logits else states.new_zeros(0)


def log_policy(model, states, row, n):
    """log pi(a | x) of one row's string, from eqs. (19) and (20)."""
    decisions = torch.tensor(row[1:n])
    logits = policy_logits(model, states, row, n)
    return torch.where(decisions, logits, -logits).sigmoid().log().sum()


def log_policies(model, ids, lengths, decisions):
    """log pi of each combination of strings [S]; with gradient."""
    states = model.encode(ids[:, :-1])
    rows = [[log_policy(model, states[b], a[b], n) for b, n in enumerate(lengths)] for a in decisions.tolist()]
    return torch.stack([sum(row) for row in rows])


def gradients(loss, model):
    """By name; zeros where a parameter takes no part."""
    named = dict(model.named_parameters())
    grads = torch.autograd.grad(loss, named.values(), allow_unused=True, retain_graph=True)
    return {name: torch.zeros_like(p) if g is None else g for (name, p), g in zip(named.items(), grads, strict=True)}


def exact_gradient(model, ids, lengths):
    """d/dtheta of sum_a pi(a) nll(a) / bytes, with autograd through both factors."""
    decisions = all_decisions(lengths)
    chances = log_policies(model, ids, lengths, decisions).exp()
    assert chances.sum().item() == pytest.approx(1, abs=1e-12)
    expected = sum(p * model(ids, boundaries=a).nll.sum() for p, a in zip(chances, decisions, strict=True)) / sum(lengths)
    return gradients(expected, model)


def estimator_gradients(model, ids, lengths, *objectives, auto=1.0):
    """For each objective the mean over all strings of the gradient of what training minimises, with lambda_policy = 1."""
    decisions = all_decisions(lengths)
    with torch.no_grad():
        chances = log_policies(model, ids, lengths, decisions).exp()
    expected = [0.0] * len(objectives)
    for p, a in zip(chances, decisions, strict=True):
        out = model(ids, boundaries=a)
        for number, objective in enumerate(objectives):
            paid = advantages(out.nll, out.early_nll, out.scored, **objective.reductions)
            losses = losses_of(out, paid, model.config.rule.target_rate)
            expected[number] = expected[number] + p * (auto * losses.auto + losses.policy)
    return [gradients(loss, model) for loss in expected]


def assert_same(actual, expected, *, factor=1.0, what=""):
    for name, value in expected.items():
        torch.testing.assert_close(actual[name], factor * value, rtol=0, atol=EXACT, msg=lambda m, at=name: f"{what} {at}: {m}")


def largest_difference(actual, expected):
    return max((actual[name] - expected[name]).abs().max().item() for name in expected)


@pytest.mark.parametrize("lags", [0, 1, 3])
@pytest.mark.parametrize("lengths", [(5,), (4, 2)], ids=["one row", "two ragged rows"])
def test_the_expected_gradient_is_that_of_the_expected_nll_for_every_parameter(lengths, lags):
    model, ids = tiny_model(lags=lags, dtype=torch.float64), ragged_ids(lengths, seed=lags)
    exact = exact_gradient(model, ids, lengths)
    assert min(exact[name].abs().max() for name in exact if "early" not in name) > 1e-4  # there is something to compare
    changes = ({}, {"relative_rewards": False}, {"credit": "total"})
    objectives = [dataclasses.replace(UNBIASED, **change) for change in changes]
    for change, actual in zip(changes, estimator_gradients(model, ids, lengths, *objectives), strict=True):
        assert_same(actual, exact, what=change)


def test_it_holds_in_evaluation_mode_for_six_bytes_and_positions_by_token_number():
    model = tiny_model(token_positions="index", mid_layers=1, dtype=torch.float64).eval()
    ids = ragged_ids((6,), seed=9)
    assert_same(*estimator_gradients(model, ids, (6,), UNBIASED), exact_gradient(model, ids, (6,)))


@pytest.mark.parametrize("rate", [0.1, 0.6])
def test_at_a_rate_that_was_drawn_policy_and_rate_loss_have_the_gradient_of_the_sums_over_all_strings(rate):
    model, ids = ranged_model(rate, lags=2, dtype=torch.float64), ragged_ids((5,), seed=2)
    decisions, states = all_decisions((5,)), model.encode(ids[:, :-1])
    chances = log_policies(model, ids, (5,), decisions).exp()
    pulls = [policy_logits(model, states[0], a[0], 5) for a in decisions.tolist()]
    pressure = sum(
        chance.detach() * logits.mean() * (logits.sigmoid().mean() - rate).detach()
        for chance, logits in zip(chances, pulls, strict=True)
    )
    held = gradients(pressure, model)
    exact = {name: grad + 0.5 * held[name] for name, grad in exact_gradient(model, ids, (5,)).items()}
    assert held["rule.of_rate"].abs().max() > 1e-4
    expected = 0.0
    for chance, a in zip(chances.detach(), decisions, strict=True):
        out = model(ids, boundaries=a)
        losses = losses_of(out, advantages(out.nll, out.early_nll, out.scored, **UNBIASED.reductions), rate)
        expected = expected + chance * (losses.auto + losses.policy + 0.5 * losses.target)
    assert_same(gradients(expected, model), exact)


def test_the_policy_term_is_needed_and_discounting_biases_it():
    model, ids = tiny_model(dtype=torch.float64), ragged_ids((5,))
    exact = exact_gradient(model, ids, (5,))
    changes = ({"gamma": 0.9}, {"gamma": 0.0}, {"centring": "batch"})
    objectives = [dataclasses.replace(UNBIASED, **change) for change in changes]
    *discounted, without_policy = estimator_gradients(model, ids, (5,), *objectives)
    assert all(largest_difference(gradient, exact) > 1e-4 for gradient in discounted)
    assert not without_policy["rule.project.weight"].any()  # one row is its own mean: A = 0
    assert largest_difference(without_policy, exact) > 1e-3


def test_centring_by_the_batch_halves_the_policy_term_of_two_rows_and_leaving_the_row_out_keeps_it():
    model, lengths = tiny_model(dtype=torch.float64), (3, 3)
    objectives = [dataclasses.replace(UNBIASED, centring=centring) for centring in ("none", "batch", "leave_one_out")]
    whole, batch, leave_one_out = estimator_gradients(model, ragged_ids(lengths), lengths, *objectives, auto=0.0)
    assert whole["rule.project.weight"].abs().max() > 1e-3
    assert_same(batch, whole, factor=1 / 2)
    assert_same(leave_one_out, whole)
