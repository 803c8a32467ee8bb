"""rltok.evidence.chapters.ch06_runs: which sweeps are set beside each other, what runs took, and what failed."""

import pytest
from sweeps import PLACES, record, rows_of, seeds_of, sweep_of, write

from rltok.config import from_dict
from rltok.errors import RltokError
from rltok.evidence.chapters.ch06_runs import all_sweeps, interrupted, interruptions, record_table, schedule_sweep
from rltok.evidence.differences import deviation, gap
from rltok.evidence.export import failure_of
from rltok.evidence.records import SCHEDULE, read_sweeps
from rltok.evidence.tables import side_by_side
from rltok.presets import preset
from rltok.system.digest import with_digest

HERE = {"device": "cpu", "commit": "0" * 40}


def resumed(*cut, **more):
    """A record whose run was interrupted: (after, redone, lost seconds) of each."""
    first = {"after": 0, "seconds": 0.0, "redone": 0, "lost_seconds": 0.0, **HERE}
    sessions = [{"after": after, "seconds": 1.0, "redone": redone, "lost_seconds": lost, **HERE} for after, redone, lost in cut]
    return with_digest(record(**more) | {"sessions": [first, *sessions]})


def failed(name, sweep="147m", why="out of memory"):
    """The record of a run that did not finish."""
    like = record(name)
    named = {key: like[key] for key in ("commit", "device", "versions", "data", "full")}
    return failure_of(from_dict(like["config"]), sweep=sweep, name=name, why=why, **named)


def test_the_sweep_of_most_runs_comes_first(tmp_path):
    write(tmp_path, record("ours", sweep="147m"), *seeds_of("ours", 2.0))
    assert list(read_sweeps(tmp_path)) == ["32m", "147m"]


SLOW = {"sweep": "32m_slow", "train.learning_rate": 0.5}


def test_a_sweep_that_asks_is_set_beside_one_of_its_texts_budget_and_size_alone(tmp_path):
    sweep = sweep_of(record("ours"), record("bpe", rule="bpe"))
    assert schedule_sweep(tmp_path / "none", "32m_slow", sweep) is None
    broken = [record(name, sweep="147m_slow", **{"train.weight_decay": decay}) for name, decay in (("ours", 0.5), ("even", 0.25))]
    write(tmp_path, record("ours", **SLOW), record("even", **SLOW), *broken)  # the other sweep is not looked at
    assert schedule_sweep(tmp_path, "32m_slow", sweep).name == "32m_slow" and schedule_sweep(tmp_path, "64m_slow", sweep) is None
    text, scored = record("ours"), record("ours")
    text["data"] = text["data"] | {"train": {"hash": "of another text"}}
    scored["scores"]["validation"]["hash"] = "of another text"
    others = [text, scored, record("ours", **{"train.training_bytes": 8192}), record("ours", full=False)]
    others.append(record("ours", **{"model.mid_layers": 3}))
    assert [schedule_sweep(tmp_path, "32m_slow", sweep_of(other)) for other in others] == [None] * 5


@pytest.mark.parametrize(("settings", "fits"), [
    ({"train.learning_rate": 0.5}, True), ({"train.sequences_per_update": 32, "train.warmup_fraction": 0.5}, True),
    ({}, False), ({"train.learning_rate": 0.5, "objective.gamma": 0.5}, False), ({"train.weight_decay": 0.5}, False),
])  # fmt: skip
def test_contenders_of_both_differ_in_their_schedule_and_in_nothing_else(tmp_path, settings, fits):
    write(tmp_path, *(record(name, sweep="147m_slow", **settings) for name in ("ours", "new")))
    assert (schedule_sweep(tmp_path, "147m_slow", sweep_of(record("ours"), record("even"))) is not None) == fits


def test_only_a_sweep_about_the_schedule_may_mix_schedules(tmp_path):
    write(tmp_path, record("ours_late", **SLOW), record("ours_low", **SLOW | {"train.learning_rate": 0.25}))
    with pytest.raises(RltokError, match="differs from its neighbours: train.learning_rate"):
        schedule_sweep(tmp_path, "32m_slow", sweep_of(record("ours")))
    assert set(schedule_sweep(tmp_path, "32m_slow", sweep_of(record("ours")), SCHEDULE).runs) == {"ours_late", "ours_low"}


def test_interruptions_are_told_in_words():
    assert interrupted(record()) == "not recorded"
    assert interrupted(resumed()) == "never"
    words = interrupted(resumed((10, 3, 1.6), (15, 1, 0.0)))  # of each update but a tenth there is no line
    first, second = words.split("; ")
    assert first == "went on after update 10, at least 3 updates done again (2 s)"
    assert second == "went on after update 15, at least 1 update done again (0 s)"
    each = resumed((10, 3, 1.6), **{"train.log_every": 1})
    assert interrupted(each) == "went on after update 10, 3 updates done again (2 s)"


@pytest.mark.parametrize(("after", "redone"), [(15, 5), (15, 0), (0, 5)])
def test_a_list_that_was_begun_late_is_no_run_that_was_never_interrupted(after, redone):
    late = resumed((18, 0, 0.0))
    late["sessions"][0] |= {"after": after, "redone": redone}
    words = f"earlier sessions not recorded; went on after update {after}, at least {redone} updates done again (0 s)"
    assert interrupted(late).startswith(words + "; went on after update 18")
    assert [one["after"] for one in interruptions(late)] == [after, 18]


def test_a_row_a_run_says_whether_it_was_the_planned_one_and_what_it_took():
    mine = with_digest(resumed((10, 3, 1.6), seed=3) | {"peak_memory_bytes": 42_400_000_000})
    sweep = sweep_of(mine, record("ours_lags1"), record("even", 1))
    sweep.failed.append(failed("bpe", why="loss nan | not\nfinite"))
    planned = {"ours": from_dict(record("ours", 0)["config"]), "even": from_dict(record("ours")["config"]), "bpe": preset("tiny")}
    table, missing = record_table(sweep, planned).split("\n\n")
    head, *rows = rows_of(table)
    assert head == ["`32m`", "card", "commit", "settings", "seconds", "peak GB", "interrupted"]
    assert [row[:1] + row[3:4] for row in rows] == [
        ["`bpe`, seed 0", "**not as planned**"], ["`even`, seed 1", "**not as planned**"], ["`ours`, seed 3", "as planned"],
        ["`ours_lags1`, seed 0", "not in the plan"],
    ]  # fmt: skip
    assert rows[0][4:] == ["-", "-", "failed: loss nan \\| not finite"]
    assert (
        rows[2][1:3] == [mine["device"].removeprefix("NVIDIA "), "0" * 7]
        and rows[2][4:6] == ["5", "42.4"]
        and rows[2][6].startswith("went on after update 10")
    )
    assert missing == "Runs of the plan without a finished record: `bpe`."
    assert record_table(sweep_of(mine), {"ours": planned["ours"]}).endswith("without a finished record: none.")


def test_a_folder_without_a_finished_run_is_said_to_be_one(tmp_path):
    write(tmp_path, failed("ours"))
    with pytest.raises(RltokError, match="holds no record of a finished run, so there is nothing to show"):
        all_sweeps(tmp_path)


def test_sizes_stand_under_each_other_with_differences_paired_within_a_size():
    runs = record("ours", sweep="147m", bits=1.5, rate=0.21, white=0.99), record("even", sweep="147m", bits=1.65, white=0.2)
    large = [with_digest(one | {"matrix_parameters": 146_875_392, "bytes": 600_000_000}) for one in runs]
    small = sweep_of(*seeds_of("ours", 2.0), *seeds_of("even", 2.1), record("bpe", 0, bits=1.9))
    head, *rows = rows_of(side_by_side([sweep_of(*large), small]))
    assert [row[:3] for row in rows] == [
        ["even", "32m", "3"], ["even", "147m", "1"], ["bpe", "32m", "1"], ["ours", "32m", "3"], ["ours", "147m", "1"]
    ]  # fmt: skip
    ours = {row[1]: dict(zip(head, row, strict=True)) for row in rows if row[0] == "ours"}
    assert (ours["147m"]["MB read"], ours["147m"]["boundaries per byte"], ours["147m"]["white space"]) == ("600", "0.210", "0.99")
    bits = large[0]["scores"]["test"], large[1]["scores"]["test"]
    by_hand = (sum(bits[0]["unit_bits"]) - sum(bits[1]["unit_bits"])) / sum(bits[0]["unit_bytes"])
    assert float(ours["147m"]["minus even"].split(" ±")[0]) == pytest.approx(by_hand, abs=6e-5)
    mean = sum(bits[0]["unit_bits"]) / sum(bits[0]["unit_bytes"])
    assert float(ours["147m"]["test, bits per byte"].split(" ±")[0]) == pytest.approx(mean, abs=6e-4)
    assert all(row[head.index("minus even")] == "-" for row in rows if row[0] == "even")
    borrowed = f"({deviation(small, 'test'):.4f})"  # to all with one seed, of either size
    assert [row[head.index("minus even")].endswith(borrowed) for row in rows] == [False, False, True, False, True]


def test_differences_are_of_validation_unless_every_run_of_the_size_has_a_test_score():
    levels = dict.fromkeys(PLACES, 1.5) | {"test": 1.3}
    ours, even, bpe = record("ours", bits=levels), record("even", bits=1.7), record("bpe", bits=1.6)
    without = with_digest(bpe | {"scores": bpe["scores"] | {"test": None}})
    for last, expected in ((bpe, -0.4), (without, -0.2)):
        rows = {row[0]: row for row in rows_of(side_by_side([sweep_of(ours, even, last)]))}
        assert float(rows["ours"][6].split(" ±")[0]) == pytest.approx(expected, abs=0.01)
    assert rows["bpe"][5] == "-"


def test_a_difference_says_when_it_is_of_validation_or_why_there_is_none():
    ours, even = record("ours"), record("even")
    without = [with_digest(one | {"scores": one["scores"] | {"test": None}, "sweep": "147m"}) for one in (ours, even)]
    large = [with_digest(one | {"matrix_parameters": 146_875_392}) for one in without]
    rows = rows_of(side_by_side([sweep_of(ours, even), sweep_of(*large)]))
    text = {(row[0], row[1]): row[rows[0].index("minus even")] for row in rows[1:]}
    assert text["ours", "147m"].endswith(" (validation)") and "(" not in text["ours", "32m"]
    assert text["even", "32m"] == text["even", "147m"] == "-"
    (_, alone) = rows_of(side_by_side([sweep_of(ours)]))
    assert alone[rows[0].index("minus even")] == "no run of even"
    rows = rows_of(side_by_side([sweep_of(record("ours", 1), even)]))
    assert rows[-1][rows[0].index("minus even")] == "no seed in common with even"


def test_sizes_beside_each_other_may_be_of_some_contenders():
    sweep = sweep_of(record("ours"), record("even"), record("bpe"))
    assert [row[0] for row in rows_of(side_by_side([sweep], ["bpe", "ours", "nobody"]))[1:]] == ["bpe", "ours"]
    head, *rows = rows_of(side_by_side([sweep], reference="bpe"))
    minus = {row[0]: row[head.index("minus bpe")] for row in rows}
    assert minus["bpe"] == "-" and minus["ours"] == str(gap(sweep, "ours", "bpe", "test"))  # nobody to borrow from
    assert all("no run of random_k" in row[6] for row in rows_of(side_by_side([sweep], reference="random_k"))[1:])
