"""ch09_optima: on made-up records, the places are read off the text and the intervals are those of a printed table of t."""

import pytest
from sweeps import record, rows_of, sweep_of

from rltok.errors import RltokError
from rltok.evidence.chapters.ch09_optima import NOWHERE, found, optima, optima_table, word_shares

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


def test_each_optimum_has_its_share_and_its_loss_with_students_interval():
    runs = [run("policy", seed, SPACES, bits) for seed, bits in enumerate((1.70, 1.72, 1.77))]
    runs += [run("policy", seed, LAST, 1.80 + 0.02 * (seed - 3)) for seed in (3, 4)] + [run("policy", 5, EVEN, 1.9)]
    first, second, third = optima(runs)
    assert [(one.name, one.runs) for one in (first, second, third)] == [
        ("after spaces", 3), ("at last letters", 2), (NOWHERE, 1),
    ]  # fmt: skip
    assert [one.share for one in (first, second, third)] == pytest.approx([1 / 2, 1 / 3, 1 / 6])
    # t(0.975, 2) = 4.3027, t(0.975, 1) = 12.7062; the deviations are 0.036056 and 0.014142
    assert (first.bits, first.reach) == pytest.approx((1.73, 4.3027 * 0.036056 / 3**0.5), rel=1e-4)
    assert (second.bits, second.reach) == pytest.approx((1.81, 12.7062 * 0.014142 / 2**0.5), rel=1e-4)
    assert third.bits == 1.9 and third.reach is None
    assert first.places == {"after spaces": 1.0, "before second letters": 0.0, "at last letters": 0.0}


def test_the_table_has_all_policies_first_and_leaves_out_what_is_none():
    runs = [run("early", 0, SPACES, 1.7), run("early", 1, LAST, 1.8), run("late", 0, LAST, 1.9), record("even")]
    rows = rows_of(optima_table(sweep_of(*runs)))
    assert [row[:4] for row in rows[1:]] == [
        ["all", "at last letters", "2 of 3", "67%"], ["all", "after spaces", "1 of 3", "33%"],
        ["`early`", "after spaces", "1 of 2", "50%"], ["`early`", "at last letters", "1 of 2", "50%"],
        ["`late`", "at last letters", "1 of 1", "100%"],
    ]  # fmt: skip
    assert rows[1][4].startswith("1.8500 ± 0.635") and rows[2][4:] == ["1.7000", "1.00", "0.00", "0.00"]


def test_passages_without_words_have_no_places():
    with pytest.raises(RltokError, match=r"^the passages of policy, seed 3, hold no words, so"):
        found(run("policy", 3, "12|34", 1.0))
