"""rltok.evidence.chapters.ch07_domains: documents and differences against plain loops, and text that was not that scored."""

import json
import math
import random
import statistics

import numpy as np
import pytest
from helpers import tiny_model
from sweeps import UNITS, record, seeds_of, sweep_of, with_repeats

from rltok.config import DataConfig
from rltok.data import Document, cut_documents
from rltok.errors import RltokError
from rltok.evaluation import evaluate
from rltok.evidence.chapters.ch07_domains import (
    ALL,
    APART,
    DOMAINS_RECORD,
    OTHER,
    Text,
    against,
    by_kind,
    check_scored,
    contrast_table,
    fitting,
    kind_of,
    kinds_of,
    kinds_table,
    parts,
    read,
    table,
    text_of,
)
from rltok.evidence.export import split_score
from rltok.system.digest import with_digest

N = 8
ORDER = ["encyclopaedia", "books", "speech", "other"]


def stream(seed, number=60):
    """Documents of 1 to 40 bytes, some of them in parts that do not follow each other; names recur in another source."""
    maker, documents = random.Random(seed), []
    for _ in range(number):
        whole = maker.choice(["", "", "a", "b", "c"])
        text = bytes(maker.choices(b"abc \n", k=maker.randint(1, 40)))
        documents.append(Document(text, maker.choice(["wiki", "books"]), f"{whole or 'x'}#{len(documents)}", whole))
    return documents


def documents_loop(actual, sizes_of):
    """(source, bytes) of every document with a row, in the order of first mention, parts of one together."""
    totals = {}
    for number, one in enumerate(actual):
        key = (one.source, one.whole) if one.whole else number
        source, size, rows = totals.get(key, (one.source, 0, 0))
        each = sizes_of(len(one.text))
        totals[key] = (source, size + sum(each), rows + len(each))
    return [(source, size) for source, size, rows in totals.values() if rows]


def windows_with_ends(size):
    """Bytes of each row, and one for the end of a document that ends before the row does; rests under 8 bytes are dropped."""
    return [min(N, size - start) + (size - start < N) for start in range(0, size, N) if size - start >= N]


SCORED = {
    "documents": lambda size: [N] if size >= N else [],
    "full_windows": lambda size: [N] * (size // N),
    "windows": windows_with_ends,
}


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("cut", SCORED)
def test_documents_are_those_of_plain_loops_and_parts_are_together(cut, seed):
    documents = stream(seed)
    text = text_of(iter(documents), DataConfig(sequence_length=N, cut=cut), "text")
    assert list(zip(text.sources, text.sizes.tolist(), strict=True)) == documents_loop(documents, SCORED[cut])


@pytest.mark.parametrize("cut", SCORED)
def test_documents_are_those_of_a_score(cut):
    documents, config = stream(7, 80), DataConfig(sequence_length=N, cut=cut)
    rows = cut_documents(documents, N, cut, name="text")
    score = split_score(evaluate(tiny_model(), rows, seed=0, batch=64), rows)
    text = text_of(documents, config, "text")
    assert score["unit"] == "documents" and (score["hash"], score["unit_bytes"]) == (text.hash, text.sizes.tolist())


def test_the_end_of_a_document_in_a_row_is_scored():
    documents = [Document(b"x" * 20, "books", "one")]
    assert text_of(documents, DataConfig(sequence_length=16, cut="windows"), "text").sizes.tolist() == [
        16
    ]  # a rest of 4 is no row
    documents = [Document(b"x" * 33, "books", "one"), Document(b"y" * 48, "wiki", "two")]
    text = text_of(documents, DataConfig(sequence_length=32, cut="windows"), "text")
    assert (text.sources, text.sizes.tolist()) == (["books", "wiki"], [32, 32 + 16 + 1])


def averaged(runs):
    """Bits of every document, the mean over runs of one seed that have a score."""
    scored = [run["scores"]["test"]["unit_bits"] for run in runs if run["scores"]["test"]]
    return [sum(each) / len(each) for each in zip(*scored, strict=True)]


def gap_loops(pairs, sizes, chosen):
    """(bits, over documents, over seeds) from (ours, theirs) of every seed, document by document."""
    whole = sum(sizes[u] for u in chosen)
    seeds = [sum(ours[u] - theirs[u] for u in chosen) / whole for ours, theirs in pairs]
    bits = sum(seeds) / len(seeds)
    squares = 0.0
    for u in chosen:
        of_unit = sum(ours[u] - theirs[u] for ours, theirs in pairs) / len(pairs)
        squares += (of_unit - bits * sizes[u]) ** 2
    count = len(chosen)
    over_documents = math.sqrt(count / (count - 1) * squares) / whole if count > 1 else None
    over_seeds = statistics.stdev(seeds) / math.sqrt(len(seeds)) if len(seeds) > 2 else None
    return bits, over_documents, over_seeds


def kinds_by_chance(seed):
    """A kind for every document: one kind has a single document, and with an odd seed one has none."""
    maker = random.Random(seed)
    kind = [maker.choice(["books", "other"] + ["encyclopaedia"] * (seed % 2 == 0)) for _ in range(UNITS)]
    kind[maker.randrange(UNITS)] = "speech"
    return np.array(kind)


def same(actual, expected):
    assert actual == [one if one is None else pytest.approx(one, rel=1e-6) for one in expected]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("runs", [1, 2, 3, 4])
def test_differences_by_kind_are_those_of_plain_loops(seed, runs):
    ours, even = seeds_of("ours", 2.0, runs, wiggle=0.1), seeds_of("even", 2.1, runs + 1, wiggle=0.1)  # one seed more
    kind = kinds_by_chance(seed)
    sizes = ours[0]["scores"]["test"]["unit_bytes"]
    pairs = [(averaged([a]), averaged([b])) for a, b in zip(ours, even, strict=False)]
    there = [list(range(UNITS)), *([u for u in range(UNITS) if kind[u] == one] for one in ORDER)]
    expected = [gap_loops(pairs, sizes, chosen) for chosen in there if chosen]
    actual = by_kind(sweep_of(*ours, *even), "ours", "even", "test", kind)
    assert actual["seeds"] == runs and len(expected) == 5 - seed % 2
    same(actual["bits"], [one[0] for one in expected])
    same(actual["over_documents"], [one[1] for one in expected])
    assert actual["over_documents"][-2] is None  # speech is one document
    assert len(actual["by_seed"]) == runs
    for row, pair in zip(actual["by_seed"], pairs, strict=True):
        same(row, [gap_loops([pair], sizes, chosen)[0] for chosen in there if chosen])
    if runs < 3:
        assert actual["over_seeds"] is None
    else:
        same(actual["over_seeds"], [one[2] for one in expected])


def test_seeds_are_paired_repeats_averaged_and_who_has_no_seed_in_common_is_left_out():
    even, bpe = [record("even", seed) for seed in (0, 2)], [record("bpe", seed, wiggle=0.5) for seed in (0, 1, 2)]
    again, unscored = record("bpe", 2, bits=3.0, wiggle=0.4), record("bpe", 0, bits=9.0)
    unscored["scores"]["test"] = None
    sweep = with_repeats(sweep_of(*even, *bpe, record("naive", 1)), again, unscored)
    kind = kinds_by_chance(0)
    pairs = [(averaged([bpe[0]]), averaged([even[0]])), (averaged([bpe[2], again]), averaged([even[1]]))]
    sizes = even[0]["scores"]["test"]["unit_bytes"]
    gaps = against(sweep, "even", "test", kind)
    assert list(gaps) == ["bpe"] and gaps["bpe"]["seeds"] == 2
    same(gaps["bpe"]["bits"][2:3], [gap_loops(pairs, sizes, [u for u in range(UNITS) if kind[u] == "books"])[0]])
    other_way = against(sweep, "bpe", "test", kind)
    assert sorted(other_way) == ["even", "naive"] and other_way["naive"]["seeds"] == 1
    same(other_way["even"]["bits"], [-bits for bits in gaps["bpe"]["bits"]])
    assert against(sweep, "nobody", "test", kind) == {}


def test_a_difference_on_books_alone_is_told_of_books_alone():
    kind = np.array((["books"] * 3 + ["encyclopaedia"] * 7) * 3)
    even, ours = record("even"), record("ours")
    score, sizes = ours["scores"]["test"], np.array(even["scores"]["test"]["unit_bytes"])
    score["unit_bits"] = (np.array(even["scores"]["test"]["unit_bits"]) + 0.5 * sizes * (kind == "books")).tolist()
    gaps = against(sweep_of(even, ours), "even", "test", kind)["ours"]
    share = sizes[kind == "books"].sum() / sizes.sum()
    assert gaps["bits"] == pytest.approx([0.5 * share, 0, 0.5]) and gaps["over_documents"][1:] == pytest.approx([0, 0])


def text_like(run, split="test", sources=None):
    score = run["scores"][split]
    return Text(score["hash"], np.array(score["unit_bytes"]), sources or ["books"] * UNITS)


CHANGES = {
    "hash": ({"hash": "f" * 16}, r"rows whose hash is 'ffffffffffffffff'; that of these is 'test'\. Name the folder"),
    "bytes": (
        {"unit_bytes": [*range(300, 329), 400]},
        r"30 documents of 9\d+ bytes; these rows are 30 of 7350.*ids name the parts",
    ),
    "fewer": ({"unit_bytes": [7350]}, r"1 documents of 7350 bytes; these rows are 30 of 7350"),
    "unit": ({"unit": "rows"}, r"units of rows\. Take runs"),
}


@pytest.mark.parametrize("case", CHANGES)
def test_text_that_was_not_that_scored_is_refused(case):
    change, words = CHANGES[case]
    good, again = record("even"), record("even")
    text = text_like(good)
    again["scores"]["test"] |= change
    for sweep in (sweep_of(again), with_repeats(sweep_of(good), again)):
        with pytest.raises(RltokError, match=f"test text: sweep 32m, even, seed 0 was scored (on|in) {words}"):
            check_scored("test", text, [sweep])
    again["scores"]["test"] = None  # not scored at all
    check_scored("test", text, [sweep_of(good), with_repeats(sweep_of(good), again)])


def test_smoke_runs_are_refused():
    run = record("even", full=False)
    with pytest.raises(RltokError, match="even, seed 0 is a smoke run, .* full size"):
        check_scored("validation", text_like(run, "validation"), [sweep_of(run)])


WORDS = {"encyclopaedia": "an encyclopaedia", "books": "old books", "speech": "talks", "law": "laws", "blogs": "blogs"}
REGISTERS = {
    "wiki": ("encyclopaedia", "articles"), "dickens": ("books", "novels"), "eliot": ("books", "novels"),
    "code": ("law", "statutes"), "dev": ("blogs", "posts"),
}  # fmt: skip


def test_kinds_that_do_not_stand_apart_are_one_and_unknown_sources_are_refused():
    kinds = kinds_of(REGISTERS, WORDS)
    assert list(kinds) == ORDER == [*APART, OTHER]
    assert kinds["books"] == {"words": "old books", "sources": {"dickens": "novels", "eliot": "novels"}}
    assert kinds["other"] == {"words": "laws; blogs", "sources": {"code": "statutes", "dev": "posts"}}
    text = Text("x", np.array([1, 2, 4, 8]), ["dev", "eliot", "wiki", "code"])
    assert kind_of(text, kinds).tolist() == ["other", "books", "encyclopaedia", "other"]
    with pytest.raises(RltokError, match=r"source 'a', 'b' is of no kind\. Enter it under sources in book/texts.yml"):
        kind_of(Text("x", np.array([1, 2, 4]), ["b", "eliot", "a"]), kinds)
    shares = parts(text, kind_of(text, kinds))
    assert [tuple(one.values()) for one in shares] == [(ALL, 4, 15), ("encyclopaedia", 1, 4), ("books", 1, 2), ("other", 2, 9)]


def test_tables_tell_shares_both_errors_and_leave_out_who_is_not_there():
    text = Text("x", np.array([600_000, 300_000, 100_000]), ["eliot", "dickens", "dev"])
    kinds = kinds_of(REGISTERS, WORDS)
    split = {"hash": "x", "parts": parts(text, kind_of(text, kinds))}
    three = {"seeds": 3, "bits": [0.01, -0.04361, 0], "over_documents": [0.5, 0.25, None], "over_seeds": [0.1, 0.2, 0.3]}
    one = {"seeds": 1, "bits": [1, 2, 3], "over_documents": [0.5, 0.25, None], "over_seeds": None}
    sweeps = {
        "32m": {"gaps": {"test": {"even": {"ours": one, "bpe": three}, "bpe": {"ours": three}}}},
        "147m": {"gaps": {"test": {"even": {"ours": one}}}},
    }
    whole = {"kinds": kinds, "splits": {"test": split}, "sweeps": sweeps}
    lines = table(whole, "test", ["bpe", "ours", "nobody"]).splitlines()
    head = "| seeds | all text: 1.00 MB, 3 documents | books: 90%, 2 documents | other: 10%, 1 document |"
    single = "| `ours` | 1 | +1.0000 ± 0.5000 / - | +2.0000 ± 0.2500 / - | +3.0000 ± - / - |"
    triple = "| 3 | +0.0100 ± 0.5000 / 0.1000 | -0.0436 ± 0.2500 / 0.2000 | +0.0000 ± - / 0.3000 |"
    assert lines[0] == f"| size | minus `even` {head}"
    assert lines[2:] == [f"| 32m | `bpe` {triple}", f"| 32m {single}", f"| 147m {single}"]
    lines = table(whole, "test", ["bpe", "ours"], "bpe").splitlines()
    assert lines[0] == f"| size | minus `bpe` {head}" and lines[2:] == [f"| 32m | `ours` {triple}"]
    lines = kinds_table(whole).splitlines()
    assert lines[0] == "| kind | what it is | in detail | test |"
    assert lines[3:] == [
        "| books | old books | novels | 90.0%, 2 documents |",
        "| speech | talks |  | - |",
        "| other | laws; blogs | statutes; posts | 10.0%, 1 document |",
    ]


def test_a_contrast_of_two_kinds_is_told_seed_by_seed():
    where = [{"kind": one} for one in (ALL, "encyclopaedia", "books")]
    three = {"by_seed": [[0.0, 0.01, 0.03], [0.0, -0.01, 0.0], [0.0, 0.0, 0.0]]}
    one = {"by_seed": [[0.0, 0.5, 0.25]]}
    gaps = {"validation": {"even": {"ours": three}}, "test": {"even": {"ours": one, "bpe": one}}}
    whole = {
        "splits": {"validation": {"parts": where}, "test": {"parts": where}, "extra": {"parts": where[:2]}},
        "sweeps": {"32m": {"gaps": gaps}, "147m": {"gaps": {"validation": {}, "test": {}}}},
    }
    lines = contrast_table(whole, ["bpe", "ours", "nobody"], "books", "encyclopaedia").splitlines()
    assert lines[0] == "| size | minus `even`, books less encyclopaedia | validation, by seed | test, by seed |"
    assert lines[2:] == ["| 32m | `bpe` | - | -0.2500 |", "| 32m | `ours` | +0.0200, +0.0100, +0.0000 | -0.2500 |"]
    assert contrast_table(whole, ["ours"], "books", "encyclopaedia", "bpe").startswith("None of these")


def test_sizes_of_other_records_are_left_out_and_named():
    first, second = record("ours"), record("even")
    own, other = {"records": sorted([first["digest"], second["digest"]])}, {"records": ["f" * 64]}
    kept, text = fitting({"sweeps": {"32m": own, "147m": other}}, [sweep_of(first, second)])
    assert kept == {"sweeps": {"32m": own}}
    assert text.startswith("without 147m, made of other records") and text.endswith("run scripts/measure/measure_kinds.py")
    assert fitting({"sweeps": {"32m": own}}, [with_repeats(sweep_of(first, second), record("even", bits=3.0))])[0] == {
        "sweeps": {}
    }


def test_a_file_that_is_no_record_or_was_edited_is_refused(tmp_path):
    path = tmp_path / "kinds.json"
    whole = with_digest({"schema": 1, "what": DOMAINS_RECORD, "kinds": {}, "splits": {}, "sweeps": {}})
    path.write_text(json.dumps(whole))
    assert read(path) == whole
    for sweep in ({"gaps": {}, "records": []}, {"gaps": {"test": {}}}):
        path.write_text(json.dumps(with_digest(whole | {"splits": {"test": {"parts": []}}, "sweeps": {"147m": sweep}})))
        with pytest.raises(RltokError, match="lacks entries about test text, 147m. Restore"):
            read(path)
    path.write_text(json.dumps({key: one for key, one in whole.items() if key != "sweeps"} | {"digest": ""}))
    with pytest.raises(RltokError, match="its digest differs. Restore"):
        read(path)
    edited, other = json.dumps(whole | {"splits": {"a": 1}}), json.dumps(with_digest(whole | {"what": "else"}))
    for content, why in ((edited, "digest differs"), (other, "no record of differences"), ("{", "no JSON")):
        path.write_text(content)
        with pytest.raises(RltokError, match=f"{why}.*scripts/measure/measure_kinds.py"):
            read(path)
    with pytest.raises(RltokError, match="missing"):
        read(tmp_path / "nothing.json")
