"""What `make` installs: torch without CUDA where there is no card and it is to be had, and never a large download unsaid."""

import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import set_up
from paths import ROOT

CUDA_SIZE = "about 3 GB to download, 5.5 GB on disk"


def wheel(folder: Path, version: str) -> None:
    """A wheel of that version of torch with nothing in it."""
    folder.mkdir(parents=True, exist_ok=True)
    info = f"torch-{version}.dist-info"
    with zipfile.ZipFile(folder / f"torch-{version}-py3-none-any.whl", "w") as file:
        file.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: torch\nVersion: {version}\n")
        file.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        file.writestr(f"{info}/RECORD", "")


@pytest.fixture
def bare(tmp_path, monkeypatch):
    """An environment without torch on a Linux machine without a card, whose pip knows no index; returns what gets installed."""
    for name in ("PIP_FIND_LINKS", "PIP_EXTRA_INDEX_URL", "PIP_INDEX_URL", "PIP_CONSTRAINT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_TARGET", str(tmp_path / "site"))
    monkeypatch.setattr(set_up, "has_torch", lambda: False)
    monkeypatch.setattr(set_up, "has_card", lambda: False)
    monkeypatch.setattr(sys, "platform", "linux")
    return lambda: [path.name for path in (tmp_path / "site").glob("torch-*")]


@pytest.fixture
def index(tmp_path):
    """An index, as a folder, with two builds without CUDA and one newer that is not marked so."""
    for version in ("2.9.0+cpu", "2.10.1+cpu", "2.99.0"):
        wheel(tmp_path / "index" / "torch", version)
    links = [f'<a href="{path.name}">{path.name}</a>' for path in (tmp_path / "index" / "torch").glob("*.whl")]
    (tmp_path / "index" / "torch" / "index.html").write_text("<!DOCTYPE html>" + "".join(links))
    return (tmp_path / "index").as_uri()


def test_without_a_card_the_newest_build_without_cuda_is_installed_and_its_size_said_before(bare, index, capfd):
    set_up.install_torch(index)
    assert bare() == ["torch-2.10.1+cpu.dist-info"]
    assert "torch 2.10.1+cpu, without CUDA, is installed: about 200 MB to download" in capfd.readouterr().out


def test_the_lowest_version_is_taken_where_that_is_asked_for(bare, index):
    set_up.install_torch(index, "2.9")
    assert bare() == ["torch-2.9.0+cpu.dist-info"]


def test_a_wheel_that_lies_where_pip_looks_will_do_when_the_index_does_not_answer(bare, tmp_path, monkeypatch):
    wheel(tmp_path / "wheels", "2.9.0+cpu")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "wheels"))
    set_up.install_torch("http://127.0.0.1:9/nothing")
    assert bare() == ["torch-2.9.0+cpu.dist-info"]


@pytest.mark.parametrize("version", ["", "2.8"])
def test_when_there_is_no_such_build_the_large_download_and_the_remedy_are_said(bare, tmp_path, index, capsys, version):
    set_up.install_torch(index if version else "http://127.0.0.1:9/nothing", version)
    assert bare() == []  # pip takes it from its own index together with rltok
    output = capsys.readouterr().out
    assert CUDA_SIZE in output and "TORCH_INDEX=ADDRESS" in output


def test_an_index_that_hangs_is_given_up(bare, monkeypatch):
    def hang(command, timeout, **how):
        raise subprocess.TimeoutExpired(command, timeout)

    monkeypatch.setattr(subprocess, "run", hang)
    assert set_up.cpu_builds("http://127.0.0.1:9/nothing") == []


def test_with_a_card_cuda_is_wanted_and_its_size_said(bare, index, monkeypatch, capsys):
    monkeypatch.setattr(set_up, "has_card", lambda: True)
    set_up.install_torch(index)
    assert bare() == [] and CUDA_SIZE in capsys.readouterr().out


@pytest.mark.parametrize("reason", ["torch is here", "no index is named", "another system"])
def test_otherwise_nothing_is_asked_or_said(bare, index, monkeypatch, capsys, reason):
    if reason == "torch is here":
        monkeypatch.setattr(set_up, "has_torch", lambda: True)
    if reason == "another system":
        monkeypatch.setattr(sys, "platform", "darwin")
    set_up.install_torch("" if reason == "no index is named" else index)
    assert bare() == [] and capsys.readouterr().out == ""


@pytest.mark.parametrize(("answer", "card"), [("GPU 0: NVIDIA H100", True), ("No devices were found", False), (None, False)])
def test_a_driver_without_a_card_is_no_card(tmp_path, monkeypatch, answer, card):
    if answer:
        (tmp_path / "nvidia-smi").write_text(f"#!/bin/sh\necho '{answer}'\n")
        (tmp_path / "nvidia-smi").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin" if answer else str(tmp_path))
    assert set_up.has_card() is card


@pytest.mark.parametrize(("installed", "enough"), [("2.13.0+cpu", True), ("2.8.0", True), ("2.7.1+cu126", False)])
def test_a_torch_that_is_too_old_is_replaced(monkeypatch, installed, enough):
    monkeypatch.setattr(set_up, "lowest", lambda: {"torch": "2.8"})
    monkeypatch.setattr("importlib.metadata.version", lambda name: installed)
    assert set_up.has_torch() is enough


def test_lowest_versions_are_those_of_what_the_package_needs_and_tools_stay_pinned():
    bounds = set_up.lowest("test")
    assert bounds.keys() >= {"torch", "numpy", "datasets", "tokenizers", "triton"}  # of the extras of the extra, too
    assert not bounds.keys() & {"pytest", "ruff", "jupytext", "nbval"}
    assert all(re.fullmatch(r"[\d.]+", version) for version in bounds.values())


@pytest.fixture
def make(tmp_path):
    """make in a folder whose environment is there, with a Python that shows its arguments; returns these, or what make says."""
    folder = tmp_path / "a folder"
    for name in (".venv/bin", ".venv/installed", "scripts"):
        (folder / name).mkdir(parents=True)
    for name in ("pyproject.toml", "constraints.txt", "scripts/set_up.py", ".venv/installed/core"):
        (folder / name).touch()
        os.utime(folder / name, (1e9, 1e9))
    (folder / ".venv/bin/python").write_text("#!/bin/sh\nprintf '%s\\0' \"$@\" > seen\n")
    (folder / ".venv/bin/python").chmod(0o755)
    (folder / "Makefile").write_text((ROOT / "Makefile").read_text())

    def run(*words):
        done = subprocess.run(["make", *words], cwd=folder, capture_output=True, text=True)
        return done.stderr if done.returncode else (folder / "seen").read_text().split("\0")[:-1]

    return run


@pytest.mark.parametrize(
    "text",
    ["It's here", 'she said "no"', "it costs $5, or $$6", "$(shell touch seen)", "$(unfinished", "${HOME}", "a\\b\\", "# 1", ",)",
     "two\nlines", "\u65e5\u672c \U0001f388", "-x", "--smoke", "`date` ; | & > < * ? %s", "a=b", "!"],
)  # fmt: skip
def test_a_text_reaches_the_demo_as_it_was_typed(make, text):
    assert make("demo", f"TEXT={text}") == ["-m", "rltok", "demo", f"--text={text}"]


def test_the_demo_needs_no_text_and_one_without_quotes_is_refused_in_a_line(make):
    assert make("demo") == make("demo", "TEXT=") == ["-m", "rltok", "demo"]
    assert make("demo", "DEMO=--smoke", "TEXT=x") == ["-m", "rltok", "demo", "--smoke", "--text=x"]
    told = make("demo", "TEXT=two", "words")
    assert 'a text with spaces goes into quotes: make demo TEXT="two words"' in told and told.count("\n") == 1


def test_make_names_the_index_and_another_one_can_be_named():
    def recipe(*arguments):
        command = ["make", "-n", "VENV=nowhere", "demo", *arguments]
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout

    assert 'set_up.py core --torch-index "https://download.pytorch.org/whl/cpu"' in recipe()
    assert 'set_up.py core --torch-index ""' in recipe("TORCH_INDEX=")
