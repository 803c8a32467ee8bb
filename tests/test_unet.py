"""rltok.unet: the forward pass against a numpy one, and its contract."""

import numpy as np
import pytest
import torch
from helpers import RULES, ragged_ids, random_boundaries, random_uniforms, tiny_config, tiny_model
from numpy_unet import PREDICTED, forward

from rltok import resample
from rltok.errors import RltokError
from rltok.rng import row_uniforms
from rltok.unet import AutoregressiveUNet
from rltok.vocab import BOS, EOS, PAD

LENGTHS = (14, 9, 1)

# The equations


@pytest.mark.parametrize("training", [True, False], ids=["training", "evaluation"])
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"lags": 0, "token_positions": "index", "attention_softcap": None},
        {"lags": 8, "upsample": "deviation", "head_norm": "none", "attention_softcap": 2.0, "window": 3, "down_layers": 2},
        {"lags": 2, "head_norm": "heads"},
        {"lags": 2, "head_norm": "policy", "upsample": "deviation"},
    ],
    ids=["plain", "index", "deviation", "policy raw", "heads raw"],
)
def test_the_forward_pass_equals_a_numpy_one_written_from_the_equations(settings, training):
    model = tiny_model(dtype=torch.float64, **settings).train(training)
    ids, uniforms = ragged_ids(LENGTHS, seed=3), random_uniforms(3, 14, seed=4)
    ids[0, -1] = EOS
    out, log_probs = model(ids, uniforms=uniforms), model.log_probs(ids, uniforms=uniforms)
    for row, n in enumerate(LENGTHS):
        expected = forward(model, ids[row, : n + 1].numpy(), uniforms[row, :n].numpy())
        targets = np.array([PREDICTED.index(target) for target in ids[row, 1 : n + 1].tolist()])
        np.testing.assert_array_equal(out.boundaries[row, :n], expected["boundaries"])
        actual = {
            "byte_states": model.encode(ids[:, :-1])[row, :n],
            "boundary_logits": out.boundary_logits[row, :n],
            "log_probs": log_probs[row, :n, PREDICTED],
        }
        expected["nll"] = -expected["log_probs"][np.arange(n), targets]
        expected["early_nll"] = -expected["early_log_probs"][np.arange(n), targets]
        actual |= {"nll": out.nll[row, :n], "early_nll": out.early_nll[row, :n]}
        for name, value in actual.items():  # float64, sums in another order
            np.testing.assert_allclose(value.detach(), expected[name], rtol=0, atol=1e-11, err_msg=name)


@pytest.mark.parametrize("token_positions", ["byte", "index"])
def test_rounded_rotary_positions_are_those_that_bf16_holds(token_positions):
    model = tiny_model(dtype=torch.float64, rotary_positions="bf16", token_positions=token_positions, target_rate=0.9)
    (ids,), uniforms = ragged_ids((600,), seed=3), random_uniforms(1, 600, seed=4)
    expected = forward(model, ids.numpy(), uniforms[0].numpy())
    out = model(ids[None], uniforms=uniforms)
    np.testing.assert_array_equal(out.boundaries[0], expected["boundaries"])
    np.testing.assert_allclose(out.boundary_logits.detach()[0], expected["boundary_logits"], rtol=0, atol=1e-11)
    targets = [PREDICTED.index(target) for target in ids[1:].tolist()]
    np.testing.assert_allclose(out.nll.detach()[0], -expected["log_probs"][np.arange(600), targets], rtol=0, atol=1e-11)
    exact = forward(
        tiny_model(dtype=torch.float64, token_positions=token_positions, target_rate=0.9), ids.numpy(), uniforms[0].numpy()
    )
    differs = np.abs(exact["byte_states"] - expected["byte_states"]).max(-1) > 1e-9
    assert not differs[:257].any() and differs[257:].any()


def test_a_forward_pass_keeps_float32_and_agrees_with_float64():
    ids, uniforms = ragged_ids(LENGTHS), random_uniforms(3, 14)
    narrow, wide = (tiny_model(dtype=dtype)(ids, uniforms=uniforms) for dtype in (torch.float32, torch.float64))
    assert narrow.nll.dtype == torch.float32 and wide.nll.dtype == torch.float64
    torch.testing.assert_close(narrow.nll.double(), wide.nll, rtol=0, atol=1e-4)  # fp32 through seven layers


def test_under_bf16_autocast_losses_and_policy_stay_in_fp32():
    ids, boundaries = ragged_ids(LENGTHS), random_boundaries(3, 14)
    model = tiny_model()
    exact = model(ids, boundaries=boundaries)
    with torch.autocast("cpu", torch.bfloat16):
        out = model(ids, boundaries=boundaries)
    for name in ("nll", "early_nll", "boundary_logits"):
        assert getattr(out, name).dtype == torch.float32
        torch.testing.assert_close(getattr(out, name), getattr(exact, name), rtol=0, atol=0.3)  # bf16 has 3 digits
    assert not torch.equal(out.nll, exact.nll)


# Draws


def test_prescribing_the_drawn_boundaries_gives_the_same_bits():
    model, ids = tiny_model(lags=7), ragged_ids(LENGTHS)
    drawn = model(ids, uniforms=random_uniforms(3, 14))
    given = model(ids, boundaries=drawn.boundaries)
    for name in ("nll", "early_nll", "boundaries", "scored", "drawn"):
        assert torch.equal(getattr(drawn, name), getattr(given, name)), name
    live = drawn.scored
    assert torch.equal(drawn.boundary_logits[live], given.boundary_logits[live])


def test_without_uniforms_a_row_draws_those_of_seed_0_step_0_and_its_number():
    model, ids = tiny_model(), ragged_ids(LENGTHS)
    assert torch.equal(model(ids).boundaries, model(ids, uniforms=row_uniforms(0, 0, range(3), 14)).boundaries)


def test_a_generator_draws_afresh_at_each_call_and_repeats_from_its_seed():
    model, ids = tiny_model(), ragged_ids((40, 40))
    generator = torch.Generator().manual_seed(1)
    first, second = model(ids, generator=generator).boundaries, model(ids, generator=generator).boundaries
    again = model(ids, generator=torch.Generator().manual_seed(1)).boundaries
    assert torch.equal(first, again) and not torch.equal(first, second)


RATE_FROM_START = {"learned", "even", "random_k"}  # the others look at the text, or have to learn their rate


@pytest.mark.parametrize("rule", RULES)
def test_only_scored_positions_and_bos_carry_boundaries(rule):
    lengths = (14, 9, 1, 0)
    model, ids = tiny_model(rule, target_rate=0.9), ragged_ids(lengths)
    for out in (model(ids, uniforms=random_uniforms(4, 14)), model(ids, boundaries=torch.ones(4, 14, dtype=torch.bool))):
        for row, n in enumerate(lengths):
            assert out.boundaries[row, 0] and not out.boundaries[row, max(1, n) :].any()
            assert out.scored[row].tolist() == [True] * n + [False] * (14 - n)
            assert out.drawn[row].tolist() == [False] + [True] * max(0, n - 1) + [False] * (14 - max(1, n))
            assert (out.nll[row, :n] > 0).all() and not out.nll[row, n:].any() and not out.early_nll[row, n:].any()
        assert (out.boundary_logits is None) == (rule != "learned")
        if rule in RATE_FROM_START:
            assert out.boundaries[0].sum() > 7


def test_the_softcap_bounds_logits_in_training_and_is_off_in_evaluation():
    model, ids, boundaries = tiny_model(scale=0.1, dtype=torch.float64), ragged_ids(LENGTHS), random_boundaries(3, 14)
    capped = model.train()(ids, boundaries=boundaries).boundary_logits
    free = model.eval()(ids, boundaries=boundaries).boundary_logits
    assert free.abs().max() > 6 > capped.abs().max()
    np.testing.assert_allclose(capped.detach(), 6 * np.tanh(free.detach().numpy() / 6), rtol=0, atol=1e-12)


# Heads


def test_only_bytes_and_eos_are_ever_predicted():
    probs = tiny_model(dtype=torch.float64).log_probs(ragged_ids(LENGTHS)).exp()
    assert not probs[..., [BOS, *range(PAD, probs.shape[-1])]].any()
    assert (probs[..., [*range(256), EOS]] > 0).all()
    torch.testing.assert_close(probs.sum(-1), torch.ones(3, 14, dtype=torch.float64))


def test_the_early_head_starts_as_the_output_head_and_is_then_free():
    model = AutoregressiveUNet(tiny_config())
    assert torch.equal(model.early_head.weight, model.output_head.weight)
    with torch.no_grad():
        model.early_head.weight.add_(1)
    assert not torch.equal(model.early_head.weight, model.output_head.weight)


def test_the_value_option_adds_the_token_and_the_deviation_option_what_mid_changed():
    ids, boundaries = ragged_ids((9,)), torch.ones(1, 9, dtype=torch.bool)
    value, deviation = (tiny_model("even", upsample=option, dtype=torch.float64) for option in ("value", "deviation"))
    packed = resample.downsample(value.encode(ids[:, :-1]), boundaries)
    torch.testing.assert_close(value.mid(packed) - packed.states, deviation.mid(packed))
    assert not torch.allclose(value(ids, boundaries=boundaries).nll, deviation(ids, boundaries=boundaries).nll)


def test_every_parameter_gets_a_gradient():
    model = tiny_model()
    out = model(ragged_ids(LENGTHS), uniforms=random_uniforms(3, 14))
    (out.nll.sum() + out.early_nll.sum() + out.boundary_logits.sum() + out.aux_loss).backward()
    assert [name for name, p in model.named_parameters() if p.grad is None or not p.grad.any()] == []


# Errors

GOOD = ragged_ids((5, 3))


def edited(row, column, value):
    ids = GOOD.clone()
    ids[row, column] = value
    return ids


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        (GOOD[:, :1], "B and N at least 1"),
        (GOOD[:0], "B and N at least 1"),
        (edited(1, 0, 65), "begin with BOS = 256; got .*65"),
        (edited(0, 2, BOS), "BOS = 256 may stand only at the start"),
        (edited(0, 2, PAD), "PAD = 258 may stand only at the end"),
        (edited(0, 2, -1), "between 0 and 258; got -1"),
        (edited(0, 2, 259), "between 0 and 258; got .*259"),
    ],
)
def test_ids_that_are_no_rows_are_refused(ids, message):
    with pytest.raises(RltokError, match=message):
        tiny_model()(ids)


@pytest.mark.usefixtures("shapes_unchecked")  # as in the reader's hands
@pytest.mark.parametrize("ids", [GOOD.int(), GOOD[0], GOOD[None]], ids=["int32", "one dimension", "three"])
def test_ids_of_another_type_or_dimension_are_refused(ids):
    with pytest.raises(RltokError, match="ids must be int64 of shape"):
        tiny_model()(ids)


@pytest.mark.usefixtures("shapes_unchecked")
@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"boundaries": torch.zeros(2, 5, dtype=torch.bool)}, "True at position 0 .* 2 rows without it"),
        ({"boundaries": torch.ones(2, 5)}, "boundaries must be bool"),
        ({"boundaries": torch.ones(2, 6, dtype=torch.bool)}, r"boundaries must have shape \(2, 5\)"),
        ({"uniforms": torch.ones(2, 5)}, r"uniforms must lie in \[0, 1\); got 1 to 1"),
        ({"uniforms": torch.full((2, 5), float("nan"))}, r"uniforms must lie in \[0, 1\); got nan"),
        ({"uniforms": torch.zeros(1, 5)}, r"uniforms must have shape \(2, 5\)"),
        ({"uniforms": torch.zeros(2, 5), "boundaries": torch.ones(2, 5, dtype=torch.bool)}, "not both"),
    ],
)
def test_draws_of_a_wrong_kind_are_refused(given, message):
    with pytest.raises(ValueError, match=message):
        tiny_model()(GOOD, **given)
    with pytest.raises(ValueError, match=message):
        tiny_model().log_probs(GOOD, **given)
