"""--out of every command: a name that later commands can open, and a folder that no other process takes at the same time."""

import json
import os

import pytest
from runs import SETTINGS, TEXT, as_options, write_text

from rltok.cli import compare
from rltok.cli.main import main
from rltok.errors import RltokError
from rltok.runs.folder import check_folder
from rltok.system.files import check_name, new_folder

pytestmark = pytest.mark.usefixtures("shapes_unchecked")
COMMANDS = ["train", "compare", "demo", "bench", "variance", "prepare text.txt"]
SMALL = ["--preset", "tiny", *as_options(SETTINGS), "--device", "cpu"]


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """A folder with a text alone is the current one, and pictures are of a short text; gives the path of the former."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("rltok.runs.snapshots.FIXED_TEXTS", {"short": "Two gulls."})
    return write_text(tmp_path, TEXT * 3)


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    ("out", "message"),
    [
        ("r\udce9sultat", r"rltok: --out 'r\udce9sultat' is no UTF-8 text, so later commands could not open it. Name another f"),
        ("n" * 300, "cannot be a f"),
        (" ", "rltok: --out is empty. Name a f"),
    ],
)
def test_a_name_that_later_commands_cannot_open_is_refused_before_any_work(command, out, message, tmp_path, capsys, monkeypatch):
    for module in ("cli.commands", "cli.compare", "cli.demo", "cli.bench", "cli.variance"):
        monkeypatch.setattr(f"rltok.{module}.load_corpus", pytest.fail)
    assert main([*command.split(), "--out", out]) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["text.txt"]


def test_a_place_so_deep_that_no_checkpoint_could_be_named_in_it_is_refused(tmp_path):
    """Its own name is short enough for the system, and so would be that of config.json."""
    longest = os.pathconf(tmp_path, "PC_PATH_MAX") - 1
    fits = longest - len(os.fsencode(tmp_path.resolve())) - 1 - len("/config.json")
    deep = "/".join(["n" * 200] * (fits // 201))
    deep += "n" * (fits - len(deep))
    with pytest.raises(RltokError, match=r"cannot be a folder's name \(File name too long\). Name another folder"):
        check_folder(deep, resume=False)


@pytest.mark.parametrize("name", ["runs/one", "my run", "r\u00e9sultat", "\u7ed3\u679c", "/nowhere/at/all"])
def test_other_names_are_taken(name):
    check_name(name, "folder")


def test_a_name_with_a_null_byte_from_python_is_refused():
    with pytest.raises(RltokError, match="cannot be a folder's name .embedded null byte"):
        check_folder("a\0b", resume=False)


def test_two_comparisons_at_once_get_a_folder_each(here, tmp_path, monkeypatch):
    words = ["compare", "--data", here, "--jobs", "1", *SMALL]
    begun_elsewhere = compare.begun_elsewhere

    def second(*arguments):
        monkeypatch.setattr(compare, "begun_elsewhere", begun_elsewhere)
        assert main([*words, "--rules", "random_k"]) == 0
        return []

    monkeypatch.setattr(compare, "begun_elsewhere", second)  # when the first has found all in order
    assert main([*words, "--rules", "even"]) == 0
    content = {path.parent.name: json.loads(path.read_text()) for path in tmp_path.glob("runs/*/compare.json")}
    assert {name: [line["name"] for line in each["standings"]] for name, each in content.items()} == {
        "compare-1": ["even"], "compare-2": ["random_k"],
    }  # fmt: skip


def test_of_two_comparisons_in_one_folder_the_later_is_refused(here, tmp_path, monkeypatch, capsys):
    words = ["compare", "--data", here, "--jobs", "1", "--out", "out", *SMALL]
    begun_elsewhere = compare.begun_elsewhere

    def second(*arguments):
        monkeypatch.setattr(compare, "begun_elsewhere", begun_elsewhere)
        assert main([*words, "--rules", "random_k"]) == 0
        return []

    monkeypatch.setattr(compare, "begun_elsewhere", second)
    assert main([*words, "--rules", "even"]) == 2
    assert "another process has begun a comparison in out. Choose another --out." in capsys.readouterr().err
    assert [line["name"] for line in json.loads((tmp_path / "out/compare.json").read_text())["standings"]] == ["random_k"]


def test_a_comparison_that_was_killed_while_it_began_is_gone_on_with(here, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out/compare.json").touch()
    assert main(["compare", "--data", here, "--jobs", "1", "--out", "out", *SMALL, "--rules", "even", "--resume"]) == 0
    assert json.loads((tmp_path / "out/compare.json").read_text())["standings"]


def test_a_comparison_that_goes_on_with_other_threads_says_so(here, tmp_path, monkeypatch, capsys):
    words = ["compare", "--data", here, "--jobs", "1", "--out", "out", *SMALL, "--rules", "even", "random_k", "--resume"]
    assert main(words) == 0
    assert "digits" not in capsys.readouterr().err
    (tmp_path / "out/records/even-seed0.json").unlink()
    monkeypatch.setattr("rltok.evidence.runner.device_name", lambda *_: "another card")
    assert main(words) == 0
    text = "even-seed0: digits may differ from where they go on: begun on another device or with another number of threads"
    assert text in capsys.readouterr().err.splitlines()


def test_folders_are_numbered_on_and_one_left_empty_goes_again(tmp_path):
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs/demo-1").write_text("taken")
    with new_folder(None, "demo") as first, new_folder(None, "demo") as second:
        assert (str(first), str(second)) == ("runs/demo-2", "runs/demo-3")
    with pytest.raises(KeyboardInterrupt), new_folder(None, "demo"):
        raise KeyboardInterrupt
    with pytest.raises(ValueError), new_folder(None, "demo") as kept:
        (kept / "work").touch()
        raise ValueError
    assert sorted(path.name for path in (tmp_path / "runs").iterdir()) == ["demo-1", "demo-2", "demo-3", "demo-4"]


def test_a_folder_of_runs_that_leads_nowhere_is_named(tmp_path, capsys):
    (tmp_path / "runs").symlink_to(tmp_path / "a disk that is not there")
    assert main(["compare", "--rules", "even", "--budget", "smoke", "--device", "cpu"]) == 2
    assert "runs is no folder. Move it away, or choose another --out." in capsys.readouterr().err
