"""Start a chapter: `new_chapter.py 04_the_boundary_policy "The boundary policy"`.

Writes the notebook from scripts/notebooks/templates/chapter.py, executes it, and enters it in book/_toc.yml. What is written
keeps all rules of scripts/notebooks/nbtools, so `make test` stays green from the first minute.
"""

import argparse
import re
import sys
from pathlib import Path

from nbtools.checks import all_problems
from nbtools.rules import ROOT, NotebookError
from run_notebooks import run_notebook

TEMPLATE = ROOT / "scripts" / "notebooks" / "templates" / "chapter.py"
ENTRY = re.compile(r"^(?P<indent>\s*)- file: (?P<path>(?:\.\./)?notebooks/(?P<name>\S+?))(?:\.ipynb|\.py)?\s*(?:#.*)?$")


def with_entry(toc: str, name: str) -> str:
    """The table of contents with a line for the notebook, among the others in order of name; comments stay."""
    lines = toc.splitlines()
    there = [(i, match) for i, line in enumerate(lines) if (match := ENTRY.match(line))]
    if any(match["name"] == name for _, match in there):
        raise NotebookError(f"book/_toc.yml already lists notebooks/{name}. Choose another name.")
    if not there:
        raise NotebookError(f"book/_toc.yml lists no notebook beside which to put one. Add `- file: notebooks/{name}` by hand.")
    before = [(i, match) for i, match in there if match["name"] < name]
    index, neighbour = before[-1] if before else there[0]
    line = neighbour["indent"] + "- file: " + neighbour["path"].removesuffix(neighbour["name"]) + name
    lines.insert(index + 1 if before else index, line)
    return "\n".join(lines) + "\n"


def new_chapter(name: str, title: str, root: Path = ROOT) -> None:
    """Write, execute and enter a chapter. A name that is taken or a missing table of contents is an error before that."""
    if not re.fullmatch(r"\d\d[a-z]?_[a-z0-9_]+", name):
        raise NotebookError(f"NAME={name!r} must be two digits, perhaps a letter, and words, such as 04_the_boundary_policy.")
    if not title.strip():
        raise NotebookError('TITLE is empty: make chapter NAME=04_the_boundary_policy TITLE="The boundary policy".')
    number = name.partition("_")[0]
    path, toc = root / "notebooks" / name, root / "book" / "_toc.yml"
    taken = sorted(file.name for file in (root / "notebooks").glob(f"{number}_*.py"))
    if taken:
        raise NotebookError(f"notebooks/{taken[0]} has the number {number} already. Choose another.")
    if not toc.exists():
        raise NotebookError("book/_toc.yml is missing, and a chapter must stand in it. Restore it from git.")
    entered = with_entry(toc.read_text(encoding="utf-8"), name)
    text = TEMPLATE.read_text(encoding="utf-8").replace("TITLE", f"{number} {title}")
    path.with_suffix(".py").write_text(text, encoding="utf-8")
    run_notebook(path, measure=True, gpu=False)
    toc.write_text(entered, encoding="utf-8")
    if problems := all_problems(path):
        raise NotebookError(problems[0])
    print(f"Edit notebooks/{name}.py, then `make notebooks NB={number}`.")


def main() -> int:
    """Command line; exit code 2 for a mistake of the caller."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("name", help="two digits, perhaps a letter, and words: 04_the_boundary_policy")
    parser.add_argument("title", help="heading of the chapter")
    options = parser.parse_args()
    try:
        new_chapter(options.name, options.title)
    except NotebookError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
