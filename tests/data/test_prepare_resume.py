"""`rltok prepare` interrupted: no half folder passes for a finished one, and the same command ends with the same text."""

import fcntl
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from paths import ROOT
from preparing import documents_of, request, write_jsonl, write_parquet

from rltok.config import DataConfig
from rltok.data import load_corpus, units
from rltok.data.prepare import prepare_folder
from rltok.errors import RltokError

RULES = {"cut": "windows", "sequence_length": 16, "validation_fraction": 0.2, "test_fraction": 0.2}


def contents(folder):
    """Bytes of every file but the lock; of the record all but how long it took."""
    files = {path.name: path.read_bytes() for path in folder.iterdir() if path.name != ".lock"}
    record = json.loads(files["prepared.json"])
    del record["timing"]
    return files | {"prepared.json": record}


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    """Two tables with parts, duplicates, nulls and texts that are too short, and the folder prepared without interruption."""
    place = tmp_path_factory.mktemp("sources")
    rows = [{"text": f"document {i % 50} of a corpus with some bytes", "id": f"book{i // 3}#{i % 3}"} for i in range(70)]
    rows[5]["text"], rows[40]["text"] = None, "short"
    paths = [write_jsonl(place / "a.jsonl", rows[:40]), write_parquet(place / "b.parquet", rows[40:])]
    prepare_folder(request(paths, **RULES), place / "whole")
    return paths, contents(place / "whole")


def calls_of(owner, name, monkeypatch, fail_at=None):
    """How often a function is called, in a list; the call of a number fails as on control-C."""
    original, calls = getattr(owner, name), []

    def counted(*args, **kwargs):
        calls.append(args)
        if len(calls) == fail_at:
            raise KeyboardInterrupt
        return original(*args, **kwargs)

    monkeypatch.setattr(owner, name, counted)
    return calls


@pytest.mark.parametrize("number", range(1, 10))
def test_interrupted_before_any_step_that_lasts_it_is_not_finished_and_can_be_given_again(tmp_path, sources, number, monkeypatch):
    (paths, whole), out = sources, tmp_path / "out"
    with monkeypatch.context() as patch:  # two units, three splits made and moved, the record
        moves = calls_of(Path, "replace", patch, fail_at=number)
        with pytest.raises(KeyboardInterrupt):
            prepare_folder(request(paths, **RULES), out)
        assert len(moves) == number
    with pytest.raises(RltokError, match="out is not finished. Give the `rltok prepare` command that began it again"):
        load_corpus(out, DataConfig(sequence_length=16, cut="windows"))
    prepare_folder(request(paths, **RULES), out)
    assert contents(out) == whole


def test_what_was_read_to_the_end_is_not_read_again(tmp_path, sources, monkeypatch):
    (paths, whole), out = sources, tmp_path / "out"
    with monkeypatch.context() as patch:
        calls_of(units, "digest_of", patch, fail_at=100)  # two a document, all of which are parts; the first table has 39
        with pytest.raises(KeyboardInterrupt):
            prepare_folder(request(paths, **RULES), out)
    read = calls_of(units, "new_arrow", monkeypatch)
    assert prepare_folder(request(paths, **RULES), out)["timing"]["bytes"] < whole["prepared.json"]["read"]["read_bytes"] / 2
    assert len(read) == 1 and contents(out) == whole


def test_text_that_changed_since_it_was_read_is_read_again(tmp_path, monkeypatch):
    path = write_jsonl(tmp_path / "a.jsonl", [{"text": "the old text of many bytes"}])
    made = request([path], **RULES | {"validation_fraction": 0, "test_fraction": 0})
    with monkeypatch.context() as patch:
        calls_of(Path, "replace", patch, fail_at=2)
        with pytest.raises(KeyboardInterrupt):
            prepare_folder(made, tmp_path / "out")
    write_jsonl(tmp_path / "a.jsonl", [{"text": "the new text of many bytes"}])
    prepare_folder(made, tmp_path / "out")
    assert documents_of(tmp_path / "out")["train"] == [b"the new text of many bytes"]


def start(paths, out, jobs):
    options = [f"--{name.replace('_', '-')}={value}" for name, value in RULES.items()]
    command = [sys.executable, "-m", "rltok.cli.main", "prepare", *paths, "--out", str(out), "--jobs", str(jobs), *options]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs kill -9")
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_a_real_process_with_workers_killed_at_a_random_moment_ends_with_the_same_text(tmp_path, how):
    paths = [
        write_jsonl(tmp_path / f"{n}.jsonl", [{"text": f"row {i} of {n}" + f", number {i * n % 700}" * 9} for i in range(1500)])
        for n in range(1, 9)
    ]
    prepare_folder(request(paths, **RULES), tmp_path / "whole")
    out, wanted = tmp_path / "out", random.Random(int(how)).randrange(1, 6)
    process = start(paths, out, 2)
    while process.poll() is None and len(list(out.glob(".unfinished/*.arrow"))) < wanted:
        time.sleep(0.002)
    process.send_signal(how)
    output = process.communicate()[1]
    assert process.returncode in (-how, 130) and "Traceback" not in output, output
    assert not (out / "prepared.json").exists()
    prepare_folder(request(paths, **RULES), out)
    assert contents(out) == contents(tmp_path / "whole")


# One folder, one command


def test_a_finished_folder_is_left_as_it_is(tmp_path, sources):
    paths, _ = sources
    record = prepare_folder(request(paths, **RULES), tmp_path / "out")
    assert {path.name for path in (tmp_path / "out").iterdir()} - {".lock"} == {*record["files"], "prepared.json"}
    times = {path: path.stat().st_mtime_ns for path in (tmp_path / "out").iterdir() if path.name != ".lock"}
    assert prepare_folder(request(paths, **RULES), tmp_path / "out") == record
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "out").iterdir() if path.name != ".lock"} == times


def test_another_command_in_a_finished_folder_is_an_error_that_says_what_differs(tmp_path, sources):
    paths, _ = sources
    prepare_folder(request(paths, **RULES), tmp_path / "out")
    for change, words in (
        ({"sequence_length": 32}, "sequence_length was 16, now 32"), ({"max_bytes": 500}, "max_bytes was None, now 500"),
        ({"validation": paths[0]}, "validation was None, now 'a.jsonl'"),
    ):  # fmt: skip
        with pytest.raises(RltokError, match=f"begun by another command: {words}. Give the same command, or choose another"):
            prepare_folder(request(paths, **RULES | change), tmp_path / "out")
    with pytest.raises(RltokError, match=r"sources was \['a.jsonl', 'b.parquet'\], now \['a.jsonl'\]"):
        prepare_folder(request(paths[:1], **RULES), tmp_path / "out")


def test_a_folder_with_something_else_or_in_use_is_refused(tmp_path, sources):
    paths, _ = sources
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("years of work")
    with pytest.raises(RltokError, match=r"is not empty .thesis.tex is there.. Choose another --out"):
        prepare_folder(request(paths, **RULES), tmp_path / "mine")
    assert [path.name for path in (tmp_path / "mine").iterdir() if path.name != ".lock"] == ["thesis.tex"]
    (tmp_path / "busy").mkdir()
    with (tmp_path / "busy" / ".lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(RltokError, match="another rltok prepare works in"):
            prepare_folder(request(paths, **RULES), tmp_path / "busy")


def test_files_of_other_people_in_an_unfinished_folder_stay(tmp_path, sources, monkeypatch):
    (paths, _), out = sources, tmp_path / "out"
    with monkeypatch.context() as patch:
        calls_of(Path, "replace", patch, fail_at=2)
        with pytest.raises(KeyboardInterrupt):
            prepare_folder(request(paths, **RULES), out)
    (out / "notes.tmp").write_text("mine")
    prepare_folder(request(paths, **RULES), out)
    assert (out / "notes.tmp").read_text() == "mine" and not (out / ".unfinished").exists()
