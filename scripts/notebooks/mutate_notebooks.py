"""Prove that a notebook's comparison is alive: plant a mistake in a copy of the project and see a test turn red.

    python scripts/notebooks/mutate_notebooks.py 01 [--library FILE OLD NEW]

Planted one at a time: another number in the library (without --library, entries of scripts/mutations.toml in modules that the
notebook imports, until one is noticed), in a stored output, in a stored figure, and an edit of the .py alone.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

import nbformat
from nbtools.checks import is_compared
from nbtools.pairs import read_stored
from nbtools.provenance import module_digests, module_file
from nbtools.rules import FIGURE_DIGEST, FIGURE_TOLERANCE, ROOT, NotebookError, is_cpu_code
from run_notebooks import select

COPIED = ("rltok", "scripts", "tests", "notebooks", "pyproject.toml")
SVG = "image/svg+xml"
Plant = Callable[[Path, Path], None]  # (root of the copy, notebook in it without suffix)


def compared_outputs(nb) -> Iterator:
    """Outputs that strict nbval compares."""
    return (output for cell in nb.cells if is_cpu_code(cell) and is_compared(cell) for output in cell.outputs)


def store(nb, path: Path) -> None:
    """Write a changed .ipynb."""
    path.with_suffix(".ipynb").write_text(nbformat.writes(nb) + "\n", encoding="utf-8")


def change_output(root: Path, path: Path) -> None:
    """Another last digit in the first stored output that has one."""
    nb = read_stored(path.with_suffix(".ipynb"))
    for output in compared_outputs(nb):
        match = re.search(r"(\d)(?!.*\d)", output.get("text", ""), re.DOTALL)
        if match:
            digit = str((int(match[1]) + 1) % 10)
            output.text = output.text[: match.start()] + digit + output.text[match.end() :]
            store(nb, path)
            return
    raise NotebookError(f"{path.name} prints no number that is compared.")


def change_figure(root: Path, path: Path) -> None:
    """A curve of the first stored figure: a coordinate moved by a little more than the tolerance, or another digest."""
    nb = read_stored(path.with_suffix(".ipynb"))
    for output in compared_outputs(nb):
        svg = output.get("data", {}).get(SVG, "")
        lines = list(re.finditer(r"(?<=L )-?\d+\.\d+", svg))
        if lines:
            last = lines[-1]
            moved = f"{float(last[0]) + 2 * FIGURE_TOLERANCE:.6f}"
            output.data[SVG] = svg[: last.start()] + moved + svg[last.end() :]
            store(nb, path)
            return
        if match := re.search(FIGURE_DIGEST, output.get("text", ""), re.MULTILINE):
            output.text = output.text[: match.end() - 1] + ("0" if match[0][-1] != "0" else "1") + output.text[match.end() :]
            store(nb, path)
            return
    raise NotebookError(f"{path.name} stores no figure that is compared.")


def edit_py(root: Path, path: Path) -> None:
    """A word more in the .py, and no run after it."""
    py = path.with_suffix(".py")
    py.write_text(py.read_text(encoding="utf-8") + "\n# %% [markdown]\n# An afterthought.\n", encoding="utf-8")


def change_library(file: str, old: str, new: str) -> Plant:
    """Another text in a module of the package."""

    def plant(root: Path, path: Path) -> None:
        text = (root / file).read_text(encoding="utf-8")
        if text.count(old) != 1:
            raise NotebookError(f"{file} holds {old!r} {text.count(old)} times; name a text that stands there once.")
        (root / file).write_text(text.replace(old, new), encoding="utf-8")

    return plant


def known_mutations(nb, root: Path) -> Iterator[tuple[str, Plant]]:
    """Entries of scripts/mutations.toml that touch a module which the notebook imports."""
    used = {module_file(name, root) for name in module_digests(nb, root)}
    for entry in tomllib.loads((root / "scripts" / "mutations.toml").read_text(encoding="utf-8")).get("mutation", []):
        if root / entry["file"] in used:
            yield entry["name"], change_library(entry["file"], entry["old"], entry["new"])


def turns_red(path: Path, root: Path, plant: Plant | None, arguments: list[str]) -> bool:
    """Whether pytest fails in a copy of the project in which something was planted."""
    with tempfile.TemporaryDirectory(prefix="rltok-notebooks-") as folder:
        copy = Path(folder)
        for name in COPIED:
            if (root / name).is_dir():
                shutil.copytree(root / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
            elif (root / name).exists():
                shutil.copy(root / name, copy / name)
        if plant:
            plant(copy, copy / "notebooks" / path.name)
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
        environment = {**os.environ, "PYTHONPATH": str(copy)}
        run = subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True)
        if run.returncode not in (0, 1):
            raise NotebookError(f"pytest could not run: {(run.stderr or run.stdout).strip().splitlines()[-1]}")
        return run.returncode == 1


def main() -> int:
    """Print a line for each change; exit code 0 when every kind turned a test red, 1 otherwise, 2 for a mistake."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("name", metavar="NB", help="start of a notebook's name")
    parser.add_argument("--library", nargs=3, metavar=("FILE", "OLD", "NEW"), help="what to change in the package")
    options = parser.parse_args()
    try:
        return 0 if all([run(path, options.library) for path in select(ROOT / "notebooks", [options.name])]) else 1
    except NotebookError as error:
        print(error, file=sys.stderr)
        return 2


def run(path: Path, library: list[str] | None) -> bool:
    """All kinds of change for one notebook."""
    nbval = ["--nbval", f"notebooks/{path.name}.ipynb"]
    pair = ["tests/scripts/notebooks/test_notebooks.py", "-k", f"{path.name} and pair"]
    for arguments in (nbval, pair):
        if turns_red(path, ROOT, None, arguments):
            raise NotebookError(f"{path.name}: `pytest {' '.join(arguments)}` fails without any change. Mend that first.")
    kinds = {"stored output": (change_output, nbval), "stored figure": (change_figure, nbval), "edited .py": (edit_py, pair)}
    results = {}
    for kind, (plant, arguments) in kinds.items():
        results[kind] = report(kind, turns_red(path, ROOT, plant, arguments))
    nb = read_stored(path.with_suffix(".ipynb"))
    changes = [("given change", change_library(*library))] if library else known_mutations(nb, ROOT)
    # any() stops at the first that is noticed; each run takes as long as the notebook.
    results["library"] = any(report(f"library: {name}", turns_red(path, ROOT, plant, nbval)) for name, plant in changes)
    return all(results.values())


def report(kind: str, red: bool) -> bool:
    """Print a result as it comes in."""
    print(f"{kind:<40} {'red, as it must be' if red else 'STAYED GREEN'}", flush=True)
    return red


if __name__ == "__main__":
    sys.exit(main())
