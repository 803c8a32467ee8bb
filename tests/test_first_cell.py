"""The common first cell: works in a clone and after `pip install`, says what to do otherwise, and keeps the torch there is."""

import importlib.util
import subprocess
import sys

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

    def run(installed, repository=""):
        def find_spec(name):
            return find(name) if name != "rltok" or installed or str(tmp_path) in sys.path else None

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


def test_elsewhere_it_installs_from_the_repository_and_pins_the_torch_that_is_there(first_cell):
    import torch

    ((command, options),) = first_cell(installed=False, repository="https://example.org/rltok")
    assert command[1:4] == ["-m", "pip", "install"] and options["check"]
    assert command[-2:] == ["rltok @ git+https://example.org/rltok", f"torch=={torch.__version__}"]
    assert not {"-U", "--upgrade", "--force-reinstall"} & set(command)


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
    assert capsys.readouterr().out.startswith(f"A card, 16 GB; trains in {precision}")


def test_the_repository_comes_from_pyproject(monkeypatch, tmp_path):
    (tmp_path / "pyproject.toml").write_text('[tool.rltok]\nrepository = "https://example.org/rltok"\n')
    monkeypatch.setattr(generated, "ROOT", tmp_path)
    assert 'REPOSITORY = "https://example.org/rltok"' in generated.first_cell()
