"""rltok.evidence.chapters.ch03_ladder: tables, sentences and figures say what the record says."""

import copy
import json

import matplotlib
import numpy as np
import pytest
from paths import ROOT

matplotlib.use("agg")

from rltok.config import from_dict  # noqa: E402
from rltok.errors import RltokError  # noqa: E402
from rltok.evidence.chapters import ch03_ladder  # noqa: E402
from rltok.evidence.records import read_sweeps  # noqa: E402
from rltok.presets import preset  # noqa: E402
from rltok.show import plots  # noqa: E402
from rltok.variance.laboratory import default_names  # noqa: E402
from rltok.variance.ladder import GAMMAS, gamma_sweep, ladder  # noqa: E402

RECORD = ROOT / "notebooks" / "results" / "variance_ladder.json"


@pytest.fixture(scope="module")
def stored():
    return json.loads(RECORD.read_text(), parse_constant=pytest.fail)


def made(rows, *, limit=1.0):
    """A record of two seeds at one stage in which naive needs `rows` rows, one entry a seed."""
    stages = []
    for seed, value in enumerate(rows):
        measures = {"rows_needed": [value, value, value], "limit": [limit, limit, limit]}
        stages.append({"seed": seed, "stage": "early", "policy": {"estimators": {"naive": measures, "causal": measures}}})
    return {"schema": 1, "rows": 16, "stages": stages}


def test_the_stored_record_names_its_run_and_was_made_by_the_present_preset(stored):
    config = from_dict(stored["config"])
    assert config.digest() == stored["config_hash"] == preset("tiny").digest()
    assert len(stored["commit"]) == 40
    assert stored["data"]["name"] == "sample"
    assert {(one["seed"], one["stage"]) for one in stored["stages"]} == {
        (s, t) for s in (0, 1, 2) for t in ("start", "early", "late")
    }
    assert all(
        set(one[group]["estimators"]) == set(default_names()) for one in stored["stages"] for group in ("policy", "encoder")
    )


def test_the_ladder_holds_at_every_stage_and_seed_of_the_stored_record(stored):
    for one in stored["stages"]:
        estimators = one["policy"]["estimators"]
        variance = {name: estimators[name]["variance"][0] for name in ladder()}
        assert variance["naive"] > 2 * variance["causal"] > 50 * variance["causal+early"]
        assert variance["causal+early"] > variance["causal+early+gamma0.99"] > variance["causal+early+gamma0.9"]
        assert variance["causal+early+gamma0.9+loo"] == pytest.approx(
            (16 / 15) ** 2 * variance["causal+early+gamma0.9+batch"], rel=0.01
        )


def test_rows_are_shown_to_two_digits_and_none_is_never():
    assert [ch03_ladder.short(value) for value in (None, 0.4, 7.4, 19.51, 384_694, 4_831_500)] == [
        "never", "0", "7", "20", "380,000", "4,800,000",
    ]  # fmt: skip


def test_a_spread_over_seeds_says_how_many_never_arrive():
    assert ch03_ladder.spread([19.6, 7.4]) == "7 to 20"
    assert ch03_ladder.spread([7.4, 7.3]) == "7"
    assert ch03_ladder.spread([None, 250.0, None]) == "never in 2 of 3 seeds, else 250"
    assert ch03_ladder.spread([None, None]) == "never"


def test_table_and_sentence_follow_the_record_and_not_the_code():
    table = ch03_ladder.ladder_table(made([7.0, 19.6]), ["naive"])
    assert table.splitlines() == ["| estimator | early |", "|---|---|", "| naive REINFORCE | 7 to 20 |"]
    other = ch03_ladder.ladder_table(made([7.0, None]), ["naive"])
    assert "never in 1 of 2 seeds, else 7" in other
    sentence = ch03_ladder.gain(made([7.0, 19.6]), "early", "naive", "causal")
    assert sentence.startswith("early: naive REINFORCE needs 7 to 20 rows, causal 7 to 20 (cosine 0.5")
    assert "batches of 16 rows, 2 seeds" in sentence


def test_an_estimator_without_signal_is_an_error_and_not_a_never():
    with pytest.raises(RltokError, match="naive at stage 'early' is not resolved"):
        ch03_ladder.rows_of(made([None], limit=None), "early", "naive")


@pytest.mark.parametrize("content", [{}, {"schema": 2, "stages": [1]}, {"schema": 1, "stages": []}])
def test_another_kind_of_file_is_refused(content):
    with pytest.raises(RltokError, match="no record of rltok variance"):
        ch03_ladder.check(content)


def test_a_crossing_lies_between_two_measurements_on_a_logarithmic_axis():
    assert ch03_ladder.crossing([[16, 0.2], [32, 0.4], [64, 0.6]]) == pytest.approx(32 * np.sqrt(2))
    assert ch03_ladder.crossing([[16, 0.6], [32, 0.7]]) is None
    assert ch03_ladder.crossing([[16, 0.1], [32, 0.2]]) is None
    assert ch03_ladder.crossing([]) is None


def test_formula_and_measurement_agree_on_the_stored_record_within_a_factor_of_three_for_most(stored):
    ratios = ch03_ladder.formula_against_measured(stored, most_error=0.2)
    assert len(ratios) > 50
    assert 0.8 < np.median(ratios) < 1.3
    assert np.mean([1 / 3 < ratio < 3 for ratio in ratios]) > 0.9


def test_the_ladder_figure_marks_what_never_arrives_and_changes_with_the_record(stored):
    assert plots.digest(ch03_ladder.ladder_figure(stored)) != plots.digest(ch03_ladder.ladder_figure(faster(stored)))
    figure = ch03_ladder.ladder_figure(stored)
    markers = [line.get_marker() for axes in figure.axes for line in axes.lines]
    never = sum(
        one["policy"]["estimators"][name]["rows_needed"][0] is None
        for one in stored["stages"]
        for name in ladder()
        if name != "causal+early+loo"
    )
    assert markers.count(">") == never > 0
    assert len(figure.axes) == 3


def faster(record):
    """The record with the first number of rows halved."""
    changed = copy.deepcopy(record)
    rows = changed["stages"][0]["policy"]["estimators"]["naive"]["rows_needed"]
    changed["stages"][0]["policy"]["estimators"]["naive"]["rows_needed"] = [value / 2 for value in rows]
    return changed


def test_the_discount_figure_shows_every_seed_and_leaves_gaps_where_the_median_is_never(stored):
    figure = ch03_ladder.gamma_figure(stored)
    left, right = figure.axes
    lines = [line for line in right.lines if line.get_label() == "start"]
    rows = [[ch03_ladder.rows_of(stored, "start", name)[seed] for name in gamma_sweep()] for seed in range(3)]
    never = [sum(one[i] is None for one in rows) >= 2 for i in range(len(GAMMAS))]
    assert np.isnan(lines[0].get_ydata()).tolist() == never
    assert sum(line.get_marker() == "o" for line in left.lines) == 9


def test_the_position_figure_shows_the_first_seed(stored):
    figure = ch03_ladder.positions_figure(stored, "late")
    late = ch03_ladder.at(stored, "late")[0]
    assert figure.axes[0].lines[0].get_ydata().tolist() == late["mean_reward"]
    assert figure.axes[1].lines[2].get_ydata().tolist() == late["return_spread"]["0.9"]


def seeds_of(record, stage, name):
    """Rows of each seed from the raw record, infinite for never."""
    found = [one["policy"]["estimators"][name]["rows_needed"][0] for one in record["stages"] if one["stage"] == stage]
    return [np.inf if rows is None else rows for rows in found]


def test_the_waterfall_shows_every_seed_and_says_the_median(stored):
    figure = ch03_ladder.waterfall_figure(stored)
    for panel, stage in zip(figure.axes, ("start", "early", "late"), strict=True):
        middle = [sorted(seeds_of(stored, stage, name))[1] for name in ch03_ladder.STEPS]
        said = [text.get_text() for text in panel.texts]
        assert said == ["never" if np.isinf(rows) else ch03_ladder.short(rows) for rows in middle]
        dots = [line for line in panel.lines if line.get_marker() == "o"]
        assert [len(line.get_xdata()) for line in dots] == [3] * len(ch03_ladder.STEPS)
        ends = [
            min(patch.get_x(), patch.get_x() + patch.get_width()) for patch in panel.patches
        ]  # a bar's left end is the fewer rows of two neighbours
        assert ends[1] == pytest.approx(min(middle[0], middle[1]))


def test_the_discount_panel_draws_medians_and_no_line_where_most_seeds_never_arrive(stored):
    (axes,) = ch03_ladder.discount_figure(stored).axes
    for line in axes.lines:
        if line.get_label() in ("start", "early", "late"):
            middle = [sorted(seeds_of(stored, line.get_label(), name))[1] for name in gamma_sweep()]
            assert np.array_equal(line.get_ydata(), np.where(np.isinf(middle), np.nan, middle), equal_nan=True)


def test_curves_from_even_spacing_are_paired_by_seed():
    sweep = read_sweeps(RECORD.parent / "sweeps")["32m"]
    (axes,) = ch03_ladder.from_even_figure(sweep, {"ours": "whole method"}).axes
    (line,) = (line for line in axes.lines if line.get_label() == "whole method")

    def last(name, seed):
        """Of a seed that was run twice, the mean."""
        return np.mean([run["held_out"][-1]["bits_per_byte"] for run in sweep.of_seed(name, seed)])

    apart = [last("ours", seed) - last("even", seed) for seed in sweep.runs["ours"]]
    assert line.get_ydata()[-1] == pytest.approx(np.mean(apart))
