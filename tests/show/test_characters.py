"""rltok.show.characters: every boundary is shown where it was drawn, and nothing can steer a terminal."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rltok.errors import RltokError
from rltok.show.characters import PART, Shown, shown_characters
from rltok.vocab import to_utf8


def texts(text):
    number = len(to_utf8(text))
    return [entry.text for entry in shown_characters(text, [0] * number, [0.0] * number)]


def test_lists_of_another_length_than_the_bytes_are_refused():
    with pytest.raises(RltokError, match="2 bytes needs as many boundaries and values; got 1, 2"):
        shown_characters("é", [0], [0.5, 0.5])


def test_a_character_of_several_bytes_appears_once_with_the_value_of_its_last_byte():
    assert shown_characters("é!", [0, 1, 0], [0.1, 0.7, 0.2]) == [Shown("é", 0.7, True), Shown("!", 0.2, False)]


def test_a_character_with_a_boundary_inside_appears_as_its_bytes():
    assert shown_characters("日", [1, 0, 1], [0.1, 0.2, 0.3]) == [
        Shown("<E6>", 0.1, True, PART),
        Shown("<97>", 0.2, False, PART),
        Shown("<A5>", 0.3, True, PART),
    ]


def test_joiners_and_controls_have_names_or_pictures_and_bytes_that_are_no_text_their_value():
    assert texts("👩\u200d👧") == ["👩", "<U+200D>", "👧"]
    assert texts(b"a\x1b\xffb\xc3") == ["a", "\u241b", "<FF>", "b", "<C3>"]
    assert texts("\ufffd\u00a0") == ["\ufffd", "\u00a0"]  # the real replacement character is a character


@given(st.binary(max_size=60), st.data())
def test_no_boundary_is_lost_or_added(data, draw):
    boundaries = draw.draw(st.lists(st.integers(0, 1), min_size=len(data), max_size=len(data)))
    shown = shown_characters(data, boundaries, [0.5] * len(data))
    assert sum(entry.ends for entry in shown) == sum(boundaries)


@given(st.text(max_size=30))
def test_without_boundaries_valid_text_keeps_its_characters_but_for_invisible_ones(text):
    data = text.encode("utf-8", errors="ignore")
    shown = texts(data)
    assert len(shown) == len(data.decode())
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e]", "".join(shown))
