"""The equation register: every equation of the paper has a function that names it, a test, and a cell or an honest blank."""

import ast
import importlib
import inspect
import json
from functools import reduce

import make_register  # noqa: E402
import pytest
from make_register import equations_named  # noqa: E402
from paths import ROOT

ENTRIES = make_register.entries()
KEYS = {"equation", "title", "tex", "reading", "functions", "tests", "cell", "chapter"}
each_equation = pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: f"eq{entry['equation']}")


def say(entry: dict, problem: str, mend: str) -> str:
    return f"book/register.yml, equation {entry['equation']}: {problem}. {mend}"


def docstrings(function: str) -> list[str]:
    """The docstring of a dotted name, then those of its class and its module."""
    module = make_register.module_file(function).removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    names = function.removeprefix(module + ".").split(".")
    owners = [importlib.import_module(module)]
    for name in names:
        owners.append(getattr(owners[-1], name))
    return [inspect.getdoc(owner) or "" for owner in reversed(owners)]


def section(notebook: str, heading: str) -> str | None:
    """Source of a notebook's cells under a heading, up to the next heading of the same or a higher level; None without it."""
    cells = json.loads((ROOT / "notebooks" / f"{notebook}.ipynb").read_text(encoding="utf-8"))["cells"]
    lines, level = None, 0
    for cell in cells:
        for line in "".join(cell["source"]).splitlines():
            depth = len(line) - len(line.lstrip("#")) if cell["cell_type"] == "markdown" and line.startswith("#") else 0
            if lines is None and depth and line.lstrip("# ").strip() == heading:
                lines, level = [], depth
            elif lines is not None and 0 < depth <= level:
                return "\n".join(lines)
            elif lines is not None:
                lines.append(line)
    return None if lines is None else "\n".join(lines)


def test_the_register_holds_equations_1_to_27_once_each_in_order():
    assert [entry["equation"] for entry in ENTRIES] == list(range(1, 28))


def test_the_page_of_the_register_is_the_one_made_from_it():
    made = make_register.render()
    assert make_register.PAGE.read_text(encoding="utf-8") == made, "book/_generated/register.md is out of date: run `make book`"
    for number in range(1, 28):
        assert f"(eq-{number})=" in made and f"\\tag{{{number}}}" in made


@each_equation
def test_an_entry_is_complete_and_has_a_cell_or_the_chapter_that_will(entry):
    assert entry.keys() <= KEYS, say(entry, f"unknown keys {sorted(entry.keys() - KEYS)}", "Correct them.")
    assert all(entry.get(key) for key in ("title", "tex", "reading", "functions", "tests")), say(
        entry, "a part is empty", "Fill it."
    )
    assert ("cell" in entry) != ("chapter" in entry), say(entry, "needs a cell or a chapter", "Give one of them.")
    if "chapter" in entry:
        written = sorted((ROOT / "notebooks").glob(f"{entry['chapter']}_*.py"))
        assert not written, say(
            entry, f"{written[0].name if written else ''} exists", "Name its section: cell: NOTEBOOK#HEADING."
        )


@each_equation
def test_its_functions_exist_and_name_the_equation(entry):
    for function in entry["functions"]:
        named = reduce(set.union, map(equations_named, docstrings(function)), set())
        problem = f"the docstrings of {function}, its class and its module name {sorted(named)}"
        assert entry["equation"] in named, say(
            entry, problem, f"Write eq. ({entry['equation']}) there, or name another function."
        )


@each_equation
def test_its_tests_exist(entry):
    for test in entry["tests"]:
        file, name = test.split("::")
        assert (ROOT / file).is_file(), say(entry, f"there is no {file}", "Name another test.")
        names = [node.name for node in ast.walk(ast.parse((ROOT / file).read_text())) if isinstance(node, ast.FunctionDef)]
        assert name in names, say(entry, f"{file} has no {name}", "Name another test.")


@each_equation
def test_its_cell_exists_and_shows_the_equation(entry):
    if "cell" not in entry:
        pytest.skip(f"chapter {entry['chapter']} is not written yet")
    notebook, heading = entry["cell"].split("#")
    missing = say(entry, f"notebooks/{notebook}.ipynb is missing", f"Run `make notebooks NB={notebook[:2]}`.")
    assert (ROOT / "notebooks" / f"{notebook}.ipynb").is_file(), missing
    shown = section(notebook, heading)
    assert shown is not None, say(entry, f"notebooks/{notebook}.ipynb has no heading {heading!r}", "Correct the heading after #.")
    problem = f"the section {heading!r} of notebooks/{notebook}.py names {sorted(equations_named(shown))}"
    assert entry["equation"] in equations_named(shown), say(entry, problem, r"Write \tag{N} or 'eq. (N)' there.")


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("eq. (16)", {16}), ("eqs. (7) and (8)", {7, 8}), ("eqs. 1 to 6 and 14", {1, 2, 3, 4, 5, 6, 14}),
        ("eqs. (1) to (3), (14), (19) to (21)", {1, 2, 3, 14, 19, 20, 21}), (r"$$a \tag{2}$$", {2}),
        ("6 of 9, section 2.4", set()),
    ],
)  # fmt: skip
def test_the_numbers_that_a_text_names(text, numbers):
    assert equations_named(text) == numbers
