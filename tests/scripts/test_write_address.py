"""`make address`: the repository's address everywhere, without executing a notebook, and away again to the byte."""

import os
import shutil
import subprocess
import sys

import nbformat
import pytest
import write_address
import yaml
from nbtools.address import checked
from nbtools.rules import ROOT
from paths import project_files

ADDRESS = "https://github.com/someone/rltok"
CHECK = """
from nbtools.checks import all_problems
from nbtools.pairs import stems
from nbtools.rules import NOTEBOOKS
import make_paper_against_code, make_register
print([problem for path in stems(NOTEBOOKS) for problem in all_problems(path)])
print([made.PAGE.name for made in (make_register, make_paper_against_code) if made.PAGE.read_text() != made.render()])
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A copy of this project, without tests and scripts of others, in which no address stands."""
    root = tmp_path_factory.mktemp("project with spaces")
    left_out = (ROOT / "book" / "_extra", ROOT / "tests")
    for path in (path for path in project_files() if not any(map(path.is_relative_to, left_out))):
        copied = root / path.relative_to(ROOT)
        copied.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, copied)
    return root


def python(root, *arguments):
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(str(root / "scripts" / folder) for folder in ("book", "notebooks"))}
    return subprocess.run([sys.executable, *arguments], cwd=root / "scripts", env=environment, capture_output=True, text=True)


def contents(root):
    paths = (path for path in root.rglob("*") if path.is_file() and path.suffix != ".pyc")
    return {str(path.relative_to(root)): path.read_bytes() for path in paths}


@pytest.mark.parametrize("address", ["https://github.com/a/b/", "http://github.com/a/b", "a/b", "https://a.b/c'; rm -r ."])
def test_what_is_no_address_of_a_repository_is_refused(address):
    with pytest.raises(SystemExit, match="REPOSITORY=https://github.com/OWNER/REPO") as refused:
        checked(address)
    assert repr(address) in str(refused.value)


def test_a_refused_address_is_written_nowhere(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["write_address.py", "a/b"])
    monkeypatch.setattr(write_address, "write_atomically", pytest.fail)
    for part in (write_address.book_config, write_address.make_register, write_address.make_paper_against_code):
        monkeypatch.setattr(part, "main", pytest.fail)
    with pytest.raises(SystemExit, match="'a/b'"):
        write_address.main()


def test_an_edited_chapter_that_has_not_run_is_named_and_nothing_is_written(project):
    py = project / "notebooks" / "00_quickstart.py"
    text = py.read_text(encoding="utf-8")
    py.write_text(text + "\n# %%\nprint(1)\n", encoding="utf-8")
    before = contents(project)
    result = python(project, "write_address.py", ADDRESS)
    assert result.returncode != 0 and "run `make notebooks NB=00`" in result.stderr and contents(project) == before
    py.write_text(text, encoding="utf-8")


def test_an_address_arrives_everywhere_another_replaces_it_and_none_leaves_no_trace(project):
    assert python(project, "write_address.py", "").returncode == 0
    before = contents(project)
    for address in (ADDRESS, "https://example.org/someone/rltok"):
        result = python(project, "write_address.py", address)
        assert result.returncode == 0, result.stderr
        check_address(project, address, before)
    assert python(project, "write_address.py", "").returncode == 0
    after = contents(project)
    assert [name for name in before if before[name] != after[name]] == []


def check_address(project, address, before):
    """The address stands wherever it belongs, and nothing else of the chapters changed."""
    for chapter in sorted((project / "notebooks").glob("0*.ipynb")):
        name = str(chapter.relative_to(project))
        old, new = nbformat.reads(before[name].decode(), as_version=4), nbformat.read(chapter, as_version=4)
        assert [cell.get("outputs") for cell in old.cells] == [cell.get("outputs") for cell in new.cells]
        assert [cell.source for cell in old.cells[2:]] == [cell.source for cell in new.cells[2:]]
        assert f'REPOSITORY = "{address}"' in new.cells[1].source
        link = f"https://colab.research.google.com/github/someone/rltok/blob/main/{name}"
        assert (link in new.cells[0].source) == ("github" in address)
    assert yaml.safe_load((project / "book" / "_config.yml").read_text())["repository"]["url"] == address
    assert yaml.safe_load((project / "CITATION.cff").read_text())["repository-code"] == address
    assert f'repository = "{address}"' in (project / "pyproject.toml").read_text()
    checked = python(project, "-c", CHECK)
    assert checked.stdout == "[]\n[]\n", checked.stdout + checked.stderr
