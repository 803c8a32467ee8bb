"""rltok.evidence.toy: words without separators, a chain of second order, and all that is exactly known of them."""

import itertools
import math

import numpy as np
import pytest
import torch
from helpers import tiny_config
from hypothesis import given
from hypothesis import strategies as st

from rltok.errors import RltokError
from rltok.evidence.toy import Language, Lexicon, OracleRule, independent, second_order
from rltok.evidence.toy.lexicon import NO_WORD, WORDS
from rltok.unet import AutoregressiveUNet
from rltok.vocab import BOS, EOS, PAD

SMALL = Lexicon([b"a", b"bc", b"bda"])
numbers = st.lists(st.integers(0, 2), min_size=1, max_size=8)


def as_array(text):
    return np.frombuffer(text, np.uint8).astype(np.int64)[None]


def any_language(lexicon, seed=0):
    """A chain whose rows have nothing in common, with some words that never follow some pairs."""
    generator = np.random.default_rng(seed)
    table = generator.dirichlet(np.full(len(lexicon), 0.7), size=(len(lexicon),) * 2)
    table[0, 1, 0] = 0
    return Language(lexicon, table / table.sum(axis=2, keepdims=True))


def pairs_by_eigenvector(table):
    """Stationary shares of pairs as the eigenvector of the W^2 x W^2 matrix from pair to pair."""
    words = len(table)
    matrix = np.zeros((words**2, words**2))
    for a, b, c in itertools.product(range(words), repeat=3):
        matrix[b * words + c, a * words + b] = table[a, b, c]
    values, vectors = np.linalg.eig(matrix)
    vector = np.real(vectors[:, np.argmin(np.abs(values - 1))])
    return (vector / vector.sum()).reshape(words, words)


def chance(language, sequence):
    """Probability of a sequence of words that starts in endless text, whatever the two words before it."""
    shares, total = pairs_by_eigenvector(language.table), 0.0
    for a, b in itertools.product(range(len(language.lexicon)), repeat=2):
        each = shares[a, b]
        for before, now, after in zip((a, b, *sequence), (b, *sequence), sequence, strict=False):
            each *= language.table[before, now, after]
        total += each
    return total


@given(numbers)
def test_words_run_together_are_found_again_with_every_byte_s_place(chosen):
    text = as_array(SMALL.spell(chosen))
    word, place = SMALL.places(text)
    lengths = [len(SMALL.words[number]) for number in chosen]
    assert word[0].tolist() == [number for number, length in zip(chosen, lengths, strict=True) for _ in range(length)]
    assert place[0].tolist() == [i for length in lengths for i in range(length)]
    stops = set(np.cumsum(lengths) - 1)
    ended = SMALL.follow(text)[0]
    assert {i for i, number in enumerate(ended) if number != NO_WORD} == stops
    assert [number for number in ended if number != NO_WORD] == chosen


@given(numbers, st.integers(0, 20))
def test_the_end_of_a_word_is_known_from_the_bytes_up_to_it(chosen, cut):
    text = as_array(SMALL.spell(chosen))
    changed = text.copy()
    changed[:, cut + 1 :] = ord("z")
    assert np.array_equal(SMALL.follow(text)[:, : cut + 1], SMALL.follow(changed)[:, : cut + 1])


def test_after_bytes_of_no_word_nothing_ends_and_an_unfinished_word_is_no_word():
    assert SMALL.follow(as_array(b"abxabc"))[0].tolist() == [0, -1, -1, -1, -1, -1]
    assert SMALL.follow(np.array([[97, EOS, 97]]))[0].tolist() == [0, -1, -1]
    word, place = SMALL.places(as_array(b"abd"))
    assert word.tolist() == [[0, NO_WORD, NO_WORD]] and place.tolist() == [[0, NO_WORD, NO_WORD]]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "it is empty"),
        ([b"a"], "it has one word, b'a'"),
        ([b"bc", b"a", b"bcd"], "the word b'bc' begins the word b'bcd'"),
        ([b"b", b"ba", b"bb"], "the word b'b' begins the word b'ba'"),
        ([b"a", b"b", b"a"], "b'a' stands twice"),
        ([b"a", b""], "at least one of them; got b''"),
        ([b"a", "b"], "must be bytes, at least one of them; got 'b'"),
        ([b"a", 7], "got 7"),
    ],
)
def test_a_lexicon_that_cannot_be_read_is_refused_in_one_line(words, message):
    with pytest.raises(RltokError) as error:
        Lexicon(words)
    assert message in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize("wrong", ["shape", "sum", "negative"])
def test_a_table_that_holds_no_chances_is_refused(wrong):
    table = np.full((3, 3, 3) if wrong != "shape" else (2, 2, 2), 1 / 3)
    if wrong == "sum":
        table[1, 2] *= 0.9
    if wrong == "negative":
        table[0, 0] = [-0.5, 1, 0.5]
    with pytest.raises(RltokError, match="shape" if wrong == "shape" else "sum to 1"):
        Language(SMALL, table)


@pytest.mark.parametrize("surprise", [0.0, -0.1, 1.1, math.nan])
def test_a_chance_of_surprise_outside_its_limits_is_refused(surprise):
    with pytest.raises(RltokError, match="greater than 0 and at most 1"):
        second_order(SMALL, surprise, 0)


def test_shares_of_pairs_are_the_eigenvector_of_the_chain():
    language = any_language(SMALL)
    np.testing.assert_allclose(language.stationary, pairs_by_eigenvector(language.table), atol=1e-12)
    lengths = np.array([1, 2, 3])
    np.testing.assert_allclose(language.bytes_per_word, pairs_by_eigenvector(language.table).sum(0) @ lengths, atol=1e-12)


def test_entropy_rate_is_what_one_more_word_adds_to_the_entropy_of_all_strings():
    language = any_language(SMALL)

    def entropy(words):
        each = np.array([chance(language, sequence) for sequence in itertools.product(range(3), repeat=words)])
        assert abs(each.sum() - 1) < 1e-12
        return -sum(p * math.log2(p) for p in each if p > 0)

    mean_length = sum(chance(language, (word,)) * length for word, length in enumerate((1, 2, 3)))
    assert language.entropy_rate == pytest.approx((entropy(4) - entropy(3)) / mean_length, abs=1e-12)


def test_bits_of_bytes_are_the_chance_of_all_texts_that_begin_so():
    language, text = any_language(SMALL), b"abdabcb"

    def begins(prefix):
        sequences = itertools.product(range(3), repeat=len(prefix))  # a word has a byte at least
        return sum(chance(language, s) for s in sequences if SMALL.spell(s).startswith(prefix))

    wanted = [-math.log2(begins(text[: i + 1]) / (begins(text[:i]) if i else 1)) for i in range(len(text))]
    np.testing.assert_allclose(language.bits(as_array(text))[0], wanted, atol=1e-9)
    assert language.bits(as_array(b"abz"))[0, -1] == math.inf


@pytest.mark.parametrize("words", WORDS)
def test_a_long_text_costs_the_entropy_rate(words):
    language = second_order(Lexicon(WORDS[words]), 0.3, 5)
    rows = language.rows(40, 500, (3,), "toy")
    bits = language.bits(rows.bytes_)[:, 20:]  # the first words cost more
    each = bits.mean(axis=1)
    assert abs(each.mean() - language.entropy_rate) < 4 * each.std(ddof=1) / math.sqrt(len(each))
    assert language.bits(rows.bytes_)[:, :10].mean() > 1.3 * language.entropy_rate


def test_triples_occur_as_often_as_the_table_says():
    language = any_language(SMALL)
    drawn = language.words(400, 100, (1,))
    for a, b, c in itertools.product(range(3), repeat=3):
        at = (drawn[:, :-2] == a) & (drawn[:, 1:-1] == b)
        expected, n = language.table[a, b, c], at.sum()
        actual = (at & (drawn[:, 2:] == c)).sum() / n
        assert abs(actual - expected) <= 4 * math.sqrt(expected * (1 - expected) / n)


def test_no_single_word_foretells_the_next_and_two_do():
    table = second_order(Lexicon(WORDS["early"]), 0.1, 0).table
    np.testing.assert_allclose(table.mean(axis=0), 1 / 8, atol=1e-12)
    np.testing.assert_allclose(table.mean(axis=1), 1 / 8, atol=1e-12)
    np.testing.assert_allclose(table.max(axis=2), 0.9 + 0.1 / 8, atol=1e-12)
    again, other = (second_order(Lexicon(WORDS["early"]), 0.1, seed).table for seed in (0, 1))
    assert np.array_equal(table, again) and not np.array_equal(table, other)


def test_independent_words_cost_the_logarithm_of_their_number():
    language = independent(Lexicon(WORDS["late"]))
    assert language.entropy_rate == pytest.approx(3 / 3)
    assert language.bytes_per_word == pytest.approx(3)


def test_lexicons_are_told_apart_where_they_say():
    early, late = WORDS["early"], WORDS["late"]
    assert len({word[0] for word in early}) == len(early)
    twos = [word[i : i + 2] for word in early for i in range(len(word) - 1)]
    assert len(set(twos)) == len(twos)  # a byte window of 2 sees the word at any but its first byte
    assert len({word[-1] for word in late}) == len(late) and {word[:-1] for word in late} == {b"ab"}


def test_splits_of_a_corpus_differ_and_are_functions_of_the_seed():
    language = second_order(SMALL, 0.2, 0)
    first, again, other = (language.corpus("toy", 32, (6, 4, 4), seed) for seed in (0, 0, 1))
    assert first.description == again.description
    hashes = [first.description[split]["hash"] for split in ("train", "validation", "test")]
    assert len(set(hashes)) == 3 and first.train.hash != other.train.hash
    assert not np.array_equal(first.validation.bytes_, first.train.bytes_[:4])
    ids = first.train.ids([0, 1])
    assert ids.shape == (2, 33) and (ids[:, 0] == BOS).all() and ids.max() == BOS
    word, _ = SMALL.places(first.train.bytes_)
    assert ((word == NO_WORD).sum(axis=1) < 3).all()  # at most one unfinished word, at the end


def test_the_oracle_marks_the_last_byte_of_every_word_before_the_next_byte_is_predicted():
    text = SMALL.spell([1, 0, 2])  # bc a bda
    ids = torch.tensor([[BOS, *text, EOS], [BOS, *b"a", *([PAD] * 6)]])
    model = AutoregressiveUNet(tiny_config(), OracleRule(SMALL))
    out = model(ids)
    assert out.boundaries.int().tolist() == [[1, 0, 1, 1, 0, 0, 1], [1, 0, 0, 0, 0, 0, 0]]
    assert out.boundary_logits is None


def test_the_oracle_may_mark_another_letter_of_every_word_the_last_of_shorter_ones():
    text = SMALL.spell([1, 0, 2, 2])  # bc a bda bda
    ids = torch.tensor([[BOS, *text, EOS]])
    for letter, wanted in (
        (1, [1, 1, 0, 1, 1, 0, 0, 1, 0, 0]),
        (2, [1, 0, 1, 1, 0, 1, 0, 0, 1, 0]),
        (3, [1, 0, 1, 1, 0, 0, 1, 0, 0, 1]),
    ):
        out = AutoregressiveUNet(tiny_config(), OracleRule(SMALL, letter))(ids)
        assert out.boundaries.int().tolist() == [wanted]
    with pytest.raises(RltokError, match="counted from 1; got letter=0"):
        OracleRule(SMALL, 0)
