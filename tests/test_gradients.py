"""Gradients of eq. (27) through the whole model equal finite differences in float64; what is detached is held fixed."""

import numpy as np
import pytest
import torch
from helpers import ragged_ids, random_boundaries, sigmoid, tiny_model

from rltok.config import ObjectiveConfig
from rltok.estimator import advantages
from rltok.step import losses_of

pytestmark = pytest.mark.usefixtures("shapes_unchecked")

LENGTHS, TARGET_RATE, STEP = (9, 6, 1), 0.3, 1e-5
PARTS = ("auto", "policy", "target", "early")
WEIGHTS = [*({part: 1.0} for part in PARTS), {"auto": 1.0, "policy": 0.01, "target": 0.01, "early": 0.1}]


def setting():
    model = tiny_model(dtype=torch.float64, head_norm="rms")
    return model, ragged_ids(LENGTHS, seed=1), random_boundaries(3, 9, seed=2)


class Frozen:
    """Eq. (27) in numpy with advantages and rate gap fixed at the values that they have where the gradient is taken."""

    def __init__(self, out, ids):
        self.scored = ids[:, 1:].numpy() != 258
        self.drawn = self.scored & (np.arange(self.scored.shape[1]) > 0)
        rewards = (out.early_nll - out.nll).detach().numpy()
        length = rewards.shape[1]
        returns = np.array([[sum(0.9 ** (j - i) * row[j] for j in range(i, length)) for i in range(length)] for row in rewards])
        rows = self.scored.sum(0)
        centred = returns - (returns * self.scored).sum(0) / np.maximum(rows, 1)
        self.advantages = np.where(self.scored & (rows > 1), centred, 0)
        self.gap = sigmoid(out.boundary_logits.detach())[self.drawn].mean() - TARGET_RATE

    def loss(self, out, weights):
        logits, a = out.boundary_logits.detach().numpy(), out.boundaries.numpy()
        log_pi = np.log(sigmoid(np.where(a, logits, -logits)))
        parts = {
            "auto": out.nll.detach().numpy()[self.scored].mean(),
            "early": out.early_nll.detach().numpy()[self.scored].mean(),
            "policy": -(log_pi * self.advantages)[self.drawn].sum() / self.scored.sum(),
            "target": logits[self.drawn].mean() * self.gap,
        }
        return sum(weight * parts[name] for name, weight in weights.items())


@pytest.mark.parametrize("weights", WEIGHTS, ids=lambda w: "+".join(w))
def test_the_gradient_of_each_part_and_of_their_sum_equals_finite_differences(weights):
    model, ids, boundaries = setting()
    objective = ObjectiveConfig(gamma=0.9)
    out = model(ids, boundaries=boundaries)
    frozen = Frozen(out, ids)
    losses = losses_of(out, advantages(out.nll, out.early_nll, out.scored, **objective.reductions), TARGET_RATE)
    losses.total(**{f"lambda_{name}": weights.get(name, 0.0) for name in PARTS}).backward()
    generator = torch.Generator().manual_seed(3)
    slopes = {}
    for name, parameter in model.named_parameters():
        direction = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
        start, ends = parameter.detach().clone(), []
        for sign in (1, -1):
            with torch.no_grad():
                parameter.copy_(start + sign * STEP * direction)
                ends.append(frozen.loss(model(ids, boundaries=boundaries), weights))
        with torch.no_grad():
            parameter.copy_(start)
        slopes[name] = (ends[0] - ends[1]) / (2 * STEP)
        along = 0.0 if parameter.grad is None else (parameter.grad * direction).sum().item()
        # central differences err by STEP^2 times third derivatives and by rounding / STEP: both below 1e-9 here
        assert along == pytest.approx(slopes[name], rel=1e-6, abs=1e-8), name
    assert max(map(abs, slopes.values())) > 1e-2


def test_the_early_loss_and_the_policy_train_the_encoder_but_not_what_comes_after_it():
    model, ids, boundaries = setting()
    out = model(ids, boundaries=boundaries)
    losses = losses_of(out, advantages(out.nll, out.early_nll, out.scored, **ObjectiveConfig().reductions), TARGET_RATE)
    (losses.early + losses.policy + losses.target).backward()
    reached = {name.split(".")[0] for name, p in model.named_parameters() if p.grad is not None and p.grad.any()}
    assert reached == {"embedding", "down_blocks", "rule", "early_norm", "early_head"}
