"""rltok.kernels.backends: who runs where, why, and what is said when the kernels that were asked for cannot run."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from runs import SETTINGS, as_options, json_lines, small_config, write_text

import rltok
from rltok.cli.main import main
from rltok.errors import RltokError
from rltok.kernels import backends

pytestmark = pytest.mark.usefixtures("shapes_unchecked", "short_snapshots")
CPU, CUDA = torch.device("cpu"), torch.device("cuda", 0)
OLD = "Tesla T4 has compute capability 7.5, and bf16 needs 8.0"


@pytest.fixture(autouse=True)
def nothing_asked(monkeypatch):
    monkeypatch.delenv("RLTOK_BACKEND", raising=False)
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)


@pytest.fixture
def card(monkeypatch):
    """Pretend that Triton is installed and say what is wrong with the card."""

    def put(problem=None):
        monkeypatch.setattr(backends, "_installed", lambda: True)
        monkeypatch.setattr(backends, "_card_problem", lambda index: problem)

    return put


def test_a_card_with_bf16_takes_the_kernels(card):
    card()
    assert backends.chosen(CUDA, torch.bfloat16) == ("triton", "bf16 on a CUDA card")


def test_without_bf16_a_card_or_triton_everything_is_plain_and_the_reason_is_told(card, monkeypatch):
    card()
    assert backends.chosen(CUDA, torch.float32) == ("plain", "forward passes are not in bf16")
    assert backends.chosen(CPU, torch.bfloat16) == ("plain", "device cpu is no CUDA card")
    card(OLD)
    assert backends.chosen(CUDA, torch.float32) == ("plain", OLD)
    monkeypatch.setattr(torch, "__version__", "2.7.1+cu126")
    assert backends.chosen(CUDA, torch.bfloat16) == ("plain", "torch 2.7.1+cu126 is older than 2.8")
    monkeypatch.setattr(backends, "_installed", lambda: False)
    assert backends.chosen(CUDA, torch.bfloat16) == ("plain", "Triton is not installed")


def test_plain_can_be_asked_for_on_any_card(card):
    card()
    with backends.use("plain"):
        assert backends.chosen(CUDA, torch.bfloat16) == ("plain", "asked for")
    assert backends.chosen(CUDA, torch.bfloat16)[0] == "triton"


@pytest.mark.parametrize(("head_dim", "fits"), [(8, False), (16, True), (24, False), (64, True), (256, True), (512, False)])
def test_heads_of_a_width_that_no_tile_has_are_plain_and_refused_where_kernels_were_asked_for(head_dim, fits, card):
    card(None)
    name, why = backends.chosen(CUDA, torch.bfloat16, head_dim)
    assert (name == "triton") == fits
    if not fits:
        assert why == f"heads of attention are {head_dim} wide, and kernels take 16, 32, 64, 128 or 256 (see model.num_heads)"
        with backends.use("triton"), pytest.raises(RltokError, match=f"heads of attention are {head_dim} wide"):
            backends.chosen(CUDA, torch.bfloat16, head_dim)


def test_a_card_that_is_not_there_is_no_crash():
    if not torch.cuda.is_available():
        backends._card_problem.cache_clear()
        assert backends._card_problem(None) == "there is no CUDA card"


@pytest.mark.parametrize("problem", [OLD, None])
def test_kernels_that_cannot_run_are_refused_with_the_reason_and_the_way_out(problem, card):
    card(problem)
    with backends.use("triton"), pytest.raises(RltokError) as error:
        backends.chosen(CUDA, torch.float32)
    why = problem or "forward passes are not in bf16"
    assert str(error.value) == f"backend 'triton' cannot run here: {why}. Take 'auto' or 'plain': they compute the same function."


def test_the_innermost_use_counts_and_ends_with_its_block_whatever_happens(monkeypatch):
    monkeypatch.setenv("RLTOK_BACKEND", "plain")
    with pytest.raises(KeyError), backends.use("auto"), backends.use("triton"):
        assert backends.requested() == "triton"
        raise KeyError
    assert backends.requested() == "plain"


def test_an_unknown_name_is_named_with_its_source(monkeypatch):
    with pytest.raises(RltokError, match="backend must be one of auto, plain, triton; got 'cuda'"), backends.use("cuda"):
        pass
    monkeypatch.setenv("RLTOK_BACKEND", "fast")
    with pytest.raises(RltokError, match="RLTOK_BACKEND must be one of auto, plain, triton; got 'fast'"):
        backends.requested()


def commands(tmp_path, finished):
    """Every command that runs a model, small."""
    text = write_text(tmp_path)
    small = [*as_options(SETTINGS), "--data", text]
    return {
        "train": ["train", "--preset", "tiny", *small, "--out", str(tmp_path / "run")],
        "compare": ["compare", "--rules", "even", "--preset", "tiny", *small, "--out", str(tmp_path / "compared")],
        "evaluate": ["evaluate", str(finished), "--data", text],
        "show": ["show", str(finished), "gulls"],
        "variance": ["variance", *small],
        "variance of a run": ["variance", str(finished), "--data", text],
        "demo": ["demo", "--smoke", "--out", str(tmp_path / "demo")],
        "bench": ["bench", "--preset", "tiny", *small, "--updates", "1"],
        "doctor": ["doctor"],
    }


COMMANDS = ("train", "compare", "evaluate", "show", "variance", "variance of a run", "demo", "bench", "doctor")
PLAIN_ALWAYS = ("evaluate", "show", "variance of a run")


@pytest.mark.parametrize("name", [name for name in COMMANDS if name != "doctor"])
def test_every_command_refuses_kernels_it_cannot_have_in_one_line(name, tmp_path, finished, capsys):
    assert main([*commands(tmp_path, finished)[name], "--device", "cpu", "--backend", "triton"]) == 2
    output = capsys.readouterr()
    assert output.out == ""
    (line,) = output.err.splitlines()
    if name in PLAIN_ALWAYS:
        assert line.endswith("computes with plain fp32 weights, for which there are no kernels. Leave --backend out.")
    else:
        assert line.startswith("rltok: backend 'triton' cannot run here: device cpu is no CUDA card. Take 'auto' or 'plain'")
    assert not (tmp_path / "run").exists() and not (tmp_path / "compared").exists() and not (tmp_path / "demo").exists()


@pytest.mark.parametrize("name", ["evaluate", "show"])
def test_a_variable_set_for_training_does_not_keep_from_looking_at_a_run(name, tmp_path, finished, capsys, monkeypatch):
    assert main(commands(tmp_path, finished)[name]) == 0
    output = capsys.readouterr().out
    monkeypatch.setenv("RLTOK_BACKEND", "triton")
    assert main(commands(tmp_path, finished)[name]) == 0 and capsys.readouterr().out == output


def test_doctor_reports_everything_where_the_kernels_that_are_asked_for_cannot_run(capsys, monkeypatch):
    monkeypatch.setenv("RLTOK_BACKEND", "triton")
    assert main(["doctor", "--device", "cpu"]) == 0
    output = capsys.readouterr().out
    assert "backend   none: backend 'triton' cannot run here: device cpu is no CUDA card" in output and "versions" in output


@pytest.mark.parametrize("name", COMMANDS)
def test_a_wrong_environment_variable_is_one_line(name, tmp_path, finished, capsys, monkeypatch):
    monkeypatch.setenv("RLTOK_BACKEND", "fast")
    assert main(commands(tmp_path, finished)[name]) == 2
    assert capsys.readouterr().err == "rltok: RLTOK_BACKEND must be one of auto, plain, triton; got 'fast'.\n"


def test_an_option_that_is_no_backend_is_refused(capsys):
    assert main(["doctor", "--backend", "fast"]) == 2
    assert capsys.readouterr().err == "rltok: backend must be one of auto, plain, triton; got 'fast'.\n"


def test_the_option_wins_over_the_environment_and_ends_with_the_command(tmp_path, finished, capsys, monkeypatch):
    monkeypatch.setenv("RLTOK_BACKEND", "triton")
    assert main([*commands(tmp_path, finished)["show"], "--device", "cpu", "--backend", "plain"]) == 0
    assert backends.requested() == "triton"


def test_training_says_once_which_backend_runs_and_why_and_records_it(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(backends, "_installed", lambda: False)
    record = rltok.train(small_config(), write_text(tmp_path), tmp_path / "run", device="cpu", progress=True)
    output = [line for line in capsys.readouterr().err.splitlines() if "backend" in line]
    assert output == ["backend plain: Triton is not installed"]
    assert record.backend == "plain"


def test_forced_plain_trains_to_the_same_digits(tmp_path, finished):
    with backends.use("plain"):
        rltok.train(small_config(), write_text(tmp_path), tmp_path / "run", device="cpu")
    assert json_lines(tmp_path / "run/metrics.jsonl") == json_lines(finished / "metrics.jsonl")


def test_worker_processes_inherit_the_choice(tmp_path):
    script = tmp_path / "workers.py"
    script.write_text(
        "from concurrent.futures import ProcessPoolExecutor\n"
        "from rltok.evidence import runner\nfrom rltok.kernels import backends\n"
        "class Pool(ProcessPoolExecutor):\n"
        "    def submit(self, work, job):\n"
        "        return super().submit(backends.requested)\n"
        "runner.ProcessPoolExecutor = Pool\n"
        "if __name__ == '__main__':\n"
        "    with backends.use('plain'), runner.workers(2, None) as run:\n"
        "        print(*run([1]))\n",
    )
    root = Path(rltok.__file__).parents[1]
    done = subprocess.run([sys.executable, script], cwd=root, env={"PYTHONPATH": str(root)}, capture_output=True, text=True)
    assert done.stdout.split() == ["plain"], done.stderr


def test_doctor_reports_the_backend_that_is_asked_for(capsys):
    assert main(["doctor", "--device", "cpu", "--backend", "plain", "--json"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert (content["backend"], content["why_backend"]) == ("plain", "asked for")
