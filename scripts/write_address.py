"""Write the address of the public repository everywhere: `write_address.py https://github.com/OWNER/REPO`, or "" for none.

Into pyproject.toml, where it belongs, CITATION.cff, the first cells and strips of the notebooks, and the generated parts of the
book. No notebook is executed, and stored outputs stay.
"""

import re
import sys
from pathlib import Path

import book_config
import make_paper_against_code
import make_register
import nbformat
from nbtools import generated
from nbtools.address import MEND, checked
from nbtools.normalise import normalise
from nbtools.pairs import pair_problems, read_stored, stems, to_percent
from nbtools.rules import NOTEBOOKS, ROOT, NotebookError
from run_notebooks import write_atomically


def render_pyproject(text: str, address: str) -> str:
    """pyproject.toml with the address, of which setup.py makes the package's links."""
    return re.sub(r'(?m)^repository = ".*"$', f'repository = "{address}"', text)


def render_citation(text: str, address: str) -> str:
    """CITATION.cff with the address, or without."""
    text = re.sub(r"(?m)^repository-code: .*\n", "", text)
    return text.replace("license: MIT\n", "license: MIT\n" + (f'repository-code: "{address}"\n' if address else ""), 1)


def write_notebook(path: Path) -> None:
    """First cell and strip of a pair, the rest of both files left as it is."""
    nb = read_stored(path.with_suffix(".ipynb"))
    generated.fill_in(nb, path, generated.read_records(path.parent).get(path.stem))
    nb = normalise(nb)
    write_atomically(path.with_suffix(".ipynb"), nbformat.writes(nb) + "\n")
    write_atomically(path.with_suffix(".py"), to_percent(nb))


def main() -> None:
    """Write all of it, or nothing where the address or a notebook is at fault."""
    if len(sys.argv) != 2:
        raise SystemExit(MEND)
    address, chapters = checked(sys.argv[1]), stems(NOTEBOOKS)
    if problems := [problem for path in chapters for problem in pair_problems(path)]:
        raise SystemExit(problems[0])  # what was edited and has not run would be lost
    for name, render in {"pyproject.toml": render_pyproject, "CITATION.cff": render_citation}.items():
        write_atomically(ROOT / name, render((ROOT / name).read_text(encoding="utf-8"), address))
    try:
        for path in chapters:
            write_notebook(path)
    except NotebookError as error:
        raise SystemExit(str(error)) from error
    for part in (book_config, make_register, make_paper_against_code):
        part.main()


if __name__ == "__main__":
    main()
