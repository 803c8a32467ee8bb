"""`rltok prepare` interrupted: whatever moment it is killed at, the same command ends with the same bytes as without."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from preparing import request, write_jsonl, write_parquet

from rltok.data.prepare import prepare_folder
from rltok.errors import RltokError

ROOT = Path(__file__).resolve().parents[1]
RULES = {"cut": "windows", "sequence_length": 16, "shard_bytes": 400, "validation_fraction": 0.2, "test_fraction": 0.2}


@pytest.fixture(autouse=True)
def quick_disk(monkeypatch):
    """No waiting for the disk: a kill loses nothing that was written."""
    monkeypatch.setattr(os, "fsync", lambda file: None)


def contents(folder):
    """Bytes of every file; of the record all but how long it took."""
    found = {path.name: path.read_bytes() for path in folder.iterdir() if path.name != ".lock"}
    record = json.loads(found["prepared.json"])
    del record["timing"]
    return found | {"prepared.json": record}


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    """Two tables with parts, duplicates, nulls and texts that are too short, and the folder prepared without interruption."""
    place = tmp_path_factory.mktemp("sources")
    rows = [{"text": f"document {i % 50} of a corpus with some bytes", "id": f"book{i // 3}#{i % 3}"} for i in range(70)]
    rows[5]["text"], rows[40]["text"] = None, "short"
    paths = [write_jsonl(place / "a.jsonl", rows[:40]), write_parquet(place / "b.parquet", rows[40:])]
    prepare_folder(request(paths, **RULES), place / "whole")
    return paths, contents(place / "whole")


@pytest.fixture(scope="module")
def killer():
    """Prepares in a child that dies at a point; True when it came to its end before."""
    environment = os.environ | {"PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests'}"}
    command = [sys.executable, str(ROOT / "tests" / "killed_prepares.py")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment) as process:

        def prepare(paths, out, point, call):
            order = {"sources": paths, "out": str(out), "rules": RULES, "point": point, "call": call}
            process.stdin.write(json.dumps(order) + "\n")
            process.stdin.flush()
            status = int(process.stdout.readline())
            assert status in (0, signal.SIGKILL)
            return status == 0

        yield prepare
        process.stdin.close()


@pytest.mark.parametrize("point, calls", [
    ("add", (1, 2, 25, 60)), ("save", (1, 4)), ("fsync", (1, 2, 3, 5, 17)), ("replace", (1, 2, 3, 4, 5, 8, 12, -2, -1)),
    ("lexsort", (1,)),
])  # fmt: skip
def test_killed_at_any_moment_it_goes_on_to_the_same_bytes(tmp_path, sources, killer, point, calls):
    paths, whole = sources
    if -1 in calls:  # the last ones: of kept.npy and of the record
        last = 1 + 3 * sum(name.endswith(".bin") for name in whole) + 2
        calls = [call if call > 0 else last + 1 + call for call in calls]
    for call in calls:
        out = tmp_path / f"{point}-{call}"
        assert not killer(paths, out, point, call), f"{point} was called less than {call} times"
        assert not (out / "prepared.json").exists()
        prepare_folder(request(paths, **RULES), out)
        assert contents(out) == whole


def test_killed_again_and_again_it_loses_nothing_that_was_sealed(tmp_path, sources, killer):
    (paths, whole), draw, sealed = sources, random.Random(5), set()
    for _ in range(60):
        if killer(paths, tmp_path / "out", *draw.choice([("add", 9), ("fsync", 5), ("replace", 6), ("replace", 8), ("save", 3)])):
            break
        now = {path.name for path in (tmp_path / "out").glob("*-*.json")}
        assert sealed <= now
        sealed = now
    assert len(sealed) > 4 and contents(tmp_path / "out") == whole


def test_a_seal_that_a_loss_of_power_left_empty_and_a_lost_file_are_written_anew(tmp_path, sources):
    paths, whole = sources
    for name, data in (("00000-001.json", b""), ("00001-000.json", b"{}"), ("00000-002.bin", b"x"), ("00000-000.idx", None)):
        out = tmp_path / name
        prepare_folder(request(paths, **RULES), out)
        (out / "prepared.json").unlink()
        (out / name).write_bytes(data) if data is not None else (out / name).unlink()
        prepare_folder(request(paths, **RULES), out)
        assert contents(out) == whole


def start(paths, out, jobs, rules):
    options = [f"--{name.replace('_', '-')}={value}" for name, value in rules.items()]
    command = [sys.executable, "-m", "rltok.cli.main", "prepare", *paths, "--out", str(out), "--jobs", str(jobs), *options]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs kill -9")
@pytest.mark.parametrize("jobs, how", [(2, signal.SIGKILL), (2, signal.SIGINT)])
def test_a_real_process_with_workers_killed_at_random_moments_ends_with_the_same_bytes(tmp_path, jobs, how):
    draw, rules = random.Random(int(how)), RULES | {"shard_bytes": 20_000}
    paths = [
        write_jsonl(tmp_path / f"{n}.jsonl", [{"text": f"row {i} of {n}" + f", number {i * n % 700}" * 9} for i in range(1500)])
        for n in range(1, 4)
    ]
    prepare_folder(request(paths, **rules), tmp_path / "whole")
    out, killed = tmp_path / "out", 0
    for _ in range(2):
        before = len(list(out.glob("*-*.json"))) if out.exists() else 0
        process = start(paths, out, jobs, rules)
        while process.poll() is None and len(list(out.glob("*-*.json"))) <= before + draw.randrange(2, 12):
            time.sleep(0.002)
        process.send_signal(how)
        told = process.communicate()[1]
        killed += process.returncode in (-how, 130)
        assert "Traceback" not in told, told
    process = start(paths, out, jobs, rules)
    assert process.wait() == 0, process.communicate()[1]
    process.communicate()
    assert killed and contents(out) == contents(tmp_path / "whole")


# One folder, one command


def test_a_finished_folder_is_left_as_it_is(tmp_path, sources):
    paths, _ = sources
    record = prepare_folder(request(paths, **RULES), tmp_path / "out")
    times = {path: path.stat().st_mtime_ns for path in (tmp_path / "out").iterdir()}
    assert prepare_folder(request(paths, **RULES), tmp_path / "out") == record
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "out").iterdir()} == times


@pytest.mark.parametrize("finished", [True, False])
def test_another_command_in_the_folder_is_an_error_that_says_what_differs(tmp_path, sources, finished):
    paths, _ = sources
    prepare_folder(request(paths, **RULES), tmp_path / "out")
    if not finished:
        (tmp_path / "out" / "prepared.json").unlink()
    for change, told in (
        ({"sequence_length": 32}, "sequence_length was 16, now 32"), ({"shard_bytes": 500}, "shard_bytes was 400, now 500"),
        ({"validation": paths[0]}, "validation was None, now 'a.jsonl'"),
    ):  # fmt: skip
        with pytest.raises(RltokError, match=f"begun by another command: {told}"):
            prepare_folder(request(paths, **RULES | change), tmp_path / "out")
    with pytest.raises(RltokError, match=r"sources was \['a.jsonl', 'b.parquet'\], now \['a.jsonl'\]"):
        prepare_folder(request(paths[:1], **RULES), tmp_path / "out")


def test_files_that_came_or_went_are_an_error_while_one_goes_on(tmp_path):
    (tmp_path / "t").mkdir()
    write_jsonl(tmp_path / "t" / "a.jsonl", [{"text": "some text of many bytes"}])
    made = request([tmp_path / "t"], **RULES)
    prepare_folder(made, tmp_path / "out")
    (tmp_path / "out" / "prepared.json").unlink()
    write_jsonl(tmp_path / "t" / "b.jsonl", [{"text": "more text of many bytes"}])
    with pytest.raises(RltokError, match="added to or removed from .*began with 1 in all, now there are 2; new: b.jsonl. Put"):
        prepare_folder(made, tmp_path / "out")


def test_a_folder_with_something_else_or_in_use_or_out_of_reach_is_refused(tmp_path, sources, monkeypatch):
    paths, _ = sources
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("years of work")
    with pytest.raises(RltokError, match=r"is not empty .thesis.tex is there.. Choose another --out"):
        prepare_folder(request(paths, **RULES), tmp_path / "mine")
    assert [path.name for path in (tmp_path / "mine").iterdir() if path.name != ".lock"] == ["thesis.tex"]
    import fcntl

    (tmp_path / "busy").mkdir()
    with (tmp_path / "busy" / ".lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(RltokError, match="another rltok prepare works in"):
            prepare_folder(request(paths, **RULES), tmp_path / "busy")


def test_a_full_disk_is_one_line_and_what_is_sealed_stays(tmp_path, sources, monkeypatch):
    (paths, whole), calls = sources, []

    def full(file):
        calls.append(file)
        if len(calls) == 8:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(RltokError, match="no room left on the disk of .*Make room, then go on with the same command"):
        prepare_folder(request(paths, **RULES), tmp_path / "out")
    assert len(list((tmp_path / "out").glob("*-*.json"))) == 2 and not list((tmp_path / "out").glob("*.tmp"))
    prepare_folder(request(paths, **RULES), tmp_path / "out")
    assert contents(tmp_path / "out") == whole
