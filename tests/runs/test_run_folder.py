"""rltok.runs.folder: who may write a run's folder, and how its logs are wound back."""

import errno
import json
import os
import re

import pytest
from runs import digests, small_config

from rltok.errors import RltokError
from rltok.runs.folder import LOGS, RunFolder, check_folder

CONFIG = small_config()
DATA = {"name": "t", "train": {"hash": "aa"}, "validation": {"hash": "bb"}}


def claim(path, config=CONFIG, data=DATA, *, resume=False):
    return RunFolder(path, config, data, resume)


@pytest.fixture
def folder(tmp_path):
    """A folder that holds a run, which nobody is using."""
    claim(tmp_path / "run").close()
    return tmp_path / "run"


def test_a_new_folder_holds_settings_and_data(folder):
    assert json.loads((folder / "config.json").read_text()) == CONFIG.to_dict()
    assert json.loads((folder / "data.json").read_text()) == DATA


def test_a_second_run_is_refused_and_changes_nothing(folder):
    before = digests(folder)
    with pytest.raises(RltokError, match=r"already holds a run. Add --resume \(resume=True in Python\) to go on with it"):
        claim(folder)
    assert digests(folder) == before


def test_a_folder_of_somebody_else_is_refused_and_nothing_is_added(tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")
    for resume in (False, True):
        with pytest.raises(RltokError, match="not empty and holds no run. Choose a new folder"):
            claim(tmp_path, resume=resume)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_file_in_the_place_of_the_folder_or_of_its_parent_is_refused(tmp_path):
    file = tmp_path / "file"
    file.write_text("text")
    with pytest.raises(RltokError, match="is a file; --out needs a folder"):
        claim(file)
    with pytest.raises(RltokError, match="cannot write to .*Not a directory.*Choose a folder you may write to with --out"):
        claim(file / "run")
    assert file.read_text() == "text"


def test_a_folder_in_use_is_refused_until_its_owner_closes_it(tmp_path):
    owner = claim(tmp_path / "run")
    with pytest.raises(RltokError, match="another process is training in .*Wait for it, or choose another --out"):
        claim(tmp_path / "run", resume=True)
    owner.close()
    claim(tmp_path / "run", resume=True).close()


def test_a_refused_claim_does_not_keep_the_lock(folder):
    with pytest.raises(RltokError) as kept_alive:  # as a notebook keeps the last error, and with it the frames
        claim(folder, small_config(objective__gamma=0.5), resume=True)
    claim(folder, resume=True).close()
    assert "objective.gamma 0.9 -> 0.5" in str(kept_alive.value)


def test_other_settings_are_named_and_nothing_changes_but_the_name_is_free(folder):
    before = digests(folder)
    with pytest.raises(RltokError, match=r"another configuration: model\.mid_layers 1 -> 2; train\.seed 0 -> 1\."):
        claim(folder, small_config(model__mid_layers=2, train__seed=1), resume=True)
    assert digests(folder) == before
    claim(folder, small_config(name="other"), resume=True).close()


@pytest.mark.parametrize("split", ["train", "validation"])
def test_other_text_is_noticed_by_its_hash(folder, split):
    before = digests(folder)
    with pytest.raises(RltokError, match=f"was trained with other {split} text .*now cc.*Resume with the same text"):
        claim(folder, data=DATA | {split: {"hash": "cc"}}, resume=True)
    assert digests(folder) == before


@pytest.mark.parametrize(("name", "content"), [("config.json", "{"), ("data.json", "{"), ("data.json", None)])
def test_damaged_or_missing_descriptions_are_an_error_not_a_traceback(folder, name, content):
    (folder / name).unlink() if content is None else (folder / name).write_text(content)
    with pytest.raises(RltokError, match="damaged config.json or data.json.*choose another --out"):
        claim(folder, resume=True)


@pytest.mark.parametrize("names", [[], [".lock"], [".lock", ".data.json.tmp"], [".lock", "data.json", ".config.json.tmp"]])
def test_what_is_left_of_a_run_killed_at_its_very_start_is_taken_over(tmp_path, names):
    for name in names:
        (tmp_path / name).write_text("{")
    check_folder(tmp_path, resume=False)
    claim(tmp_path, resume=True).close()
    assert json.loads((tmp_path / "data.json").read_text()) == DATA


def write_logs(folder, *lines):
    for name in ("metrics.jsonl", "snapshots.jsonl"):
        (folder / name).write_text("".join(lines))


def rewound(path, step):
    folder = claim(path, resume=True)
    folder.rewind(step, {name: [(0, None), (3, None)] for name in LOGS})
    folder.log("metrics.jsonl", {"step": 99})
    folder.close()
    return (path / "metrics.jsonl").read_text()


def test_winding_back_drops_later_lines_and_half_a_line_and_appends_after_them(folder):
    write_logs(folder, '{"step": 0}\n', '{"step": 3}\n', '{"step": 4}\n', '{"step": 5, "nl')
    assert rewound(folder, 3) == '{"step": 0}\n{"step": 3}\n{"step": 99}\n'
    assert (folder / "snapshots.jsonl").read_text() == '{"step": 0}\n{"step": 3}\n'


def test_a_last_line_without_its_end_counts_as_half_even_if_it_reads_well(folder):
    write_logs(folder, '{"step": 0}\n', '{"step": 3}\n', '{"step": 3}')
    assert rewound(folder, 3) == '{"step": 0}\n{"step": 3}\n{"step": 99}\n'


def test_winding_back_to_the_start_empties_the_logs(folder):
    write_logs(folder, '{"step": 0}\n', "no JSON at all\n")
    assert rewound(folder, None) == '{"step": 99}\n'


DAMAGED = [
    "no JSON\n",
    "[1]\n",
    '{"nll": 1}\n',
    '{"step": null}\n',
    '{"step": 2, "nll": NaN}\n',
    "[" * 99_999 + "\n",
    '{"step": 0, "split": []}\n',
]


def refused_winding(folder, step):
    """The message of a rewind that must be refused, with the log left as it is."""
    before = digests(folder)
    opened = claim(folder, resume=True)
    with pytest.raises(RltokError) as refused:
        opened.rewind(step, {name: [(0, None), (3, None)] for name in LOGS})
    opened.close()
    assert digests(folder) == before
    return str(refused.value)


@pytest.mark.parametrize("bad", DAMAGED, ids=range(len(DAMAGED)))
def test_a_damaged_line_is_named_and_the_log_stays_as_it_is(folder, bad):
    write_logs(folder, '{"step": 0}\n', bad, '{"step": 3}\n')
    assert re.search(r"metrics\.jsonl, line 2 is damaged.*Restore the file", refused_winding(folder, 3))


def test_a_damaged_line_later_than_the_checkpoint_is_dropped_with_the_rest(folder):
    write_logs(folder, '{"step": 0}\n', '{"step": 3}\n', "\0\0\n", '{"step": 4}\n')
    assert rewound(folder, 3) == '{"step": 0}\n{"step": 3}\n{"step": 99}\n'


WRONG_LINES = {
    "none": ([], "lacks the line of step 0. Restore the file"),
    "the last one lost": ([0], "lacks the line of step 3."),
    "the first one lost": ([3], "lacks the line of step 0."),
    "one twice": ([0, 3, 3], "has a foreign or double line of step 3."),
    "one too many": ([0, 2, 3], "has a foreign or double line of step 2."),
    "the wrong way round": ([3, 0], "has a foreign or double line of step 3."),
}


@pytest.mark.parametrize("kind", WRONG_LINES)
def test_lines_that_are_not_those_of_the_training_are_named(folder, kind):
    steps, said = WRONG_LINES[kind]
    write_logs(folder, *(f'{{"step": {step}}}\n' for step in steps))
    assert f"metrics.jsonl {said}" in refused_winding(folder, 3)


def test_a_line_is_in_the_file_as_soon_as_it_is_logged(tmp_path):
    folder = claim(tmp_path / "run")
    folder.rewind(None, {})
    folder.log("metrics.jsonl", {"step": 1, "nll": 2.5})
    assert (tmp_path / "run/metrics.jsonl").read_text() == '{"step": 1, "nll": 2.5}\n'
    assert folder.metrics() == [{"step": 1, "nll": 2.5}]
    folder.close()


def test_a_run_from_before_a_setting_existed_goes_on(folder):
    older = CONFIG.to_dict()
    del older["model"]["rule"]["vocabulary"]
    (folder / "config.json").write_text(json.dumps(older))
    claim(folder, resume=True).close()


@pytest.mark.parametrize(("number", "goes"), [(errno.ENOSYS, True), (errno.ENOTSUP, True), (errno.EIO, False)])
def test_a_file_system_without_locks_is_written_to_without_one(tmp_path, monkeypatch, number, goes):
    """As some are that are mounted over a network, Google Drive perhaps among them; other trouble stays trouble."""

    def refuse(*_):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("fcntl.flock", refuse)
    if goes:
        claim(tmp_path / "run").close()
        assert json.loads((tmp_path / "run" / "config.json").read_text()) == CONFIG.to_dict()
    else:
        with pytest.raises(RltokError, match="cannot write to .*Input/output error"):
            claim(tmp_path / "run")
