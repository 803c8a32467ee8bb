"""rltok.rules: how many boundaries each rule draws, where, and from what."""

import itertools
import math

import pytest
import torch
from helpers import ragged_ids, random_boundaries, random_uniforms, tiny_config
from hypothesis import given
from hypothesis import strategies as st

from rltok.policy import log_prob
from rltok.rules import Rule, make_rule
from rltok.rules.fixed import EvenRule, RandomKRule
from rltok.rules.learned import LearnedRule

LENGTHS = st.lists(st.integers(1, 60), min_size=1, max_size=5)
RATES = st.sampled_from([0.05, 0.2, 1 / 3, 0.5, 0.9])


def inputs_of(lengths):
    """What the model gives to a rule: input ids, PAD where a row has ended."""
    ids = ragged_ids(lengths)
    return ids[:, :-1].masked_fill(torch.arange(max(lengths)) >= torch.tensor(lengths)[:, None], 258)


def decide(rule, lengths, seed=0):
    ids = inputs_of(lengths)
    return rule.decide(torch.zeros(*ids.shape, 2), ids, random_uniforms(*ids.shape, seed=seed))


@given(LENGTHS, RATES)
def test_fixed_rules_place_rate_times_length_boundaries_with_the_one_on_bos_among_them(lengths, rate):
    for rule in (EvenRule(rate), RandomKRule(rate)):
        decided = decide(rule, lengths)
        for row, n in zip(decided.boundaries, lengths, strict=True):
            assert row[0] and row[:n].sum() == max(1, round(n * rate)) and (rule.__class__ is EvenRule or not row[n:].any())
        assert decided.logits is None and decided.aux_loss is None


@given(st.integers(1, 300), RATES)
def test_even_gaps_differ_by_at_most_one(length, rate):
    starts = decide(EvenRule(rate), [length]).boundaries[0].nonzero().flatten().tolist()
    gaps = [stop - start for start, stop in itertools.pairwise([*starts, length])]
    assert max(gaps) - min(gaps) <= 1


def test_a_row_of_4096_bytes_gets_819_boundaries():
    for rule in (EvenRule(0.2), RandomKRule(0.2)):
        assert decide(rule, [4096]).boundaries.sum() == 819


def test_even_ignores_the_uniforms_and_random_k_takes_the_smallest():
    assert torch.equal(decide(EvenRule(0.3), [20, 7], seed=0).boundaries, decide(EvenRule(0.3), [20, 7], seed=1).boundaries)
    uniforms = torch.tensor([[0.9, 0.5, 0.1, 0.4, 0.2, 0.3]])
    boundaries = RandomKRule(0.5).decide(torch.zeros(1, 6, 2), inputs_of([6]), uniforms).boundaries
    assert boundaries.int().tolist() == [[1, 0, 1, 0, 1, 0]]  # three: BOS, then 0.1 and 0.2


def test_random_k_chooses_every_position_after_bos_equally_often():
    ids = inputs_of([9] * 4000)
    boundaries = RandomKRule(4 / 9).decide(torch.zeros(4000, 9, 2), ids, random_uniforms(4000, 9)).boundaries
    # three of the eight positions after BOS: 1500 expected at each, standard deviation 31
    assert (boundaries[:, 1:].sum(0) - 1500).abs().max() < 4 * 31


def test_the_learned_rule_starts_near_its_target_rate_and_takes_the_cap_in_training_only():
    rule = LearnedRule(8, target_rate=0.2, lags=8, scale=16.0, softcap=6.0, norm_eps=1e-6)
    assert rule.bias == pytest.approx(math.log(0.2 / 0.8))
    with torch.no_grad():
        rule.project.weight.zero_()
    ids, nothing = inputs_of([3000]), torch.zeros(1, 3000, 8)
    for mode, rate in ((True, 0.204), (False, 0.2)):
        decided = rule.train(mode).decide(nothing, ids, random_uniforms(1, 3000))
        assert decided.logits.sigmoid().mean().item() == pytest.approx(rate, abs=5e-4)
        # 3000 draws: standard deviation 0.0073
        assert decided.boundaries.float().mean().item() == pytest.approx(rate, abs=0.03)


def test_the_learned_rule_prescribes_the_logits_that_it_would_have_drawn_with():
    rule = LearnedRule(4, target_rate=0.3, lags=3, scale=1.0, softcap=6.0, norm_eps=None)
    states = torch.randn(2, 12, 4, generator=torch.Generator().manual_seed(0))
    drawn = rule.decide(states, inputs_of([12, 12]), random_uniforms(2, 12))
    given_back = rule.prescribed(states, drawn.boundaries)
    assert torch.equal(drawn.logits, given_back.logits) and torch.equal(given_back.boundaries, drawn.boundaries)
    other = rule.prescribed(states, random_boundaries(2, 12, seed=1))
    assert not torch.equal(other.logits, drawn.logits)
    log_prob(other.logits, other.boundaries).sum().backward()
    assert rule.project.weight.grad.any(dim=1).all()


def test_the_learned_rule_projects_in_fp32_under_autocast_and_keeps_float64():
    rule, states = LearnedRule(4, target_rate=0.3, lags=1, scale=1.0, softcap=6.0, norm_eps=1e-6), torch.randn(1, 5, 4)
    exact = rule.terms(states)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(rule.terms(states), exact)
        assert rule.terms(states.bfloat16()).dtype == torch.float32
    assert rule.double().terms(states.double()).dtype == torch.float64


def test_every_name_makes_its_rule_with_the_models_settings():
    assert isinstance(make_rule(tiny_config("even", target_rate=0.4)), EvenRule)
    assert make_rule(tiny_config("random_k", target_rate=0.4)).target_rate == 0.4
    learned = make_rule(tiny_config(lags=5, scale=3.0, softcap=2.0, target_rate=0.5))
    assert (learned.scale, learned.softcap, learned.bias) == (3.0, 2.0, 0.0)
    assert learned.project.weight.shape == (6, 16)
    assert not list(make_rule(tiny_config(head_norm="none")).norm.parameters())


def test_a_rule_that_does_not_decide_says_so():
    with pytest.raises(NotImplementedError, match="Silent does not define decide"):
        decide(type("Silent", (Rule,), {})(), [3])
