"""rltok.runs.training: what a run does and leaves, what it repeats to the digit, and that it learns."""

import json
import math
import os
import re
import sys
from pathlib import Path

import pytest
import torch
from runs import SETTINGS, UPDATES, digests, json_lines, small_config, write_text

import rltok
from rltok.config import with_settings
from rltok.data import load_corpus
from rltok.errors import RltokError
from rltok.evaluation import evaluate
from rltok.optim import learning_rate
from rltok.runs import training
from rltok.runs.checkpoint import checkpoints, read_state
from rltok.runs.loading import load

pytestmark = pytest.mark.usefixtures("shapes_unchecked")
FIELDS = {
    "tokens",
    "step", "split", "bytes", "nll", "early_nll", "rate", "tokens_per_byte", "policy_entropy", "whitespace_share",
    "advantage_rms", "grad_norm", "grad_norm_rule", "learning_rate", "seconds", "bytes_per_second",
}  # fmt: skip


@pytest.fixture
def text(tmp_path):
    return write_text(tmp_path)


def test_a_run_leaves_these_files_and_no_others(finished):
    files = {name.split("/")[0] for name in digests(finished)}
    logs = {"metrics.jsonl", "snapshots.jsonl", "sessions.jsonl"}
    assert files == {".lock", "config.json", "data.json", "record.json", "checkpoints"} | logs


def test_lines_come_when_due_and_always_after_the_last_update(finished):
    lines = json_lines(finished / "metrics.jsonl")
    assert [line["step"] for line in lines if line["split"] == "train"] == [2, 4, 6, 8]
    assert [line["step"] for line in lines if line["split"] == "validation"] == [0, 5, 8]
    assert [path.name[-1] for path in checkpoints(finished)] == ["6", "8"]  # written after 3, 6 and 8; two are kept


def test_a_line_of_training_holds_every_metric_as_a_finite_number(finished):
    raw = [json.loads(line) for line in (finished / "metrics.jsonl").read_text().splitlines()]
    for line in raw:
        numbers = [value for value in line.values() if isinstance(value, int | float)]
        assert all(math.isfinite(number) for number in numbers)
        if line["split"] == "train":
            assert line.keys() == FIELDS
            assert None not in line.values()
            assert 0 < line["policy_entropy"] <= math.log(2)
            assert line["learning_rate"] == pytest.approx(learning_rate(line["step"] - 1, UPDATES, small_config().train))
            assert line["seconds"] > 0 and line["bytes_per_second"] > 0


def test_the_last_evaluation_is_that_of_the_saved_model_on_held_out_rows(finished, text):
    corpus = load_corpus(text, small_config().data)
    score = evaluate(load(finished), corpus.validation, seed=0, batch=2, max_rows=4).to_dict()
    line = json_lines(finished / "metrics.jsonl")[-1]
    assert {key: line[key] for key in score} == json.loads(json.dumps(score))


def test_the_same_seed_gives_the_same_digits_from_python_and_another_seed_others(finished, text, tmp_path):
    torch.manual_seed(99)  # the global state has no say, and stays as it is
    state = torch.get_rng_state()
    rltok.train(small_config(), text, tmp_path / "again")
    assert torch.equal(torch.get_rng_state(), state)
    rltok.train(small_config(train__seed=1), text, tmp_path / "other")
    for name in ("metrics.jsonl", "snapshots.jsonl"):
        assert json_lines(tmp_path / "again" / name) == json_lines(finished / name)
    again, other = (json_lines(tmp_path / name / "metrics.jsonl") for name in ("again", "other"))
    assert all(a["nll"] != b["nll"] for a, b in zip(again, other, strict=True) if a["split"] == "train")
    old = (finished / "checkpoints/step-00000008/model.safetensors").read_bytes()
    assert (tmp_path / "again/checkpoints/step-00000008/model.safetensors").read_bytes() == old


def test_a_corpus_may_be_given_instead_of_its_name(finished, text, tmp_path):
    rltok.train(small_config(), load_corpus(text, small_config().data), tmp_path / "run")
    assert json_lines(tmp_path / "run/metrics.jsonl") == json_lines(finished / "metrics.jsonl")


def test_a_corpus_cut_to_another_length_is_refused(text, tmp_path):
    corpus = load_corpus(text, small_config(data__sequence_length=32).data)
    with pytest.raises(RltokError, match="rows of 32 bytes, data.sequence_length is 64"):
        rltok.train(small_config(), corpus, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_logs_and_files_are_on_the_disk_before_a_checkpoint_gets_its_name(text, tmp_path, monkeypatch, short_snapshots):
    flushed, missing, rename, fsync = set(), [], Path.rename, os.fsync

    def note(handle):
        flushed.add(os.fstat(handle).st_ino)
        fsync(handle)

    def check(path, target):
        logs = [tmp_path / "run" / name for name in ("metrics.jsonl", "snapshots.jsonl")]
        if target.suffix != ".tmp":  # a checkpoint is named, not dropped
            missing.append([each.name for each in (path, *path.iterdir(), *logs) if each.stat().st_ino not in flushed])
            flushed.clear()
        return rename(path, target)

    monkeypatch.setattr(os, "fsync", note)
    monkeypatch.setattr(Path, "rename", check)
    rltok.train(small_config(), text, tmp_path / "run")
    assert missing == [[], [], []]


def poison_update(monkeypatch, number):
    """Before update `number`, one weight becomes NaN."""
    original = training.train_step

    def poisoned(model, optimizer, batches, config, step, **more):
        if step == number:
            with torch.no_grad():
                model.mid_blocks[0].out.weight[0, 0] = math.nan
        return original(model, optimizer, batches, config, step, **more)

    monkeypatch.setattr(training, "train_step", poisoned)


def test_a_nan_loss_stops_the_run_names_the_step_and_keeps_the_last_good_checkpoint(text, tmp_path, monkeypatch):
    out = tmp_path / "run"
    poison_update(monkeypatch, 7)
    with pytest.raises(RltokError, match="^update 7: loss nan"):
        rltok.train(small_config(), text, out)
    assert [path.name[-1] for path in checkpoints(out)] == ["3", "6"]
    assert all(weights.isfinite().all() for weights in load(out).parameters())
    assert read_state(checkpoints(out)[-1])["step"] == 6
    assert [line["step"] for line in json_lines(out / "metrics.jsonl")][-1] == 6
    assert not (out / "record.json").exists()


@pytest.mark.parametrize(
    ("update", "said"), [(5, "update 5: held-out bits per byte, not finite"), (6, "update 6: weights after it")]
)
def test_weights_that_an_update_made_nan_reach_neither_the_metrics_nor_a_checkpoint(update, said, text, tmp_path, monkeypatch):
    original = training.train_step

    def ruinous(model, optimizer, batches, config, step, **more):
        metrics = original(model, optimizer, batches, config, step, **more)
        if step == update:
            with torch.no_grad():
                model.output_head.weight.fill_(math.nan)
        return metrics

    monkeypatch.setattr(training, "train_step", ruinous)
    monkeypatch.setattr(training, "snapshot_steps", lambda updates: {0})
    with pytest.raises(RltokError, match=said):
        rltok.train(small_config(), text, tmp_path / "run")
    assert [path.name[-1] for path in checkpoints(tmp_path / "run")] == ["3"]
    assert "NaN" not in (tmp_path / "run/metrics.jsonl").read_text()


def test_progress_shows_bytes_per_second_and_time_left(text, tmp_path, capsys, monkeypatch, short_snapshots):
    rltok.train(small_config(), text, tmp_path / "lines", progress=True)
    lines = capsys.readouterr().err.splitlines()
    assert 3 <= len(lines) <= 11
    assert re.fullmatch(r"100%  [\d.]+ kB/s  0 s left  nll [\d.]+ rate [\d.]+", lines[-1])
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    rltok.train(small_config(), text, tmp_path / "bar", progress=True)
    last = capsys.readouterr().err.split("\r")[-1]
    assert "B/s" in last and "<" in last and "nll " in last
    rltok.train(small_config(), text, tmp_path / "silent")
    assert capsys.readouterr() == ("", "")


def test_tensorboard_gets_the_metrics(text, tmp_path, short_snapshots):
    loader = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator", exc_type=ImportError)
    rltok.train(small_config(), text, tmp_path / "run", tensorboard=True)
    events = loader.EventAccumulator(str(tmp_path / "run/tensorboard"))
    events.Reload()
    lines = [line for line in json_lines(tmp_path / "run/metrics.jsonl") if line["split"] == "train"]
    for key in ("nll", "grad_norm", "advantage_rms"):
        written = [(event.step, event.value) for event in events.Scalars(f"train/{key}")]
        assert written == [(line["step"], pytest.approx(line[key], rel=1e-6)) for line in lines]
    assert [event.step for event in events.Scalars("validation/bits_per_byte")] == [0, 5, 8]


def test_without_tensorboard_installed_the_error_names_the_extra_and_no_folder_is_begun(text, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(RltokError, match=r"pip install 'rltok\[board\]', or leave --tensorboard out"):
        rltok.train(small_config(), text, tmp_path / "run", tensorboard=True)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("rule", ["even", "random_k"])
def test_rules_without_a_policy_train_by_the_same_loop(rule, text, tmp_path, short_snapshots):
    record = rltok.train(small_config(model__rule__name=rule), text, tmp_path / "run")
    assert record.evaluation["policy_entropy"] is None
    assert record.evaluation["tokens_per_byte"] == pytest.approx(0.2, abs=0.02)


def test_bf16_forward_passes_keep_fp32_weights(text, tmp_path, short_snapshots):
    record = rltok.train(small_config(train__precision="bf16"), text, tmp_path / "run")
    assert record.precision == "bf16 autocast"
    assert {weights.dtype for weights in load(tmp_path / "run").state_dict().values()} == {torch.float32}


def test_a_tiny_model_memorises_one_sentence(tmp_path, short_snapshots):
    sentence = b"My grandmother keeps 23 bees in a red hive."
    config = with_settings(
        small_config(),
        SETTINGS | {
            "model.embedding_dim": 32, "data.sequence_length": 43, "data.held_out_fraction": 0.5, "train.learning_rate": 0.01,
            "train.sequences_per_update": 2, "train.training_bytes": 120 * 2 * 43, "train.evaluate_every": 120,
            "train.checkpoint_every": 120,
        },
    )  # fmt: skip
    path = write_text(tmp_path, sentence * 12)  # one row is one sentence, and so is every held-out row
    record = rltok.train(config, path, tmp_path / "run")
    curve = [point["nll"] for point in record.curve]
    assert curve[0] > 5  # about log 257
    assert record.evaluation["bits_per_byte"] < 0.05
    assert max(curve[-10:]) < 0.05


def test_the_loss_goes_down_within_a_few_updates(text, tmp_path, short_snapshots):
    config = small_config(train__training_bytes=25 * 256, train__log_every=1, train__evaluate_every=25)
    curve = [point["nll"] for point in rltok.train(config, text, tmp_path / "run").curve]
    assert len(curve) == 25
    assert sum(curve[-5:]) / 5 < curve[0] - 1.5


def test_every_point_is_in_the_metrics_and_at_most_200_of_them_are_in_the_record(text, tmp_path, monkeypatch, short_snapshots):
    assert training.CURVE_POINTS == 200
    monkeypatch.setattr(training, "CURVE_POINTS", 5)
    record = rltok.train(small_config(train__log_every=1), text, tmp_path / "run")
    assert sum(line["split"] == "train" for line in json_lines(tmp_path / "run/metrics.jsonl")) == UPDATES
    assert len(record.curve) == 5
    assert (record.curve[0]["step"], record.curve[-1]["step"]) == (1, UPDATES)
