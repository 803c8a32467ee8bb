"""Endings of ch09_courses, on made-up records: places are read off the text, intervals are those of a printed table of t."""

import pytest
from sweeps import record, sweep_of

from rltok.errors import RltokError
from rltok.evidence.chapters.ch09_courses import NOWHERE, ended, figure, optima, word_shares

SPACES = "one |two |three |four |five |six"
SECOND = "one t|wo t|hree f|our f|ive s|ix"
LAST = "one| two| three| four| five| six"
EVEN = "one two thr|ee fou|r five s|ix"
BOTH = "one| |two| |three| |four| |five| |six"


def passage(marked):
    """A sample with a boundary on each byte before a bar."""
    text = marked.replace("|", "")
    drawn, at = ["0"] * len(text), 0
    for letter in marked:
        if letter == "|":
            drawn[at - 1] = "1"
        else:
            at += 1
    return {"text": text, "boundaries": "".join(drawn), "percent": None, "row": 0}


def run(name, seed, marked, bits):
    made = record(name, seed, rule="learned", wiggle=0.0)
    made["scores"]["validation"]["bits_per_byte"] = bits
    made["samples"] = [passage(each) for each in marked] if isinstance(marked, list) else [passage(marked)]
    return made


@pytest.mark.parametrize(
    ("marked", "name"),
    [(SPACES, "after spaces"), (SECOND, "before second letters"), (LAST, "at last letters"), (EVEN, NOWHERE),
     (BOTH, "after spaces, at last letters"), ([SPACES, SPACES, LAST], "after spaces"), ([SPACES, LAST], NOWHERE)],
)  # fmt: skip
def test_the_optimum_of_a_run_is_where_most_of_its_words_have_a_boundary(marked, name):
    assert ended(run("policy", 0, marked, 1.0)) == name


def test_shares_are_of_words_after_a_letter_and_one_space():
    marked = "a|t t|he |end,| or n|ot|"  # at, the: first letters and spaces count; "or" follows a comma; "not" does
    assert word_shares(run("policy", 0, marked, 1.0)) == {
        "after spaces": 1 / 3, "before second letters": 2 / 3, "at last letters": 0,
    }  # fmt: skip


def test_each_optimum_has_its_loss_beside_its_seeds_with_students_interval():
    losses = {"early": (1.70, 1.80, 1.90), "late": (1.71, 1.83, 1.96)}  # means of the seeds: 1.705, 1.815, 1.93
    runs = [run("early", seed, SPACES, bits) for seed, bits in enumerate(losses["early"])]
    runs += [run("late", seed, (LAST, LAST, EVEN)[seed], bits) for seed, bits in enumerate(losses["late"])]
    first, second, third = optima(runs)
    assert [(one.name, one.runs) for one in (first, second, third)] == [
        ("after spaces", 3), ("at last letters", 2), (NOWHERE, 1),
    ]  # fmt: skip
    # apart: -0.005, -0.015, -0.03 of deviation 0.0125831; 0.005, 0.015 of 0.00707107; t(0.975, 2) = 4.3027, t(0.975, 1) = 12.7062
    assert (first.apart, first.reach) == pytest.approx((-0.05 / 3, 4.3027 * 0.0125831 / 3**0.5), rel=1e-4)
    assert (second.apart, second.reach) == pytest.approx((0.01, 12.7062 * 0.00707107 / 2**0.5), rel=1e-4)
    assert third.apart == pytest.approx(0.03) and third.reach is None


def test_the_figure_has_a_point_for_each_run_by_its_ending_and_the_mean_of_each_method_best_at_the_top():
    names = "policy_early", "policy_late"
    bits = [(1.7, SPACES), (1.8, LAST)], [(1.9, LAST), (1.9, LAST)]  # seeds have means 1.8 and 1.85
    made = sweep_of(
        *(run(name, seed, at, loss) for name, each in zip(names, bits, strict=True) for seed, (loss, at) in enumerate(each))
    )
    (axes,) = figure(made).axes
    lines = {line.get_label(): sorted(line.get_xydata().tolist()) for line in axes.lines}
    assert lines["after spaces"] == [pytest.approx([-0.1, 1])]
    assert lines["at last letters"] == [pytest.approx(at) for at in ([-0.05, 1], [0.05, 0], [0.1, 0])]
    assert lines["mean"] == [pytest.approx(at) for at in ([-0.075, 1], [0.075, 0])]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["late start", "unchanged"]


def test_passages_without_words_have_no_places():
    with pytest.raises(RltokError, match=r"^the passages of policy, seed 3, hold no words, so"):
        ended(run("policy", 3, "12|34", 1.0))
