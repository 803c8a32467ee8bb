"""rltok.evidence.figures: figures are drawn from the rows that are stored beside them."""

import csv
import io

import numpy as np
import pytest
from sweeps import record, seeds_of, sweep_of, with_repeats

from rltok.errors import RltokError
from rltok.evidence.figures import (
    DATA,
    as_csv,
    figure_3,
    figure_13,
    positions_figure,
    sample_html,
    snapshots_figure,
    training_figure,
)
from rltok.show import plots

NAMES = ("even", "ours")


def rows_of(data):
    return data.to_numpy().tolist()


@pytest.fixture(scope="module")
def sweep():
    return sweep_of(*seeds_of("ours", 2.0), *seeds_of("even", 2.1), record("hnet_port", 0, rule="hnet"))


@pytest.mark.parametrize("name", DATA)
def test_rows_have_the_columns_of_their_head_and_survive_csv(sweep, name):
    data = DATA[name](sweep)
    read = list(csv.reader(io.StringIO(as_csv(data))))
    assert read[0] == list(data) and len(read) == len(data) + 1 > 1
    for text, row in zip(read[1:], rows_of(data), strict=True):
        assert text[0] == row[0] and int(text[1]) == row[1]
        assert [float(cell) for cell in text[2:]] == pytest.approx(row[2:], rel=1e-5)


def test_figure_3_leaves_out_the_model_before_training_and_counts_attention_apart(sweep):
    data = DATA["figure_3"](sweep)
    assert list(data) == ["contender", "seed", "flops", "flops_with_attention", "bits_per_byte"]
    ours = [row for row in rows_of(data) if row[:2] == ["ours", 1]]
    assert [row[2] for row in ours] == [point["flops"] for point in sweep.runs["ours"][1]["held_out"]]
    assert all(row[3] == pytest.approx(1.01 * row[2]) for row in ours)


def test_a_seed_that_was_run_again_is_drawn_as_the_mean_of_its_runs(sweep):
    again = record("ours", 1, bits=2.6)
    again["held_out"] = again["held_out"][:-1]  # shorter: the points that both have
    rows = rows_of(DATA["figure_3"](with_repeats(sweep, again)))
    both = [run["held_out"] for run in (sweep.runs["ours"][1], again)]
    wanted = [(a["bits_per_byte"] + b["bits_per_byte"]) / 2 for a, b in zip(*both, strict=False) if a["step"]]
    assert [row[4] for row in rows if row[:2] == ["ours", 1]] == pytest.approx(wanted)
    assert [row for row in rows if row[:2] == ["ours", 0]] == [
        row for row in rows_of(DATA["figure_3"](sweep)) if row[:2] == ["ours", 0]
    ]
    assert DATA["figure_13"](with_repeats(sweep, record("even", 1))).equals(DATA["figure_13"](sweep))  # which has no policy


def test_rewards_by_position_are_of_policies_alone(sweep):
    assert set(DATA["positions"](sweep)["contender"]) == {"ours"}


@pytest.mark.parametrize("make", [figure_3, figure_13, positions_figure])
def test_lines_are_means_over_seeds(sweep, make):
    figure = make(sweep, NAMES)
    labelled = {line.get_label(): line for line in figure.axes[0].lines if not line.get_label().startswith("_")}
    assert "ours" in labelled
    thin = [
        line for line in figure.axes[0].lines if line.get_color() == labelled["ours"].get_color() and line.get_linewidth() == 0.5
    ]
    assert np.allclose(labelled["ours"].get_ydata(), np.mean([line.get_ydata() for line in thin], axis=0))
    assert plots.digest(figure).startswith("figure data: ")


def test_other_numbers_change_the_digest(sweep):
    other = sweep_of(*seeds_of("ours", 1.5), *seeds_of("even", 2.1))
    assert plots.digest(figure_3(sweep, NAMES)) != plots.digest(figure_3(other, NAMES))


def test_passages_show_decisions_for_h_net_and_probabilities_for_policies():
    ours, hnet = record("ours"), record("hnet_port", rule="hnet")
    size = len(ours["samples"][0]["boundaries"])
    for run in (ours, hnet):
        run["samples"][0] = run["samples"][0] | {"percent": "30" * size}
    shown = sample_html(sweep_of(ours, hnet), "ours", characters=50)
    assert 'title="boundary probability 0.30' in shown and "25 of 50 bytes end a token" in shown
    hard = sample_html(sweep_of(ours, hnet), "hnet_port", characters=50)
    assert 'title="a token ends here"' in hard and "probability" not in hard


def test_the_second_half_of_the_flops_stands_again_in_large(sweep):
    whole, late = figure_3(sweep, NAMES).axes
    ours = [next(line for line in axes.lines if line.get_label() == "ours") for axes in (whole, late)]
    half = max(line.get_xdata()[-1] for line in whole.lines) / 2
    kept = ours[0].get_xdata() >= half
    assert 0 < kept.sum() < len(kept)
    assert np.allclose(ours[1].get_xdata(), ours[0].get_xdata()[kept]) and np.allclose(
        ours[1].get_ydata(), ours[0].get_ydata()[kept]
    )


def test_a_contender_whose_first_seed_is_missing_has_no_picture_over_training(sweep):
    late = record("ours", 1)
    for shot in late["snapshots"]:
        for view in ("prose", "code", "multilingual"):
            if view in shot:
                shot[view] = {"boundaries": shot[view]["boundaries"]}
    with pytest.raises(RltokError, match="no record of ours in the sweep 32m keeps texts in its snapshots"):
        snapshots_figure(sweep_of(late), "ours")


def test_losses_during_training_begin_where_asked_and_white_space_at_the_start(sweep):
    left, right = training_figure(sweep, NAMES).axes
    points = sweep.runs["ours"][0]["held_out"]
    late = [point for point in points if point["bytes"] >= points[-1]["bytes"] / 2]
    line = next(line for line in left.lines if line.get_label() == "ours")
    assert np.allclose(line.get_xdata(), [point["bytes"] / 1e6 for point in late])
    assert np.allclose(line.get_ydata(), np.mean([[p["bits_per_byte"] for p in run["held_out"]] for run in
                                                  sweep.runs["ours"].values()], axis=0)[-len(late):])  # fmt: skip
    white = next(line for line in right.lines if line.get_label() == "ours")
    assert len(white.get_xdata()) == len(points) > len(late)


def test_a_picture_over_training_has_a_row_for_each_snapshot(sweep):
    figure = snapshots_figure(sweep, "ours", characters=20)
    assert figure.axes[0].images[0].get_array().shape == (4, 20)
