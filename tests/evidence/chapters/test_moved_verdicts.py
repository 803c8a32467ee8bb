"""ch07_moved: which verdicts a change of the rule of judging moved, and that two rules never share a table."""

import json

import pytest

from rltok.errors import RltokError
from rltok.evidence.chapters.ch07_moved import moved, read
from rltok.evidence.verdicts import RULE

OLD = "two standard errors"


def kept(path, *rules, **verdicts):
    """A record of these verdicts of the claim `test_even`, a sweep for each rule."""
    sweeps = {f"size{number}": {"rule": rule, "verdicts": verdicts} for number, rule in enumerate(rules)}
    path.write_text(json.dumps({"sweeps": sweeps}))
    return path


def now(rule=RULE, **verdicts):
    return {"size0": {"rule": rule, "verdicts": verdicts}}


def test_verdicts_that_became_others_are_listed_and_new_words_for_the_same_are_not(tmp_path):
    path = kept(tmp_path / "kept.json", OLD, test_even=["supported", "indicative: for"], arc_even=["undecided", None], gone=["x"])
    text = moved(path, now(test_even=["leans for", "leans for"], arc_even=["undecided", None], bpe_test=["supported", None]))
    head, rows = text.split("\n\n")
    assert head.startswith(f"By {OLD}, then by {RULE}: 2 verdicts are the same (") and head.endswith(", 1 are not:")
    assert "'indicative: for' is now 'leans for'" in head
    (row,) = rows.splitlines()[2:]
    assert row == "| size0 | held-out text: fewer bits per byte than evenly spaced boundaries | 0.99 | supported | leans for |"


@pytest.mark.parametrize(
    ("rules", "words"),
    [((OLD, RULE), "mixes verdicts by 2 rules of judging: .*Judge all sweeps anew"), ((RULE,), "by the rule of today"),
     ((), "mixes verdicts by 0 rules of judging: none")],
)  # fmt: skip
def test_a_record_judged_by_two_rules_or_by_that_of_today_is_refused_in_one_line(tmp_path, rules, words):
    with pytest.raises(RltokError, match=words) as error:
        read(kept(tmp_path / "kept.json", *rules, test_even=["supported", None]))
    assert "\n" not in str(error.value)


def test_a_table_of_verdicts_by_two_rules_is_refused_in_one_line(tmp_path):
    path = kept(tmp_path / "kept.json", OLD, test_even=["supported", None])
    with pytest.raises(RltokError, match=f"cannot hold some by '{OLD}'. Judge all") as error:
        moved(path, now() | {"size1": {"rule": OLD, "verdicts": {}}})
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("content", ["{", "[]", "{}", '{"sweeps": {"a": 3}}', '{"sweeps": {"a": {"rule": "x", "verdicts": 3}}}'])
def test_a_damaged_record_is_refused(tmp_path, content):
    (tmp_path / "kept.json").write_text(content)
    with pytest.raises(RltokError, match="is no record of verdicts .*Restore it"):
        read(tmp_path / "kept.json")


def test_a_claim_that_small_runs_answer_has_one_verdict_and_no_gamma(tmp_path):
    path = kept(tmp_path / "kept.json", OLD, pressure=["supported"])
    assert "| size0 | pressure on probabilities is unstable" in moved(path, now(pressure=["leans for"]))
    assert "| - | supported | leans for |" in moved(path, now(pressure=["leans for"]))
