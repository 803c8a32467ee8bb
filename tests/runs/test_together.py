"""rltok.runs.together: one run in several processes, from the command line; they write, say and resume as one."""

import json

import pytest
from runs import SETTINGS, UPDATES, as_options, json_lines, small_config, write_text

import rltok
from rltok.config import with_settings
from rltok.errors import RltokError
from rltok.runs.checkpoint import checkpoints
from rltok.runs.sessions import sessions_of

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


def test_a_signal_to_one_process_stops_all_after_the_same_update(job, tmp_path):
    codes, outputs = job(train(tmp_path), train(tmp_path) | {"signals": [["SIGTERM", "train_step", 4]]})
    assert codes == [143, 143] and last_lines(outputs) == [f"rltok: ended by SIGTERM; the checkpoint of update 4 is saved. {GO_ON}", ""]
    assert [path.name for path in checkpoints(tmp_path / "run")][-1] == "step-00000004"


@pytest.mark.parametrize("killed", [0, 1, 2])
def test_where_one_process_is_killed_all_end_and_one_of_them_says_so(killed, job, tmp_path):
    orders = [train(tmp_path) for _ in range(3)]
    orders[killed]["signals"] = [["SIGKILL", "train_step", 5]]
    codes, outputs = job(*orders)
    assert [code == -9 for code in codes] == [number == killed for number in range(3)] and 0 not in codes
    said = [line for output in outputs for line in output.splitlines() if line.startswith("rltok: ")]
    assert said == [f"rltok: another one of the 3 processes ended. {GO_ON}"]
