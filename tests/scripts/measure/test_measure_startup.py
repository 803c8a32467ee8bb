"""The script that times a start: what its parts are, and that the second start finds what the first compiled."""

import json
import sys
from pathlib import Path

import measure_startup
import pytest
from runs import SETTINGS, as_options, write_text

from rltok.errors import RltokError

MARKS = [
    ("start", 100.0, 100.0), ("imports", 0.0, 103.0), ("data", 103.5, 104.0), ("model", 104.0, 106.0), ("model", 106.0, 106.5),
    ("evaluation", 107.0, 117.0), ("evaluation", 117.0, 118.0), ("update", 118.0, 127.0), ("update", 127.0, 127.5),
    ("evaluation", 128.0, 129.0), ("update", 129.0, 129.25),
]  # fmt: skip


def record(monkeypatch, path, *words):
    monkeypatch.setattr(sys, "argv", ["measure_startup.py", "--device", "cpu", "--preset", "tiny", *words, "--out", str(path)])
    measure_startup.main()
    return json.loads(path.read_text())


def test_parts_are_those_before_the_first_update_and_add_up_to_the_whole():
    seconds = measure_startup.phases(MARKS)
    assert seconds == {
        "imports": 3.0, "data": 0.5, "model": 2.5, "evaluation": 11.0, "first_update": 9.0, "other": 1.0, "whole": 27.0,
        "later_update": 0.25,
    }  # fmt: skip


def test_the_first_start_finds_empty_folders_and_the_others_what_it_left_there(monkeypatch, tmp_path):
    found = []

    def start(words, kept):
        found.append(sorted(path.name for path in kept.rglob("*")))
        kept.mkdir(exist_ok=True)
        (kept / f"kernel{len(found)}").write_bytes(b"1234")
        out = Path(words[words.index("--out") + 1])
        out.mkdir()
        (out / "data.json").write_text(json.dumps({"name": "text"}))
        assert words[-2:] == ["--set", "train.training_bytes=24576"] and "train.seed=3" in words  # three updates
        return [MARKS[0], MARKS[1], *((part, begin / len(found), end / len(found)) for part, begin, end in MARKS[2:])]

    monkeypatch.setattr(measure_startup, "start", start)
    small = ["train.seed=3", "train.sequences_per_update=32", "train.micro_batch=2", "data.sequence_length=256"]
    made = record(monkeypatch, tmp_path / "startup.json", "--set", *small, "--repeats", "2")
    assert found == [[], ["kernel1"], ["kernel1", "kernel2"]]
    assert made["kernel_bytes"] == 12 and made["data"] == {"name": "text"} and made["config"]["train"]["seed"] == 3
    assert (made["empty"]["evaluation"], made["filled_median"]["evaluation"]) == (11.0, pytest.approx((5.5 + 11 / 3) / 2))
    assert (made["precision"], made["backend"], len(made["filled"])) == ("fp32", "plain", 2)


def test_a_start_of_the_command_itself_is_timed_and_a_failed_one_says_why(monkeypatch, tmp_path):
    words = ["--data", write_text(tmp_path), *as_options(SETTINGS), "--repeats", "1"]
    made = record(monkeypatch, tmp_path / "startup.json", *words)
    for seconds in (made["empty"], *made["filled"]):
        assert all(seconds[part] > 0 for part in ("imports", "data", "model", "evaluation", "first_update", "later_update"))
    with pytest.raises(RltokError, match="rltok train ended with code 2: rltok: .*no such"):
        record(monkeypatch, tmp_path / "other.json", "--data", str(tmp_path / "absent"), "--repeats", "1")
    assert not (tmp_path / "other.json").exists()
