"""Exact resume: processes killed at every kind of moment, then the run goes on as if nothing had happened."""

import json
import signal
import subprocess
import sys
import time

import pytest
import torch
from paths import ROOT
from runs import SETTINGS, as_options, digests, json_lines, kill_run, small_config, write_text
from safetensors.torch import load_file

import rltok
from rltok.cli.main import main
from rltok.errors import RltokError
from rltok.runs.checkpoint import checkpoints, read_state
from rltok.system.digest import with_digest

CONFIG = small_config(train__keep_checkpoints=1)  # the strictest case: one checkpoint must always be whole


pytestmark = pytest.mark.usefixtures("quick")


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    return write_text(tmp_path_factory.mktemp("text"))


@pytest.fixture(scope="module")
def uninterrupted(quick, text, tmp_path_factory):
    out = tmp_path_factory.mktemp("uninterrupted") / "run"
    rltok.train(CONFIG, text, out)
    return out


def kill(children, text, out, point, call, *, resume=False):
    """Train until the `call`-th call of `point`, where the process dies."""
    kill_run(children, CONFIG, text, out, point, call, resume=resume)


def assert_same_run(out, uninterrupted):
    for name in ("metrics.jsonl", "snapshots.jsonl"):
        assert json_lines(out / name) == json_lines(uninterrupted / name)
    assert sorted(digests(out)) == sorted(digests(uninterrupted))
    for name in ("model", "optimizer"):
        ours, theirs = (load_file(run / f"checkpoints/step-00000008/{name}.safetensors") for run in (out, uninterrupted))
        assert ours.keys() == theirs.keys()
        assert all(torch.equal(ours[key], theirs[key]) for key in ours)


MOMENTS = {  # those marked * are left out of the quick tests
    "while it takes its folder": ("replace", 2),
    "before the first line": ("log", 1),
    "before the first checkpoint": ("train_step", 3),
    "inside the first checkpoint's weights": ("save_file", 1),
    "between weights and optimizer of the first checkpoint": ("save_file", 2),
    "before the first checkpoint gets its name": ("rename", 1),
    "between two checkpoints": ("train_step", 5),
    "inside the second checkpoint's optimizer": ("save_file", 4),
    "before the second checkpoint gets its name": ("rename", 2),
    "between the second checkpoint and the end of the first": ("rename", 3),
    "halfway through deleting the first checkpoint": ("rmtree", 1),
    "in the middle of a line of metrics": ("log", 9),
    "in the middle of a line of snapshots": ("log", 7),
    "after the last checkpoint": ("record", 1),
}


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_run_killed_resumes_to_the_same_lines_and_the_same_bits(moment, children, text, uninterrupted, tmp_path):
    kill(children, text, tmp_path / "run", *MOMENTS[moment])
    for checkpoint in checkpoints(tmp_path / "run"):
        read_state(checkpoint)  # raises unless it is complete
    rltok.train(CONFIG, text, tmp_path / "run", resume=True)
    assert_same_run(tmp_path / "run", uninterrupted)


def test_a_run_killed_again_while_it_resumes_still_ends_the_same(children, text, uninterrupted, tmp_path):
    out = tmp_path / "run"
    kill(children, text, out, "train_step", 5)
    kill(children, text, out, "replace", 3, resume=True)  # the two of the folder, then metrics.jsonl wound back
    kill(children, text, out, "train_step", 4, resume=True)  # updates 4, 5, 6, and dead before 7
    rltok.train(CONFIG, text, out, resume=True)
    assert_same_run(out, uninterrupted)


def test_lines_written_after_the_checkpoint_are_wound_back_and_not_doubled(children, text, tmp_path):
    kill(children, text, tmp_path, "train_step", 6)
    before = json_lines(tmp_path / "metrics.jsonl")
    assert [(line["step"], line["split"]) for line in before][-2:] == [(4, "train"), (5, "validation")]
    kill(children, text, tmp_path, "train_step", 1, resume=True)  # nothing trained: only wound back, to checkpoint 3
    assert json_lines(tmp_path / "metrics.jsonl") == [line for line in before if line["step"] <= 3]


def test_seconds_of_all_sessions_are_added_up(children, text, tmp_path):
    kill(children, text, tmp_path, "train_step", 5)
    state = tmp_path / "checkpoints/step-00000003/state.json"
    state.write_text(json.dumps(with_digest(json.loads(state.read_text()) | {"seconds": 1000.0})))
    assert 1000 < rltok.train(CONFIG, text, tmp_path, resume=True).seconds < 2000


def test_resuming_a_finished_run_changes_no_line_and_no_checkpoint(text, uninterrupted, tmp_path):
    before = digests(uninterrupted)
    record = rltok.train(CONFIG, text, uninterrupted, resume=True)
    after = digests(uninterrupted)
    assert record.updates == 8
    before.pop("record.json"), after.pop("record.json")
    assert after == before


def test_resume_without_anything_to_resume_starts_the_run(text, uninterrupted, tmp_path):
    rltok.train(CONFIG, text, tmp_path / "run", resume=True)
    assert_same_run(tmp_path / "run", uninterrupted)


def test_a_damaged_newest_checkpoint_is_named_and_deleting_it_goes_on_from_the_one_before(text, tmp_path):
    config, out = small_config(), tmp_path / "run"
    rltok.train(config, text, out)
    reference = json_lines(out / "metrics.jsonl")
    weights = out / "checkpoints/step-00000008/model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    before = digests(out)
    with pytest.raises(RltokError, match=r"step-00000008: model\.safetensors is truncated.*Delete step-00000008"):
        rltok.train(config, text, out, resume=True)
    assert digests(out) == before
    for file in weights.parent.iterdir():
        file.unlink()
    weights.parent.rmdir()
    rltok.train(config, text, out, resume=True)
    assert json_lines(out / "metrics.jsonl") == reference


def test_the_command_killed_from_outside_at_any_moment_resumes_to_the_same_lines(text, tmp_path, capsys):
    settings = as_options(SETTINGS | {"train.training_bytes": 20 * 256})
    command = ["train", "--data", text, "--preset", "tiny", *settings, "--device", "cpu", "--out"]
    assert main([*command, str(tmp_path / "whole")]) == 0
    out, metrics = tmp_path / "killed", tmp_path / "killed/metrics.jsonl"
    with subprocess.Popen([sys.executable, "-m", "rltok", *command, str(out)], cwd=ROOT) as process:
        while process.poll() is None and (not metrics.exists() or metrics.read_text().count("\n") < 7):
            time.sleep(0.005)
        process.kill()
    assert process.returncode == -signal.SIGKILL
    assert not (out / "record.json").exists()
    assert main([*command, str(out), "--resume"]) == 0
    assert json_lines(metrics) == json_lines(tmp_path / "whole/metrics.jsonl")
