"""rltok.sessions: a resumed run says where it was interrupted and what that cost, and a finished one keeps its list."""

import json

import pytest
from runs import json_lines, small_config, write_text

import rltok
from rltok import training
from rltok.errors import RltokError
from rltok.sessions import NAME, begin, furthest, sessions_of

HERE = {"device": "cpu", "commit": "1" * 40}


@pytest.fixture
def text(tmp_path, monkeypatch):
    monkeypatch.setattr("rltok.snapshots.FIXED_TEXTS", {"short": "Two gulls."})
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
    """Of the line of training of an update, as metrics.jsonl has it now."""
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    return next(line["seconds"] for line in lines if (line["step"], line["split"]) == (step, "train"))


def test_a_run_that_was_never_interrupted_has_one_session(text, tmp_path):
    record = rltok.train(small_config(), text, tmp_path / "run")
    first = {"after": 0, "seconds": 0.0, "redone": 0, "lost_seconds": 0.0} | {"device": record.device, "commit": "1" * 40}
    assert record.sessions == [first] == json_lines_with_times(tmp_path / "run")
    assert json.loads((tmp_path / "run/record.json").read_text())["sessions"] == [first]


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


def test_a_session_that_reached_no_more_than_the_checkpoint_lost_nothing(tmp_path):
    found = begin(tmp_path, after=4, seconds=3.0001, reached=(4, 3.5), **HERE)
    assert found == [{"after": 4, "seconds": 3.0, "redone": 0, "lost_seconds": 0.0, **HERE}] == sessions_of(tmp_path)
