"""`rltok generate`: what is written where, and one line for what cannot be."""

import io
import json
import re
import sys

import pytest
import torch
from runs import small_config, write_text

import rltok
from rltok.cli.main import main
from rltok.generation import generate, stream
from rltok.runs.checkpoint import find_checkpoint
from rltok.show.characters import harmless
from rltok.show.terminal import BAR, legend, paint

pytestmark = pytest.mark.usefixtures("shapes_unchecked")
SHORT = ("--bytes", 12, "--seed", 3)


@pytest.fixture(scope="module")
def model(finished):
    return rltok.load(finished)


def test_the_prompt_and_its_continuation_are_written(run, finished, model):
    wanted = generate(model, ["The cat"], max_bytes=12, seed=3)[0].text
    output = run("generate", finished, "The cat", *SHORT)
    assert output.out == f"The cat{wanted}\n"
    assert run("generate", finished, *SHORT, "The cat").out == output.out  # options may stand before the text


def test_the_last_line_on_stderr_says_how_much_was_written_in_what_time_and_why_it_ended(run, finished, model):
    row = generate(model, ["The cat"], max_bytes=12, seed=3)[0]
    output = run("generate", finished, "The cat", *SHORT)
    pattern = rf"{len(row.data)} bytes written in \d+\.\d s \(\d+ bytes/s\): as many bytes as were allowed\.\n"
    assert row.ended == "length" and re.fullmatch(pattern, output.err)
    assert "bytes written in" not in output.out
    both = generate(model, ["A", "The"], max_bytes=12, seed=3)
    output = run("generate", finished, "A", "The", *SHORT)
    assert output.err.startswith(f"{sum(len(one.data) for one in both)} bytes written in ") and output.err.endswith(
        " in 2 texts.\n"
    )
    assert run("generate", finished, "The cat", *SHORT, "--json").err == ""


def test_pieces_are_written_as_they_come(finished, model, monkeypatch):
    class Terminal(io.StringIO):
        def write(self, text):
            written.append(text)
            return len(text)

        def flush(self):
            written.append("flush")

    written = []
    monkeypatch.setattr(sys, "stdout", Terminal())
    assert main(["generate", str(finished), "The", "--bytes", "12"]) == 0
    pieces = [text for text in written if text not in ("", "flush", "\n")]
    assert pieces == ["The", *stream(model, "The", max_bytes=12)] and written.count("flush") >= len(pieces)


def test_settings_reach_the_model(run, finished, model):
    settings = {"max_bytes": 30, "temperature": 0.5, "top_k": 9, "top_p": 0.8, "seed": 1, "stop": ("e", "t")}
    wanted = generate(model, ["The "], **settings)[0]
    words = ["--bytes", 30, "--temperature", 0.5, "--top-k", 9, "--top-p", 0.8, "--seed", 1, "--stop", "e", "--stop", "t"]
    content = json.loads(run("generate", finished, "The ", *words, "--json").out)
    assert content["sampling"] == settings | {"stop": ["e", "t"]}
    assert content["samples"] == [
        {
            "prompt": list(b"The "), "bytes": list(wanted.data), "text": wanted.text,
            "boundaries": list(map(int, wanted.boundaries)), "ended": wanted.ended,
        }
    ]  # fmt: skip


def test_several_prompts_and_samples_are_rows_of_one_batch(run, finished, model):
    wanted = generate(model, ["A", "A", "The", "The"], max_bytes=12, seed=3)
    output = run("generate", finished, "A", "The", "--num-samples", 2, *SHORT).out
    parts = output.split("--- prompt ")[1:]
    assert [part.partition(":")[0] for part in parts] == ["1, sample 1", "1, sample 2", "2, sample 1", "2, sample 2"]
    for part, row in zip(parts, wanted, strict=True):
        assert f": {len(row.data)} bytes, as many bytes as were allowed\n" in part
        assert part.partition("\n")[2] == (row.prompt + row.data).decode("utf-8", errors="replace") + "\n"


def test_boundaries_are_shown_on_demand(run, finished, model):
    row = generate(model, ["The cat"], max_bytes=12, seed=3)[0]
    output = run("generate", finished, "The cat", *SHORT, "--boundaries").out
    shown = (row.prompt + row.data, row.boundaries)
    signs, coloured_signs = legend(False, shown), legend(True, shown, drawn=True)
    assert output.count(BAR) == sum(row.boundaries) + 1  # and the legend's
    assert "\x1b" not in output and f"\n{signs}\n" in output
    coloured = run("generate", finished, "The cat", *SHORT, "--boundaries", "--color", "always").out
    assert coloured == f"{paint(*shown, None, True)}\n\n{coloured_signs}\n"


def test_one_byte_is_said_in_the_singular(run, finished):
    assert run("generate", finished, "The", "--bytes", 1).err.startswith("1 byte written in ")
    assert ": 1 byte, " in run("generate", finished, "The", "A", "--bytes", 1).out
    assert re.search("; (0 boundaries|1 boundary) in 1 byte, one draw", run("show", finished, "a").out)


def test_a_prompt_may_come_from_a_file_or_from_standard_input_and_need_not_be_utf8(run, finished, tmp_path, monkeypatch):
    path = write_text(tmp_path, b"The \xff cat\n")
    printed = run("generate", finished, "--file", path, *SHORT, "--json").out
    assert json.loads(printed)["samples"][0]["prompt"] == list(b"The \xff cat\n")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"The \xff cat\n")))
    assert run("generate", finished, "--file", "-", *SHORT, "--json").out == printed


def test_without_a_prompt_and_with_an_empty_one_the_model_starts_from_nothing(run, finished, model):
    wanted = generate(model, [""], max_bytes=12, seed=3)[0].text
    assert run("generate", finished, *SHORT).out == run("generate", finished, "", *SHORT).out == wanted + "\n"


def test_rows_longer_than_in_training_are_generated_under_one_line_of_warning(run, finished):
    output = run("generate", finished, "The", "--bytes", 70)
    warning, _ = output.err.splitlines()
    assert warning == "in training rows had 64 bytes; of up to 73 bytes here, those beyond may be worse."
    assert len(output.out) > 20
    assert "beyond" not in run("generate", finished, "The", "--bytes", 61).err
    output = run("generate", finished, "x" * 100, "--bytes", 5)
    assert output.err.count("beyond") == 1 and output.out.startswith("x" * 100)


def test_a_terminal_is_not_steered_by_what_a_model_writes():
    assert harmless("a\x1b[2J\r\n\tb\u202e") == "a\u241b[2J\u240d\n\tb<U+202E>"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--temperature", -1], "temperature must be at least 0 and finite; got -1.0"),
        (["--temperature", "nan"], "temperature must be at least 0 and finite; got nan"),
        (["--top-k", 0], "top-k must lie between 1 and 257"), (["--top-k", 1000], "got 1000"),
        (["--top-p", 0], "top-p must be greater than 0"), (["--top-p", 1.5], "at most 1; got 1.5"),
        (["--bytes", 0], "must be at least 1; got 0"), (["--num-samples", 0], "--num-samples must lie between 1 and 10000; got"),
        (["--num-samples", 10**9], "between 1 and 10000; got 1000000000"), (["--file", ""], "--file is empty. Name a file"),
        (["--stop", ""], "a stop string is empty"), (["--seed", -1], "seed and step must lie between"),
        (["--bytes", 50_000, "a"], "make a text of 50001 bytes; at most 50000 can be generated"),
        (["--file", "x", "a"], "give prompts or --file, not both"), (["--file", "nowhere.txt"], "nowhere.txt"),
        (["--backend", "triton"], "computes with plain fp32 weights"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_one_line(run, finished, words, message):
    output = run("generate", finished, *words, code=2)
    assert message in output.err and output.err.count("\n") == 1 and output.out == ""


def test_what_is_generated_at_once_must_fit_into_memory(run, finished, monkeypatch):
    few, many = ["The", "--num-samples", 2, *SHORT], ["The", "--num-samples", 2000, *SHORT]
    monkeypatch.setattr("rltok.generation.batch.memory_bytes", lambda device: 2_000_000)
    assert run("generate", finished, *few).out
    told = run("generate", finished, *many, code=2).err
    assert re.fullmatch(
        r"rltok: 2000 texts of up to 15 bytes at once take more than [0-9.]+ GB, and there are 0.002 GB. Take fewer texts .*\n",
        told,
    )


def test_only_the_run_is_required(capsys):
    with pytest.raises(SystemExit):
        main(["generate"])
    assert "required: run." in capsys.readouterr().err


def test_a_file_too_long_for_a_prompt_is_not_read_to_its_end(run, finished, tmp_path):
    output = run("generate", finished, "--file", write_text(tmp_path, b"x" * 60_000), code=2)
    assert "make a text of at least 50201 bytes" in output.err


def test_a_run_whose_rule_looks_ahead_says_why_it_cannot_generate(run, tmp_path):
    config = small_config(model__rule__name="random_k", train__training_bytes=4 * 64)
    rltok.train(config, write_text(tmp_path), tmp_path / "run")
    output = run("generate", tmp_path / "run", "a", code=2)
    assert "RandomKRule cannot generate byte by byte: it compares the random numbers of the whole row" in output.err


def test_a_missing_run_is_one_line(run, tmp_path):
    assert run("generate", tmp_path / "nowhere", "a", code=2).err.count("\n") == 1


def test_the_checkpoint_itself_may_be_named(run, finished):
    named = find_checkpoint(finished)
    assert run("generate", named, "The", *SHORT).out == run("generate", finished, "The", *SHORT).out


def test_generating_needs_no_gradient(finished, model):
    row = generate(model, ["a"], max_bytes=2)[0]
    assert row.data and all(parameter.grad is None for parameter in model.parameters()) and torch.is_grad_enabled()
