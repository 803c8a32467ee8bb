"""Bad input at the command line: one line that says what to do, exit code 2, nothing written or changed."""

import gzip
import json
import os
import re
import shutil
import stat
from pathlib import Path

import pytest
import torch
from runs import SETTINGS, as_options, digests, small_config, write_text

from rltok.cli.main import main
from rltok.runs import training
from rltok.runs.checkpoint import checkpoints
from rltok.runs.folder import RunFolder
from rltok.runs.loading import load
from rltok.system.digest import with_digest

pytestmark = pytest.mark.usefixtures("shapes_unchecked")
PRESET = ["--preset", "tiny", *as_options(SETTINGS), "--device", "cpu"]
TOLD = ("backend ", "training text: ", "a short run for a policy: ")


@pytest.fixture
def refused(capsys):
    """Run a command that must be refused; its message, which is one line on stderr."""

    def run(*arguments) -> str:
        assert main([str(argument) for argument in arguments]) == 2
        out, err = capsys.readouterr()
        assert out == ""
        *progress, message = err.splitlines(keepends=True)
        assert all("kB/s" in line or line.startswith(TOLD) for line in progress)
        assert message.startswith("rltok: ") and message.endswith("\n")
        return message

    return run


@pytest.fixture
def text(tmp_path):
    return write_text(tmp_path)


@pytest.fixture
def run(finished, tmp_path):
    """A copy of a finished run that may be damaged."""
    return shutil.copytree(finished, tmp_path / "run")


def folder_of(place: Path, **files: bytes) -> Path:
    place.mkdir()
    for name, data in files.items():
        (place / name.replace("_", ".")).write_bytes(data)
    return place


BAD_TEXT = {
    "an empty file": (lambda place: write_text(place, b""), "holds no text: it is empty.*Give another file"),
    "a missing file": (lambda place: place / "absent.txt", "no such file, folder or kind of data.*Allowed: sample"),
    "a folder with no text": (lambda place: folder_of(place / "f", a_png=b"x"), "has no text: no file ends in .txt"),
    "an empty folder": (lambda place: folder_of(place / "f"), "has no text: no file ends in .txt"),
    "a folder of empty files": (lambda place: folder_of(place / "f", a_txt=b"", b_txt=b""), "holds no text"),
    "binary junk": (lambda place: write_text(place, gzip.compress(os.urandom(4000))), "does not look like text.*--any-bytes"),
    "a table without text": (
        lambda place: folder_of(place / "f", a_jsonl=b'{"body": "x"}\n'),
        "'text' in|no 'text', only 'body'",
    ),
}


@pytest.mark.parametrize("kind", BAD_TEXT)
@pytest.mark.parametrize("preset", [PRESET, ["--device", "cpu"]], ids=["preset", "fitted"])
def test_text_that_cannot_be_trained_on(kind, preset, refused, tmp_path):
    make, said = BAD_TEXT[kind]
    message = refused("train", *preset, "--data", make(tmp_path), "--out", tmp_path / "run")
    assert re.search(said, message)
    assert not (tmp_path / "run").exists()


BAD_SETTINGS = {
    "a wrong preset": (["--preset", "tinny"], "no preset 'tinny'.*Sizes: .*Did you mean 'tiny'"),
    "a preset like nothing": (["--preset", "qqq"], "no preset 'qqq'. Sizes: 147m, "),
    "an unknown key": (["--set", "objective.gama=0.9"], "objective has no setting 'gama'. Did you mean 'gamma'"),
    "an unknown section": (["--set", "objektive.gamma=0.9"], "config has no setting 'objektive'. Did you mean 'objective'"),
    "a key without a value": (["--set", "objective.gamma"], "takes SETTING=VALUE"),
    "a section as a key": (["--set", "objective=1"], "'objective' is a section; name one of its settings: gamma"),
    "a value of the wrong kind": (["--set", "train.seed=soon"], "train.seed must be a whole number below 2..63; got 'soon'"),
    "fp16 on a CPU": (
        ["--preset", "tiny", "--device", "cpu", "--set", "train.precision=fp16"],
        "CUDA card; the device is cpu. Set",
    ),
    "a fraction over zero": (["--set", "model.rule.target_rate=1/0"], "target_rate must be a finite number .fp32.; got '1/0'"),
    "a scale that overflows": (["--set", "model.rule.scale=1e-38"], "model.rule.scale must be between 0.001 and 1000000; got"),
    "a size beyond int64": (["--set", "model.byte_mlp_ratio=9223372036854775807"], "byte_mlp_ratio must be between 1 and 64"),
    "a number beyond int64": (["--set", "train.log_every=18446744073709551616"], "train.log_every must be a whole number below"),
    "a number that is none": (["--set", "train.learning_rate=NaN"], "train.learning_rate must be a finite number"),
    "a rate over one": (["--set", "model.rule.target_rate=5"], "strictly between 0 and 1.*write 1/5"),
    "preset and config": (["--preset", "tiny", "--config", "x.json"], "give --preset or --config, not both"),
    "a missing config": (["--config", "absent.json"], "there is no file absent.json. Name the config.json of a run, or"),
    "a model as config": (["--config", "small-english"], "there is no file small-english. Name .* a preset: --preset tiny"),
    "a config below a file": (["--config", f"{__file__}/c.json"], "there is no file .*test_bad_input.py/c.json. Name"),
    "a config with an endless name": (["--config", "c" * 300], "--config 'c+' cannot be a file's name"),
    "a device there is not": (["--preset", "tiny", "--device", "gpu"], "no device 'gpu'. Use auto, cpu or cuda"),
}


@pytest.mark.parametrize("kind", BAD_SETTINGS)
def test_settings_that_make_no_sense(kind, refused, text, tmp_path):
    options, said = BAD_SETTINGS[kind]
    message = refused("train", "--data", text, "--out", tmp_path / "run", *options)
    assert re.search(said, message)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("content", ["{", "[1]", '{"train": {"seeed": 1}}', '{"train": 3}', "\udcff"])
def test_a_config_file_that_is_none(content, refused, text, tmp_path):
    (tmp_path / "c.json").write_bytes(content.encode(errors="surrogateescape"))
    message = refused("train", "--data", text, "--out", tmp_path / "run", "--config", tmp_path / "c.json")
    assert message.startswith(f"rltok: {tmp_path / 'c.json'}")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("number", [0, -1])
def test_a_limit_of_no_bytes_is_not_too_little_text(number, refused, text, tmp_path):
    for command in ("train", "compare"):
        message = refused(command, "--data", text, "--out", tmp_path / "run", f"--max-bytes={number}")
        assert f"--max-bytes must be at least 1; got {number}. Leave it out" in message


def test_a_corpus_shorter_than_one_batch_says_how_many_rows_and_what_to_set(refused, tmp_path):
    short = write_text(tmp_path, b"One hundred bytes or so of text. " * 5)
    message = refused("train", *PRESET, "--data", short, "--out", tmp_path / "run")
    assert "less than one batch of 4" in message and "--set data.cut=windows data.sequence_length=" in message
    assert not (tmp_path / "run").exists()


def test_a_second_run_into_the_same_folder_is_refused_before_the_text_is_read(run, refused, tmp_path):
    before = digests(run)
    assert "already holds a run. Add --resume" in refused("train", *PRESET, "--data", tmp_path / "absent", "--out", run)
    assert digests(run) == before


def test_resuming_with_other_settings_or_other_text_names_the_difference_and_changes_nothing(run, text, refused, tmp_path):
    before = digests(run)
    command = ["train", *PRESET, "--out", run, "--resume", "--data"]
    assert "objective.gamma 0.9 -> 0.5" in refused(*command, text, "--set", "objective.gamma=0.5")
    other = folder_of(tmp_path / "other", text_txt=b"Other text than before. " * 150) / "text.txt"
    assert "was trained with other train text" in refused(*command, other)
    assert digests(run) == before


def test_a_run_in_use_is_refused(text, refused, tmp_path):
    out = tmp_path / "run"
    owner = RunFolder(out, small_config(), {}, False)
    message = refused("train", *PRESET, "--data", text, "--out", out, "--resume")
    owner.close()
    assert "another process is training in" in message


def test_a_foreign_folder_and_a_file_are_no_place_for_a_run(text, refused, tmp_path):
    before = digests(tmp_path)
    assert "not empty and holds no run" in refused("train", *PRESET, "--data", text, "--out", tmp_path)
    assert "is a file; --out needs a folder" in refused("train", *PRESET, "--data", text, "--out", text)
    assert "cannot write to" in refused("train", *PRESET, "--data", text, "--out", f"{text}/run")
    assert digests(tmp_path) == before


def test_a_folder_that_may_not_be_written_says_so(text, refused, tmp_path, monkeypatch):
    def forbidden(path, *args, **kwargs):
        raise PermissionError(13, "Permission denied", str(path))  # as the system has it

    monkeypatch.setattr(Path, "mkdir", forbidden)
    message = refused("train", *PRESET, "--data", text, "--out", tmp_path / "run")
    assert f"cannot write to {tmp_path / 'run'} (Permission denied). Choose a folder you may write to with --out" in message


@pytest.mark.skipif(os.geteuid() == 0, reason="to root no folder is read-only")
def test_a_folder_that_is_read_only_says_so(text, refused, tmp_path):
    place = tmp_path / "place"
    place.mkdir()
    place.chmod(stat.S_IRUSR | stat.S_IXUSR)
    assert "cannot write to" in refused("train", *PRESET, "--data", text, "--out", place / "run")
    assert list(place.iterdir()) == []


@pytest.mark.parametrize("name", ["fineweb", "hf:someone/something"])
@pytest.mark.parametrize("command", ["train", "evaluate"])
def test_without_a_network_a_hub_dataset_fails_and_names_the_sample(name, command, run, refused, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    before = digests(run)
    where = ["--out", tmp_path / "new"] if command == "train" else [run, "--max-bytes", "5000"]
    message = refused(command, *where, "--data", name)
    assert "cannot reach the Hugging Face hub" in message and "--data sample" in message
    assert digests(run) == before and not (tmp_path / "new").exists()


def test_a_stream_without_an_end_needs_a_limit_before_the_network_is_asked(run, refused):
    assert "streams without a known end. Say how much to read: --max-bytes" in refused("evaluate", run, "--data", "fineweb")


@pytest.mark.parametrize("command", ["evaluate", "show"])
def test_runs_and_checkpoints_that_cannot_be_loaded(command, run, refused, tmp_path):
    assert "neither a run's folder nor a checkpoint" in refused(command, tmp_path / "absent")
    (tmp_path / "empty").mkdir()
    assert "no finished checkpoint" in refused(command, tmp_path / "empty")
    newest = checkpoints(run)[-1]
    weights = newest / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-50])
    assert "model.safetensors is truncated or changed" in refused(command, run)
    (newest / "state.json").write_text('{"format":')
    assert f"{newest} is not a complete checkpoint" in refused(command, newest)


def test_resume_from_a_truncated_checkpoint_is_refused_and_nothing_is_overwritten(run, text, refused):
    weights = checkpoints(run)[-1] / "optimizer.safetensors"
    weights.write_bytes(weights.read_bytes()[:100])
    before = digests(run)
    assert "optimizer.safetensors is truncated" in refused("train", *PRESET, "--data", text, "--out", run, "--resume")
    assert digests(run) == before


def test_a_checkpoint_of_another_configuration_in_the_folder_is_refused(run, text, refused):
    state = checkpoints(run)[-1] / "state.json"
    stored = json.loads(state.read_text())
    stored["config"]["train"]["seed"], stored["config_hash"] = 7, small_config(train__seed=7).digest()
    state.write_text(json.dumps(with_digest(stored)))
    before = digests(run)
    message = refused("train", *PRESET, "--data", text, "--out", run, "--resume")
    assert "belongs to another configuration: train.seed 7 -> 0" in message
    assert digests(run) == before


def test_a_nan_loss_ends_the_command_with_the_number_of_the_update(text, refused, tmp_path, monkeypatch):
    original = training.train_step

    def poisoned(model, optimizer, batches, config, step, **more):
        if step == 5:
            with torch.no_grad():
                model.embedding.weight.fill_(float("nan"))
        return original(model, optimizer, batches, config, step, **more)

    monkeypatch.setattr(training, "train_step", poisoned)
    message = refused("train", *PRESET, "--data", text, "--out", tmp_path / "run")
    assert "rltok: update 5: loss nan" in message and "Lower train.learning_rate" in message
    assert [path.name for path in checkpoints(tmp_path / "run")] == ["step-00000003"]
    assert load(tmp_path / "run").embedding.weight.isfinite().all()


BAD_SHOW = {
    "no text": ([""], "no text to show. Give at least one byte"),
    "two texts": (["words", "--file", "x"], "give a text or --file, not both"),
    "a missing file": (["--file", "absent"], "No such file.*absent"),
    "a folder": (["--file", "."], "is a folder. Name one of its files"),
    "a device": (["--file", os.devnull], "is no ordinary file. Pipe its text in: --file -"),
    "no bytes": (["--bytes", "0", "x"], "--bytes must lie between 1 and 50000; got 0"),
    "half a surrogate pair": (["a\udc80"], "character 1 is the lone surrogate U.DC80"),
}


def test_an_empty_file_cannot_be_shown(finished, refused, tmp_path):
    assert "no text to show" in refused("show", finished, "--file", write_text(tmp_path, b""))


@pytest.mark.parametrize("kind", BAD_SHOW)
def test_texts_that_cannot_be_shown(kind, finished, refused):
    options, said = BAD_SHOW[kind]
    assert re.search(said, refused("show", finished, *options))


def test_a_split_that_the_text_has_not(finished, text, refused):
    for split in ("validation", "test"):  # the whole text holds rows that were trained on
        message = refused("evaluate", finished, "--data", text, "--split", split)
        assert f"has no {split} split. Leave --split out" in message


def test_debug_shows_where_an_error_came_from(finished):
    with pytest.raises(ValueError, match="no text to show"):
        main(["show", str(finished), "", "--debug"])


BAD_WORDS = {
    "no command": ([], "the following arguments are required: COMMAND. See: rltok --help"),
    "an unknown command": (["trian"], "invalid choice: 'trian'"),
    "an unknown option": (["train", "--preset", "tiny", "--fast"], "unknown arguments: --fast. See: rltok train --help"),
    "a setting as an option": (
        ["train", "--micro-batch=2"],
        "--micro-batch=2 (a setting: --set train.micro_batch=). See: rltok train",
    ),
    "two settings as options": (
        ["train", "--gamma", "1", "--seed-of-all", "2"],
        "(a setting: --set objective.gamma=). See: rltok train",
    ),
    "a setting of a command without": (
        ["models", "--precision=fp16"],
        "unknown arguments: --precision=fp16. See: rltok models",
    ),
    "a number that is none": (["train", "--max-bytes", "many"], "invalid int value: 'many'. See: rltok train --help"),
    "one word too many": (["show", "run", "some", "words"], "unknown arguments: words"),
    "options without a command": (["evaluate"], "required: run. See: rltok evaluate --help"),
}


@pytest.mark.parametrize("kind", BAD_WORDS)
def test_command_lines_that_cannot_be_understood_get_one_line_too(kind, capsys):
    arguments, said = BAD_WORDS[kind]
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    out, err = capsys.readouterr()
    assert (ended.value.code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("rltok: ") and said in err
