"""rltok.runs.results: the record of a run says everything a reader needs and nothing about this machine."""

import dataclasses
import json
import math
import os
import shutil
import subprocess

import pytest
import torch
from runs import TEXT, UPDATES, json_lines, small_config, write_text

import rltok
from rltok.config import from_dict
from rltok.flops import attention_flops_per_byte, flops_per_byte
from rltok.runs import results
from rltok.runs.results import RunRecord, device_name, repository_commit, thin, versions


@pytest.fixture(scope="module")
def record(finished):
    return json.loads((finished / "record.json").read_text(), parse_constant=pytest.fail)  # NaN and Infinity are no JSON


def strings(value):
    if isinstance(value, dict):
        yield from (text for pair in value.items() for part in pair for text in strings(part))
    elif isinstance(value, list):
        yield from (text for part in value for text in strings(part))
    elif isinstance(value, str):
        yield value


def test_a_record_has_every_field_and_repeats_what_was_asked_for(record):
    assert record.keys() == {field.name for field in dataclasses.fields(RunRecord)}
    assert from_dict(record["config"]) == small_config()
    assert record["config_hash"] == small_config().digest()
    assert (record["schema"], record["name"], record["note"], record["full"], record["seed"]) == (2, "tiny", "for tests", True, 0)
    assert record["precision"] == "fp32"
    assert record["peak_memory_bytes"] is None  # measured on CUDA only
    assert record["backend"] == "plain"
    assert record["versions"].keys() - {"triton"} == {"python", "torch", "rltok", "numpy"}  # Triton's where it is installed


def test_a_record_counts_what_was_trained(record, finished):
    assert record["updates"] == UPDATES
    lines = [line for line in json_lines(finished / "metrics.jsonl") if line["split"] == "train"]
    assert record["bytes"] == lines[-1]["bytes"] <= UPDATES * 4 * 64
    assert record["passes"] == pytest.approx(UPDATES * 4 / record["data"]["train"]["rows"])
    assert record["bytes_per_second"] == pytest.approx(record["bytes"] / record["seconds"])
    assert record["tokens"] == lines[-1]["tokens"]
    model = small_config().model
    rate = record["tokens"] / record["bytes"]
    assert record["flops"] == pytest.approx(record["bytes"] * flops_per_byte(model, rate))
    length = small_config().data.sequence_length
    assert record["attention_flops"] == pytest.approx(record["bytes"] * attention_flops_per_byte(model, rate, length))


def test_tokens_are_counted_over_all_updates(tmp_path):
    config = small_config(train__log_every=1)
    record = rltok.train(config, write_text(tmp_path), tmp_path / "run", device="cpu")
    lines = [line for line in json_lines(tmp_path / "run" / "metrics.jsonl") if line["split"] == "train"]
    counted = done = 0
    for line in lines:
        counted += line["tokens_per_byte"] * (line["bytes"] - done)
        done = line["bytes"]
        assert line["tokens"] == pytest.approx(counted)
    assert record.tokens == lines[-1]["tokens"] == round(counted)


def test_a_record_names_the_data_and_its_hash_and_no_path_of_this_machine(record, finished):
    data = record["data"]
    assert data["name"] == "text.txt"
    assert data["train"]["bytes"] + data["validation"]["bytes"] <= len(TEXT)
    assert len(data["train"]["hash"]) == 16
    assert not [text for text in strings(record) if os.sep in text]
    for name in ("metrics.jsonl", "snapshots.jsonl", "data.json", "config.json"):
        assert str(finished.parent) not in (finished / name).read_text()


def test_a_record_holds_the_curve_and_the_last_evaluation(record, finished):
    lines = [json.loads(line) for line in (finished / "metrics.jsonl").read_text().splitlines()]
    assert record["curve"] == [line for line in lines if line["split"] == "train"]
    assert record["evaluation"] == [line for line in lines if line["split"] == "validation"][-1]
    assert record["evaluation"]["standard_error"] > 0


@pytest.mark.parametrize(("points", "kept"), [(0, 0), (1, 1), (200, 200), (201, 200), (5000, 200)])
def test_a_curve_is_thinned_to_200_points_that_keep_both_ends_and_the_order(points, kept):
    curve = [{"step": i} for i in range(points)]
    thinned = [point["step"] for point in thin(curve, 200)]
    assert len(thinned) == kept
    assert thinned == sorted(set(thinned))
    if points:
        assert (thinned[0], thinned[-1]) == (0, points - 1)
    assert not thinned[1:] or max(b - a for a, b in zip(thinned, thinned[1:], strict=False)) <= math.ceil(points / 199)


def test_a_record_from_before_there_were_backends_still_reads(record):
    old = {key: value for key, value in record.items() if key != "backend"}
    assert RunRecord(**old).backend == "plain"


def test_saving_refuses_nan_and_leaves_the_old_record(record, tmp_path):
    RunRecord(**(record | {"name": "old"})).save(tmp_path / "record.json")
    with pytest.raises(ValueError, match="not JSON compliant"):
        RunRecord(**(record | {"name": "new", "seconds": math.nan})).save(tmp_path / "record.json")
    assert json.loads((tmp_path / "record.json").read_text())["name"] == "old"


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_the_commit_is_marked_when_the_tree_is_not_clean_and_unknown_outside_a_repository(tmp_path, monkeypatch):
    package = tmp_path / "rltok" / "runs"
    package.mkdir(parents=True)
    (package / "results.py").write_text("x = 1\n")
    monkeypatch.setattr(results, "__file__", str(package / "results.py"))
    assert repository_commit() is None
    results._commit_of.cache_clear()
    identity = ["-c", "user.name=n", "-c", "user.email=e@example.com"]
    for arguments in (["init", "-q"], ["add", "."], [*identity, "commit", "-qm", "first"]):
        subprocess.run(["git", "-C", str(tmp_path), *arguments], check=True)
    clean = repository_commit()
    assert len(clean) == 40
    (package / "results.py").write_text("x = 2\n")
    assert repository_commit() == clean  # of the code that runs, which was loaded before
    results._commit_of.cache_clear()
    assert repository_commit() == clean + "+changes"


@pytest.mark.parametrize("name", ["GIT_DIR", "GIT_COMMON_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY"])
def test_a_git_repository_that_the_environment_names_is_not_the_one_of_the_code(name, tmp_path, monkeypatch):
    own, other = tmp_path / "own", tmp_path / "other"
    commits = []
    for place in (own, other):
        (place / "rltok/runs").mkdir(parents=True)
        (place / "rltok/runs/results.py").write_text(f"# {place.name}\n")
        identity = ["-c", "user.name=n", "-c", "user.email=e@example.com"]
        for arguments in (["init", "-q"], ["add", "."], [*identity, "commit", "-qm", place.name]):
            subprocess.run(["git", "-C", str(place), *arguments], check=True)
        commits.append(subprocess.run(["git", "-C", str(place), "rev-parse", "HEAD"], capture_output=True, text=True).stdout)
    of_git = {"GIT_WORK_TREE": "", "GIT_INDEX_FILE": ".git/index", "GIT_OBJECT_DIRECTORY": ".git/objects"}.get(name, ".git")
    monkeypatch.setenv(name, str(other / of_git))
    monkeypatch.setattr(results, "__file__", str(own / "rltok/runs/results.py"))
    results._commit_of.cache_clear()
    assert repository_commit() == commits[0].strip()


def test_the_device_and_the_versions_are_named():
    name = device_name(torch.device("cpu"))
    assert name.startswith("cpu ") and name.endswith(f" {torch.get_num_threads()} threads")
    assert versions()["torch"] == torch.__version__


def test_a_copy_without_history_is_told_its_commit(monkeypatch):
    monkeypatch.setenv("RLTOK_COMMIT", "0123456789abcdef0123456789abcdef01234567")
    assert repository_commit() == "0123456789abcdef0123456789abcdef01234567"
