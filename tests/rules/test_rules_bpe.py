"""rltok.rules.bpe: boundaries equal those of a byte-pair encoder written out by hand, and only one construction looks ahead."""

import copy
import itertools
import json
import sys
from functools import cache

import numpy as np
import pytest
import tokenizers
import torch
from helpers import ragged_ids, random_uniforms, tiny_config
from hypothesis import given
from hypothesis import settings as effort
from hypothesis import strategies as st

from rltok.data import Document, cut_documents
from rltok.errors import RltokError
from rltok.evidence.rates import text_rates
from rltok.rules import make_rule
from rltok.rules.bpe import BpeRule
from rltok.rules.byte_pairs import BytePairs, learn_merges, row_pattern
from rltok.vocab import BOS, EOS, PAD

TEXT = (
    "The walker's dog walked; she wasn't walking, they're talking.  We'll talk, walk\tand  balk:\n\n    return 12345 + 678\n"
    "naïve café, naïve cafés 🎈🎈 Straße, добро пожаловать, добро 欢迎光临 欢迎 == == ''''\r\n"
) * 3
MERGES = learn_merges([TEXT.encode()], 420)
PAIRS = BytePairs(MERGES)
# What splitting and merging treat differently, and the pieces of characters.
ALPHABET = [
    " ",
    "  ",
    "\n",
    "\t",
    "a",
    "walk",
    "ing",
    "'s",
    "'",
    "'r",
    "e",
    "12",
    "5",
    ".",
    "==",
    "é",
    "🎈",
    "欢迎",
    "\xa0",
    "\ufffd",
    "ж",
]
TEXTS = st.lists(st.sampled_from(ALPHABET), max_size=12).map("".join)
CUT = st.builds(
    lambda text, start, stop: text.encode()[start : len(text.encode()) - stop], TEXTS, st.integers(0, 3), st.integers(0, 3)
)
ANYTHING = st.one_of(
    st.binary(max_size=24), CUT, st.lists(st.one_of(st.binary(max_size=3), TEXTS.map(str.encode)), max_size=5).map(b"".join)
)


def small_rule(boundary="causal", vocabulary=420):
    rule = make_rule(tiny_config("bpe", bpe_boundary=boundary, vocabulary=vocabulary))
    rule.fit(cut_documents([Document(TEXT.encode(), "t", "t")], 64, "windows", name="t"), seed=0)
    return rule


RULE = {boundary: small_rule(boundary) for boundary in ("shifted", "causal")}


# Oracles


def joined(strings):
    """The strings of all ids and the pairs that merge, in order, from those of the bytes."""
    strings, pairs = list(strings), []
    for left, right in MERGES.tolist():
        pairs.append((strings[left], strings[right]))
        if strings[left] + strings[right] not in strings:
            strings.append(strings[left] + strings[right])
    return strings, pairs


@cache
def hugging_face():
    """A tokenizer that takes text whole: split, letters and merges all in the package."""
    strings, pairs = joined(package_letters())
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE({s: i for i, s in enumerate(strings)}, pairs))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    return tokenizer


def package_letters():
    """The package's letter for each byte, found by asking what it writes for characters; any for bytes that text never has."""
    requests = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    letters = {}
    for character in map(
        chr, [*range(0x800), *range(0x800, 0xD800, 64), *range(0xE000, 0x10000, 64), *range(0x10000, 0x110000, 4096)]
    ):
        letters |= dict(zip(character.encode(), requests.pre_tokenize_str(character)[0][0], strict=True))
    return [letters.get(byte, f"never {byte}") for byte in range(256)]


MERGED = {pair: rank for rank, pair in reversed([*enumerate(joined([bytes([byte]) for byte in range(256)])[1])])}


@cache
def merged_by_hand(piece):
    """Token lengths: again and again, the first of all merges that applies, everywhere it does, from the left."""
    tokens = [bytes([byte]) for byte in piece]
    while True:
        known = [pair for pair in itertools.pairwise(tokens) if pair in MERGED]
        if not known:
            return [len(token) for token in tokens]
        pair = min(known, key=MERGED.get)
        i = 0
        while i + 1 < len(tokens):
            if (tokens[i], tokens[i + 1]) == pair:
                tokens[i : i + 2] = [tokens[i] + tokens[i + 1]]
            i += 1


def starts_by_hand(data):
    """Token starts of any bytes: the package splits a text in which one stand-in is written for each stray byte."""
    characters = []  # (what stands for it, bytes)
    rest = data
    while rest:
        for size in (1, 2, 3, 4):
            try:
                characters.append((rest[:size].decode(), size))
                break
            except UnicodeDecodeError:
                pass
        else:
            characters.append(("\N{REPLACEMENT CHARACTER}", 1))
        rest = rest[characters[-1][1] :]
    split = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    starts, place = [], 0
    for _, (first, last) in split.pre_tokenize_str("".join(c for c, _ in characters)):
        size = sum(size for _, size in characters[first:last])
        for length in merged_by_hand(data[place : place + size]):
            starts.append(place)
            place += length
        assert place == sum(size for _, size in characters[:last])
    return starts


def pattern(data, causal):
    return list(PAIRS.pattern(data, causal))


# Segmentation


@effort(max_examples=150)
@given(ANYTHING)
def test_tokens_of_any_bytes_are_those_merged_by_hand_and_tile_them(data):
    starts = starts_by_hand(data)
    assert PAIRS.starts(data) == starts
    assert [i for i, bit in enumerate(pattern(data, causal=False)) if bit] == starts


@effort(max_examples=150)
@given(ANYTHING)
def test_causal_boundaries_are_where_the_last_token_of_every_prefix_starts(data):
    expected = [int(starts_by_hand(data[: i + 1])[-1] == i) for i in range(len(data))]
    assert pattern(data, causal=True) == expected


@given(TEXTS)
def test_where_the_package_can_take_text_whole_it_says_the_same(text):
    package, data = hugging_face(), text.encode()
    whole = [len(token) for token in package.encode(text).tokens]
    assert PAIRS.starts(data) == np.cumsum([0, *whole]).tolist()[:-1]
    for end in range(1, len(text) + 1):
        last = len(package.encode(text[:end]).tokens[-1])
        assert pattern(data, causal=True)[len(text[:end].encode()) - 1] == (last == 1)


def test_the_text_itself_has_tokens_that_hold_parts_of_characters_and_others_that_hold_several():
    data = TEXT.encode()
    starts = PAIRS.starts(data)
    tokens = [data[a:b] for a, b in zip(starts, [*starts[1:], len(data)], strict=True)]
    assert b"".join(tokens) == data and max(map(len, tokens)) > 6
    assert any(len(token.decode(errors="ignore")) > 2 and not token.isascii() for token in tokens)
    assert len(PAIRS.starts("🎈".encode())) == 1 and len(PAIRS.starts("🚲".encode())) > 1


@pytest.mark.parametrize("data", [b"a" * 300, b" " * 300, "欢迎光临".encode() * 20, bytes(range(128, 256)) * 2, b"= " * 100])
def test_long_runs_without_a_place_to_cut_are_segmented_the_same(data):
    for causal in (False, True):
        assert pattern(data, causal) == list(BytePairs(MERGES).pattern(data, causal))
    ends = range(1, len(data) + 1, 37)
    assert [pattern(data, causal=True)[end - 1] for end in ends] == [
        int(starts_by_hand(data[:end])[-1] == end - 1) for end in ends
    ]


def test_what_is_remembered_changes_nothing(monkeypatch):
    monkeypatch.setattr("rltok.rules.byte_pairs.MOST_CACHED", 2)
    fresh = BytePairs(MERGES)
    for causal in (True, False, True):
        assert list(fresh.pattern(TEXT.encode(), causal)) == pattern(TEXT.encode(), causal)


# Rows


def rows_of(texts, width):
    ids = torch.full((len(texts), width), PAD)
    for row, data in zip(ids, texts, strict=True):
        row[: len(data) + 1] = torch.tensor([BOS, *data])
    return ids


def decide(rule, ids):
    return rule.decide(torch.zeros(*ids.shape, 2), ids, random_uniforms(*ids.shape)).boundaries


def test_the_example_of_appendix_d1_gets_its_boundaries():
    """hello_tokenization with tokens hello | _token | ization (a space for _), first as printed, then causally."""
    words, merges = [b"hello", b" token", b"ization"], []
    strings = [bytes([byte]) for byte in range(256)]
    for word in words:
        left = word[:1]
        for byte in word[1:]:
            merges.append((strings.index(left), byte))
            left += bytes([byte])
            strings.append(left)
    pairs = BytePairs(np.array(merges, np.int32))
    ids = np.array([BOS, *b"hello tokenization"])
    assert row_pattern(pairs, ids, causal=False)[1:].astype(int).tolist() == [int(c) for c in "000001000001000000"]
    assert row_pattern(pairs, ids, causal=True)[1:].astype(int).tolist() == [int(c) for c in "100001000001000000"]


@pytest.mark.parametrize("boundary", ["shifted", "causal"])
def test_a_row_is_segmented_alone_with_bos_forced_and_padding_left_out(boundary):
    texts = [TEXT.encode()[:40], b"", b"w", "café 🎈".encode(), b"\xff\xfe walking"]
    boundaries = decide(RULE[boundary], rows_of(texts, 45))
    for row, data in zip(boundaries, texts, strict=True):
        expected = list(RULE[boundary].pairs.pattern(data, boundary == "causal"))
        if data and boundary == "shifted":
            expected[0] = 0  # it follows no token
        assert row[0] and row[1 : len(data) + 1].int().tolist() == expected


def test_texts_on_both_sides_of_an_end_mark_are_segmented_apart():
    one, other = b"walk", b"ing walking"
    ids = np.array([BOS, *one, EOS, *other])
    for causal in (False, True):
        expected = [row_pattern(PAIRS, np.array([BOS, *text]), causal)[1:].tolist() for text in (one, other)]
        assert row_pattern(PAIRS, ids, causal).tolist() == [True, *expected[0], True, *expected[1]]


# Looking ahead


def look_aheads(rule, texts):
    """How many decisions change when a later byte does: (first byte changed, position of the decision)."""
    ids = rows_of(texts, max(map(len, texts)) + 1)
    before, boundaries = decide(rule, ids), []
    for j in range(1, ids.shape[1]):
        for byte in (ord(" "), ord("s"), ord("'"), 0xA9):
            other = ids.clone()
            other[:, j] = torch.where(ids[:, j] < 256, byte, ids[:, j])
            changed = (decide(rule, other)[:, :j] != before[:, :j]).nonzero()[:, 1]
            boundaries += [(j, int(i)) for i in changed]
    return boundaries


ENGLISH = [b"She walked and talked, walking the dog's walk.", b"We'll talk;  they're walking", "naïve café 🎈 walk".encode()]


def test_causal_bpe_does_not_look_ahead():
    assert look_aheads(RULE["causal"], ENGLISH) == []


def test_shifted_bpe_looks_ahead_and_not_only_by_a_byte():
    distances = look_aheads(RULE["shifted"], ENGLISH)
    assert len(distances) > 10 and max(j - i for j, i in distances) >= 3


@pytest.mark.parametrize("seed", range(3))
def test_causal_bpe_does_not_look_ahead_in_random_bytes_either(seed):
    ids = ragged_ids((30, 17), seed=seed)
    before = decide(RULE["causal"], ids)
    for j in range(1, 31):
        other = ids.clone()
        other[:, j:] = torch.where(ids[:, j:] < 256, (ids[:, j:] + 97) % 256, ids[:, j:])
        assert torch.equal(decide(RULE["causal"], other)[:, :j], before[:, :j])


# Vocabulary


def test_a_merge_that_makes_a_known_string_in_another_way_shares_its_id():
    pairs = BytePairs(np.array([[97, 98], [98, 99], [256, 99], [97, 257]], np.int32))  # ab, bc, ab|c, a|bc
    assert pairs.vocabulary == 256 + 3 and pairs.starts(b"abcabc") == [0, 3]


def test_more_vocabulary_than_the_text_supports_stops_early_and_says_where():
    rule = small_rule(vocabulary=5000)
    reached = rule.reached_vocabulary
    assert 300 < reached < 1000 and rule.facts() == {"reached_vocabulary": reached}
    assert rule.merges.shape == (5000 - 256, 2) and (rule.merges >= 0).all(dim=1).sum() >= reached - 256
    assert len(learn_merges([TEXT.encode()], 100_000)) == len(learn_merges([TEXT.encode()], 5000))


def test_a_vocabulary_of_bytes_alone_draws_a_boundary_at_every_byte():
    rule = small_rule(vocabulary=256)
    assert rule.reached_vocabulary == 256 and decide(rule, rows_of([TEXT.encode()[:20]], 21)).all()


def test_text_without_any_pair_that_occurs_twice_is_an_error_that_says_so():
    with pytest.raises(RltokError, match="supports no BPE vocabulary of 300.*Give more text, or set model.rule.vocabulary=256"):
        learn_merges([b"abcdefg"], 300)
    with pytest.raises(RltokError, match="supports no BPE vocabulary"):
        learn_merges([bytes(range(128, 256))], 300)  # no UTF-8 at all


def test_the_same_text_gives_the_same_merges_whatever_its_order_and_bytes_that_are_no_text_are_left_out():
    lines = TEXT.encode().splitlines(keepends=True)
    assert np.array_equal(learn_merges(lines, 420), learn_merges(lines[::-1], 420))
    assert np.array_equal(learn_merges([b"\xff" + line + b"\x80\x81" for line in lines], 420), learn_merges(lines, 420))


def test_fitting_reads_no_more_rows_than_it_is_told_and_those_that_the_seed_chooses():
    halves = Document(b"abab cdcd " * 40 + b"efef ghgh " * 40, "t", "t")
    rows = cut_documents([halves], 80, "windows", name="t")
    fits = []
    for seed in (0, 0, 1, 2, 3):
        rule = BpeRule(vocabulary=300, causal=True, fit_bytes=100)
        rule.fit(rows, seed)
        fits.append(rule.merges.tolist())
    assert fits[0] == fits[1] and any(fits[0] != other for other in fits[2:])
    assert len({json.dumps(merges) for merges in fits}) == 2  # one row, of either half


def test_merges_of_ids_that_do_not_exist_are_refused():
    with pytest.raises(RltokError, match="merge 1 joins ids 300 and 97, of 257 so far"):
        BytePairs(np.array([[97, 98], [300, 97]], np.int32))


# Living in a model


@pytest.mark.parametrize("boundary", ["shifted", "causal"])
def test_a_rule_that_has_seen_no_text_says_so_and_a_fitted_one_travels_as_tensors(boundary):
    fresh = make_rule(tiny_config("bpe", bpe_boundary=boundary, vocabulary=420))
    ids = rows_of([TEXT.encode()[:50]], 51)
    with pytest.raises(RltokError, match=r"'bpe' has not seen any text yet. Fit it first: model\.rule\.fit"):
        decide(fresh, ids)
    assert not list(fresh.parameters())
    fresh.load_state_dict(RULE[boundary].state_dict())
    assert torch.equal(decide(fresh, ids), decide(RULE[boundary], ids))
    assert torch.equal(decide(copy.deepcopy(fresh), ids), decide(fresh, ids))
    fresh.load_state_dict(small_rule(vocabulary=300).state_dict() | {"merges": torch.full((164, 2), -1, dtype=torch.int32)})
    assert decide(fresh, ids)[0, 2:].all()  # the tokenizer follows the merges


def test_without_the_package_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(RltokError, match=r"pip install 'rltok\[bpe\]'"):
        small_rule()


def test_random_boundaries_at_the_measured_rate_are_as_many():
    rows = cut_documents([Document(TEXT.encode(), "t", "t")], 64, "windows", name="t")
    for boundary in ("shifted", "causal"):
        rates = text_rates(RULE[boundary], rows, batch=3)
        assert rates == text_rates(RULE[boundary], rows, batch=100)
        by_hand = [decide(RULE[boundary], rows.ids([i])[:, :-1])[rows.ids([i])[:, 1:] != PAD] for i in range(len(rows))]
        tokens, scored = sum(int(row.sum()) for row in by_hand), sum(map(len, by_hand))
        assert rates.tokens_per_byte == pytest.approx(tokens / scored)
        assert rates.rate == pytest.approx((tokens - len(rows)) / (scored - len(rows)))
        control = make_rule(tiny_config("random_k", target_rate=rates.tokens_per_byte))
        assert text_rates(control, rows, batch=7).tokens_per_byte == pytest.approx(rates.tokens_per_byte, abs=0.5 / 64)
    with pytest.raises(RltokError, match="no rows to count"):
        text_rates(RULE["causal"], rows, batch=3, most_rows=0)
