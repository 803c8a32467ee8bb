"""rltok.evidence.toy.measures and rltok.evidence.toy.runs: each measure against a count by hand, and one short run."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from helpers import tiny_config
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from rltok.errors import RltokError
from rltok.evidence.toy import Lexicon, OracleRule, second_order
from rltok.evidence.toy.measures import (
    ORACLE,
    RANDOM,
    Cells,
    decisions,
    f1_at_offsets,
    look,
    mutual_information,
    rates_in_words,
    share_of_gain,
    shares,
)
from rltok.evidence.toy.runs import FULL, QUIET, Arm, run_arm
from rltok.unet import AutoregressiveUNet

SHORT = {
    "train.training_bytes": 2 * 16 * 32, "data.sequence_length": 32, "model.embedding_dim": 16, "model.num_heads": 1,
}  # fmt: skip
LEXICON = Lexicon([b"a", b"bc", b"bda"])


def entropy(values):
    _, counts = np.unique(values, return_counts=True)
    return -sum(p * math.log2(p) for p in counts / counts.sum())


def test_a_decision_that_the_place_decides_shares_its_whole_entropy_and_one_that_ignores_it_nothing():
    cells = np.repeat([0, 1, 2, 3], 8)
    assert mutual_information(cells % 2 == 0, cells) == pytest.approx(1.0)
    assert mutual_information(cells == 3, cells) == pytest.approx(2 - 0.75 * math.log2(3))
    assert mutual_information(np.tile([True, False], 16), cells) == pytest.approx(0.0, abs=1e-12)
    with pytest.raises(RltokError, match="at least 1 position"):
        mutual_information(np.zeros(0, bool), np.zeros(0, np.int64))


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 4)), min_size=1, max_size=40))
def test_mutual_information_is_entropy_less_what_is_left_in_each_cell(pairs):
    drawn, cells = np.array([a for a, _ in pairs]), np.array([c for _, c in pairs])
    left = sum((cells == cell).mean() * entropy(drawn[cells == cell]) for cell in np.unique(cells))
    assert mutual_information(drawn, cells) == pytest.approx(entropy(drawn) - left, abs=1e-9)


def test_boundaries_one_byte_after_every_end_have_f1_of_1_at_offset_1_alone():
    ends = np.array([[0, 1, 0, 0, 1, 0, 0, 0]], bool)
    drawn = np.array([[0, 0, 1, 0, 0, 1, 0, 0]], bool)
    f1 = f1_at_offsets(drawn, ends, 2)
    assert f1[1] == 1 and f1[0] == 0 and f1[-1] == 0 and f1[-2] == pytest.approx(2 / 3)
    for reach in (-1, 8):
        with pytest.raises(RltokError, match="between 0 and 7"):
            f1_at_offsets(drawn, ends, reach)


@given(arrays(bool, (2, 7)), arrays(bool, (2, 7)))
def test_f1_is_the_harmonic_mean_of_precision_and_recall_counted_position_by_position(drawn, ends):
    for k, f1 in f1_at_offsets(drawn, ends, 4).items():
        inside = [(b, i) for b in range(2) for i in range(7) if 0 <= i - k < 7]
        mine, wanted = {at for at in inside if drawn[at]}, {(b, i) for b, i in inside if ends[b, i - k]}
        both = len(mine & wanted)
        precision, recall = both / max(1, len(mine)), both / max(1, len(wanted))
        assert f1 == pytest.approx(2 * precision * recall / (precision + recall) if both else 0.0)


def test_share_of_the_gain_is_1_at_the_oracle_and_0_at_random_places():
    assert share_of_gain(0.2, 0.5, 0.2) == 1 and share_of_gain(0.5, 0.5, 0.2) == 0
    assert share_of_gain(0.26, 0.5, 0.2) == pytest.approx(0.8) and share_of_gain(0.8, 0.5, 0.2) == pytest.approx(-1)
    with pytest.raises(RltokError, match="gains nothing"):
        share_of_gain(0.2, 0.3, 0.3)


def test_the_oracle_s_decisions_are_the_word_ends_and_the_measures_say_so():
    rows = second_order(LEXICON, 0.2, 0).rows(10, 33, (0,), "toy")
    cells = Cells.of(rows, LEXICON)
    model = AutoregressiveUNet(tiny_config(), OracleRule(LEXICON))
    drawn = decisions(model, rows, seed=0, batch=4)
    assert drawn.shape == (10, 32) and np.array_equal(drawn, cells.ends)
    assert rates_in_words(drawn, cells, LEXICON) == [[1.0], [0.0, 1.0], [0.0, 0.0, 1.0]]
    score = look(model, cells, seed=0, batch=4)
    whole = cells.word >= 0
    assert score["f1"]["0"] == 1 and list(score["f1"]) == ["-2", "-1", "0", "1", "2"] and score["policy_entropy"] is None
    assert score["mutual_information"] == pytest.approx(entropy(cells.ends[whole]))
    json.dumps(score, allow_nan=False)


def test_cells_of_different_words_and_places_have_different_numbers():
    cells = Cells.of(second_order(LEXICON, 0.5, 0).rows(20, 33, (0,), "toy"), LEXICON)
    whole = cells.word >= 0
    assert len(set(cells.number[whole])) == len(set(zip(cells.word[whole], cells.place[whole], strict=True))) == 6


def test_arms_differ_in_what_their_names_say():
    full, naive, oracle, random = (Arm("early", "second", name, 2).config({}) for name in (FULL, "naive", ORACLE, RANDOM))
    assert full.objective.gamma == 0.9 and full.objective.centring == "batch" and full.train.seed == 2
    assert naive.objective.credit == "total" and not naive.objective.relative_rewards and naive.model == full.model
    quiet = Arm("early", "second", QUIET, 2).config({})
    assert quiet.objective == replace(naive.objective, lambda_policy=naive.objective.lambda_policy / 50)
    assert random.model.rule.name == "random_k" and oracle.train == random.train == full.train
    assert {c.model.rule.target_rate for c in (full, naive, oracle, random)} == {0.25}
    assert Arm("early", "independent", FULL, 0).language.table.std() == 0


@pytest.mark.parametrize("name", [FULL, ORACLE])
def test_a_run_is_a_function_of_its_arm_and_settings(name, shapes_unchecked):
    arm = Arm("late", "second", name, 1)
    first, again = (run_arm(arm, SHORT, looks=2) for _ in range(2))
    del first["seconds"], again["seconds"]
    assert first == again
    assert [point["step"] for point in first["curve"]] == [0, 1, 2] and first["curve"][-1]["bytes"] == 2 * 16 * 32
    assert (first["curve"][0]["policy_entropy"] is None) == (name != FULL)
    assert first["data"]["train"]["rows"] == 32 and first["updates"] == 2
    assert len(first["rates_in_words"]) == 8
    json.dumps(first, allow_nan=False)


def test_random_places_come_as_often_as_word_ends():
    arm = run_arm(Arm("early", "second", RANDOM, 0), SHORT | {"train.training_bytes": 16 * 32}, looks=1)
    assert arm["test"]["rate"] == pytest.approx((32 / 4 - 1) / 31)  # of the drawn positions; BOS carries one of the 8


def test_shares_are_paired_by_seed_and_language_and_bytes_are_those_from_which_on_0_8_holds():
    def made(name, bits, curve):
        points = [{"bytes": 10 * i, "bits_per_byte": value} for i, value in enumerate(curve)]
        return {"words": "early", "order": "second", "name": name, "seed": 1, "test": {"bits_per_byte": bits}, "curve": points}

    runs = [made(RANDOM, 1.0, [2, 1]), made(ORACLE, 0.5, [2, 0.5]), made(FULL, 0.6, [2, 0.55, 0.7, 0.59, 0.58])]
    (line,) = shares(runs)
    assert line["seeds"][0]["share"] == pytest.approx(0.8) and line["seeds"][0]["bytes_to_0.8"] == 30
    (line,) = shares([*runs[:2], made("naive", 0.9, [2, 0.55, 0.7])])
    assert line["seeds"][0]["bytes_to_0.8"] is None and line["mean_share"] == pytest.approx(0.2)
    assert shares(runs[1:]) == []  # nothing to compare with
