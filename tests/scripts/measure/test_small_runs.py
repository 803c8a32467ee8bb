"""measure_rate_loss.py and measure_low_rank.py: runs equal those of `rltok train`, records resume and stay."""

import json
import math
import os
import sys

import measure_low_rank
import measure_memory
import measure_rate_loss
import pytest
import small_runs
import torch
from runs import json_lines, small_config, write_text

from rltok.config import with_settings
from rltok.data import load_corpus
from rltok.errors import RltokError
from rltok.evidence import measuring
from rltok.evidence.low_rank import LowRankHead
from rltok.policy import capped_rate, uncapped_rate
from rltok.rng import row_uniforms
from rltok.runs.training import train
from rltok.vocab import PAD

pytestmark = pytest.mark.usefixtures("shapes_unchecked", "short_snapshots")


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return load_corpus(write_text(tmp_path_factory.mktemp("text")), small_config().data)


def same(first, second):
    return all(torch.equal(a, b) for a, b in zip(first.parameters(), second.parameters(), strict=True))


def test_a_run_of_the_scripts_is_the_one_that_rltok_train_makes(corpus, tmp_path):
    config = small_config(train__log_every=1)
    train(config, corpus, tmp_path / "run")
    logged = [line for line in json_lines(tmp_path / "run" / "metrics.jsonl") if line["split"] == "train"]
    _, curve, seconds = small_runs.trained(config, corpus, lambda model: None)
    assert [(point["rate"], point["nll"]) for point in curve] == [(line["rate"], line["nll"]) for line in logged]
    assert seconds > 0


def test_rate_losses_change_the_run_and_none_is_lambda_target_0(corpus):
    config = small_config(objective__lambda_target=1.0)
    models = {
        name: small_runs.trained(config, corpus, lambda model: None, loss)[0] for name, loss in measure_rate_loss.LOSSES.items()
    }
    without = small_runs.trained(with_settings(config, {"objective.lambda_target": 0.0}), corpus, lambda model: None)[0]
    assert same(models["none"], without)
    assert not same(models["none"], models["logits"]) and not same(models["logits"], models["probabilities"])


@pytest.mark.parametrize("rate", [0.01, 0.8])
def test_a_bad_start_draws_at_its_rate_under_the_cap_and_the_targets_start_is_left_alone(rate, corpus):
    model = small_runs.new_model(small_config(), torch.device("cpu"))
    before = model.rule.bias
    measure_rate_loss.start_at(model, model.config.rule.target_rate)
    assert model.rule.bias == before
    measure_rate_loss.start_at(model, rate)
    free = 1 / (1 + math.exp(-model.rule.bias))
    assert capped_rate(free, model.config.rule.softcap) == pytest.approx(rate, rel=1e-12)


def test_a_run_is_recorded_with_both_held_out_rates_and_a_thinned_curve(corpus, monkeypatch):
    monkeypatch.setattr(small_runs, "CURVE_POINTS", 4)
    actual = measure_rate_loss.one_run("logits", 0.8, small_config(), corpus)
    assert (actual["loss"], actual["start"], actual["seed"], actual["updates"]) == ("logits", 0.8, 0, 8)
    assert len(actual["curve"]) == 4 and actual["curve"][0]["step"] == 1 and actual["curve"][-1]["step"] == 8
    assert actual["curve"][0]["rate"] == pytest.approx(actual["start_rate"], abs=1e-4)
    assert 0 < actual["held_out_rate_capped"] < 1 and 0 < actual["held_out_rate"] < 1
    assert json.loads(json.dumps(actual, allow_nan=False)) == actual


def test_the_two_held_out_rates_are_those_of_the_same_uniforms_with_and_without_the_cap(corpus):
    config = small_config(model__rule__softcap=1.5)
    model = small_runs.new_model(config, torch.device("cpu"))
    torch.nn.init.zeros_(model.rule.project.weight)
    measure_rate_loss.start_at(model, 0.8)
    ids = corpus.validation.ids(range(len(corpus.validation)))
    uniforms, drawn = row_uniforms(0, 0, range(len(ids)), ids.shape[1] - 1), ids[:, 1:] != PAD
    drawn[:, 0] = False
    capped, free = ((uniforms < p)[drawn].double().mean().item() for p in (0.8, uncapped_rate(0.8, 1.5)))
    assert measure_rate_loss.rate_under_the_cap(model, corpus, config) == pytest.approx(capped, rel=1e-12)
    assert small_runs.scored(model, corpus, config).rate == pytest.approx(free, rel=1e-12) and free > capped


def test_the_rank_of_147m_scaled_to_the_width_of_tiny_is_4():
    assert measure_low_rank.scaled_rank(small_runs.config_of(0, 1)) == round(47 * 64 / 768) == 4


def test_pairs_of_runs_differ_in_the_early_head_alone(corpus, monkeypatch):
    config, heads = small_config(), []
    monkeypatch.setattr(
        measure_low_rank, "scored",
        lambda model, *rest: heads.append(type(model.early_head)) or small_runs.scored(model, *rest),
    )  # fmt: skip
    full, low = (measure_low_rank.one_run(rank, config, corpus) for rank in (measure_low_rank.FULL, 2))
    assert heads == [torch.nn.Linear, LowRankHead]
    assert full["curve"][0]["rate"] == low["curve"][0]["rate"] and full["curve"][0]["nll"] == low["curve"][0]["nll"]
    assert full["bits_per_byte"] != low["bits_per_byte"]
    assert low["early_head_share"] / full["early_head_share"] == pytest.approx(2 * (16 + 257) / (257 * 16))
    whole = full | {"seed": 1, "bits_per_byte": 3.0}
    runs = [full | {"bits_per_byte": 2.0}, low | {"bits_per_byte": 2.5}, whole, whole | {"rank": 2, "bits_per_byte": 3.1}]
    (line,) = measure_low_rank.gaps(runs)
    assert line["bits_per_byte"] == pytest.approx(0.3) and line["bits_per_byte_standard_error"] == pytest.approx(0.2)
    assert measure_low_rank.gaps([low]) == [{"rank": 2}]
    assert measure_low_rank.verdict([line, {"rank": 3}]).endswith("full early head: rank 2 +0.3000 ± 0.2000")


def test_the_verdict_tells_the_span_of_rates_by_loss_and_start():
    places = (("none", 0.2, 0.99), ("logits", 0.2, 0.19), ("logits", 0.01, 0.2), ("logits", 0.8, 0.3), ("logits", 0.8, 0.1))
    text = measure_rate_loss.verdict([{"loss": loss, "start": start, "rate": rate} for loss, start, rate in places])
    assert text.endswith(
        "none at the target 0.990 to 0.990, logits at the target 0.190 to 0.190, logits far from the target 0.100 to 0.300"
    )


@pytest.mark.parametrize("module", [measure_rate_loss, measure_low_rank])
def test_a_record_goes_on_where_it_stopped_and_other_files_stay(module, corpus, tmp_path, monkeypatch, capsys):
    made, path = [], tmp_path / "record.json"

    def one_run(*arguments):
        made.append(arguments)
        config = arguments[-2]
        keys = {"rank": arguments[0]} if module is measure_low_rank else dict(zip(("loss", "start"), arguments, strict=False))
        numbers = {"rate": 0.2, "start_rate": 0.2, "bits_per_byte": 2.0, "early_bits_per_byte": 2.5}
        return {**keys, **numbers, "seed": config.train.seed, "config_hash": config.digest()}

    monkeypatch.setattr(module, "one_run", one_run)
    monkeypatch.setattr(small_runs, "load_corpus", lambda *_: corpus)

    def call(*words):
        monkeypatch.setattr(sys, "argv", ["script.py", "--out", str(path), *words])
        measuring.run(module.main)
        return json.loads(path.read_text())

    first = call("--seeds", "0", "0")
    count = 2 if module is measure_low_rank else 9
    assert len(made) == len(first["runs"]) == count and first["full"]
    more = call("--seeds", "1", "0")
    assert len(made) == 2 * count and [run for run in more["runs"] if run["seed"] == 0] == first["runs"]
    stored = path.read_text()
    damages = [{"runs": value} for value in (None, [1], [{}], [{key: first["runs"][0][key] for key in ("seed", "config_hash")}])]
    refused = [({}, ["--updates", "9"]), ({"data": {}}, []), ({"what": "x"}, []), ({"schema": 2}, []), ({}, ["--updates", "0"])]
    for change, words in refused + [(damage, []) for damage in damages]:
        path.write_text(json.dumps(json.loads(stored) | change))
        with pytest.raises(SystemExit) as text:
            call("--seeds", "0", *words)
        assert text.value.code == 2 and capsys.readouterr().err.splitlines()[-1].startswith("script.py: --")
    assert len(made) == 2 * count


def test_runs_of_another_record_are_refused(tmp_path):
    with pytest.raises(RltokError, match="there is no folder"):
        measuring.stored_runs(tmp_path / "none" / "x.json", "what", lambda actual: 0, lambda actual: small_config(), dict)


def test_a_file_that_cannot_become_the_record_is_told_before_anything_is_measured(tmp_path):
    pipe, deep = tmp_path / "pipe", tmp_path / "deep.json"
    os.mkfifo(pipe)
    deep.write_text("[" * 100_000)
    for path, text in ((pipe, "is no ordinary file"), (deep, "is no record of this command"), (tmp_path, "is a folder")):
        with pytest.raises(RltokError, match=text):
            measuring.stored_record(path, "anything")


NO_FOLDER = ["--presets", "147m", "--out", "no/such/folder/memory.json"]


@pytest.mark.parametrize("more", [["--presets", "nope"], NO_FOLDER, ["--presets", "147m"]])
def test_the_memory_of_a_card_is_measured_only_where_it_can_be(more, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(measure_memory, "measure", lambda *_: pytest.fail("measured"))
    monkeypatch.setattr(sys, "argv", ["measure_memory.py", "--out", str(tmp_path / "memory.json"), *more])
    with pytest.raises(SystemExit) as ended:
        measuring.run(measure_memory.main)
    (line,) = capsys.readouterr().err.splitlines()
    assert ended.value.code == 2 and line.startswith("measure_memory.py: ")
