"""rltok.evidence.chapters.ch06_plan: what a run at scale takes, on which card it fits, and the commands that make it."""

import shlex

import pytest
from sweeps import rows_of

from rltok.cli.commands import _settings
from rltok.cli.options import parse
from rltok.evidence.chapters.ch06_plan import (
    changes,
    checkpoint_bytes,
    cost_table,
    disk_bytes,
    lasting,
    plan_table,
    prepare_command,
    prepared_bytes,
    train_command,
)
from rltok.presets import preset
from rltok.speed.speeds import measured_speeds

ONE_PASS = {"data.cut": "full_windows", "train.training_bytes": 151_854 * 4096, "train.evaluate_every": 50}
SHARES = ["prepare", "x", "--out", "y"]  # the command line, for its own shares of validation and test


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


def test_times_are_bytes_over_measured_speeds():
    speeds = measured_speeds()
    head, *rows = rows_of(cost_table("147m", {"one pass": 621_805_568, "paper": 6_000_000_000}, speeds))
    assert head == ["card", "backend", "rows a pass", "MB/s", "one pass", "paper"]
    assert [row[:2] for row in rows] == [["NVIDIA H100 80GB HBM3", "triton"], ["NVIDIA H100 80GB HBM3", "plain"]]
    for row in rows:
        rate = next(s["bytes_per_second"] for s in speeds if (s["preset"], s["backend"]) == ("147m", row[1]))
        assert row[4] == f"{621_805_568 / rate / 60:.0f} min"
    assert rows_of(cost_table("90m", {"one pass": 1}, speeds))[1:] == []  # never measured: no row


@pytest.mark.parametrize(
    ("seconds", "words"), [(34.4, "34 s"), (119, "119 s"), (120, "2 min"), (7199, "120 min"), (7200, "2.0 h"), (9000, "2.5 h")]
)
def test_a_time_is_in_a_unit_of_its_size(seconds, words):
    assert lasting(seconds) == words


def test_a_checkpoint_holds_each_weight_three_times(finished):
    from runs import small_config

    written = sum(path.stat().st_size for path in (finished / "checkpoints").glob("step-00000008/*.safetensors"))
    assert checkpoint_bytes(small_config()) == pytest.approx(written, rel=0.35)  # names and norms weigh at this size


def held_out():
    options = parse(SHARES)
    return options.validation_fraction + options.test_fraction


@pytest.mark.parametrize(("changed", "least"), [({}, 1), (ONE_PASS, 2)])
def test_enough_is_prepared_for_one_pass_and_cut_as_the_run_reads_it(changed, least):
    """Half a window may be left at the end of each document cut into full windows; a hundredth goes to the other splits."""
    config = preset("147m", changed)
    words = shlex.split(prepare_command(config, "hf:A/B:c d", out="corpora/x", held_out=held_out()).replace("\\\n", " "))
    assert words[:2] == ["rltok", "prepare"]
    options = parse(words[1:])
    assert (options.source, options.out) == (["hf:A/B:c d"], "corpora/x")
    assert (options.cut, options.sequence_length) == (config.data.cut, config.data.sequence_length)
    training = options.max_bytes * (1 - options.validation_fraction - options.test_fraction) / least
    rows = config.num_updates * config.train.sequences_per_update
    assert 1.01 < training / config.data.sequence_length / rows < 1.03
    assert options.max_bytes == prepared_bytes(config, held_out()) > config.train.training_bytes


def test_the_disk_holds_what_every_run_keeps_and_one_that_is_being_written():
    config = preset("147m", {"train.keep_checkpoints": 3})
    assert disk_bytes(config, 4) == 13 * checkpoint_bytes(config)
