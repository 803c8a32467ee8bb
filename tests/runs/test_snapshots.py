"""rltok.runs.snapshots: when pictures are taken, and that they show the policy of the model."""

import numpy as np
import pytest
import torch
from helpers import tiny_model
from runs import json_lines, small_config

from rltok.data.fixed_texts import FIXED_TEXTS
from rltok.rng import row_uniforms
from rltok.runs.loading import load
from rltok.runs.snapshots import boundary_view, snapshot, snapshot_steps
from rltok.vocab import BOS


def test_twenty_steps_are_spaced_evenly_on_a_logarithmic_scale():
    steps = sorted(snapshot_steps(10_000))
    assert steps[:3] == [0, 1, 2] and steps[-1] == 10_000
    ratios = np.diff(np.log(steps[8:]))  # early steps are rounded to whole numbers
    assert ratios.max() / ratios.min() < 1.1


@pytest.mark.parametrize("updates", [1, 2, 3, 18, 19, 20, 21, 30, 100, 293, 381, 1186, 11_444])
def test_every_run_begins_and_ends_with_a_picture_and_takes_twenty_where_it_has_as_many_steps(updates):
    steps = snapshot_steps(updates)
    assert {0, updates} <= steps
    assert steps <= set(range(updates + 1))
    assert len(steps) == min(20, updates + 1)


def test_a_short_run_is_pictured_after_every_update():
    assert snapshot_steps(5) == {0, 1, 2, 3, 4, 5}


@pytest.mark.parametrize("text", ["Two gulls.", b"\xff\x00 not UTF-8", "é"])
def test_a_view_holds_one_decision_for_every_byte_and_its_probability(text):
    data = text if isinstance(text, bytes) else text.encode()
    view = boundary_view(tiny_model(), text, seed=3)
    assert len(view["boundaries"]) == len(view["probabilities"]) == len(data)
    assert set(view["boundaries"]) <= {0, 1}
    assert all(0 < p < 1 for p in view["probabilities"])


def test_a_view_is_the_policy_after_each_byte_whatever_follows():
    model = tiny_model(softcap=2.0)
    text = b"gulls fly"
    view, longer = boundary_view(model, text, seed=3), boundary_view(model, text + b"!!", seed=3)
    assert longer["boundaries"][: len(text)] == view["boundaries"]
    assert longer["probabilities"][: len(text)] == pytest.approx(view["probabilities"], abs=1e-6)
    # position i of the network has read BOS and i bytes, so the decision after byte i stands at position i + 1
    ids = torch.tensor([[BOS, *text, ord("?")]])
    marks = torch.tensor([[True, *map(bool, view["boundaries"])]])
    logits = model.eval()(ids, boundaries=marks).boundary_logits[0, 1:]
    assert view["probabilities"] == pytest.approx(logits.sigmoid().tolist(), abs=1e-6)


def test_a_view_is_made_in_evaluation_mode_and_leaves_the_mode_and_the_gradients_alone():
    model = tiny_model(softcap=1.5)
    probabilities = boundary_view(model, "gulls", seed=3)["probabilities"]
    assert model.training
    assert probabilities == boundary_view(model.eval(), "gulls", seed=3)["probabilities"]
    assert all(parameter.grad is None for parameter in model.parameters())


def test_the_seed_decides_the_draw():
    model, text = tiny_model(), "some thirty bytes of plain text"
    views = [boundary_view(model, text, seed)["boundaries"] for seed in (1, 1, 2)]
    assert views[0] == views[1] != views[2]


def test_a_rule_without_a_policy_has_boundaries_and_no_probabilities():
    view = boundary_view(tiny_model("even"), "some text", seed=1)
    assert view["probabilities"] is None
    assert sum(view["boundaries"]) > 0
    assert snapshot(tiny_model("even"), 2, 1)["texts"]["prose"]["probabilities"] is None


@pytest.mark.parametrize("rule", ["dynamic_pooling", "hnet"])
def test_a_straight_through_rule_shows_its_gates(rule):
    model, text = tiny_model(rule), b"gulls fly"
    view = boundary_view(model, text, seed=1)
    assert [p > 0.5 for p in view["probabilities"]] == [bool(b) for b in view["boundaries"]]
    ids = torch.tensor([[BOS, *text, ord("?")]])
    gates = model.eval()(ids, uniforms=row_uniforms(1, 0, [0], 10)).soft[0, 1:]
    assert view["probabilities"] == pytest.approx(gates.tolist(), abs=1e-6)
    assert all(0 <= p <= 1 for p in snapshot(model, 2, 1)["texts"]["prose"]["probabilities"])


def test_the_snapshots_of_a_run_show_all_fixed_texts_and_end_with_the_model_that_was_saved(finished):
    lines = json_lines(finished / "snapshots.jsonl")
    assert [line["step"] for line in lines] == sorted(snapshot_steps(8))
    assert all(line["texts"].keys() == FIXED_TEXTS.keys() for line in lines)
    assert lines[-1] == snapshot(load(finished), 8, small_config().train.seed)
    assert lines[0] != lines[-1] | {"step": 0}
