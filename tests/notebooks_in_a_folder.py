"""Notebooks for tests: a small one that keeps every rule, and a folder in which runner and checks find it."""

from pathlib import Path

import nbformat
import run_notebooks
from nbtools import generated

HEADER = """# ---
# jupyter:
#   jupytext:
#     formats: ipynb,py:percent
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
#   rltok:
#     constants:
#       '0.25': a definition
#     download_mb: 0
# ---
"""
TOP = """
# %% [markdown] tags=["header-strip"]
# # A small notebook
#
# After it you can read a line.
#
# <!-- strip -->
# <!-- /strip -->

# %% tags=["first-cell", "hide-input", "nbval-ignore-output"]
"""
FIGURE = '{"figure": {"caption": "A line.", "name": "fig-line"}, "image": {"alt": "A line that rises"}}'
BODY = f"""
# %% tags=["prediction"]
print("guess", 3)

# %% tags=["measurement"]
print("value 0.375")
print("3 %\\rdone")

# %% mystnb={FIGURE}
from IPython.display import SVG

SVG('<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="line"><path d="M 1.5 2.5 L 3.25 4.75"/></svg>')

# %% tags=["raises-exception"]
raise ValueError("too large")

# %% [markdown]
# ## What we saw
#
# It was 0.375, above 0.25. See §2.4, $x = 0.5$ and `y = 0.7`.
#
# ## Exercises
#
# **1. A line** (easy, 5 minutes) Draw it.

# %% tags=["hide-cell", "solution"]
print("drawn")
"""
LIGHT = """# The real first cell imports torch, which takes longer than the rest.
# not compared: it stands for a description of the machine
print("a machine")
"""
SMALL = HEADER + TOP + BODY
GPU_CELL = """
# %% tags=["gpu", "nbval-skip"]
print("trained on a card")
"""
WITH_GPU = SMALL.replace('\n# %% tags=["prediction"]', GPU_CELL + '\n# %% tags=["prediction"]')


def write(folder: Path, text: str = SMALL, name: str = "07_small") -> Path:
    """A notebook's .py in a folder; its path without suffix."""
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.with_suffix(".py").write_text(text, encoding="utf-8")
    return path


def run(path: Path, **options) -> Path:
    """Execute a notebook as `make notebooks` does, on a machine without GPU unless `gpu` is given."""
    run_notebooks.run_notebook(path, **{"measure": False, "gpu": False, **options})
    return path


def contents(path: Path) -> dict[str, bytes]:
    """Every file beside a notebook, to see whether anything changed."""
    files = sorted(file for file in path.parent.rglob("*") if file.is_file() and "__pycache__" not in file.parts)
    return {str(file.relative_to(path.parent)): file.read_bytes() for file in files}


def read(path: Path) -> nbformat.NotebookNode:
    """A notebook as stored."""
    return nbformat.read(path.with_suffix(".ipynb"), as_version=4)


def store(nb, path: Path) -> None:
    """Write a notebook as a person would who edits the wrong side."""
    path.with_suffix(".ipynb").write_text(nbformat.writes(nb) + "\n", encoding="utf-8")


def use_light_first_cell(monkeypatch, folder: Path) -> None:
    """Have the runner write a first cell that imports nothing."""
    (folder / "first_cell.py").write_text(LIGHT, encoding="utf-8")
    monkeypatch.setattr(generated, "FIRST_CELL", folder / "first_cell.py")
