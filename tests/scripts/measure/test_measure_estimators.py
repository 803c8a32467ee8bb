"""measure_estimators.py: a small measurement from end to end, and that the stored one holds what a chapter may say of it."""

import json

import measure_estimators
import numpy as np
import pytest
from paths import ROOT
from runs import small_config

from rltok.presets import preset
from rltok.variance.beyond import ORACLE, RUNGS
from rltok.variance.beyond_laboratory import BASE, FLIPPED, HEADS
from rltok.variance.laboratory import Sizes

pytestmark = pytest.mark.usefixtures("shapes_unchecked")
RECORD = ROOT / "notebooks" / "results" / "estimators.json"
ALONE = [*RUNGS, *HEADS, ORACLE]
SAMPLED = {*ALONE, *(f"{name}+loo" for name in ALONE), FLIPPED}
EXACT = {*ALONE, f"{ORACLE} and past", "one decision in 1 flipped", "one decision in 2 flipped"}


def holds(record):
    """What is true of every record."""
    for stage in record["stages"]:
        rungs = stage["sampled"]["rungs"]
        assert (rungs.keys(), stage["exact"].keys(), stage["costs"].keys()) == (SAMPLED, EXACT, {*ALONE, FLIPPED})
        for name, one in stage["exact"].items():
            assert one["bias"] < 1e-9 and one["bias_true"] < 1e-9, name
        assert rungs[BASE]["ratio"] == [1, 1, 1] and stage["exact"]["one draw"]["ratio"] == 1
        assert stage["costs"]["one draw"] == {"passes": 1, "flops": 1}


def test_a_measurement_is_whole_after_every_moment(monkeypatch):
    config = small_config(train__training_bytes=4 * 64 * 4, objective__gamma=0.9)
    sizes = {"MOMENTS": (1, None), "SIZES": Sizes(2, 4, 2, 2), "FITTED": 1, "EXACT_ROWS": 1, "EXACT_FITTED": 8, "EXACT_BYTES": 3}
    for name, value in sizes.items():
        monkeypatch.setattr(measure_estimators, name, value)
    first, second = measure_estimators.measured(config, 0)
    assert [stage["step"] for stage in second["stages"]] == [1, config.num_updates]
    assert second["config_hash"] == config.digest() and first["seconds"] <= second["seconds"]
    holds(json.loads(json.dumps(second, allow_nan=False)))


def test_the_stored_measurement_is_of_the_preset_and_shows_what_a_second_draw_is_worth():
    record = json.loads(RECORD.read_text(encoding="utf-8"))
    assert record["config_hash"] == preset("tiny").digest() and len(record["stages"]) == 3
    assert not record["commit"].endswith("+changes")
    holds(record)
    for stage in record["stages"]:
        rungs = stage["sampled"]["rungs"]
        for one in rungs.values():
            value, low, high = one["ratio"]
            assert low <= value <= high
        order = ["baseline of 1 other draw", "leave one out, 2 draws", "leave one out, 4 draws"]
        values = [rungs[name]["ratio"][0] for name in (BASE, *order)]
        assert values == sorted(values) and np.prod(values) > 10
