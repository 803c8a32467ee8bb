"""rltok.data.sources: what each kind of local file yields, and the one-line error for each kind of bad input."""

import gzip
import json
import os
import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rltok.data import documents
from rltok.data.documents import junk_reason
from rltok.data.sources import spec_name
from rltok.errors import RltokError


def texts(spec, **options):
    return [document.text for document in documents(spec, **options)]


def error_of(spec, **options):
    with pytest.raises(RltokError) as caught:
        texts(spec, **options)
    message = str(caught.value)
    assert "\n" not in message and message.endswith(".")
    return message


def write(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def jsonl(*rows):
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


# What is read


def test_a_text_file_is_one_document_with_its_bytes_untouched(tmp_path):
    path = write(tmp_path / "a.txt", b"\xef\xbb\xbfone\r\ntwo \xff\n\n")
    assert list(documents(str(path))) == [(b"\xef\xbb\xbfone\r\ntwo \xff\n\n", "a.txt", "a.txt", "")]


def test_a_folder_gives_its_text_files_in_sorted_order_without_hidden_ones(tmp_path):
    for name in ("b.txt", "a/z.MD", "a/c.rst", ".hidden.txt", ".git/x.txt", "a/.x/y.txt", "a/picture.png", "a-1.txt"):
        write(tmp_path / "corpus" / name, name)
    docs = list(documents(tmp_path / "corpus"))
    assert [document.id for document in docs] == ["a/c.rst", "a/z.MD", "a-1.txt", "b.txt"]
    assert {document.source for document in docs} == {"corpus"}


def test_python_sources_are_read_by_their_own_spec(tmp_path):
    write(tmp_path / "pkg" / "m.py", "x = 1\n")
    write(tmp_path / "pkg" / "__init__.py", "")
    write(tmp_path / "README.md", "no code")
    assert texts(f"python:{tmp_path}") == [b"", b"x = 1\n"]
    assert texts(tmp_path) == [b"no code"]


def test_the_standard_library_needs_no_network_and_has_no_installed_packages():
    names = {document.id for document in documents("python:stdlib")}
    assert "json/decoder.py" in names and not any("site-packages" in name or "dist-packages" in name for name in names)


@pytest.mark.parametrize("suffix", ["", ".gz", ".zst"])
def test_json_lines_may_be_compressed_and_carry_source_and_id(tmp_path, suffix):
    data = jsonl({"text": "é\u2028x", "id": 0}, {"text": "b", "source": "s", "id": None}) + b"\n  \n"
    packed = {"": bytes, ".gz": gzip.compress, ".zst": lambda plain: pa.compress(plain, codec="zstd", asbytes=True)}[suffix](data)
    path = write(tmp_path / f"a.jsonl{suffix}", packed)
    assert list(documents(path)) == [("é\u2028x".encode(), path.name, "0", ""), (b"b", "s", "2", "")]


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.binary(), pa.large_binary()])
def test_parquet_rows_are_documents_over_all_batches(tmp_path, kind):
    values = [f"tëxt {i}" for i in range(600)] + [None, ""]
    pq.write_table(pa.table({"n": range(602), "text": pa.array(values, pa.string()).cast(kind)}), tmp_path / "a.parquet")
    docs = list(documents(tmp_path / "a.parquet"))
    assert [document.text for document in docs] == [(value or "").encode() for value in values]
    assert docs[599][1:] == ("a.parquet", "a.parquet#599", "")


def test_parquet_source_and_id_are_kept_and_nulls_replaced(tmp_path):
    pq.write_table(pa.table({"text": ["a", "b"], "id": [0, None], "source": [None, "s"]}), tmp_path / "a.parquet")
    assert list(documents(tmp_path / "a.parquet")) == [(b"a", "a.parquet", "0", ""), (b"b", "s", "a.parquet#1", "")]


def test_a_folder_of_parquet_is_its_tables_not_the_readme_beside_them(tmp_path):
    for name in ("b", "a"):
        pq.write_table(pa.table({"text": [name]}), tmp_path / f"{name}.parquet")
    write(tmp_path / "README.md", "about")
    assert texts(tmp_path) == [b"a", b"b"]
    write(tmp_path / "c.jsonl", jsonl({"text": "c"}))
    assert "has 2 Parquet files (a.parquet, b.parquet) and 1 JSON Lines file (c.jsonl). Say which: " in error_of(tmp_path)
    assert texts(f"{tmp_path}/*.jsonl") == [b"c"]


def test_patterns_and_lists_name_several_files(tmp_path):
    paths = [write(tmp_path / f"{name}.txt", name) for name in "cab"]
    assert texts(f"{tmp_path}/[ab].txt") == [b"a", b"b"]
    assert texts(paths) == [b"c", b"a", b"b"]
    assert spec_name(f"{tmp_path}/[ab].txt") == "[ab].txt" and spec_name(paths) == "c.txt and 2 more"


def test_a_word_is_a_kind_of_data_and_a_path_is_a_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "sample", "mine")
    assert texts("./sample") == texts(Path("sample")) == [b"mine"]
    assert len(texts("sample")) == 12


@pytest.mark.parametrize("spec", ["sample", "sample:test", "python:stdlib", "hf:a/b:c", "fineweb"])
def test_names_of_built_in_data_stay_as_they_are(spec):
    assert spec_name(spec) == spec


def test_names_for_records_hold_no_folders(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert spec_name("/home/me/a.txt") == "a.txt" and spec_name("python:/home/me/src/") == "python:src"
    assert spec_name(".") == tmp_path.name and spec_name(Path("/home/me")) == "me" and spec_name("..") == tmp_path.parent.name


# Text or not


@pytest.mark.parametrize("text", ["汉字" * 50, "தமிழ் மொழி " * 40, "日本語。", "🎈🎈", "tab\tform\f\x1b[1mbold\r\n"])
def test_text_in_any_script_is_text(text):
    assert junk_reason(text.encode()) is None


def test_latin_1_and_a_character_cut_at_the_64_kib_limit_are_text():
    assert junk_reason("L'été dernier, à Besançon, un élève a mangé une crêpe brûlée.".encode("latin-1")) is None
    assert junk_reason(("x" + "汉" * 30000).encode()) is None


def test_nul_and_noise_are_no_text_and_only_the_first_64_kib_count():
    assert "byte 3 is NUL" in junk_reason(b"abc\0def")
    assert "NUL" in junk_reason("text".encode("utf-16"))
    noise = bytes(random.Random(0).choices(range(1, 256), k=100_000))
    assert "%" in junk_reason(noise)
    assert junk_reason(b"\x01\x02" * 20 + b"a" * 60) == "40% of its first 100 bytes are control codes or no UTF-8"
    assert junk_reason(b"a" * (1 << 16) + noise) is None


def test_binary_junk_is_refused_by_name_unless_any_bytes_are_allowed(tmp_path):
    write(tmp_path / "good.txt", "good")
    write(tmp_path / "junk.txt", b"\x7fELF\0\0")
    for spec in (tmp_path, tmp_path / "junk.txt"):
        message = error_of(spec)
        assert "junk.txt" in message and "--any-bytes" in message
    assert texts([tmp_path], allow_binary=True) == texts(tmp_path, allow_binary=True) == [b"good", b"\x7fELF\0\0"]


# Bad input


def test_an_unknown_spec_lists_what_is_allowed_before_anything_is_read():
    for spec in ("no/such/file.txt", "sampel", "sample:dev", "x" * 5000, "a\0b", "none-*.parquet"):
        with pytest.raises(RltokError, match=r"(?s)Allowed: sample, .*python:FOLDER.*fineweb, codeparrot\.$"):
            documents(spec)


def test_nothing_to_read_is_an_error(tmp_path):
    assert "holds no text" in error_of(write(tmp_path / "empty.txt", b""))
    assert "holds no text" in error_of(write(tmp_path / "empty.jsonl", b"\n"))
    pq.write_table(pa.table({"text": pa.array([], pa.string())}), tmp_path / "empty.parquet")
    assert "holds no text" in error_of(tmp_path / "empty.parquet")
    write(tmp_path / "folder" / "picture.png", b"x")
    assert ".txt" in error_of(tmp_path / "folder") and "python:FOLDER" in error_of(tmp_path / "folder")
    assert "ends in .py" in error_of(f"python:{tmp_path / 'folder'}")
    assert "empty list" in error_of([])


def test_parquet_without_a_text_column_names_those_it_has(tmp_path):
    pq.write_table(pa.table({"content": ["a"], "url": ["b"]}), tmp_path / "a.parquet")
    message = error_of(tmp_path / "a.parquet")
    assert "'content', 'url'" in message and "no column 'text'" in message
    pq.write_table(pa.table({"text": [1, 2]}), tmp_path / "b.parquet")
    assert "int64" in error_of(tmp_path / "b.parquet")


def test_a_corrupt_or_cut_parquet_file_is_named(tmp_path):
    pq.write_table(pa.table({"text": [os.urandom(50).hex() for _ in range(2000)]}), tmp_path / "a.parquet", compression="zstd")
    whole = (tmp_path / "a.parquet").read_bytes()
    write(tmp_path / "cut.parquet", whole[: len(whole) // 2])
    write(tmp_path / "zeroed.parquet", whole[:100] + bytes(50000) + whole[50100:])
    for name in ("cut.parquet", "zeroed.parquet"):
        assert name in error_of(tmp_path / name)


@pytest.mark.parametrize(
    "line, complaint",
    [
        (b'{"text": "a"', "line 2 is not valid JSON"),
        (b'{"text": "\xff"}', "line 2 is not valid JSON"),
        (b"[" * 100_000, "line 2 is not valid JSON"),
        (b"[1]", "line 2 is list, not an object"),
        (b'{"body": "a", "n": 1}', "line 2 has no 'text', only 'body', 'n'"),
        (b'{"text": 5}', "line 2 has a 'text' of type int"),
        (b'{"text": "\\ud800"}', "line 2: character 0 is the lone surrogate"),
    ],
)
def test_a_bad_line_of_json_is_named_by_its_number(tmp_path, line, complaint):
    assert complaint in error_of(write(tmp_path / "a.jsonl", b'{"text": "good"}\n' + line + b"\n"))


def test_damaged_compression_is_an_error_and_not_a_short_corpus(tmp_path):
    packed = gzip.compress(jsonl(*({"text": f"{i}"} for i in range(1000))))
    assert "cut.jsonl.gz" in error_of(write(tmp_path / "cut.jsonl.gz", packed[:-200]))
    assert "bad.jsonl.zst" in error_of(write(tmp_path / "bad.jsonl.zst", b"no zstd at all"))


def test_pipes_and_devices_are_refused_instead_of_waited_for(tmp_path):
    for suffix in ("txt", "jsonl", "parquet"):
        os.mkfifo(tmp_path / f"pipe.{suffix}")
        assert "not an ordinary file" in error_of(tmp_path / f"pipe.{suffix}")


def test_a_folder_where_a_file_is_meant_and_a_file_where_a_folder_is(tmp_path):
    (tmp_path / "x.parquet").mkdir()
    assert "it is a folder" in error_of(f"{tmp_path}/*.parquet")
    assert "needs an existing folder" in error_of(f"python:{write(tmp_path / 'a.py', 'x')}")


@pytest.mark.parametrize("suffix", ["txt", "jsonl", "parquet"])
def test_a_file_without_permission_is_named(tmp_path, monkeypatch, suffix):
    path = write(tmp_path / f"secret.{suffix}", "text")

    def refuse(*_, **__):  # tests may run as root, whom no permission stops
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "read_bytes", refuse)
    monkeypatch.setattr(pa, "input_stream", refuse)
    monkeypatch.setattr(pq, "ParquetFile", refuse)
    message = error_of(path)
    assert path.name in message and "Permission denied" in message


def test_a_folder_without_permission_is_named_and_not_passed_over(tmp_path, monkeypatch):
    write(tmp_path / "a.txt", "text")
    (tmp_path / "secret").mkdir()
    scandir = os.scandir

    def refuse(place):
        if str(place).endswith("secret"):
            raise PermissionError(13, "Permission denied", str(place))
        return scandir(place)

    monkeypatch.setattr(os, "scandir", refuse)
    assert "secret': Permission denied" in error_of(tmp_path)
