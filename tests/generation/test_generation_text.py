"""Text from bytes one by one: whole characters at once, and nothing of a stop string."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rltok.errors import RltokError
from rltok.generation.text import TextStream

FEW = st.lists(st.sampled_from([*b"ab", 0xC3, 0xA9, 0xE2, 0x82, 0xAC]), max_size=30).map(bytes)


def before_the_first_stop(data, stops):
    """The data up to the first stop string that is complete, and whether there is one; the longest where several end together."""
    for end in range(1, len(data) + 1):
        ending = [len(stop) for stop in stops if data[:end].endswith(stop)]
        if ending:
            return data[: end - max(ending)], True
    return data, False


def fed(data, stops):
    """The pieces of a stream until it stops, and the stream."""
    stream, pieces = TextStream(stops), []
    for byte in data:
        pieces.append(stream.feed(byte))
        if stream.stopped:
            break
    return [*pieces, stream.finish()], stream


@given(FEW, st.lists(FEW.filter(bool), max_size=3))
def test_the_pieces_are_the_text_before_the_first_stop_string(data, stops):
    pieces, stream = fed(data, stops)
    wanted, stopped = before_the_first_stop(data, stops)
    assert (stream.data, stream.stopped) == (wanted, stopped)
    assert "".join(pieces) == wanted.decode("utf-8", errors="replace")


@given(FEW, st.lists(FEW.filter(bool), min_size=1, max_size=3))
def test_what_has_been_shown_never_has_to_be_taken_back_and_waits_no_longer_than_it_must(data, stops):
    stream, shown = TextStream(stops), ""
    for count, byte in enumerate(data, 1):
        shown += stream.feed(byte)
        if stream.stopped:
            break
        ends = [data[:count][-size:] for size in range(1, count + 1)]
        waits = max((len(end) for end in ends if any(stop.startswith(end) for stop in stops)), default=0)
        certain = data[: count - waits]
        while certain and shown != certain.decode("utf-8", errors="replace"):
            certain = certain[:-1]  # only bytes of a character that is not complete may be missing
        assert count - waits - len(certain) <= 3


def test_a_character_appears_with_its_last_byte():
    stream = TextStream([])
    assert [stream.feed(byte) for byte in "a€é".encode()] == ["a", "", "", "€", "", "é"]


def test_a_character_without_its_end_becomes_one_replacement_character():
    assert "".join(fed(b"a\xe2\x82", [])[0]) == "a\ufffd"


def test_the_start_of_a_stop_string_that_goes_on_otherwise_appears_after_all():
    stream = TextStream(["END"])
    assert [stream.feed(byte) for byte in b"aENxEND"] == ["a", "", "", "ENx", "", "", ""]
    assert stream.stopped and stream.finish() == ""


def test_stop_strings_may_be_bytes_and_must_not_be_empty():
    assert fed(b"ab\xffcd", [b"\xff"])[1].data == b"ab"
    with pytest.raises(RltokError, match="Give at least one character"):
        TextStream(["x", b""])
