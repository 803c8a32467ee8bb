"""Chapters 06 and 06b: their cells on odd folders of records, commands as they are typed, and what 06 does on Colab."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import types
import warnings
from pathlib import Path

import pytest
import run_sweep  # noqa: E402
import score_test  # noqa: E402
import torch
from chapters import code
from notebooks_in_a_folder import read
from paths import ROOT
from sweeps import record, write

import rltok
from rltok.cli.options import parse
from rltok.config import from_dict
from rltok.data import corpus
from rltok.errors import RltokError
from rltok.evidence.export import failure_of
from rltok.presets import preset
from rltok.system.digest import with_digest

CELLS = read(ROOT / "notebooks" / "06_run_it").cells
CASE = read(ROOT / "notebooks" / "06b_what_the_large_run_did").cells
LARGE = {"matrix_parameters": 146_875_392}


@pytest.fixture(scope="module")
def planned():
    """The namespace of chapter 06 after the cells that its records and its run on Colab are about."""
    space = {"torch": torch}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT / "notebooks")
        for start in ("PLAN = ", "config = planned"):
            exec(code(CELLS, start), space)
    return space


def large(name, **more):
    """A finished run of the 147M sweep."""
    return with_digest(record(name, sweep="147m", **more) | LARGE)


def failed(name):
    """A run of it that failed."""
    like = large(name)
    named = {key: like[key] for key in ("commit", "device", "versions", "data", "full")}
    return failure_of(from_dict(like["config"]), sweep="147m", name=name, why="out of memory, as tried", **named)


FOLDERS = {
    "nothing": [],
    "even alone": [large("even")],
    "ours failed": [large("even"), failed("ours_gamma0.9")],
    "one more contender, another seed": [large("ours_gamma0.9"), large("random_k"), large("ours", seed=3)],
    "whole plan": [large("ours_gamma0.9"), *(large(name, seed=seed) for name in ("even", "bpe") for seed in range(3)),
                   *(large("policy_x20", seed=seed, rule="learned") for seed in range(3)),
                   large("hnet_port", rule="hnet"), large("dynamic_pooling_port", rule="dynamic_pooling")],
}  # fmt: skip
BEST = [record(name, sweep="32m_best", rule="learned") for name in ("policy", "policy_x20")] + [record("even", sweep="32m_best")]


@pytest.mark.parametrize("kind", FOLDERS)
def test_the_table_of_records_is_made_of_whatever_is_stored(planned, tmp_path, kind):
    write(tmp_path / "sweeps", *FOLDERS[kind])
    shown = []
    exec(code(CELLS, "sweep = "), planned | {"results": tmp_path, "Markdown": shown.append})
    (words,) = shown
    assert ("No run of the plan has a finished record" in words) == (kind == "nothing")
    assert ("out of memory, as tried" in words) == (kind == "ours failed")
    assert ("| not in the plan |" in words) == (kind == "one more contender, another seed")
    assert words.endswith("without a finished record: none.") == (kind == "whole plan")


@pytest.mark.parametrize("kind", list(FOLDERS)[1:])
def test_every_cell_of_the_case_runs_on_whatever_is_stored(tmp_path, monkeypatch, kind):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "results" / "sweeps", *FOLDERS[kind])
    write(
        tmp_path / "results" / "best",
        *BEST,
        *([record("policy", sweep="32m_paper", rule="learned")] if kind == "whole plan" else []),
    )
    shown = []
    space = {"show": shown.append}
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a notebook may write nothing on stderr
        for cell in CASE:
            if cell.cell_type == "code" and "first-cell" not in cell.metadata.get("tags", []):
                exec(re.sub(r"^Markdown\(", "show(", cell.source, flags=re.MULTILINE), space)
    finding, travel, *_ = shown
    later, paper = (kind == "whole plan"), kind not in ("even alone", "ours failed")
    assert ("With a higher learning rate of its own" in finding) == later == ("whole budget for that size" in finding)
    assert ("With one learning rate for all weights" in finding) == paper
    counts = travel.count("paper's policy"), travel.count("fast policy")
    assert counts == (2 + paper + later, 1 + later)  # with the paper's own row


def test_without_a_large_run_the_case_says_what_to_make(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "results" / "best", *BEST)
    with pytest.raises(RltokError, match="holds no finished run of 147m, which this chapter is about. Take the folder"):
        exec(code(CASE, "case = "), {})


# Where the plan is


def test_without_a_clone_the_chapter_says_to_make_one(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit, match="Clone the repository of rltok and open the notebook in it; or write the repository"):
        exec(code(CELLS, "PLAN = "), {"torch": torch})


# What is typed


def blocks():
    """Commands of the prose, a block each."""
    prose = "\n".join(cell.source for cell in CELLS if cell.cell_type == "markdown")
    return re.findall(r"^```\n(.*?)^```", prose, re.M | re.S)


def typed():
    """Every command of the chapter, of its prose and its outputs, as words."""
    printed = [out.text for cell in CELLS if cell.cell_type == "code" for out in cell.outputs if out.output_type == "stream"]
    lines = "\n".join([*blocks(), *printed]).replace("\\\n", " ").splitlines()
    return [
        shlex.split(line.split(" >> ")[0].removeprefix("nohup python "))
        for line in lines
        if "--" in line and "rltok" in line or "scripts/" in line
    ]


def test_the_block_that_starts_the_sweep_goes_on_with_it_when_it_is_typed_again(tmp_path):
    (block,) = (one for one in blocks() if "run_sweep.py" in one)
    (stop,) = (line for one in blocks() for line in one.splitlines() if line.startswith("kill "))
    stub = tmp_path / "bin" / "python"
    stub.parent.mkdir()
    waits = "import json, os, sys, time\nprint(json.dumps([os.getpid(), sys.argv[1:]]), flush=True)\ntime.sleep(60)\n"
    stub.write_text(f"#!{sys.executable}\n{waits}")
    stub.chmod(0o755)
    place = {**os.environ, "PATH": f"{stub.parent}:{os.environ['PATH']}"}
    wait = 'for i in $(seq 100); do [ "$(wc -l < runs/147m.log)" = {} ] && break; sleep 0.1; done\n'
    for count in (1, 2):
        subprocess.run(["bash", "-c", block + wait.format(count) + stop], cwd=tmp_path, env=place, check=True, timeout=60)
        lines = [json.loads(line) for line in (tmp_path / "runs/147m.log").read_text().splitlines()]
        assert len(lines) == count and int((tmp_path / "runs/147m.pid").read_text()) == lines[-1][0]
    assert lines[0][1] == lines[1][1] and "corpora/english-train-*.parquet" in lines[0][1]  # the shell left the pattern whole
    for number, _ in lines:
        with pytest.raises(ProcessLookupError):
            for _ in range(50):
                os.kill(number, 0)
                subprocess.run(["sleep", "0.1"], check=True)


class Parsed(Exception):
    """Options were accepted."""


def test_every_command_is_one_that_is_there(monkeypatch):
    def enough(*_):
        raise Parsed

    kinds = set()
    for words in typed():
        kinds.add(words[0] if words[0] != "rltok" else words[1])
        if words[0] == "rltok":
            parse(words[1:])
            continue
        script = {"run_sweep.py": run_sweep, "score_test.py": score_test}[Path(next(w for w in words if w.endswith(".py"))).name]
        monkeypatch.setattr(script, "read_plan", enough)
        start = next(number for number, word in enumerate(words) if word.endswith(".py"))
        monkeypatch.setattr(sys, "argv", words[start:])
        with pytest.raises(Parsed):
            script.main()
    assert len(typed()) >= 6 and {"train", "prepare"} < kinds


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_no_command_writes_where_git_or_another_run_would_mind(tmp_path):
    values = {}
    for words in typed():
        for option, value in zip(words, words[1:], strict=False):
            if option in ("--data", "--validation", "--tasks", "--out", "--runs", "--records"):
                values.setdefault(option, set()).add(value)
    everything = sorted(set().union(*values.values()))
    shutil.copy(ROOT / ".gitignore", tmp_path)  # the checkout itself may be no repository
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    ignored = subprocess.run(["git", "-C", tmp_path, "check-ignore", *everything], capture_output=True, text=True).stdout
    assert sorted(ignored.splitlines()) == everything and len(everything) >= 8
    outs = [words[words.index("--out") + 1] for words in typed() if "--out" in words]
    assert len(set(outs)) == len(outs) and not set(outs) & values["--runs"]


@pytest.mark.parametrize("file", ["book/using_rltok.md", "rltok/cli/prepare_options.py"])
def test_other_places_prepare_as_much_text_for_a_run_of_the_paper(file):
    (output,) = re.findall(r"fineweb --out corpora/fineweb --max-bytes (\d+)", (ROOT / file).read_text())
    (same,) = (words for words in typed() if words[:2] == ["rltok", "prepare"] and "documents" in words)
    assert output == same[same.index("--max-bytes") + 1]


# On Colab


CARDS = {
    "T4": (15.8e9, 7, "small", 16),
    "L4": (23.7e9, 8, "147m", 8),
    "A100 40GB": (42.4e9, 8, "147m", 16),
    "H100": (85e9, 9, "147m", 32),
}


@pytest.mark.parametrize("card", CARDS)
def test_on_colab_the_model_is_one_that_fits_and_its_text_is_enough_for_one_pass(planned, monkeypatch, card):
    memory, major, name, rows = CARDS[card]
    drive = types.ModuleType("google.colab.drive")
    drive.mount = lambda place: None
    for name_, module in (("google", types.ModuleType("google")), ("google.colab", types.ModuleType("google.colab"))):
        monkeypatch.setitem(sys.modules, name_, module)
    sys.modules["google.colab"].drive = drive
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: types.SimpleNamespace(total_memory=memory, major=major))
    calls = []
    monkeypatch.setattr(rltok, "train", lambda config, text, folder, **more: calls.append((config, text, more)))
    space = planned | {"load_corpus": lambda spec, data, max_bytes: max_bytes}
    exec(code(CELLS, "colab_every = "), space)
    exec(code(CELLS, "start_on_colab = ").replace("= False  # set it", "= True  # set it"), space)
    ((config, size, more),) = calls
    assert config.model == preset(name).model and more["resume"] is True
    assert config.train.micro_batch == (rows if name == "147m" else preset("small").train.micro_batch)
    assert config.num_updates / config.train.checkpoint_every > 4
    left = size // 4096 - corpus.num_held_out(size // 4096, config.data.held_out_fraction)  # rows for training
    assert name == "small" or left >= config.num_updates * config.train.sequences_per_update
