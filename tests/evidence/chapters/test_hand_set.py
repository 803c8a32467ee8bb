"""ch04_handmade: strides and white space as weights, exactly; what a policy without memory can do instead, in closed form."""

import itertools
import math

import numpy as np
import pytest
import torch
from helpers import ragged_ids, random_uniforms, sigmoid, tiny_model

from rltok.data import load_corpus
from rltok.errors import RltokError
from rltok.evaluation import evaluation_mode
from rltok.evidence.chapters import ch04_handmade
from rltok.evidence.chapters.ch04_handmade import (
    CERTAIN,
    best_stride_log_prob,
    carry_constant,
    draw_every,
    draw_on,
    keep_embeddings,
    largest_rms,
    read_out,
    slip_probability,
    stride_log_prob,
)
from rltok.policy import sample_boundaries
from rltok.presets import preset
from rltok.rng import row_uniforms
from rltok.rules.fixed import EvenRule
from rltok.runs.models import new_model
from rltok.vocab import BOS, EOS, encode

SPACES = [byte for byte in range(128) if chr(byte).isspace()]
LAGS = 8


def drawn(model, ids, uniforms):
    with evaluation_mode(model), torch.no_grad():
        return model(ids, uniforms=uniforms)


# Strides


@pytest.mark.parametrize("k", range(2, LAGS + 2))
@pytest.mark.parametrize("head_norm", ["rms", "none", "heads", "policy"])
def test_hand_set_weights_draw_every_kth_byte_of_any_text_as_the_rule_even_does(k, head_norm):
    model, length = tiny_model(lags=LAGS, window=5, down_layers=2, head_norm=head_norm, scale=16.0, seed=k), 12 * k
    draw_every(model, k, reach=CERTAIN)
    ids = ragged_ids((length, length, length), seed=k)
    ids[1, 1:] = 97  # constant text
    out = drawn(model, ids, row_uniforms(k, 0, range(3), length).clamp(min=2**-24))
    expected = EvenRule(1 / k).decide(torch.zeros(3, length, 16), ids[:, :-1], torch.zeros(3, length)).boundaries
    assert torch.equal(out.boundaries, expected)
    assert out.boundaries[0].tolist() == [i % k == 0 for i in range(length)]


@pytest.mark.parametrize("k", [2, 5])
def test_uniforms_nearest_to_0_and_1_change_nothing_but_exactly_0_always_draws(k):
    model, ids = tiny_model(lags=4), ragged_ids((40, 40))
    draw_every(model, k, reach=CERTAIN)
    nearest = torch.stack([torch.full((40,), 2**-24), torch.full((40,), 1 - 2**-24)])
    assert drawn(model, ids, nearest).boundaries.tolist() == [[i % k == 0 for i in range(40)]] * 2
    nearest[:, 1] = 0.0  # a slip, from which the stride goes on
    assert drawn(model, ids, nearest).boundaries.tolist() == [[i == 0 or (i - 1) % k == 0 for i in range(40)]] * 2


@pytest.mark.parametrize("head_norm", ["rms", "none"])  # without a norm the logits are exactly as large as they must be
def test_every_logit_reaches_as_far_as_was_asked_for_and_the_bound_on_byte_states_holds(head_norm):
    model, ids = tiny_model(lags=4, down_layers=3, target_rate=0.05, head_norm=head_norm), ragged_ids((60, 60))
    draw_every(model, 4, reach=CERTAIN)
    assert drawn(model, ids, torch.full((2, 60), 0.5)).boundary_logits[:, 1:].abs().min() >= CERTAIN * (1 - 1e-6)
    states = model.encode(ids[:, :-1])
    assert states.square().mean(dim=-1).sqrt().max() <= largest_rms(model)
    assert (states[..., 0] == 1).all() and not (states[..., 1] == states[0, 0, 1]).all()


def test_under_the_cap_a_share_of_decisions_slips_that_the_cap_alone_decides():
    model, length = tiny_model(lags=2, softcap=2.0), 400
    draw_every(model, 3, reach=50.0)
    ids = ragged_ids((length,) * 20)
    out = model(ids, uniforms=random_uniforms(20, length))  # in training mode
    a = np.pad(out.boundaries.numpy(), ((0, 0), (2, 0)))
    wanted = ~(a[:, 1:-1] | a[:, :-2])  # no boundary among the two decisions before
    slips = (wanted != a[:, 2:])[:, 1:]
    p = sigmoid(-2.0)
    assert slip_probability(50.0, 2.0) == pytest.approx(p, rel=1e-12)
    assert abs(slips.sum() - p * slips.size) < 4 * math.sqrt(slips.size * p * (1 - p))
    assert slip_probability(50.0, 6.0) == pytest.approx(0.00247, abs=5e-6)
    assert slip_probability(CERTAIN, None) == pytest.approx(sigmoid(-CERTAIN), rel=1e-12)
    assert slip_probability(CERTAIN, None) < 2**-24  # the smallest uniform of fp32 but 0


def test_a_stride_beyond_the_memory_and_a_rule_without_policy_are_named():
    with pytest.raises(RltokError, match=r"lags=3 draws every k-th byte for k from 1 to lags \+ 1 = 4; got k=5\. Take lags=4"):
        draw_every(tiny_model(lags=3), 5, reach=CERTAIN)
    with pytest.raises(RltokError, match="got k=0"):
        draw_every(tiny_model(lags=3), 0, reach=CERTAIN)
    with pytest.raises(RltokError, match="this model has EvenRule. Make it with model.rule.name='learned'"):
        draw_every(tiny_model("even"), 2, reach=CERTAIN)


# Without memory


def chance_by_enumeration(k, decisions, lags, logit):
    """The stride's probability among all strings, by the chain rule; the policy of `draw_every` while it knows where it is.

    One logit where the last `lags` decisions are all 0; within `lags` of a boundary it never draws.
    """
    total, of_stride = 0.0, 0.0
    for string in itertools.product((0, 1), repeat=decisions):
        row, probability = (1, *string), 1.0
        for i in range(1, decisions + 1):
            p = 0.0 if any(row[max(0, i - lags) : i]) else sigmoid(logit)
            probability *= p if row[i] else 1 - p
        total += probability
        of_stride += probability * (row == tuple(int(i % k == 0) for i in range(decisions + 1)))
    assert total == pytest.approx(1, rel=1e-12)
    return of_stride


@pytest.mark.parametrize(("k", "lags"), [(2, 0), (3, 0), (5, 0), (3, 1), (4, 2), (5, 1)])
@pytest.mark.parametrize("decisions", [7, 10])
def test_the_chance_of_a_stride_beyond_the_memory_equals_enumeration_and_no_other_p_does_better(k, lags, decisions):
    best_p, best = best_stride_log_prob(k, decisions, lags)
    assert best < 0
    for p in (0.1, 0.3, 0.5, best_p):
        actual = stride_log_prob(k, decisions, lags, p)
        assert actual == pytest.approx(math.log(chance_by_enumeration(k, decisions, lags, math.log(p / (1 - p)))), rel=1e-12)
        assert actual <= best + 1e-12
    grid = [stride_log_prob(k, decisions, lags, p) for p in np.linspace(0.001, 0.999, 999)]
    assert best >= max(grid) > best - 0.01


def test_without_memory_a_stride_of_constant_text_comes_as_often_as_computed_and_with_it_always():
    k, decisions, rows = 3, 6, 200_000
    p, log_chance = best_stride_log_prob(k, decisions, 0)
    chance = math.exp(log_chance)
    assert (p, chance) == (1 / 3, pytest.approx((1 / 3) ** 2 * (2 / 3) ** 4))
    terms = torch.full((rows, decisions + 1, 1), math.log(p / (1 - p)), dtype=torch.float64)
    boundaries = sample_boundaries(terms, random_uniforms(rows, decisions + 1), bias=0.0, scale=1.0, softcap=None)
    share = (boundaries == (torch.arange(decisions + 1) % k == 0)).all(dim=1).double().mean().item()
    assert abs(share - chance) < 4 * math.sqrt(chance * (1 - chance) / rows)
    assert best_stride_log_prob(k, decisions, k - 1) == (1.0, 0.0) == best_stride_log_prob(k, 1000, 20)
    # a row of the paper: 819 boundaries among 4095 decisions, -0.2 log 0.2 - 0.8 log 0.8 nats each
    assert best_stride_log_prob(5, 4095, 0) == (0.2, pytest.approx(-4095 * 0.5004024235381879, rel=1e-9))
    assert best_stride_log_prob(9, 5, 0) == (0.0, 0.0) and stride_log_prob(2, 4, 0, 0.0) == -math.inf


def test_on_constant_text_all_logits_without_memory_are_equal_once_bos_is_out_of_reach():
    window, layers = 5, 2
    model = tiny_model(lags=0, window=window, down_layers=layers, dtype=torch.float64)
    ids = torch.full((1, 60), 97)
    ids[0, 0] = BOS
    logits = model(ids, uniforms=random_uniforms(1, 59)).boundary_logits[0]
    reach = layers * (window - 1)  # of BOS
    torch.testing.assert_close(logits[reach + 1 :], logits[-1].expand(59 - reach - 1), rtol=0, atol=1e-12)
    assert (logits[1 : reach + 1] - logits[-1]).abs().max() > 1e-3


def test_no_stride_and_no_decisions_are_named():
    for k, decisions, lags in ((0, 5, 0), (2, -1, 0), (2, 5, -1)):
        with pytest.raises(RltokError, match=f"got k={k}, decisions={decisions}, lags={lags}"):
            best_stride_log_prob(k, decisions, lags)


# White space


@pytest.mark.parametrize("head_norm", ["rms", "none"])
def test_white_space_as_weights_draws_after_every_white_space_byte_and_nowhere_else(head_norm):
    model = tiny_model(embedding_dim=288, lags=3, down_layers=2, head_norm=head_norm, scale=16.0)
    draw_on(model, SPACES, reach=CERTAIN)
    ids = ragged_ids((300, 300))
    text = encode("Two words,\n\tand a tab; then 12  dogs.")
    ids[1, 1 : len(text) + 1] = torch.from_numpy(text)
    out = drawn(model, ids, row_uniforms(0, 0, range(2), 300).clamp(min=2**-24))
    expected = torch.isin(ids[:, :-1], torch.tensor(SPACES))
    expected[:, 0] = True
    assert torch.equal(out.boundaries, expected) and expected[1, 1:].sum() > 5
    assert torch.equal(model.encode(ids[:, :-1]), model.embedding(ids[:, :-1]))


def test_too_few_dimensions_for_a_read_out_and_ids_that_are_no_bytes_are_named():
    with pytest.raises(RltokError, match=r"embedding_dim=16 no linear read-out .* Take embedding_dim 256 or more"):
        draw_on(tiny_model(), range(0, 256, 2), reach=CERTAIN)
    with pytest.raises(RltokError, match=f"takes bytes, from 0 to 255; got {EOS}"):
        draw_on(tiny_model(), [32, EOS], reach=CERTAIN)


def test_a_read_out_is_exact_for_any_decisions_on_independent_states_and_the_best_fit_on_more():
    generator = np.random.default_rng(0)
    rule = tiny_model(lags=2, dtype=torch.float64, scale=4.0).rule.eval()
    states = torch.from_numpy(generator.normal(size=(40, 16)))
    wanted = torch.from_numpy(generator.random(40) < 0.3)
    read_out(rule, states[:16], wanted[:16], reach=9.0)
    logits = rule.terms(states[None, :16])[0, :, 0] / 4 + rule.bias
    np.testing.assert_allclose(logits.detach(), np.where(wanted[:16], 9.0, -9.0), rtol=0, atol=1e-8)
    read_out(rule, states, wanted, reach=9.0)
    normed = rule.norm(states).detach().numpy()
    best = np.linalg.lstsq(normed, 4 * (np.where(wanted, 9.0, -9.0) - rule.bias), rcond=None)[0]
    np.testing.assert_allclose(rule.project.weight[0].detach(), best, rtol=0, atol=1e-8)
    assert not rule.project.weight[1:].any()


def test_after_context_is_mixed_in_a_read_out_of_fresh_byte_states_errs_on_few_bytes_of_text_but_on_some():
    """In the byte states that the preset `tiny` starts from, of 64 dimensions, where the embeddings alone do not suffice."""
    config = preset("tiny")
    model, corpus = new_model(config, torch.device("cpu")).eval(), load_corpus("sample", config.data)
    fitted, held_out = corpus.train.ids(range(40))[:, :-1], corpus.validation.ids(range(10))[:, :-1]

    def wanted(ids):
        return torch.isin(ids, torch.tensor(SPACES))

    with torch.no_grad():
        read_out(model.rule, model.encode(fitted).flatten(0, 1), wanted(fitted).flatten(), reach=CERTAIN)
        actual = model.rule.logits(model.rule.terms(model.encode(held_out)), wanted(held_out)) > 0
    wrong, spaces = ((actual != wanted(held_out)).float().mean(), wanted(held_out).float().mean())
    assert 0 < wrong < spaces / 4


def test_the_constant_is_carried_and_embeddings_kept_by_norms_that_add_nothing():
    model, ids = tiny_model(down_layers=2), ragged_ids((30,))
    carry_constant(model)
    assert (model.encode(ids[:, :-1])[..., 0] == 1).all()
    assert not torch.equal(model.encode(ids[:, :-1]), model.embedding(ids[:, :-1]))
    keep_embeddings(model)
    assert torch.equal(model.encode(ids[:, :-1]), model.embedding(ids[:, :-1]))


@pytest.mark.parametrize("reach", [0.0, -3.0, math.nan, math.inf])
def test_a_reach_that_is_none_is_named(reach):
    model = tiny_model(embedding_dim=32)
    for call in (
        lambda: ch04_handmade.draw_every(model, 2, reach=reach),
        lambda: ch04_handmade.draw_on(model, b" ", reach=reach),
    ):
        with pytest.raises(RltokError, match="reach is the size of a logit, greater than 0 and finite"):
            call()


def test_a_read_out_that_is_too_weak_is_refused_and_leaves_the_model_alone():
    model = tiny_model(embedding_dim=64, lags=0)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    with pytest.raises(RltokError, match=r"the logits of \d+ of 256 are smaller than reach=17"):
        ch04_handmade.draw_on(model, b" ", reach=17.0)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_a_stride_below_1_is_no_stride():
    with pytest.raises(RltokError, match="k counts bytes from one boundary to the next, at least 1; got k=0"):
        ch04_handmade.draw_every(tiny_model(embedding_dim=32), 0, reach=17.0)
