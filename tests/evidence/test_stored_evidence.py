"""Stored evidence: every record is whole and of a commit of this repository, and what is made of the records is up to date."""

import functools
import json
import subprocess

import pytest
from paths import ROOT

from rltok.config import from_dict
from rltok.evidence.packed import pack, read_folder
from rltok.evidence.record_checks import is_clean
from rltok.evidence.record_file import check
from rltok.evidence.records import SCHEDULE, read_sweeps

RESULTS = ROOT / "notebooks" / "results"
VARIED = (*SCHEDULE, "precision")
# Runs that are compared, that ask why, that look for the learning rate of those to come, and that go beyond the paper.
PLACES = (RESULTS / "sweeps", RESULTS / "best", RESULTS / "causes", RESULTS / "search", RESULTS / "rules", RESULTS / "beyond")
STORED = {folder / name: record for place in PLACES for folder in sorted(place.iterdir()) if folder.is_dir()
          for name, record in read_folder(folder).items()}  # fmt: skip
AGAIN = [path for path in STORED if path.parent.name == "repeats"]  # a seed that was run before
MOST_BYTES = 20_000  # of the facts of a run
MOST_A_RUN = 100_000  # bytes of a packed sweep for each of its runs
import make_figure_csv  # noqa: E402


@functools.cache  # records are many, and commits few
def git(*arguments):
    return subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, text=True).stdout.strip()


def test_there_are_records_to_check():
    assert STORED
    assert read_sweeps(RESULTS / "sweeps")


@pytest.mark.parametrize("path", STORED, ids=lambda path: str(path.relative_to(RESULTS).with_suffix("")))
def test_a_record_is_whole_small_and_where_it_belongs(path):
    """Its digest is over all that it says, in its facts and in the tables of its sweep."""
    record = check(STORED[path], path.name)
    folder = path.parents[1 if path in AGAIN else 0]
    name = path.stem.rpartition("-")[0] if path in AGAIN else path.stem
    assert folder.name == record["sweep"] and name == f"{record['name']}-seed{record['seed']}"
    assert path.stat().st_size < MOST_BYTES
    assert record["config"]["train"]["seed"] == record["seed"]


@pytest.mark.parametrize("path", STORED, ids=lambda path: str(path.relative_to(RESULTS).with_suffix("")))
def test_the_commit_of_a_record_is_one_of_this_repository(path):
    """A shallow clone does not hold old commits, and an archive none."""
    if not (ROOT / ".git").exists() or git("rev-parse", "--is-shallow-repository") != "false":
        pytest.skip("the history is not here")
    commit = STORED[path]["commit"]
    assert git("cat-file", "-t", commit) == "commit", (
        f"{commit} is no commit of this repository. Make the record again from a clean tree."
    )


OTHERS = [path for path in sorted(RESULTS.glob("*.json")) if path.name != "headers.json"]  # which is of notebooks


@pytest.mark.parametrize("path", OTHERS, ids=lambda path: path.stem)
def test_every_other_record_has_a_known_schema_a_clean_commit_and_the_hash_of_its_settings(path):
    record = json.loads(path.read_text())
    assert record["schema"] == 1
    commits = [run["commit"] for run in (record, *record.get("runs", [])) if "commit" in run]
    assert commits and all(is_clean(commit) for commit in commits)
    if "config" in record and path.stem != "toy":  # whose network has no norms, which no configuration may ask for
        assert from_dict(record["config"]).digest() == record["config_hash"]


def test_every_stored_sweep_is_packed_and_small():
    for folder in {path.parent for path in STORED if path not in AGAIN}:
        assert pack(folder) == [], f"run scripts/measure/pack_records.py {folder.relative_to(ROOT)}"
        runs = sum(path.is_relative_to(folder) for path in STORED)
        assert sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) < MOST_A_RUN * runs


def test_runs_of_a_sweep_were_scored_on_the_same_text_and_items():
    for sweep in [*read_sweeps(RESULTS / "sweeps").values(), *read_sweeps(RESULTS / "causes", VARIED).values()]:
        for place in ("validation", "test"):
            assert len({run["scores"][place]["hash"] for run in sweep.records if run["scores"][place]}) <= 1
        for task in ("piqa", "hellaswag", "arc_easy", "lambada"):
            scored = [run["scores"][task] for run in sweep.records if run["scores"].get(task)]
            assert len({(score["fingerprint"], score["items"]) for score in scored}) <= 1
        assert len({run["data"]["train"]["hash"] for run in sweep.records}) == 1


def test_a_seed_that_was_run_again_is_another_run_and_stands_in_its_sweep():
    kept = [run for place in PLACES for sweep in read_sweeps(place, VARIED).values() for run in sweep.everything]
    assert len({run["digest"] for run in kept}) == len(kept)
    assert {STORED[path]["digest"] for path in AGAIN} <= {run["digest"] for run in kept}


def test_figure_data_are_those_of_the_records():
    made = make_figure_csv.files()
    stored = {str(path.relative_to(make_figure_csv.FOLDER)): path.read_text() for path in make_figure_csv.FOLDER.glob("*/*.csv")}
    assert stored == made, "run scripts/book/make_figure_csv.py"


def test_records_hold_no_path_of_a_machine():
    for record in STORED.values():
        text = json.dumps({key: value for key, value in record.items() if key not in ("samples", "snapshots")})
        assert not any(place in text for place in ("/tmp/", "/root/", "/home/", "/work/"))
