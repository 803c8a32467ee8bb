"""The form that every chapter has: strip, first cell, predictions before measurements, what we saw, exercises."""

import re

from nbtools import generated
from nbtools.rules import DECLARATIONS, MAX_SECONDS, mend, tags, where

EXERCISE = re.compile(r"^\*\*\d+\. ([^*]+)\*\*", re.MULTILINE)  # **1. Is it the space?** (easy, 5 minutes) ...
FINDINGS = re.compile(r"^## What we saw$", re.MULTILINE)


def declaration_problems(nb, path):
    """The header declares what it must, with reasons, and nothing unknown."""
    declared = nb.metadata.get("rltok", {})
    unknown = [name for name in declared if name not in DECLARATIONS]
    problems = [f"{path.name}: the header declares rltok: {name}, known are {', '.join(DECLARATIONS)}." for name in unknown]
    size = declared.get("download_mb")
    if isinstance(size, bool) or not isinstance(size, int | float) or size < 0:
        problems.append(f"{path.name}: the header must declare rltok: download_mb, megabytes downloaded, or 0; has {size!r}.")
    for text, reason in declared.get("constants", {}).items():
        if not isinstance(text, str) or not_a_number(text) or not isinstance(reason, str) or len(reason) < 4:
            problems.append(f"{path.name}: the constant {text!r} needs quotes and a reason: '0.99': discount of eq. 16.")
    return problems


def not_a_number(text: str) -> bool:
    """Whether a declared constant is anything but a number."""
    return not re.fullmatch(r"\d+(?:,\d{3})*(?:\.\d+)?(?:e[-+]?\d+)?", text)


def generated_problems(nb, path):
    """Strip and first cell are what the runner writes, from a measurement within the budget."""
    first = nb.cells[0] if nb.cells else None
    strip = generated.STRIP.search(first.source) if first is not None and "header-strip" in tags(first) else None
    if strip is None:
        return [f"{where(path, 0)} must be tagged header-strip and hold {generated.BEGIN} and {generated.END}."]
    problems = []
    record = generated.read_records(path.parent).get(path.name)
    if record is None:
        problems.append(f"{path.name} is not measured. Run `{mend(path)} MEASURE=1`, with a GPU if it needs one.")
    elif strip[0] != generated.strip_text(nb, path, record):
        problems.append(f"{where(path, 0)}: the strip is not what was measured. Run `{mend(path)}`; nobody types it.")
    elif record["device"] == "cpu" and record["seconds"] > MAX_SECONDS:
        problems.append(f"{path.name} took {record['seconds']:.0f} s, at most {MAX_SECONDS} for a CPU notebook. Make it smaller.")
    code = [(i, cell) for i, cell in enumerate(nb.cells) if cell.cell_type == "code"]
    if not code or "first-cell" not in tags(code[0][1]):
        line = '# %% tags=["first-cell", "hide-input", "nbval-ignore-output"]'
        problems.append(f"{path.name}: the first code cell must be tagged first-cell. Write `{line}` and leave the cell empty.")
    elif code[0][1].source != generated.first_cell():
        problems.append(f"{where(path, code[0][0])} differs from scripts/notebooks/templates/first_cell.py. Run `{mend(path)}`.")
    return problems


def structure_problems(nb, path):
    """Title, a prediction before what it is about, findings, and exercises that are solved."""
    problems = []
    if not nb.cells or not nb.cells[0].source.startswith("# "):
        problems.append(f"{where(path, 0)} must start with the title, `# Title`.")
    predictions = [i for i, cell in enumerate(nb.cells) if "prediction" in tags(cell)]
    if not predictions:
        problems.append(f"{path.name} measures before the reader predicts. Put a cell tagged prediction above what it shows.")
    waiting = False
    for index, cell in enumerate(nb.cells):
        waiting |= index in predictions
        if "measurement" in tags(cell):
            if not waiting:
                problems.append(
                    f"{where(path, index)} measures before the reader predicts. Put a cell tagged prediction above it."
                )
            waiting = False
    if not any(cell.cell_type == "markdown" and FINDINGS.search(cell.source) for cell in nb.cells):
        problems.append(f"{path.name} does not say what we saw. End with `## What we saw`.")
    return problems + exercise_problems(nb, path)


def exercise_problems(nb, path):
    """There are exercises, one a cell, and beneath each a folded solution that has run."""
    problems, open_exercise, count = [], None, 0
    for index, cell in enumerate(nb.cells):
        titles = EXERCISE.findall(cell.source) if cell.cell_type == "markdown" else []
        if len(titles) > 1:
            problems.append(f"{where(path, index)} holds {len(titles)} exercises. Give each a cell, with its solution beneath.")
        if titles:
            if open_exercise:
                problems.append(open_exercise)
            count += 1
            open_exercise = f"{where(path, index)}: exercise {titles[-1]!r} has no solution. Add a cell tagged solution beneath."
        if "solution" in tags(cell):
            open_exercise = None
            if "hide-cell" not in tags(cell):
                problems.append(f"{where(path, index)} gives the solution away. Add the tag hide-cell.")
    if not count:
        problems.append(f"{path.name} has no exercise. Add **1. Title** (easy, 5 minutes) and a cell tagged solution.")
    return problems + [text for text in [open_exercise] if text]
