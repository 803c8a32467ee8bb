"""The log of decisions: each plan has an entry, each number comes from a record, and no entry hides runs that are there."""

import re
from types import SimpleNamespace

import make_decisions as made
import pytest

from rltok.runs.shipped import shipped_models
from rltok.statistics import difference_of_seeds

ENTRIES = made.entries()
KEYS = {"date", "question", "expected", "decision", "plans", "methods", "records", "models", "result", "numbers"}
SOURCES = ("plan", "record", "model")
NAMES = re.compile(r"\{\w+\}|`[^`]*`|\]\([^)]*\)|eq\. \(\d+\)|\b\d+M\b")  # what may hold a digit in a result: no measured number
each_entry = pytest.mark.parametrize("entry", ENTRIES, ids=[f"{entry['date']} {entry['question'][:30]}" for entry in ENTRIES])


def problems(entry):
    """What is wrong with a result: numbers that are typed, undefined, or defined and not shown."""
    text = entry.get("result", "")
    named = set(re.findall(r"\{(\w+)\}", text))
    found = [f"typed: {digit}" for digit in re.findall(r"\d[\d.]*", NAMES.sub("", text))]
    return found + [f"not both named and defined: {name}" for name in sorted(named ^ set(entry.get("numbers", {})))]


def without_entry(plans, entries):
    """Plans that no entry names."""
    return sorted(set(plans) - {plan for entry in entries for plan in entry.get("plans", [])})


def test_the_page_is_the_one_made_from_entries_and_records():
    assert made.PAGE.read_text(encoding="utf-8") == made.render(), "run: python scripts/book/make_decisions.py"


def test_every_plan_has_an_entry():
    plans = [path.stem for path in made.PLANS.glob("*.toml")]
    assert without_entry(plans, ENTRIES) == [], "a question of runs belongs into book/decisions.yml before they are made"
    assert without_entry([*plans, "new"], ENTRIES) == ["new"]


@each_entry
def test_an_entry_is_complete_and_its_numbers_are_read_from_records(entry):
    assert entry.keys() <= KEYS and all(entry.get(key) for key in ("date", "question", "expected", "decision"))
    assert entry.get("plans") or entry.get("records") or entry.get("models")
    assert problems(entry) == []
    assert all((made.RESULTS / f"{name}.json").is_file() for name in entry.get("records", []))
    assert all((made.PLANS / f"{name}.toml").is_file() for name in entry.get("plans", []))
    assert {*entry.get("models", [])} <= {*shipped_models()}
    sources = {(kind, spec[kind]) for spec in entry.get("numbers", {}).values() for kind in SOURCES if kind in spec}
    assert sources <= {(kind, name) for kind in SOURCES for name in entry.get(f"{kind}s", [])}


@each_entry
def test_a_question_is_dated_before_its_runs_and_has_a_result_once_they_are_stored(entry):
    days = [run["date"] for run in made.runs_of(entry) if run.get("date")]
    assert all(str(entry["date"]) <= day for day in days)
    assert bool(entry.get("records") or entry.get("models") or made.runs_of(entry)) == ("result" in entry), (
        "its runs are stored: say what came out"
    )


def test_a_typed_number_an_unknown_name_and_a_number_that_is_not_shown_are_noticed():
    assert problems({"result": "a {share} of 0.93 at 32M, by eq. (24), `x20`", "numbers": {"other": {}}}) == [
        "typed: 0.93", "not both named and defined: other", "not both named and defined: share",
    ]  # fmt: skip


def test_numbers_are_taken_along_a_path_and_shown_from_least_to_most():
    record = {"runs": [{"loss": "a", "gap": {"bits": 2.0}}, {"loss": "b", "gap": {"bits": 1.0}}]}
    assert made.at(record, ["runs", {}, "gap", "bits"]) == [2.0, 1.0]
    assert made.at(record, ["runs", {"loss": "b"}, "gap", "bits"]) == [1.0]
    assert made.words.ends([2.0, 1.0], ".1f") == "1.0 to 2.0" and made.words.ends([1.01, 1.02], ".1f") == "1.0"


def test_an_entry_without_a_result_waits_and_one_with_a_result_says_when_its_runs_were_made():
    waits = {"question": "Q?", "date": "2026-11-30", "expected": "E.", "decision": "Open.", "plans": ["no_such_plan"]}
    assert made.NO_RECORD in made.section(waits)
    entry = next(entry for entry in ENTRIES if entry.get("plans") == ["schedule"])
    assert re.search(r"\(Runs of \d{4}-\d\d-\d\d", made.section(entry))


def test_a_difference_at_a_rate_is_that_of_the_curve_with_half_its_interval(monkeypatch):
    gaps = {0.3: difference_of_seeds([0.02, 0.0, 0.04]), 0.2: difference_of_seeds([-0.01])}
    monkeypatch.setattr(made, "sweep_of", lambda plan: plan)
    monkeypatch.setattr(made, "rate_curve", lambda plan: [SimpleNamespace(target=t, difference=d) for t, d in gaps.items()])
    shown = [made.number({"plan": "any", "rate": rate}) for rate in gaps]
    assert shown == ["+0.020\N{NO-BREAK SPACE}±\N{NO-BREAK SPACE}0.050", "-0.010"]
