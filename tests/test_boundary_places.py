"""rltok.boundary_places: counts against a reading of the text by hand and by a regular expression."""

import random
import re

import pytest
from sweeps import record, sweep_of

from rltok.boundary_places import lengths, places_table, shares, words


def sample(text, marks):
    assert len(text) == len(marks)
    return {"text": text, "boundaries": marks, "row": 0, "percent": None}


def test_a_word_begins_a_token_where_the_byte_before_its_first_letter_has_a_boundary():
    #                     an old, red 'ox' 42
    assert words(sample("an old, red 'ox' 42", "0010001001111000010")) == (3, 2)  # old and ox; red has its in itself
    assert words(sample("an old, red 'ox' 42", "0010000100001000010")) == (3, 3)
    assert words(sample("word", "1111")) == words(sample("", "")) == (0, 0)  # nothing is known of the byte before


@pytest.mark.parametrize("seed", range(5))
def test_words_are_those_that_a_regular_expression_finds(seed):
    maker = random.Random(seed)
    text = "".join(maker.choice("aZ  ,.7@[`{\n\xe9\xc1") for _ in range(300))
    marks = "".join(maker.choice("01") for _ in text)
    starts = [match.start() for match in re.finditer("[A-Za-z]+", text) if match.start()]
    assert words(sample(text, marks)) == (len(starts), sum(marks[start - 1] == "1" for start in starts))


def test_shares_are_of_all_boundaries():
    score = {
        "class_counts": {"space": 10, "letter": 40, "digit": 0},
        "class_rates": {"space": 0.9, "letter": 0.05, "digit": None},
    }
    assert shares(score) == pytest.approx({"space": 9 / 11, "letter": 2 / 11, "digit": 0})
    assert shares({"class_counts": {"space": 10}, "class_rates": {"space": 0.0}}) == {}


def test_tokens_at_the_ends_of_a_passage_are_left_out_of_the_lengths():
    assert lengths(sample("abcdefgh", "01001100")) == [3, 1]
    assert lengths(sample("abc", "010")) == []


def test_the_table_has_a_row_for_everybody_and_survives_passages_without_boundaries():
    none, some = record("naive"), record("even")
    none["samples"] = [one | {"boundaries": "0" * len(one["text"])} for one in none["samples"]]
    counts = {"space": 30, "word start": 20, "letter": 60, "punctuation": 10, "digit": 0}
    rates = {"space": 0.5, "word start": 0.25, "letter": 0.0, "punctuation": 0.5, "digit": None}
    some["scores"]["validation"] |= {"class_counts": counts, "class_rates": rates}
    rows = [row.strip("| ").split(" | ") for row in places_table(sweep_of(some, none)).splitlines()[2:]]
    assert [row[0] for row in rows] == ["`even`", "`naive`"]
    assert rows[0][1:6] == ["0.60", "0.20", "0.00", "0.20", "0.50"] and rows[0][7] == "2.0 ± 0.0"
    assert rows[1][1:] == ["-"] * 5 + ["0.00", "-"]
