"""The page of commands: its Python runs, and rltok takes every line of its commands."""

import re
import shlex

import pytest
from paths import ROOT
from runs import small_config
from torch.distributed.run import get_args_parser

import rltok
from rltok.cli.options import parse

PAGE = (ROOT / "book/using_rltok.md").read_text(encoding="utf-8")
CODE = re.findall(r"^```python\n(.*?)^```$", PAGE, re.M | re.S)
SHELL = "\n".join(re.findall(r"^    (?! )(?!#)(?:.*\\\n)*.*$", PAGE, re.M)).replace("\\\n", " ")
COMMANDS = [line.strip() for line in SHELL.splitlines() if line.strip().startswith(".venv/bin/rltok ")]
JOBS = [line.strip() for line in SHELL.splitlines() if line.strip().startswith(".venv/bin/torchrun ")]


def test_code_and_commands_are_found():
    assert JOBS and len(CODE) >= 3 and len(COMMANDS) >= PAGE.count("\n    .venv/bin/rltok ") > 20


@pytest.mark.usefixtures("shapes_unchecked", "short_snapshots")
@pytest.mark.parametrize("code", CODE, ids=lambda code: re.findall(r"rltok\.\w+\(|exact\.\w+\(", code)[0])
def test_code_of_the_page_runs(code, tmp_path, monkeypatch, capsys):
    small = small_config()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(rltok, "preset", lambda name: small)
    exec(compile(code, "using_rltok.md", "exec"), {})
    assert ("print" in code) == bool(capsys.readouterr().out)


@pytest.mark.parametrize("command", COMMANDS)
def test_rltok_takes_the_commands_of_the_page(command):
    words = shlex.split(command, comments=True)[1:]
    assert parse(words).command == words[0]


@pytest.mark.parametrize("command", JOBS)
def test_torchrun_takes_its_commands_and_says_where_machines_meet(command):
    """With a dynamic rendezvous any machine may get number 0, which writes the run's folder: the page must say so."""
    job = get_args_parser().parse_args(shlex.split(command.removesuffix(" ..."))[1:])
    assert job.module and job.training_script == "rltok" and parse(job.training_script_args).command == "train"
    static = job.rdzv_backend == "static" and "--node-rank " in command and job.master_addr == "HOST"
    dynamic = job.rdzv_backend == "c10d" and job.rdzv_endpoint.startswith("HOST:") and job.rdzv_id != "none"
    assert job.standalone or static or dynamic
    assert not dynamic or re.search(r"`--rdzv-backend c10d` any machine may get process 0.*share the disk", PAGE, re.S)
