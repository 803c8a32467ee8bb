"""Provenance of stored GPU outputs: `provenance.py stamp NB ...` after a run, `provenance.py check` at any time.

stamp writes the commit into notebooks whose GPU cells have run; the tree must be clean but for what the run wrote.
check fails where source, outputs or kind of run do not fit, and lists modules that have changed since.
"""

import argparse
import sys
from pathlib import Path

import nbformat
from nbtools import provenance
from nbtools.pairs import read_stored
from nbtools.rules import NOTEBOOKS, NotebookError
from run_notebooks import select, write_atomically


def stamp(path: Path) -> None:
    """Stamp one notebook in place."""
    nb = read_stored(path.with_suffix(".ipynb"))
    provenance.stamp(nb, path)
    write_atomically(path.with_suffix(".ipynb"), nbformat.writes(nb) + "\n")
    print(f"{path.name}: stamped with {nb.metadata[provenance.BLOCK]['commit'][:12]}")


def check(paths: list[Path]) -> int:
    """Print what is wrong and what has drifted; the number of mistakes."""
    wrong = 0
    for path in paths:
        nb = read_stored(path.with_suffix(".ipynb"))
        problems = provenance.problems(nb, path)
        wrong += len(problems)
        for line in problems:
            print(line, file=sys.stderr)
        if moved := provenance.drift(nb, path):
            print(f"{path.name}: warning: stored GPU outputs are older than {', '.join(moved)}")
    return wrong


def main() -> int:
    """Command line; exit code 1 when a check fails, 2 for a mistake of the caller."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("command", choices=["stamp", "check"])
    parser.add_argument("names", nargs="*", metavar="NB", help="start of a name (default for check: all)")
    options = parser.parse_args()
    try:
        paths = select(NOTEBOOKS, options.names)
        if options.command == "check":
            return 1 if check(paths) else 0
        if not options.names:
            raise NotebookError("name the notebooks to stamp, such as: python scripts/notebooks/provenance.py stamp 06")
        for path in paths:
            stamp(path)
    except NotebookError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
