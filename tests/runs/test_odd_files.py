"""Pipes, folders, devices and links where rltok expects a file of its own: refused before work, and nothing is waited for."""

import json
import os
import shutil
from pathlib import Path

import pytest
from runs import SETTINGS, as_options, digests, write_text

from rltok.cli.main import main
from rltok.runs.folder import OWN
from rltok.system.files import write_json

pytestmark = pytest.mark.usefixtures("shapes_unchecked")
SMALL = ["--preset", "tiny", *as_options(SETTINGS), "--device", "cpu"]


@pytest.fixture
def refused(ended):
    """What a command that must be refused says; in a process of its own, which a pipe might stop for good."""

    def run(*command):
        code, output = ended(command)
        assert code == 2 and output.count("\n") == 1, output
        return output

    return run


@pytest.fixture
def pipe(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    return tmp_path / "pipe"


def test_a_pipe_as_config_or_as_text_to_show_is_not_waited_for(pipe, finished, tmp_path, refused):
    text = write_text(tmp_path)
    output = refused("train", "--data", text, "--out", tmp_path / "run", "--config", pipe)
    assert "pipe is no ordinary file. Write the settings to one" in output and not (tmp_path / "run").exists()
    assert "pipe is no ordinary file. Pipe its text in: --file -" in refused("show", finished, "--file", pipe)


@pytest.mark.parametrize("name", [".lock", "train.arrow", "prepared.json"])
def test_a_pipe_in_a_prepared_folder_is_not_waited_for(name, tmp_path, refused):
    text, corpus = write_text(tmp_path), tmp_path / "corpus"
    command = ["prepare", text, "--out", str(corpus), "--cut", "windows", "--jobs", "1", "--sequence-length", "64"]
    assert main(command) == 0
    (corpus / name).unlink(missing_ok=True)
    os.mkfifo(corpus / name)
    output = refused(*(command if name != "train.arrow" else ["prepare", "--check", "--out", corpus]))
    assert (
        f"{name} of {corpus} is no ordinary file" in output if name == "train.arrow" else f"{name} is no ordinary file" in output
    )


@pytest.mark.parametrize("kind", ["link", "dangling link", "pipe", "folder"])
@pytest.mark.parametrize("name", OWN)
def test_a_run_is_refused_where_a_file_of_its_own_is_something_else(name, kind, finished, tmp_path, capsys):
    run, mine = shutil.copytree(finished, tmp_path / "run"), tmp_path / "mine"
    mine.write_text("years of work")
    (run / name).unlink(missing_ok=True)
    if kind == "folder":
        (run / name).mkdir()
    elif kind == "pipe":
        os.mkfifo(run / name)
    else:
        (run / name).symlink_to(mine if kind == "link" else tmp_path / "nowhere")
    before = digests(run)
    assert main(["train", *SMALL, "--data", write_text(tmp_path), "--out", str(run), "--resume"]) == 2
    output = capsys.readouterr().err
    assert (
        f"{name} is {'a link, through' if 'link' in kind else 'a folder' if kind == 'folder' else 'no ordinary file'}" in output
    )
    assert digests(run) == before and mine.read_text() == "years of work" and not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize("name", [".config.json.tmp", ".data.json.tmp", "metrics.tmp", "snapshots.tmp"])
def test_what_a_killed_run_left_is_not_written_through(name, finished, tmp_path):
    run, mine = shutil.copytree(finished, tmp_path / "run"), tmp_path / "mine"
    mine.write_text("years of work")
    (run / name).symlink_to(mine)
    assert main(["train", *SMALL, "--data", write_text(tmp_path), "--out", str(run), "--resume"]) == 0
    assert mine.read_text() == "years of work" and not (run / name).exists()


@pytest.mark.parametrize("name", ["compare.json", "compare.png"])
def test_a_comparison_writes_through_no_link(name, tmp_path, capsys):
    text, out, mine = write_text(tmp_path), tmp_path / "out", tmp_path / "mine"
    mine.write_text('{"what": "rltok compare"}')
    out.mkdir()
    (out / name).symlink_to(mine)
    assert main(["compare", "--rules", "even", *SMALL[:2], "--data", text, "--out", str(out), "--resume"]) == 2
    assert f"{name} is a link, through which rltok does not write" in capsys.readouterr().err
    assert mine.read_text() == '{"what": "rltok compare"}'


@pytest.mark.parametrize("command", ["bench", "variance"])
def test_a_record_is_written_through_no_link(command, tmp_path, capsys):
    target, link = tmp_path / "my record.json", tmp_path / "link.json"
    target.write_text('{"what": "rltok bench"}')
    link.symlink_to(target)
    assert main([command, "--out", str(link)]) == 2
    assert f"link.json is a link. Name the file itself: '{target}'" in capsys.readouterr().err
    assert target.read_text() == '{"what": "rltok bench"}'


def test_a_link_that_appears_at_the_last_moment_gives_way_and_its_target_stays(tmp_path):
    target, link = tmp_path / "target.json", tmp_path / "record.json"
    target.write_text("mine")
    link.symlink_to(target)
    write_json(link, {"a": 1})
    assert target.read_text() == "mine" and not link.is_symlink() and json.loads(link.read_text()) == {"a": 1}


@pytest.mark.parametrize("place", [Path("/dev/null"), Path("/dev/zero")])
def test_devices_are_no_place_for_a_run_and_no_text(place, finished, tmp_path, capsys):
    if not place.exists():
        pytest.skip("a device of Unix")
    text = write_text(tmp_path)
    assert main(["train", *SMALL, "--data", text, "--out", str(place)]) == 2
    assert main(["train", *SMALL, "--data", str(place), "--out", str(tmp_path / "run")]) == 2
    assert main(["train", "--config", str(place), "--data", text, "--out", str(tmp_path / "run")]) == 2
    assert main(["show", str(finished), "--file", str(place)]) == 2
    output = [line for line in capsys.readouterr().err.splitlines() if line.startswith("rltok: ")]
    assert len(output) == 4 and "is a file; --out needs a folder" in output[0]
    assert all("ordinary file" in line for line in output[1:]) and not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    "name",
    [
        "https://huggingface.co/me/mine", "HTTPS://www.huggingface.co/me/mine/tree/main", "huggingface.co/me/mine",
        "https://hf.co/me/mine/resolve/main/model.safetensors",
    ],
)  # fmt: skip
def test_an_address_of_the_hub_is_answered_with_the_name_to_give(name, run):
    told = run("show", name, "a", code=2).err
    assert f"{name} is an address" in told and "here hf:me/mine;" in told and told.count("\n") == 1


@pytest.mark.parametrize("name", ["https://example.org/x.safetensors", "ftp://me", "https://huggingface.co/datasets/me/mine"])
def test_any_other_address_is_no_folder_to_train_in(name, run):
    told = run("generate", name, "a", code=2).err
    assert f"{name} is an address" in told and "Give" not in told and "rltok train" not in told and ", here" not in told
