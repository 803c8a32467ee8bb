"""rltok.data.prepare: what is stored of which document, in which split, and that rows read back are those of the text itself."""

import hashlib
import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from preparing import documents_of, request, write_jsonl, write_parquet

from rltok.config import DataConfig
from rltok.data import documents, load_corpus, load_test, rows, units
from rltok.data.documents import SPLITS
from rltok.data.prepare import prepare_folder
from rltok.data.prepared import open_prepared, piece_counts
from rltok.data.rows import PIECES
from rltok.errors import RltokError

WORDS = ["the", "a", "gull", "harbour", "né", "欢迎", "tide", "crossword", "evening", "🎈"]


def texts(count, seed=0, most=60):
    draw = np.random.default_rng(seed)
    return [" ".join(draw.choice(WORDS, size=draw.integers(1, most))) + f" {i}" for i in range(count)]


def in_turn(numbers):
    """The same grouping with numbers in the order in which they first occur: what documents are called does not matter."""
    names = {}
    return [names.setdefault(number, len(names)) for number in numbers.tolist()]


def same_rows(actual, expected):
    assert len(actual) == len(expected) and actual.sequence_length == expected.sequence_length
    np.testing.assert_array_equal(actual.ids(np.arange(len(actual))), expected.ids(np.arange(len(actual))))
    assert in_turn(actual.document) == in_turn(expected.document)
    assert (actual.hash, actual.total_bytes, actual.cut) == (expected.hash, expected.total_bytes, expected.cut)


@pytest.mark.parametrize("max_bytes", [None, 700, 1000, 1008, 1016, 1017])
@pytest.mark.parametrize("cut", ["documents", "windows", "full_windows"])
def test_rows_of_a_prepared_folder_are_those_of_the_text_itself(tmp_path, monkeypatch, cut, max_bytes):
    parts = (3, 11, 12, 30, 59)  # in two files, not one after the other
    rows_ = [{"text": text, "source": "s", "id": f"part#{i}" if i in parts else f"{i}"} for i, text in enumerate(texts(60))]
    paths = [write_jsonl(tmp_path / "a.jsonl", rows_[:25]), write_parquet(tmp_path / "b.parquet", rows_[25:])]
    (tmp_path / "c.txt").write_text("one whole text " * 9)
    paths.append(str(tmp_path / "c.txt"))
    config = DataConfig(sequence_length=32, cut=cut, held_out_fraction=0.2)
    made = request(paths, cut=cut, sequence_length=32)
    monkeypatch.setattr(units, "BATCH_ROWS", 7)
    record = prepare_folder(made, tmp_path / "out")
    actual, expected = (load_corpus(spec, config, max_bytes=max_bytes) for spec in (tmp_path / "out", paths))
    same_rows(actual.train, expected.train)
    same_rows(actual.validation, expected.validation)
    assert actual.description["held_out"] == expected.description["held_out"]
    if max_bytes is None:
        assert actual.description["skipped_documents"] == expected.description["skipped_documents"]
        assert record["splits"]["train"]["rows"] == len(expected.train) + len(expected.validation)


@pytest.mark.parametrize("cut, length", [("windows", 16), ("windows", 50), ("full_windows", 40), ("documents", 33)])
def test_documents_stored_whole_may_be_cut_into_rows_of_any_length(tmp_path, cut, length):
    path = write_jsonl(tmp_path / "a.jsonl", [{"text": text} for text in texts(40) if len(text.encode()) >= 16])
    prepare_folder(request([path], cut="windows", sequence_length=32), tmp_path / "out")
    config = DataConfig(sequence_length=length, cut=cut, held_out_fraction=0.2)
    actual, expected = (load_corpus(spec, config) for spec in (str(tmp_path / "out"), path))
    same_rows(actual.train, expected.train)


def test_first_bytes_alone_cannot_be_cut_otherwise_and_the_error_names_both(tmp_path):
    path = write_jsonl(tmp_path / "a.jsonl", [{"text": text} for text in texts(40)])
    prepare_folder(request([path], cut="documents", sequence_length=32), tmp_path / "out")
    stored = documents_of(tmp_path / "out")["train"]
    assert stored and all(len(text) == 32 for text in stored)
    for config in (DataConfig(sequence_length=32, cut="windows"), DataConfig(sequence_length=16)):
        wanted = f"first 32 bytes.*data.cut={config.cut} data.sequence_length={config.sequence_length} was asked"
        with pytest.raises(RltokError, match=wanted):
            load_corpus(tmp_path / "out", config)


@given(st.lists(st.integers(0, 200), max_size=9), st.integers(8, 70), st.sampled_from(sorted(PIECES)))
def test_rows_are_counted_as_documents_are_cut(sizes, length, cut):
    assert piece_counts(np.array(sizes, dtype=np.int64), length, cut).tolist() == [len(PIECES[cut](n, length)) for n in sizes]


def digest_share(key):
    return int.from_bytes(hashlib.blake2b(key, digest_size=16).digest()[:8], "big") / 2**64


def test_a_document_goes_to_the_split_that_its_hash_says_and_a_part_to_that_of_the_whole(tmp_path):
    whole = [{"text": f"document number {i} of some", "id": f"{i}"} for i in range(300)]
    parts = [{"text": f"part {i % 4} of book {i // 4}, long enough", "id": f"book{i // 4}#{i % 4}"} for i in range(400)]
    order = np.random.default_rng(0).permutation(700)
    everything = [(whole + parts)[i] for i in order]
    path = write_jsonl(tmp_path / "a.jsonl", everything)
    made = request([path], cut="windows", sequence_length=16, test_fraction=0.2, validation_fraction=0.3)
    record = prepare_folder(made, tmp_path / "out")
    docs = documents_of(tmp_path / "out")
    for row in everything:
        key = f"a.jsonl\0{row['id'].partition('#')[0]}" if "#" in row["id"] else row["text"]
        share = digest_share(key.encode())
        assert row["text"].encode() in docs["test" if share < 0.2 else "validation" if share < 0.5 else "train"]
    counts = [record["splits"][split]["documents"] for split in SPLITS]
    assert sum(counts) == 700 and counts == [len(docs[split]) for split in SPLITS]
    assert all(abs(count / 700 - share) < 0.08 for count, share in zip(counts, (0.5, 0.3, 0.2), strict=True))


def test_a_text_of_its_own_is_the_validation_or_test_split_whatever_its_hash(tmp_path):
    for name in ("train", "held", "last"):
        write_jsonl(tmp_path / f"{name}.jsonl", [{"text": f"{name} document {i} of twenty bytes"} for i in range(50)])
    own = {"validation": str(tmp_path / "held.jsonl"), "test": str(tmp_path / "last.jsonl")}
    prepare_folder(request([tmp_path / "train.jsonl"], **own, cut="windows", sequence_length=16), tmp_path / "out")
    docs = documents_of(tmp_path / "out")
    assert [{text.split()[0] for text in docs[split]} for split in SPLITS] == [{b"train"}, {b"held"}, {b"last"}]
    assert all(len(docs[split]) == 50 for split in SPLITS)


def test_the_sample_keeps_its_own_splits(tmp_path):
    prepare_folder(request(["sample"], cut="windows", sequence_length=512), tmp_path / "out")
    config = DataConfig(sequence_length=512, cut="windows")
    actual, expected = load_corpus(tmp_path / "out", config), load_corpus("sample", config)
    same_rows(actual.train, expected.train)
    assert actual.validation.hash == expected.validation.hash
    assert load_test(tmp_path / "out", config).hash == expected.test.hash == load_test("sample", config).hash


def test_nothing_but_load_test_reads_test_documents(tmp_path, monkeypatch):
    path = write_jsonl(tmp_path / "a.jsonl", [{"text": f"document number {i} of some"} for i in range(90)])
    made = request([path], cut="windows", sequence_length=16, test_fraction=0.3, validation_fraction=0.3)
    record = prepare_folder(made, tmp_path / "out")
    config, test_texts = DataConfig(sequence_length=16, cut="windows"), documents_of(tmp_path / "out")["test"]
    corpus = load_corpus(tmp_path / "out", config)
    assert corpus.test is None
    counts = record["splits"]["test"]
    assert corpus.description["test"] == {"documents": counts["documents"], "bytes": counts["bytes"]}
    held = {text[:16] for text in test_texts if text[:16] not in {b"document number "}}
    read = {part.bytes_[r].tobytes() for part in (corpus.train, corpus.validation) for r in range(len(part))}
    assert len(test_texts) > 10 and not held & read
    assert load_test(tmp_path / "out", config).num_documents == len(test_texts)
    assert load_test(path, config).num_documents == 90  # any other text is test text as a whole
    with pytest.raises(RltokError, match="was written by `rltok prepare`"):
        list(documents(tmp_path / "out"))


def test_validation_text_given_when_loading_takes_the_place_of_the_prepared_split(tmp_path):
    path = write_jsonl(tmp_path / "a.jsonl", [{"text": f"document number {i} of some"} for i in range(90)])
    prepare_folder(request([path], cut="windows", sequence_length=16, validation_fraction=0.3), tmp_path / "out")
    (tmp_path / "v.txt").write_text("other text for validation")
    config = DataConfig(sequence_length=16, cut="windows")
    assert load_corpus(tmp_path / "out", config).description["held_out"] == "whole documents, set apart by rltok prepare"
    corpus = load_corpus(tmp_path / "out", config, validation_spec=str(tmp_path / "v.txt"))
    assert corpus.validation.total_bytes == 16 and corpus.description["held_out"] == "separate text: v.txt"


def test_mapped_rows_are_indexed_like_an_array_and_travel_to_other_processes_without_their_bytes(tmp_path):
    from multiprocessing.reduction import ForkingPickler

    path = write_jsonl(tmp_path / "a.jsonl", [{"text": text} for text in texts(3000)])
    prepare_folder(request([path], cut="windows", sequence_length=32), tmp_path / "out")
    config = DataConfig(sequence_length=32, cut="windows", held_out_fraction=0.2)
    from_disk, plain = (load_corpus(spec, config).train for spec in (tmp_path / "out", path))
    mapped, array = from_disk.bytes_, plain.bytes_
    assert (mapped.shape, mapped.dtype, len(mapped)) == (array.shape, array.dtype, len(array))
    some = np.array([5, 0, -1, 5])
    numbers, slices = (3, -2, np.int64(4), (3, 7)), (slice(2, 9), slice(None, None, 700), (slice(None, 50), slice(None, -1)))
    for key in (*numbers, *slices, some, some.tolist()):
        np.testing.assert_array_equal(mapped[key], array[key])
    np.testing.assert_array_equal(mapped[array[:, 0] == 32], array[array[:, 0] == 32])
    with pytest.raises(IndexError):
        mapped[len(array)]
    same_rows(from_disk.subset(slice(3, 40)), plain.subset(slice(3, 40)))
    same_rows(from_disk.subset(some).subset(np.array([1, 2])), plain.subset(some).subset(np.array([1, 2])))
    sent = ForkingPickler.dumps(from_disk.subset(slice(0, 10)))
    assert len(sent) < 20_000


def test_parts_are_one_document_wherever_they_stand_and_rows_without_ids_never(tmp_path):
    parts = [{"text": "x" * 20, "id": name} for name in ("a#0", "a#1", "b", "b#0", "b#1", "a#2", "c", "c")]
    plain = [{"text": "x" * 20}] * 3
    table = [(parts, [0, 0, 1, 2, 2, 0, 3, 4]), (plain, [0, 1, 2])]
    for number, (rows_, expected) in enumerate(table):
        for path in (write_jsonl(tmp_path / f"{number}.jsonl", rows_), write_parquet(tmp_path / f"{number}.parquet", rows_)):
            cut = rows.cut_documents(documents(path), 16, "windows", name="t")
            assert cut.document.tolist() == expected


# Duplicates and limits


@pytest.mark.parametrize("rows_at_a_time", [1024, 7])
def test_of_equal_documents_the_first_is_kept_test_before_validation_before_training(tmp_path, monkeypatch, rows_at_a_time):
    monkeypatch.setattr(units, "BATCH_ROWS", rows_at_a_time)

    def numbered(*ranges):
        return [{"text": f"text number {i} in bytes", "id": f"row{n}"} for n, i in enumerate(i for r in ranges for i in r)]

    a = write_jsonl(tmp_path / "a.jsonl", numbered(range(30), range(5), range(50, 60)))
    b = write_jsonl(tmp_path / "b.jsonl", numbered(range(20, 40)))
    v = write_jsonl(tmp_path / "v.jsonl", numbered(range(50, 55), range(80, 90)))
    t = write_jsonl(tmp_path / "t.jsonl", numbered(range(88, 95), range(0, 1)))
    made = request([a, b], cut="windows", sequence_length=16, validation=v, test=t)
    record = prepare_folder(made, tmp_path / "out")
    docs = documents_of(tmp_path / "out")
    numbers = {split: [int(text.split()[2]) for text in docs[split]] for split in SPLITS}
    assert numbers["train"] == [*range(1, 30), *range(55, 60), *range(30, 40)]
    assert numbers["validation"] == [*range(50, 55), *range(80, 88)] and numbers["test"] == [*range(88, 95), 0]
    assert [record["splits"][split]["duplicates"] for split in SPLITS] == [1 + 5 + 5 + 10, 2, 0]


@pytest.mark.parametrize("limit, jobs", [(100, 1), (240, 1), (241, 1), (1000, 1), (10_000, 1), (1000, 2)])
def test_a_limit_stores_the_beginning_of_the_sources_whatever_the_number_of_processes(tmp_path, limit, jobs):
    paths = [write_jsonl(tmp_path / f"{n}.jsonl", [{"text": f"file {n} row {i:03d} 20 by"} for i in range(24)]) for n in range(4)]
    lengths = {len(f"file {n} row {i:03d} 20 by") for n in range(4) for i in range(24)}
    assert lengths == {20}
    made = request(paths, cut="windows", sequence_length=16, max_bytes=limit)
    record = prepare_folder(made, tmp_path / "out", jobs=jobs)
    assert record["splits"]["train"]["bytes"] == min(limit // 20 * 20, 4 * 24 * 20)
    docs = documents_of(tmp_path / "out")["train"]
    assert docs == [f"file {n} row {i:03d} 20 by".encode() for n in range(4) for i in range(24)][: limit // 20]


# Statistics and trouble with text


def test_what_is_left_out_is_counted_and_named(tmp_path):
    binary = pa.array(
        [b"fine text of many bytes", None, b"", b"caf\xe9 in Latin-1, long enough", b"short", b"x" * 40], pa.binary()
    )
    pq.write_table(pa.table({"text": binary, "id": list("abcdef"), "source": ["s"] * 5 + ["t"]}), tmp_path / "a.parquet")
    write_jsonl(tmp_path / "b.jsonl", [{"text": None}, {"text": "another text, long enough"}])
    sources = [tmp_path / "a.parquet", tmp_path / "b.jsonl"]
    made = request(sources, cut="windows", sequence_length=16)
    record = prepare_folder(made, tmp_path / "out")
    read = record["read"]
    assert {key: read[key] for key in ("read", "stored", "too_short", "empty", "null", "invalid_utf8")} == {
        "read": 8, "stored": 3, "too_short": 1, "empty": 1, "null": 2, "invalid_utf8": 1,
    }  # fmt: skip
    named = {"null": ["a.parquet: b", "b.jsonl: 1"], "invalid_utf8": ["a.parquet: d"], "no_text": []}
    assert read["named"] == named
    assert record["largest_sources"] == {
        "t": {"documents": 1, "bytes": 40}, "b.jsonl": {"documents": 1, "bytes": 25}, "s": {"documents": 1, "bytes": 23},
    }  # fmt: skip
    assert (read["longest"], record["mean_bytes"], read["stored_bytes"]) == (40, 88 / 3, 88)
    any_bytes = prepare_folder(replace(made, any_bytes=True), tmp_path / "any")
    assert any_bytes["read"]["invalid_utf8"] == 0 and any_bytes["read"]["stored"] == 4


def test_no_record_names_a_folder_of_this_machine(tmp_path):
    (tmp_path / "secret" / "texts").mkdir(parents=True)
    (tmp_path / "secret" / "texts" / "a.txt").write_text("some text of many bytes")
    path = write_jsonl(tmp_path / "secret" / "b.jsonl", [{"text": "another text of many bytes"}])
    sources = [tmp_path / "secret" / "texts", path, f"python:{tmp_path / 'secret'}", str(tmp_path / "secret" / "*.jsonl")]
    (tmp_path / "secret" / "m.py").write_text("x = 'a module of many bytes'\n")
    prepare_folder(request(sources, cut="windows", sequence_length=16), tmp_path / "out")
    for path in (tmp_path / "out").glob("*.json"):
        assert str(tmp_path) not in path.read_text()
    names = [unit["name"] for unit in open_prepared(tmp_path / "out").record["units"]]
    assert names == ["texts/a.txt", "b.jsonl", "secret/m.py", "b.jsonl"]


def test_the_largest_sources_are_named_and_the_others_counted_together(tmp_path):
    path = write_jsonl(tmp_path / "a.jsonl", [{"text": f"{'a text ' * (3 + i)}{i:03d}", "source": f"s{i}"} for i in range(30)])
    record = prepare_folder(request([path], cut="windows", sequence_length=16), tmp_path / "out")
    sizes = {f"s{i}": {"documents": 1, "bytes": 7 * (3 + i) + 3} for i in range(29, 9, -1)}
    rest = {"documents": 10, "bytes": sum(7 * (3 + i) + 3 for i in range(10))}
    assert list(record["largest_sources"].items()) == [*sizes.items(), ("(other sources)", rest)]
    assert json.loads((tmp_path / "out" / "prepared.json").read_text()) == record


@pytest.mark.parametrize("name, line, complaint", [
    ("a.jsonl", '{"text": "a"', "'a.jsonl', line 9 is not valid JSON"),
    ("a.jsonl", '{"body": "a"}', "'a.jsonl', line 9 has no 'text', only 'body'"),
])  # fmt: skip
def test_a_damaged_line_stops_with_its_number_and_mended_it_is_read(tmp_path, name, line, complaint):
    good = [json.dumps({"text": f"text number {i} of many bytes"}) for i in range(20)]
    path = tmp_path / name
    path.write_text("\n".join([*good[:8], line, *good[9:]]))
    made = request([path], cut="windows", sequence_length=16)
    with pytest.raises(RltokError, match=complaint):
        prepare_folder(made, tmp_path / "out")
    with pytest.raises(RltokError, match="is not finished. Give the `rltok prepare` command that began it again"):
        load_corpus(tmp_path / "out", DataConfig(sequence_length=16, cut="windows"))
    path.write_text("\n".join(good))
    prepare_folder(made, tmp_path / "out")
    assert documents_of(tmp_path / "out")["train"] == [json.loads(each)["text"].encode() for each in good]


def test_damaged_and_unfit_tables_stop_with_their_name(tmp_path):
    pq.write_table(pa.table({"body": ["x"]}), tmp_path / "a.parquet")
    (tmp_path / "b.parquet").write_bytes(b"PAR1 no table")
    (tmp_path / "c.txt").write_bytes(bytes(range(256)))
    (tmp_path / "d.txt").write_bytes(b"short")
    (tmp_path / "e.txt").write_bytes(b"text with a NUL \0 in it")
    table = {
        "a.parquet": "no column 'text', only 'body'", "b.parquet": "as Parquet", "c.txt": "1 is left: .*1 invalid utf8",
        "e.txt": "no document of 1 is left: .*1 no text",
    }  # fmt: skip
    for name, complaint in (table | {"d.txt": "no document of 1 is left: 1 too short"}).items():
        with pytest.raises(RltokError, match=complaint):
            prepare_folder(request([tmp_path / name], cut="windows", sequence_length=16), tmp_path / f"out-{name}")


def test_an_empty_table_is_no_text_and_one_among_others_is_fine(tmp_path):
    write_jsonl(tmp_path / "a.jsonl", [])
    with pytest.raises(RltokError, match="no document of 0 is left"):
        prepare_folder(request([tmp_path / "a.jsonl"]), tmp_path / "none")
    path = write_jsonl(tmp_path / "b.jsonl", [{"text": "some text of many bytes"}])
    record = prepare_folder(request([tmp_path / "a.jsonl", path], cut="windows", sequence_length=16), tmp_path / "out")
    assert record["read"]["read"] == 1
    assert len(open_prepared(tmp_path / "out").rows("train", DataConfig(sequence_length=16, cut="windows"))) == 1


def test_a_binary_file_among_texts_is_counted_named_and_left_out(tmp_path):
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "a.txt").write_text("some text of many bytes")
    (tmp_path / "texts" / "b.txt").write_bytes(b"\0\1\2" * 20)
    record = prepare_folder(request([tmp_path / "texts"], cut="windows", sequence_length=16), tmp_path / "out")
    assert (record["read"]["stored"], record["read"]["no_text"]) == (1, 1)
    assert "b.txt" in record["read"]["named"]["no_text"][0]
    record = prepare_folder(request([tmp_path / "texts"], cut="windows", sequence_length=16, any_bytes=True), tmp_path / "all")
    assert record["read"]["stored"] == 2


def test_documents_whose_stored_beginnings_are_equal_are_duplicates(tmp_path):
    same = "x" * 40
    path = write_jsonl(tmp_path / "a.jsonl", [{"text": text} for text in (same + "a", same + "b", "y" * 40 + "c")])
    record = prepare_folder(request([path], cut="documents", sequence_length=32), tmp_path / "out")
    counts = record["splits"]["train"]
    assert (counts["documents"], counts["duplicates"]) == (2, 1)
    record = prepare_folder(request([path], cut="windows", sequence_length=32), tmp_path / "whole")
    assert record["splits"]["train"]["documents"] == 3


def test_duplicates_are_told_by_both_halves_of_their_digest(tmp_path, monkeypatch):
    monkeypatch.setattr(units, "digest_of", lambda text: (2**63, text[0]))  # as if first halves collided
    path = write_jsonl(tmp_path / "a.jsonl", [{"text": letter * 20} for letter in "abcab"])
    record = prepare_folder(request([path], cut="windows", sequence_length=16), tmp_path / "out")
    assert (record["splits"]["train"]["documents"], record["splits"]["train"]["duplicates"]) == (3, 2)
