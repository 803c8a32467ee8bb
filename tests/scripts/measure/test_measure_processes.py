"""The script that times several processes: what it times, what it compares, and that it runs."""

import json
import sys

import measure_processes
import pytest
import torch
from runs import SETTINGS, as_options, write_text

from rltok.errors import RltokError


def record(monkeypatch, path, *words):
    monkeypatch.setattr(sys, "argv", ["measure_processes.py", "--device", "cpu", "--preset", "tiny", *words, "--out", str(path)])
    measure_processes.main()
    return json.loads(path.read_text())


def test_seconds_are_of_updates_after_the_first_and_counts_take_turns(monkeypatch, tmp_path):
    asked = []

    def train(count, words, out):
        asked.append(count)
        out.mkdir()
        (out / "data.json").write_text(json.dumps({"name": "text"}))
        each = {1: 0.5, 2: 0.25}[count] * (1.1 if asked.count(count) == 2 else 1)  # the second round is slower
        ends = [9.0, 10.0, 10.0 + each, 10.0 + 2 * each, 10.0 + 3 * each]  # of two updates that compile, and three
        return [{"seconds": end, "nll": 5.0 + (0.001 if count == 2 else 0)} for end in ends]

    monkeypatch.setattr(measure_processes, "train", train)
    made = record(monkeypatch, tmp_path / "record.json", "--updates", "5", "--skip", "2")
    assert asked == [1, 2, 1, 2] and [len(each["seconds"]) for each in made["runs"]] == [3] * 4
    assert made["median_seconds"] == pytest.approx({"1": 0.525, "2": 0.2625})  # of six: 0.5 three times, 0.55 three times
    assert made["times_as_fast"] == pytest.approx({"1": 1, "2": 2}) and made["spread_of_rounds"] == pytest.approx(0.1)
    assert made["largest_difference_of_losses"] == pytest.approx(0.0002)


@pytest.mark.parametrize(
    "words, error",
    [("--counts 0 2", "--counts must be at least 1; got 0"), ("--counts 1 2 2", "--counts 1 2 2 has a number twice. Give each"),
     ("--counts 1 3", "sequences_per_update=16 is no multiple of 3 processes"), ("--counts 1 32", "fewer rows than 32 processes"),
     ("--rounds 0", "--rounds must be at least 1"), ("--skip 0", "--skip must be at least 1"),
     ("--updates 11", "--updates must be at least 12; got 11"), ("--set none", "--set takes SETTING=VALUE")],
)  # fmt: skip
def test_what_cannot_be_measured_is_refused_before_any_run(words, error, monkeypatch, tmp_path):
    monkeypatch.setattr(measure_processes, "train", None)
    with pytest.raises(RltokError, match=error):
        record(monkeypatch, tmp_path / "record.json", *words.split())


def test_more_processes_than_cards_are_refused_before_any_run(monkeypatch, tmp_path):
    monkeypatch.setattr(measure_processes, "train", None)
    monkeypatch.setattr(measure_processes, "resolve_device", lambda name: torch.device("cuda"))
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    with pytest.raises(RltokError, match="--counts 2 takes a card each, and torch sees 1. Give at most 1, or --device cpu"):
        record(monkeypatch, tmp_path / "record.json")


def test_a_file_of_something_else_stays(monkeypatch, tmp_path):
    (tmp_path / "notes.json").write_text('{"what": "notes"}')
    monkeypatch.setattr(measure_processes, "train", None)
    with pytest.raises(RltokError, match="notes.json exists and is no record of this command, so it stays"):
        record(monkeypatch, tmp_path / "notes.json")
    assert (tmp_path / "notes.json").read_text() == '{"what": "notes"}'


def test_one_process_and_two_compute_the_same_losses_and_a_failure_says_why(monkeypatch, tmp_path):
    words = ["--data", write_text(tmp_path), *as_options(SETTINGS), "--rounds", "1", "--updates", "3", "--skip", "1"]
    made = record(monkeypatch, tmp_path / "record.json", *words)
    assert [each["processes"] for each in made["runs"]] == [1, 2] and made["largest_difference_of_losses"] < 1e-5
    assert all(second > 0 for each in made["runs"] for second in each["seconds"])
    with pytest.raises(RltokError, match="rltok train in 2 processes ended with code 1: rltok: .*no such"):
        record(monkeypatch, tmp_path / "other.json", "--data", str(tmp_path / "absent"), "--counts", "2")
    assert not (tmp_path / "other.json").exists()
