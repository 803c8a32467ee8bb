"""rltok.rules.entropy: entropies are those of the probabilities, and the threshold holds the rate it was set for."""

import math

import numpy as np
import pytest
import torch
from helpers import ragged_ids, random_uniforms, tiny_config

from rltok.config import with_settings
from rltok.data import load_corpus
from rltok.errors import RltokError
from rltok.evidence.rates import text_rates
from rltok.flops import flops_per_byte, frozen_parameters
from rltok.optim import make_optimizer
from rltok.presets import preset
from rltok.rules import make_rule
from rltok.rules.entropy import entropies, mean_nll
from rltok.unet import AutoregressiveUNet
from rltok.vocab import BOS, EOS, PAD

SIZES = {"entropy_dim": 32, "entropy_layers": 1, "entropy_window": 8, "fit_bytes": 60_000, "target_rate": 0.2}


def small_rule(**settings):
    return make_rule(tiny_config("entropy", **(SIZES | settings)))


@pytest.fixture(scope="module")
def corpus():
    settings = {"data.sequence_length": 128, "data.held_out_fraction": 0.1}
    return load_corpus("sample", with_settings(preset("tiny"), settings).data)


@pytest.fixture(scope="module")
def fitted(corpus):
    rule = small_rule()
    rule.fit(corpus.train, seed=0)
    return rule


def test_entropies_are_those_of_a_softmax_written_out_in_numpy(fitted):
    ids = ragged_ids((20, 13))[:, :-1]
    logits = []
    handle = fitted.byte_model.head.register_forward_hook(lambda _, __, out: logits.append(out.double().numpy()))
    actual = fitted.entropies(ids)
    handle.remove()
    shifted = np.exp(logits[0] - logits[0].max(-1, keepdims=True))
    p = shifted / shifted.sum(-1, keepdims=True)
    assert p.shape == (2, 20, 257)
    np.testing.assert_allclose(actual.numpy(), -(p * np.log(p)).sum(-1), rtol=1e-5)


def test_entropy_of_certainty_is_zero_and_of_ignorance_the_logarithm_of_the_choices():
    certain = torch.full((1, 1, 257), -80.0).index_fill(2, torch.tensor([5]), 0.0).log_softmax(-1)
    assert entropies(certain).item() == pytest.approx(0, abs=1e-6)
    assert entropies(torch.zeros(1, 1, 257).log_softmax(-1)).item() == pytest.approx(math.log(257), rel=1e-6)


def test_the_mean_nll_takes_the_end_mark_and_leaves_padding_out():
    log_probs = torch.randn(1, 4, 257, generator=torch.Generator().manual_seed(0)).log_softmax(-1)
    actual = mean_nll(log_probs, torch.tensor([[7, EOS, PAD, PAD]]))
    assert actual.item() == pytest.approx(-(log_probs[0, 0, 7] + log_probs[0, 1, 256]).item() / 2)


def test_fitting_teaches_the_byte_model_the_text(corpus, fitted):
    ids = corpus.validation.ids(range(32))
    with torch.no_grad():
        bits = mean_nll(fitted.byte_model(ids[:, :-1]), ids[:, 1:]).item() / math.log(2)
    assert bits < 4.5  # of 8.0 before


@pytest.mark.parametrize("rate", [0.1, 0.2, 0.5])
def test_the_threshold_holds_the_rate_on_training_rows_and_nearly_so_on_held_out_text(corpus, fitted, rate):
    rule = small_rule(target_rate=rate)
    rule.load_state_dict(fitted.state_dict())
    rule._calibrate(corpus.train, seed=0)
    assert text_rates(rule, corpus.train.subset(slice(0, None, 24)), batch=64).rate == pytest.approx(rate, abs=0.01)
    assert text_rates(rule, corpus.validation.subset(slice(0, None, 8)), batch=64).rate == pytest.approx(rate, abs=0.03)


def test_a_boundary_is_an_entropy_above_the_threshold_and_bos_is_forced(fitted):
    ids = ragged_ids((30, 9, 0))[:, :-1]
    nothing, uniforms = torch.zeros(*ids.shape, 2), random_uniforms(*ids.shape)
    decided = fitted.decide(nothing, ids, uniforms)
    assert decided.logits is None and decided.boundaries[:, 0].all()
    assert torch.equal(decided.boundaries[:, 1:], (fitted.entropies(ids) > fitted.threshold)[:, 1:])
    assert torch.equal(decided.boundaries, fitted.decide(nothing + 1, ids, 1 - uniforms).boundaries)


def test_a_threshold_out_of_reach_draws_nowhere_but_on_bos_and_one_below_all_draws_everywhere(fitted):
    for threshold, expected in ((100.0, 1), (-1.0, 30)):
        rule = small_rule()
        rule.load_state_dict(fitted.state_dict() | {"threshold": torch.tensor(threshold)})
        ids = ragged_ids((30, 30))[:, :-1]
        assert rule.decide(torch.zeros(2, 30, 2), ids, random_uniforms(2, 30)).boundaries.sum(1).tolist() == [expected] * 2


def test_a_later_byte_changes_no_bit_of_an_entropy_before_it(fitted):
    ids = ragged_ids((40, 23))[:, :-1]
    before = fitted.entropies(ids)
    for j in range(1, 40):
        other = ids.clone()
        other[:, j:] = torch.where(ids[:, j:] < 256, (ids[:, j:] + 97) % 256, ids[:, j:])
        after = fitted.entropies(other)
        assert torch.equal(after[:, :j], before[:, :j]) and (after[0, j] != before[0, j])


def test_the_same_seed_fits_the_same_bits_whatever_was_drawn_before_and_another_seed_others(corpus):
    rows = corpus.train.subset(slice(0, 40))
    fits = []
    for seed, noise in ((3, 0), (3, 1), (4, 0)):
        torch.manual_seed(noise)
        rule = small_rule(fit_bytes=3000)
        rule.fit(rows, seed)
        rule.fit(rows, seed)  # again: nothing is left from before
        assert torch.equal(torch.rand(1), _next_after(noise))
        fits.append(rule.state_dict())
    assert all(torch.equal(fits[0][key], fits[1][key]) for key in fits[0])
    assert not torch.equal(fits[0]["byte_model.head.weight"], fits[2]["byte_model.head.weight"])


def _next_after(noise):
    """The draw that follows when a small rule is made from the seed, and fitting draws nothing."""
    torch.manual_seed(noise)
    small_rule(fit_bytes=3000)
    return torch.rand(1)


def test_few_rows_and_a_tiny_budget_still_fit(corpus):
    for rows, budget in ((corpus.train.subset(slice(0, 1)), 1), (corpus.train.subset(slice(0, 2)), 2000)):
        rule = small_rule(fit_bytes=budget)
        rule.fit(rows, seed=0)
        assert math.isfinite(rule.facts()["threshold"]) and rule.facts()["threshold"] > 0


def test_before_fitting_a_decision_is_an_error_that_says_what_to_do():
    with pytest.raises(RltokError, match=r"'entropy' has not seen any text yet. Fit it first: model\.rule\.fit"):
        small_rule().decide(torch.zeros(1, 3, 2), torch.tensor([[BOS, 97, 98]]), random_uniforms(1, 3))


def test_the_byte_model_is_frozen_and_no_business_of_the_optimizer(corpus, fitted):
    few = SIZES | {"fit_bytes": 3000}
    config = with_settings(preset("tiny"), {"model.rule.name": "entropy"} | {f"model.rule.{k}": v for k, v in few.items()})
    model = AutoregressiveUNet(config.model)
    assert not any(p.requires_grad for p in model.rule.parameters()) and list(model.rule.parameters())
    model.rule.fit(corpus.train.subset(slice(0, 4)), seed=0)
    assert not any(p.requires_grad or p.grad is not None for p in model.rule.parameters())
    held = {id(p) for group in make_optimizer(model, config.train).param_groups for p in group["params"]}
    assert held == {id(p) for name, p in model.named_parameters() if not name.startswith("rule.")}
    out = model(ragged_ids((20, 9)))
    (out.nll.sum() + out.early_nll.sum()).backward()
    assert all(p.grad is None for p in model.rule.parameters())


def test_flops_count_the_byte_model_forward_only():
    other, entropy = preset("tiny_whitespace").model, preset("tiny_entropy").model
    built = AutoregressiveUNet(entropy).rule.byte_model
    matrices = sum(p.numel() for name, p in built.named_parameters() if p.ndim == 2 and "embedding" not in name)
    assert frozen_parameters(entropy) == matrices and frozen_parameters(other) == 0
    assert flops_per_byte(entropy, 0.2) - flops_per_byte(other, 0.2) == pytest.approx(2 * matrices)


def test_entropies_stay_in_fp32_under_autocast(fitted):
    ids = ragged_ids((20,))[:, :-1]
    with torch.autocast("cpu", torch.bfloat16):
        inside = fitted.entropies(ids)
    assert torch.equal(inside, fitted.entropies(ids))
