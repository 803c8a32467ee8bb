"""rltok.losses: eqs. (24) to (27) against numpy."""

import numpy as np
import pytest
import torch
from helpers import ragged_ids, random, random_uniforms, sigmoid, tiny_model

from rltok.config import ObjectiveConfig
from rltok.estimator import advantages
from rltok.losses import Losses, least_entropy_loss, mean_over, next_byte_nll, probability_rate_loss, target_rate_loss
from rltok.step import losses_of
from rltok.vocab import PAD


def test_nll_is_minus_the_log_softmax_at_the_target_and_exactly_0_on_padding():
    logits = 5 * random(2, 3, 264)
    targets = torch.tensor([[7, 255, 0], [257, PAD, PAD]])
    x = logits.numpy()
    log_probs = x - np.log(np.exp(x).sum(-1, keepdims=True))
    expected = np.where(targets != PAD, -np.take_along_axis(log_probs, targets.numpy()[..., None], -1)[..., 0], 0)
    actual = next_byte_nll(logits, targets)
    np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-13)
    assert actual[1].tolist()[1:] == [0.0, 0.0]


def test_nll_of_bf16_logits_is_computed_in_fp32():
    logits = random(1, 4, 264).bfloat16()
    actual = next_byte_nll(logits, torch.zeros(1, 4, dtype=torch.int64))
    assert actual.dtype == torch.float32
    torch.testing.assert_close(actual.double(), next_byte_nll(logits.double(), torch.zeros(1, 4, dtype=torch.int64)))


def test_nll_sends_no_gradient_to_positions_on_padding():
    logits = random(1, 2, 264).requires_grad_()
    next_byte_nll(logits, torch.tensor([[3, PAD]])).sum().backward()
    assert logits.grad[0, 0].any() and not logits.grad[0, 1].any()


def test_a_mean_counts_only_what_the_mask_says_and_is_0_where_that_is_nothing():
    values = torch.tensor([[1.0, 2.0, float("nan")]])
    assert mean_over(values, torch.tensor([[True, True, False]])).item() == 1.5
    assert mean_over(values, torch.zeros(1, 3, dtype=torch.bool)).item() == 0.0


@pytest.mark.parametrize("masked", [True, False])
def test_the_target_loss_and_its_gradient_equal_eq_24_with_the_gap_held_fixed(masked):
    logits = (2 * random(3, 5)).requires_grad_()
    mask = torch.from_numpy(np.random.default_rng(1).random((3, 5)) < 0.6) if masked else None
    chosen = mask.numpy() if masked else np.ones((3, 5), dtype=bool)
    x = logits.detach().numpy()
    gap = sigmoid(x)[chosen].mean() - 0.2
    loss = target_rate_loss(logits, 0.2, mask)
    loss.backward()
    assert loss.item() == pytest.approx(x[chosen].mean() * gap, abs=1e-14)
    # the same push on every logit, whatever its value; none outside the mask
    np.testing.assert_allclose(logits.grad, np.where(chosen, gap / chosen.sum(), 0), rtol=0, atol=1e-15)


def test_the_target_loss_pushes_logits_down_above_the_target_and_up_below_it():
    for level, sign in ((2.0, 1), (-4.0, -1)):
        logits = torch.full((2, 3), level, requires_grad=True)
        target_rate_loss(logits, 0.2).backward()
        assert (logits.grad.sign() == sign).all()


@pytest.mark.parametrize("masked", [True, False])
def test_on_probabilities_the_pressure_is_that_of_half_the_squared_gap_and_p_times_1_minus_p_on_each_logit(masked):
    logits = (3 * random(3, 5)).requires_grad_()
    mask = torch.from_numpy(np.random.default_rng(1).random((3, 5)) < 0.6) if masked else None
    chosen = mask.numpy() if masked else np.ones((3, 5), dtype=bool)
    p = sigmoid(logits.detach())
    gap = p[chosen].mean() - 0.2
    loss = probability_rate_loss(logits, 0.2, mask)
    loss.backward()
    assert loss.item() == pytest.approx(p[chosen].mean() * gap, abs=1e-14)
    np.testing.assert_allclose(logits.grad, np.where(chosen, gap * p * (1 - p) / chosen.sum(), 0), rtol=0, atol=1e-15)
    square, x, step = np.zeros_like(p), logits.detach().numpy(), 1e-6
    for place in zip(*np.nonzero(chosen), strict=True):  # central differences of (mean(p) - target)^2 / 2
        there = [x.copy(), x.copy()]
        there[0][place], there[1][place] = x[place] + step, x[place] - step
        up, down = ((sigmoid(values)[chosen].mean() - 0.2) ** 2 / 2 for values in there)
        square[place] = (up - down) / (2 * step)
    np.testing.assert_allclose(logits.grad, square, rtol=0, atol=1e-10)


def test_where_decisions_are_certain_the_pressure_on_probabilities_is_gone_and_that_on_logits_is_not():
    for level in (12.0, -12.0):
        pressures = []
        for loss in (target_rate_loss, probability_rate_loss):
            logits = torch.full((2, 3), level, dtype=torch.float64, requires_grad=True)
            loss(logits, 0.2).backward()
            pressures.append(logits.grad.sum().item())
        assert abs(pressures[0]) > 0.19
        assert pressures[1] == pytest.approx(pressures[0] * sigmoid(12.0) * sigmoid(-12.0), rel=1e-6)


def test_the_pressure_on_entropy_is_the_gap_to_its_floor_and_gone_above_it():
    logits = (3 * random(3, 5)).requires_grad_()
    mask = torch.from_numpy(np.random.default_rng(1).random((3, 5)) < 0.6)
    p = sigmoid(logits.detach())
    mean = -(p * np.log(p) + (1 - p) * np.log(1 - p))[mask.numpy()].mean()
    loss = least_entropy_loss(logits, 0.6, mask)
    loss.backward()
    assert mean < 0.6 and loss.item() == pytest.approx(-mean * (0.6 - mean), abs=1e-14)
    slope = -logits.detach().numpy() * p * (1 - p)  # dH / dl
    np.testing.assert_allclose(logits.grad, np.where(mask, -(0.6 - mean) * slope / mask.sum().item(), 0), rtol=0, atol=1e-14)
    assert least_entropy_loss(logits, mean - 0.01, mask).item() == 0


def test_the_total_weighs_each_part_and_takes_a_rules_own_loss_as_it_is():
    parts = {
        name: torch.tensor(value)
        for name, value in zip(("auto", "early", "policy", "target", "aux"), (1.0, 10.0, 100.0, 1e3, 1e4), strict=True)
    }
    total = Losses(**parts).total(lambda_auto=2.0, lambda_early=3.0, lambda_policy=4.0, lambda_target=5.0)
    assert total.item() == 2 + 30 + 400 + 5000 + 10000


def test_forced_positions_and_padding_stay_out_of_the_policy_and_target_losses_of_a_step():
    model, lengths = tiny_model(dtype=torch.float64), (9, 4, 1)
    out = model(ragged_ids(lengths), uniforms=random_uniforms(3, 9))
    paid = advantages(out.nll, out.early_nll, out.scored, **ObjectiveConfig(centring="none").reductions)
    losses = losses_of(out, paid, 0.3)
    drawn = [(b, i) for b, n in enumerate(lengths) for i in range(1, n)]
    logits, a = out.boundary_logits.detach().numpy(), out.boundaries.numpy()
    chosen = np.array([logits[place] for place in drawn])
    log_pi = np.array([np.log(sigmoid(logits[place] if a[place] else -logits[place])) for place in drawn])
    weights = np.array([paid[place].item() for place in drawn])
    assert losses.policy.item() == pytest.approx(-(log_pi * weights).sum() / sum(lengths), abs=1e-13)
    assert losses.target.item() == pytest.approx(chosen.mean() * (sigmoid(chosen).mean() - 0.3), abs=1e-13)
    scored = [(b, i) for b, n in enumerate(lengths) for i in range(n)]
    assert losses.auto.item() == pytest.approx(np.mean([out.nll[place].item() for place in scored]), abs=1e-13)
    assert losses.early.item() == pytest.approx(np.mean([out.early_nll[place].item() for place in scored]), abs=1e-13)
    assert losses.aux.item() == 0


def test_a_rule_without_a_policy_has_no_policy_or_target_loss():
    out = tiny_model("even")(ragged_ids((9, 4)), uniforms=random_uniforms(2, 9))
    losses = losses_of(out, advantages(out.nll, out.early_nll, out.scored, **ObjectiveConfig().reductions), 0.3)
    assert losses.policy.item() == losses.target.item() == 0 < losses.auto.item()
