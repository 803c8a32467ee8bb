"""`rltok prepare` from the command line: its table, its check for damage, training on it, one line for a mistake."""

import json
import shlex
import shutil

import pytest
from preparing import write_jsonl
from runs import SETTINGS, as_options

from rltok.cli import commands
from rltok.cli.main import main

SMALL = as_options({key: value for key, value in SETTINGS.items() if key.startswith("model.")})
ROWS = [{"text": f"document {i} of a corpus about gulls and ferries", "source": f"s{i % 2}"} for i in range(60)]
OPTIONS = ["--cut", "windows", "--sequence-length", "16", "--jobs", "1"]
SHARES = ["--validation-fraction", "0.2", "--test-fraction", "0.3"]


@pytest.fixture
def run(run):
    """As everywhere, and where the command fails it says nothing but why."""

    def run_alone(*arguments, code=0):
        output = run(*arguments, code=code)
        if code:
            said = [line for line in output.err.splitlines() if not line.startswith("preset tiny fitted")]
            assert len(said) == 1 and said[0].startswith("rltok: ")
        return output

    return run_alone


@pytest.fixture
def source(tmp_path):
    return write_jsonl(tmp_path / "a.jsonl", ROWS + ROWS[:3] + [{"text": None}, {"text": ""}, {"text": "short"}])


def test_it_prints_what_it_kept_and_left_out_and_how_to_train(run, source, tmp_path):
    output = run("prepare", source, "--out", tmp_path / "out", *OPTIONS, *SHARES)
    lines = output.out.splitlines()
    record = json.loads((tmp_path / "out" / "prepared.json").read_text())
    for line, split in zip(lines[1:4], ("train", "validation", "test"), strict=True):
        counts = record["splits"][split]
        assert line.split() == [split, *(str(counts[key]) for key in ("documents", "bytes", "rows", "duplicates"))]
    for part in (
        "66 documents read, 63 stored", "1 left out: too short", "1 left out: empty", "without text (null) (first: a.jsonl: 64)",
        "s0", f"rltok train --data {tmp_path / 'out'} --set data.cut=windows data.sequence_length=16",
    ):  # fmt: skip
        assert part in output.out
    again = run("prepare", source, "--out", tmp_path / "out", *OPTIONS, *SHARES)
    assert "finished already" in again.err and again.out.splitlines()[:4] == lines[:4]
    assert json.loads(run("prepare", source, "--out", tmp_path / "out", *OPTIONS, *SHARES, "--json").out) == record


@pytest.mark.parametrize("name", ["train.arrow", "validation.arrow", "test.arrow"])
def test_a_damaged_file_is_found_by_its_hash_when_checked_and_when_loaded(run, source, tmp_path, name):
    out = tmp_path / "out"
    run("prepare", source, "--out", out, *OPTIONS, *SHARES)
    assert "all 3 files are as they were written" in run("prepare", "--check", "--out", out).out
    data = bytearray((out / name).read_bytes())
    data[len(data) // 2] ^= 1
    (out / name).write_bytes(data)
    stated = json.loads((out / "prepared.json").read_text())["files"][name]["sha256"]
    message = run("prepare", "--check", "--out", out, code=2).err
    assert f"1 of 3 files are damaged: {name} of {out} is damaged: expected SHA-256 {stated}, found " in message
    output = run("train", "--data", out, "--out", tmp_path / "run", *SMALL, "data.sequence_length=16", code=2).err
    assert f"{name} of" in output and stated in output
    (out / name).write_bytes(data[:-1])
    assert f"expected {len(data)} bytes, found {len(data) - 1}" in run("prepare", "--check", "--out", out, code=2).err
    (out / name).unlink()
    message = run("prepare", "--check", "--out", out, code=2).err
    assert "cannot be read" in message and "Delete the folder and give the same `rltok prepare` again." in message
    assert len(json.loads(run_json(out))["damaged"]) == 1
    shutil.rmtree(out)  # the remedy that the message names
    run("prepare", source, "--out", out, *OPTIONS, *SHARES)
    run("prepare", "--check", "--out", out)


def run_json(out):
    import contextlib
    import io

    with contextlib.redirect_stdout(io.StringIO()) as output, contextlib.redirect_stderr(io.StringIO()):
        assert main(["prepare", "--check", "--json", "--out", str(out)]) == 2
    return output.getvalue()


def test_one_trains_on_a_prepared_folder_and_scores_its_splits(run, source, tmp_path):
    run("prepare", source, "--out", tmp_path / "out", *OPTIONS, *SHARES)
    settings = [*SMALL, "data.sequence_length=16", "data.cut=windows", "train.sequences_per_update=4", "train.micro_batch=4"]
    run("train", "--data", tmp_path / "out", "--out", tmp_path / "run", *settings, "train.training_bytes=256")
    data = json.loads((tmp_path / "run" / "data.json").read_text())
    counts = json.loads((tmp_path / "out" / "prepared.json").read_text())["splits"]
    assert data["train"]["rows"] == counts["train"]["rows"] and data["validation"]["rows"] == counts["validation"]["rows"]
    for split in ("validation", "test"):
        output = run("evaluate", tmp_path / "run", "--data", tmp_path / "out", "--split", split, "--json").out
        assert json.loads(output)["rows"] == counts[split]["rows"]
    few = run("evaluate", tmp_path / "run", "--data", tmp_path / "out", "--max-bytes", "40", "--json").out
    assert json.loads(few)["rows"] == 2
    assert "--split validation or test" in run(
        "evaluate", tmp_path / "run", "--data", tmp_path / "out", "--split", "all", code=2
    ).err  # fmt: skip


def test_bytes_that_are_no_text_are_let_through_when_asked(run, tmp_path):
    (tmp_path / "a.txt").write_bytes(b"caf\xe9 in Latin-1, which is text")
    (tmp_path / "b.txt").write_bytes(b"plain text of many bytes")
    for name, extra, stored in (("out", [], 1), ("any", ["--any-bytes"], 2)):
        output = run("prepare", tmp_path / "a.txt", tmp_path / "b.txt", "--out", tmp_path / name, *OPTIONS, *extra, "--json")
        assert json.loads(output.out)["read"]["stored"] == stored


@pytest.mark.parametrize("options, complaint", [
    (["--sequence-length", "4"], "--sequence-length must be between 8 and 16777216; got 4"),
    (["--sequence-length", str(2**64)], "--sequence-length must be between 8 and 16777216; got 18446744073709551616"),
    (["--jobs", "0"], "--jobs must be at least 1; got 0"),
    (["--validation-fraction", "1"], "--validation-fraction must be at least 0 and less than 1; got 1.0"),
    (["--test-fraction", "nan"], "--test-fraction must be at least 0 and less than 1; got nan"),
    (["--validation-fraction", "0.5", "--test-fraction", "0.5"], "their sum must be less than 1, or nothing is left"),
    (["--max-bytes", "9"], "--max-bytes must be at least one row of --sequence-length 16; got 9"),
    (["--out", ""], "--out is empty"),
    (["--validation", "nowhere.txt"], "no such file, folder or kind of data: 'nowhere.txt'"),
])  # fmt: skip
def test_a_mistake_is_one_line_and_leaves_no_record(run, source, tmp_path, options, complaint):
    message = run("prepare", source, "--out", tmp_path / "out", *OPTIONS, *options, code=2).err
    assert complaint in message
    assert not (tmp_path / "out" / "prepared.json").exists()


def test_missing_sources_folders_and_files_in_the_way_are_one_line(run, source, tmp_path):
    assert "there is no SOURCE" in run("prepare", "--out", tmp_path / "out", code=2).err
    assert "no such file" in run("prepare", "nowhere", "--out", tmp_path / "out", code=2).err
    assert "is a file; --out needs a folder" in run("prepare", source, "--out", source, code=2).err
    assert "there is no folder" in run("prepare", "--check", "--out", tmp_path / "none", code=2).err
    run("prepare", source, "--out", tmp_path / "done", *OPTIONS)
    (tmp_path / "done" / "prepared.json").write_text('{"what": 1')
    assert "prepared.json is damaged" in run("prepare", "--check", "--out", tmp_path / "done", code=2).err
    (tmp_path / "done" / "prepared.json").write_text('{"what": "rltok prepare", "schema": 1}')
    for command in (["--check"], [source, *OPTIONS]):
        assert "another version of rltok prepare" in run("prepare", *command, "--out", tmp_path / "done", code=2).err


def test_an_interruption_says_how_to_go_on(monkeypatch, source, tmp_path, capsys):
    def interrupt(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr("rltok.cli.prepare.prepare_folder", interrupt)
    assert commands.prepare and main(["prepare", source, "--out", str(tmp_path / "out")]) == 130
    assert "interrupted. The same command reads only what it had not read to the end." in capsys.readouterr().err


def test_the_command_that_is_printed_for_little_text_in_windows_runs(run, tmp_path):
    (tmp_path / "a.txt").write_bytes(b"Little text, and less than a batch of long rows. " * 500)
    output = run("prepare", tmp_path / "a.txt", "--out", tmp_path / "out", "--cut", "windows").out
    printed = next(line for line in output.splitlines() if line.startswith("train on it: rltok "))
    command = shlex.split(printed.removeprefix("train on it: rltok "))
    assert command[-1] == "data.cut=windows"
    run(*command, "train.training_bytes=20000", "--out", tmp_path / "run")
