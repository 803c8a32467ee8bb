"""Much text: what is read takes no more memory and no more open files than it must, and one odd name stops nothing."""

import gzip
import json
import os
import resource
import tracemalloc

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from preparing import request, write_jsonl

from rltok.cli.main import main
from rltok.config import DataConfig
from rltok.data import cut_documents, documents, load_corpus, tables
from rltok.data.prepare import prepare_folder
from rltok.data.sources import text_bytes
from rltok.errors import RltokError

CONFIG = DataConfig(sequence_length=16, cut="windows")
MEGABYTE = 1 << 20


@pytest.fixture
def few_files():
    """So many more files than now may be open in this process."""
    opened = [os.open(os.devnull, os.O_RDONLY) for _ in range(140)]
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(opened) + 1, before[1]))
    for number in opened:
        os.close(number)
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def peak_of(call, *arguments, **options):
    """The result of a call, and how many bytes it held at the most."""
    tracemalloc.start()
    try:
        return call(*arguments, **options), tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


# Many files


def test_more_files_than_a_process_may_open_are_prepared(tmp_path, few_files):
    paths = [write_jsonl(tmp_path / f"{i:03d}.jsonl", [{"text": f"document number {i % 150:03d}"}]) for i in range(200)]
    record = prepare_folder(request([tmp_path / "*.jsonl"], cut="windows", sequence_length=16), tmp_path / "out")
    assert record["splits"]["train"]["documents"] == 150 and record["splits"]["train"]["duplicates"] == 50
    actual, expected = (load_corpus(spec, CONFIG) for spec in (tmp_path / "out", paths[:150]))
    assert (actual.train.hash, actual.validation.hash) == (expected.train.hash, expected.validation.hash)


# One long text


@pytest.fixture
def long_text(tmp_path):
    """A text of 16 MB in one file."""
    path = tmp_path / "long.txt"
    path.write_bytes("né, 欢迎 and 🎈 on every line\n".encode() * (16 * MEGABYTE // 36))
    return path


@pytest.mark.parametrize("in_folder", [False, True])
def test_of_a_text_beyond_max_bytes_no_more_is_read(long_text, in_folder):
    spec, reading = long_text.parent if in_folder else long_text, {"max_bytes": 100_000, "allow_binary": False}
    size, peak = peak_of(text_bytes, spec, force=False, **reading)
    assert size == 100_000 and peak < MEGABYTE
    corpus, peak = peak_of(load_corpus, spec, CONFIG, **reading)
    assert corpus.train.total_bytes + corpus.validation.total_bytes == 100_000 and peak < 4 * MEGABYTE


@pytest.mark.parametrize("cut", ["documents", "windows", "full_windows"])
def test_rows_are_those_of_the_whole_text_whatever_the_limit(tmp_path, cut):
    texts = ["né, 欢迎 and 🎈 in a line" * 4, "x" * 100, "🎈" * 40]
    for number, text in enumerate(texts):
        (tmp_path / f"{number}.txt").write_bytes(text.encode())
    (tmp_path / "3.txt").write_bytes("café crème ".encode("latin-1") * 20 + b"\xf0\x9f\x8e")
    for limit in range(16, 600, 7):
        actual, expected = (
            cut_documents(documents(tmp_path, max_bytes=most), 16, cut, name="t", max_bytes=limit) for most in (limit, None)
        )
        assert actual.hash == expected.hash and actual.ends_document.tolist() == expected.ends_document.tolist()


def test_a_long_text_is_prepared_without_reading_past_the_limit(long_text, tmp_path):
    made = request([long_text], cut="documents", sequence_length=4096, max_bytes=100_000)
    record, peak = peak_of(prepare_folder, made, tmp_path / "out")
    assert record["splits"]["train"]["bytes"] == 4096 and peak < 3 * MEGABYTE
    made = request([long_text], cut="windows", sequence_length=16, max_bytes=100_000)

    def refused():
        with pytest.raises(RltokError, match="the first document is longer than --max-bytes 100000"):
            prepare_folder(made, tmp_path / "windows")

    assert peak_of(refused)[1] < 3 * MEGABYTE


@pytest.mark.parametrize("limit", range(40, 50))
def test_a_limit_inside_a_character_makes_no_text_invalid(tmp_path, limit):
    (tmp_path / "a.txt").write_bytes("🎈欢é".encode() * 20)
    made = request([tmp_path / "a.txt"], cut="documents", sequence_length=40, max_bytes=limit)
    assert prepare_folder(made, tmp_path / "out")["read"]["stored"] == 1


def test_a_whole_text_is_prepared_with_memory_for_one_copy(long_text, tmp_path):
    made = request([long_text], cut="windows", sequence_length=4096)
    record, peak = peak_of(prepare_folder, made, tmp_path / "out")
    assert record["splits"]["train"]["bytes"] == long_text.stat().st_size and peak < 20 * MEGABYTE


# One long line


def test_a_line_without_end_in_a_small_packed_file_is_refused_before_it_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "MAX_LINE", MEGABYTE)
    line = b'{"text": "' + b"x" * 32 * MEGABYTE + b'"}\n'
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(b'{"text": "fine"}\n' + line, compresslevel=1))

    def refused():
        with pytest.raises(RltokError, match=r"'a.jsonl.gz', line 2 is longer than 1048576 bytes\. Split its document"):
            list(documents(tmp_path / "a.jsonl.gz"))

    assert peak_of(refused)[1] < 4 * MEGABYTE


def test_a_line_may_be_as_long_as_the_limit(tmp_path, monkeypatch):
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"text": "x"}\n{"text": "yyy"}')
    monkeypatch.setattr(tables, "MAX_LINE", 15)
    assert [document.text for document in documents(path)] == [b"x", b"yyy"]
    monkeypatch.setattr(tables, "MAX_LINE", 14)
    with pytest.raises(RltokError, match="line 2 is longer than 14 bytes"):
        list(documents(path))


# One odd name


def invalid(values):
    """An Arrow array of strings whose bytes are no valid UTF-8."""
    return pa.Array.from_buffers(pa.string(), len(values), pa.array(values, pa.binary()).buffers())


def test_half_a_surrogate_pair_in_an_id_or_a_source_stops_nothing(tmp_path, capsys):
    texts = [f"document number {i:02d} of a few bytes" for i in range(30)]
    odd = {3: {"id": "\ud800#1", "source": "s\udfff"}, 4: {"id": "\ud800#2", "source": "s\udfff"}, 5: {"id": "\udc00#1"}}
    path = write_jsonl(tmp_path / "a.jsonl", [{"text": text} | odd.get(i, {}) for i, text in enumerate(texts)])
    table = {"text": texts[:2], "id": invalid([b"\xff#1", b"\xff#2"]), "source": invalid([b"\xfe", b"\xfe"])}
    pq.write_table(pa.table(table), tmp_path / "b.parquet")
    name = tmp_path / os.fsdecode(b"caf\xe9.txt")
    name.write_text("a text in a file with an old name")
    for spec in ([path], [path, str(tmp_path / "b.parquet"), str(name)]):
        options = ["--cut", "windows", "--sequence-length", "16", "--jobs", "1", "--json"]
        assert main(["prepare", *spec, "--out", str(tmp_path / f"out{len(spec)}"), *options]) == 0
        record = json.loads(capsys.readouterr().out)
    assert record["parts"] == {"documents": 3, "wholes": 2, "most": 2}  # two of the table are duplicates of the first file's
    assert {"s\\udfff", "caf\\udce9.txt"} <= set(record["largest_sources"])
    docs = list(documents(spec))
    assert [document[1:] for document in docs[3:5]] == [("s\\udfff", f"\\ud800#{i}", "\\ud800") for i in (1, 2)]
    assert [document[1:] for document in docs[30:32]] == [("\\xfe", f"\\xff#{i}", "\\xff") for i in (1, 2)]
    assert main(["prepare", path, "--out", str(tmp_path / "out1"), "--check"]) == 0
