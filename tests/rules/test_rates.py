"""A policy with a range of target rates: the rate is an input, training draws one a micro-batch, and a user chooses one."""

import math

import numpy as np
import pytest
import torch
from helpers import ragged_ids, random_boundaries, random_uniforms, ranged_model, tiny_config, tiny_model
from numpy_unet import PREDICTED, forward
from runs import small_config

from rltok.config import with_settings
from rltok.data.order import rank_rows
from rltok.errors import RltokError
from rltok.flops import flops_per_byte
from rltok.losses import target_rate_loss
from rltok.optim import make_optimizer, with_drawn_rate
from rltok.ranks import Ranks
from rltok.rng import drawn_rate, row_uniforms
from rltok.step import accumulate_gradient, train_step
from rltok.unet import AutoregressiveUNet

pytestmark = pytest.mark.usefixtures("shapes_unchecked")
RATES = (0.1, 0.15, 0.3, 0.6)
RANGE = {"model__rule__lowest_rate": 0.1, "model__rule__highest_rate": 0.5}


# The policy


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("rate", RATES)
def test_the_forward_pass_at_a_rate_equals_a_numpy_one(rate, training):
    model = ranged_model(rate, dtype=torch.float64).train(training)
    (ids,), uniforms = ragged_ids((14,), seed=3), random_uniforms(1, 14, seed=4)
    expected, out = forward(model, ids.numpy(), uniforms[0].numpy()), model(ids[None], uniforms=uniforms)
    np.testing.assert_array_equal(out.boundaries[0], expected["boundaries"])
    np.testing.assert_allclose(out.boundary_logits.detach()[0], expected["boundary_logits"], rtol=0, atol=1e-11)
    nll = -expected["log_probs"][np.arange(14), [PREDICTED.index(target) for target in ids[1:].tolist()]]
    np.testing.assert_allclose(out.nll.detach()[0], nll, rtol=0, atol=1e-11)


def test_at_its_target_rate_it_is_the_papers_policy_to_the_bit_and_elsewhere_it_is_not():
    ids, uniforms = ragged_ids((14, 9)), random_uniforms(2, 14)
    paper = tiny_model()
    for rate in RATES:
        model = ranged_model(rate)
        model.load_state_dict(paper.state_dict() | {"rule.of_rate": model.rule.of_rate})
        same = torch.equal(model(ids, uniforms=uniforms).boundary_logits, paper(ids, uniforms=uniforms).boundary_logits)
        assert same == (rate == 0.3)


def test_a_fresh_policy_without_weights_draws_at_the_rate_that_is_wanted_whatever_the_text():
    model = ranged_model(0.3).eval()
    for parameter in model.rule.parameters():
        torch.nn.init.zeros_(parameter)
    for rate in RATES:
        model.rule.use_rate(rate)
        chances = model(ragged_ids((40,)), boundaries=random_boundaries(1, 40)).boundary_logits.sigmoid()
        torch.testing.assert_close(chances, torch.full((1, 40), rate))


def test_nothing_but_the_boundaries_depends_on_the_rate():
    ids, boundaries = ragged_ids((14, 9)), random_boundaries(2, 14)
    one, other = (ranged_model(rate)(ids, boundaries=boundaries) for rate in (0.1, 0.6))
    assert torch.equal(one.nll, other.nll) and torch.equal(one.early_nll, other.early_nll)
    assert torch.equal(one.byte_states, other.byte_states)
    assert (one.boundary_logits < other.boundary_logits).float().mean() > 0.5


def test_a_range_adds_one_vector_to_the_policy_and_no_flops():
    plain, ranged = tiny_config(), tiny_config(lowest_rate=0.1, highest_rate=0.6)
    added = ranged_model(0.3).state_dict().keys() - tiny_model().state_dict().keys()
    assert added == {"rule.of_rate"} and ranged_model(0.3).rule.of_rate.shape == (16,)
    assert flops_per_byte(ranged, 0.2) == flops_per_byte(plain, 0.2)


def test_the_vector_of_a_new_model_is_0():
    assert not AutoregressiveUNet(tiny_config(lowest_rate=0.1, highest_rate=0.6)).rule.of_rate.any()


# The rate that is chosen


OUTSIDE = [0, 0.0999, 0.61, 1, 8, -1, math.nan, math.inf, 0.6000000000000001, 10**400, True, "1/8", [0.2], 0.2j]


@pytest.mark.parametrize("rate", OUTSIDE, ids=lambda rate: repr(rate)[:20])
def test_what_is_no_rate_of_the_range_is_refused_in_one_line_that_repeats_it_and_changes_nothing(rate):
    model = ranged_model(0.15)
    with pytest.raises(RltokError) as error:
        model.rule.use_rate(rate)
    assert str(error.value) == f"this model was trained for rates from 0.1 to 0.6; got {rate!r}. Choose one of them."
    assert model.rule.rate == 0.15 and model.rule.bias == pytest.approx(math.log(0.15 / 0.85))


@pytest.mark.parametrize("rule", ["learned", "even", "hnet"])
def test_a_model_of_one_rate_refuses_any_other(rule):
    with pytest.raises(
        RltokError, match=r"was trained for one rate of boundaries, so 0\.3 cannot be chosen\. Leave the rate out"
    ):
        tiny_model(rule).rule.use_rate(0.3)


# The rates of training


def test_the_rate_of_a_micro_batch_depends_on_seed_update_and_number_alone_and_is_log_uniform():
    keys = [(seed, step, number) for seed in (0, 1, 2**62) for step in (1, 2, 900) for number in (0, 1, 2**33)]
    drawn = [drawn_rate(*key, 0.1, 0.5) for key in keys]
    assert drawn == [drawn_rate(*key, 0.1, 0.5) for key in keys] and len(set(drawn)) == len(keys)
    shares = np.array([math.log(drawn_rate(7, step, 0, 0.1, 0.5) / 0.1) / math.log(5) for step in range(4000)])
    assert 0 <= shares.min() and shares.max() <= 1
    counts, _ = np.histogram(shares, bins=10, range=(0, 1))
    assert abs(counts - 400).max() < 4 * 19  # standard deviation 19


def test_it_is_that_of_philox_on_every_machine_and_shares_no_number_with_the_draws_of_boundaries():
    bits = int(np.random.Philox(key=[7, 3], counter=[0, 0, 1, 5]).random_raw(1)[0])
    assert drawn_rate(7, 3, 5, 0.1, 0.5) == pytest.approx(0.1 * 5 ** ((bits >> 11) / 2**53), rel=1e-12)
    rows = row_uniforms(7, 3, range(8), 500)
    assert not any(abs(rows - math.log(drawn_rate(7, 3, n, 0.1, 0.5) / 0.1) / math.log(5)).min() < 1e-9 for n in range(8))


@pytest.mark.parametrize("processes", [1, 2, 3, 4, 6, 12])
def test_a_row_is_drawn_at_the_same_rate_whichever_process_has_it(processes):
    config = small_config(train__sequences_per_update=12, train__training_bytes=8 * 12 * 64, **RANGE)
    alone = [with_drawn_rate(config, 5, number, Ranks()).model.rule.target_rate for number in range(6)]
    assert len(set(alone)) == 6
    for process in range(processes):
        rows = rank_rows(np.arange(12), process, processes, 2)
        for number, own in enumerate(rows):
            rate = with_drawn_rate(config, 5, number, Ranks(process, processes)).model.rule.target_rate
            assert {alone[row // 2] for row in own} == {rate}


def test_without_a_range_the_settings_stay_the_same_object():
    config = small_config()
    assert with_drawn_rate(config, 5, 1, Ranks()) is config


def batches(draws=1):
    return [(ragged_ids([12, 9], seed=seed), random_uniforms(2, 12 * draws, seed=seed)) for seed in (0, 1)]


def ranged_config(**settings):
    config = small_config(model__rule__lags=3, train__training_bytes=8 * 4 * 64, train__clip_norm=1e9, **RANGE, **settings)
    return with_settings(config, {"model.rule.target_rate": 0.3, "model.rule.highest_rate": 0.6, "train.seed": 4})


@pytest.mark.parametrize(
    "settings",
    [{}, {"objective__draws": 2}, {"objective__draws": 2, "objective__further_draws": "train"},
     {"objective__draws": 4, "objective__further_draws": "antithetic"}],
    ids=str,
)  # fmt: skip
def test_each_micro_batch_draws_and_is_paid_at_its_own_rate_and_after_it_the_model_has_its_own_again(settings):
    config, wanted = ranged_config(**settings), {}
    rates = [drawn_rate(4, 3, number, 0.1, 0.6) for number in (0, 1)]
    parts = batches(config.objective.draws)
    model, by_hand = ranged_model(0.3), ranged_model(0.3)
    for rate, (ids, uniforms) in zip(rates, parts, strict=True):
        by_hand.rule.use_rate(rate)
        own = with_settings(config, {"model.rule.target_rate": rate})
        accumulate_gradient(by_hand, (ids, uniforms), own, 0.5)  # both have 21 bytes
    wanted = {name: parameter.grad for name, parameter in by_hand.named_parameters()}
    train_step(model, make_optimizer(model, config.train), parts, config, 3)
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(parameter.grad, wanted[name], rtol=1e-4, atol=1e-7)
    assert model.rule.rate == 0.3 and model.rule.of_rate.grad.abs().max() > 1e-5


def test_after_a_failure_in_the_middle_of_an_update_the_model_has_its_own_rate_again():
    model, config = ranged_model(0.3), ranged_config()

    def failing(logits, rate, mask):
        assert model.rule.rate == rate != 0.3
        raise ValueError("in the middle")

    with pytest.raises(ValueError, match="in the middle"):
        train_step(model, make_optimizer(model, config.train), batches(), config, 3, rate_loss=failing)
    assert model.rule.rate == 0.3


def farthest_after_training_for_rates(*names):
    """How far a policy that is decided ends from two rates, when the rate loss trains these parts of it alone."""
    model, ids = ranged_model(0.3), ragged_ids((60, 60, 60))
    with torch.no_grad():
        states = model.encode(ids[:, :-1])
        model.rule.project.weight *= 10  # more than any bias of the range can change
        model.rule.of_rate.zero_()

    def logits(rate):
        model.rule.use_rate(rate)
        return model.rule.decide(states, ids[:, :-1], random_uniforms(3, 60)).logits[:, 1:]

    optimizer = torch.optim.Adam([model.rule.get_parameter(name) for name in names], lr=0.05)
    for step in range(300):
        optimizer.zero_grad()
        rate = drawn_rate(0, step, 0, 0.1, 0.6)
        target_rate_loss(logits(rate), rate).backward()
        optimizer.step()
    return max(abs(logits(rate).sigmoid().mean().item() - rate) for rate in (0.12, 0.55))


def test_a_decided_policy_holds_every_rate_by_the_vector_and_cannot_by_the_bias_alone():
    alone, both = (farthest_after_training_for_rates(*names) for names in (["project.weight"], ["project.weight", "of_rate"]))
    assert both < 0.05 < 0.1 < alone, (alone, both)
