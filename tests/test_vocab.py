"""rltok.vocab: ids, strict decoding, and text that arrives in pieces."""

import re

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rltok import vocab
from rltok.errors import RltokError

# Well-formed UTF-8 by the table of RFC 3629, as an oracle that shares nothing with Python's decoder.
WELL_FORMED = re.compile(
    rb"[\x00-\x7f]|[\xc2-\xdf][\x80-\xbf]|\xe0[\xa0-\xbf][\x80-\xbf]|[\xe1-\xec\xee\xef][\x80-\xbf]{2}|\xed[\x80-\x9f][\x80-\xbf]"
    rb"|\xf0[\x90-\xbf][\x80-\xbf]{2}|[\xf1-\xf3][\x80-\xbf]{3}|\xf4[\x80-\x8f][\x80-\xbf]{2}"
)
# Plain random bytes hardly ever form long characters, so mix in whole ones and halves of them.
PIECES = st.binary(max_size=3) | st.text(max_size=3).map(str.encode) | st.sampled_from([b"\xf0\x9f", b"\xe2\x82"])
BYTES = st.lists(PIECES).map(b"".join)


def spans_by_table(data):
    spans, start = [], 0
    while start < len(data):
        match = WELL_FORMED.match(data, start)
        spans.append((start, match.end() if match else start + 1))
        start = spans[-1][1]
    return spans


def test_ids_are_bytes_then_three_marks():
    assert (vocab.BOS, vocab.EOS, vocab.PAD, vocab.NUM_IDS) == (256, 257, 258, 259)
    assert vocab.PADDED_IDS >= vocab.NUM_IDS and vocab.PADDED_IDS % 8 == 0


def test_every_id_but_bos_and_pad_can_be_predicted():
    assert set(vocab.PREDICTED) == set(range(259)) - {vocab.BOS, vocab.PAD} and len(vocab.PREDICTED) == 257


def test_encode_gives_the_utf8_bytes_by_hand():
    ids = vocab.encode("aé€")
    assert ids.dtype == np.int64 and ids.tolist() == [0x61, 0xC3, 0xA9, 0xE2, 0x82, 0xAC]
    assert vocab.encode(b"\xff\x00").tolist() == [255, 0] and vocab.encode("").shape == (0,)


@given(st.binary(max_size=40))
def test_decode_undoes_encode_for_any_bytes(data):
    assert vocab.decode(vocab.encode(data)) == data


def test_decode_takes_lists_arrays_tensors_and_generators_and_leaves_out_the_marks():
    ids = [vocab.BOS, 104, 105, vocab.EOS, vocab.PAD]
    for form in (ids, tuple(ids), np.array(ids, np.int32), torch.tensor([ids]), iter(ids)):
        assert vocab.decode(form) == b"hi"
    assert vocab.decode([]) == b""


@pytest.mark.parametrize("ids, shown", [([5, 259], "259"), ([-1], "-1"), ([1.0], "float"), ([True], "bool")])
def test_decode_refuses_what_is_no_id(ids, shown):
    with pytest.raises(RltokError, match=shown) as caught:
        vocab.decode(ids)
    assert "\n" not in str(caught.value)


def test_half_a_surrogate_pair_is_refused_with_its_place():
    with pytest.raises(RltokError, match="character 2 is the lone surrogate U\\+D83C"):
        vocab.encode("ab\ud83c")


def test_streaming_gives_a_character_only_when_its_last_byte_is_there():
    decoder = vocab.StreamingDecoder()
    assert [decoder.feed(byte) for byte in "€a".encode()] == ["", "", "€", "a"]


def test_streaming_turns_invalid_and_unfinished_bytes_into_replacement_characters():
    decoder = vocab.StreamingDecoder()
    assert decoder.feed([0x61, 0xFF, 0x62]) == "a\ufffdb"
    assert decoder.feed([0xE2, 0x82]) == "" and decoder.finish() == "\ufffd"
    assert decoder.feed(b"ok") == "ok" and decoder.finish() == ""  # starts afresh


def test_streaming_passes_over_marks_inside_a_character():
    decoder = vocab.StreamingDecoder()
    assert decoder.feed([vocab.BOS, 0xC3]) + decoder.feed(vocab.PAD) + decoder.feed(np.int64(0xA9)) == "é"
    with pytest.raises(RltokError, match="300"):
        decoder.feed(300)


@given(BYTES, st.data())
def test_streaming_in_any_pieces_equals_decoding_at_once(data, draw):
    decoder, start, text = vocab.StreamingDecoder(), 0, ""
    while start < len(data):
        size = draw.draw(st.integers(1, 5))
        text += decoder.feed(data[start : start + size])
        start += size
    assert text + decoder.finish() == data.decode("utf-8", errors="replace")


@settings(max_examples=300)
@given(BYTES)
def test_character_spans_equal_the_rfc_table(data):
    assert vocab.character_spans(data) == spans_by_table(data)


def test_character_spans_by_hand():
    assert vocab.character_spans("a€".encode() + b"\xff" + b"\xe2\x82") == [(0, 1), (1, 4), (4, 5), (5, 6), (6, 7)]
    assert vocab.character_spans(b"\xed\xa0\x80") == [(0, 1), (1, 2), (2, 3)]  # an encoded surrogate is no character
    assert vocab.character_spans(b"") == []


@pytest.mark.parametrize("texts", ["one", b"one", ["one"], ("one",), iter([b"one"])])
def test_a_plain_string_is_one_text(texts):
    assert vocab.as_texts(texts) == [b"one"]


@pytest.mark.usefixtures("shapes_unchecked")
@pytest.mark.parametrize("wrong", [None, 5, ["one"], bytearray(b"one")])
def test_what_is_no_text_is_one_line(wrong):
    with pytest.raises(RltokError, match=f"a text must be str or bytes; got {type(wrong).__name__}. Give one text"):
        vocab.to_utf8(wrong)
