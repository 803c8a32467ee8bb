"""rltok.runs.together: one run in several processes, from the command line; they write, say and resume as one."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from types import SimpleNamespace

import pytest
import torch
from paths import ROOT
from runs import SETTINGS, UPDATES, as_options, json_lines, write_text

from rltok.cli import commands
from rltok.cli.main import main
from rltok.errors import RltokError
from rltok.runs.checkpoint import checkpoints
from rltok.runs.sessions import sessions_of
from rltok.runs.together import own_device
from rltok.system import processes
from rltok.system.place import UNSET, Place, place

SIX = SETTINGS | {"train.sequences_per_update": 6, "train.training_bytes": UPDATES * 6 * 64}
GO_ON = "Go on with the same command and --resume."


def train(folder, *more, settings=SIX):
    words = ["train", "--preset", "tiny", *as_options(settings), "--data", write_text(folder), "--out", folder / "run"]
    return {"arguments": [*words, "--device", "cpu", *more]}


def values_of(folder):
    """Numbers of all logged lines."""
    return [[value for value in line.values() if isinstance(value, float)] for line in json_lines(folder / "run/metrics.jsonl")]


def last_lines(outputs):
    return [output.splitlines()[-1] if output else "" for output in outputs]


@pytest.fixture
def six(ended_together, tmp_path):
    """Folder of a run of one process, never interrupted."""
    folder = tmp_path / "six"
    folder.mkdir()
    assert ended_together(train(folder))[0] == [0]
    return folder


def test_a_run_of_two_then_one_then_three_processes_is_that_of_one(job, six, tmp_path):
    for count, update, line in ((2, 3, "3"), (1, 2, "5"), (3, 99, "")):
        stop = {"signals": [["SIGTERM", "train_step", update]]} if line else {}
        codes, outputs = job(*[train(tmp_path, *["--resume"] * (count != 2)) | stop] * count)
        assert codes == [143 if line else 0] * count
        if line:
            assert last_lines(outputs)[0] == f"rltok: ended by SIGTERM; the checkpoint of update {line} is saved. {GO_ON}"
        assert not any(outputs[1:])  # one process speaks for all
    for made, expected in zip(values_of(tmp_path), values_of(six), strict=True):
        assert made == pytest.approx(expected, rel=1e-4, abs=1e-6)
    devices = [session["device"] for session in sessions_of(tmp_path / "run")]
    assert devices == ["2 x cpu x86_64, 1 threads", "cpu x86_64, 1 threads", "3 x cpu x86_64, 1 threads"]
    record = json.loads((tmp_path / "run/record.json").read_text())
    assert record["device"] == devices[-1] and record["bytes"] == json.loads((six / "run/record.json").read_text())["bytes"]


def test_two_processes_that_share_micro_batches_draw_the_rates_of_one(job, ended_together, tmp_path):
    ranged = SIX | {"model.rule.lowest_rate": 0.1, "model.rule.highest_rate": 0.5}
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    assert ended_together(train(tmp_path / "one", settings=ranged))[0] == [0]
    assert job(*[train(tmp_path / "two", settings=ranged)] * 2)[0] == [0, 0]
    for made, expected in zip(values_of(tmp_path / "two"), values_of(tmp_path / "one"), strict=True):
        assert made == pytest.approx(expected, rel=1e-4, abs=1e-6)


def test_a_signal_to_one_process_stops_all_after_the_same_update(job, tmp_path):
    codes, outputs = job(train(tmp_path), train(tmp_path) | {"signals": [["SIGTERM", "train_step", 4]]})
    assert codes == [143, 143] and last_lines(outputs) == [
        f"rltok: ended by SIGTERM; the checkpoint of update 4 is saved. {GO_ON}",
        "",
    ]
    assert [path.name for path in checkpoints(tmp_path / "run")][-1] == "step-00000004"


@pytest.mark.parametrize("killed", [0, 1, 2])
def test_where_one_process_is_killed_all_end_and_one_of_them_says_so(killed, job, tmp_path):
    orders = [train(tmp_path) for _ in range(3)]
    orders[killed]["signals"] = [["SIGKILL", "train_step", 5]]
    codes, outputs = job(*orders)
    assert [code == -9 for code in codes] == [number == killed for number in range(3)] and 0 not in codes
    said = [line for output in outputs for line in output.splitlines() if line.startswith("rltok: ")]
    assert said == [f"rltok: another one of the 3 processes ended. {GO_ON}"]


@pytest.mark.parametrize(
    ("point", "signals", "code", "line"),
    [
        ("meet", [["SIGTERM soon", "meet", 1]], 143, "ended by SIGTERM"),  # as torchrun sends it once another one has ended
        ("sharers", [], 1, "another one of the 2 processes ended"),
    ],
)
def test_where_one_is_killed_while_they_connect_the_other_ends_with_a_word(point, signals, code, line, job, tmp_path):
    codes, outputs = job(train(tmp_path) | {"signals": signals}, train(tmp_path) | {"signals": [["SIGKILL", point, 1]]})
    assert codes == [code, -9] and said(outputs) == [f"rltok: {line}. {GO_ON}"]


def test_what_an_earlier_attempt_of_torchrun_noted_is_not_heard_in_a_later_one(job, tmp_path):
    """With --max-restarts one store serves all attempts."""
    failing = [train(tmp_path) | {"signals": [["error", "train_step", 5]]}, train(tmp_path)]
    more = {"environment": {"TORCHELASTIC_RESTART_COUNT": "1"}, "signals": [["SIGTERM", "train_step", 2]]}
    assert 0 not in job(*failing)[0]
    codes, outputs = job(*[train(tmp_path, "--resume") | more] * 2, same_store=True)
    assert codes == [143, 143]
    assert last_lines(outputs) == [f"rltok: ended by SIGTERM; the checkpoint of update 5 is saved. {GO_ON}", ""]


def said(outputs):
    return [line for output in outputs for line in output.splitlines() if line.startswith("rltok: ")]


def test_a_process_that_fails_says_why_and_ends_all(job, tmp_path):
    codes, outputs = job(train(tmp_path), train(tmp_path) | {"signals": [["error", "train_step", 5]]})
    assert codes == [1, 2] and said(outputs) == ["rltok: this process fails."]


def test_a_fault_of_ours_in_one_process_is_told_in_full_and_ends_it_at_once(monkeypatch, capsys):
    """The end of an interpreter waits for operations on a card, which wait for the other processes."""

    class Ended(BaseException):
        pass

    def end(code):
        raise Ended(code)

    def faulty(_):
        raise TypeError("a fault")

    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "1")
    monkeypatch.setattr(os, "_exit", end)
    monkeypatch.setattr(commands, "models", faulty)
    with pytest.raises(Ended, match="1"):
        main(["models"])
    assert capsys.readouterr().err.splitlines()[-1] == "TypeError: a fault"


def test_a_failure_that_all_share_is_said_once(job, tmp_path):
    codes, outputs = job(*[train(tmp_path) | {"signals": [["error", "train_step", 5]]}] * 2)
    assert set(codes) <= {1, 2} and said(outputs) == ["rltok: this process fails."]


def test_after_a_control_c_which_comes_twice_from_torchrun_the_first_process_alone_speaks(job, tmp_path):
    codes, outputs = job(*[train(tmp_path) | {"signals": [["SIGINT", "train_step", 5], ["SIGINT", "close", 1]]}] * 2)
    assert codes[0] == 130 and codes[1]
    assert said(outputs) == [f"rltok: interrupted; the newest checkpoint is step-00000003. {GO_ON}"] and not outputs[1]


def test_of_an_interruption_of_another_process_the_first_one_speaks(job, tmp_path):
    codes, outputs = job(train(tmp_path), train(tmp_path) | {"signals": [["SIGINT", "train_step", 5]]})
    line = f"rltok: interrupted; the newest checkpoint is step-00000003. {GO_ON}"
    assert (codes, last_lines(outputs)) == ([130, 130], [line, ""])


def test_so_it_does_where_they_had_not_met(job, tmp_path):
    codes, outputs = job(train(tmp_path), train(tmp_path) | {"signals": [["SIGTERM", "load_corpus", 1]]})
    assert codes == [2, 143] and said(outputs) == [f"rltok: process 1 of 2 ended. {GO_ON}"]


def test_a_signal_is_heard_while_the_others_are_not_there(tmp_path):
    with socket.socket() as silent:  # where the store would be
        silent.bind(("localhost", 0))
        silent.listen()
        address = {"MASTER_ADDR": "localhost", "MASTER_PORT": str(silent.getsockname()[1])}
        command = [sys.executable, "-m", "rltok", *map(str, train(tmp_path)["arguments"])]
        environment = os.environ | address | {"RANK": "1", "WORLD_SIZE": "2"}
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=ROOT, env=environment) as waiting:
            with silent.accept()[0]:  # it waits now for an answer
                waiting.terminate()
                assert waiting.communicate()[1] == f"rltok: ended by SIGTERM. {GO_ON}\n" and waiting.returncode == 143


def test_where_the_store_is_gone_before_all_have_met_the_error_is_one_line(monkeypatch):
    def gone(*_):
        raise RuntimeError("Connection reset by peer")

    monkeypatch.setattr(processes, "place", lambda: Place(0, 2))
    monkeypatch.setattr(processes, "_store", lambda: SimpleNamespace(add=lambda *_: 1, set=lambda *_: None, check=gone))
    with pytest.raises(RltokError, match=r"^torchrun ended, or process 0, before all processes had met\. Start all again\.$"):
        processes.roll_call({})


@pytest.mark.parametrize("ends", [False, True])
def test_a_process_that_is_about_to_say_why_it_ends_is_not_cut_short_by_the_end_of_another(ends, monkeypatch):
    """Two that fail with one message leave it to the first to say it; the other one may be gone before it has."""

    def closed(*_, **__):
        raise RuntimeError("Connection closed by peer")

    ended, store = [], SimpleNamespace(add=lambda key, amount: amount, set=lambda *_: None)
    monkeypatch.setattr(processes, "_ending", threading.Event())
    monkeypatch.setattr(processes, "place", lambda: Place(0, 2))
    monkeypatch.setattr(processes, "_kept_by_torchrun", lambda: True)
    monkeypatch.setattr(processes, "_store", lambda: store)
    monkeypatch.setattr(torch.distributed, "recv", closed)
    monkeypatch.setattr(os, "_exit", ended.append)
    if ends:
        assert processes.failed("this process fails.")
    processes._watch(torch.distributed.ProcessGroup(0, 2), Place(0, 2))
    assert ended == ([] if ends else [1])


def other_text(folder):
    (folder / "other").mkdir()
    return write_text(folder / "other", b"Another text, of another machine.\n" * 90)


UNLIKE = {
    "settings": (lambda _: ["--set", "train.seed=1"], "process 1 has another set of settings ("),
    "text": (lambda folder: ["--data", other_text(folder)], "process 1 has another text ("),
}


@pytest.mark.parametrize("what", UNLIKE)
def test_processes_that_differ_are_an_error_before_anything_is_written(what, job, tmp_path):
    more, message = UNLIKE[what]
    codes, outputs = job(train(tmp_path), train(tmp_path, *more(tmp_path)), train(tmp_path))
    (line,) = said(outputs)
    assert codes == [2, 2, 2] and line.startswith(f"rltok: {message}") and not (tmp_path / "run").exists()
    assert line.endswith("Start all processes with the same code, settings and text.")


@pytest.mark.parametrize(
    ("other", "line"),
    [
        ({"code": "2"}, "process 2 has another code of rltok (2) than process 0 (1)"),
        ({"precision": "float16"}, "process 2 has another precision (fp16 autocast) than process 0 (fp32)"),
        ({"backend": "triton"}, "process 2 has another backend (triton) than process 0 (plain)"),
    ],
)
def test_another_version_of_the_code_or_a_card_without_its_precision_in_one_process_is_an_error(other, line, job):
    """Where `auto` finds cards of two kinds, one process alone would scale its loss."""
    codes, outputs = job(*({"arguments": {"check": "unlike", **more}} for more in ({}, {}, other)))
    assert codes == [2, 2, 2]
    assert [output.split(". ")[0] for output in outputs] == [line] * 3


def test_a_checkpoint_that_process_0_lacks_is_not_trained_anew(job, ended_together, tmp_path):
    """As on the disk of a machine whose processes torchrun numbered from 0 before, and from another number now."""
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()

    def order(folder, *more):
        return train(tmp_path, "--out", "run", *more) | {"folder_of_work": str(folder)}

    assert ended_together(order(second) | {"signals": [["SIGTERM", "train_step", 2]]})[0] == [143]
    codes, outputs = job(order(first, "--resume"), order(second, "--resume"))
    (line,) = said(outputs)
    assert set(codes) <= {1, 2} and not (first / "run").exists()
    assert line == (
        "rltok: run, as process 0 sees it, has no checkpoint, and as another one sees it, one of update 2. Give the machine that"
        " has it --node-rank 0, or let all share its disk."
    )
    assert job(order(second, "--resume"), order(first, "--resume"))[0] == [0, 0]


def test_after_a_run_that_failed_the_next_one_of_the_same_processes_is_an_error_in_one_line(job):
    outputs = job(*[{"arguments": {"check": "fail_twice"}}] * 2)[1]
    lines = ["the first run fails.", "these processes are connected already: by a run that failed, or by a call of"
             " init_process_group. Start them anew for the next run, and leave that call to rltok."]  # fmt: skip
    assert max(output.splitlines() for output in outputs) == lines


def test_what_one_process_alone_lacks_it_says_and_the_others_do_not_wait(job, tmp_path):
    codes, outputs = job(train(tmp_path), train(tmp_path, "--data", tmp_path / "nowhere.txt"))
    assert codes == [2, 2] and "nowhere.txt" in outputs[1] and not said(outputs[:1])


@pytest.mark.parametrize(
    ("count", "line"),
    [
        (7, "train.sequences_per_update=6 has fewer rows than 7 processes. Start at most 6, or raise it to 14."),
        (
            4,
            "train.sequences_per_update=6 is no multiple of 4 processes. The nearest that is one, with train.micro_batch=2: 4 or"
            " 8. Or start 3 processes.",
        ),
    ],
)
def test_processes_to_which_rows_cannot_be_dealt_out_are_an_error(count, line, ended_together, tmp_path):
    codes, outputs = ended_together(train(tmp_path) | {"environment": {"RANK": "0", "WORLD_SIZE": str(count)}})
    assert (codes, said(outputs)) == ([2], [f"rltok: {line}"])


def test_a_port_in_use_is_one_line(ended_together, tmp_path):
    with socket.socket() as taken:
        taken.bind(("localhost", 0))
        taken.listen()
        address = {"MASTER_ADDR": "localhost", "MASTER_PORT": str(taken.getsockname()[1])}
        order = train(tmp_path) | {"environment": {"RANK": "0", "WORLD_SIZE": "2", **address}}
        codes, outputs = ended_together(order)
    remedy = "Set MASTER_PORT to a free port, or start with torchrun --standalone."
    assert (codes, said(outputs)) == ([2], [f"rltok: localhost:{address['MASTER_PORT']} is in use. {remedy}"])


@pytest.mark.parametrize(("host", "port"), [("nowhere.invalid", "29500"), ("", "")])
def test_an_address_that_nobody_knows_is_one_line_at_once(host, port, ended_together, tmp_path):
    place = {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": host, "MASTER_PORT": port}
    codes, outputs = ended_together(train(tmp_path) | {"environment": place})
    met = f"process 1 of 2 cannot meet the others at MASTER_ADDR:MASTER_PORT={host}:{port}"
    remedy = f"Start all with torchrun, with one address and port, {UNSET}."
    assert (codes, said(outputs)) == ([2], [f"rltok: {met}. {remedy}"])


def test_other_commands_refuse_torchrun(ended_together, finished):
    order = {"arguments": ["show", finished, "gulls"], "environment": {"RANK": "0", "WORLD_SIZE": "2"}}
    line = "rltok: torchrun is for rltok train; rltok show is one process. Leave torchrun out, or unset RANK and WORLD_SIZE."
    assert ended_together(order) == ([2], [line + "\n"])


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            {"RANK": "2", "WORLD_SIZE": "2"},
            "RANK=2 must be at least 0 and below WORLD_SIZE=2. Start with torchrun, or unset RANK and WORLD_SIZE.",
        ),
        ({"RANK": "first", "WORLD_SIZE": "2"}, "RANK='first' is no whole number. Start with torchrun, or unset it."),
    ],
)
def test_places_that_cannot_be_are_one_line(values, message, ended_together, tmp_path):
    assert ended_together(train(tmp_path) | {"environment": values}) == ([2], [f"rltok: {message}\n"])


def test_one_variable_of_another_launcher_changes_nothing(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "8")
    assert place() == Place(0, 1, 0)


def test_each_process_takes_the_card_of_its_number_and_one_too_many_is_an_error(monkeypatch):
    taken = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "set_device", taken.append)
    for name, value in {"RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1"}.items():
        monkeypatch.setenv(name, value)
    assert own_device("auto") == own_device("cuda") == torch.device("cuda", 1) and taken == [1, 1]
    with pytest.raises(
        RltokError, match="--device cuda:0 names one card, but each of 8 processes takes its own. Use --device cuda."
    ):
        own_device("cuda:0")
    monkeypatch.setenv("LOCAL_RANK", "2")
    with pytest.raises(RltokError, match="process 2 of this machine has no card: torch sees 2. Start --nproc-per-node 2."):
        own_device("auto")


def test_torchrun_hands_on_that_it_is_to_end_and_the_run_is_saved(tmp_path):
    """The store, the environment and the signals of the other tests are as torchrun has them; here it is itself."""
    settings = SIX | {"train.training_bytes": 400 * 6 * 64, "train.evaluate_every": 1000, "train.checkpoint_every": 1000}
    words = [str(word) for word in train(tmp_path, settings=settings)["arguments"]]
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "rltok", *words]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=ROOT) as torchrun:
        for line in torchrun.stderr:
            if "left" in line:  # the first line of progress, after one update
                torchrun.send_signal(signal.SIGTERM)
                break
        rest = torchrun.communicate()[1]
    (line,) = said([rest])
    newest = checkpoints(tmp_path / "run")[-1].name
    assert line == f"rltok: ended by SIGTERM; the checkpoint of update {int(newest[5:])} is saved. {GO_ON}"
    assert 1 <= int(newest[5:]) < 400 and torchrun.returncode
