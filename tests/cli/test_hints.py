"""Commands that a message prints run when they are pasted into a shell, whatever a path is called."""

import json
import re
import subprocess
from pathlib import Path

import pytest
from runs import SETTINGS, as_options, write_text

from rltok.cli import demo as demo_module
from rltok.cli import options
from rltok.cli.main import main
from rltok.system.files import quoted

pytestmark = pytest.mark.usefixtures("shapes_unchecked", "short_snapshots")
ODD = ["my run", "it's", 'a "b" $HOME `id`', "-dash", "--out", "a;b&c|d>e", "*", "~", "#x", "a\\b", "été", "!x"]


def pasted(line):
    """The words that a shell makes of the command at the end of a line, as rltok reads them."""
    command = re.search(r"(?:\S*/)?rltok \S.*", line)[0]
    shell = """rltok() { printf '%s\\0' "$@"; }; """ + command.replace(".venv/bin/rltok", "rltok")
    done = subprocess.run(["sh", "-c", shell], capture_output=True, check=True)
    words = done.stdout.decode().split("\0")[:-1]
    assert done.stderr == b"" and words
    return options.parse(words)


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_text(tmp_path)


@pytest.mark.parametrize("name", ODD)
def test_a_path_of_any_name_is_one_word_and_no_option(name):
    words = pasted(f"try rltok show {quoted(name)} 'any text'")
    assert Path(words.run) == Path(name) and words.text == "any text"


@pytest.mark.parametrize("name", ["-my 'own' $run", "plain"])
def test_the_ends_of_train_prepare_and_show(name, capsys):
    assert main(["show", "--", name, "a text"]) == 2
    assert Path(pasted(capsys.readouterr().err).out) == Path(name)
    small = ["--preset", "tiny", *as_options(SETTINGS), "--data", "text.txt", "--device", "cpu"]
    assert main(["train", *small, f"--out={name}"]) == 0
    words = pasted(capsys.readouterr().out.splitlines()[-1])
    assert (Path(words.run), words.text) == (Path(name), "some text")
    assert main(["show", words.run, words.text]) == 0
    capsys.readouterr()
    corpus = f"{name} corpus"
    shares = ["--validation-fraction", "0", "--test-fraction", "0"]
    assert main(["prepare", "text.txt", f"--out={corpus}", "--cut", "windows", "--jobs", "1", *shares]) == 0
    assert Path(pasted(capsys.readouterr().out.splitlines()[-1]).data) == Path(corpus)
    Path("text.txt").unlink()
    assert main(["prepare", "text.txt", f"--out={corpus}", "--cut", "windows", "--jobs", "1", *shares]) == 2
    output = capsys.readouterr().err
    assert Path(pasted(output.removesuffix(" needs no source.\n")).data) == Path(corpus)


def test_the_end_of_a_comparison_and_how_it_goes_on(capsys):
    small = as_options({key: value for key, value in SETTINGS.items() if key != "model.rule.lags"})
    command = ["compare", "--rules", "even", *small, "--data", "text.txt", "--device", "cpu", "--jobs", "1"]
    assert main([*command, "--out=-my runs"]) == 0
    out, err = capsys.readouterr()
    assert Path(pasted(out.splitlines()[-1]).run).is_dir()
    again = re.search(r"the same with (--out .* --resume)", err)[1]
    words = pasted(f"rltok compare {again}")
    assert Path(words.out) == Path("-my runs") and words.resume


@pytest.mark.parametrize("installed", [True, False])
def test_the_end_of_the_demo_names_an_rltok_that_is_there(installed, monkeypatch):
    monkeypatch.setattr(demo_module.shutil, "which", lambda name: "/somewhere/rltok" if installed else None)
    last = demo_module.last_words(Path("a demo"), smoke=False)
    assert (".venv/bin/rltok" not in last) == installed and "smoke" not in last
    assert Path(pasted(last).run) == Path("a demo/learned")


def test_what_is_no_folder_is_not_to_be_trained_into(capsys):
    assert main(["show", "text.txt"]) == 2
    assert capsys.readouterr().err == "rltok: text.txt is neither a run's folder nor a checkpoint. Name a folder.\n"


@pytest.mark.parametrize("command", ["show", "generate"])
@pytest.mark.parametrize("text", ["Where do tokens end?", "Hello", "and/or what"])
def test_a_text_without_a_model_is_told_that_the_model_comes_first(command, text, capsys):
    assert main([command, text]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    again = pasted(line.split("name a model before it: ")[1])
    assert again.run == "small-english" and (again.text if command == "show" else again.prompt[0]) == text
    assert " " not in text or "Train one" not in line


@pytest.mark.parametrize(("command", "quotes"), [("show", True), ("demo", False), ("models", False), ("evaluate", False)])
def test_quotes_are_advised_where_words_may_be_a_text(command, quotes, capsys):
    with pytest.raises(SystemExit):
        main([command, "run", "two", "words"])
    assert ("a text with spaces needs quotes" in capsys.readouterr().err) == quotes


@pytest.mark.parametrize("words", [["show", "runs/none"], ["show", "none", "a text"], ["generate", "no run", "a text"]])
def test_a_model_that_is_missing_is_not_taken_for_a_text(words, capsys):
    assert main(words) == 2
    assert "If it is a text" not in capsys.readouterr().err


def test_a_folder_as_config_is_told_how_to_name_the_file(finished, capsys):
    Path("my run").symlink_to(finished)
    command = ["train", "--data", "text.txt", "--out", "new"]
    assert main([*command, "--config", "my run"]) == 2
    output = capsys.readouterr().err
    assert output.startswith("rltok: my run is a folder. Name a file in it: --config 'my run/config.json'")
    again = pasted("rltok train " + output.split(": ")[-1])
    assert json.loads(Path(again.config).read_text())["name"] == "tiny"


DASHED = {
    "a text": (["show", "run", "-hello"], ["show", "run", "--", "-hello"], "text"),
    "a text of other letters": (["show", "run", "-xyz"], ["show", "run", "--seed", "1", "--", "-xyz"], "text"),
    "a run": (["evaluate", "-run"], ["evaluate", "--seed", "1", "--", "-run"], "run"),
    "a source": (["prepare", "--out", "x", "-text.txt"], ["prepare", "--out", "x", "--", "-text.txt"], "source"),
    "a value": (["train", "--note", "-x"], ["train", "--note=-x"], "note"),
}


@pytest.mark.parametrize("kind", DASHED)
def test_what_begins_with_a_dash_is_told_where_it_goes_and_goes_there(kind, capsys):
    wrong, right, name = DASHED[kind]
    with pytest.raises(SystemExit) as ended:
        options.parse(wrong)
    output = capsys.readouterr().err
    word = wrong[-1]
    assert ended.value.code == 2 and output.count("\n") == 1
    assert f"{word} is no option; a text or a path goes last, after --, a value as in --OPTION={word}" in output
    value = getattr(options.parse(right), name)
    assert (value[0] if name == "source" else value) == wrong[-1]


def test_numbers_and_double_dashes_are_not_taken_for_texts(capsys):
    assert options.parse(["show", "run", "--seed", "-1"]).seed == -1
    with pytest.raises(SystemExit):
        options.parse(["show", "run", "--seed", "-1", "--fast"])
    assert "is no option" not in capsys.readouterr().err
