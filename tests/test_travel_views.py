"""ch04_travel: the table and the figure of how far a policy moves, of records with numbers of our choice."""

import pytest
from sweeps import record, sweep_of, write

from rltok.errors import RltokError
from rltok.evidence.chapters import ch04_travel
from rltok.optim import learning_rate
from rltok.presets import preset
from rltok.show import plots
from rltok.system.digest import sealed


def runs(name, multiplier, start, white, bits, sweep="tiny_travel"):
    """Three seeds of a policy."""
    made = []
    for seed in range(3):
        own = {"train.policy_lr_multiplier": multiplier, "train.policy_start_fraction": start, "rule": "learned"}
        run = record(name, seed, bits=bits, white=white, wiggle=0.001, sweep=sweep, **own)
        run["scores"]["validation"]["class_rates"] = {"word start": 0.25}
        for point in run["curve"]:
            point["whitespace_share"] = white
        made.append(sealed(run))
    return made


@pytest.fixture
def sweep():
    even = [record("even", seed, bits=2.0, wiggle=0.001, sweep="tiny_travel") for seed in range(3)]
    for run in even:
        run["scores"]["validation"]["class_rates"] = {"word start": 0.2}
    return sweep_of(*runs("policy_x5_late", 5.0, 0.25, 0.02, 1.95), *runs("policy_x5", 5.0, 0.0, 0.9, 1.9),
                    *runs("policy_x1", 1.0, 0.0, 0.3, 2.0), *map(sealed, even))  # fmt: skip


def test_rows_stand_by_start_and_multiplier_with_what_the_policy_can_move_and_where_it_ends(sweep):
    head, _, *rows = (row.strip("| ").split(" | ") for row in ch04_travel.table(sweep).splitlines())
    assert [row[:3] for row in rows] == [
        ["`policy_x1`", "1", "0%"], ["`policy_x5`", "5", "0%"], ["`policy_x5_late`", "5", "25%"], ["`even`", "-", "-"]
    ]  # fmt: skip
    tiny, paper = preset("tiny"), preset("147m")
    summed = [sum(learning_rate(step, config.num_updates, config.train) for step in range(config.num_updates))
              for config in (tiny, paper)]  # fmt: skip
    shares = [float(row[3]) for row in rows[:3]]
    assert shares[0] == pytest.approx(summed[0] / tiny.model.rule.scale / (summed[1] / paper.model.rule.scale), rel=0.05)
    assert shares[1] == pytest.approx(5 * shares[0], rel=0.05) and shares[2] < shares[1]
    assert [row[4] for row in rows] == ["3"] * 4 and rows[1][5].startswith("-0.1") and "95%" in rows[1][5] and rows[3][5] == "-"
    assert [row[6].split(" ")[0] for row in rows[:3]] == ["0.30", "0.90", "0.02"]
    assert [row[7].split(" ")[0] for row in rows] == ["0.25", "0.25", "0.25", "0.20"] and head[7] == "first letters"


def test_the_figure_has_a_line_for_each_policy_dashed_where_it_starts_late_and_moves_with_the_records(sweep):
    left, right = ch04_travel.figure(sweep).axes
    drawn = {line.get_label(): (line.get_linestyle(), line.get_ydata()[-1]) for line in left.lines}
    assert drawn == {"× 1": ("-", 0.3), "× 5": ("-", 0.9), "× 5, late": ("--", 0.02)}
    assert len(right.lines) == 3
    other = sweep_of(*runs("policy_x5", 5.0, 0.0, 0.5, 1.9))
    assert plots.digest(ch04_travel.figure(other)) != plots.digest(ch04_travel.figure(sweep))


def test_a_folder_without_the_sweep_says_how_to_make_it(tmp_path):
    write(tmp_path, record("even", sweep="another"))
    with pytest.raises(RltokError, match=r"holds no sweep tiny_travel\. Make it: .*tiny_travel\.toml"):
        ch04_travel.read(tmp_path)
