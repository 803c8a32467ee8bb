"""scripts/measure/measure_kinds.py: what it writes and refuses, and that its stored record is of the stored records and texts."""

import json
import sys

import numpy as np
import pytest
import yaml
from paths import ROOT
from preparing import write_parquet
from sweeps import UNITS, record, sweep_of, write

from rltok.evidence.chapters.ch07_domains import read, table
from rltok.evidence.records import read_sweeps
from rltok.statistics import difference_of_units
from rltok.system.digest import with_digest

RESULTS = ROOT / "notebooks" / "results"
RECORD = RESULTS / "kinds.json"
MOST_BYTES = 80_000
WINDOW = 64
SOURCES = ["wikipedia-en", "classic-books", "eltec-eng-novels", "rust-blog", "changelog-transcripts"]
import measure_kinds  # noqa: E402


def rows_of(split):
    """A table of UNITS documents of 1 to 3 windows and a rest, every third in two parts, the second of which comes later."""
    rows, later = [], []
    for number in range(UNITS):
        source, text = SOURCES[number % len(SOURCES)], f"{split}{number:02}" * 300
        size = WINDOW * (1 + number % 3) + number
        if number % 3:
            rows.append({"text": text[:size], "source": source, "id": f"d{number}"})
        else:
            rows.append({"text": text[:size], "source": source, "id": f"d{number}#0"})
            later.append({"text": text[: 2 * WINDOW], "source": source, "id": f"d{number}#1"})
    return rows + later


def size_of(number):
    """Scored bytes of a document of `rows_of`."""
    return WINDOW * ((WINDOW * (1 + number % 3) + number) // WINDOW + 2 * (number % 3 == 0))


@pytest.fixture
def corpus(tmp_path, monkeypatch):
    """Both held-out splits as tables, and a way to make a record of a run that was scored on them."""
    monkeypatch.setenv("RLTOK_COMMIT", "0" * 40)
    for split, name in measure_kinds.FILES.items():
        write_parquet(tmp_path / name, rows_of(split))
    cut = {"data.sequence_length": WINDOW, "data.cut": "full_windows"}

    def scored(name, seed=0, **more):
        one = record(name, seed, **cut, **more)
        for split, text in measure_kinds.read_texts(tmp_path, [sweep_of(one)]).items():
            score = one["scores"][split]
            each = np.array(score["unit_bits"]) / np.array(score["unit_bytes"])
            bits = each * text.sizes
            level = float(bits.sum() / text.sizes.sum())
            score |= {"hash": text.hash, "unit_bytes": text.sizes.tolist(), "unit_bits": bits.tolist(), "bits_per_byte": level}
        last = {"bits_per_byte": one["scores"]["validation"]["bits_per_byte"]}
        return with_digest(one | {"held_out": [*one["held_out"][:-1], one["held_out"][-1] | last]})

    return tmp_path, scored


def scored_by_rows(run):
    """The record as if its text had too few documents."""
    scores = {split: run["scores"][split] | {"unit": "rows"} for split in measure_kinds.FILES}
    return with_digest(run | {"scores": run["scores"] | scores})


def call(monkeypatch, folder, *more):
    arguments = ["--sweeps", folder / "sweeps", "--data", folder, "--out", folder / "kinds.json", *more]
    monkeypatch.setattr(sys, "argv", ["measure_kinds.py", *map(str, arguments)])
    measure_kinds.run(measure_kinds.main)


def refused(monkeypatch, capsys, folder, *more):
    with pytest.raises(SystemExit, match="2"):
        call(monkeypatch, folder, *more)
    assert not (folder / "kinds.json").exists()
    return capsys.readouterr().err


def test_the_record_holds_the_differences_of_each_kind_and_is_the_same_twice(corpus, monkeypatch):
    folder, scored = corpus
    runs = [scored(name, seed) for name in ("even", "ours", "bpe") for seed in range(3)]
    write(folder / "sweeps", *runs, scored("naive", 5))
    call(monkeypatch, folder)
    first = (folder / "kinds.json").read_bytes()
    call(monkeypatch, folder)
    assert (folder / "kinds.json").read_bytes() == first
    content = read(folder / "kinds.json")
    kind = ["encyclopaedia", "books", "books", "other", "speech"]
    sizes = {one: sum(size_of(u) for u in range(UNITS) if kind[u % 5] == one) for one in dict.fromkeys(kind)}
    whole, *parts = content["splits"]["test"]["parts"]
    assert whole == {"kind": "all text", "documents": UNITS, "bytes": sum(sizes.values())}
    assert {one["kind"]: one["bytes"] for one in parts} == sizes and [one["documents"] for one in parts] == [6, 12, 6, 6]
    gaps = content["sweeps"]["32m"]["gaps"]["test"]
    assert sorted(gaps["even"]) == ["bpe", "ours"] and sorted(gaps["bpe"]) == ["even", "ours"]
    assert list(content["kinds"]["books"]["sources"]) == ["classic-books", "eltec-eng-novels"]
    bits = {(run["name"], run["seed"]): np.array(run["scores"]["test"]["unit_bits"]) for run in runs}
    chosen = [u for u in range(UNITS) if kind[u % 5] == "books"]
    differences = [(bits["ours", seed] - bits["even", seed])[chosen].sum() / sizes["books"] for seed in range(3)]
    assert gaps["even"]["ours"]["bits"][2] == pytest.approx(np.mean(differences), rel=1e-3)
    assert gaps["even"]["ours"]["over_seeds"][2] == pytest.approx(np.std(differences, ddof=1) / 3**0.5, rel=1e-3)


def test_other_text_other_documents_smoke_runs_and_unknown_sources_are_refused(corpus, monkeypatch, capsys):
    folder, scored = corpus
    (folder / "sweeps").mkdir()
    assert "holds no record of a finished run" in refused(monkeypatch, capsys, folder)
    write(folder / "sweeps", scored("ours"))
    assert "nothing to tell" in refused(monkeypatch, capsys, folder)
    write(folder / "sweeps", scored("even"))
    path, rows = folder / measure_kinds.FILES["test"], rows_of("test")
    write_parquet(path, [row | {"id": row["id"].replace("#", "-")} for row in rows])  # the parts are documents of their own now
    assert "Take the table whose ids name the parts" in refused(monkeypatch, capsys, folder)
    write_parquet(path, rows[::-1])
    assert "rows whose hash is" in refused(monkeypatch, capsys, folder)
    write_parquet(path, [row | {"source": "somewhere"} for row in rows])
    assert "source 'somewhere' is of no kind" in refused(monkeypatch, capsys, folder)
    path.unlink()
    assert "no such file" in refused(monkeypatch, capsys, folder)
    write_parquet(path, rows)
    monkeypatch.setenv("RLTOK_COMMIT", "0" * 40 + "+changes")
    assert "Commit first" in refused(monkeypatch, capsys, folder)
    monkeypatch.setenv("RLTOK_COMMIT", "0" * 40)
    write(folder / "smoke", scored("even", full=False))
    assert "is a smoke run" in refused(monkeypatch, capsys, folder, "--sweeps", folder / "smoke")
    write(folder / "rows", scored("even"), scored_by_rows(scored("ours")))
    assert "ours, seed 0 was scored in units of rows" in refused(monkeypatch, capsys, folder, "--sweeps", folder / "rows")
    call(monkeypatch, folder)
    assert read(folder / "kinds.json")["sweeps"]["32m"]["gaps"]["test"]["even"]["ours"]["seeds"] == 1


@pytest.fixture(scope="module")
def sweeps():
    return read_sweeps(RESULTS / "sweeps")


@pytest.fixture(scope="module")
def stored():
    assert RECORD.stat().st_size < MOST_BYTES
    return read(RECORD)


def test_the_stored_record_is_of_all_stored_records(sweeps, stored):
    made_of = {name: sweep["records"] for name, sweep in stored["sweeps"].items()}
    there = {name: sorted(run["digest"] for run in sweep.everything) for name, sweep in sweeps.items()}
    assert made_of == there, "run scripts/measure/measure_kinds.py"


def test_the_stored_kinds_hold_what_was_counted_of_their_sources(sweeps, stored):
    counted = json.loads((RESULTS / "texts.json").read_text(encoding="utf-8"))
    text = yaml.safe_load((ROOT / "book" / "texts.yml").read_text(encoding="utf-8"))
    for split, actual in stored["splits"].items():
        expected = {}
        for source, each in counted["sources"].items():
            of, names = text["sources"][source]["kind"], ("encyclopaedia", "books", "speech")
            for kind in ("all text", of if of in names else "other"):
                documents, size = expected.get(kind, (0, 0))
                expected[kind] = documents + each[split]["documents"], size + counted["window_bytes"] * each[split]["windows"]
        assert {one["kind"]: (one["documents"], one["bytes"]) for one in actual["parts"]} == expected
        for run in (run for sweep in sweeps.values() for run in sweep.everything if run["scores"][split]):
            assert run["scores"][split]["hash"] == actual["hash"]


def test_the_stored_differences_are_whole_and_those_of_all_text_together(sweeps, stored):
    for name, sweep in sweeps.items():
        for split, references in stored["sweeps"][name]["gaps"].items():
            sizes = np.array([one["bytes"] for one in stored["splits"][split]["parts"]])
            for reference, by_method in references.items():
                paired = {other for other in sweep.runs if sweep.paired(other, reference, split)} - {reference}
                assert set(by_method) == paired
                for other, gap in by_method.items():
                    whole = difference_of_units(*sweep.paired(other, reference, split))
                    bits = np.array(gap["bits"])
                    assert gap["seeds"] == whole.seeds and bits[0] == pytest.approx(whole.bits, rel=1e-3)
                    assert gap["over_documents"][0] == pytest.approx(whole.error_units, rel=1e-3)
                    assert (bits[1:] * sizes[1:]).sum() / sizes[0] == pytest.approx(bits[0], abs=1e-3 * abs(bits).max())
                    assert (gap["over_seeds"] is None) == (whole.seeds < 3)
                assert table(stored, split, list(by_method), reference).count(f"| {name} |") == len(by_method)
