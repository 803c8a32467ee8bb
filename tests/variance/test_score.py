"""Draws that share one encoder pass give, each for itself, the gradient that training would take."""

import numpy as np
import pytest
import torch
from brute import NAMES, close, flat_gradient, reached, training_gradients
from helpers import RULES, ragged_ids, random_boundaries, random_uniforms, tiny_model

from rltok.config import ObjectiveConfig
from rltok.errors import RltokError
from rltok.estimator import advantages
from rltok.step import losses_of
from rltok.variance import gradients

pytestmark = pytest.mark.usefixtures("shapes_unchecked")
DRAWS, LENGTHS = 3, (7, 4, 1)
VARIANTS = ({}, {"lags": 0, "token_positions": "index"}, {"head_norm": "rms", "softcap": None})


def setting(lengths=LENGTHS, *, training=True, **variant):
    """Model, ids, the shared pass, uniforms [K, B, N]."""
    model, ids = tiny_model(dtype=torch.float64, **variant).train(training), ragged_ids(lengths, seed=1)
    shape = (DRAWS, len(ids), ids.shape[1] - 1)
    uniforms = random_uniforms(DRAWS * shape[1], shape[2], seed=2).view(shape)
    return model, ids, gradients.share(model, ids), uniforms


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_every_draws_gradient_is_that_of_trainings_policy_loss(variant, training):
    model, ids, shared, uniforms = setting(training=training, **variant)
    draws = gradients.draw(model, shared, uniforms)
    estimates = gradients.policy_gradients(model, shared, draws, list(NAMES))
    strings = torch.stack([model(ids, uniforms=u).boundaries for u in uniforms])
    strings[:, :, 0] = True
    wanted = training_gradients(model, ids, strings, NAMES)
    assert list(estimates) == list(NAMES)
    for name in NAMES:
        close(estimates[name], wanted[name], atol=1e-11, what=name)
        assert estimates[name].abs().amax(dim=1).min() > 1e-4  # of every draw


def test_the_objective_of_training_itself_gives_the_same_advantages():
    model, ids, shared, uniforms = setting()
    draws, out = gradients.draw(model, shared, uniforms), model(ids, uniforms=uniforms[1])
    objectives = {
        "naive": ObjectiveConfig(gamma=1.0, relative_rewards=False, credit="total", centring="none"),
        "causal+early+gamma0.9+batch": ObjectiveConfig(gamma=0.9),
        "causal+early+loo": ObjectiveConfig(gamma=1.0, centring="leave_one_out"),
    }
    for name, objective in objectives.items():
        paid = advantages(out.nll, out.early_nll, out.scored, **objective.reductions)
        close(gradients.advantages_of_draws(shared, draws, name)[1], paid, atol=1e-12, what=name)


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_drawing_and_following_agree_with_the_models_forward_pass(variant):
    model, ids, shared, uniforms = setting(**variant)
    given = torch.stack([random_boundaries(3, 7, seed=seed) for seed in range(DRAWS)])
    for draws, how in ((gradients.draw(model, shared, uniforms), uniforms), (gradients.follow(model, shared, given), given)):
        for k in range(DRAWS):
            out = model(ids, **{"boundaries" if how is given else "uniforms": how[k]})
            assert torch.equal(draws.boundaries[k], out.boundaries)
            close(draws.nll[k], out.nll.detach(), atol=1e-12)
            close(draws.logits[k], out.boundary_logits.detach(), atol=1e-12)
    assert torch.equal(shared.scored, out.scored) and torch.equal(shared.drawn, out.drawn)
    close(shared.early_nll, out.early_nll.detach(), atol=1e-12)
    assert not draws.nll.requires_grad and not shared.byte_states.requires_grad and shared.terms.requires_grad


def test_what_is_drawn_depends_on_the_uniforms_of_that_draw_alone():
    model, _, shared, uniforms = setting()
    whole = gradients.draw(model, shared, uniforms)
    for k in range(DRAWS):
        alone = gradients.draw(model, shared, uniforms[k : k + 1])
        assert torch.equal(alone.boundaries[0], whole.boundaries[k])
        close(alone.nll[0], whole.nll[k], atol=1e-12)
    assert len({draw.numpy().tobytes() for draw in whole.boundaries}) == DRAWS


def test_a_gradient_is_laid_out_as_the_policys_parameters_then_the_encoders():
    model = tiny_model(head_norm="rms")
    parameters, slices = gradients.policy_parameters(model), gradients.group_slices(model)
    assert all(a is b for a, b in zip(parameters.values(), reached(model), strict=True))
    assert list(parameters)[:2] == ["rule.norm.weight", "rule.project.weight"] and list(parameters)[2] == "embedding.weight"
    policy = sum(p.numel() for p in model.rule.parameters())
    assert slices == {"policy": slice(0, policy), "encoder": slice(policy, sum(p.numel() for p in reached(model)))}


def test_the_policy_gradient_reaches_these_parameters_and_no_others():
    model, ids, _, uniforms = setting(head_norm="rms")
    out = model(ids, uniforms=uniforms[0])
    losses_of(out, advantages(out.nll, out.early_nll, out.scored, **ObjectiveConfig().reductions), 0.3).policy.backward()
    touched = {name for name, p in model.named_parameters() if p.grad is not None and p.grad.any()}
    assert touched == set(gradients.policy_parameters(model))


def test_pulling_back_a_few_at_a_time_changes_nothing():
    model, _, shared, uniforms = setting()
    names = ["causal", "causal+early+loo"]
    weights = gradients.policy_weights(model, shared, gradients.draw(model, shared, uniforms), names)
    stacked = torch.cat([weights[name] for name in names])
    assert stacked.shape == (2 * DRAWS, 3, 7, 4)
    one_by_one = gradients.pull_back(model, shared, stacked, chunk=1)
    for chunk in (4, 64):
        close(gradients.pull_back(model, shared, stacked, chunk=chunk), one_by_one, atol=1e-12)


def test_the_gradient_of_a_mean_of_draws_is_the_mean_of_their_gradients():
    model, _, shared, uniforms = setting()
    draws = gradients.draw(model, shared, uniforms)
    weights = gradients.policy_weights(model, shared, draws, ["causal"])["causal"]
    each = gradients.policy_gradients(model, shared, draws, ["causal"])["causal"]
    close(gradients.pull_back(model, shared, weights.mean(dim=0, keepdim=True))[0], each.mean(dim=0), atol=1e-12)


def test_the_first_terms_gradient_is_that_of_trainings_loss():
    model, ids, _, _ = setting()
    strings = torch.stack([random_boundaries(3, 7, seed=seed) for seed in range(2)])
    estimates = gradients.loss_gradients(model, ids, strings)
    for k, string in enumerate(strings):
        out = model(ids, boundaries=string)
        close(estimates[k], flat_gradient(losses_of(out, torch.zeros_like(out.nll), 0.3).auto, reached(model)), atol=1e-12)
    assert estimates.abs().amax(dim=1).min() > 1e-3


def test_nothing_is_left_on_the_model():
    model, ids, shared, uniforms = setting()
    gradients.policy_gradients(model, shared, gradients.draw(model, shared, uniforms), ["causal"])
    gradients.loss_gradients(model, ids, random_boundaries(3, 7)[None])
    assert all(parameter.grad is None for parameter in model.parameters())


@pytest.mark.parametrize("rule", [rule for rule in RULES if rule != "learned"])
def test_a_rule_without_a_policy_is_refused(rule):
    with pytest.raises(RltokError, match=f"rule '{rule}' has no policy.*Take a model with rule 'learned'"):
        gradients.share(tiny_model(rule), ragged_ids((3,)))


@pytest.mark.parametrize("name", [name for name in NAMES if "batch" in name or "loo" in name])
def test_one_row_with_centring_is_refused_because_no_signal_is_left(name):
    model, _, shared, uniforms = setting((5,))
    draws = gradients.draw(model, shared, uniforms)
    with pytest.raises(RltokError) as refused:
        gradients.policy_gradients(model, shared, draws, ["naive", name])
    text = str(refused.value)
    assert f"estimator '{name}'" in text and "B = 1" in text and "every advantage is 0, and no signal is left" in text
    assert text.endswith("Take at least 2 rows.")


def test_one_row_without_centring_has_a_signal():
    model, ids, shared, uniforms = setting((5,))
    draws = gradients.draw(model, shared, uniforms)
    estimates = gradients.policy_gradients(model, shared, draws, ["naive", "causal+early+gamma0.9"])
    wanted = training_gradients(model, ids, draws.boundaries, list(estimates))
    for name, grads in estimates.items():
        close(grads, wanted[name], atol=1e-12)
        assert np.abs(grads.numpy()).max() > 1e-3
