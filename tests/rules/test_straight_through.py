"""Rules with straight-through gates inside the update, the run, the evaluation and bf16."""

import math

import pytest
import torch
from helpers import STRAIGHT_THROUGH, ragged_ids, random_uniforms, tiny_model
from runs import small_config, write_text
from test_step import batches_of, config_for

import rltok
from rltok.config import ObjectiveConfig, with_settings
from rltok.data import load_corpus
from rltok.data.batches import micro_batches
from rltok.estimator import advantages
from rltok.evaluation import evaluate
from rltok.optim import make_optimizer
from rltok.runs.loading import load
from rltok.runs.models import new_model
from rltok.step import losses_of, train_step

pytestmark = pytest.mark.usefixtures("shapes_unchecked")
each_rule = pytest.mark.parametrize(("rule", "variant"), STRAIGHT_THROUGH)


@each_rule
def test_there_is_no_policy_loss_and_the_rules_own_loss_enters_the_total_once(rule, variant):
    out = tiny_model(rule, variant=variant)(ragged_ids((13, 7)), uniforms=random_uniforms(2, 13))
    losses = losses_of(out, advantages(out.nll, out.early_nll, out.scored, **ObjectiveConfig().reductions), 0.3)
    assert out.boundary_logits is None and (losses.policy, losses.target) == (0, 0) and losses.aux == out.aux_loss != 0
    total = losses.total(lambda_auto=1.0, lambda_early=0.1, lambda_policy=0.5, lambda_target=0.5)
    assert total.item() == pytest.approx((losses.auto + 0.1 * losses.early + losses.aux).item(), rel=1e-6)


@each_rule
def test_the_next_byte_loss_trains_the_rule_by_itself(rule, variant):
    model = tiny_model(rule, variant=variant)
    out = model(ragged_ids((13, 7)), uniforms=random_uniforms(2, 13))
    out.nll.sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() and p.grad.any() for p in model.rule.parameters())


@each_rule
@pytest.mark.parametrize("lengths", [(13,), (1,), (0,), (5, 0)], ids=str)
def test_rows_alone_short_and_empty_give_finite_losses_and_gradients(rule, variant, lengths):
    model = tiny_model(rule, variant=variant)
    width = max(1, *lengths)
    out = model(ragged_ids(lengths, width), uniforms=random_uniforms(len(lengths), width))
    (out.nll.sum() + out.aux_loss).backward()
    assert out.aux_loss.isfinite() and all(p.grad.isfinite().all() for p in model.parameters() if p.grad is not None)
    assert out.boundaries[:, 0].all()


@each_rule
@pytest.mark.parametrize("fill", [0.0, 1 - 2**-24], ids=["all", "none"])
def test_a_batch_in_which_every_gate_or_none_fires_trains(rule, variant, fill):
    model, ids = tiny_model(rule, variant=variant), ragged_ids((13, 7))
    everything = torch.full((2, 13), fill) == 0
    everything[:, 0] = True
    draw = {"uniforms": torch.full((2, 13), fill)} if rule == "dynamic_pooling" else {"boundaries": everything}
    out = model(ids, **draw)
    assert out.boundaries.sum().item() == (20 if fill == 0 else 2)
    (out.nll.sum() + out.aux_loss).backward()
    assert all(p.grad.isfinite().all() for p in model.parameters() if p.grad is not None)


@each_rule
def test_bf16_autocast_takes_a_step_with_gates_and_losses_in_fp32(rule, variant):
    model, config = tiny_model(rule, variant=variant), with_settings(config_for(rule), {"train.precision": "bf16"})
    with torch.autocast("cpu", torch.bfloat16):
        out = model(ragged_ids((13, 7)), uniforms=random_uniforms(2, 13))
    assert (out.soft.dtype, out.aux_loss.dtype, out.nll.dtype) == (torch.float32,) * 3
    metrics = train_step(model, make_optimizer(model, config.train), batches_of(), config, 1).to_dict()
    assert math.isfinite(metrics["nll"]) and 0 < metrics["grad_norm_rule"] < math.inf and metrics["policy_entropy"] is None


def test_a_row_a_micro_batch_is_enough_without_a_policy():
    model = tiny_model("hnet")
    config = with_settings(config_for("hnet"), {"train.micro_batch": 1})
    assert train_step(model, make_optimizer(model, config.train), batches_of(), config, 1).to_dict()["grad_norm"] > 0


@pytest.mark.parametrize("rule", ["dynamic_pooling", "hnet"])
def test_a_run_by_name_is_recorded_loaded_and_scored_again_to_the_digit(rule, tmp_path, short_snapshots):
    config = small_config(model__rule__name=rule)
    text = write_text(tmp_path)
    record = rltok.train(config, text, tmp_path / "run")
    assert record.evaluation["policy_entropy"] is None and 0 <= record.evaluation["rate"] <= 1
    model = load(tmp_path / "run")
    again = evaluate(model, load_corpus(text, config.data).validation, seed=config.train.seed, batch=3)
    assert again.bits_per_byte == pytest.approx(record.evaluation["bits_per_byte"], abs=1e-6)


def rates_of(config, text):
    """Share of boundaries in each update of a run."""
    corpus, device = load_corpus(text, config.data), torch.device("cpu")
    model = new_model(config, device)
    optimizer = make_optimizer(model, config.train)
    steps = range(1, config.num_updates + 1)
    return [train_step(model, optimizer, micro_batches(corpus, config, i, device), config, i).to_dict()["rate"] for i in steps]


@pytest.mark.parametrize(("rule", "target"), [("dynamic_pooling", 0.2), ("hnet", 0.4)])
def test_training_moves_the_rate_towards_its_target(rule, target, tmp_path):
    settings = {"name": rule, "target_rate": target, "ratio_weight": 1.0}  # H-Net has 0.03: 60 updates are few
    config = small_config(train__training_bytes=60 * 4 * 64, **{f"model__rule__{key}": value for key, value in settings.items()})
    rates = rates_of(config, write_text(tmp_path))
    first, last = sum(rates[:3]) / 3, sum(rates[-15:]) / 15
    assert abs(first - target) > 0.15 and abs(last - target) < 0.05
