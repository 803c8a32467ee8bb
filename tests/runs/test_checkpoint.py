"""rltok.runs.checkpoint and rltok.runs.loading: what is written, what is noticed when it is read, and how a model comes back."""

import json
import shutil

import pytest
import safetensors.torch
import torch
from helpers import ragged_ids, random_uniforms
from runs import digests, small_config

import rltok
from rltok.config import with_settings
from rltok.errors import RltokError
from rltok.optim import make_optimizer
from rltok.runs.checkpoint import checkpoints, differences, find_checkpoint, load_weights, read_state, restore, save_checkpoint
from rltok.runs.loading import load, load_config
from rltok.runs.models import new_model
from rltok.step import train_step
from rltok.unet import AutoregressiveUNet

CONFIG = small_config()
CPU = torch.device("cpu")


def trained(config=CONFIG, steps=2):
    """A model and its optimizer after some updates."""
    model = new_model(config, CPU)
    optimizer = make_optimizer(model, config.train)
    for step in range(1, steps + 1):
        train_step(model, optimizer, [(ragged_ids([8, 5], seed=step), random_uniforms(2, 8, seed=step))], config, step)
    return model, optimizer


def save(folder, step=2, config=CONFIG):
    model, optimizer = trained(config)
    return (
        save_checkpoint(folder, {"step": step, "bytes": 26, "tokens": 7, "seconds": 1.5}, model, optimizer, config),
        model,
        optimizer,
    )


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    return save(tmp_path_factory.mktemp("saved"))


@pytest.fixture
def copy(saved, tmp_path):
    """A checkpoint that may be damaged."""
    return shutil.copytree(saved[0], tmp_path / "checkpoints" / saved[0].name)


def test_a_checkpoint_is_two_safetensors_files_and_a_state_and_nothing_is_pickled(saved):
    checkpoint = saved[0]
    assert checkpoint.name == "step-00000002"
    assert sorted(path.name for path in checkpoint.iterdir()) == ["model.safetensors", "optimizer.safetensors", "state.json"]
    for path in checkpoint.glob("*.safetensors"):
        data = path.read_bytes()
        assert json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])  # a length, then a JSON header: safetensors
    state = json.loads((checkpoint / "state.json").read_text())
    assert {key: state[key] for key in ("step", "bytes", "seconds", "config_hash")} == {
        "step": 2, "bytes": 26, "seconds": 1.5, "config_hash": CONFIG.digest(),
    }  # fmt: skip
    assert state["config"] == CONFIG.to_dict()


def test_restoring_gives_back_every_bit_of_weights_and_optimizer_and_training_goes_on_the_same(saved):
    checkpoint, model, optimizer = saved
    other, other_optimizer = new_model(with_settings(CONFIG, {"train.seed": 5}), CPU), None
    other_optimizer = make_optimizer(other, CONFIG.train)
    state = restore(checkpoint, other, other_optimizer, CONFIG)
    assert (state["step"], state["bytes"], state["seconds"]) == (2, 26, 1.5)
    batch = [(ragged_ids([8, 5], seed=9), random_uniforms(2, 8, seed=9))]
    for each, its_optimizer in ((model, optimizer), (other, other_optimizer)):
        train_step(each, its_optimizer, batch, CONFIG, 3)
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), other.parameters(), strict=True))
    first, second = optimizer.state_dict(), other_optimizer.state_dict()
    assert first["param_groups"] == second["param_groups"]
    for number, moments in first["state"].items():
        assert all(torch.equal(value, second["state"][number][key]) for key, value in moments.items())


def test_the_oldest_are_dropped_beyond_the_number_kept(tmp_path):
    for step in (2, 10, 9, 100):
        save(tmp_path, step, small_config(train__keep_checkpoints=3))
    assert [path.name for path in checkpoints(tmp_path)] == ["step-00000009", "step-00000010", "step-00000100"]
    assert len(list((tmp_path / "checkpoints").iterdir())) == 3


def test_leftovers_of_a_killed_write_are_no_checkpoint_and_are_cleared(tmp_path):
    for name in ("step-00000001.tmp", "step-00000000.old.tmp"):
        (tmp_path / "checkpoints" / name).mkdir(parents=True)
        (tmp_path / "checkpoints" / name / "model.safetensors").write_bytes(b"half")
    assert checkpoints(tmp_path) == []
    checkpoint, *_ = save(tmp_path)
    assert list((tmp_path / "checkpoints").iterdir()) == [checkpoint]


def test_saving_a_step_again_replaces_it_whole(tmp_path):
    save(tmp_path)
    checkpoint, model, _ = save(tmp_path)
    assert checkpoints(tmp_path) == [checkpoint]
    assert read_state(checkpoint)["step"] == 2


def test_a_write_that_fails_leaves_the_old_checkpoints_alone_and_says_what_to_do(tmp_path, monkeypatch):
    save(tmp_path)
    before = digests(tmp_path)

    def full(tensors, path):
        raise safetensors.SafetensorError("I/O error: No space left on device")

    monkeypatch.setattr(safetensors.torch, "save_file", full)
    with pytest.raises(RltokError, match=r"cannot write .*No space left.*Make room.*--resume"):
        save(tmp_path, 3)
    assert [path.name for path in checkpoints(tmp_path)] == ["step-00000002"]
    assert digests(tmp_path) == before


@pytest.mark.parametrize("name", ["model.safetensors", "optimizer.safetensors"])
@pytest.mark.parametrize("damage", ["truncated", "one bit", "empty"])
def test_damage_is_noticed_before_anything_is_loaded(copy, name, damage):
    data = bytearray((copy / name).read_bytes())
    data[-1] ^= 1
    (copy / name).write_bytes({"truncated": data[:-7], "one bit": data, "empty": b""}[damage])
    model = new_model(CONFIG, CPU)
    before = [parameter.clone() for parameter in model.parameters()]
    with pytest.raises(RltokError, match=f"{name} is truncated or changed.*Delete step-00000002 to go on"):
        restore(copy, model, make_optimizer(model, CONFIG.train), CONFIG)
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))


@pytest.mark.parametrize("name", ["model.safetensors", "optimizer.safetensors", "state.json"])
def test_a_missing_file_is_an_incomplete_checkpoint(copy, name):
    (copy / name).unlink()
    with pytest.raises(RltokError, match="not a complete checkpoint.*Delete step-00000002"):
        read_state(copy)


@pytest.mark.parametrize("content", ["", '{"format": 1, "fi', "[]", '{"format": 2}', '{"files": 3}', "\udcff"])
def test_a_state_that_is_damaged_is_an_incomplete_checkpoint(copy, content):
    (copy / "state.json").write_bytes(content.encode(errors="surrogateescape"))
    with pytest.raises(RltokError, match="not a complete checkpoint: state.json is damaged"):
        read_state(copy)


@pytest.mark.parametrize("number", [1, 3])
def test_a_format_of_another_version_is_named(copy, number):
    state = json.loads((copy / "state.json").read_text())
    (copy / "state.json").write_text(json.dumps(state | {"format": number}))
    with pytest.raises(RltokError, match=f"has format {number}; this version of rltok reads format 2"):
        read_state(copy)


def test_a_checkpoint_of_other_settings_is_refused_with_the_difference(saved):
    other = small_config(objective__gamma=0.5, train__seed=3)
    model = new_model(other, CPU)
    with pytest.raises(RltokError, match=r"objective\.gamma 0\.9 -> 0\.5; train\.seed 0 -> 3\. Use the same settings"):
        restore(saved[0], model, make_optimizer(model, other.train), other)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"model__mid_layers": 2}, "'mid_blocks.1.mlp.down.weight' stands on one side only"),
        ({"model__rule__lags": 4}, r"rule\.project\.weight is \(3, 16\), wanted \(5, 16\)"),
    ],
)
def test_weights_of_another_size_name_what_does_not_fit(saved, settings, said):
    with pytest.raises(RltokError, match=f"does not fit this model: .*{said}"):
        load_weights(saved[0], AutoregressiveUNet(small_config(**settings).model))


def test_differences_name_dotted_settings_and_ignore_the_name():
    old = {"name": "a", "x": {"y": 1, "z": 2}, "gone": 1}
    new = {"name": "b", "x": {"y": 1, "z": 3}, "new": None}
    assert differences(old, new) == ["gone 1 -> None", "x.z 2 -> 3"]


def test_a_path_means_the_newest_checkpoint_of_a_run_or_the_checkpoint_itself(finished, tmp_path):
    older, newest = checkpoints(finished)
    assert (older.name, newest.name) == ("step-00000006", "step-00000008")
    assert find_checkpoint(finished) == newest
    assert find_checkpoint(str(older)) == older
    run = shutil.copytree(finished, tmp_path / "step-1")  # a run may be called like a checkpoint
    assert find_checkpoint(run).parent.parent == run


def test_paths_without_a_checkpoint_say_what_to_do(tmp_path):
    with pytest.raises(RltokError, match="neither a run's folder nor a checkpoint. Train one: rltok train"):
        find_checkpoint(tmp_path / "absent")
    with pytest.raises(RltokError, match="no finished checkpoint.*--resume"):
        find_checkpoint(tmp_path)


def test_a_loaded_model_is_the_trained_one_in_evaluation_mode(finished):
    model = rltok.load(finished)
    weights = safetensors.torch.load_file(checkpoints(finished)[-1] / "model.safetensors")
    assert not model.training
    assert {name: tensor.tolist() for name, tensor in model.state_dict().items()} == {
        name: tensor.tolist() for name, tensor in weights.items()
    }
    assert load_config(finished) == small_config()
    older = load(checkpoints(finished)[0])
    assert not torch.equal(older.embedding.weight, model.embedding.weight)
