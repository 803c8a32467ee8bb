"""scripts/measure/measure_toy.py: which runs it makes, and that a record is kept, resumed and never mixed."""

import json
import sys

import measure_toy
import pytest

from rltok.errors import RltokError
from rltok.evidence.toy import runs
from rltok.evidence.toy.measures import ORACLE, RANDOM
from rltok.evidence.toy.runs import FULL, Arm


def command(monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", ["measure_toy.py", *map(str, arguments)])
    measure_toy.main()


def test_a_record_keeps_its_runs_and_refuses_those_of_other_settings(tmp_path, monkeypatch):
    arms = [Arm("early", "second", ORACLE, 0), Arm("early", "second", FULL, 0)]
    monkeypatch.setattr(measure_toy, "arms_of", lambda seeds: arms)
    out, short = tmp_path / "toy.json", ("--training-bytes", 2 * 16 * 128)
    command(monkeypatch, "--seeds", 0, "--out", out, *short)
    record = json.loads(out.read_text())
    assert [run["name"] for run in record["runs"]] == [ORACLE, FULL] and not record["full"]
    assert record["languages"][0]["entropy_rate"] == pytest.approx(arms[0].language.entropy_rate, abs=1e-5)
    monkeypatch.setattr(measure_toy, "one_run", None)  # nothing is run again
    command(monkeypatch, "--seeds", 0, "--out", out, *short)
    assert json.loads(out.read_text())["runs"] == record["runs"]
    for damage in ({"runs": None}, {"runs": [1]}, {"runs": [{}]}, {"runs": [{**record["runs"][0], "words": "zzz"}]}):
        out.write_text(json.dumps(record | damage))
        with pytest.raises(RltokError, match=r"(?s)--out .*toy.json holds a damaged record \(.*\), so it stays"):
            command(monkeypatch, "--seeds", 0, "--out", out, *short)
    out.write_text(json.dumps(record | {"runs": record["runs"] * 2}))
    with pytest.raises(RltokError, match="holds a run twice"):
        command(monkeypatch, "--seeds", 0, "--out", out, *short)
    out.write_text(json.dumps(record))
    with monkeypatch.context() as other, pytest.raises(RltokError, match="holds runs on other text"):
        other.setattr(runs, "SURPRISE", 0.9)
        measure_toy.language_of.cache_clear()
        command(monkeypatch, "--seeds", 0, "--out", out, *short)
    measure_toy.language_of.cache_clear()
    with pytest.raises(RltokError, match="--seeds must be at least 0; got -1"):
        command(monkeypatch, "--seeds", 0, -1, "--out", out, *short)
    with pytest.raises(RltokError, match="other settings"):
        command(monkeypatch, "--seeds", 0, "--out", out, "--training-bytes", 3 * 16 * 128)


def test_all_arms_are_asked_for_once_each_with_what_they_are_measured_by():
    arms = measure_toy.arms_of([0, 1])
    assert len(set(arms)) == len(arms) == 2 * 18
    for arm in arms:
        if arm.order == "second":
            assert {Arm(arm.words, "second", name, arm.seed) for name in (ORACLE, RANDOM)} <= set(arms)
