"""Odd values and surroundings that once ended in a traceback or a silently wrong number."""

import os
import re
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from rltok.cli import commands
from rltok.cli.demo import demo_config, rate_matched_random
from rltok.cli.main import main
from rltok.cli.options import parse_value, use_colour
from rltok.config import with_settings
from rltok.data import documents
from rltok.errors import RltokError
from rltok.presets import preset
from rltok.rng import row_uniforms
from rltok.runs import models
from rltok.runs.models import new_model


def test_large_seeds_differ_and_those_out_of_range_are_refused():
    large = [row_uniforms(2**63 - seed, 0, [0], 4) for seed in (1, 2)]
    assert not torch.equal(*large)
    for seed in (-1, 2**63):
        with pytest.raises(RltokError, match="between 0 and 2"):
            row_uniforms(seed, 0, [0], 4)


def test_small_seeds_keep_the_numbers_that_philox_gives_them():
    expected = np.random.Generator(np.random.Philox(key=[7, 3], counter=[0, 0, 0, 5])).random(6, np.float32)
    np.testing.assert_array_equal(row_uniforms(7, 3, [5], 6)[0].numpy(), expected)


@pytest.mark.parametrize("text", ["[" * 60_000, "9" * 400 + "/7", "1/0", "plain"])
def test_values_that_are_no_numbers_stay_text(text):
    assert parse_value(text) == text


def test_a_dumb_terminal_gets_no_colour(monkeypatch):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert use_colour("auto")
    monkeypatch.setenv("TERM", "dumb")
    assert not use_colour("auto")


@pytest.mark.parametrize("settings", [{"embedding_dim": 65536}, {"mid_layers": 1024, "embedding_dim": 16384}], ids=str)
def test_a_model_beyond_memory_is_refused_before_the_system_has_to_end_the_process(settings, monkeypatch):
    monkeypatch.setattr(models, "FastUNet", lambda *_: pytest.fail("allocated"))
    monkeypatch.setattr(models, "memory_bytes", lambda device: 10**12)  # of a large machine
    config = with_settings(preset("147m"), {"model.num_heads": 64} | {f"model.{key}": value for key, value in settings.items()})
    with pytest.raises(RltokError, match="does not fit into memory. Choose a smaller model.embedding_dim, fewer layers or"):
        new_model(config, torch.device("cpu"))


@pytest.mark.parametrize("rate", [0.0005, 0.9995, 1.0])
def test_the_demo_has_a_twin_for_a_policy_that_collapsed(rate):
    assert rate_matched_random(demo_config(0, smoke=True), rate).model.rule.target_rate == pytest.approx(rate, abs=0.002)


def test_parquet_with_values_that_python_cannot_hold_is_refused_in_one_line(tmp_path):
    path = tmp_path / "odd.parquet"
    pq.write_table(pa.table({"text": ["some text"], "id": pa.array([10**12], pa.timestamp("s"))}), path)
    with pytest.raises(RltokError, match="cannot read .*odd.parquet"):
        list(documents(str(path)))


@pytest.mark.parametrize("column", ["text", "source", "id"])
def test_a_column_that_is_there_twice_is_named(column, tmp_path, capsys):
    path = tmp_path / "twice.parquet"
    names = list(dict.fromkeys(["text", column])) + [column]
    pq.write_table(pa.Table.from_arrays([pa.array(["some text"])] * len(names), names=names), path)
    for command in (["prepare", str(path)], ["train", "--data", str(path)]):
        assert main([*command, "--out", str(tmp_path / "out")]) == 2
        assert f"'twice.parquet' has 2 columns named '{column}'. Rename all but one" in capsys.readouterr().err


COMMANDS = {
    "train": [], "evaluate": ["run"], "show": ["run"], "variance": [], "bench": [], "compare": [], "demo": [], "doctor": [],
    "generate": ["run"], "models": [], "export": ["run", "a.safetensors"], "prepare": ["sample", "--out", "corpus"],
}  # fmt: skip
NO_MEMORY = [MemoryError(), pa.ArrowMemoryError("malloc of 8 bytes failed"), torch.OutOfMemoryError("CUDA out of memory"),
             RuntimeError("DefaultCPUAllocator: can't allocate memory")]  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("error", NO_MEMORY, ids=lambda error: type(error).__name__)
def test_what_to_do_without_memory_names_what_the_command_has(command, error, monkeypatch, capsys):
    def starve(_):
        raise error

    monkeypatch.setattr(commands, command, starve)
    assert main([command, *COMMANDS[command]]) == 2
    output = capsys.readouterr().err
    with pytest.raises(SystemExit):
        main([command, "--help"])
    has = capsys.readouterr().out
    assert output.startswith("rltok: out of memory. ") and output.count("\n") == 1
    named = re.findall(r"--[a-z-]+", output)
    assert [option for option in named if option not in has] == []
    assert named or "train.micro_batch" in output
    assert "--set" in has or not re.search(r"(train|data|model)\.", output)


@pytest.mark.parametrize("kind", ["parquet", "jsonl"])
def test_a_file_too_large_for_memory_is_not_called_damaged(kind, tmp_path, monkeypatch, capsys):
    def starve(*_, **__):
        raise pa.ArrowMemoryError("malloc of 8 bytes failed")

    (tmp_path / f"a.{kind}").write_bytes(b"")
    monkeypatch.setattr(*((pq, "ParquetFile") if kind == "parquet" else (pa, "input_stream")), starve)
    data = str(tmp_path / f"a.{kind}")
    assert main(["prepare", data, "--out", str(tmp_path / "corpus"), "--jobs", "1"]) == 2
    assert "out of memory. Take --jobs 1" in capsys.readouterr().err
    assert main(["train", "--data", data, "--out", str(tmp_path / "run")]) == 2
    assert "out of memory. Read less of the text with --max-bytes" in capsys.readouterr().err


def test_a_home_folder_of_nobody_is_a_missing_folder():
    with pytest.raises(RltokError, match="needs an existing folder"):
        documents("python:~nosuchuser")


@pytest.mark.parametrize("closed", ["stdout", "stderr"])
def test_closed_streams_end_no_command(closed):
    number = {"stdout": 1, "stderr": 2}[closed]
    command = [
        sys.executable,
        "-c",
        f"import os, sys; os.close({number}); os.execv(sys.executable, [sys.executable, *sys.argv[1:]])",
    ]
    done = subprocess.run([*command, "-m", "rltok", "doctor", "--device", "cpu"], env=os.environ | {"PYTHONPATH": os.getcwd()})
    assert done.returncode == 0
