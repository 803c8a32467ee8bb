"""The script that times generation: what its record holds. How fast anything is, no test asks anew."""

import json
import sys

import measure_generation
import pytest
from paths import ROOT

from rltok.errors import RltokError
from rltok.evidence.chapters import ch08_explore


def record(monkeypatch, path, *words):
    monkeypatch.setattr(measure_generation, "PROMPT_BYTES", 40)
    monkeypatch.setattr(sys, "argv", ["measure_generation.py", "--device", "cpu", *words, "--out", str(path)])
    measure_generation.main()
    return json.loads(path.read_text())


def test_the_record_holds_every_batch_and_what_both_ways_wrote(tmp_path, monkeypatch):
    words = "--presets tiny --batches 1 3 --bytes 4 --full-bytes 2 --repeats 2".split()
    stored = record(monkeypatch, tmp_path / "generation.json", *words)
    (tiny,) = stored["runs"]
    assert tiny["preset"] == "tiny" and tiny["device"].startswith("cpu") and tiny["versions"]["torch"]
    assert [(batch["rows"], len(batch["seconds"])) for batch in tiny["batches"]] == [(1, 2), (3, 2)]
    assert tiny["same_bytes"] is True
    one = tiny["batches"][0]["bytes_per_second"]
    assert tiny["times_as_fast"] == pytest.approx(one / tiny["full_pass_bytes_per_second"])
    assert (stored["bytes"], stored["full_bytes"], stored["repeats"], stored["prompt_bytes"]) == (4, 2, 2, 40)


def test_runs_on_another_device_join_the_record_and_those_on_the_same_are_made_again(tmp_path, monkeypatch):
    path, words = tmp_path / "generation.json", "--presets tiny --batches 1 2 --bytes 3 --full-bytes 1 --repeats 1".split()
    first = record(monkeypatch, path, *words)
    card = first["runs"][0] | {"device": "a card"}
    path.write_text(json.dumps(first | {"threads": 7, "runs": [*first["runs"], card]}))
    second = record(monkeypatch, path, *words)
    assert [one["device"] for one in second["runs"]] == ["a card", first["runs"][0]["device"]]
    assert second["runs"][0] == card and second["runs"][1] != first["runs"][0] and second["threads"] == 7
    shown = ch08_explore.speeds(path)
    assert shown.count("| `tiny` | ") == 2 and "| `tiny` | a card | " in shown
    before = path.read_text()
    for other in (["--bytes", "4"], ["--batches", "1"]):
        with pytest.raises(RltokError, match="holds runs by another plan, .*'bytes': 3.*'batches': .1, 2.*Take that one"):
            record(monkeypatch, path, *words, *other)
    assert path.read_text() == before


def test_a_file_of_something_else_and_numbers_below_1_are_refused(tmp_path, monkeypatch):
    other = tmp_path / "other.json"
    other.write_text('{"what": "something else"}')
    with pytest.raises(ValueError, match="other.json"):
        record(monkeypatch, other)
    with pytest.raises(ValueError, match="--batches must be at least 1; got 0"):
        record(monkeypatch, tmp_path / "new.json", "--batches", "2", "0")


def test_on_a_card_caches_gain_little_for_a_single_row_and_rows_cost_little():
    """What chapter 08 says in words of the stored record, and that on a CPU it is the other way round for `small`."""
    runs = json.loads((ROOT / "notebooks" / "results" / "generation.json").read_text())["runs"]
    card = [run for run in runs if not run["device"].startswith("cpu")]
    small = next(run for run in runs if run["preset"] == "small" and run not in card)
    assert {run["preset"] for run in card} == {"tiny", "small", "147m"} and all(run["same_bytes"] for run in runs)
    assert all([batch["rows"] for batch in run["batches"]] == [1, 16, 64] for run in runs)
    assert all(run["times_as_fast"] < 3 and ch08_explore.cost_of_rows(run) < 2 for run in card)
    assert small["times_as_fast"] >= 15 and ch08_explore.cost_of_rows(small) > 2
