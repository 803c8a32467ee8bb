"""rltok.estimator: eqs. (15) to (18) against numpy, and the factor that self-including centring costs."""

import itertools

import numpy as np
import pytest
import torch
from helpers import random, random_boundaries, sigmoid

from rltok.errors import RltokError
from rltok.estimator import (
    batch_relative_advantages,
    discounted_returns,
    discounted_returns_plain,
    policy_loss,
    relative_rewards,
    total_returns,
)

GAMMAS = [0.0, 0.5, 0.9, 0.99, 0.9999, 1.0]
LENGTHS = [1, 2, 255, 256, 257, 512, 1100]


def ragged_mask(*lengths):
    return torch.arange(max(lengths))[None] < torch.tensor(lengths)[:, None]


# Rewards and returns


def test_a_reward_is_what_the_token_level_saves_over_the_early_head_and_carries_no_gradient():
    nll, early = torch.tensor([[1.0, 3.0, 0.0]], requires_grad=True), torch.tensor([[1.5, 2.0, 0.0]], requires_grad=True)
    rewards = relative_rewards(nll, early)
    assert rewards.tolist() == [[0.5, -1.0, 0.0]] and not rewards.requires_grad


def test_returns_of_three_rewards_by_hand():
    rewards = torch.tensor([[1.0, 2.0, 4.0]])
    for form in (discounted_returns, discounted_returns_plain):
        assert form(rewards, 0.5).tolist() == [[1 + 1 + 1, 2 + 2, 4]]
        assert form(rewards, 0.0).tolist() == rewards.tolist()
        assert form(rewards, 1.0).tolist() == [[7, 6, 4]]


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("gamma", GAMMAS)
def test_returns_equal_the_double_sum_of_eq_16(gamma, length):
    rewards = random(3, length, seed=length)
    expected = np.zeros((3, length))
    for i in range(length):
        expected[:, i] = rewards[:, i:].numpy() @ gamma ** np.arange(length - i, dtype=np.float64)
    for form in (discounted_returns, discounted_returns_plain):  # float64, 1,100 terms of size 1
        np.testing.assert_allclose(form(rewards, gamma), expected, rtol=0, atol=1e-11)
        # fp32: errors of single terms (6e-8) add up like a random walk; gamma itself is rounded too, and the error of its
        # power grows with the exponent, to 1,100 times 6e-8 on each of as many terms
        np.testing.assert_allclose(form(rewards.float(), gamma), expected, rtol=0, atol=1e-3 if gamma == 0.9999 else 1e-4)
        assert form(rewards.float(), gamma).dtype == torch.float32


def test_a_reward_in_each_of_five_blocks_reaches_every_earlier_position_with_its_power_of_gamma():
    gamma, places = 0.995, [3, 300, 700, 1000, 1100]
    for place in places:
        rewards = torch.zeros(1, 1101, dtype=torch.float64)
        rewards[0, place] = 1.0
        expected = np.where(np.arange(1101) <= place, gamma ** (place - np.arange(1101.0)), 0.0)
        np.testing.assert_allclose(discounted_returns(rewards, gamma)[0], expected, rtol=1e-12, atol=0)


def test_returns_do_not_wait_for_the_device(nothing_read):
    discounted_returns(random(2, 600), 0.99)


def test_returns_leave_their_input_alone_and_no_byte_is_paid_for_what_came_before_it():
    rewards = random(2, 300)
    kept = rewards.clone()
    before = discounted_returns(rewards, 0.9), discounted_returns_plain(rewards, 0.9)
    assert torch.equal(rewards, kept)
    rewards[:, 260] += 100
    for old, new in zip(before, (discounted_returns(rewards, 0.9), discounted_returns_plain(rewards, 0.9)), strict=True):
        assert torch.equal(old[:, 261:], new[:, 261:]) and (new - old)[:, 260].tolist() == pytest.approx([100, 100])


@pytest.mark.parametrize("gamma", [-0.1, 1.01, float("nan")])
def test_a_discount_outside_0_to_1_is_an_error(gamma):
    for form in (discounted_returns, discounted_returns_plain):
        with pytest.raises(RltokError, match="gamma must be between 0 and 1"):
            form(random(1, 3), gamma)


def test_total_credit_pays_every_decision_the_sum_of_its_row():
    assert total_returns(torch.tensor([[1.0, 2.0, 4.0], [0.0, -1.0, 0.0]])).tolist() == [[7.0] * 3, [-1.0] * 3]


# Advantages


@pytest.mark.parametrize("leave_one_out", [False, True])
@pytest.mark.parametrize("lengths", [(4,), (5, 5), (6, 3, 1), (1, 8, 8, 2, 5)], ids=str)
def test_advantages_are_returns_minus_the_mean_over_the_rows_scored_there(lengths, leave_one_out):
    mask, returns = ragged_mask(*lengths), random(len(lengths), max(lengths))
    actual = batch_relative_advantages(returns, mask, leave_one_out)
    for b, i in np.ndindex(*returns.shape):
        rows = [c for c in range(len(lengths)) if mask[c, i]]
        if not mask[b, i] or len(rows) == 1:
            assert actual[b, i] == 0
            continue
        mean = np.mean([returns[c, i] for c in rows if not (leave_one_out and c == b)])
        assert actual[b, i].item() == pytest.approx(returns[b, i].item() - mean, abs=1e-14)


def test_without_a_mask_all_rows_count_and_one_row_has_nothing_to_compare_with():
    returns = random(3, 4)
    everyone = torch.ones(3, 4, dtype=torch.bool)
    assert torch.equal(batch_relative_advantages(returns), batch_relative_advantages(returns, everyone))
    for leave_one_out in (False, True):
        assert not batch_relative_advantages(random(1, 4), None, leave_one_out).any()


def test_what_stands_outside_the_mask_is_ignored():
    mask, returns = ragged_mask(6, 3, 1), random(3, 6)
    for leave_one_out in (False, True):
        actual = batch_relative_advantages(torch.where(mask, returns, 1e6), mask, leave_one_out)
        assert torch.equal(actual, batch_relative_advantages(returns, mask, leave_one_out))


@pytest.mark.parametrize("rows", [2, 3, 4])
def test_a_mean_that_contains_the_row_itself_multiplies_the_expected_gradient_by_b_minus_1_over_b(rows):
    """One decision a row, independent rows; the expectation is a sum over all 2^B outcomes."""
    logits, payoff = random(rows, 1, seed=rows), random(rows, 2, seed=9)  # returns of a = 0 and a = 1
    p = sigmoid(logits)[:, 0]
    exact = p * (1 - p) * (payoff[:, 1] - payoff[:, 0]).numpy()  # d/dl of p G(1) + (1 - p) G(0)
    expected = {False: np.zeros(rows), True: np.zeros(rows)}
    for a in itertools.product([0, 1], repeat=rows):
        chance = np.prod([p[b] if a[b] else 1 - p[b] for b in range(rows)])
        returns = torch.stack([payoff[b, a[b]] for b in range(rows)])[:, None]
        for leave_one_out in expected:
            leaf = logits.clone().requires_grad_()
            advantages = batch_relative_advantages(returns, None, leave_one_out)
            (-policy_loss(leaf, torch.tensor(a)[:, None] > 0, advantages, count=1)).backward()
            expected[leave_one_out] += chance * leaf.grad[:, 0].numpy()
    np.testing.assert_allclose(expected[True], exact, rtol=0, atol=1e-13)
    np.testing.assert_allclose(expected[False], exact * (rows - 1) / rows, rtol=0, atol=1e-13)


# Policy loss


def test_the_policy_loss_of_two_decisions_by_hand():
    logits, boundaries = torch.tensor([[0.0, np.log(3.0)]]), torch.tensor([[True, False]])
    # log 1/2 and log 1/4, advantages 2 and -1: -(2 log 1/2 - log 1/4) = 0; with advantages 2 and 1: 4 log 2, over 2 decisions
    assert policy_loss(logits, boundaries, torch.tensor([[2.0, -1.0]])).item() == pytest.approx(0, abs=1e-6)
    assert policy_loss(logits, boundaries, torch.tensor([[2.0, 1.0]])).item() == pytest.approx(2 * np.log(2))


@pytest.mark.parametrize("lengths", [(1,), (5, 5), (7, 3, 1)], ids=str)
def test_the_policy_loss_and_its_gradient_equal_their_formulas_over_the_mask(lengths):
    shape = (len(lengths), max(lengths))
    mask, a = ragged_mask(*lengths), random_boundaries(*shape)
    logits, advantages = random(*shape).requires_grad_(), random(*shape, seed=1)
    x = logits.detach().numpy()
    log_pi = np.where(a, np.log(sigmoid(x)), np.log(sigmoid(-x)))
    everyone = np.ones(shape, dtype=bool)
    for given, chosen, count, over in (
        (None, everyone, None, a.numel()),
        (mask, mask.numpy(), None, sum(lengths)),
        (mask, mask.numpy(), 11, 11),
    ):
        loss = policy_loss(logits, a, advantages, given, count)
        assert loss.item() == pytest.approx(-(log_pi * advantages.numpy())[chosen].sum() / over, abs=1e-14)
        (actual,) = torch.autograd.grad(loss, logits)
        expected = np.where(chosen, -advantages.numpy() * (a.numpy() - sigmoid(x)) / over, 0)
        np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-14)


def test_values_outside_the_mask_cannot_spoil_the_policy_loss():
    mask, a = ragged_mask(4, 2), random_boundaries(2, 4)
    logits = torch.where(mask, random(2, 4), -1e30).requires_grad_()
    policy_loss(logits, a, torch.where(mask, 1.0, 1e30).double(), mask).backward()
    assert logits.grad.isfinite().all() and not logits.grad[~mask].any()


def test_no_gradient_flows_through_the_advantages():
    logits, advantages = (random(2, 4, seed=seed).requires_grad_() for seed in (0, 1))
    loss = policy_loss(logits, random_boundaries(2, 4), advantages)
    actual = torch.autograd.grad(loss, [logits, advantages], allow_unused=True)
    assert actual[0].any() and actual[1] is None
