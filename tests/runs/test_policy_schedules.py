"""What happens to a policy in the course of a run: it goes on from a checkpoint as if never stopped, and pays for what it did."""

import json
import shutil

import numpy as np
import pytest
from runs import json_lines, small_config, write_text
from safetensors.numpy import load_file

import rltok
from rltok.flops import flops_per_byte

SETTINGS = {
    "draws that train": {"objective__draws": 2, "objective__further_draws": "train"},
    "antithetic": {"objective__draws": 4, "objective__further_draws": "antithetic"},
    "entropy": {"objective__lambda_entropy": 1.0, "objective__least_entropy": 0.6, "train__policy_anneal_fraction": 0.7},
    "dense": {"train__policy_first_rate": 0.8, "train__policy_anneal_fraction": 0.7},
    "warm": {"train__policy_first_temperature": 4.0, "train__policy_anneal_fraction": 0.7},
    "first multiplier": {"train__policy_first_multiplier": 20.0, "train__policy_start_fraction": 0.6},
    "beta2": {"train__policy_beta2": 0.9},
    "range": {"model__rule__lowest_rate": 0.1, "model__rule__highest_rate": 0.5, "objective__draws": 2},
    "range and restarts": {"model__rule__lowest_rate": 0.1, "model__rule__highest_rate": 0.5, "train__policy_restarts": 2},
    "restarts": {"train__policy_restarts": 2},  # after updates 2 and 4; the checkpoint is of update 3
}
pytestmark = pytest.mark.usefixtures("quick")


def trained(folder, **settings):
    """The folder and the record of a run of eight updates, with all its checkpoints and a line for each update."""
    config = small_config(train__keep_checkpoints=9, train__log_every=1, **settings)
    return config, rltok.train(config, write_text(folder), folder / "run")


@pytest.fixture(scope="module")
def plain(quick, tmp_path_factory):
    folder = tmp_path_factory.mktemp("plain")
    trained(folder)
    return json_lines(folder / "run" / "metrics.jsonl")


@pytest.mark.parametrize("name", SETTINGS)
def test_a_run_goes_on_from_its_third_update_as_if_never_stopped(name, plain, tmp_path):
    config, _ = trained(tmp_path, **SETTINGS[name])
    whole, again = tmp_path / "run", tmp_path / "again"
    shutil.copytree(whole, again)
    (again / "record.json").unlink()
    for step in (6, 8):
        shutil.rmtree(again / "checkpoints" / f"step-{step:08d}")
    rltok.train(config, str(tmp_path / "text.txt"), again, resume=True)
    lines = json_lines(whole / "metrics.jsonl")
    assert json_lines(again / "metrics.jsonl") == lines
    for file in ("model", "optimizer"):
        one, other = (load_file(run / "checkpoints" / "step-00000008" / f"{file}.safetensors") for run in (whole, again))
        assert one.keys() == other.keys() and all(np.array_equal(one[key], other[key]) for key in one)
    assert lines != plain  # the setting does something


def test_a_rate_that_anneals_is_charged_token_by_token_and_ends_where_it_is_wanted(tmp_path):
    config, record = trained(tmp_path, **SETTINGS["dense"])
    lines = [line for line in json_lines(tmp_path / "run" / "metrics.jsonl") if line["split"] == "train"]
    size, tokens = (np.diff([0, *(line[key] for line in lines)]) for key in ("bytes", "tokens"))
    assert len(size) == 8 and tokens[0] / size[0] > 0.6 and tokens[-1] / size[-1] < 0.35
    paid = sum(n * flops_per_byte(config.model, t / n) for n, t in zip(size, tokens, strict=True))
    assert record.flops == pytest.approx(paid, rel=1e-12)
    assert json.loads((tmp_path / "run" / "record.json").read_text())["flops"] == record.flops
