"""The test split is for the end: one script scores runs on it, and nothing else may ask for it.

Choices (models, settings, when to stop) are made on validation. So whoever reads the test split of a text stands in a list here,
with the reason. A list of names cannot stop somebody who means to get around it; it stops slips, and reviewers see a change.
"""

import ast
import functools
from pathlib import Path

import pytest
from paths import ROOT

SCRIPT = "scripts/measure/score_test.py"
# The bundled sample, two old books and two web pages, is what demonstrations are made of; its test split decides nothing.
SAMPLE = {
    "rltok/cli/demo.py": "the demo's table",
    "scripts/measure/measure_leak.py": "--test, of the sample",
    "scripts/measure/ship_model.py": "scores of models that come with rltok, which are finished",
    "rltok/cli/compare.py": "--split test, when the user asks for it",
}
PLUMBING = {
    "rltok/data/__init__.py": "exports load_test",
    "rltok/data/corpus.py": "makes the splits",
    "rltok/data/units.py": "the text that a user gives to be stored as test",
    "rltok/cli/prepare.py": "the same",
    "rltok/data/sources.py": "knows the sample's splits by name",
    "rltok/cli/evaluate.py": "--split test, when the user asks for it",
}
OTHER_TEXTS = {
    "scripts/measure/measure_toy.py",
    "rltok/evidence/toy/runs.py",
    "rltok/evidence/toy/language.py",
}  # languages that are made up on the spot
# Names the sample's splits in a text, to store all three.
NAMES_ONLY = {"rltok/data/files.py"}
# These load no model: the modules of rltok that they import are listed, and none of them runs one for them.
COUNTS = {
    # documents and bytes of every split for the page on the texts
    "scripts/measure/measure_texts.py": {
        "benchmarks.sets",
        "benchmarks.task_items",
        "data.tables",
        "errors",
        "evidence.measuring",
        "runs.results",
        "system.files",
    },  # fmt: skip
    # the source of every document, to divide scores that are in records already
    "scripts/measure/measure_kinds.py": {
        "config",
        "data",
        "errors",
        "evidence.chapters.ch07_domains",
        "evidence.measuring",
        "evidence.records",
        "runs.results",
        "system.digest",
        "system.files",
    },
}
# These read numbers that are in a record already.
READS_RECORDS = {
    "get", "score", "scored", "mean", "gap", "values", "by_pair", "bits_by_seed", "deviation", "in_deviations", "table",
    "_gap_of", "_gaps_of", "by_kind",
}  # fmt: skip


def readers() -> list[Path]:
    """Everything of the project that could read a text: package, scripts, notebooks."""
    return sorted([*(ROOT / "rltok").rglob("*.py"), *(ROOT / "scripts").rglob("*.py"), *(ROOT / "notebooks").glob("*.py")])


def docstrings(tree: ast.AST) -> set[int]:
    """Identities of the constants that are docstrings or stand alone."""
    return {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}


def asks_for_test(source: str) -> list[str]:
    """Lines that may take a test split: `load_test`, an attribute `test`, "test" as an argument of a call, its name in a text."""
    if "test" not in source and "sample:" not in source:
        return []  # spares the walk
    tree, lines = ast.parse(source), []
    silent = docstrings(tree)
    for node in ast.walk(tree):
        name = getattr(node, "id", getattr(node, "name", None)) if isinstance(node, ast.Name | ast.alias) else None
        attribute = node.attr if isinstance(node, ast.Attribute) else None
        called = getattr(node.func, "id", getattr(node.func, "attr", "")) if isinstance(node, ast.Call) else ""
        given = [argument.value for argument in node.args if isinstance(argument, ast.Constant)] if called else []
        text = node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in silent else ""
        if (
            name == "load_test"
            or attribute in ("test", "load_test")
            or (called not in READS_RECORDS and "test" in given)
            or any(part in text for part in ("english-test", "sample:test", "--split test", "sample:"))
        ):
            lines.append(f"line {getattr(node, 'lineno', '?')}: {ast.unparse(node)}")
    return lines


@functools.cache
def asking() -> dict[str, list[str]]:
    return {str(path.relative_to(ROOT)): asks_for_test(path.read_text(encoding="utf-8")) for path in readers()}


LISTED = {SCRIPT, *SAMPLE, *PLUMBING, *OTHER_TEXTS}


def test_one_script_alone_scores_runs_on_the_test_split():
    assert asking()[SCRIPT]
    others = {name: lines for name, lines in asking().items() if lines and name not in LISTED}
    assert {name: lines for name, lines in others.items() if name not in {*COUNTS, *NAMES_ONLY}} == {}


def test_whoever_stands_in_a_list_still_asks():
    assert [name for name in sorted((LISTED | NAMES_ONLY | COUNTS.keys()) - OTHER_TEXTS) if not asking().get(name)] == []


@pytest.mark.parametrize("script", COUNTS)
def test_scripts_that_count_the_test_split_have_nothing_to_score_it_with(script):
    tree = ast.parse((ROOT / script).read_text(encoding="utf-8"))
    imported = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module.startswith("rltok")}
    assert imported <= {f"rltok.{name}" for name in COUNTS[script]}


def test_scripts_and_notebooks_do_not_ask_for_load_test_or_the_english_test_text():
    for path in readers():
        if "rltok" not in path.relative_to(ROOT).parts[:1] and str(path.relative_to(ROOT)) not in (SCRIPT, *COUNTS):
            code = [line for line in path.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]  # not the prose
            assert not any("load_test" in line or "english-test" in line for line in code), path


@pytest.mark.parametrize(
    "source",
    ["from rltok.data import load_test", "rows = corpus.test", "data.load_test(spec)", "evaluate(model, setting.text.test)",
     "load_corpus('sample:test')", "getattr(corpus, 'test')", "prepared.rows('test', config)", "sample_documents('test')",
     "load_corpus('../english-test.parquet')", "documents(f'sample:{split}')"],
)  # fmt: skip
def test_ways_of_asking_are_noticed(source):
    assert asks_for_test(source)


@pytest.mark.parametrize(
    "source", ["corpus.validation", "run['scores']['test']", "pytest.main()", "test = 3", "gap(sweep, a, b, 'test')"]
)
def test_what_reads_no_text_is_left_alone(source):
    assert asks_for_test(source) == []
