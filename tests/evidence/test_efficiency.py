"""rltok.evidence.cost: early head, policy and estimator beside BPE guidance, counted by hand."""

from fractions import Fraction

import pytest

from rltok.config import with_settings
from rltok.errors import RltokError
from rltok.evidence.cost import CLAIM, extra, largest_rank
from rltok.evidence.low_rank import LowRankHead
from rltok.presets import preset
from rltok.unet import AutoregressiveUNet

# name: d, byte layers, token layers, bytes a token
SIZES = {"147m": (768, 8, 12, 5), "90m": (768, 8, 6, 5), "32m": (512, 8, 4, 4)}


def guided_parameters(d, byte_layers, token_layers, bytes_a_token):
    """A byte's share of the matrices that BPE guidance runs, as a fraction: q, k, v, out and a gated layer of width d or 4 d."""
    return byte_layers * 7 * d * d + Fraction(token_layers * 16 * d * d, bytes_a_token) + 257 * d


@pytest.mark.parametrize("name", SIZES)
@pytest.mark.parametrize("lags", [8, 0])
def test_costs_are_those_counted_by_hand_and_far_above_the_claim(name, lags):
    d, *_, bytes_a_token = SIZES[name]
    guided = guided_parameters(*SIZES[name])
    costs = extra(preset(name, {"model.rule.lags": lags}).model, 1 / bytes_a_token)
    assert costs.guided == pytest.approx(float(6 * guided), rel=1e-12)
    assert (costs.early_head, costs.policy) == (6 * 257 * d, 6 * (lags + 1) * d)
    assert costs.counted_share == pytest.approx(float((257 + lags + 1) * d / guided), rel=1e-12)
    assert costs.counted_share > 3 * CLAIM and costs.policy / costs.guided < CLAIM / 4
    assert costs.share - costs.counted_share == pytest.approx((2 * lags + 3 + 7) / costs.guided, rel=1e-3)


@pytest.mark.parametrize(("name", "rank", "without_memory"), [("147m", 47, 53), ("90m", 36, 42), ("32m", 18, 24)])
def test_the_largest_rank_that_meets_the_claim_is_the_last_that_does(name, rank, without_memory):
    d, *_, bytes_a_token = SIZES[name]
    guided = guided_parameters(*SIZES[name])
    for lags, largest in ((8, rank), (0, without_memory)):
        model = preset(name, {"model.rule.lags": lags}).model
        assert largest_rank(model, 1 / bytes_a_token, CLAIM) == largest
        at, above = (r * (d + 257) + (lags + 1) * d for r in (largest, largest + 1))
        assert at <= guided * Fraction(1, 1000) < above
        assert extra(model, 1 / bytes_a_token, largest).counted_share <= CLAIM
        assert extra(model, 1 / bytes_a_token, largest + 1).counted_share > CLAIM


def test_the_count_of_a_short_head_is_that_of_the_module_without_its_padding():
    config = preset("tiny").model
    head = LowRankHead(AutoregressiveUNet(config).output_head.weight, 5)
    padding = 7 * 5  # rows of ids that are never predicted
    assert extra(config, 0.2, 5).early_head == 6 * (sum(p.numel() for p in head.parameters()) - padding)


def test_in_a_model_as_small_as_tiny_no_rank_meets_the_claim_and_other_rules_are_named():
    assert largest_rank(preset("tiny").model, 0.2, CLAIM) < 1
    with pytest.raises(RltokError, match="for the rule 'learned'; got 'bpe'"):
        extra(with_settings(preset("tiny"), {"model.rule.name": "bpe"}).model, 0.2)
