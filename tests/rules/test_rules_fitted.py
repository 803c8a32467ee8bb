"""Rules that look at text alone, inside a model: causality, checkpoints, runs that are killed, and commands afterwards."""

import json
import os

import pytest
import torch
from fitted import FITTED, fitted_model
from helpers import ragged_ids, random_uniforms
from killed_runs import SHORT_TEXT
from runs import TEXT, digests, json_lines, kill_run, small_config, write_text
from safetensors.torch import load_file
from test_causality import LENGTHS, TOLERANCE, assert_past_is_untouched, check_every_place, outputs

import rltok
from rltok.cli.main import main
from rltok.errors import RltokError
from rltok.rules.bpe import BpeRule
from rltok.rules.entropy import EntropyRule
from rltok.runs.checkpoint import checkpoints, load_weights

pytestmark = pytest.mark.usefixtures("shapes_unchecked")

# Causality of the whole model


@pytest.mark.parametrize("rule", ["whitespace", "entropy", "bpe_causal"])
def test_a_byte_changes_nothing_before_it(rule):
    model = fitted_model(rule, dtype=torch.float64)
    held = [bits for batch in LENGTHS for bits in check_every_place(model, batch, seed=batch)]
    assert any(held)


def caught_looking_ahead(rule):
    """Places at which another byte moved something before it, in English on which the tokenizer has long tokens."""
    model, ids = fitted_model(rule, dtype=torch.float64), torch.tensor([[256, *b"on the mat, and 12 cats"]])
    before, caught = outputs(model, ids), []
    for j in range(2, ids.shape[1] - 1):
        other = ids.clone()
        other[0, j] = ord("q")
        after = outputs(model, other)
        assert torch.equal(after["early_nll"][:, : j - 1], before["early_nll"][:, : j - 1])  # the byte layers never do
        try:
            assert_past_is_untouched(before, after, j)
        except AssertionError:
            shift = (after["log_probs"] - before["log_probs"])[:, :j].nan_to_num().abs().max()
            assert shift > 1e-4  # far from rounding: predictions of earlier bytes moved
            caught.append(j)
    return caught


def test_shifted_bpe_fails_the_test_of_causality_that_causal_bpe_passes():
    assert len(caught_looking_ahead("bpe")) >= 5
    assert caught_looking_ahead("bpe_causal") == []


@pytest.mark.parametrize("rule", FITTED)
def test_a_short_row_in_a_batch_equals_the_row_alone(rule):
    model, lengths = fitted_model(rule, dtype=torch.float64), LENGTHS[5]
    ids, uniforms = ragged_ids(lengths), random_uniforms(5, 13)
    together = outputs(model, ids, uniforms=uniforms)
    for row, length in enumerate(lengths):
        n = max(1, length)
        alone = outputs(model, ids[row : row + 1, : n + 1], uniforms=uniforms[row : row + 1, :n])
        assert torch.equal(alone["boundaries"][0], together["boundaries"][row, :n])
        for name, value in alone.items():
            torch.testing.assert_close(value[0], together[name][row, :n], rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("rule", FITTED)
def test_gradients_flow_and_scores_are_finite_where_a_rule_draws_nothing(rule):
    model = fitted_model(rule)
    for text in (b"a" * 12, b" " * 12, b"\xff" * 12, bytes(range(128, 140))):
        ids = torch.tensor([[256, *text]])
        out = model(ids)
        (out.nll.sum() + out.early_nll.sum()).backward()
        assert out.boundaries[0, 0] and out.nll.isfinite().all()


# Runs


def config_of(rule):
    return small_config(**{f"model__rule__{key}": value for key, value in FITTED[rule].items()}, train__training_bytes=6 * 256)


@pytest.fixture(scope="module", autouse=True)
def one_short_text():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("rltok.runs.snapshots.FIXED_TEXTS", {"short": SHORT_TEXT})
        yield


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    return write_text(tmp_path_factory.mktemp("text"))


@pytest.fixture(scope="module")
def whole(text, tmp_path_factory):
    """Uninterrupted runs by rule: folder and record."""
    made = {}

    def run(rule):
        if rule not in made:
            folder = tmp_path_factory.mktemp(rule) / "run"
            made[rule] = folder, rltok.train(config_of(rule), text, folder)
        return made[rule]

    return run


def assert_same_run(out, whole):
    for name in ("metrics.jsonl", "snapshots.jsonl"):
        assert json_lines(out / name) == json_lines(whole / name)
    for name in ("model", "optimizer"):
        ours, theirs = (load_file(checkpoints(run)[-1] / f"{name}.safetensors") for run in (out, whole))
        assert ours.keys() == theirs.keys() and all(torch.equal(ours[key], theirs[key]) for key in ours)


@pytest.mark.parametrize("rule", ["entropy", "bpe_causal"])
@pytest.mark.parametrize("call", [1, 5], ids=["before the first checkpoint", "after it"])
def test_a_killed_run_resumes_to_the_same_bits_and_fits_again_only_if_it_had_no_checkpoint(
    rule, call, children, text, whole, tmp_path, monkeypatch
):
    kill_run(children, config_of(rule), text, tmp_path / "run", "train_step", call)
    fits = []
    for cls in (EntropyRule, BpeRule):
        original = cls.fit
        monkeypatch.setattr(cls, "fit", lambda *args, original=original: (fits.append(args[0].name), original(*args))[1])
    rltok.train(config_of(rule), text, tmp_path / "run", resume=True)
    assert len(fits) == (call == 1)
    assert_same_run(tmp_path / "run", whole(rule)[0])


@pytest.mark.parametrize("rule", FITTED)
def test_the_same_run_again_is_the_same_to_the_bit(rule, text, whole, tmp_path):
    rltok.train(config_of(rule), text, tmp_path / "run")
    assert_same_run(tmp_path / "run", whole(rule)[0])


@pytest.mark.parametrize("rule", FITTED)
def test_a_finished_run_loads_scores_and_shows_with_nothing_but_its_checkpoint(rule, whole, tmp_path, capsys):
    folder, record = whole(rule)
    lonely = tmp_path / "elsewhere"
    (lonely / "checkpoints").mkdir(parents=True)
    os.rename(checkpoints(folder)[-1], lonely / "checkpoints" / checkpoints(folder)[-1].name)
    try:
        model = rltok.load(lonely)
        assert model.rule.facts() == record.fitted
        (tmp_path / "new.txt").write_bytes(TEXT[:700])
        assert main(["evaluate", str(lonely), "--data", str(tmp_path / "new.txt"), "--json"]) == 0
        assert 0 <= json.loads(capsys.readouterr().out)["rate"] <= 1
        assert main(["show", str(lonely), "The cat sat on the mat", "--json"]) == 0
        shown = json.loads(capsys.readouterr().out)
        assert len(shown["boundaries"]) == 22 and shown["probabilities"] is None
    finally:
        moved = next((lonely / "checkpoints").iterdir())
        os.rename(moved, folder / "checkpoints" / moved.name)


def test_the_record_names_what_was_fitted(whole):
    assert set(whole("entropy")[1].fitted) == {"threshold"} and whole("whitespace")[1].fitted == {}
    assert 256 < whole("bpe")[1].fitted["reached_vocabulary"] <= 300
    stored = json.loads((whole("bpe")[0] / "record.json").read_text())
    assert stored["fitted"] == whole("bpe")[1].fitted
    assert not [name for name in digests(whole("bpe")[0]) if "token" in name or name.endswith(".pt")]


def test_training_says_which_vocabulary_was_reached(text, tmp_path, capsys):
    config = small_config(model__rule__name="bpe", train__training_bytes=2 * 256)
    rltok.train(config, text, tmp_path / "run", progress=True)
    output = capsys.readouterr().err
    assert "the rule bpe was fitted: reached_vocabulary 2" in output or "the rule bpe was fitted: reached_vocabulary 3" in output


def test_a_checkpoint_of_another_vocabulary_does_not_fit_and_says_so(whole):
    folder = whole("bpe")[0]
    other = small_config(**{f"model__rule__{key}": value for key, value in (FITTED["bpe"] | {"vocabulary": 310}).items()})
    model = rltok.AutoregressiveUNet(other.model)
    with pytest.raises(RltokError, match=r"does not fit this model: rule\.merges is \(44, 2\), wanted \(54, 2\)"):
        load_weights(checkpoints(folder)[-1], model)
