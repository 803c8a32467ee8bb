"""streams: a closed pipe or a full disk behind the output stops no work, and what did not finish never looks finished."""

import io
import json
import os
import sys
import threading
from contextlib import contextmanager, nullcontext

import pytest
from runs import SETTINGS, UPDATES, as_options, small_config, write_text

import rltok
from rltok.cli import commands, demo
from rltok.cli.main import main
from rltok.evidence import measuring
from rltok.system.streams import Lasting, lasting

pytestmark = pytest.mark.usefixtures("shapes_unchecked", "short_snapshots")
needs_full = pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
BROKEN = ["closed", pytest.param("full", marks=needs_full)]


@contextmanager
def broken(kind):
    """A stream whose every write fails: a pipe without a reader, or a full disk."""
    if kind == "full":
        target = "/dev/full"
    else:
        reading, target = os.pipe()
        os.close(reading)
    with open(target, "w", encoding="utf-8") as stream:
        yield stream


def run(monkeypatch, arguments, **streams):
    with monkeypatch.context() as patch:
        for name, stream in streams.items():
            patch.setattr(sys, name, stream)
        return main([str(argument) for argument in arguments])


def train(out, *more):
    text = write_text(out.parent)
    return ["train", "--preset", "tiny", *as_options(SETTINGS), "--data", text, "--out", out, "--device", "cpu", *more]


@pytest.mark.parametrize("kind", BROKEN)
def test_training_goes_on_without_its_output(kind, monkeypatch, tmp_path):
    with broken(kind) as stream:
        code = run(monkeypatch, train(tmp_path / "run"), stdout=stream, stderr=stream)
    assert json.loads((tmp_path / "run/record.json").read_text())["updates"] == UPDATES
    assert code == {"closed": 0, "full": 2}[kind]  # a reader who had enough is no error


@pytest.mark.parametrize("kind", BROKEN)
def test_without_standard_error_the_result_is_printed_all_the_same(kind, monkeypatch, tmp_path, capsys):
    with broken(kind) as stream:
        assert run(monkeypatch, train(tmp_path / "run", "--json"), stderr=stream) == 0
        assert run(monkeypatch, train(tmp_path / "run", "--resume", "--json"), stderr=stream) == 0
        assert run(monkeypatch, train(tmp_path / "run"), stderr=stream) == 2  # an error that cannot be told stays one
    assert capsys.readouterr().out.count('"updates": 8') == 2


@pytest.mark.parametrize("in_terminal", [True, False])
@pytest.mark.parametrize("kind", BROKEN)
def test_progress_of_a_run_from_python_switches_itself_off(kind, in_terminal, monkeypatch, tmp_path):
    with broken(kind) as stream, monkeypatch.context() as patch:
        patch.setattr(stream, "isatty", lambda: in_terminal)
        patch.setattr(sys, "stderr", stream)
        assert rltok.train(small_config(), write_text(tmp_path), tmp_path / "run", progress=True).updates == UPDATES


@pytest.mark.parametrize("kind", BROKEN)
def test_preparing_goes_on_without_its_output(kind, monkeypatch, tmp_path):
    text = write_text(tmp_path)
    with broken(kind) as stream:
        words = ["prepare", text, "--out", tmp_path / "out", "--sequence-length", 64]
        run(monkeypatch, words, stdout=stream, stderr=stream)
    assert (tmp_path / "out/prepared.json").exists()


def test_comparing_goes_on_without_its_output(monkeypatch, tmp_path):
    text, settings = write_text(tmp_path), as_options(SETTINGS)
    words = ["compare", "--rules", "even", "--preset", "tiny", *settings, "--data", text, "--jobs", 1, "--device", "cpu"]
    with broken("closed") as stream:
        assert run(monkeypatch, [*words, "--out", tmp_path / "out"], stdout=stream, stderr=stream) == 0
    assert json.loads((tmp_path / "out/compare.json").read_text())["standings"]


def test_the_demo_goes_on_without_its_output(monkeypatch, tmp_path):
    monkeypatch.setattr(demo, "SMOKE_BYTES", 8192)
    with broken("closed") as stream:
        words = ["demo", "--smoke", "--out", tmp_path / "out", "--device", "cpu"]
        assert run(monkeypatch, words, stdout=stream, stderr=stream) == 0
    assert (tmp_path / "out/demo.json").exists()


def test_a_reader_that_has_had_enough_is_no_error(finished, monkeypatch, capsys):
    with broken("closed") as stream:
        assert run(monkeypatch, ["show", finished, "gulls"], stdout=stream) == 0
    assert capsys.readouterr().err == ""


@needs_full
@pytest.mark.parametrize("words", [["show", "RUN", "gulls"], ["evaluate", "RUN", "--max-bytes", "500", "--json"], ["--help"]])
def test_a_result_for_which_there_is_no_room_is_told_and_not_called_a_success(words, finished, monkeypatch, capsys):
    with broken("full") as stream:
        assert run(monkeypatch, [finished if word == "RUN" else word for word in words], stdout=stream) == 2
    output = capsys.readouterr().err
    assert output.startswith("rltok: standard output could not be written (No space left on device)") and output.count("\n") == 1


def test_a_broken_pipe_within_the_work_is_an_error(finished, monkeypatch, capsys):
    def fail(_):
        raise BrokenPipeError(32, "Broken pipe")

    monkeypatch.setattr(commands, "show", fail)
    assert main(["show", str(finished), "gulls"]) == 2
    assert capsys.readouterr().err == "rltok: [Errno 32] Broken pipe\n"


@pytest.mark.parametrize("kind", BROKEN)
def test_a_script_without_its_log_does_its_work(kind, monkeypatch):
    done = []

    def script():
        for number in range(3):
            print(number, file=sys.stderr, flush=True)
            done.append(number)
        print("table", flush=True)

    with broken(kind) as stream, monkeypatch.context() as patch:
        patch.setattr(sys, "stderr", stream)
        measuring.run(script)
        patch.setattr(sys, "stdout", stream)
        with nullcontext() if kind == "closed" else pytest.raises(SystemExit, match="2"):
            measuring.run(script)
    assert done == [0, 1, 2] * 2


def test_a_pipe_that_does_not_block_gets_everything_when_its_reader_is_slow():
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    text, read = "gulls\n" * 200_000, []

    def reader():
        with open(reading, encoding="utf-8") as pipe:
            read.append(pipe.read())

    with open(writing, "w", encoding="utf-8") as pipe:
        stream = Lasting(pipe)
        waiting = threading.Thread(target=reader)
        stream.write("first\n")
        waiting.start()
        stream.write(text)
        stream.flush()
    waiting.join()
    assert read == ["first\n" + text] and stream.failure() is None


def test_streams_that_are_no_files_and_lasting_ones_stay_as_they_are():
    text = io.StringIO()
    assert lasting(text) is text
    stream = lasting(io.TextIOWrapper(io.BytesIO(), encoding="ascii", errors="replace"))
    assert lasting(stream) is stream and (stream.encoding, stream.errors, stream.isatty()) == ("ascii", "replace", False)
