"""Provenance of stored GPU outputs: an edit, a swapped output, a smoke run or a dirty tree is named; drift is seen."""

import shutil
import subprocess

import nbformat
import provenance as command
import pytest
import run_notebooks
from nbtools import provenance
from nbtools.execute import Facts
from nbtools.rules import NotebookError
from notebooks_in_a_folder import WITH_GPU, read, run, store, use_light_first_cell, write

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
FACTS = Facts("NVIDIA H100", "x86_64", 600.0, 300_000_000, 40_000_000_000, "3.12.1", "2.9.0")
USES = WITH_GPU.replace('print("trained', 'from rltok import policy\n\nprint("trained')


def git(root, *arguments):
    identity = ["-c", "user.name=test", "-c", "user.email=test@example.org"]
    return subprocess.run(["git", "-C", str(root), *identity, *arguments], check=True, capture_output=True, text=True).stdout


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A repository with a package of three modules, and a notebook whose GPU cell has just run. No kernel, no GPU."""
    use_light_first_cell(monkeypatch, tmp_path)

    def run_cells(nb, path, *, gpu, timeout, extra=None):
        for cell in nb.cells:
            if cell.cell_type == "code":
                cell.execution_count, cell.outputs = 1, [nbformat.v4.new_output("stream", name="stdout", text="ran\n")]
        return FACTS

    monkeypatch.setattr(run_notebooks, "run_cells", run_cells)
    monkeypatch.delenv("RLTOK_SMOKE", raising=False)
    root = tmp_path / "project"
    (root / "rltok").mkdir(parents=True)
    (root / "rltok" / "__init__.py").write_text("")
    (root / "rltok" / "policy.py").write_text("from . import layers\n")
    (root / "rltok" / "layers.py").write_text("width = 3\n")
    (root / "rltok" / "unused.py").write_text("x = 1\n")
    path = run(write(root / "notebooks", USES), gpu=True)
    git(root, "init", "-q")
    git(root, "add", ".")
    git(root, "commit", "-qm", "all")
    return root, path


def stamped(project):
    root, path = project
    command.stamp(path)
    return read(path), path, root


def test_a_stamped_run_is_sound_and_says_what_ran_where(project):
    nb, path, root = stamped(project)
    assert provenance.problems(nb, path) == []
    block = nb.metadata.rltok_provenance
    assert block["commit"] == git(root, "rev-parse", "HEAD").strip()
    assert (block["device"], block["seconds"], block["torch"], block["full"]) == ("NVIDIA H100", 600.0, "2.9.0", True)
    assert list(block["modules"]) == ["rltok", "rltok.layers", "rltok.policy"]


def edit_gpu_cell(nb):
    nb.cells[2].source += "\nprint(2)"


def swap_output(nb):
    nb.cells[2].outputs[0].text = "better\n"


def add_cell_above(nb):
    nb.cells.insert(2, nbformat.v4.new_code_cell("seed = 1"))


@pytest.mark.parametrize(
    "spoil, said",
    [
        (edit_gpu_cell, "07_small: cell 2 was edited after the GPU run"),
        (swap_output, "07_small: cell 2: the stored outputs are not those of the recorded run"),
        (add_cell_above, "07_small: 2 code cells up to the last gpu cell, the run had 1"),
        (lambda nb: nb.metadata.pop("rltok_provenance"), "07_small has cells tagged gpu and no provenance"),
        (lambda nb: nb.metadata.rltok_provenance.update(full=False), "07_small holds the outputs of a smoke run"),
        (lambda nb: nb.metadata.rltok_provenance.update(commit=None), "07_small is not stamped"),
        (lambda nb: nb.metadata.rltok_provenance.update(commit="a" * 40 + "+changes"), "no commit of a clean tree"),
        (lambda nb: nb.metadata.rltok_provenance.pop("device"), "07_small: the provenance lacks device"),
        (lambda nb: nb.metadata.rltok_provenance.update(seconds="long"), "07_small: the provenance has seconds = 'long'"),
        (lambda nb: nb.cells.pop(2), "07_small has provenance but no cell tagged gpu"),
    ],
)
def test_what_does_not_fit_the_run_is_named(project, spoil, said):
    nb, path, root = stamped(project)
    spoil(nb)
    (problem,) = provenance.problems(nb, path)
    assert said in problem and ("make notebooks NB=07" in problem or "stamp 07_small" in problem)


def test_markdown_and_later_cells_may_change(project):
    nb, path, root = stamped(project)
    nb.cells[0].source += "\nMore words."
    nb.cells.append(nbformat.v4.new_code_cell("print(3)"))
    assert provenance.problems(nb, path) == []


def test_a_smoke_run_is_recorded_as_such(project, monkeypatch):
    root, path = project
    monkeypatch.setenv("RLTOK_SMOKE", "1")
    run(path, gpu=True)
    with pytest.raises(NotebookError, match="smoke run"):
        command.stamp(path)


@pytest.mark.parametrize("file", ["rltok/unused.py", "notebooks/07_small.py", "new.txt"])
def test_a_dirty_tree_is_not_stamped(project, file):
    root, path = project
    with (root / file).open("a") as out:
        out.write("# changed\n")
    with pytest.raises(NotebookError, match=f"07_small: not stamped, the tree is not clean .{file}"):
        command.stamp(path)
    assert read(path).metadata.rltok_provenance["commit"] is None


def test_what_a_run_writes_may_be_uncommitted_when_it_is_stamped(project):
    root, path = project
    (root / "notebooks" / "results" / "curve.json").write_text("[]")
    run(path, gpu=True)
    command.stamp(path)
    assert read(path).metadata.rltok_provenance["commit"]


def test_a_package_that_changed_after_the_run_is_not_stamped(project):
    root, path = project
    (root / "rltok" / "layers.py").write_text("width = 4\n")
    git(root, "commit", "-qam", "wider")
    with pytest.raises(NotebookError, match="not stamped, rltok.layers changed since the run"):
        command.stamp(path)


def test_drift_of_the_package_is_seen_and_no_mistake(project, capsys):
    nb, path, root = stamped(project)
    (root / "rltok" / "unused.py").write_text("x = 2\n")
    assert provenance.drift(nb, path) == []
    (root / "rltok" / "layers.py").write_text("width = 4\n")
    assert provenance.drift(nb, path) == ["rltok.layers"]
    store(nb, path)
    capsys.readouterr()
    assert command.check([path]) == 0
    assert capsys.readouterr().out == "07_small: warning: stored GPU outputs are older than rltok.layers\n"


def test_imports_are_followed_through_every_spelling(tmp_path):
    (tmp_path / "rltok" / "rules").mkdir(parents=True)
    files = {
        "rltok/__init__.py": "",
        "rltok/rules/__init__.py": "from rltok.rules.even import Even\n",
        "rltok/rules/even.py": "from ..vocab import BOS\n",
        "rltok/vocab.py": "BOS = 1\n",
        "rltok/losses.py": "",
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    cells = [nbformat.v4.new_code_cell("%matplotlib inline\nimport rltok.rules as r\nimport rltok\nrltok.losses.total(1)")]
    digests = provenance.module_digests(nbformat.v4.new_notebook(cells=cells), tmp_path)
    assert list(digests) == ["rltok", "rltok.losses", "rltok.rules", "rltok.rules.even", "rltok.vocab"]
