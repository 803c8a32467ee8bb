"""A notebook is two files: py:percent, which people edit, and .ipynb, which the runner writes. Conversion between them."""

import difflib
from itertools import zip_longest
from pathlib import Path

import jupytext
import nbformat

from nbtools.rules import CELL_METADATA, NotebookError, mend, where


def read_percent(path: Path) -> nbformat.NotebookNode:
    """The .py as a notebook without outputs."""
    if not path.exists():
        raise NotebookError(f"{path.name} is missing: every notebook is a pair, and the .py is the file to edit.")
    return jupytext.read(path, fmt="py:percent")


def read_stored(path: Path) -> nbformat.NotebookNode:
    """The .ipynb as it is stored."""
    if not path.exists():
        raise NotebookError(f"{path.name} is missing: run `{mend(path)}`.")
    return nbformat.read(path, as_version=4)


def _plain(value):
    """NotebookNodes as dicts, whose text is shorter."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list) else value


def to_percent(nb) -> str:
    """A notebook as py:percent, to the byte what JupyterLab with jupytext writes when it saves the notebook."""
    return jupytext.writes(nb, fmt="py:percent")


def pair_problems(path: Path) -> list[str]:
    """What keeps a pair from being equal; empty when the .ipynb, converted, is the .py to the byte."""
    py, ipynb = path.with_suffix(".py"), path.with_suffix(".ipynb")
    try:
        edited, stored = read_percent(py), read_stored(ipynb)
    except NotebookError as error:
        return [str(error)]
    text, converted = py.read_text(encoding="utf-8"), to_percent(stored)
    if text == converted:
        return []
    for i, (ours, theirs) in enumerate(zip(edited.cells, stored.cells, strict=False)):
        if _essence(ours) != _essence(theirs):
            mine, other = _difference(ours, theirs)
            side = f"{py.name} has {mine}, {ipynb.name} has {other}"
            return [f"{where(path, i)} differs: {side}. {_advice(py)}"]
    if len(edited.cells) != len(stored.cells):
        counts = f"{py.name} has {len(edited.cells)} cells, {ipynb.name} has {len(stored.cells)}"
        return [f"{where(path, min(len(edited.cells), len(stored.cells)))}: {counts}. {_advice(py)}"]
    changed = next(line for line in difflib.ndiff(text.splitlines(), converted.splitlines()) if line[0] in "+-")
    return [f"{py.name}: header or spacing differs from {ipynb.name}, first at {changed[2:]!r}. {_advice(py)}"]


def _advice(py: Path) -> str:
    return f"Only the .py is edited: put the change there and run `{mend(py)}`."


def _essence(cell) -> tuple:
    metadata = {key: cell.metadata[key] for key in CELL_METADATA if cell.metadata.get(key)}
    return cell.cell_type, cell.source, _plain(metadata)


def _difference(ours, theirs) -> tuple[str, str]:
    """The first line at which two cells differ, as each has it; or their kind or metadata, if their lines are equal."""
    for mine, other in zip_longest(ours.source.splitlines(), theirs.source.splitlines()):
        if mine != other:
            at = next((i for i, (a, b) in enumerate(zip(mine or "", other or "", strict=False)) if a != b), 0)
            start = max(0, at - 20)
            return tuple("no such line" if line is None else repr(line[start : start + 60]) for line in (mine, other))
    return str(_essence(ours)[::2]), str(_essence(theirs)[::2])


def stems(folder: Path) -> list[Path]:
    """Every notebook of a folder, without suffix: a file on either side counts. Modules of pytest do not."""
    paths = {path.with_suffix("") for suffix in ("*.py", "*.ipynb") for path in folder.glob(suffix)}
    return sorted(path for path in paths if path.name[0].isdigit())
