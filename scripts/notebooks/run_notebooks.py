"""Execute the notebooks and store their outputs: `run_notebooks.py [NB ...]`, where 03 names every notebook starting so.

The .py is edited; the .ipynb is written here, and so are the strip and the first cell of both. The same outcome gives the
same bytes. Without a GPU, cells tagged gpu are left out and keep the outputs stored for them. Nothing is written unless
every cell ran.
"""

import argparse
import os
import sys
from pathlib import Path

import nbformat
from nbtools import checks, generated, provenance
from nbtools.execute import Facts, has_gpu, run_cells
from nbtools.normalise import normalise
from nbtools.pairs import read_percent, stems, to_percent
from nbtools.rules import NOTEBOOKS, NotebookError, mend, tags, where


def keep_gpu_outputs(nb, path: Path) -> None:
    """Give each GPU cell the outputs stored for the same source; a cell edited since then is an error."""
    ipynb = path.with_suffix(".ipynb")
    stored = nbformat.read(ipynb, as_version=4) if ipynb.exists() else nbformat.v4.new_notebook()
    old = [cell for cell in stored.cells if "gpu" in tags(cell) and cell.execution_count is not None]
    for index, cell in enumerate(nb.cells):
        if "gpu" not in tags(cell):
            continue
        same = next((candidate for candidate in old if candidate.source == cell.source), None)
        if same is None:
            raise NotebookError(f"{where(path, index)} needs a GPU and no outputs are stored. Run `{mend(path)}` where one is.")
        old.remove(same)
        cell.outputs, cell.execution_count = same.outputs, same.execution_count
    if provenance.BLOCK in stored.metadata:
        nb.metadata[provenance.BLOCK] = stored.metadata[provenance.BLOCK]


def refresh_record(nb, path: Path, facts: Facts, measure: bool, gpu: bool) -> None:
    """Store what the run took when asked to, or when nothing is stored; say so when the strip promises too little.

    A run that left the GPU cells out says nothing about what the notebook takes.
    """
    record = generated.read_records(path.parent).get(path.stem)
    if provenance.has_gpu_cells(nb) and not gpu:
        return
    if measure or record is None:
        generated.write_record(path.parent, path.stem, facts)
    elif why := generated.outgrown(record, facts):
        print(f"{path.stem}: {why}. Refresh it with `{mend(path)} MEASURE=1`.")


def write_atomically(path: Path, text: str) -> None:
    """Replace a file in one step, and only if it changes."""
    if path.exists() and path.read_text(encoding="utf-8") == text:
        return
    temporary = path.with_name(f".{path.name}.part")
    temporary.write_text(text, encoding="utf-8")
    os.replace(temporary, path)


def run_notebook(path: Path, *, measure: bool, gpu: bool, smoke: bool = False, timeout: int = 600) -> None:
    """Execute one notebook and write both its files; `smoke` runs every cell at smoke size and writes nothing."""
    py = path.with_suffix(".py")
    nb = read_percent(py)
    edited = py.read_bytes()
    generated.fill_in(nb, path, generated.read_records(path.parent).get(path.stem))
    if smoke:
        run_cells(nb, path, gpu=True, timeout=timeout, extra={"RLTOK_SMOKE": "1"})
        return
    if provenance.has_gpu_cells(nb) and not gpu:
        keep_gpu_outputs(nb, path)
    facts = run_cells(nb, path, gpu=gpu, timeout=timeout)
    if py.read_bytes() != edited:
        raise NotebookError(f"{py.name} was edited while it ran. Run `{mend(path)}` again.")
    refresh_record(nb, path, facts, measure, gpu)
    generated.fill_in(nb, path, generated.read_records(path.parent).get(path.stem))
    nb = normalise(nb)
    if provenance.has_gpu_cells(nb) and gpu:
        nb.metadata[provenance.BLOCK] = provenance.record(nb, path, facts, full=not os.environ.get("RLTOK_SMOKE"))
    nbformat.validate(nb)
    write_atomically(path.with_suffix(".ipynb"), nbformat.writes(nb) + "\n")
    write_atomically(py, to_percent(nb))
    print(f"{path.stem}: {facts.seconds:.1f} s, {facts.peak_memory / 1e9:.1f} GB")


def select(folder: Path, names: list[str]) -> list[Path]:
    """Notebooks whose name starts with one of `names`, or all; a name that fits none is an error."""
    there = stems(folder)
    unknown = [name for name in names if not any(path.name.startswith(name) for path in there)]
    if unknown:
        listed = ", ".join(path.name for path in there) or "none"
        raise NotebookError(f"no notebook starts with {unknown[0]!r}; there are: {listed}.")
    return [path for path in there if not names or any(path.name.startswith(name) for name in names)]


def main() -> int:
    """Exit code 0 when all ran and keep the rules, 1 when a rule is broken, 2 when a cell or a file is at fault."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NB", help="start of a name (default: all)")
    parser.add_argument("--measure", action="store_true", help="refresh time and memory in the strip")
    parser.add_argument("--smoke", action="store_true", help="run every cell with RLTOK_SMOKE=1 and write nothing")
    parser.add_argument("--folder", type=Path, default=NOTEBOOKS, help="where the notebooks are")
    options = parser.parse_args()
    broken = []
    try:
        paths, gpu = select(options.folder.resolve(), options.names), has_gpu()
        for path in paths:
            run_notebook(path, measure=options.measure, gpu=gpu, smoke=options.smoke)
            broken += [] if options.smoke else checks.all_problems(path)
    except NotebookError as error:
        print(error, file=sys.stderr)
        return 2
    for problem in broken:
        print(problem, file=sys.stderr)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
