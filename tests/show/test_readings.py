"""rltok.show.readings: every byte is shown once with its numbers, no text becomes markup, two readings differ where they do."""

import re
from html.parser import HTMLParser

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rltok.show.characters import NO_UTF8, UNSEEN, replaced
from rltok.show.readings import Reading, clusters, differing, enrichment, keys, reading_html, summary


def reading(data, boundaries=None, bits=None, **more):
    data = data if isinstance(data, bytes) else data.encode()
    count = len(data)
    given = {"probabilities": [0.25] * count, "early_bits": bits or [1.0] * count, "starts": [0]} | more
    return Reading(data, boundaries or [False] * count, bits=bits or [1.0] * count, **given)


class Page(HTMLParser):
    """Tags, titles and text of a page, as a browser would take it."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.spans, self.text, self.style = [], [], "", False
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.style = tag == "style"
        if tag == "span":
            self.spans.append(dict(attrs))

    def handle_endtag(self, tag):
        self.style = False

    def handle_data(self, data):
        self.text += "" if self.style else data


@settings(max_examples=40)
@given(st.binary(max_size=30) | st.text(max_size=20).map(lambda text: text.encode(errors="ignore")))
def test_clusters_tile_any_bytes(data):
    found = list(clusters(data))
    assert b"".join(data[start:stop] for start, stop, _ in found) == data
    assert [start for start, _, _ in found] == [0, *(stop for _, stop, _ in found)][: len(found)]
    assert all(text.encode() == data[start:stop] for start, stop, text in found if text)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("e\u0301x", ["e\u0301", "x"]),
        ("👩‍👧!", ["👩‍👧", "!"]),
        ("👍🏽", ["👍🏽"]),
        ("நி", ["நி"]),
        ("\u0301", ["\u0301"]),
        ("", []),
    ],
)
def test_marks_and_joined_emoji_stay_with_their_character(text, parts):
    assert [part for _, _, part in clusters(text.encode())] == parts


@settings(max_examples=40)
@given(st.text(max_size=20), st.text(max_size=10))
def test_no_text_or_label_becomes_markup(text, label):
    data = text.encode(errors="ignore")
    page = Page(reading_html(reading(data), label))
    assert set(page.tags) <= {"style", "div", "span", "wbr"} and page.tags.count("div") == 1
    assert len(page.spans) == len(list(clusters(data)))


def test_space_new_line_and_tab_are_seen_and_bytes_that_are_no_utf_8_spelled():
    page = Page(reading_html(reading(b" \n\t<b>\xff\x00"), "odd"))
    assert page.text == "\u00b7\u21b5\n\u21e5<b><FF>\u2400"
    assert [span["title"].split(" (")[0] for span in page.spans[:3]] == ["space", "new line", "tab"]


def test_what_turns_the_direction_of_writing_shows_as_its_code_point():
    assert Page(reading_html(reading("a\u202eb\u202e\u0301"), "odd")).text == "a<U+202E>b<U+202E>\u0301"


def test_the_key_explains_what_stands_in_for_a_character_where_it_does_in_the_words_of_the_terminal():
    data = "\x00e\u200d<b>Ä".encode() + b"\xff"
    told = {UNSEEN: "\u2400", NO_UTF8: "<FF>"}  # the joiner stays with its character, as it is
    assert Page(keys(data)).text == Page(keys(b"plain")).text + "".join(f" {sign} {words}" for words, sign in told.items())
    assert replaced(data, [0] * len(data)) == told


def test_hovering_says_code_points_bytes_and_the_numbers_of_each():
    shown = reading("é", [False, True], bits=[3.5, 0.25], probabilities=[0.125, 0.75])
    (span,) = Page(reading_html(shown, "x")).spans
    assert span["title"] == (
        "é (U+00E9) – byte 195: surprise 3.50 bits, boundary after it 0.12, not drawn;"
        " byte 169: surprise 0.25 bits, boundary after it 0.75, drawn"
    )
    assert span["class"] == "ends" and span["style"].count("linear-gradient") == 4


def test_a_boundary_inside_a_character_and_a_threshold_are_lines_of_their_own():
    layers = [
        Page(reading_html(reading("é", drawn), "x", threshold=threshold)).spans[0]["style"].count("linear-gradient")
        for drawn, threshold in (([False, True], None), ([True, False], None), ([True, False], 0.5))
    ]
    assert layers == [4, 5, 6]


def test_bars_grow_with_surprise_up_to_8_bits_and_with_the_probability():
    heights = [
        re.search(r"background-size:100% ([\d.]+)rem,100% ([\d.]+)rem", reading_html(shown, "x")).groups()
        for shown in (reading("a", bits=[2.0]), reading("a", bits=[8.0]), reading("a", bits=[30.0], probabilities=[1.0]))
    ]
    assert heights == [("0.20", "0.20"), ("0.20", "0.80"), ("0.80", "0.80")]


def test_right_to_left_characters_are_mirrored_and_a_new_row_begins_with_a_line():
    page = Page(reading_html(reading("aא", starts=[0, 1]), "x"))
    assert [span["class"] for span in page.spans] == ["", "mirrored afresh"]


def test_a_rule_without_probabilities_shows_its_boundaries():
    page = reading_html(reading("ab", [False, True], probabilities=None), "x")
    assert re.findall(r"background-size:100% ([\d.]+)rem", page) == ["0.00", "0.80"]
    assert "boundary after it, drawn" in page


def test_spans_differ_from_one_common_boundary_to_the_next():
    one, other = ([mark == "|" for mark in marks] for marks in ("..|...|.|..", "..|.|..||.."))
    assert differing(one, other) == [False] * 3 + [True] * 6 + [False] * 2
    assert differing(one, one) == [False] * 11 and differing([], []) == []
    page = Page(reading_html(reading("abcdefghijk", one), "x", marked=differing(one, other)))
    assert [i for i, span in enumerate(page.spans) if "differs" in span["class"]] == list(range(3, 9))


def test_enrichment_is_surprise_after_boundaries_over_surprise_everywhere():
    shown = reading("abcd", [True, False, True, False], early_bits=[9.0, 4.0, 1.0, 4.0], bits=[0.0] * 4)
    assert enrichment(shown) == pytest.approx(4 / 3)


def test_enrichment_leaves_out_first_bytes_of_rows_and_is_unknown_without_boundaries():
    shown = reading("abcd", [True, True, True, True], early_bits=[9.0, 4.0, 50.0, 2.0], starts=[0, 2])
    assert enrichment(shown) == 1.0
    assert enrichment(reading("abcd")) is None and enrichment(reading("a", [True])) is None and enrichment(reading("")) is None


def test_the_summary_counts_tokens_and_bits():
    shown = reading("abcd", [True, False, True, True], early_bits=[1.0] * 4, bits=[1.0, 2.0, 3.0, 4.0])
    assert summary(shown) == "3 boundaries in 4 bytes, 0.750 tokens a byte; 2.50 bits a byte; boundary enrichment 1.00"
    assert summary(reading("")) == "Nothing to read yet."


@pytest.mark.parametrize(
    ("data", "boundaries", "words"),
    [
        ("a", [False], "0 boundaries in 1 byte,"), ("a", [True], "1 boundary in 1 byte,"),
        ("ab", [False, True], "1 boundary in 2 bytes,"), ("ab", [True, True], "2 boundaries in 2 bytes,"),
    ],
)  # fmt: skip
def test_one_is_said_in_the_singular(data, boundaries, words):
    assert summary(reading(data, boundaries)).startswith(words)
