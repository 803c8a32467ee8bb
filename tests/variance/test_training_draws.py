"""An update with several draws of a row, in training itself: over all uniforms it expects the gradient of the expected loss.

The uniforms of a draw fall into cells, within which a draw and its twin stay what they are; `accumulate_gradient` runs once in
the middle of each. What that gives is held against `variance.exact`, which knows nothing of several draws, and the variance
against the rungs of `variance.beyond`.
"""

import itertools

import numpy as np
import pytest
import torch
from brute import close
from helpers import ragged_ids, sigmoid, tiny_model

from rltok.config import Config, DataConfig, ObjectiveConfig, TrainConfig
from rltok.step import accumulate_gradient
from rltok.variance.beyond import RUNGS
from rltok.variance.beyond_exact import Table
from rltok.variance.exact import all_strings, exact_gradient
from rltok.variance.gradients import policy_parameters, share

pytestmark = pytest.mark.usefixtures("shapes_unchecked")
EXACT = 1e-9


def model_of(lags):
    return tiny_model(lags=lags, mid_layers=1, target_rate=0.4, dtype=torch.float64)


def cells(model, ids, twins):
    """Volumes [M] and middles [M, B, N] of all cells of the uniforms of one draw of the batch."""
    strings = all_strings(ids)
    p = np.stack([sigmoid(model(ids, boundaries=string).boundary_logits.detach()) for string in strings])
    edges = []
    for row, i in np.ndindex(*p.shape[1:]):
        inner = {round(float(chance), 12) for chance in p[:, row, i]} if i else set()
        edges.append(sorted({0.0, 1.0, *inner, *(1 - chance for chance in inner if twins)}))
    boxes = np.array(list(itertools.product(*(itertools.pairwise(each) for each in edges))))
    return (boxes[..., 1] - boxes[..., 0]).prod(axis=1), boxes.mean(axis=2).reshape(-1, *p.shape[1:])


def updates(model, ids, objective):
    """(chances [M], gradients of policy and encoder [M, P]) of every update that can happen with the policy's loss alone."""
    rows, width = ids.shape[0], ids.shape[1] - 1
    train = TrainConfig(training_bytes=8 * rows, sequences_per_update=rows, micro_batch=rows)
    config = Config(model=model.config, objective=objective, data=DataConfig(sequence_length=8), train=train)
    twins = objective.further_draws == "antithetic"
    of_one, free = cells(model, ids, twins), objective.draws // (2 if twins else 1)
    chances, gradients = [], []
    for chosen in itertools.product(range(len(of_one[0])), repeat=free):
        drawn = [of_one[1][number] for number in chosen] + [np.full((rows, width), 0.5)] * (objective.draws - free)
        model.zero_grad()
        accumulate_gradient(model, (ids, torch.from_numpy(np.concatenate(drawn, axis=1))), config, 1.0)
        chances.append(of_one[0][list(chosen)].prod())
        gradients.append(torch.cat([parameter.grad.flatten() for parameter in policy_parameters(model).values()]))
    assert sum(chances) == pytest.approx(1, abs=1e-10)
    return torch.tensor(chances, dtype=torch.float64), torch.stack(gradients)


def objective_of(draws, further, centring):
    weights = {"lambda_auto": 0.0, "lambda_early": 0.0, "lambda_target": 0.0, "lambda_policy": 1.0}
    return ObjectiveConfig(gamma=1.0, centring=centring, draws=draws, further_draws=further, **weights)


CASES = {  # draws, what they are for, bytes of the row: four draws can fall in 225 ways with three bytes
    "baseline of 1 other draw": (2, "baseline", 3),
    "leave one out, 2 draws": (2, "train", 3),
    "leave one out, 4 draws": (4, "train", 2),
    "antithetic, 2 draws": (2, "antithetic", 3),
    "antithetic, 4 draws": (4, "antithetic", 2),
}


@pytest.mark.parametrize("name", CASES)
def test_an_update_expects_the_gradient_of_the_expected_loss_and_varies_as_its_rung_does(name):
    draws, further, size = CASES[name]
    model, ids = model_of(lags=2), ragged_ids((size,), seed=3)
    wanted = exact_gradient(model, ids).flat("policy", list(policy_parameters(model)))
    chances, gradients = updates(model, ids, objective_of(draws, further, "none"))
    mean = chances @ gradients
    assert wanted.abs().max() > 5e-3
    close(mean, wanted, atol=EXACT)
    table, (kind, number, rung) = Table.of(model, share(model, ids)), RUNGS[name]
    chance, drawn = getattr(table, kind)(number, 1.0)
    variance = table.moments(chance, drawn, rung(drawn)).variance
    assert variance.max() > 1e-6
    close(chances @ (gradients - mean) ** 2, variance, atol=EXACT)


@pytest.mark.parametrize(("centring", "factor"), [("leave_one_out", 1.0), ("batch", 1 / 2)])
@pytest.mark.parametrize("further", ["train", "antithetic"])
def test_a_mean_over_rows_scales_it_as_it_scales_one_draw_though_the_twins_of_other_rows_are_in_it(further, centring, factor):
    model, ids = model_of(lags=2), ragged_ids((2, 2), seed=3)
    wanted = exact_gradient(model, ids).flat("policy", list(policy_parameters(model)))
    chances, gradients = updates(model, ids, objective_of(2, further, centring))
    assert wanted.abs().max() > 5e-3
    close(chances @ gradients, factor * wanted, atol=EXACT)
