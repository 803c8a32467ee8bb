"""The common first cell: works in a clone, after `pip install` and alone, says what is missing, and keeps the torch there is."""

import importlib.util
import shutil
import subprocess
import sys
import types
from pathlib import Path

import pytest
from nbtools import generated


@pytest.fixture
def first_cell(monkeypatch, tmp_path):
    """Runs the cell in an empty folder of a machine on which rltok may be missing; returns commands and path."""
    (tmp_path / "notebooks").mkdir()
    monkeypatch.chdir(tmp_path / "notebooks")
    commands, find = [], importlib.util.find_spec
    monkeypatch.setattr(subprocess, "run", lambda command, **options: commands.append((command, options)))
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(shutil, "which", lambda name: name)

    def run(installed, repository=""):
        def find_spec(name):
            places = [Path(place) for place in sys.path if place.startswith(str(tmp_path))]
            found = installed or any((place / "rltok" / "__init__.py").exists() for place in places)
            return find(name) if name != "rltok" or found else None

        monkeypatch.setattr(importlib.util, "find_spec", find_spec)
        exec(generated.first_cell().replace('REPOSITORY = ""', f"REPOSITORY = {repository!r}"), {})
        return commands

    return run


def test_where_rltok_is_installed_it_installs_nothing(first_cell, capsys):
    assert first_cell(installed=True) == []
    assert "trains in" in capsys.readouterr().out


def test_in_a_clone_it_takes_the_clone(first_cell, tmp_path):
    (tmp_path / "rltok").mkdir()
    (tmp_path / "rltok" / "__init__.py").write_text("")
    assert first_cell(installed=False) == []
    assert sys.path[0] == str(tmp_path)


def clones(monkeypatch, commands, fails=False):
    """Stands in for the commands: a clone makes its folders, unless there is no network."""

    def run(command, **options):
        commands.append((command, options))
        if command[0] == "git" and not fails:
            for place in ("rltok", "notebooks/results"):
                Path("rltok_clone", place).mkdir(parents=True)
            Path("rltok_clone/rltok/__init__.py").write_text("")

    monkeypatch.setattr(subprocess, "run", run)


def test_alone_it_clones_once_works_in_the_clone_and_pins_the_torch_that_is_there(first_cell, monkeypatch, capsys, tmp_path):
    import torch

    commands = []
    clones(monkeypatch, commands)
    first_cell(installed=False, repository="https://example.org/rltok")
    (cloned, _), (pip, _) = commands
    assert cloned == ["git", "clone", "-q", "--depth", "1", "https://example.org/rltok", "rltok_clone"]
    assert pip[1:] == ["-m", "pip", "install", "-q", "..[bpe]", f"torch=={torch.__version__}"]
    assert Path.cwd() == tmp_path / "notebooks" / "rltok_clone" / "notebooks" and "stored results" not in capsys.readouterr().out
    first_cell(installed=True, repository="https://example.org/rltok")  # the cell once more
    monkeypatch.chdir(tmp_path / "notebooks")
    first_cell(installed=True, repository="https://example.org/rltok")  # and after the kernel was started anew
    assert len(commands) == 2 and Path.cwd().name == "notebooks" and Path.cwd().parent.name == "rltok_clone"


def test_without_network_an_installed_package_is_enough_and_what_is_missing_is_said(first_cell, monkeypatch, capsys):
    commands = []
    clones(monkeypatch, commands, fails=True)
    first_cell(installed=True, repository="https://example.org/rltok")
    assert len(commands) == 1 and "No folder of stored results here" in capsys.readouterr().out
    with pytest.raises(SystemExit, match="rltok is not installed.*network.*delete rltok_clone.*https://example.org/rltok"):
        first_cell(installed=False, repository="https://example.org/rltok")


@pytest.mark.parametrize("left", ["", ".git", "notebooks", "rltok"])
def test_what_an_interrupted_clone_left_is_named_and_not_used(first_cell, tmp_path, left):
    (tmp_path / "notebooks" / "rltok_clone" / left).mkdir(parents=True)
    with pytest.raises(SystemExit, match="delete rltok_clone"):
        first_cell(installed=False, repository="https://example.org/rltok")
    assert first_cell(installed=True, repository="https://example.org/rltok") == [] and Path.cwd() == tmp_path / "notebooks"


def test_without_git_it_says_so(first_cell, monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(SystemExit, match="see that git and the network work"):
        first_cell(installed=False, repository="https://example.org/rltok")


def test_a_folder_of_that_name_is_no_package(monkeypatch, tmp_path):
    (tmp_path / "rltok").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: types.SimpleNamespace(origin=None))
    with pytest.raises(SystemExit, match="pip install -e ."):
        exec(generated.first_cell(), {})


@pytest.mark.parametrize("place", ["..", "."])
def test_in_a_clone_none_is_made(first_cell, place):
    for folder in ("rltok", "notebooks"):
        Path(place, folder).mkdir(exist_ok=True)
    Path(place, "rltok", "__init__.py").write_text("")
    assert first_cell(installed=True, repository="https://example.org/rltok") == []


def test_without_repository_it_says_what_to_do(first_cell):
    with pytest.raises(SystemExit, match="pip install -e ."):
        first_cell(installed=False)


@pytest.mark.parametrize("major, precision", [(7, "float32"), (8, "bfloat16"), (9, "bfloat16")])
def test_a_card_without_bfloat16_trains_in_float32(first_cell, monkeypatch, capsys, major, precision):
    import torch

    card = type("Card", (), {"name": "A card", "total_memory": 16e9, "major": major})
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda index: card)
    first_cell(installed=True)
    assert f"A card, 16 GB; trains in {precision}" in capsys.readouterr().out


def test_the_repository_comes_from_pyproject(monkeypatch, tmp_path):
    (tmp_path / "pyproject.toml").write_text('[tool.rltok]\nrepository = "https://example.org/rltok"\n')
    monkeypatch.setattr(generated, "ROOT", tmp_path)
    assert 'REPOSITORY = "https://example.org/rltok"' in generated.first_cell()
