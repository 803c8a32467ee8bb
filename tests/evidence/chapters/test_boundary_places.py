"""rltok.evidence.chapters.ch06_where: counts against a reading of the text by hand and by a regular expression."""

import random
import re

import pytest
from sweeps import record, sweep_of

from rltok.evidence.chapters.ch06_where import (
    AROUND,
    around_table,
    around_words,
    lengths,
    onsets,
    onsets_table,
    places_table,
    shares,
    words,
)


def sample(text, marks):
    assert len(text) == len(marks)
    return {"text": text, "boundaries": marks, "row": 0, "percent": None}


def drawn(text):
    """A passage with a bar after each byte that has a boundary."""
    plain = text.replace("|", "")
    marks = ["0"] * len(plain)
    at = 0
    for part in text.split("|")[:-1]:
        at += len(part)
        marks[at - 1] = "1"
    return sample(plain, "".join(marks))


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


def test_words_are_told_apart_by_their_onset():
    by_onset = onsets(drawn("A Th|e sh|ip at s|ea: y|es, b|y oxen, psst| cr|y"))
    assert by_onset[1, True, 0] == [False] and by_onset[1, True, 1] == [True]  # sea
    assert by_onset[1, False, 1] == [True, True] and by_onset[1, False, 2] == [False, False]  # yes, by
    assert by_onset[2, True, 2] == [True, True] and by_onset[2, False, 2] == [False, True]  # The, ship; psst, cry
    assert by_onset[0, False, 1] == [False, False]  # at, oxen; A begins the passage, so it does not count
    assert len(by_onset[2, False, 3]) == 2 and len(by_onset[1, False, 3]) == 1  # by is too short


@pytest.mark.parametrize("seed", range(5))
def test_onsets_are_those_of_a_walk_along_the_text(seed):
    maker = random.Random(seed)
    text = "".join(maker.choice("aeiouyAEYbcdfTSst  ,.\n\xe9") for _ in range(400))
    marks = "".join(maker.choice("01") for _ in text)
    wanted, beside = {}, {place: [] for place in AROUND}
    letter = [c.isascii() and c.isalpha() for c in text]
    for at in range(1, len(text)):
        if not letter[at] or letter[at - 1]:
            continue
        size = 0
        while at + size < len(text) and letter[at + size]:
            size += 1
        count = 0
        while count < size and (text[at + count].lower() not in "aeiouy" or (count == 0 and text[at] in "yY")):
            count += 1
        for place in range(min(size, 3) + 1):
            wanted.setdefault((min(count, 2), text[at].lower() in ("s", "t"), place), []).append(marks[at - 1 + place] == "1")
        if at > 1 and text[at - 1] == " " and letter[at - 2]:
            for place, step in zip(AROUND, (-2, -1, 0, 1, 2), strict=True):
                if step < size:
                    beside[place].append(marks[at + step] == "1")
    assert onsets(sample(text, marks)) == wanted
    assert around_words(sample(text, marks)) == beside and beside["the space"]


def test_onsets_are_of_the_passages_of_all_seeds_and_a_word_counts_once():
    first, again = record("ours"), record("ours", seed=1)
    first["samples"], again["samples"] = [drawn(" b|e d|o at")], [drawn(" b|e do at")]
    rows = [row.strip("| ").split(" | ") for row in onsets_table(sweep_of(first, again), "ours").splitlines()[2:]]
    assert rows[0] == ["a vowel", "1", "0.00", "0.00", "0.00", "-"]
    assert rows[1] == ["one consonant, not s or t", "2", "0.00", "0.75", "0.00", "-"]  # two words, two seeds
    assert rows[4] == ["several consonants, s or t first", "0", "-", "-", "-", "-"]


def test_places_around_words_stand_by_view():
    views = {"early": drawn("so i|s it, |and"), "late": drawn("no words|")}
    rows = [row.strip("| ").split(" | ") for row in around_table(views).splitlines()]
    assert rows[2] == ["early", "2", "0.00", "0.00", "0.50", "0.00", "-"]
    assert rows[3] == ["late", "1", "0.00", "0.00", "0.00", "0.00", "0.00"]


def test_places_may_be_of_some_contenders():
    table = places_table(sweep_of(record("even"), record("ours")), ["ours", "nobody"])
    assert [row.split(" | ")[0] for row in table.splitlines()[2:]] == ["| `ours`"]
