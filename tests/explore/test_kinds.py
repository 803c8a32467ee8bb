"""rltok.explore.kinds: boundaries by kind of byte, counted by hand."""

import pytest

from rltok.explore import places
from rltok.explore.kinds import KINDS, counted


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
