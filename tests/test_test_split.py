"""The test split is for the end: one script scores runs on it, and nothing else may ask for it.

Choices (models, settings, when to stop) are made on validation. So whoever reads the test split of a corpus stands in this list,
with the reason.
"""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SCRIPT = "scripts/score_test.py"
# The bundled sample, two old books and two web pages, is what demonstrations are made of; its test split decides nothing.
SAMPLE = {
    "rltok/demo.py": "the demo's table",
    "scripts/measure_leak.py": "--test, of the sample",
    "rltok/compare_command.py": "--split test, when the user asks for it",
}
PLUMBING = {
    "rltok/data/__init__.py": "exports load_test",
    "rltok/data/corpus.py": "makes the splits",
    "rltok/data/sample.py": "knows them",
    "rltok/data/sources.py": "knows their names",
    "rltok/evaluate_command.py": "--split test, when the user asks for it",
    "rltok/commands.py": "--split test, when the user asks for it",
}
OTHER_TEXTS = {"scripts/measure_toy.py", "rltok/toy_runs.py", "rltok/toy/language.py"}  # languages that are made up on the spot


def readers() -> list[Path]:
    """Everything of the project that could read a corpus: package, scripts, notebooks."""
    return sorted([*(ROOT / "rltok").rglob("*.py"), *(ROOT / "scripts").rglob("*.py"), *(ROOT / "notebooks").glob("*.py")])


def asks_for_test(source: str) -> list[str]:
    """Lines that take a test split: `load_test`, an attribute `test` of something called corpus, or its name as a text."""
    found = []
    for node in ast.walk(ast.parse(source)):
        named = isinstance(node, ast.Name | ast.alias) and getattr(node, "id", getattr(node, "name", "")) == "load_test"
        attribute = isinstance(node, ast.Attribute) and node.attr in ("test", "load_test") and "corpus" in ast.unparse(node.value)
        called = isinstance(node, ast.Attribute) and node.attr == "load_test"
        text = (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and node.value in ("sample:test", "english-test.parquet")
        )
        if named or attribute or called or text:
            found.append(f"line {getattr(node, 'lineno', '?')}: {ast.unparse(node)}")
    return found


def test_one_script_alone_scores_runs_on_the_test_split():
    asking = {str(path.relative_to(ROOT)) for path in readers() if asks_for_test(path.read_text(encoding="utf-8"))}
    assert SCRIPT in asking
    assert asking - {SCRIPT} - SAMPLE.keys() - PLUMBING.keys() - OTHER_TEXTS == set()


def test_scripts_and_notebooks_do_not_ask_for_load_test():
    for path in readers():
        if path.parts[-2] in ("scripts", "notebooks") and str(path.relative_to(ROOT)) != SCRIPT:
            assert "load_test" not in path.read_text(encoding="utf-8"), path
            assert "english-test" not in path.read_text(encoding="utf-8"), path


@pytest.mark.parametrize(
    "source",
    ["from rltok.data import load_test", "rows = corpus.test", "data.load_test(spec)", "evaluate(model, setting.corpus.test)",
     "load_corpus('sample:test')"],
)  # fmt: skip
def test_every_way_of_asking_is_noticed(source):
    assert asks_for_test(source)


@pytest.mark.parametrize("source", ["corpus.validation", "run['scores']['test']", "pytest.main()", "test = 3"])
def test_what_reads_no_text_is_left_alone(source):
    assert asks_for_test(source) == []
