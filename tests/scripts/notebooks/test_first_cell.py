"""The common first cell: works in a clone, after `pip install` and alone, says what is missing, and keeps the torch there is.

It runs in a Python that has no packages but stand-ins: a torch, a git and a pip that note how they were called, and an rltok.
"""

import json
import os
import subprocess
import sys
from types import SimpleNamespace

import pytest
import torch
from nbtools import generated

from rltok.show import notebook

ADDRESS = "https://example.org/someone/rltok"
NOT_INSTALLED = "rltok was not installed: see the lines above"
BEGIN = "import os\ndef begin(): print('begins in', os.path.basename(os.getcwd()))\n"
PIP = """
import json, os, shutil, sys
open(os.environ["NOTED"], "a").write(json.dumps(sys.argv[1:]) + "\\n")
if os.environ["PIP"] == "fails":
    sys.exit("pip says why")
shutil.copytree("rltok_clone/rltok", os.path.join(os.path.dirname(__file__), "..", "rltok"))
"""
GIT = """#!/bin/sh
echo "[\\"git\\", \\"$*\\"]" >> "$NOTED"
[ "$GIT_FAILS" ] && { echo "git says why" >&2; exit 128; }
mkdir -p rltok_clone/notebooks/results && cp -r "$PACKAGE" rltok_clone/rltok
"""


def write_package(folder, text=BEGIN):
    (folder / "show").mkdir(parents=True)
    for package in (folder, folder / "show"):
        (package / "__init__.py").write_text("")
    (folder / "show" / "notebook.py").write_text(text)


@pytest.fixture
def alone(tmp_path):
    """Runs the cell in an otherwise empty folder `content/work`; the result has its commands as `noted`."""
    site, content = tmp_path / "site", tmp_path / "content" / "work"
    content.mkdir(parents=True)
    write_package(tmp_path / "package" / "rltok")
    (site / "torch-2.8.0+cu126.dist-info").mkdir(parents=True)
    (site / "torch-2.8.0+cu126.dist-info" / "METADATA").write_text("Name: torch\nVersion: 2.8.0+cu126\n")
    (site / "pip").mkdir()
    (site / "pip" / "__init__.py").write_text("")
    (site / "pip" / "__main__.py").write_text(PIP)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "git").write_text(GIT)
    (tmp_path / "bin" / "git").chmod(0o755)
    noted = tmp_path / "noted"

    def run(address=ADDRESS, place=content, pip="works", git="works"):
        environment = {"PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}", "PYTHONPATH": str(site), "NOTED": str(noted)}
        environment |= {"PIP": pip, "GIT_FAILS": "" if git == "works" else "1", "PACKAGE": str(tmp_path / "package" / "rltok")}
        cell = tmp_path / "cell.py"  # a file, because a traceback shows its lines, as a notebook's does
        cell.write_text(f"import sys; sys.path[0] = ''\n{generated.first_cell(address)}")
        command = [sys.executable, "-S", str(cell)]
        result = subprocess.run(command, cwd=place, env=environment, capture_output=True, text=True)
        lines = noted.read_text().splitlines() if noted.exists() else []
        noted_commands = [json.loads(line) for line in lines]
        return SimpleNamespace(code=result.returncode, out=result.stdout, err=result.stderr, noted=noted_commands)

    return SimpleNamespace(run=run, site=site, content=content)


def test_it_is_short():
    assert len(generated.first_cell("").splitlines()) <= 17


@pytest.mark.parametrize("address", ["", ADDRESS])
def test_where_rltok_is_installed_it_installs_nothing(alone, address):
    write_package(alone.site / "rltok")
    result = alone.run(address)
    assert (result.code, result.out, result.noted) == (0, "begins in work\n", [])


@pytest.mark.parametrize("place", ["notebooks", "."])
def test_a_clone_that_was_not_installed_is_taken(alone, place):
    write_package(alone.content / "rltok")
    (alone.content / "notebooks").mkdir()
    result = alone.run(place=alone.content / place)
    assert (result.code, result.noted) == (0, []) and result.out.startswith("begins in")


def test_a_clone_without_its_dependencies_says_what_to_run(alone):
    write_package(alone.content / "rltok", "import jaxtyping")
    result = alone.run()
    assert result.code == 1 and result.noted == []
    assert "missing? pip install -e '.[bpe]'" in result.err  # the line that is shown where it stopped
    assert result.err.endswith("ModuleNotFoundError: No module named 'jaxtyping'\n")


def test_alone_it_clones_once_and_installs_beside_the_torch_that_is_there(alone):
    result = alone.run()
    git, pip = result.noted
    assert result.code == 0 and result.out == "begins in work\n", result.err
    assert git == ["git", f"clone -q --depth 1 {ADDRESS} rltok_clone"]
    assert pip == ["install", "-q", "./rltok_clone[bpe]", "torch==2.8.0"]  # the registry knows no 2.8.0+cu126
    assert alone.run().noted == result.noted  # the cell once more


def test_a_folder_of_that_name_is_no_package(alone):
    (alone.content / "rltok").mkdir()
    result = alone.run()
    assert result.code == 0 and len(result.noted) == 2, result.err


@pytest.mark.parametrize("fault", [{"pip": "fails"}, {"git": "fails"}])
def test_when_git_or_pip_fails_it_stops_and_says_so(alone, fault):
    result = alone.run(**fault)
    (broken,) = fault
    assert result.code == 1 and result.out == "" and len(result.noted) == (2 if broken == "pip" else 1)
    assert result.err == f"{broken} says why\n{NOT_INSTALLED}\n"


def test_after_a_failed_installation_it_does_not_clone_again(alone):
    alone.run(pip="fails")
    result = alone.run()
    assert result.code == 0 and [command[0] for command in result.noted] == ["git", "install", "install"], result.err


def test_without_an_address_it_says_what_to_run(alone):
    result = alone.run("", git="fails")
    assert result.code == 1 and [command[0] for command in result.noted] == ["git"]
    assert result.err.endswith(f"{NOT_INSTALLED}\n")


@pytest.mark.parametrize(
    "folder, works_in, said",
    [
        ("results", ".", False),
        ("notebooks/results", ".", False),
        ("rltok_clone/notebooks/results", "rltok_clone/notebooks", False),
        ("other", ".", True),
    ],
)
def test_it_works_where_stored_results_are_or_says_that_there_are_none(monkeypatch, tmp_path, capsys, folder, works_in, said):
    (tmp_path / folder).mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    notebook.begin()
    out = capsys.readouterr().out
    assert os.getcwd() == str((tmp_path / works_in).resolve())
    assert ("No folder of stored results here" in out) == said and "trains in" in out


@pytest.mark.parametrize("bf16, precision", [(False, "fp16 with a gradient scaler, plain PyTorch"), (True, "bfloat16")])
def test_a_card_without_bfloat16_trains_in_fp16(monkeypatch, bf16, precision):
    card = SimpleNamespace(name="Tesla T4", total_memory=15.8e9)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: bf16)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda index: card)
    assert notebook.machine() == f"Tesla T4, 16 GB; trains in {precision}"
    assert len(notebook.machine()) <= 78
