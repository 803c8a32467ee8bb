"""rltok.runs.sessions: a resumed run says where it was interrupted and what that cost, and a finished one keeps its list."""

import errno
import json
import math
from dataclasses import replace

import pytest
import torch
from runs import json_lines, small_config, write_text
from sweeps import record as evidence

import rltok
from rltok.errors import RltokError
from rltok.evidence.record_file import check
from rltok.runs import training
from rltok.runs.folder import RunFolder
from rltok.runs.sessions import ANNOUNCED, NAME, announce, furthest, problem, sessions_of, settle
from rltok.system.digest import with_digest

HERE = {"device": "cpu", "commit": "1" * 40}


pytestmark = pytest.mark.usefixtures("shapes_unchecked")


@pytest.fixture
def text(tmp_path, monkeypatch):
    monkeypatch.setattr("rltok.runs.snapshots.FIXED_TEXTS", {"short": "Two gulls."})
    monkeypatch.setenv("RLTOK_COMMIT", "1" * 40)
    return write_text(tmp_path)


def train_until(monkeypatch, update, config, text, out, **more):
    """Train; control-C comes at the start of this update, None for never."""
    original = training.train_step

    def step(model, optimizer, batches, config, step, **rest):
        if step == update:
            raise KeyboardInterrupt
        return original(model, optimizer, batches, config, step, **rest)

    with monkeypatch.context() as patch:
        patch.setattr(training, "train_step", step)
        if update is None:
            return rltok.train(config, text, out, resume=True, **more)
        with pytest.raises(KeyboardInterrupt):
            rltok.train(config, text, out, resume=True, **more)


def seconds_at(out, step):
    """Seconds in the line of training of an update, as metrics.jsonl has it now."""
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    return next(line["seconds"] for line in lines if (line["step"], line["split"]) == (step, "train"))


def test_a_run_that_was_never_interrupted_has_one_session(text, tmp_path):
    record = rltok.train(small_config(), text, tmp_path / "run")
    first = {"after": 0, "seconds": 0.0, "redone": 0, "lost_seconds": 0.0} | {"device": record.device, "commit": "1" * 40}
    assert record.sessions == [first] == json_lines_with_times(tmp_path / "run")
    assert json.loads((tmp_path / "run/record.json").read_text())["sessions"] == [first]


def test_a_resume_with_another_number_of_threads_says_that_digits_may_differ_from_there_on(text, tmp_path, monkeypatch, capsys):
    """The session with two threads is stopped before its first checkpoint, so what is kept was computed with one."""
    out, threads = tmp_path / "run", torch.get_num_threads()
    try:
        for count, update in ((1, 5), (2, 5), (1, 5), (2, None)):
            torch.set_num_threads(count)
            train_until(monkeypatch, update, small_config(), text, out, progress=True)
            output = [line for line in capsys.readouterr().err.splitlines() if "differ" in line]
            device = training.device_name(torch.device("cpu"))
            here = f"digits may differ from update 4 on: computed on {device}, until now on {device.replace('2 th', '1 th')}"
            assert output == ([here] if count == 2 else [])
        rltok.train(small_config(), text, out, resume=True, progress=True)
        assert "differ" not in capsys.readouterr().err  # nothing is computed
    finally:
        torch.set_num_threads(threads)


def json_lines_with_times(out):
    return [json.loads(line) for line in (out / NAME).read_text().splitlines()]


def test_every_interruption_is_told_with_the_updates_and_seconds_it_cost(text, tmp_path, monkeypatch):
    """Checkpoints after 3 and 6; lines of training after every update."""
    config, out = small_config(train__log_every=1), tmp_path / "run"
    train_until(monkeypatch, 3, config, text, out)  # before any checkpoint: updates 1 and 2 are lost
    first = seconds_at(out, 2)
    train_until(monkeypatch, 6, config, text, out)  # after checkpoint 3: 4 and 5 are lost
    kept, reached = seconds_at(out, 3), seconds_at(out, 5)
    train_until(monkeypatch, 4, config, text, out)  # at once again: nothing is lost
    record = train_until(monkeypatch, None, config, text, out)
    assert [(each["after"], each["redone"]) for each in record.sessions] == [(0, 0), (0, 2), (3, 2), (3, 0)]
    assert [each["seconds"] for each in record.sessions] == pytest.approx([0, 0, kept, kept], abs=2e-3)
    assert [each["lost_seconds"] for each in record.sessions] == pytest.approx([0, first, reached - kept, 0], abs=2e-3)
    assert first > 0 and reached > kept
    rltok.train(config, text, tmp_path / "whole")
    assert json_lines(out / "metrics.jsonl") == json_lines(tmp_path / "whole/metrics.jsonl")


def test_resuming_a_finished_run_begins_no_session(text, tmp_path):
    before = rltok.train(small_config(), text, tmp_path / "run").sessions
    assert rltok.train(small_config(), text, tmp_path / "run", resume=True).sessions == before
    assert sessions_of(tmp_path / "run") == before


def test_a_run_of_a_version_without_a_list_goes_on_with_what_is_known(text, tmp_path, monkeypatch):
    out = tmp_path / "run"
    train_until(monkeypatch, 5, small_config(), text, out)
    (out / NAME).unlink()
    record = train_until(monkeypatch, None, small_config(), text, out)
    assert [(each["after"], each["redone"]) for each in record.sessions] == [(3, 1)]  # of every second update there is a line


@pytest.mark.parametrize("content", ['{"after": 0', "[]", '{"after": 0}', "3"])
def test_a_damaged_list_is_named_and_nothing_is_wound_back(text, tmp_path, monkeypatch, content):
    out = tmp_path / "run"
    train_until(monkeypatch, 6, small_config(), text, out)
    (out / NAME).write_text(content)
    before = (out / "metrics.jsonl").read_bytes()
    with pytest.raises(RltokError, match=r"sessions.jsonl is damaged .*Restore the file, or delete it"):
        rltok.train(small_config(), text, out, resume=True)
    assert (out / "metrics.jsonl").read_bytes() == before


def test_how_far_a_session_came_is_the_last_whole_line_of_training(tmp_path):
    path = tmp_path / "metrics.jsonl"
    assert furthest(path) == (0, 0.0)
    lines = [{"step": 2, "split": "train", "seconds": 1.5}, {"step": 4, "split": "train", "seconds": 3.0},
             {"step": 5, "split": "validation"}]  # fmt: skip
    path.write_text("".join(json.dumps(line) + "\n" for line in lines) + '{"step": 6, "spl')
    assert furthest(path) == (4, 3.0)


def begin(folder, after, seconds, reached, **more):
    """A session whose log is wound back at once; the list as it is read afterwards."""
    announce(folder, after=after, seconds=seconds, reached=reached, **(HERE | more))
    settle(folder)
    return sessions_of(folder)


def test_a_session_that_reached_no_more_than_the_checkpoint_lost_nothing(tmp_path):
    assert begin(tmp_path, 4, 3.0001, (4, 3.5)) == [{"after": 4, "seconds": 3.0, "redone": 0, "lost_seconds": 0.0, **HERE}]


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_kill_while_the_log_is_wound_back_loses_no_interruption_and_tells_it_once(text, tmp_path, monkeypatch, moment):
    """Two starts in a row die beside the winding back; the one that lives tells of the two updates that were lost."""
    config, out = small_config(train__log_every=1), tmp_path / "run"
    train_until(monkeypatch, 6, config, text, out)
    lost = seconds_at(out, 5) - seconds_at(out, 3)
    rewind = RunFolder.rewind

    def killed(folder, *given, first=lambda: None):
        rewind(folder, *given, first=first) if moment == "after" else first()
        raise KeyboardInterrupt

    for commit in "23":
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(RunFolder, "rewind", killed)
            patch.setenv("RLTOK_COMMIT", commit * 40)
            rltok.train(config, text, out, resume=True)
    record = train_until(monkeypatch, None, config, text, out)
    words = [(each["after"], each["redone"], each["commit"][0]) for each in record.sessions]
    assert words == [(0, 0, "1"), (3, 2, "1")]
    assert record.sessions[1]["lost_seconds"] == pytest.approx(lost, abs=2e-3) and lost > 0
    assert record.sessions == sessions_of(out) and not (out / ANNOUNCED).exists()


def test_a_full_disk_when_a_session_begins_loses_no_interruption(text, tmp_path, monkeypatch):
    config, out = small_config(train__log_every=1), tmp_path / "run"
    train_until(monkeypatch, 6, config, text, out)
    log = (out / "metrics.jsonl").read_bytes()

    def full(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch, pytest.raises(RltokError, match="no room left on the disk"):
        patch.setattr("rltok.runs.sessions.os.fsync", full)
        rltok.train(config, text, out, resume=True)
    assert (out / "metrics.jsonl").read_bytes() == log
    assert [each["redone"] for each in train_until(monkeypatch, None, config, text, out).sessions] == [0, 2]


@pytest.mark.parametrize("left", ["", '{"after": 4', '{"after": 4}\n', "whole list"])
def test_an_announcement_that_was_written_in_part_counts_for_nothing(tmp_path, left):
    before = begin(tmp_path, 0, 0.0, (0, 0.0))
    lines = "".join(json.dumps(each | {"redone": 99}) + "\n" for each in before)
    (tmp_path / ANNOUNCED).write_text(lines if left == "whole list" else left)  # which has no session more
    assert begin(tmp_path, 0, 0.0, (2, 1.5))[1:] == [{"after": 0, "seconds": 0.0, "redone": 2, "lost_seconds": 1.5, **HERE}]


def test_a_session_announced_from_another_checkpoint_says_nothing_about_this_one(tmp_path):
    begin(tmp_path, 0, 0.0, (0, 0.0))
    announce(tmp_path, after=6, seconds=6.0, reached=(9, 9.0), **HERE)
    assert [each["redone"] for each in begin(tmp_path, 3, 3.0, (3, 3.0))] == [0, 0]


def test_a_folder_in_the_place_of_the_announcement_is_named(text, tmp_path, monkeypatch):
    train_until(monkeypatch, 6, small_config(), text, tmp_path / "run")
    (tmp_path / "run" / ANNOUNCED).mkdir()
    with pytest.raises(RltokError, match="sessions.tmp is a folder"):
        rltok.train(small_config(), text, tmp_path / "run", resume=True)


GOOD = {"after": 4, "seconds": 3.0, "redone": 1, "lost_seconds": 0.5, **HERE}
ODD = {
    "after": ["x", -1, 1.5, True, None], "redone": ["1", -2, 0.5], "seconds": [math.nan, math.inf, -0.1, "3", 10**400 * -1],
    "lost_seconds": [math.nan, -1, None], "device": [3, None], "commit": [7, ["a"]],
}  # fmt: skip


@pytest.mark.parametrize(("key", "value"), [(key, value) for key, values in ODD.items() for value in values])
def test_an_entry_of_another_kind_is_named_before_anything_is_trained_or_recorded(tmp_path, key, value):
    bad = GOOD | {key: value}
    assert problem([GOOD, GOOD | {"commit": None, "more": 1}]) is None
    assert problem([GOOD, bad]) == f"session 2 has {key} {value!r}"
    (tmp_path / NAME).write_text(json.dumps(GOOD) + "\n" + json.dumps(bad) + "\n")
    with pytest.raises(RltokError, match=f"is damaged .session 2 has {key}"):
        sessions_of(tmp_path)
    with pytest.raises(RltokError, match=f"its list of sessions is damaged .session 1 has {key}"):
        check(with_digest(evidence("ours") | {"sessions": [bad]}), "ours-seed0.json")


@pytest.mark.parametrize("sessions", [None, {}, [3], "x", [{}]])
def test_a_list_of_sessions_of_another_kind_is_refused_in_a_record(sessions):
    with pytest.raises(RltokError, match="its list of sessions is damaged"):
        check(with_digest(evidence("ours") | {"sessions": sessions}), "ours-seed0.json")
    check(with_digest(evidence("ours") | {"sessions": [GOOD | {"commit": evidence("ours")["commit"]}]}), "ours-seed0.json")


def test_a_finished_run_that_is_opened_again_keeps_the_record_it_has(text, tmp_path, monkeypatch):
    out = tmp_path / "run"
    before = rltok.train(small_config(), text, out, note="first")
    stored = (out / "record.json").read_bytes()
    monkeypatch.setenv("RLTOK_COMMIT", "2" * 40)
    monkeypatch.setattr(training, "device_name", lambda _: "another card")
    again = rltok.train(small_config(), text, out, resume=True, note="second")
    assert (again.commit, again.device, again.note) == ("1" * 40, before.device, "first")
    assert again == before and (out / "record.json").read_bytes() == stored


@pytest.mark.parametrize("lost", ["missing", "damaged", "of other settings", "of a part of the run"])
def test_a_record_made_later_names_those_who_trained(text, tmp_path, monkeypatch, lost):
    """A process that was killed after its last update left no record; another one writes it, and claims no memory."""
    out = tmp_path / "run"
    before = rltok.train(small_config(), text, out)
    output = json.loads((out / "record.json").read_text())
    output |= {"of other settings": {"config_hash": "0"}, "of a part of the run": {"updates": 3}}.get(lost, {})
    (out / "record.json").write_text("{" if lost == "damaged" else json.dumps(output))
    if lost == "missing":
        (out / "record.json").unlink()
    same = rltok.train(small_config(), text, tmp_path / "run", resume=True)
    assert same.note == ""
    (out / "record.json").unlink()
    monkeypatch.setenv("RLTOK_COMMIT", "2" * 40)
    monkeypatch.setattr(training, "device_name", lambda _: "another card")
    again = rltok.train(small_config(), text, out, resume=True, note="mine")
    assert (again.commit, again.device) == ("1" * 40, before.device)
    assert again.note.startswith("mine; backend, precision and versions are of the process") and "another card" in again.note
    assert json.loads((out / "record.json").read_text())["updates"] == before.updates


def test_memory_is_told_by_a_process_that_trained_and_by_no_other(text, tmp_path, monkeypatch):
    out, record = tmp_path / "run", training._record
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda _: 12345)

    def on_a_card(run, *more):
        monkeypatch.setattr(training, "device_name", lambda _: "a card")
        return record(replace(run, device=torch.device("cuda")), *more)

    monkeypatch.setattr(training, "precision_of", lambda *_: torch.bfloat16)
    monkeypatch.setattr(training, "backend_of", lambda *_: ("plain", "as told"))
    monkeypatch.setattr(training, "_record", on_a_card)
    assert rltok.train(small_config(), text, out).peak_memory_bytes == 12345
    (out / "record.json").unlink()
    assert rltok.train(small_config(), text, out, resume=True).peak_memory_bytes is None
