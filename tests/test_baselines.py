"""rltok.baselines: each coefficient against a sum, an integral or a derivative worked out another way."""

import numpy as np
import pytest
import torch
from helpers import random, random_boundaries, sigmoid

from rltok.baselines import (
    against_other_draws,
    antithetic_coefficients,
    fit_value,
    flipped_uniforms,
    local_expectation,
    score_coefficients,
    value_features,
)
from rltok.errors import RltokError
from rltok.estimator import policy_loss
from rltok.policy import boundary_logits, sample_boundaries

POLICY = {"bias": -0.3, "scale": 1.0, "softcap": 6.0}


def bits(*shape, seed=0):
    return torch.from_numpy(np.random.default_rng(seed).random(shape) < 0.5)


def test_the_coefficients_of_the_score_function_are_the_gradient_of_the_policy_loss():
    logits, boundaries, advantages = random(3, 5).requires_grad_(), random_boundaries(3, 5), random(3, 5, seed=1)
    (gradient,) = torch.autograd.grad(policy_loss(logits, boundaries, advantages, count=1), logits)
    torch.testing.assert_close(score_coefficients(logits.detach(), boundaries, advantages), -gradient, rtol=0, atol=1e-14)


@pytest.mark.parametrize("draws", [2, 3, 4])
def test_a_draw_is_paid_what_it_earns_beyond_the_mean_of_the_other_draws_of_its_row(draws):
    returns = random(draws, 3, 5)
    paid = against_other_draws(returns).numpy()
    for k, b, i in np.ndindex(*returns.shape):
        others = [returns[m, b, i].item() for m in range(draws) if m != k]
        assert paid[k, b, i] == pytest.approx(returns[k, b, i].item() - np.mean(others), abs=1e-14)


@pytest.mark.parametrize("draws", [0, 1])
def test_without_another_draw_there_is_nothing_to_compare_with(draws):
    with pytest.raises(RltokError, match=rf"at least 2 are needed; got {draws}\.$"):
        against_other_draws(random(draws, 2, 3))


def mean_over_uniforms(p, q, a, b, cells=200_000):
    """Mean of 1 - 2 u over the u in (0, 1) with (u < p) = a and (1 - u < q) = b, by counting; NaN where there is none."""
    u = (np.arange(cells) + 0.5) / cells
    same = ((u < p) == a) & (((1 - u) < q) == b)
    return (1 - 2 * u)[same].mean() if same.any() else np.nan


def test_antithetic_coefficients_are_the_mean_of_1_minus_2_u_over_all_u_that_draw_both():
    logits, seen = random(2, 40), 0
    advantages = random(2, 40, seed=1)
    for seed in range(4):
        boundaries = bits(2, 40, seed=seed)
        found = antithetic_coefficients(logits[:, None], boundaries[:, None], advantages[:, None])[:, 0]
        for i in range(40):
            p, q = sigmoid(logits[:, i])
            weight = mean_over_uniforms(p, q, *boundaries[:, i].tolist())
            if np.isnan(weight):  # a pair that no u draws
                continue
            wanted = [advantages[0, i].item() * weight / 2, -advantages[1, i].item() * weight / 2]
            np.testing.assert_allclose(found[:, i], wanted, rtol=0, atol=2e-5)
            seen += 1
    assert seen > 80


def test_where_both_draws_have_the_same_chance_they_are_those_of_the_published_formula():
    """DisARM: 1/2 (f(b) - f(b~)) (-1)^b~ 1[b != b~] sigma(|l|)."""
    logits, paid = random(1, 60).expand(2, -1), random(2, 60, seed=1)
    u = np.random.default_rng(3).random(60)
    p = sigmoid(logits[0])
    boundaries = torch.from_numpy(np.stack([u < p, 1 - u < p]))
    found = antithetic_coefficients(logits[:, None], boundaries[:, None], paid[:, None]).sum(dim=(0, 1))
    a, b = boundaries.numpy()
    f = paid.numpy()
    published = 0.5 * (f[0] - f[1]) * np.where(b, -1.0, 1.0) * (a != b) * np.maximum(p, 1 - p)
    np.testing.assert_allclose(found, published, rtol=0, atol=1e-14)
    assert 10 < (a != b).sum() < 50


@pytest.mark.parametrize("draws", [0, 1, 3])
def test_an_odd_number_of_antithetic_draws_is_one_line(draws):
    with pytest.raises(RltokError, match=rf"come in pairs, so their number is even and at least 2; got {draws}\.$"):
        antithetic_coefficients(random(draws, 1, 3), bits(draws, 1, 3), random(draws, 1, 3))


def test_a_decision_tried_both_ways_gives_the_derivative_of_its_expected_return():
    logits, returns = random(20).requires_grad_(), random(2, 20, seed=1)  # of a = 0 and a = 1
    p = torch.sigmoid(logits)
    (derivative,) = torch.autograd.grad(((1 - p) * returns[0] + p * returns[1]).sum(), logits)
    for drawn in (torch.zeros(20, dtype=torch.bool), bits(20), torch.ones(20, dtype=torch.bool)):
        at, other = (torch.where(value, returns[1], returns[0]) for value in (drawn, ~drawn))
        torch.testing.assert_close(local_expectation(logits.detach(), drawn, at, other), derivative, rtol=0, atol=1e-14)


def test_flipped_uniforms_flip_one_decision_and_leave_the_rest_to_the_policy():
    terms, uniforms, followed = random(200, 8, 4), torch.from_numpy(np.random.default_rng(1).random((200, 8))), 0
    drawn = sample_boundaries(terms, uniforms, **POLICY)
    for i in range(1, 8):
        other = sample_boundaries(terms, flipped_uniforms(uniforms, drawn, i), **POLICY)
        assert torch.equal(other[:, :i], drawn[:, :i]) and torch.equal(other[:, i], ~drawn[:, i])
        p = torch.sigmoid(boundary_logits(terms, other, **POLICY))
        assert torch.equal(other[:, i + 1 :], (uniforms < p)[:, i + 1 :])
        followed += int((other[:, i + 1 :] != drawn[:, i + 1 :]).sum())
    assert followed > 50


# Values


def features(states, nll, boundaries, sees):
    return value_features(states, nll, boundaries, lags=2, gamma=0.8, sees=sees)


def test_a_value_sees_what_its_docstring_says():
    states, nll, boundaries = random(2, 6, 3), random(2, 6, seed=1), random_boundaries(2, 6)[None]
    found = features(states, nll, boundaries, "text").numpy()[0]
    a = boundaries[0].numpy()
    for b, i in np.ndindex(2, 6):
        discounts = 0.8 ** np.arange(6 - i)
        wanted = [1, *states[b, i], *(discounts @ states[b, i:].numpy()), discounts @ nll[b, i:].numpy()]
        wanted += [float(a[b, i - lag]) if i >= lag else 0.0 for lag in (1, 2)]
        np.testing.assert_allclose(found[b, i], wanted, rtol=0, atol=1e-12)
    assert torch.equal(features(states, nll, boundaries, "past")[0], torch.from_numpy(found)[..., [0, 1, 2, 3, 8, 9]])
    assert torch.equal(features(states, nll, boundaries, "later states")[0], torch.from_numpy(found)[..., [*range(7), 8, 9]])


@pytest.mark.parametrize("sees", ["past", "later states", "text"])
def test_a_value_of_a_decision_knows_neither_that_decision_nor_a_later_draw(sees):
    states, nll, boundaries = random(2, 6, 3), random(2, 6, seed=1), random_boundaries(2, 6)[None]
    for i in range(6):
        changed = boundaries.clone()
        changed[..., i:] ^= True
        before, after = (features(states, nll, each, sees) for each in (boundaries, changed))
        assert torch.equal(before[:, :, : i + 1], after[:, :, : i + 1]) and (i == 5 or not torch.equal(before, after))


def test_fitted_weights_are_those_of_ridge_regression():
    x, noise = random(50, 4), random(50, seed=1)
    exact = torch.tensor([1.0, -2.0, 0.5, 3.0], dtype=torch.float64)
    torch.testing.assert_close(fit_value(x, x @ exact, 0.0), exact, rtol=0, atol=1e-12)
    weights = fit_value(x, x @ exact + noise, 0.1).requires_grad_()
    loss = (x @ weights - x @ exact - noise).square().sum() + 0.1 * 50 * weights.square().sum()
    assert torch.autograd.grad(loss, weights)[0].abs().max() < 1e-10
