"""measure_texts.py: what it counts, by hand on a few rows, and that its stored record is of the text that runs read."""

import hashlib
import json
import shutil
import sys
from functools import partial

import measure_texts  # noqa: E402
import pytest
from paths import BUNDLED, ROOT
from preparing import write_parquet

from rltok.benchmarks.task_items import read_items
from rltok.evidence.records import read_sweeps


def row(name, size, source="books"):
    return {"text": "é" + "a" * (size - 2), "source": source, "id": name}  # é is two bytes


TRAIN = [[row("a.md#0", 8192), row("b.md", 4097), row("b.md", 5000, "laws")], [row("a.md#1", 12287)]]
VALIDATION = [row("c.md#0", 8192), row("c.md#1", 8200), row("d.md", 4096, "laws"), row("x.json#some-name", 4096, "laws")]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A corpus of a few rows, with small benchmark sets."""
    for number, actual in enumerate(TRAIN):
        write_parquet(tmp_path / f"english-train-{number:03}.parquet", actual)
    write_parquet(tmp_path / "english-validation.parquet", VALIDATION)
    write_parquet(tmp_path / "english-test.parquet", [row("e.md", 4096)])
    (tmp_path / "eval").mkdir()
    for path in BUNDLED.glob("*.jsonl"):
        shutil.copy(path, tmp_path / "eval")
    monkeypatch.setattr(measure_texts, "read_items", partial(read_items, expected=False))
    return tmp_path


def test_parts_are_one_document_and_rests_of_windows_do_not_count(folder):
    measured = measure_texts.measure(folder)
    assert measured["splits"]["train"] == {"documents": 3, "rows": 4, "bytes": 29576, "windows": 2 + 1 + 1 + 2}
    assert measured["sources"]["books"]["train"] == {"documents": 2, "rows": 3, "bytes": 24576, "windows": 5}
    assert measured["sources"]["laws"]["test"] == {"documents": 0, "rows": 0, "bytes": 0, "windows": 0}
    assert measured["splits"]["validation"]["documents"] == 3  # x.json#some-name is no part


def test_concentration_is_that_of_windows_in_documents(folder):
    measured = measure_texts.measure(folder)["held_out"]
    assert sorted(measured) == ["test", "validation"]
    assert measured["validation"]["effective_documents"] == pytest.approx((4 + 1 + 1) ** 2 / (16 + 1 + 1))
    assert measured["validation"]["largest"][0] == {"source": "books", "document": "c.md", "windows": 4}
    assert measured["test"]["effective_documents"] == 1


def test_files_are_named_without_a_folder_and_with_their_hash(folder):
    measured = measure_texts.measure(folder)
    assert [file["name"] for file in measured["files"]["train"]] == ["english-train-000.parquet", "english-train-001.parquet"]
    digest = hashlib.sha256((folder / "eval" / "piqa-validation.jsonl").read_bytes()).hexdigest()
    assert measured["tasks"]["piqa"]["file"]["sha256"] == digest
    assert str(folder) not in json.dumps(measured)


def test_a_missing_table_is_named(folder, monkeypatch, capsys):
    (folder / "english-validation.parquet").unlink()
    monkeypatch.setattr(sys, "argv", ["measure_texts.py", str(folder), "--out", str(folder / "texts.json")])
    with pytest.raises(SystemExit, match="2"):
        measure_texts.run(measure_texts.main)
    assert "english-validation.parquet" in capsys.readouterr().err and not (folder / "texts.json").exists()


RECORD = ROOT / "notebooks" / "results" / "texts.json"


def test_the_stored_record_is_of_the_text_that_the_runs_read_and_were_scored_on():
    stored = json.loads(RECORD.read_text(encoding="utf-8"))
    train, checked = stored["splits"]["train"], 0
    for sweep in read_sweeps(ROOT / "notebooks" / "results" / "sweeps").values():
        for run in sweep.records:
            if run["data"]["name"] != "english-train-*.parquet" or run["data"]["max_bytes"] is not None:
                continue
            checked += 1
            assert (run["data"]["train"]["rows"], run["data"]["train"]["documents"]) == (train["windows"], train["documents"])
            for split in ("validation", "test"):
                if score := run["scores"][split]:
                    assert (score["rows"], score["documents"]) == tuple(
                        stored["splits"][split][k] for k in ("windows", "documents")
                    )
            for task, entry in stored["tasks"].items():
                score = run["scores"][task]
                assert (score["items"], score["fingerprint"]) == (entry["items"], entry["fingerprint"])
    assert checked
