"""measure_answers.py: that it refuses other items, and that its stored record is of the records that are stored."""

import json
import math
import shutil
import sys
from functools import partial

import pytest
from paths import BUNDLED, ROOT

from rltok.evidence.chapters.ch07_answers import table
from rltok.evidence.packed import read_folder
from rltok.evidence.records import read_sweeps
from rltok.system.digest import with_digest

SWEEPS = ROOT / "notebooks" / "results" / "sweeps"
RECORD = ROOT / "notebooks" / "results" / "answers.json"
MOST_BYTES = 60_000
import measure_answers  # noqa: E402


@pytest.fixture(scope="module")
def sweeps():
    return read_sweeps(SWEEPS)


@pytest.fixture(scope="module")
def stored():
    assert RECORD.stat().st_size < MOST_BYTES
    return json.loads(RECORD.read_text(encoding="utf-8"))


def told(monkeypatch, capsys, *arguments):
    monkeypatch.setattr(sys, "argv", ["measure_answers.py", *map(str, arguments)])
    with pytest.raises(SystemExit, match="2"):
        measure_answers.run(measure_answers.main)
    return capsys.readouterr().err


def test_items_that_the_runs_were_not_scored_on_and_a_folder_without_runs_are_refused(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(measure_answers, "read_items", partial(measure_answers.read_items, expected=False))
    monkeypatch.setenv("RLTOK_COMMIT", "0" * 40)
    places = ["--tasks", BUNDLED, "--out", tmp_path / "answers.json"]
    (tmp_path / "sweeps" / "32m").mkdir(parents=True)
    assert "holds no record of a finished run" in told(monkeypatch, capsys, "--sweeps", tmp_path / "sweeps", *places)
    alone = read_folder(SWEEPS / "32m")["bpe-seed0.json"]
    (tmp_path / "sweeps" / "32m" / "bpe-seed0.json").write_text(json.dumps(alone))
    error = told(monkeypatch, capsys, "--sweeps", tmp_path / "sweeps", *places)
    assert "was scored on items whose fingerprint is" in error and "Name the folder" in error
    alone["scores"] = {place: score for place, score in alone["scores"].items() if place in ("validation", "test")}
    shutil.rmtree(tmp_path / "sweeps" / "32m")
    (tmp_path / "sweeps" / "32m").mkdir()
    (tmp_path / "sweeps" / "32m" / "bpe-seed0.json").write_text(json.dumps(with_digest(alone)))
    assert "nothing to tell" in told(monkeypatch, capsys, "--sweeps", tmp_path / "sweeps", *places)
    monkeypatch.setenv("RLTOK_COMMIT", "0" * 40 + "+changes")
    assert "Commit first" in told(monkeypatch, capsys, "--sweeps", tmp_path / "sweeps", *places)
    assert not (tmp_path / "answers.json").exists()


def test_six_digits_are_kept():
    rounded = measure_answers.rounded({"a": [0.12345678, None, -9876543.2], "b": 12345678})
    assert rounded == {"a": [0.123457, None, -9876540.0], "b": 12345678}


def test_the_stored_record_is_of_all_stored_records(sweeps, stored):
    made_of = {name: sweep["records"] for name, sweep in stored["sweeps"].items()}
    there = {name: sorted(run["digest"] for run in sweep.everything) for name, sweep in sweeps.items()}
    assert made_of == there, "run scripts/measure/measure_answers.py"


def test_the_stored_items_are_those_that_the_runs_were_scored_on(sweeps, stored):
    for task, entry in stored["tasks"].items():
        for run in (run for sweep in sweeps.values() for run in sweep.everything):
            assert {key: run["scores"][task][key] for key in ("fingerprint", "items", "scored_bytes")}.items() <= entry.items()
        quarters = entry["quarters"]
        assert sum(one["items"] for one in quarters) == entry["items"]
        assert all(one["longest"] < later["shortest"] for one, later in zip(quarters, quarters[1:], strict=False))
        least, most = (sum(one["items"] * one[end] for one in quarters) for end in ("shortest", "longest"))
        assert least <= entry["scored_bytes"] <= most


def test_the_stored_differences_are_whole_and_of_the_seeds_that_are_stored(sweeps, stored):
    for name, sweep in sweeps.items():
        for task, gaps in stored["sweeps"][name]["gaps"].items():
            sizes = [one["items"] for one in stored["tasks"][task]["quarters"]]
            assert set(gaps) == {
                other for other, runs in sweep.runs.items() if other != "even" and set(runs) & set(sweep.runs["even"])
            }
            for other, gap in gaps.items():
                assert gap["seeds"] == len(set(sweep.runs[other]) & set(sweep.runs["even"]))
                mean = sum(n * bits for n, bits in zip(sizes, gap["bits"], strict=True)) / sum(sizes)
                errors = [*gap["over_items"], *(gap["over_seeds"] or [])]
                assert math.isfinite(mean) and len(errors) == len(sizes) * (1 + (gap["seeds"] >= 3))
                assert all(math.isfinite(one) and one > 0 for one in errors)
            assert table(stored, task, list(gaps)).count(f"| {name} |") == len(gaps)
