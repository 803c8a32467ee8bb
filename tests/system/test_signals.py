"""rltok.system.signals: training saves before it ends, a second control-C ends at once, and nothing ends with a traceback."""

import signal

import pytest
from runs import SETTINGS, UPDATES, as_options, json_lines, small_config, write_text

from rltok.runs.checkpoint import checkpoints
from rltok.runs.sessions import sessions_of
from rltok.system import signals

pytestmark = pytest.mark.usefixtures("shapes_unchecked")
GO_ON = "Go on with the same command and --resume."


def train(folder, *more):
    text = write_text(folder)
    words = ["train", "--preset", "tiny", *as_options(SETTINGS), "--data", text, "--out", folder / "run"]
    return [*words, "--device", "cpu", "--json", *more]


def newest(folder):
    return [int(path.name[-8:]) for path in checkpoints(folder / "run")][-1:]


@pytest.mark.parametrize(("name", "code"), [("SIGTERM", 143), ("SIGHUP", 129)])
def test_training_saves_after_the_update_says_so_and_goes_on_to_the_same_numbers(name, code, ended, finished, tmp_path):
    line = f"rltok: ended by {name}; the checkpoint of update 4 is saved. {GO_ON}\n"
    assert ended(train(tmp_path), (name, "train_step", 4)) == (code, line)
    assert newest(tmp_path) == [4] and not (tmp_path / "run/record.json").exists()
    assert ended(train(tmp_path, "--resume")) == (0, "")
    assert [each["redone"] for each in sessions_of(tmp_path / "run")] == [0, 0]
    assert json_lines(tmp_path / "run/metrics.jsonl") == json_lines(finished / "metrics.jsonl")


def test_further_signals_to_end_wait_for_the_same_checkpoint(ended, tmp_path):
    code, output = ended(train(tmp_path), ("SIGHUP", "train_step", 4), ("SIGTERM", "train_step", 4))
    assert (
        code in (129, 143) and "the checkpoint of update 4 is saved" in output
    )  # the system hands on the one or the other first


def test_a_signal_before_the_first_update_ends_with_one_line_too(ended, tmp_path):
    assert ended(train(tmp_path), ("SIGTERM", "load_corpus", 1)) == (143, f"rltok: ended by SIGTERM. {GO_ON}\n")
    assert ended(train(tmp_path, "--resume")) == (0, "")


def test_under_nohup_a_lost_connection_ends_nothing(ended, tmp_path):
    assert ended(train(tmp_path), ("SIGHUP", "train_step", 4), ignored=["SIGHUP"]) == (0, "")
    assert newest(tmp_path) == [UPDATES]


def test_training_from_python_saves_and_then_ends_as_the_system_has_it(ended, tmp_path):
    words = {"config": small_config().to_dict(), "data": write_text(tmp_path), "out": str(tmp_path / "run"), "device": "cpu"}
    code, output = ended(words | {"progress": True}, ("SIGTERM", "train_step", 4))
    assert (code, newest(tmp_path)) == (-signal.SIGTERM, [4])
    assert output.splitlines()[-1] == "SIGTERM: the checkpoint of update 4 is saved"


def test_one_control_c_says_how_to_go_on(ended, tmp_path):
    said = f"\nrltok: interrupted; the newest checkpoint is step-00000003. {GO_ON}\n"
    assert ended(train(tmp_path), ("SIGINT", "train_step", 5)) == (130, said)
    assert newest(tmp_path) == [3]


def test_a_control_c_before_the_first_checkpoint_says_that_there_is_none(ended, tmp_path):
    said = f"\nrltok: interrupted; there is no checkpoint yet. {GO_ON}\n"
    assert ended(train(tmp_path), ("SIGINT", "train_step", 2)) == (130, said)


@pytest.mark.parametrize("point", ["close", "exit"])
def test_a_second_control_c_ends_at_once_while_the_first_is_seen_to_and_later(point, ended, tmp_path):
    code, output = ended(train(tmp_path), ("SIGINT", "train_step", 5), ("SIGINT", point, 1))
    assert code == -signal.SIGINT
    assert output == ("" if point == "close" else f"\nrltok: interrupted; the newest checkpoint is step-00000003. {GO_ON}\n")


@pytest.mark.parametrize(
    ("name", "code", "line"), [("SIGINT", 130, "\nrltok: interrupted.\n"), ("SIGTERM", 143, "rltok: ended by SIGTERM.\n")]
)
def test_other_commands_end_with_one_line(name, code, line, finished, ended):
    assert ended(["show", finished, "gulls"], (name, "show", 1)) == (code, line)


@pytest.mark.parametrize("point", ["parse", "failed"])
def test_a_signal_while_options_are_read_or_an_error_is_told_is_one_line_too(point, ended, tmp_path):
    assert ended(["show", tmp_path / "nowhere", "gulls"], ("SIGTERM", point, 1)) == (143, "rltok: ended by SIGTERM.\n")


def test_a_comparison_ends_with_its_workers(ended, tmp_path):
    words = ["compare", "--rules", "even", "random_k", "whitespace", "--preset", "tiny", *as_options(SETTINGS), "--jobs", 2]
    words += ["--data", write_text(tmp_path), "--out", tmp_path / "out", "--device", "cpu"]
    code, output = ended(words, ("SIGTERM", "result", 1))
    assert code == 143
    assert output.splitlines()[-1] == ("rltok: ended by SIGTERM. Go on with the same command, its folder as --out, and --resume.")


def test_a_handler_of_others_is_left_alone():
    before = signal.signal(signal.SIGTERM, lambda *_: None)
    try:
        mine = signal.getsignal(signal.SIGTERM)
        with signals.held_back():
            assert signal.getsignal(signal.SIGTERM) is mine
    finally:
        signal.signal(signal.SIGTERM, before)
