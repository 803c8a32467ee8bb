"""ch04_travel: the table and the figure of how far a policy moves, of records with numbers of our choice."""

import pytest
from sweeps import record, sweep_of, write

from rltok.errors import RltokError
from rltok.evidence.chapters import ch04_travel
from rltok.optim import learning_rate
from rltok.presets import preset
from rltok.system.digest import with_digest


def runs(name, multiplier, start, white, bits, sweep="tiny_travel"):
    """Three seeds of a policy."""
    made = []
    for seed in range(3):
        own = {"train.policy_lr_multiplier": multiplier, "train.policy_start_fraction": start, "rule": "learned"}
        run = record(name, seed, bits=bits, white=white, wiggle=0.001, sweep=sweep, **own)
        run["scores"]["validation"]["class_rates"] = {"word start": 0.25}
        for point in run["curve"]:
            point["whitespace_share"] = white
        made.append(with_digest(run))
    return made


@pytest.fixture
def sweep():
    even = [record("even", seed, bits=2.0, wiggle=0.001, sweep="tiny_travel") for seed in range(3)]
    for run in even:
        run["scores"]["validation"]["class_rates"] = {"word start": 0.2}
    return sweep_of(*runs("policy_x5_late", 5.0, 0.25, 0.02, 1.95), *runs("policy_x5", 5.0, 0.0, 0.9, 1.9),
                    *runs("policy_x1", 1.0, 0.0, 0.3, 2.0), *map(with_digest, even))  # fmt: skip


def test_rows_stand_by_start_and_multiplier_with_what_the_policy_can_move_and_where_it_ends(sweep):
    head, _, *rows = (row.strip("| ").split(" | ") for row in ch04_travel.table(sweep).splitlines())
    assert [row[0] for row in rows] == ["policy × 1", "policy × 5", "policy × 5, after 25%", "even"] and rows[3][1] == "-"
    tiny, paper = preset("tiny"), preset("147m")
    summed = [sum(learning_rate(step, config.num_updates, config.train) for step in range(config.num_updates))
              for config in (tiny, paper)]  # fmt: skip
    travel = [float(row[1]) for row in rows[:3]]
    assert travel[0] == pytest.approx(summed[0] / tiny.model.rule.scale / (summed[1] / paper.model.rule.scale), rel=0.05)
    assert travel[1] == pytest.approx(5 * travel[0], rel=0.05) and travel[2] < travel[1]
    assert [row[2].split(" ")[0] for row in rows[:3]] == ["0.30", "0.90", "0.02"]
    assert [row[3].split(" ")[0] for row in rows] == ["0.25", "0.25", "0.25", "0.20"] and head[-3] == "first letters"
    assert rows[1][5].startswith("-0.100 ± ") and rows[3][5] == "-"


def test_the_result_counts_policies_at_white_space_and_decided_differences(sweep):
    assert ch04_travel.result(sweep) == (
        "Policies that move from the first update on have a boundary after 80% of white space or more, with every seed, at × 5;"
        " of 3 that start late, 0 do. In 2 of 3 groups (a factor and a start) the loss differs from that of evenly spaced"
        " boundaries by more than its interval."
    )
    assert ch04_travel.least_multiplier(sweep) == 5
    sweep.runs["policy_x5"][2]["scores"]["validation"]["whitespace_share"] = 0.79
    sweep.runs["policy_x5_late"][1]["scores"]["validation"]["whitespace_share"] = 0.8
    assert "at no multiplier; of 3 that start late, 1 do" in ch04_travel.result(sweep)
    assert ch04_travel.least_multiplier(sweep) is None


def test_the_figure_has_a_line_and_a_point_for_each_run_open_and_dashed_where_it_starts_late(sweep):
    left, right = ch04_travel.figure(sweep).axes
    lines = [(line.get_linestyle(), line.get_ydata()[-1]) for line in left.lines]
    assert lines == [("-", 0.3)] * 3 + [("-", 0.9)] * 3 + [("--", 0.02)] * 3
    points = [(line.get_fillstyle(), line.get_xdata()[0], line.get_ydata()[0]) for line in right.lines]
    assert points == [("full", 0.3, 0.25)] * 3 + [("full", 0.9, 0.25)] * 3 + [("none", 0.02, 0.25)] * 3
    assert [label.get_text() for label in left.figure.legends[0].get_texts()] == ["× 1", "× 5"]


def test_a_folder_without_the_sweep_says_how_to_make_it(tmp_path):
    write(tmp_path, record("even", sweep="another"))
    with pytest.raises(RltokError, match=r"holds no sweep tiny_travel\. Make it: .*tiny_travel\.toml"):
        ch04_travel.read(tmp_path)
