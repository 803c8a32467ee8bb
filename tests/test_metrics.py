"""rltok.metrics on outputs made by hand: small enough to check every mean in the head."""

import math

import pytest
import torch

from rltok.errors import RltokError
from rltok.losses import Losses
from rltok.metrics import StepMetrics
from rltok.unet import UNetOutput
from rltok.vocab import BOS, PAD


def losses(value=1.0):
    zero = torch.zeros(())
    return Losses(auto=torch.tensor(value), early=zero, policy=zero, target=zero, aux=zero)


def one_row(text, boundaries, nll, advantages, width=5):
    """A micro-batch of one row that holds `text`; logits 0, so that every decision has entropy log 2."""
    n = len(text)
    ids = torch.tensor([[BOS, *text, *[PAD] * (width - n)]])
    scored = torch.arange(width)[None] < n
    drawn = scored & (torch.arange(width)[None] > 0)
    padded = torch.tensor([[*nll, *[0.0] * (width - n)]])
    marks = torch.tensor([[*boundaries, *[0] * (width - n)]], dtype=torch.bool)
    out = UNetOutput(padded, padded + 1.0 * scored, marks, torch.zeros(1, width), scored, drawn, torch.zeros(()))
    return ids, out, losses(), torch.tensor([[*advantages, *[99.0] * (width - n)]])  # 99 must never count


def test_means_weigh_every_byte_and_every_decision_alike_whatever_its_micro_batch():
    metrics = StepMetrics(4)
    metrics.add(*one_row(b"a b c", [1, 0, 1, 0, 0], [1.0, 2.0, 3.0, 4.0, 5.0], [7.0, 1.0, -1.0, 1.0, -1.0]))
    metrics.add(*one_row(b" x", [1, 1], [0.0, 6.0], [50.0, 3.0]))
    means = metrics.to_dict()
    # inputs are BOS and all bytes but the last; a boundary belongs to the input byte at its position
    assert metrics.scored_bytes == 7
    assert means["nll"] == pytest.approx(21 / 7)
    assert means["early_nll"] == pytest.approx(28 / 7)
    assert means["rate"] == pytest.approx(2 / 5)  # decisions after a, space, b, space; then after space
    assert means["tokens_per_byte"] == pytest.approx(4 / 7)  # with the two forced ones
    assert means["policy_entropy"] == pytest.approx(math.log(2))
    assert means["whitespace_share"] == pytest.approx(2 / 3)
    assert means["advantage_rms"] == pytest.approx(math.sqrt((1 + 1 + 1 + 1 + 9) / 5))  # forced and padded ones left out


def test_without_white_space_its_share_is_unknown_not_zero():
    metrics = StepMetrics(1)
    metrics.add(*one_row(b"abc", [1, 0, 1], [1.0, 1.0, 1.0], [0.0, 0.0, 0.0]))
    assert metrics.to_dict()["whitespace_share"] is None


def test_a_rule_without_logits_has_no_entropy():
    ids, out, parts, advantages = one_row(b"abc", [1, 0, 1], [1.0, 1.0, 1.0], [0.0, 0.0, 0.0])
    plain = UNetOutput(out.nll, out.early_nll, out.boundaries, None, out.scored, out.drawn, out.aux_loss)
    metrics = StepMetrics(1)
    metrics.add(ids, plain, parts, advantages)
    assert metrics.to_dict()["policy_entropy"] is None


@pytest.mark.parametrize("part", ["auto", "early", "policy", "target", "aux"])
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_any_part_of_the_loss_that_is_not_finite_stops_the_run_even_in_an_early_micro_batch(part, bad):
    ids, out, _, advantages = one_row(b"abc", [1, 0, 1], [1.0, 1.0, 1.0], [0.0, 0.0, 0.0])
    values = dict.fromkeys(("auto", "early", "policy", "target", "aux"), torch.zeros(()))
    metrics = StepMetrics(12)
    metrics.add(ids, out, Losses(**(values | {part: torch.tensor(bad)})), advantages)
    metrics.add(ids, out, losses(), advantages)
    with pytest.raises(RltokError, match="^update 12: loss (nan|inf|-inf), gradient norm 0, not finite"):
        metrics.check_finite()


def test_a_gradient_that_is_not_finite_stops_the_run_and_finite_numbers_do_not():
    metrics = StepMetrics(3)
    metrics.add(*one_row(b"abc", [1, 0, 1], [1.0, 1.0, 1.0], [0.0, 0.0, 0.0]))
    metrics.grad_norm = torch.tensor(1e30)
    metrics.check_finite()
    metrics.grad_norm = torch.tensor(math.inf)
    with pytest.raises(RltokError, match="update 3: loss 1, gradient norm inf"):
        metrics.check_finite()


def test_before_anything_was_learned_no_learning_rate_is_to_blame():
    metrics = StepMetrics(1)
    metrics.add(*one_row(b"abc", [1, 0, 1], [1.0, 1.0, 1.0], [0.0, 0.0, 0.0]))
    metrics.grad_norm = torch.tensor(math.inf)
    with pytest.raises(RltokError, match="update 1: .*Nothing was learned yet: bring settings of model and objective") as error:
        metrics.check_finite()
    assert "learning_rate" not in str(error.value) and "checkpoint" not in str(error.value)
