"""rltok.data.rows and rltok.data.corpus: no byte lost or invented between documents and ids."""

import json

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rltok import vocab
from rltok.config import DataConfig
from rltok.data import Document, Rows, cut_documents, load_corpus
from rltok.errors import RltokError

TEXTS = st.lists(st.binary(max_size=90), min_size=1, max_size=6)
CUTS = st.sampled_from(["documents", "windows", "full_windows"])


def docs(*texts):
    return [Document(text, "test", str(i)) for i, text in enumerate(texts)]


def cut_rows(texts, n, cut, max_bytes=None):
    return cut_documents(docs(*texts), n, cut, name="test", max_bytes=max_bytes)


def contents(rows):
    return [rows.bytes_[r, : rows.lengths[r]].tobytes() for r in range(len(rows))]


def expected_rows(texts, n, cut):
    """(document, bytes, ends the document) of every row, byte by byte from the rule as it is stated."""
    rows = []
    for number, text in enumerate(texts):
        if cut == "documents":
            rows += [(number, text[:n], len(text) == n)] if len(text) >= n else []
            continue
        rest = text
        while len(rest) >= n:
            rows.append((number, rest[:n], len(rest) == n))
            rest = rest[n:]
        if cut == "windows" and len(rest) >= 16:
            rows.append((number, rest, True))
    return rows


def expected_ids(text, ends, n):
    ids = [vocab.BOS, *text, *([vocab.EOS] if ends else [])][: n + 1]
    return ids + [vocab.PAD] * (n + 1 - len(ids))


# Cutting


def test_documents_keep_their_first_n_bytes_and_short_ones_are_counted():
    rows = cut_rows([b"abcdefghij", b"short", b"12345678"], 8, "documents")
    assert contents(rows) == [b"abcdefgh", b"12345678"]
    assert rows.ends_document.tolist() == [False, True] and rows.skipped_documents == 1 and rows.num_documents == 2


def test_windows_keep_a_rest_of_16_bytes_but_not_of_15():
    rows = cut_rows([b"a" * 20 + b"b" * 16, b"c" * 20 + b"d" * 15, b"e" * 15], 20, "windows")
    assert contents(rows) == [b"a" * 20, b"b" * 16, b"c" * 20]
    assert rows.ends_document.tolist() == [False, True, False] and rows.document.tolist() == [0, 0, 1]
    assert rows.skipped_documents == 1 and rows.total_bytes == 56


@given(TEXTS, st.integers(8, 40), CUTS)
def test_rows_equal_the_rule_stated_byte_by_byte(texts, n, cut):
    expected = expected_rows(texts, n, cut)
    if not expected:
        with pytest.raises(RltokError, match="'test' has no document of at least"):
            cut_rows(texts, n, cut)
        return
    rows = cut_rows(texts, n, cut)
    assert list(zip(rows.document.tolist(), contents(rows), rows.ends_document.tolist(), strict=True)) == expected
    assert rows.bytes_.shape == (len(expected), n) and rows.bytes_.dtype == np.uint8 and rows.lengths.dtype == np.int32
    assert rows.total_bytes == sum(len(text) for _, text, _ in expected)
    assert rows.skipped_documents + rows.num_documents == len(texts)


@given(TEXTS, st.integers(8, 40), CUTS, st.integers(40, 200))
def test_a_byte_limit_is_kept_and_what_is_kept_is_a_beginning(texts, n, cut, limit):
    texts = [b"x" * n, *texts]  # so that some row always comes out
    everything, limited = cut_rows(texts, n, cut), cut_rows(texts, n, cut, max_bytes=limit)
    assert limited.total_bytes <= limit and (limited.total_bytes == everything.total_bytes or limited.total_bytes > limit - n)
    *whole, last = contents(limited)
    assert contents(everything)[: len(whole)] == whole and contents(everything)[len(whole)].startswith(last)


def test_a_stream_is_read_no_further_than_the_limit():
    def endless():
        for number in range(1_000_000):
            assert number < 3, "read on after the limit"
            yield Document(b"x" * 50, "test", str(number))

    for cut in ("documents", "windows"):
        assert cut_documents(endless(), 50, cut, name="test", max_bytes=150).total_bytes == 150


def test_a_limit_below_one_row_and_text_below_one_row_say_what_to_set():
    with pytest.raises(RltokError, match=r"max_bytes=7 .* data.sequence_length=8"):
        cut_rows([b"x" * 100], 8, "documents", max_bytes=7)
    with pytest.raises(RltokError, match=r"at least 4096 bytes.* the longest of 2 has 300\. Set data.cut=windows"):
        cut_rows([b"x" * 300, b"y"], 4096, "documents")
    with pytest.raises(RltokError, match=r"at least 16 bytes.* the longest of 1 has 5\. Give more text"):
        cut_rows([b"hello"], 4096, "windows")


# Ids


def test_ids_by_hand():
    rows = cut_rows([b"a" * 20 + b"b" * 16], 20, "windows")
    ids = rows.ids([1, 0])
    assert ids.dtype == torch.int64 and ids.shape == (2, 21)
    assert ids[0].tolist() == [256] + [98] * 16 + [257] + [258] * 3
    assert ids[1].tolist() == [256] + [97] * 20  # a full row has no room for EOS


def test_a_short_row_that_does_not_end_its_document_has_no_eos():
    rows = cut_rows([b"x" * 100], 64, "windows", max_bytes=84)
    assert rows.ids([1])[0].tolist() == [256] + [ord("x")] * 20 + [258] * 44


@given(TEXTS, st.integers(8, 40), st.randoms(use_true_random=False))
def test_ids_equal_the_rule_for_any_choice_of_rows(texts, n, random):
    texts = [*texts, b"\xff" * n]
    rows, expected = cut_rows(texts, n, "windows"), expected_rows(texts, n, "windows")
    chosen = [random.randrange(len(rows)) for _ in range(random.randrange(5))]
    assert rows.ids(chosen).tolist() == [expected_ids(expected[r][1], expected[r][2], n) for r in chosen]


# Subsets and hashes


def test_a_slice_shares_memory_and_an_index_array_picks_in_order():
    rows = cut_rows([b"a" * 16 + b"b" * 16, b"c" * 16], 16, "windows")
    tail = rows.subset(slice(1, None))
    assert np.shares_memory(tail.bytes_, rows.bytes_) and contents(tail) == [b"b" * 16, b"c" * 16]
    assert contents(rows.subset(np.array([2, 0]))) == [b"c" * 16, b"a" * 16]
    assert (tail.num_documents, rows.subset(slice(0, 2)).num_documents) == (2, 1)
    assert (tail.name, tail.cut) == ("test", "windows")


def test_rows_cannot_be_written_to():
    rows = cut_rows([b"a" * 16], 16, "windows")
    with pytest.raises(ValueError, match="read-only"):
        rows.bytes_[0, 0] = 1
    rows.ids([0])[0, 0] = 1  # but a batch is a copy
    assert rows.ids([0])[0, 0] == vocab.BOS


def test_the_hash_changes_with_anything_that_changes_ids_and_with_nothing_else():
    base = dict(bytes_=np.full((2, 8), 65, np.uint8), lengths=np.array([8, 7], np.int32))
    base |= dict(ends_document=np.array([False, True]), document=np.array([0, 1], np.int32), name="a", cut="windows")

    def made(**changes):
        return Rows(**{key: value.copy() if isinstance(value, np.ndarray) else value for key, value in (base | changes).items()})

    other = np.full((2, 8), 65, np.uint8)
    other[1, 0] = 66
    changed = [
        made(bytes_=other),
        made(lengths=np.array([7, 8], np.int32)),
        made(ends_document=np.array([True, True])),
        made(bytes_=np.full((4, 4), 65, np.uint8), lengths=base["lengths"]),
    ]
    assert made().hash == made(name="b", document=np.array([5, 5], np.int32)).hash
    assert len({made().hash, *(rows.hash for rows in changed)}) == 5
    assert len(made().hash) >= 12 and int(made().hash, 16) >= 0


# Corpora


def corpus_of(tmp_path, size, n=16, fraction=0.1, cut="windows", **options):
    path = tmp_path / "some" / "a.txt"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(bytes(33 + i % 90 for i in range(size)))
    config = DataConfig(sequence_length=n, cut=cut, held_out_fraction=fraction)
    return load_corpus(path, config, **options)


@pytest.mark.parametrize("num_rows, fraction, held", [(2, 0.01, 1), (2, 0.99, 1), (54, 0.1, 5), (56, 0.1, 6), (10, 0.99, 9)])
def test_the_last_rows_are_held_out_and_nothing_is_lost(tmp_path, num_rows, fraction, held):
    corpus = corpus_of(tmp_path, num_rows * 16, fraction=fraction)
    assert (len(corpus.train), len(corpus.validation), corpus.test) == (num_rows - held, held, None)
    joined = b"".join(contents(corpus.train) + contents(corpus.validation))
    assert joined == (tmp_path / "some" / "a.txt").read_bytes()


def test_the_description_is_plain_says_what_was_done_and_names_no_folder(tmp_path):
    corpus = corpus_of(tmp_path, 170)
    plain = json.dumps(corpus.description)
    assert corpus.description["name"] == "a.txt" and "some" not in plain and str(tmp_path) not in plain
    assert corpus.description["held_out"] == "last 1 of 10 rows in corpus order"
    assert corpus.description["train"] == {"rows": 9, "documents": 1, "bytes": 144, "hash": corpus.train.hash}
    assert corpus.description["cut"] == "windows" and corpus.description["skipped_documents"] == 0


def test_separate_validation_text_leaves_the_training_text_whole(tmp_path):
    (tmp_path / "v.txt").write_bytes(b"validation text of 30 bytes...")
    corpus = corpus_of(tmp_path, 160, validation_spec=tmp_path / "v.txt")
    assert (len(corpus.train), corpus.train.total_bytes, corpus.validation.total_bytes) == (10, 160, 16)
    assert corpus.description["held_out"] == "separate text: v.txt"
    with pytest.raises(RltokError, match="'a.txt' is the training text itself"):
        corpus_of(tmp_path, 160, validation_spec=tmp_path / "some" / "a.txt")


def test_too_little_text_says_how_much_there_is_and_a_setting_that_works(tmp_path):
    with pytest.raises(RltokError, match=r"1 row of data.sequence_length=4096 from 100 bytes") as caught:
        corpus_of(tmp_path, 100, n=4096)
    advised = int(str(caught.value).partition("--set data.sequence_length=")[2].split()[0].rstrip("."))
    assert len(corpus_of(tmp_path, 100, n=advised).train) >= 1


def test_of_one_long_document_windows_take_all(tmp_path):
    with pytest.raises(RltokError, match=r"Set data\.cut=windows, which takes all of a document") as caught:
        corpus_of(tmp_path, 100, cut="documents")
    assert "1 row of data.sequence_length=16 from 16 bytes" in str(caught.value)
    assert len(corpus_of(tmp_path, 100, cut="windows").train) > 1


def test_two_loads_of_one_corpus_agree(tmp_path):
    assert corpus_of(tmp_path, 333).description == corpus_of(tmp_path, 333).description
    assert corpus_of(tmp_path, 333).description != corpus_of(tmp_path, 334 + 16).description
