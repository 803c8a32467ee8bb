"""ch09_optima: on made-up records, the places are read off the text and the intervals are those of a printed table of t."""

import pytest
from sweeps import record, rows_of, sweep_of

from rltok.errors import RltokError
from rltok.evidence.chapters.ch09_optima import NOWHERE, figure, found, optima, optima_table, word_shares

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
    assert found(run("policy", 0, marked, 1.0)) == name


def test_shares_are_of_words_after_a_letter_and_one_space():
    marked = "a|t t|he |end,| or n|ot|"  # at, the: first letters and spaces count; "or" follows a comma; "not" does
    assert word_shares(run("policy", 0, marked, 1.0)) == {
        "after spaces": 1 / 3, "before second letters": 2 / 3, "at last letters": 0,
    }  # fmt: skip


def test_each_optimum_has_its_share_and_its_loss_beside_its_seeds_with_students_interval():
    losses = {"early": (1.70, 1.80, 1.90), "late": (1.71, 1.83, 1.96)}  # means of the seeds: 1.705, 1.815, 1.93
    runs = [run("early", seed, SPACES, bits) for seed, bits in enumerate(losses["early"])]
    runs += [run("late", seed, (LAST, LAST, EVEN)[seed], bits) for seed, bits in enumerate(losses["late"])]
    first, second, third = optima(runs)
    assert [(one.name, one.runs) for one in (first, second, third)] == [
        ("after spaces", 3), ("at last letters", 2), (NOWHERE, 1),
    ]  # fmt: skip
    assert [one.share for one in (first, second, third)] == pytest.approx([1 / 2, 1 / 3, 1 / 6])
    assert [one.bits for one in (first, second, third)] == pytest.approx([1.8, 1.77, 1.96])
    # apart: -0.005, -0.015, -0.03 of deviation 0.0125831; 0.005, 0.015 of 0.00707107; t(0.975, 2) = 4.3027, t(0.975, 1) = 12.7062
    assert (first.apart, first.reach) == pytest.approx((-0.05 / 3, 4.3027 * 0.0125831 / 3**0.5), rel=1e-4)
    assert (second.apart, second.reach) == pytest.approx((0.01, 12.7062 * 0.00707107 / 2**0.5), rel=1e-4)
    assert third.apart == pytest.approx(0.03) and third.reach is None
    assert first.places == {"after spaces": 1.0, "before second letters": 0.0, "at last letters": 0.0}


def test_the_table_has_a_row_for_each_optimum_the_most_frequent_first():
    runs = [run("early", 0, SPACES, 1.7), run("early", 1, LAST, 1.8), run("late", 0, LAST, 1.9)]
    rows = [[cell.replace("\N{NO-BREAK SPACE}", " ") for cell in row] for row in rows_of(optima_table(runs))]
    assert [row[:4] for row in rows[1:]] == [
        ["at last letters", "2 of 3", "67%", "1.850"],
        ["after spaces", "1 of 3", "33%", "1.700"],
    ]
    assert rows[1][4].startswith("+0.050 ± 0.635") and rows[2][4:] == ["-0.100", "1.00", "0.00", "0.00"]


def test_the_figure_has_a_point_for_each_run_and_the_mean_of_each_optimum():
    runs = [run("early", 0, SPACES, 1.7), run("early", 1, LAST, 1.8), run("late", 0, LAST, 1.9), run("late", 1, LAST, 1.9)]
    (axes,) = figure(sweep_of(*runs)).axes
    points = sorted(float(line.get_ydata()[0]) for line in axes.lines if line.get_marker() in "osD" and len(line.get_ydata()))
    means = [float(line.get_ydata()[0]) for line in axes.lines if line.get_linestyle() == "-" and len(line.get_ydata()) == 2]
    assert points == pytest.approx([-0.1, -0.05, 0.05, 0.1])  # seeds have means 1.8 and 1.85
    assert means[:2] == pytest.approx([0.1 / 3, -0.1])  # last letters: +0.1, -0.05, +0.05
    assert [label.get_text() for label in axes.get_xticklabels()] == ["at last letters\n3 runs", "after spaces\n1 runs"]


def test_passages_without_words_have_no_places():
    with pytest.raises(RltokError, match=r"^the passages of policy, seed 3, hold no words, so"):
        found(run("policy", 3, "12|34", 1.0))
