"""Chapters as a reader meets them: lines that fit the page, an opening that says the result, prompts that give nothing away."""

import re

import pytest
from nbtools.checks import texts
from nbtools.pairs import stems
from nbtools.rules import NOTEBOOKS, tags
from notebooks_in_a_folder import read

from rltok.show.notebook import judge

WIDTH = 78  # characters that the text column of a page holds
CHAPTERS = stems(NOTEBOOKS)
MENTIONED = re.compile(r"\d ± \d")  # with spaces at which a line may break

each_chapter = pytest.mark.parametrize("path", CHAPTERS, ids=[path.name for path in CHAPTERS])


def too_long(text):
    """Lines wider than the column."""
    return [line for line in text.splitlines() if len(line) > WIDTH]


def broken_prompts(cells):
    """What is wrong with prompts: a prefilled guess, or an answer that lies open in the next cell of code."""
    code = [cell for cell in cells if cell.cell_type == "code"]
    found = []
    for cell, following in zip(code, code[1:], strict=False):
        if "prediction" in tags(cell):
            if not re.search(r"^guess = None\b", cell.source, re.MULTILINE):
                found.append(f"a prefilled guess: {cell.source}")
            if not {"hide-output", "hide-cell"} & set(tags(following)):
                found.append(f"an open answer: {following.source[:60]}")
    return found


@each_chapter
def test_code_and_printed_lines_fit_the_column(path):
    cells = read(path).cells
    for cell in cells:
        if cell.cell_type == "code":
            assert too_long(cell.source) == []
            shown = [output for output in cell.outputs if not any("widget" in kind for kind in output.get("data", {}))]
            printed = [text for output in shown for kind, text in texts(output) if kind in ("stdout", "text/plain")]
            assert [line for text in printed for line in too_long(text)] == []


@each_chapter
def test_a_chapter_opens_with_its_result(path):
    title, first = read(path).cells[0].source.split("\n\n")[:2]
    assert title.startswith("# ") and first.startswith("**In short.** ")


@each_chapter
def test_prompts_are_empty_and_answers_folded(path):
    assert broken_prompts(read(path).cells) == []


@each_chapter
def test_a_number_and_its_error_stay_on_one_line(path):
    made = [
        text
        for cell in read(path).cells
        for output in cell.get("outputs", [])
        for kind, text in texts(output)
        if kind in ("text/markdown", "text/html")
    ]
    assert [text for text in made if MENTIONED.search(text)] == []


def test_a_prefilled_guess_and_an_open_answer_are_noticed():
    cells = read(CHAPTERS[0]).cells
    assert broken_prompts(cells) == []
    for cell in cells:
        if "prediction" in tags(cell):
            cell.source = "guess = 10"
        cell.metadata.tags = [tag for tag in tags(cell) if tag not in ("hide-output", "hide-cell")]
    assert [problem.split(":")[0] for problem in broken_prompts(cells)] == ["a prefilled guess", "an open answer"]
    assert too_long("x" * WIDTH) == [] and too_long("a\n" + "x" * (WIDTH + 1)) != []


def test_an_answer_stands_beside_the_guess_and_no_guess_is_no_mistake():
    assert judge(None, "less") == "answer: less (no guess yet)"
    assert judge("less", "less") == "answer: less, as guessed"
    assert judge(0, 8) == "answer: 8; your guess: 0"
