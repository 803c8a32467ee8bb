"""`pytest --nbval` as configured here: green on what the runner stored, red after any change that matters."""

import os
import shutil
import subprocess
import sys

import mutate_notebooks
import pytest
from nbtools.rules import NotebookError
from notebooks_in_a_folder import LIGHT, SMALL, contents, read
from paths import ROOT

COPIED = ["pyproject.toml", "notebooks/conftest.py", "scripts/notebooks/nbtools", "scripts/notebooks/run_notebooks.py"]
PAIR = """
from nbtools.pairs import pair_problems, stems
from nbtools.rules import NOTEBOOKS

def test_pairs():
    assert [problem for path in stems(NOTEBOOKS) for problem in pair_problems(path)] == []
"""
BODY = SMALL.replace('print("value 0.375")', 'import os\nimport sys\n\nimport rltok\n\nprint("value", rltok.value())').replace(
    'print("drawn")',
    'print("noise", file=sys.stderr)\nprint(os.environ["CUDA_VISIBLE_DEVICES"] == "", os.environ["OMP_NUM_THREADS"])',
)


QUICK = ("-p", "no:cacheprovider", "-p", "no:hypothesispytest")  # which takes a second, and no test here uses it


def command(project, *arguments):
    """A command in the project, as on a machine where another rltok is installed and a GPU is there."""
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "0"}
    environment.pop("OMP_NUM_THREADS", None)
    return subprocess.run([sys.executable, *arguments], cwd=project, env=environment, capture_output=True, text=True)


def pytest_in(project, *arguments):
    return command(project, "-m", "pytest", *QUICK, *arguments)


@pytest.fixture(scope="module")
def executed(tmp_path_factory):
    """A project with this one's configuration, a package of one number, and one notebook that was run."""
    root = tmp_path_factory.mktemp("project")
    for name in COPIED:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, root / name)
    for folder in ("rltok", "tests", "scripts/notebooks/templates"):
        (root / folder).mkdir()
    (root / "rltok" / "__init__.py").write_text("def value():\n    return 0.375\n")
    (root / "tests" / "test_pairs.py").write_text(PAIR)
    (root / "scripts" / "notebooks" / "templates" / "first_cell.py").write_text(LIGHT)
    (root / "notebooks" / "07_small.py").write_text(BODY)
    run = command(root, "scripts/notebooks/run_notebooks.py")
    # The rules complain of what the cell writes to stderr, and of nothing else.
    assert run.returncode == 1 and run.stderr.count("\n") == 1 and "cell 7 wrote to stderr" in run.stderr, run.stderr
    return root


@pytest.fixture
def project(executed, tmp_path):
    shutil.copytree(executed, tmp_path / "copy")
    return tmp_path / "copy"


def test_pytest_nbval_alone_is_green_and_runs_tests_and_notebooks(project):
    before = contents(project / "x")
    run = pytest_in(project, "--nbval")
    assert run.returncode == 0, run.stdout
    assert run.stdout.count(".") >= 7
    assert contents(project / "x") == before


TAKEN = """
import socket

import jupyter_client.connect

write, taken = jupyter_client.connect.write_connection_file, socket.create_server(("127.0.0.1", 0))


def second(*arguments, transport="tcp", **settings):
    port = {"shell_port": taken.getsockname()[1]} if transport == "tcp" else {}
    return write(*arguments, **settings | port, transport=transport)


jupyter_client.connect.write_connection_file = second
"""


@pytest.mark.parametrize("starter", ["pytest", "run_notebooks"])
def test_a_port_that_another_process_takes_first_kills_no_kernel(starter, project, monkeypatch):
    (project / "taken.py").write_text(TAKEN)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(project), str(project / "scripts/notebooks")]))
    if starter == "pytest":
        run = pytest_in(project, "-p", "taken", "--nbval", "notebooks")
        assert run.returncode == 0, run.stdout
    else:
        run = command(project, "-c", "import taken, run_notebooks; run_notebooks.main()")
        assert "cell 7 wrote to stderr" in run.stderr, run.stderr


def change_number(project, path):
    (project / "rltok" / "__init__.py").write_text("def value():\n    return 0.376\n")


def test_planted_changes_turn_their_cells_red_and_no_other_from_within_the_folder_of_notebooks_too(project):
    plants = {"Cell 1": mutate_notebooks.change_output, "Cell 2": change_number, "Cell 3": mutate_notebooks.change_figure}
    for plant in plants.values():
        plant(project, project / "notebooks" / "07_small")
    run = pytest_in(project / "notebooks", "--nbval", "07_small.ipynb")
    failed = [line.split(" - ")[0].split("::")[1] for line in run.stdout.splitlines() if line.startswith("FAILED")]
    assert run.returncode == 1 and failed == list(plants), run.stdout


def test_an_edited_py_turns_the_pair_check_red(project):
    mutate_notebooks.edit_py(project, project / "notebooks" / "07_small")
    run = pytest_in(project)
    assert run.returncode == 1 and "07_small: cell 8: 07_small.py has 9 cells" in run.stdout, run.stdout


def test_the_mutation_script_sees_green_and_red(executed):
    path, arguments = executed / "notebooks" / "07_small", [*QUICK, "--nbval", "notebooks"]
    assert not mutate_notebooks.turns_red(path, executed, None, arguments)
    library = mutate_notebooks.change_library("rltok/__init__.py", "0.375", "0.376")
    assert mutate_notebooks.turns_red(path, executed, library, arguments)
    with pytest.raises(NotebookError, match="holds '0.5' 0 times"):
        mutate_notebooks.turns_red(path, executed, mutate_notebooks.change_library("rltok/__init__.py", "0.5", "1"), arguments)


def test_known_mutations_are_those_of_modules_that_the_notebook_imports(executed, project):
    entry = '[[mutation]]\nname = "{}"\nfile = "rltok/{}.py"\nold = "0.375"\nnew = "0.376"\ntests = []\n'
    (project / "scripts" / "mutations.toml").write_text(entry.format("used", "__init__") + entry.format("unused", "other"))
    nb = read(project / "notebooks" / "07_small")
    assert [name for name, _ in mutate_notebooks.known_mutations(nb, project)] == ["used"]


def test_cutting_notebooks_into_pieces_is_refused(project):
    run = pytest_in(project, "--nbval", "-n", "2")
    assert run.returncode != 0 and "add --dist loadfile" in run.stdout + run.stderr
