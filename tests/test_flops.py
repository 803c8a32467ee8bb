"""rltok.flops: the counts of Table 2 and section 4.2, and those of the modules that are built."""

import pytest
import torch
from helpers import STRAIGHT_THROUGH

from rltok.config import with_settings
from rltok.flops import attention_flops_per_byte, flops_per_byte, parameter_counts, training_flops
from rltok.presets import preset
from rltok.unet import AutoregressiveUNet
from rltok.vocab import PADDED_IDS

MILLIONS = {"147m": 146.9, "90m": 90.3, "24m": 23.5, "32m": 31.9, "40m": 40.3}


@pytest.mark.parametrize("name", MILLIONS)
def test_parameters_are_those_of_table_2_and_of_the_module_itself(name):
    model = preset(name).model
    with torch.device("meta"):
        built = sum(p.numel() for p in AutoregressiveUNet(model).parameters() if p.ndim == 2)
    assert round(built / 1e6, 1) == MILLIONS[name]
    padding = 3 * (PADDED_IDS - 257) * model.embedding_dim  # embedding and two heads have 264 rows, of which 257 are used
    assert built - padding == sum(parameter_counts(model).values())


RULES = [{"model.rule.name": rule, "model.rule.variant": variant} for rule, variant in STRAIGHT_THROUGH]


@pytest.mark.parametrize(
    "settings", [{"model.rule.lags": 0}, {"model.rule.name": "even"}, {"model.byte_mlp_ratio": 3}, *RULES], ids=str
)
def test_the_count_follows_the_settings_as_the_module_does(settings):
    model = with_settings(preset("tiny"), settings).model
    built = sum(p.numel() for p in AutoregressiveUNet(model).parameters() if p.ndim == 2)
    assert built - 3 * 7 * model.embedding_dim == sum(parameter_counts(model).values())


def test_a_byte_of_the_147m_model_costs_336_and_a_half_million_flops_at_one_token_in_five_bytes():
    model = preset("147m").model
    d = 768
    byte_layer, token_layer = 4 * d * d + 3 * d * d, 4 * d * d + 3 * 4 * d * d
    by_hand = 6 * (8 * byte_layer + 12 * token_layer / 5 + 2 * 257 * d + 9 * d)
    assert flops_per_byte(model, 0.2) == pytest.approx(by_hand, rel=1e-12)
    assert flops_per_byte(model, 0.2) / 1e6 == pytest.approx(336.5, abs=0.05)
    assert 6e9 * flops_per_byte(model, 0.2) == pytest.approx(2.02e18, rel=0.002)


def test_attention_adds_four_percent_to_the_147m_model():
    model = preset("147m").model
    extra = attention_flops_per_byte(model, 0.2, 4096) / flops_per_byte(model, 0.2)
    assert extra == pytest.approx(0.041, abs=0.0005)
    # a row shorter than the window sees no more than itself
    short = attention_flops_per_byte(model, 0.2, 32)
    assert short == pytest.approx(12 * 768 * (8 * 32 + 12 * 0.2 * 0.2 * 32 / 2))


def test_draws_beyond_the_first_are_counted_forward_from_the_policy_on():
    once, thrice = (preset("tiny", {"objective.draws": draws}) for draws in (1, 3))
    counts, d, model, length = parameter_counts(once.model), 64, once.model, once.data.sequence_length
    assert (model.down_layers, model.up_layers) == (1, 1)
    before, after = (training_flops(config, 1000, 250) for config in (once, thrice))
    forward = counts["policy"] + counts["token_layers"] / 4 + counts["byte_layers"] / 2 + 257 * d
    assert after[0] - before[0] == pytest.approx(2 * 1000 * 2 * forward)
    pairs = min(model.window, length) + model.mid_layers / 4 * (length / 4) / 2
    assert after[1] - before[1] == pytest.approx(2 * 1000 * 4 * d * pairs)
    assert training_flops(thrice, 0, 0) == (0, 0)
    for kind in ("train", "antithetic"):  # and back through the policy, to its weights and to the byte states
        twice = [preset("tiny", {"objective.draws": 2, "objective.further_draws": each}) for each in ("baseline", kind)]
        forward_alone, back = (training_flops(config, 1000, 250) for config in twice)
        assert back[0] - forward_alone[0] == pytest.approx(1000 * 4 * counts["policy"])
        assert back[1] == forward_alone[1]
