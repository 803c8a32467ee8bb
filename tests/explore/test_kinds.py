"""rltok.explore.kinds: boundaries by kind of byte, counted by hand."""

import pytest

from rltok.explore import places
from rltok.explore.kinds import KINDS, by_themselves, counted, each_byte


def test_each_byte_is_of_one_kind():
    text = "the Ink(x2)\n\té".encode()
    found = places(text, [True] * len(text))
    assert {kind: there for kind, (_, there) in found.items()} == {
        "end of a line": 1, "other white space": 2, "vowel": 2, "first consonants of a word": 3, "other consonant": 2,
        "digit": 1, "closing bracket": 1, "other sign": 1, "beyond ASCII": 2,
    }  # fmt: skip
    assert all(drawn == there for drawn, there in found.values()) and [*found] == [*KINDS]
    every = bytes(range(256))
    assert sum(there for _, there in places(every, [False] * 256).values()) == 256


def test_the_first_consonants_end_at_the_first_vowel_and_stand_at_the_beginning_of_a_word():
    found = places(b"stray_tray", [True, True, True, False, False, False, True, False, False, False])
    assert found["first consonants of a word"] == (4, 5) and found["other consonant"] == (0, 2)
    assert found["vowel"] == (0, 2) and found["other sign"] == (0, 1)


def test_boundaries_and_bytes_belong_together():
    assert counted("aab", [True, False, True]) == {"a": (1, 2), "b": (1, 1)}
    with pytest.raises(ValueError, match="shorter"):
        places(b"abc", [True])


def told(text, after):
    """Sentences on a text with boundaries after the bytes at those places."""
    return by_themselves(each_byte(text, [i in after for i in range(len(text))]))


def test_what_a_byte_does_by_itself_is_told_where_it_is_there_often():
    text = b"(" * 20 + b")" * 20 + b"[" * 19 + b"`" * 40
    assert told(text, {*range(20, 40), *range(59, 89)}) == [
        "Signs, those that are there at least 20 times: nearly always (95% or more) after `)`; in between after `` ` `` (75%);"
        " never after `(`."
    ]
    assert told(b"e" * 100, {3}) == ["Letters, those that are there at least 20 times: hardly ever (5% or less) after `e`."]
    assert told(b"\n" * 100 + b" " * 100, {3}) == [] == told(b"", set())
    assert told(b"\xe2" * 20, set()) == ["Bytes beyond ASCII, those that are there at least 20 times: never after `<E2>`."]


def test_a_letter_that_depends_on_its_place_is_told_for_both():
    text = b"tat " * 20  # one t begins the word, one ends it
    places_of_first = {4 * i for i in range(20)}
    assert told(text, places_of_first)[1:] == ["Among the first consonants of a word, and later in it: `t` 100% and 0%."]
    assert len(told(text, {4 * i for i in range(3)})) == 1, "15 points are no matter"
    assert len(told(text, places_of_first | {i + 2 for i in places_of_first})) == 1
