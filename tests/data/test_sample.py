"""The bundled sample: small, split by whole documents, every text accounted for, made again by its script."""

import importlib.util
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from paths import ROOT

import rltok.data
from rltok.config import DataConfig
from rltok.data import FIXED_TEXTS, documents, load_corpus
from rltok.data.documents import SPLITS
from rltok.data.sources import SAMPLE_FILE, sample_documents
from rltok.errors import RltokError

PACKAGE = Path(rltok.data.__file__).parent
SCRIPT = ROOT / "scripts" / "measure" / "make_sample.py"


def ids_of(split):
    return {document.id for document in documents(f"sample:{split}")}


def load_script():
    spec = importlib.util.spec_from_file_location("make_sample", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_file_is_below_1_5_megabytes():
    assert SAMPLE_FILE.stat().st_size < 1_500_000


def test_splits_are_whole_documents_and_disjoint():
    assert ids_of("validation") == {"book-white-fang", "usgov-digital-gov"}
    assert ids_of("test") == {"book-pride-and-prejudice", "usgov-18f-blog"}
    together = [document.id for document in documents("sample")]
    assert sorted(together) == sorted(name for split in SPLITS for name in ids_of(split)) and len(set(together)) == 12


def test_sources_lists_every_text_with_its_split():
    lines = (PACKAGE / "SOURCES.md").read_text(encoding="utf-8").splitlines()
    listed = {tuple(cell.strip(" `") for cell in line.split("|")[1:3]) for line in lines if line.startswith("| `")}
    assert listed == {(name, split) for split in SPLITS for name in ids_of(split)}


def test_texts_are_long_clean_utf8_with_a_source():
    for document in documents("sample"):
        assert len(document.text) > 100_000 and "\r" not in document.text.decode("utf-8") and document.source


@pytest.mark.parametrize("cut", ["documents", "windows"])
def test_the_sample_brings_its_own_splits(cut):
    corpus = load_corpus("sample", DataConfig(sequence_length=512, cut=cut))
    sizes = [rows.num_documents for rows in (corpus.train, corpus.validation, corpus.test)]
    assert sizes == [8, 2, 2] and corpus.description["held_out"].startswith("whole documents")
    if cut == "windows":
        kept = sum(rows.total_bytes for rows in (corpus.train, corpus.validation, corpus.test))
        lost = sum(len(document.text) for document in documents("sample")) - kept
        assert 0 <= lost < 16 * 12


def test_an_unknown_split_is_refused():
    with pytest.raises(RltokError, match="'dev'.*train, validation, test"):
        next(sample_documents("dev"))


def test_the_script_makes_the_same_table_again(tmp_path, monkeypatch):
    for document in documents("sample"):
        (tmp_path / f"{document.id}.txt").write_bytes(document.text)
    monkeypatch.setattr("sys.argv", ["make_sample.py", str(tmp_path), str(tmp_path / "again.parquet")])
    load_script().main()
    assert pq.read_table(tmp_path / "again.parquet").equals(pq.read_table(SAMPLE_FILE))


def test_the_script_refuses_a_folder_without_the_held_out_texts(tmp_path):
    (tmp_path / "book-kim.txt").write_text("x")
    with pytest.raises(SystemExit, match="book-white-fang"):
        load_script().sample_table(tmp_path)


def test_fixed_texts_are_short_and_one_has_characters_of_one_to_four_bytes():
    assert len(FIXED_TEXTS) == 3 and all(200 <= len(text.encode()) <= 400 for text in FIXED_TEXTS.values())
    assert {len(character.encode()) for character in FIXED_TEXTS["multilingual"]} == {1, 2, 3, 4}
    assert any(character.isdigit() for character in FIXED_TEXTS["code"])
    compile(FIXED_TEXTS["code"], "fixed text", "exec")
