"""The hash of training text that records hold: it is the same for good.

The hashes below were computed before `rltok prepare` wrote Arrow files; a record made then names the same text today.
"""

import gzip
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rltok.cli.main import main
from rltok.config import DataConfig
from rltok.data import load_corpus, load_test

TEXTS = [f"Document {i}: {'gulls, né 欢迎 🎈 and tides; ' * (i % 5)}the end." for i in range(40)]


@pytest.fixture
def texts(tmp_path):
    """The texts as files of every kind."""
    for folder in ("txt", "tables", "py"):
        (tmp_path / folder).mkdir()
    for i, text in enumerate(TEXTS[:20]):
        (tmp_path / "txt" / f"{i}.txt").write_bytes(text.encode())
        (tmp_path / "py" / f"{i}.py").write_bytes(f"# {text}\n".encode())
    rows = [{"text": text, "id": f"book#{i}" if i % 7 == 0 else f"{i}", "source": f"s{i % 2}"} for i, text in enumerate(TEXTS)]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows + rows[:5]))
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress((tmp_path / "a.jsonl").read_bytes()))
    for number in range(2):
        pq.write_table(pa.Table.from_pylist(rows[20 * number : 20 * number + 20]), tmp_path / "tables" / f"{number}.parquet")
    return tmp_path


SPECS = {
    "folder": "txt", "pattern": "txt/*.txt", "jsonl": "a.jsonl", "packed": "a.jsonl.gz", "parquet": "tables",
    "python": "python:py",
}  # fmt: skip
HASHES = {
    "folder": ["9c240d336b7e2009", "cba314c055742e0a"],
    "pattern": ["9c240d336b7e2009", "cba314c055742e0a"],
    "jsonl": ["fe9ec44b818965d3", "b695b55cf3805fcf"],
    "packed": ["fe9ec44b818965d3", "b695b55cf3805fcf"],
    "parquet": ["14e7ea0ccbc361f9", "2adf44ef7a7bfcdf"],
    "python": ["1d8a6543da1a38b2", "dd4e8a928195dec0"],
    "sample": ["8e0cb23457854977", "704bbe7b2fd447f3", "1f6e42fda2f4c0a3"],
}
PREPARED = {
    "folder": ["0b637f410acf4130", "c0c9b4c274ba6531", "8b8df30b0c04a97f"],
    "jsonl": ["87a2fb72f3cb916f", "f517d3589c936e34", "58004555385138df"],
    "parquet": ["87a2fb72f3cb916f", "f517d3589c936e34", "58004555385138df"],
}


def spec_of(name, texts):
    return f"python:{texts / 'py'}" if name == "python" else str(texts / SPECS[name])


@pytest.mark.parametrize("name", SPECS)
def test_the_hash_of_a_text_is_what_it_was(name, texts):
    hashes = [load_corpus(spec_of(name, texts), DataConfig(16, cut)).train.hash for cut in ("documents", "windows")]
    assert hashes == HASHES[name]


@pytest.mark.parametrize("name", ["folder", "jsonl", "parquet"])
def test_the_hashes_of_a_prepared_folder_are_what_they_were(name, texts, capsys):
    options = ["--cut", "windows", "--sequence-length", "16", "--jobs", "1", "--validation-fraction", "0.3"]
    assert main(["prepare", spec_of(name, texts), "--out", str(texts / "out"), *options, "--test-fraction", "0.3"]) == 0
    config = DataConfig(16, "windows")
    corpus = load_corpus(texts / "out", config)
    assert [corpus.train.hash, corpus.validation.hash, load_test(texts / "out", config).hash] == PREPARED[name]


def test_the_hashes_of_the_sample_are_what_they_were():
    corpus = load_corpus("sample", DataConfig())
    assert [rows.hash for rows in (corpus.train, corpus.validation, corpus.test)] == HASHES["sample"]
