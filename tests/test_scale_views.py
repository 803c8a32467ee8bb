"""rltok.scale_views: what a run at scale takes, the command that makes it, and what sizes beside each other show."""

import shlex

import numpy as np
import pytest
from sweeps import PLACES, record, seeds_of, sweep_of, write

from rltok import plots
from rltok.cards import CARDS
from rltok.commands import _settings
from rltok.evidence_tables import side_by_side
from rltok.options import parse
from rltok.presets import preset
from rltok.records import read_sweeps
from rltok.scale_views import (
    changes,
    checkpoint_bytes,
    cost_table,
    interrupted,
    lasting,
    learning_figure,
    of_sizes,
    plan_table,
    record_table,
    sizes_figure,
    told,
    train_command,
)
from rltok.seal import sealed
from rltok.speeds import measured_speeds

ONE_PASS = {"data.cut": "full_windows", "train.training_bytes": 151_854 * 4096, "train.evaluate_every": 50}
HERE = {"device": "cpu", "commit": "0" * 40}


def rows_of(table):
    """Cells of a Markdown table, head first."""
    lines = [line.strip("| ").split(" | ") for line in table.splitlines()]
    return [lines[0], *lines[2:]]


def resumed(*cut, **more):
    """A record whose run was interrupted: (after, redone, lost seconds) of each."""
    first = {"after": 0, "seconds": 0.0, "redone": 0, "lost_seconds": 0.0, **HERE}
    found = [{"after": after, "seconds": 1.0, "redone": redone, "lost_seconds": lost, **HERE} for after, redone, lost in cut]
    return sealed(record(**more) | {"sessions": [first, *found]})


# Before a run


@pytest.mark.parametrize("base", ["147m_gamma0.9", "147m", "tiny_bpe", "147m_even"])
def test_the_command_makes_the_run_of_the_configuration(base):
    config = preset("147m_gamma0.9", ONE_PASS | {"model.rule.target_rate": 0.25})
    typed = train_command(config, base, data="a folder/*.parquet", out="runs/x", validation="held out.txt")
    words = shlex.split(typed.replace("\\\n", " "))
    options = parse(words[1:])
    assert words[:2] == ["rltok", "train"]
    assert (options.data, options.out, options.validation) == ("a folder/*.parquet", "runs/x", "held out.txt")
    assert _settings(options)[0].digest() == config.digest()


def test_a_preset_as_it_is_needs_no_settings():
    assert train_command(preset("tiny"), "tiny", data="sample", out="runs/a").splitlines()[-1] == "  --out runs/a"
    assert changes(preset("tiny"), preset("tiny")) == {}


def test_the_plan_beside_the_paper_is_counted_from_settings():
    ours = preset("147m_gamma0.9", ONE_PASS)
    head, *rows = rows_of(plan_table({"ours": ours, "paper": preset("147m")}))
    cells = {row[0]: row[1:] for row in rows}
    assert head[-2:] == ["ours", "paper"]
    assert cells["updates"] == ["1,186", "11,444"]  # 151,854 // 128; 6e9 // (128 * 4096)
    assert cells["bytes read in them"] == [f"{1186 * 128 * 4096:,}", f"{11444 * 128 * 4096:,}"]
    assert cells["rows"] == ["151,808", "1,464,832"]
    assert cells["updates of rising learning rate"] == ["89", "858"]  # 0.075 of them
    # byte layers 8 * 7 d^2, token layers 12 * 16 d^2, two heads of 257 d, policy 9 d; tokens are a fifth of the bytes
    d = 768
    each = 6 * (8 * 7 * d * d + 2 * 257 * d + 9 * d + 12 * 16 * d * d / 5)
    assert [float(cell) for cell in cells["FLOPs"]] == pytest.approx([each * 621_805_568, each * 5_999_951_872], rel=5e-3)
    assert [float(cell) for cell in cells["FLOPs a byte"]] == pytest.approx([each, each], rel=5e-3)
    more = 12 * d * (8 * 64 + 12 * 0.2 * (0.2 * 4096 / 2))  # a byte: window of 64, tokens see half of theirs
    assert float(cells["FLOPs with attention"][0]) == pytest.approx((each + more) * 621_805_568, rel=5e-3)
    assert cells["`objective.gamma`"] == ["0.9", "0.99"] and cells["`data.cut`"] == ["full_windows", "documents"]
    assert not any(
        key.startswith("`train.") and key != "`train.training_bytes`" for key in cells
    )  # what only watches is left out


def test_costs_are_bytes_over_the_speeds_that_doctor_knows():
    speeds = [speed for speed in measured_speeds() if speed["preset"] == "147m"]
    head, *rows = rows_of(cost_table("147m", {"one pass": 621_805_568, "paper": 6_000_000_000}, speeds, price=2.0))
    assert head == ["card", "rows a pass", "MB/s", "one pass", "one pass, cost", "paper", "paper, cost", "basis"]
    assert [row[0] for row in rows] == [card.name for card in CARDS]
    found = {row[0]: row for row in rows}
    rate = next(s["bytes_per_second"] for s in speeds if s["backend"] == "triton")
    assert found["H100"][3] == f"{621_805_568 / rate / 60:.0f} min" and found["H100"][-1].startswith("measured")
    assert float(found["H100"][4]) == pytest.approx(2 * 621_805_568 / rate / 3600, abs=0.006)
    assert float(found["H100"][6]) == pytest.approx(2 * 6e9 / rate / 3600, abs=0.006)
    assert found["T4"][1:7] == ["does not fit", "-", "-", "-", "-", "-"]
    assert "cost" not in cost_table("147m", {"one pass": 1}, speeds)
    assert {row[1] for row in rows_of(cost_table("90m", {"one pass": 1}, speeds))[1:]} == set()  # never measured: no row


@pytest.mark.parametrize(
    ("seconds", "words"), [(34.4, "34 s"), (119, "119 s"), (120, "2 min"), (7199, "120 min"), (7200, "2.0 h"), (9000, "2.5 h")]
)
def test_a_time_is_told_in_a_unit_of_its_size(seconds, words):
    assert lasting(seconds) == words


def test_a_checkpoint_holds_each_weight_three_times(finished):
    from runs import small_config

    written = sum(path.stat().st_size for path in (finished / "checkpoints").glob("step-00000008/*.safetensors"))
    assert checkpoint_bytes(small_config()) == pytest.approx(written, rel=0.35)  # names and norms weigh at this size


# After a run


def test_the_wanted_sweep_is_shown_or_said_to_be_missing(tmp_path):
    write(tmp_path, record("ours", sweep="smoke", full=False))
    sizes = ("32m", "147m")
    found = of_sizes(tmp_path, sizes)
    assert [sweep.name for sweep in found] == ["smoke"]
    assert told(found, "147m").startswith("**No record of the sweep `147m` is stored yet.** Shown in its place: `smoke`.")
    large = sealed(record("ours", sweep="147m") | {"matrix_parameters": 146_875_392})
    write(tmp_path, large, record("ours", sweep="32m"), record("ours", sweep="32m_again"))
    found = of_sizes(tmp_path, sizes)
    assert [sweep.name for sweep in found] == ["32m", "147m"]
    assert told(found, "147m").startswith("Shown: `32m`, `147m`.")


def test_the_sweep_of_most_runs_comes_first(tmp_path):
    write(tmp_path, record("ours", sweep="147m"), *seeds_of("ours", 2.0))
    assert list(read_sweeps(tmp_path)) == ["32m", "147m"]


def test_interruptions_are_told_in_words():
    assert interrupted(record()) == "not recorded"
    assert interrupted(resumed()) == "never"
    words = interrupted(resumed((10, 3, 1.6), (15, 0, 0.0)))
    assert words == "went on after update 10, 3 of them again (2 s); went on after update 15, 0 of them again (0 s)"


def test_a_row_a_run_names_and_costs_it():
    run = sealed(resumed((10, 3, 1.6)) | {"peak_memory_bytes": 42_400_000_000, "data": {"name": "t", "train": {"hash": "ab"}}})
    sweep = sweep_of(run, record("even"), record("bpe"))
    head, first, second = rows_of(record_table([sweep], ("ours", "even")))
    cells = dict(zip(head, second, strict=True))
    assert (first[1], second[1]) == ("even", "ours")
    assert (cells["commit"], cells["config"], cells["training text"]) == ("0" * 7, run["config_hash"], "ab")
    assert (cells["bytes"], cells["seconds"], cells["MB/s"], cells["peak memory, GB"]) == ("20,000", "5", "0.004", "42.4")
    assert cells["interrupted"].startswith("went on after update 10") and first[-1] == "not recorded"


def lines_of(axes):
    return {line.get_label(): line for line in axes.lines if not line.get_label().startswith("_")}


def test_both_sizes_share_an_axis_and_an_interruption_stands_on_the_curve():
    large = sealed(resumed((10, 3, 1.6), sweep="147m", bits=1.5) | {"matrix_parameters": 146_875_392})
    sizes = [sweep_of(record("ours", bits=2.0), record("even", bits=2.1)), sweep_of(large)]
    (axes,) = sizes_figure(sizes, ("ours", "even")).axes
    lines = lines_of(axes)
    assert set(lines) == {"ours, 32m", "ours, 147m", "even, 32m", "interrupted"}
    assert lines["ours, 32m"].get_color() == lines["ours, 147m"].get_color() != lines["even, 32m"].get_color()
    assert lines["ours, 32m"].get_linestyle() != lines["ours, 147m"].get_linestyle()
    held = [point for point in large["held_out"] if point["step"]]
    assert np.allclose(lines["ours, 147m"].get_xdata(), [point["flops"] for point in held])
    assert np.allclose(lines["ours, 147m"].get_ydata(), [point["bits_per_byte"] for point in held])
    mark = lines["interrupted"]
    assert mark.get_xdata() == pytest.approx([1e10]) and mark.get_ydata() == pytest.approx([1.5 + 1 - 10 / 20])


def test_white_space_and_entropy_are_drawn_where_they_are_known():
    run, even = resumed((10, 3, 1.6)), record("even")
    for point in even["curve"]:
        point["policy_entropy"] = None
    left, right = learning_figure([sweep_of(run, even)], ("ours", "even")).axes
    assert set(lines_of(left)) == {"ours, 32m", "even, 32m", "interrupted"} and set(lines_of(right)) == {
        "ours, 32m",
        "interrupted",
    }
    assert np.allclose(lines_of(left)["ours, 32m"].get_xdata(), [point["bytes"] for point in run["curve"]])
    assert np.allclose(lines_of(right)["ours, 32m"].get_ydata(), [point["policy_entropy"] for point in run["curve"]])


def test_other_numbers_change_the_digest_of_a_figure():
    figures = [sizes_figure([sweep_of(record("ours", bits=bits))], ("ours",)) for bits in (2.0, 1.9)]
    assert plots.digest(figures[0]) != plots.digest(figures[1])


def test_sizes_stand_under_each_other_with_differences_paired_within_a_size():
    runs = record("ours", sweep="147m", bits=1.5, rate=0.21, white=0.99), record("even", sweep="147m", bits=1.65, white=0.2)
    large = [sealed(one | {"matrix_parameters": 146_875_392, "bytes": 600_000_000}) for one in runs]
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


def test_differences_are_of_validation_unless_every_run_of_the_size_has_a_test_score():
    levels = dict.fromkeys(PLACES, 1.5) | {"test": 1.3}
    ours, even, bpe = record("ours", bits=levels), record("even", bits=1.7), record("bpe", bits=1.6)
    without = sealed(bpe | {"scores": bpe["scores"] | {"test": None}})
    for last, expected in ((bpe, -0.4), (without, -0.2)):
        rows = {row[0]: row for row in rows_of(side_by_side([sweep_of(ours, even, last)]))}
        assert float(rows["ours"][6].split(" ±")[0]) == pytest.approx(expected, abs=0.01)
    assert rows["bpe"][5] == "-"
