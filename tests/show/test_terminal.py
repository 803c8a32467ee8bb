"""rltok.show.terminal: what is painted, and that no text can steer the terminal."""

import html
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rltok.show.terminal import BAR, NEWLINE, REPLACED, legend, paint
from rltok.show.views import boundary_html

ESCAPES = re.compile(r"\x1b\[[0-9;]*m")


def plain(data, boundaries=None):
    return paint(data, boundaries or [0] * len(data), [0.5] * len(data), colour=False)


def colours(painted):
    """Background code of every painted character."""
    return [int(code) for code in re.findall(r"\x1b\[48;5;(\d+)m", painted)]


def test_a_bar_stands_after_every_byte_that_ends_a_token():
    assert plain(b"ab cd", [0, 0, 1, 0, 1]) == f"ab {BAR}cd{BAR}"


def test_a_character_of_several_bytes_is_painted_once_with_the_value_of_its_last_byte():
    data = "é!".encode()
    painted = paint(data, [0, 0, 0], [0.0, 1.0, 0.0], colour=True)
    assert ESCAPES.sub("", painted) == "é!"
    assert colours(painted) == [226, 18]


def test_a_boundary_inside_a_character_is_not_lost():
    assert plain("歡x".encode(), [0, 1, 1, 0]) == f"<E6><AD>{BAR}<A1>{BAR}x"
    assert plain("歡x".encode(), [0, 0, 1, 0]) == f"歡{BAR}x"


def test_invalid_bytes_are_each_shown_by_value_with_a_bar_of_their_own():
    assert plain(b"a\xff\xc3(", [0, 1, 1, 0]) == f"a<FF>{BAR}<C3>{BAR}("


def test_a_line_ends_after_its_bar_and_tabs_stay():
    assert plain(b"a\n\tb\n", [0, 0, 0, 0, 1]) == f"a\u21b5\n\tb\u21b5{BAR}\n"
    assert plain(b"a\r\n") == "a\u240d\u21b5\n"


def test_where_only_ascii_can_be_shown_a_bar_and_a_line_end_stay_apart():
    assert f"a{BAR}{NEWLINE}\u6b61".encode("ascii", errors=REPLACED) == b"a|$?"


def test_spaces_of_every_kind_stay_spaces():
    assert plain("7\u00a0€\u3000".encode()) == "7\u00a0€\u3000"


@pytest.mark.parametrize("sequence", [b"\x1b[2J", b"\x1b]0;title\x07", "\u009b2J".encode(), "\u202e".encode(), b"\x7f\x08\x0c"])
def test_control_sequences_reach_the_terminal_as_pictures_only(sequence):
    shown = plain(sequence)
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]", shown)
    assert len(shown) >= len(sequence.decode())


@given(st.binary(max_size=40), st.booleans())
def test_no_bytes_whatever_bring_in_a_control_character(data, colour):
    painted = paint(data, [1] * len(data), [0.9] * len(data), colour)
    rest = ESCAPES.sub("", painted) if colour else painted
    assert all(character.isprintable() or character.isspace() for character in rest)
    assert not set(rest) & {chr(code) for code in range(32)} - {"\n", "\t"}


def test_without_colour_there_is_no_escape_sequence_and_with_it_each_one_is_closed():
    assert "\x1b" not in plain(b"some text") + legend(colour=False)
    painted = paint(b"some text\n", [1] * 10, [0.1] * 10, colour=True)
    assert painted.count("\x1b[0m") == painted.count("\x1b[48") == 10
    assert painted.endswith("\x1b[0m" + BAR + "\n")


def test_the_colour_grows_with_the_probability_and_the_ends_of_the_scale_are_reached():
    painted = paint(b"abcd", [0] * 4, [0.0, 0.4, 0.6, 1.0], colour=True)
    assert colours(painted) == [18, 66, 143, 226]
    assert colours(legend(colour=True))[0] == 18 and colours(legend(colour=True))[-1] == 226


def test_without_probabilities_the_boundaries_themselves_are_coloured():
    assert colours(paint(b"ab", [0, 1], None, colour=True)) == [18, 226]
    told = legend(True, drawn=True)
    assert colours(told) == [18, 226] and "no probability" in told and "probability of that" in legend(True)


def test_nothing_paints_nothing():
    assert paint(b"", [], [], colour=True) == ""


@pytest.mark.parametrize(
    ("data", "drawn", "sign", "meaning"),
    [
        ("Äpfel".encode(), 0, "<C3>", "a byte of a character inside which a token ends"),
        (b"a\xff", None, "<FF>", "a byte that is no UTF-8"),
        ("a\u200bb".encode(), None, "<U+200B>", "a character that cannot be seen"),
        (b"a\x07", None, "\u2407", "a character that cannot be seen"),
    ],
)
def test_the_legend_explains_what_stands_in_for_a_character_where_it_does(data, drawn, sign, meaning):
    boundaries = [int(i == drawn) for i in range(len(data))]
    assert sign in plain(data, boundaries)
    told = legend(False, (b"plain", [0] * 5), (data, boundaries), (data, boundaries))
    assert told.startswith(legend(False) + f", {sign} = ") and meaning in told and told.count(" = ") == 3
    page = boundary_html(data, boundaries, None, "label")
    assert re.search(f'title="[^"]*; {meaning}">{re.escape(html.escape(sign))}<', page)
    assert page.count(meaning) == (1 if drawn is None else 2)  # a character of two bytes
    literal = sign.encode() if sign.startswith("<") else "\u2407".encode()
    assert legend(False, (literal, [0] * len(literal)), ("Ä".encode(), [0, 1])) == legend(False)
