"""rltok.boundary_places: counts against a reading of the text by hand, letter by letter."""

import re

import pytest
from sweeps import record, sweep_of

from rltok.boundary_places import PLACES, lengths, places, places_table


def sample(text, marks):
    assert len(text) == len(marks)
    return {"text": text, "boundaries": marks, "row": 0, "percent": None}


def test_each_byte_is_counted_by_its_place_and_each_word_by_the_byte_before_it():
    found = places(sample("an old, red 'ox' 42", "0010001100111000010"))
    #                      an old, red 'ox' 42
    assert {place: found[place] for place in PLACES} == {
        "space": 4, "word start": 3, "letter": 7, "punctuation": 3, "digit or other": 2,
    }  # fmt: skip
    # marks follow: the space before old, the comma, the space after it, the e of red? no: its d, the space, the quote, the 4
    assert {place: found[f"at {place}"] for place in PLACES} == {
        "space": 3, "word start": 0, "letter": 1, "punctuation": 2, "digit or other": 1,
    }  # fmt: skip
    assert (found["words"], found["fresh"]) == (3, 3)  # old, red, ox; the passage begins with the other one


@pytest.mark.parametrize("seed", range(5))
def test_words_are_those_that_a_regular_expression_finds(seed):
    import random

    maker = random.Random(seed)
    text = "".join(maker.choice("ab  ,.7\n\xe9") for _ in range(300))
    marks = "".join(maker.choice("01") for _ in text)
    found = places(sample(text, marks))
    starts = [match.start() for match in re.finditer("[A-Za-z]+", text) if match.start()]
    assert found["words"] == len(starts)
    assert found["fresh"] == sum(marks[start - 1] == "1" for start in starts)
    assert sum(found[place] for place in PLACES) == 300 and sum(found[f"at {p}"] for p in PLACES) == marks.count("1")


def test_tokens_at_the_ends_of_a_passage_are_left_out_of_the_lengths():
    assert lengths(sample("abcdefgh", "01001100")).tolist() == [3, 1]
    assert len(lengths(sample("abc", "010"))) == 0


def test_the_table_has_a_row_for_everybody_and_survives_passages_without_boundaries():
    none = record("naive")
    none = none | {"samples": [one | {"boundaries": "0" * len(one["text"])} for one in none["samples"]]}
    rows = [row.strip("| ").split(" | ") for row in places_table(sweep_of(record("even"), none)).splitlines()[2:]]
    assert [row[0] for row in rows] == ["`even`", "`naive`"]
    assert rows[1][1:6] == ["-"] * 5 and rows[1][6:] == ["0.00", "0.00", "-"]
    assert sum(map(float, rows[0][1:6])) == pytest.approx(1, abs=0.03) and rows[0][8] == "2.0 ± 0.0"
