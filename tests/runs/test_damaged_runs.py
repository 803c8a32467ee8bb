"""Runs that somebody edited, lost a part of, or that a full or unreadable disk holds: one line, and no advice that harms."""

import errno
import json
import math
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import safetensors.torch
import torch
from paths import BUNDLED
from runs import digests, small_config, write_text

import rltok
from rltok.benchmarks.sets import TASKS
from rltok.cli.main import main
from rltok.errors import RltokError
from rltok.optim import make_optimizer
from rltok.runs.checkpoint import checkpoints, find_checkpoint, read_state, restore, save_checkpoint
from rltok.runs.folder import RunFolder
from rltok.runs.models import new_model
from rltok.runs.results import RunRecord
from rltok.system.digest import with_digest

pytestmark = pytest.mark.usefixtures("shapes_unchecked")
CONFIG = small_config()
CPU = torch.device("cpu")


@pytest.fixture
def run(finished, tmp_path):
    """A copy of a finished run that may be damaged."""
    return shutil.copytree(finished, tmp_path / "run")


@pytest.fixture
def newest(run):
    return checkpoints(run)[-1]


def resume_refused(run, tmp_path):
    """The message of a resume that must be refused; nothing in the folder changes."""
    before = digests(run)
    with pytest.raises(RltokError) as refused:
        rltok.train(CONFIG, write_text(tmp_path), run, resume=True)
    assert digests(run) == before
    assert "\n" not in str(refused.value)
    return str(refused.value)


def edit_state(checkpoint, *, mended=True, **values):
    path = checkpoint / "state.json"
    state = json.loads(path.read_text()) | values
    path.write_text(json.dumps(with_digest(state) if mended else state))


def edit_tensors(checkpoint, name, change):
    """Change the tensors of a file and mend its digest, so that only their values can give it away."""
    path = checkpoint / f"{name}.safetensors"
    tensors = safetensors.torch.load_file(path)
    change(tensors)
    safetensors.torch.save_file(tensors, path)
    edit_state(checkpoint, files={name: digest for name, digest in digests(checkpoint).items() if name != "state.json"})


def failing(number):
    def fail(*args, **kwargs):
        raise OSError(number, os.strerror(number))

    return fail


@pytest.mark.parametrize(
    ("number", "said"),
    [(errno.EACCES, r"Permission denied\). Check its permissions\."), (errno.EIO, r"Input/output error\). Check its disk\.")],
)
def test_a_checkpoint_that_cannot_be_read_is_never_to_be_deleted(newest, monkeypatch, number, said):
    monkeypatch.setattr(Path, "read_bytes", failing(number))
    with pytest.raises(RltokError, match=rf"^cannot read .*state\.json \({said}$"):
        read_state(newest)


def test_a_folder_of_checkpoints_that_cannot_be_listed_does_not_mean_that_there_are_none(run, tmp_path, monkeypatch):
    monkeypatch.setattr("rltok.runs.checkpoint.os.listdir", failing(errno.EACCES))
    assert "checkpoints (Permission denied). Check its permissions." in resume_refused(run, tmp_path)


def test_a_checkpoint_that_is_not_there_is_said_to_be_absent(run):
    with pytest.raises(RltokError, match="^there is no checkpoint .*step-00000007"):
        read_state(find_checkpoint(run / "checkpoints" / "step-00000007"))


@pytest.mark.parametrize("key", ["step", "bytes", "seconds", "config", "config_hash", "files", "digest"])
def test_an_edited_state_is_noticed_by_its_own_digest(newest, key):
    edit_state(newest, mended=False, **{key: 6})
    with pytest.raises(RltokError, match="state.json is damaged.*digest differs"):
        read_state(newest)


BAD_VALUES = {
    "step": [None, -1, 2.5, True, "8", [8], 7, 9, 10**400],
    "bytes": [None, -1, 2.5, "9", 10**400],
    "seconds": [None, -1, "1", [], math.inf, math.nan, 10**400],
    "config": [None, 5, []],
    "config_hash": [None, 5, "0" * 12],
    "files": [None, {}, {"model.safetensors": ""}, ["model.safetensors"], {"../../config.json": ""}],
}


@pytest.mark.parametrize("key", BAD_VALUES)
def test_a_state_with_impossible_values_is_damaged_even_with_a_right_digest(newest, key):
    good = (newest / "state.json").read_text()
    for value in BAD_VALUES[key]:
        (newest / "state.json").write_text(good)
        edit_state(newest, **{key: value})
        with pytest.raises(RltokError, match=r"^[^\n]*state\.json is damaged [^\n]*Delete step-00000008[^\n]*$"):
            read_state(newest)


@pytest.mark.parametrize("settings", [{"train": None}, {"nonsense": 1}, {"train": {"learning_rate": 1e9}}])
def test_settings_beyond_todays_limits_are_no_damage(newest, settings):
    edit_state(newest, config=settings)
    with pytest.raises(RltokError, match=r"step-00000008: this version does not take its settings .*Use the version that wrote"):
        read_state(newest)


@pytest.mark.parametrize(
    "content", ["null", '"text"', "3", "[" * 99_999, '{"format": null}', '{"format": 2, "step": 1e999}', "\0"]
)
def test_a_state_of_any_other_shape_is_damaged_too(newest, content):
    (newest / "state.json").write_text(content)
    with pytest.raises(RltokError, match="state.json is damaged.*Delete step-00000008"):
        read_state(newest)


def test_a_checkpoint_copied_under_a_name_of_its_own_still_loads(newest, tmp_path):
    assert rltok.load(shutil.copytree(newest, tmp_path / "best")).embedding.weight.isfinite().all()


def poison(tensors):
    tensors["output_head.weight"][0, 0] = math.nan


def overflow(tensors):
    for name in ("output_head.weight", "early_head.weight", "rule.project.weight"):
        tensors[name].fill_(3e38)
    tensors["rule.norm.weight"].fill_(1e3)
    tensors["rule.project.weight"][1:] *= -1  # the sum of what overflows upwards and downwards is nan


@pytest.mark.parametrize("command", [["evaluate"], ["evaluate", "--json"], ["show"], ["show", "--json"]], ids=" ".join)
def test_finite_weights_that_overflow_are_an_error_and_no_nan(newest, command, capsys):
    edit_tensors(newest, "model", overflow)
    more = ["--max-bytes", "500"] if command[0] == "evaluate" else []
    assert main([command[0], str(newest), *command[1:], *more]) == 2
    output = capsys.readouterr()
    assert output.out == "" and "come out as" in output.err and "Take an earlier checkpoint, or train again" in output.err


def test_benchmark_sets_are_not_scored_as_nan_either(newest, capsys, monkeypatch):
    edit_tensors(newest, "model", overflow)
    monkeypatch.setitem(TASKS, "piqa", replace(TASKS["piqa"], count=20))
    data = str(BUNDLED)
    assert main(["evaluate", str(newest), "--tasks", data, "--task", "piqa", "--max-items", "2"]) == 2
    output = capsys.readouterr()
    assert output.out == "" and "bits per byte come out as nan: the weights have grown too large" in output.err


def halve(tensors):
    tensors["output_head.weight"] = tensors["output_head.weight"].half()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (poison, "output_head.weight holds a number that is not finite"),
        (halve, "output_head.weight is .*float16, wanted .*float32"),
    ],
)
def test_weights_that_no_training_saves_are_named(newest, change, said):
    edit_tensors(newest, "model", change)
    with pytest.raises(RltokError, match=said):
        rltok.load(newest)


BAD_MOMENTS = {
    "none at all": (lambda moments: moments.clear(), "'0.exp_avg' stands on one side only"),
    "one lost": (lambda moments: moments.pop("3.exp_avg_sq"), "'3.exp_avg_sq' stands on one side only"),
    "one of nobody": (lambda moments: moments.update(what=torch.zeros(1)), "'what' stands on one side only"),
    "another shape": (lambda moments: moments.update({"0.exp_avg": torch.zeros(2)}), r"0.exp_avg is \(2,\), wanted"),
    "a count for each": (lambda moments: moments.update({"0.step": torch.zeros(2)}), r"0.step is \(2,\), wanted \(\)"),
    "infinite": (lambda moments: moments["0.exp_avg"].fill_(math.inf), "0.exp_avg holds a number that is not finite"),
}


@pytest.mark.parametrize("kind", BAD_MOMENTS)
def test_an_optimizer_that_does_not_fit_the_model_is_named(newest, kind):
    change, said = BAD_MOMENTS[kind]
    edit_tensors(newest, "optimizer", change)
    model = new_model(CONFIG, CPU)
    with pytest.raises(RltokError, match=said):
        restore(newest, model, make_optimizer(model, CONFIG.train), CONFIG)


@pytest.mark.parametrize("lost", [(5, "validation"), (4, "train"), (0, "validation"), (8, "validation")])
def test_a_lost_line_of_metrics_is_noticed_on_resume(run, tmp_path, lost):
    path = run / "metrics.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines if (line["step"], line["split"]) != lost))
    assert f"metrics.jsonl lacks the line of step {lost[0]} ({lost[1]}). Restore the file" in resume_refused(run, tmp_path)


@pytest.mark.parametrize("name", ["metrics.jsonl", "snapshots.jsonl"])
def test_a_log_that_is_missing_empty_or_a_pipe_is_named_on_resume(run, tmp_path, name):
    (run / name).write_text("")
    assert f"{name} lacks the line of step 0" in resume_refused(run, tmp_path)
    (run / name).unlink()
    assert f"{name} lacks the line of step 0" in resume_refused(run, tmp_path)
    os.mkfifo(run / name)
    assert f"{name} is no ordinary file" in resume_refused(run, tmp_path)


def test_a_validation_line_without_its_numbers_is_an_error_not_a_traceback(run, tmp_path):
    path = run / "metrics.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    path.write_text("".join(json.dumps({key: line[key] for key in ("step", "split")}) + "\n" for line in lines))
    assert "lacks a whole line of validation" in resume_refused(run, tmp_path)


@pytest.mark.parametrize("content", ["[]", "null", "5", '{"train": null}', '{"train": 3}', "[" * 99_999, "{"])
@pytest.mark.parametrize("name", ["config.json", "data.json"])
def test_descriptions_that_are_no_tables_are_damaged(run, tmp_path, name, content):
    (run / name).write_text(content)
    assert "holds a damaged config.json or data.json" in resume_refused(run, tmp_path)


def test_a_run_without_its_settings_is_to_get_them_back(run, tmp_path):
    (run / "config.json").unlink()
    assert "no config.json. Restore that file, or choose another --out" in resume_refused(run, tmp_path)


@pytest.mark.parametrize("owner", [(RunFolder, "sync"), (RunRecord, "save"), (Path, "write_text"), (Path, "mkdir")])
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_says_make_room(tmp_path, monkeypatch, owner, number):
    monkeypatch.setattr("rltok.runs.snapshots.FIXED_TEXTS", {"short": "Two gulls."})
    target = ("os.fsync",) if owner[1] == "sync" else owner
    monkeypatch.setattr(*target, failing(number))
    text = tmp_path / "text.txt"
    text.write_bytes(b"The cat sat on the mat, and then 12 dogs came by.\n" * 60)
    with pytest.raises(RltokError, match=f"^no room left on the disk of .*{tmp_path.name}.*Make room, then go on with --resume"):
        rltok.train(CONFIG, str(text), tmp_path / "run")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="a device of Linux")
def test_a_line_that_does_not_fit_on_the_disk_says_make_room_and_the_folder_still_closes(tmp_path):
    folder = RunFolder(tmp_path / "run", CONFIG, {}, False)
    folder._logs["metrics.jsonl"] = open("/dev/full", "a")
    with pytest.raises(RltokError, match="no room left on the disk.*--resume"):
        folder.log("metrics.jsonl", {"step": 1})
    folder.close()


def test_a_number_that_is_not_finite_is_not_logged(tmp_path):
    folder = RunFolder(tmp_path / "run", CONFIG, {}, False)
    folder.rewind(None, {})
    with pytest.raises(RltokError, match="update 4: a number for metrics.jsonl, not finite"):
        folder.log("metrics.jsonl", {"step": 4, "nll": math.nan})
    folder.close()
    assert (tmp_path / "run/metrics.jsonl").read_text() == ""


def test_stray_files_and_links_among_the_checkpoints_are_in_nobodys_way(tmp_path):
    place, elsewhere = tmp_path / "checkpoints", tmp_path / "elsewhere"
    place.mkdir()
    elsewhere.mkdir()
    (elsewhere / "kept").write_text("kept")
    (place / "file.tmp").write_text("stray")
    (place / "link.tmp").symlink_to(elsewhere)
    (place / "dangling.tmp").symlink_to(tmp_path / "nowhere")
    (place / "step-notes.txt").write_text("mine")
    model = new_model(CONFIG, CPU)
    progress = {"step": 0, "bytes": 0, "seconds": 0.0}
    saved = save_checkpoint(tmp_path, progress, model, make_optimizer(model, CONFIG.train), CONFIG)
    assert checkpoints(tmp_path) == [saved]
    assert sorted(path.name for path in place.iterdir()) == ["step-00000000", "step-notes.txt"]
    assert (elsewhere / "kept").read_text() == "kept"


def test_a_file_in_the_place_of_the_checkpoints_is_named(run, tmp_path):
    shutil.rmtree(run / "checkpoints")
    (run / "checkpoints").write_text("a file")
    assert "checkpoints is a file; checkpoints belong in a folder of that name" in resume_refused(run, tmp_path)


def test_the_lock_of_a_new_run_waits_for_no_pipe(tmp_path):
    (tmp_path / "piped").mkdir()
    os.mkfifo(tmp_path / "piped/.lock")
    with pytest.raises(RltokError, match=r"\.lock is no ordinary file"):
        RunFolder(tmp_path / "piped", CONFIG, {}, False)
