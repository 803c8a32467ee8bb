"""Checks of stored notebooks that need no kernel. Each takes (notebook, path without suffix) and returns its complaints."""

import re
from collections.abc import Callable
from pathlib import Path

import nbformat

from nbtools import provenance
from nbtools.pairs import pair_problems, read_stored
from nbtools.prose import number_problems
from nbtools.rules import (
    FIGURE_DIGEST,
    FOLD_KEYS,
    KERNELSPEC,
    MAX_BYTES,
    METADATA,
    MIME_TYPES,
    MIN_COMPARED,
    MIN_WITH_TEXT,
    TAGS,
    NotebookError,
    folds,
    is_cpu_code,
    mend,
    tags,
    where,
)
from nbtools.structure import declaration_problems, generated_problems, structure_problems

Check = Callable[[nbformat.NotebookNode, Path], list[str]]
# What describes one machine or one moment. Hexadecimal colours are shorter than addresses and have no 0x.
TRACES = {
    "an absolute path": r"(?<![\w.)\]}~/<-])/(?:home|root|work|tmp|Users|usr|opt|var|content|mnt|private)/[\w.~-]+",
    "a drive's path": r"\b[A-Z]:\\\w+",
    "a process number": r"ipykernel_[1-9]\d*|\bpid\W{0,3}\d+",
    "a memory address": r"\b0x[0-9a-f]{6,16}\b",
    "a date": r"\b20\d\d-[01]\d-[0-3]\d\b|<dc:date>",
    "a time of day": r"\b[0-2]\d:[0-5]\d:[0-5]\d\b",
}
NBVAL_COMMENT = re.compile(r"^\s*#\s*(NBVAL_\w+|PYTEST_VALIDATE_IGNORE_OUTPUT)\s*$", re.MULTILINE)
REASON = re.compile(r"^# not compared: \S.{8,}$", re.MULTILINE)


def texts(output) -> list[tuple[str, str]]:
    """Every text in an output, with its kind."""
    if output.output_type == "stream":
        return [(output.name, output.text)]
    if output.output_type == "error":
        return [("error", "\n".join([output.ename, output.evalue, *output.traceback]))]
    return [(mime, data) for mime, data in output.data.items() if isinstance(data, str)]


def is_figure(output) -> bool:
    """Whether an output is a picture."""
    return any(mime.startswith("image/") for mime in output.get("data", {}))


def has_image(cell) -> bool:
    """Whether a cell shows a figure."""
    return any(is_figure(output) for output in cell.get("outputs", []))


def has_text(cell) -> bool:
    """Whether a cell prints or shows text of its own; what stands in for a figure does not count."""
    for output in cell.get("outputs", []):
        if output.output_type in ("stream", "error"):
            return True
        if not is_figure(output) and {"text/plain", "text/html"} & set(output.data):
            return True
    return False


def is_compared(cell) -> bool:
    """Whether strict nbval compares a cell's outputs."""
    return not {"nbval-skip", "nbval-ignore-output"} & set(tags(cell))


def count_problems(nb, path):
    """Execution counts are 1..n from the top: nothing left out, run twice or out of order."""
    code = [(i, cell) for i, cell in enumerate(nb.cells) if cell.cell_type == "code"]
    for expected, (index, cell) in enumerate(code, 1):
        if not cell.source.strip():
            return [f"{where(path, index)} is empty. Delete it."]
        if cell.execution_count != expected:
            return [f"{where(path, index)} has execution count {cell.execution_count}, not {expected}. Run `{mend(path)}`."]
    return []


def error_problems(nb, path):
    """Errors are shown on purpose or not at all, and nothing writes to stderr."""
    problems = []
    for index, cell in enumerate(nb.cells):
        kinds = [o.output_type for o in cell.get("outputs", [])]
        wanted = "raises-exception" in tags(cell)
        if ("error" in kinds) != wanted:
            what = "is tagged raises-exception and raises nothing" if wanted else "holds an error"
            problems.append(f"{where(path, index)} {what}. Mend the cell or its tag and run `{mend(path)}`.")
        if any(o.get("name") == "stderr" for o in cell.get("outputs", [])):
            problems.append(f"{where(path, index)} wrote to stderr. Remove what warns, or print on purpose.")
    return problems


def image_problems(nb, path):
    """Every image says in words what it shows, and every figure has a caption; one figure a cell."""
    problems = []
    for index, cell in enumerate(nb.cells):
        place, shown = where(path, index), cell.get("metadata", {}).get("mystnb", {})
        if has_image(cell):
            if len(shown.get("image", {}).get("alt", "").split()) < 3:
                problems.append(f'{place} shows a figure without alt text. Add mystnb={{"image": {{"alt": "what it shows"}}}}.')
            if not shown.get("figure", {}).get("caption"):
                problems.append(f'{place} shows a figure without caption. Add mystnb={{"figure": {{"caption": "..."}}}}.')
            if sum(is_figure(o) for o in cell.outputs) > 1:
                problems.append(f"{place} shows several figures under one alt text. Split the cell.")
        html = "".join(data for o in cell.get("outputs", []) for kind, data in texts(o) if kind == "text/html")
        if cell.cell_type == "markdown":
            html += cell.source
            if re.search(r"!\[\s*\]\(", cell.source):
                problems.append(f"{place} has an image without alt text. Write ![what it shows](file).")
        if re.search(r"<img(?![^>]*\salt=\"[^\"]+\")[^>]*>", html):
            problems.append(f"{place} has an <img> without alt text. Give it alt.")
        if re.search(r"<svg(?![^>]*\saria-label=\"[^\"]+\")[^>]*>(?!\s*<title>)", html):
            problems.append(f"{place} has an <svg> without a name. Give it aria-label or <title>.")
    return problems


def trace_problems(nb, path):
    """Outputs hold nothing of one machine or one moment."""
    problems = []
    for index, cell in enumerate(nb.cells):
        for kind, text in (pair for output in cell.get("outputs", []) for pair in texts(output)):
            for name, pattern in TRACES.items():
                if hit := re.search(pattern, text):
                    problems.append(f"{where(path, index)} shows {name} in {kind}: {hit[0]!r}. {trace_mend(hit[0])}")
    return problems


def trace_mend(text: str) -> str:
    """What to do about a trace."""
    if text == "<dc:date>":
        return "Call rltok.show.plots.use_style() in a cell above the figure."
    return "Print fields, not objects, and no files' places or times."


def kind_problems(nb, path):
    """Only known kinds of output, in a notebook of limited size with the fixed metadata."""
    problems = []
    for index, cell in enumerate(nb.cells):
        kinds = {mime for output in cell.get("outputs", []) for mime in output.get("data", {})}
        for kind in sorted(kinds - MIME_TYPES.keys()):
            advice = "Use rltok.show.plots.show(figure)." if kind.startswith("image/") else "Show text or HTML."
            problems.append(f"{where(path, index)} stores {kind}, which nothing compares. {advice}")
        printed = "".join(output.text for output in cell.get("outputs", []) if output.get("name") == "stdout")
        if "image/png" in kinds and not re.search(FIGURE_DIGEST, printed, re.MULTILINE):
            problems.append(f"{where(path, index)} shows a PNG without a digest of its data. Use rltok.show.plots.show(figure).")
    size = len(nbformat.writes(nb).encode())
    if size > MAX_BYTES:
        problems.append(f"{path.name}.ipynb has {size} bytes, at most {MAX_BYTES}: draw fewer points or print less.")
    if nb.metadata.get("kernelspec") != KERNELSPEC or set(nb.metadata) - set(METADATA):
        problems.append(f"{path.name}.ipynb has metadata that its runner does not write. Run `{mend(path)}`.")
    return problems


def tag_problems(nb, path):
    """Tags come from the closed list, cells are folded as theirs say, and what is not compared says why."""
    problems = []
    for index, cell in enumerate(nb.cells):
        place, own = where(path, index), set(tags(cell))
        for tag in sorted(own - TAGS.keys()):
            problems.append(f"{place} has the unknown tag {tag!r}. Known: {', '.join(TAGS)}.")
        if folds(cell) != {key: cell.metadata[key] for key in FOLD_KEYS if key in cell.metadata}:
            problems.append(f"{place} is not folded in JupyterLab and Colab as its tags say. Run `{mend(path)}`.")
        if {"gpu", "nbval-skip"} & own and not {"gpu", "nbval-skip"} <= own:
            problems.append(f"{place}: gpu and nbval-skip go together. Give it both or neither.")
        if {"nbval-ignore-output", "first-cell"} & own and not REASON.search(cell.source):
            problems.append(f"{place} is not compared and does not say why. Add `# not compared: reason`.")
        if hit := NBVAL_COMMENT.search(cell.source) if cell.cell_type == "code" else None:
            problems.append(f"{place} has the comment {hit[1]}. Use the tag nbval-ignore-output and give the reason.")
    return problems


def share_problems(nb, path):
    """Enough of the CPU cells print something, and nearly all that do are compared."""
    code = [cell for cell in nb.cells if is_cpu_code(cell)]
    with_text = [cell for cell in code if has_text(cell)]
    compared = [cell for cell in with_text if is_compared(cell)]
    problems = []
    if len(with_text) < MIN_WITH_TEXT * len(code):
        share = f"{len(with_text)} of {len(code)} code cells print something, at least {MIN_WITH_TEXT:.0%} must"
        problems.append(f"{path.name}: {share}. Print a result, or join cells.")
    if len(compared) < MIN_COMPARED * len(with_text):
        share = f"{len(compared)} of {len(with_text)} cells with text are compared, at least {MIN_COMPARED:.0%} must be"
        problems.append(f"{path.name}: {share}. Round what differs instead of ignoring it.")
    return problems


CHECKS: dict[str, Check] = {
    "pair": lambda _, path: pair_problems(path),
    "counts": count_problems,
    "errors": error_problems,
    "images": image_problems,
    "traces": trace_problems,
    "kinds": kind_problems,
    "tags": tag_problems,
    "shares": share_problems,
    "numbers": number_problems,
    "declarations": declaration_problems,
    "generated": generated_problems,
    "structure": structure_problems,
    "provenance": provenance.problems,
}


def all_problems(path: Path) -> list[str]:
    """Complaints of all checks about one notebook."""
    try:
        nb = read_stored(path.with_suffix(".ipynb"))
    except NotebookError as error:
        return [str(error)]
    return [problem for check in CHECKS.values() for problem in check(nb, path)]
