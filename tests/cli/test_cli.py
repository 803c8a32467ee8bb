"""The command line where all goes well: help, training on one's own file, scores, pictures of boundaries, pipes."""

import io
import json
import re
import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from paths import BUNDLED
from runs import SETTINGS, TEXT, as_options, json_lines, small_config, write_text

import rltok
from rltok.benchmarks.sets import TASKS
from rltok.benchmarks.task_items import read_items
from rltok.benchmarks.tasks import score_items
from rltok.cli import commands
from rltok.cli.main import main
from rltok.cli.options import parse_settings, use_colour
from rltok.data import cut_documents, documents
from rltok.data.documents import Document
from rltok.evaluation import evaluate
from rltok.runs.loading import load, load_config
from rltok.runs.snapshots import boundary_view
from rltok.show.terminal import BAR

pytestmark = pytest.mark.usefixtures("shapes_unchecked", "short_snapshots")
OPTIONS = {
    "train": "--preset --config --set --data --max-bytes --any-bytes --force --validation --out --resume --tensorboard --note",
    "evaluate": "run --data --max-bytes --any-bytes --force --split --seed --tasks --task --max-items --draws --num-draws",
    "show": "run text --file --bytes --color --seed",
    "generate": "run prompt --file --bytes --temperature --top-k --top-p --stop --seed --num-samples --boundaries --color",
    "demo": "--smoke --out --seed --text",
    "models": "name",
    "export": "run file --bf16",
    "compare": "--rules --budget --preset --set --data --max-bytes --any-bytes --force --split --seeds --jobs --out --resume",
    "bench": "--preset --set --data --updates --plain-updates --plain-micro-batch --policy-cost --repeats --out",
    "doctor": "",
    "prepare": "SOURCE --out --validation --test --validation-fraction --test-fraction --cut --sequence-length --max-bytes"
    " --jobs --any-bytes --force --check",
}
SMALL = as_options({key: value for key, value in SETTINGS.items() if key.startswith("model.")})


@pytest.fixture
def ok(capsys):
    """Run a command that must succeed; what it wrote to (stdout, stderr)."""

    def run(*arguments):
        assert main([str(argument) for argument in arguments]) == 0
        return capsys.readouterr()

    return run


@pytest.mark.parametrize("command", OPTIONS)
def test_every_command_explains_itself_and_its_options(command, capsys):
    with pytest.raises(SystemExit) as ended:
        main([command, "--help"])
    output = capsys.readouterr().out
    assert ended.value.code == 0
    assert [name for name in f"{OPTIONS[command]} --device --backend --json --debug".split() if name not in output] == []


def test_the_first_help_lists_the_commands(capsys):
    with pytest.raises(SystemExit):
        main(["--help"])
    output = capsys.readouterr().out
    assert all(command in output for command in OPTIONS) and "rltok COMMAND --help" in output


@pytest.mark.parametrize(
    ("typed", "meant"),
    [("0.9", 0.9), ("1/5", 0.2), ("3", 3), ("null", None), ("true", True), ("windows", "windows"), ("a/b", "a/b"), ("=", "=")],
)
def test_settings_are_typed_as_json_fractions_or_plain_text(typed, meant):
    value = parse_settings([f"some.key = {typed}"])["some.key"]
    assert value == meant and type(value) is type(meant)


def test_settings_reach_the_run_and_the_same_run_comes_from_python(ok, finished, tmp_path):
    text = write_text(tmp_path)
    ok(
        "train",
        "--preset",
        "tiny",
        *as_options(SETTINGS),
        "--set",
        "model.rule.target_rate=1/5",
        "--data",
        text,
        "--out",
        tmp_path / "r",
    )
    assert json_lines(tmp_path / "r/metrics.jsonl") == json_lines(finished / "metrics.jsonl")
    assert load_config(tmp_path / "r") == load_config(finished)


def test_a_config_file_of_another_run_repeats_it(ok, finished, tmp_path):
    ok("train", "--config", finished / "config.json", "--data", write_text(tmp_path), "--out", tmp_path / "r")
    assert json_lines(tmp_path / "r/metrics.jsonl") == json_lines(finished / "metrics.jsonl")


def test_a_run_too_short_for_its_policy_says_so_in_a_line_before_it_trains(ok, tmp_path):
    text = write_text(tmp_path, TEXT * 20)
    sizes = ("data.sequence_length=64", "train.sequences_per_update=4", "train.micro_batch=4", "train.training_bytes=1024")
    command = ["train", "--preset", "tiny", "--data", text, *SMALL, "--device", "cpu", "--set", *sizes]
    err = ok(*command, "--out", tmp_path / "short").err
    multiplier = re.search(r"^a short run for a policy: .* --set (train\.policy_lr_multiplier=\S+)$", err, re.MULTILINE)[1]
    err = ok(*command, "--out", tmp_path / "enough", "--set", multiplier).err
    assert "short run" not in err
    record = json.loads((tmp_path / "enough/record.json").read_text())
    assert f"train.policy_lr_multiplier={record['config']['train']['policy_lr_multiplier']:g}" == multiplier
    assert "short run" not in ok(*command, "--out", tmp_path / "even", "--set", "model.rule.name=even").err


def told_to_set(message):
    """The settings that a message suggests."""
    return [pair.rstrip(".") for pair in re.findall(r"\b(?:data|train)\.\w+=[^\s,]+", message)]


@pytest.mark.parametrize("size", [1000, 1024, 5000, 300_000])
def test_ones_own_file_trains_without_a_preset_and_can_be_looked_at(size, ok, tmp_path):
    text = write_text(tmp_path, (TEXT * 101)[:size])
    out, err = ok(
        "train", "--data", text, "--out", tmp_path / "run", *SMALL, "--set", "train.training_bytes=20000", "--device", "cpu"
    )
    assert err.startswith(f"preset tiny fitted to {size} bytes of text: rows of ")
    assert f"about {20000 / size:.0f} passes" in err.splitlines()[0] and "teaches next to nothing" not in err
    record = json.loads((tmp_path / "run/record.json").read_text())
    assert record["updates"] >= 2 and record["data"]["validation"]["rows"] >= 1
    suggested = shlex.split(out.splitlines()[-1].removeprefix("look at it: "))
    assert suggested[:3] == ["rltok", "show", str(tmp_path / "run")]
    assert "some" in ok(*suggested[1:]).out.replace(BAR, "")


@pytest.mark.parametrize("preset", ["tiny", "small", "24m"])
def test_with_a_preset_too_large_for_the_file_the_messages_lead_to_a_command_that_works(preset, ok, capsys, tmp_path):
    text = write_text(tmp_path, TEXT[:1000])
    command = ["train", "--preset", preset, "--data", text, "--out", str(tmp_path / "run"), *SMALL, "--device", "cpu"]
    quick: list[str] = []  # a budget of a few updates instead of the hundreds that are suggested
    for _ in range(4):  # too short for a row, for two rows, for a batch; then it runs
        code = main([*command, *quick])
        message = capsys.readouterr().err
        if code == 0:
            break
        assert told_to_set(message), message
        command += ["--set", *told_to_set(message)]
        quick = ["--set", "train.training_bytes=1024"] if "train.training_bytes=" in message else []
    assert code == 0
    assert json.loads((tmp_path / "run/record.json").read_text())["updates"] >= 1


def test_a_dataset_of_the_hub_is_read_no_further_than_the_budget_and_the_held_out_share_need(monkeypatch, tmp_path):
    requests = {}

    def load_corpus(spec, data, **options):
        requests.update(options)
        raise rltok.RltokError("enough")

    monkeypatch.setattr(commands, "load_corpus", load_corpus)
    command = ["train", "--preset", "147m", "--data", "fineweb", "--out", str(tmp_path / "run")]
    assert main([*command, "--force"]) == 2
    assert requests["max_bytes"] == round(6_000_000_000 / 0.99) and requests["force"] is True
    assert main([*command, "--max-bytes", "77"]) == 2
    assert requests["max_bytes"] == 77


def test_train_prints_json_for_machines_and_nothing_else(ok, tmp_path):
    text = write_text(tmp_path)
    out, err = ok("train", "--preset", "tiny", *as_options(SETTINGS), "--data", text, "--out", tmp_path / "run", "--json")
    content = json.loads(out)
    assert (content["out"], content["updates"]) == (str(tmp_path / "run"), 8)
    assert content["evaluation"]["bits_per_byte"] > 0
    assert err == ""


def test_an_interrupted_run_says_how_to_go_on(monkeypatch, capsys, tmp_path):
    def interrupt(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(commands, "train_model", interrupt)
    assert main(["train", "--data", write_text(tmp_path), "--out", str(tmp_path / "run")]) == 130
    assert "interrupted. Go on with the same command and --resume." in capsys.readouterr().err


def test_evaluate_scores_a_text_as_the_function_does_in_words_and_in_json(ok, finished, tmp_path):
    text = b"A text it has never seen: 1, 2, 3 gulls.\n" * 20
    rows = cut_documents([Document(text, "s", "0")], 64, "windows", name="t")
    wanted = evaluate(load(finished), rows, seed=4, batch=16)
    arguments = ["evaluate", finished, "--data", write_text(tmp_path, text), "--seed", 4]
    assert json.loads(ok(*arguments, "--json").out) == json.loads(json.dumps(wanted.to_dict() | {"target_rate": 0.2}))
    output = ok(*arguments).out
    assert f"bits per byte {wanted.bits_per_byte:.4f} +- {wanted.standard_error:.3f}" in output
    assert (
        f"over {len(rows)} rows" in output
        and f"space {wanted.whitespace_share:.3f} (of {wanted.class_counts['space']})" in output
    )
    assert "all of one document" in output and "one draw with seed 4" in output
    lines = tmp_path / "three.jsonl"
    lines.write_text("".join(json.dumps({"text": f"{number} gulls. " * 9}) + "\n" for number in range(3)))
    error = json.loads(ok("evaluate", finished, "--data", lines, "--json").out)["standard_error_documents"]
    assert f" +- {error:.4f} over 3 documents" in ok("evaluate", finished, "--data", lines).out


def test_evaluate_knows_the_splits_of_the_sample(ok, finished):
    sample = ("evaluate", finished, "--data", "sample")
    scores = {
        split: json.loads(ok(*sample, "--split", split, "--max-bytes", 1000, "--json").out)["bits_per_byte"]
        for split in ("validation", "test", "all")
    }
    assert len(set(scores.values())) == 3


def test_a_split_of_the_sample_is_not_scored_by_mistake(finished, capsys):
    name = json.loads((finished / "data.json").read_text())["name"]
    assert main(["evaluate", str(finished), "--split", "test"]) == 2
    assert capsys.readouterr().err == (
        f"rltok: --split test without --data is that of the bundled sample, but {finished} was trained on {name}. Name the text:"
        " --data TEXT, or --data sample.\n"
    )


def test_evaluate_draws_as_it_is_told(ok, finished):
    for draws, count, said in (("threshold", 1, "where p > 1/2"), ("mean", 2, "mean of 2 draws with seed 0")):
        named = [] if count == 1 else ["--num-draws", count]
        arguments = ["evaluate", finished, "--max-bytes", 500, "--draws", draws, *named]
        rows = cut_documents(documents("sample:validation"), 64, "windows", name="t", max_bytes=500)
        wanted = evaluate(load(finished), rows, seed=0, batch=16, draws=draws, num_draws=count)
        assert json.loads(ok(*arguments, "--json").out) == json.loads(json.dumps(wanted.to_dict() | {"target_rate": 0.2}))
        assert said in ok(*arguments).out
    assert json.loads(ok(*arguments[:-2], "--json").out)["draws"] == "mean of 4"


def test_evaluate_scores_benchmark_sets_as_the_function_does(ok, finished, tmp_path, monkeypatch):
    for name in TASKS:
        monkeypatch.setitem(TASKS, name, replace(TASKS[name], count=20))
    arguments = ["evaluate", finished, "--tasks", BUNDLED, "--task", "lambada", "piqa", "--max-items", 5, "--seed", 3]
    content = json.loads(ok(*arguments, "--json").out)["tasks"]
    wanted = [
        score_items(load(finished), read_items(name, BUNDLED), seed=3, batch=8, max_items=5) for name in ("lambada", "piqa")
    ]
    assert [line["task"] for line in content] == ["lambada", "piqa"]
    for line, score in zip(content, wanted, strict=True):
        assert line == pytest.approx(score.to_dict())
    output = ok(*arguments, "--draws", "sample")
    assert re.search(rf"piqa +5  {wanted[1].bits_per_byte:.4f} \+- \d\.\d+ +{wanted[1].accuracy:.3f} \+- .* 0\.500", output.out)
    assert "Accuracy is noise" in output.out and "lambada: 5 of 20 items" in output.err and "one draw with seed 3" in output.out
    assert [line["task"] for line in json.loads(ok(*arguments[:4], "--max-items", 1, "--json").out)["tasks"]] == list(TASKS)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--task", "piqa"], "--task chooses among benchmark sets. Say where they are: --tasks FOLDER or --tasks hub"),
        (["--max-items", "0"], "--max-items chooses among benchmark sets"),
        (["--tasks", "here", "--split", "test"], "--tasks scores benchmark sets instead of text, to which --split belongs"),
        (["--tasks", "here", "--data", "text.txt"], "to which --data belongs. Give one of the two"),
        (["--tasks", "here", "--max-bytes", "9"], "to which --max-bytes belongs"),
        (["--tasks", "here"], "folder 'here' has no piqa-validation.jsonl"),
        (["--tasks", "hub", "--task", "lambada"], "cannot reach the Hugging Face hub for 'EleutherAI/lambada_openai'"),
        (["--draws", "mean", "--num-draws", "1"], "needs num_draws of at least 2; got 1"),
        (["--draws", "mean", "--num-draws", "0"], "needs num_draws of at least 2; got 0"),
    ],
)
def test_evaluate_refuses_what_does_not_go_together(finished, monkeypatch, capsys, arguments, message):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert main(["evaluate", str(finished), *arguments]) == 2
    assert message in capsys.readouterr().err


def as_text(painted: str) -> str:
    """What was painted without bars and line marks, characters that were cut put together again."""
    whole = re.sub(r"<([0-9A-F]{2})>", lambda cut: chr(0xDC00 + int(cut[1], 16)), painted.replace("\u21b5", "").replace(BAR, ""))
    return whole.encode("utf-8", "surrogateescape").decode()


def test_show_paints_the_boundaries_of_the_model_and_counts_them(ok, finished):
    text = "Two gulls, één 歡 and a tail.\nNext"
    view = boundary_view(load(finished), text, 3)
    out = ok("show", finished, text, "--seed", 3).out
    painted, output = out.rsplit("\n\n", 1)
    assert as_text(painted) == text
    assert f"{sum(view['boundaries'])} boundaries in {len(text.encode())} bytes" in output
    assert json.loads(ok("show", finished, text, "--seed", 3, "--json").out) == {
        "bytes": list(text.encode()), "seed": 3, **view,
    }  # fmt: skip


def test_the_text_may_stand_after_the_options(ok, finished):
    assert ok("show", finished, "--color", "never", "gulls").out == ok("show", finished, "gulls", "--color", "never").out


def test_without_a_text_show_takes_a_passage_of_its_own(ok, finished):
    assert "lighthouse" in ok("show", finished).out.replace(BAR, "")


def test_show_reads_the_start_of_a_file_or_of_standard_input_whatever_its_bytes(ok, finished, tmp_path, monkeypatch):
    data = b"caf\xe9 \x1b[2J\xff\xfe tail"
    out = ok("show", finished, "--file", write_text(tmp_path, data), "--bytes", 14).out
    assert out.replace(BAR, "").startswith("caf<E9> \u241b[2J<FF><FE> ta\n\n") and "\x1b" not in out
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
    assert ok("show", finished, "--file", "-", "--bytes", 14).out == out


@pytest.mark.parametrize("words", [["--color", "never"], [], ["--color", "auto"]])
def test_a_pipe_gets_no_colour_unless_asked_for(words, ok, finished):
    assert "\x1b" not in ok("show", finished, "gulls", *words).out
    assert "\x1b[48;5;" in ok("show", finished, "gulls", "--color", "always").out


def test_colours_of_a_rule_without_probabilities_are_not_called_probabilities(ok, finished, tmp_path):
    rltok.train(small_config(model__rule__name="even"), write_text(tmp_path), tmp_path / "even")
    for run, said in ((finished, "probability of that"), (tmp_path / "even", "whether that was drawn, no probability")):
        assert f"background = {said}, 0 " in ok("show", run, "gulls", "--color", "always").out


@pytest.mark.parametrize(
    ("choice", "terminal", "no_color", "coloured"),
    [
        ("auto", True, None, True), ("auto", True, "", True), ("auto", True, "1", False), ("auto", False, None, False),
        ("always", False, "1", True), ("never", True, None, False),
    ],
)  # fmt: skip
def test_colour_follows_the_choice_then_no_color_then_the_terminal(choice, terminal, no_color, coloured, monkeypatch):
    monkeypatch.setattr(sys, "stdout", SimpleNamespace(isatty=lambda: terminal))
    monkeypatch.delenv("NO_COLOR", raising=False)
    if no_color is not None:
        monkeypatch.setenv("NO_COLOR", no_color)
    assert use_colour(choice) is coloured


@pytest.mark.parametrize("encoding, bar, newline", [("ascii", "|", "$"), ("latin-1", "|", "$"), ("cp437", BAR, "$")])
def test_a_terminal_without_a_sign_gets_another_one_for_it(finished, monkeypatch, encoding, bar, newline):
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding=encoding))
    assert main(["show", str(finished), "gulls\nand gulls", "--seed", "1"]) == 0
    shown = written.getvalue().decode(encoding)
    assert f"{bar} = a token ends here, {newline} = end of a line" in shown
    assert f"gulls{newline}\n" in shown.replace(bar, "")


def test_the_commands_run_in_a_notebook_whose_stdout_is_no_file(finished, monkeypatch):
    written = io.StringIO()
    monkeypatch.setattr(sys, "stdout", written)
    assert main(["show", str(finished), "gulls"]) == 0
    assert "gulls" in written.getvalue().replace(BAR, "")


def test_python_dash_m_rltok_is_the_command_and_hands_on_its_exit_code(finished):
    command = [sys.executable, "-m", "rltok", "show", str(finished), ""]
    ended = subprocess.run(command, cwd=Path(rltok.__file__).parents[1], capture_output=True, text=True)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr == "rltok: there is no text to show. Give at least one byte.\n"


def test_doctor_reports_versions_device_and_extras_in_words_and_in_json(ok):
    content = json.loads(ok("doctor", "--device", "cpu", "--json").out)
    assert content["versions"].keys() >= {"python", "torch", "numpy", "rltok"}
    assert content["device"].startswith("cpu") and content["precision"] == "fp32"
    assert content["extras"]["test"] is True and content["sample_bytes"] > 1_500_000
    output = ok("doctor", "--device", "cpu").out
    assert content["versions"]["torch"] in output and "extras" in output and str(content["sample_bytes"]) in output


def test_resume_takes_the_settings_of_the_folder(ok, tmp_path):
    text, out = write_text(tmp_path, TEXT[:5000]), tmp_path / "run"
    ok("train", "--data", text, "--out", out, *SMALL, "--set", "train.training_bytes=20000", "--device", "cpu")
    before = (out / "metrics.jsonl").read_text()
    assert "updates were done before" in ok("train", "--data", text, "--out", out, "--resume", "--device", "cpu").err
    assert (out / "metrics.jsonl").read_text() == before
