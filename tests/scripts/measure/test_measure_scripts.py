"""measure_scripts.py: what it counts, what it keeps of a text, and what its stored record holds."""

import json
import sys

import measure_scripts
import pytest
from paths import ROOT
from preparing import write_parquet

STORED = json.loads((ROOT / "notebooks" / "results" / "scripts.json").read_text())
LONG = "word " * 30


def test_bytes_are_counted_by_script_and_add_up():
    texts = ["aé日", "я–நி"]
    assert measure_scripts.script_bytes(texts) == {"TAMIL": 6, "CJK": 3, "other": 3, "LATIN": 2, "CYRILLIC": 2, "ASCII": 1}
    assert sum(measure_scripts.script_bytes(texts).values()) == len("".join(texts).encode())


def test_an_opening_is_three_paragraphs_without_headings_and_not_too_long():
    parts = [f"{number} {LONG}".strip() for number in range(5)]
    text = "\n\n".join(["A heading", f"{LONG}?", *parts])
    assert measure_scripts.opening(text) == "\n\n".join(parts[:3])
    long = ["x" * 1500, "y" * 1500, "z" * 200]
    assert measure_scripts.opening("\n\n".join(long)) == "\n\n".join([long[0], long[2]])


def test_the_record_of_a_small_folder(tmp_path, monkeypatch):
    for language in measure_scripts.LANGUAGES:
        (tmp_path / f"{language}.txt").write_text(f"{language} {LONG}")
    row = {"text": f"held out {LONG}", "source": "guide", "id": measure_scripts.ENGLISH}
    write_parquet(tmp_path / "validation.parquet", [row])
    write_parquet(tmp_path / "train.parquet", [row | {"text": "Äb"}])
    words = ["--english", tmp_path / "validation.parquet", "--train", tmp_path / "train.parquet", "--out", tmp_path / "out.json"]
    monkeypatch.setattr(sys, "argv", ["measure_scripts.py", str(tmp_path), *map(str, words)])
    measure_scripts.main()
    record = json.loads((tmp_path / "out.json").read_text())
    assert record["training"] == {"name": "train.parquet", "bytes": 3, "scripts": {"LATIN": 2, "ASCII": 1}}
    assert record["texts"]["english"].startswith("held out") and list(record["texts"]) == ["english", *measure_scripts.LANGUAGES]
    words[1] = tmp_path / "train.parquet"
    write_parquet(tmp_path / "train.parquet", [row | {"id": "other"}])
    monkeypatch.setattr(sys, "argv", ["measure_scripts.py", str(tmp_path), *map(str, words)])
    with pytest.raises(ValueError, match="Name the validation text"):
        measure_scripts.main()


def test_the_stored_record_is_small_licensed_and_of_the_shipped_models_text():
    facts = json.loads((ROOT / "rltok" / "weights" / "small-english.json").read_text())
    assert STORED["training"]["name"] == facts["record"]["data"]["name"]
    assert STORED["source"]["licence"] == "CC BY 4.0" and "+changes" not in STORED["commit"]
    assert all(200 < len(text.encode()) <= measure_scripts.MOST for text in STORED["texts"].values())
    assert sum(STORED["training"]["scripts"].values()) == STORED["training"]["bytes"]
