"""A model as one file: what rltok export writes is the model that was trained, and anything else in such a file is one line."""

import json
import re
import shutil

import huggingface_hub
import pytest
import safetensors.torch
import torch
from runs import small_config, write_text

import rltok
from rltok.config import with_settings
from rltok.errors import RltokError
from rltok.runs import loading
from rltok.runs.loading import load, load_config, locate, trained_on

TEXT = "Where do tokens end?"


@pytest.fixture(scope="module")
def exported(finished, tmp_path_factory):
    """The finished run as files of both precisions."""
    folder = tmp_path_factory.mktemp("exported")
    return {name: rltok.export(finished, folder / f"{name}.safetensors", bf16=name == "bf16") for name in ("fp32", "bf16")}


def header(path):
    data = path.read_bytes()
    return json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])


def rewritten(path, out, **facts):
    """A copy of a file of weights with other facts in its metadata; None drops one."""
    known = json.loads(header(path)["__metadata__"]["rltok"]) | facts
    known = {key: value for key, value in known.items() if value is not None}
    safetensors.torch.save_file(safetensors.torch.load_file(path), out, {"rltok": json.dumps(known)})
    return out


def test_a_file_is_the_run_to_the_bit(finished, exported):
    model, again = load(finished), load(str(exported["fp32"]))
    assert not again.training and again.config == model.config
    assert {name: each.tolist() for name, each in again.state_dict().items()} == {
        name: each.tolist() for name, each in model.state_dict().items()
    }
    assert load_config(exported["fp32"]) == small_config()
    assert trained_on(exported["fp32"]) == json.loads((finished / "data.json").read_text())


def test_bf16_is_half_the_size_and_each_weight_is_the_nearest_of_its_numbers(finished, exported):
    full, half = load(finished).state_dict(), load(exported["bf16"]).state_dict()
    assert all(each.dtype == torch.float32 for each in half.values())
    for name, each in full.items():
        torch.testing.assert_close(half[name], each, rtol=2**-8, atol=1e-30)
        assert half[name].tolist() == each.bfloat16().float().tolist()
    tensors = {name: spec for name, spec in header(exported["bf16"]).items() if name != "__metadata__"}
    assert {spec["dtype"] for spec in tensors.values()} == {"BF16"}
    assert exported["bf16"].stat().st_size < 0.6 * exported["fp32"].stat().st_size


def test_a_file_is_safetensors_with_json_in_its_header_and_names_no_folder_of_this_machine(finished, exported):
    facts = json.loads(header(exported["fp32"])["__metadata__"]["rltok"])
    assert facts["format"] == 1 and facts["config"] == small_config().to_dict()
    assert str(finished.parent) not in json.dumps(facts)


@pytest.mark.parametrize("rule", [{"model.rule.name": "bpe", "model.rule.vocabulary": 270}, {"model.rule.name": "entropy"}])
def test_what_a_rule_was_fitted_to_goes_along(rule, tmp_path):
    pytest.importorskip("tokenizers")
    small = {"model.rule.entropy_dim": 32, "model.rule.entropy_layers": 1, "model.rule.fit_bytes": 2000}
    config = with_settings(small_config(), {**rule, **small, "train.training_bytes": 256})
    rltok.train(config, write_text(tmp_path), tmp_path / "run")
    again = load(rltok.export(tmp_path / "run", tmp_path / "run.safetensors"))
    assert bool(again.rule.fitted)
    model = load(tmp_path / "run")
    assert rltok.boundary_view(again, TEXT, seed=0) == rltok.boundary_view(model, TEXT, seed=0)


def test_every_command_that_takes_a_run_takes_the_file(run, finished, exported):
    of_run, of_file = (run("show", name, TEXT, "--color", "never").out for name in (finished, exported["fp32"]))
    assert of_run == of_file
    for command in (["generate", "PLACE", "The", "--bytes", "20"], ["evaluate", "PLACE", "--max-bytes", "500"]):
        first, second = (run(*[str(place) if word == "PLACE" else word for word in command]).out for place in
                         (finished, exported["fp32"]))  # fmt: skip
        assert first == second
    small = ["--estimators", "naive", "--rows", "2", "--batches", "4", "--draws", "2", "--json"]
    told = run("variance", exported["fp32"], *small)
    assert json.loads(told.out)["config"] == small_config().to_dict()


def test_a_file_knows_what_it_was_trained_on(run, exported):
    told = run("evaluate", exported["fp32"], "--split", "test", code=2).err
    assert "was trained on text.txt. Name the text: --data TEXT" in told


def test_the_command_writes_it_and_says_how_to_look_at_it(run, finished, tmp_path):
    told = run("export", finished, tmp_path / "a model.safetensors", "--bf16").out
    assert f"rltok show '{tmp_path}/a model.safetensors' 'some text'" in told
    assert json.loads(run("export", finished, tmp_path / "b.safetensors", "--json").out)["bytes"] > 1000
    assert load(tmp_path / "a model.safetensors").config == small_config().model


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("taken.safetensors", "exists already. Name a new file."),
        ("model.bin", "model.bin must be a NAME.safetensors, by which others know what it is. Name it model.bin.safetensors."),
        ("M.SAFETENSORS", "Name it M.safetensors."),
        (".safetensors", "Name it model.safetensors."),
        ("none/model.safetensors", "there is no folder"),
        ("", "FILE is empty"),
    ],
)
def test_where_a_file_cannot_be_written_nothing_is(name, why, run, finished, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "taken.safetensors").write_text("mine")
    assert why in run("export", finished, name, code=2).err
    assert [path.name for path in tmp_path.iterdir()] == ["taken.safetensors"]
    assert (tmp_path / "taken.safetensors").read_text() == "mine"


def test_a_folder_that_takes_no_file_is_named_before_the_model_is_read(run, tmp_path, monkeypatch):
    def refuse(**named):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("rltok.system.files.tempfile.TemporaryFile", refuse)
    told = run("export", "no run", tmp_path / "m.safetensors", code=2).err
    assert f"FILE {tmp_path / 'm.safetensors'}: nothing can be written into {tmp_path}. Name a file in a folder of yours." in told


def test_a_full_disk_is_one_line_with_the_size_that_is_needed(run, finished, tmp_path, monkeypatch):
    def full(path, content):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("rltok.runs.export.write_bytes", full)
    told = run("export", finished, tmp_path / "m.safetensors", code=2).err
    assert re.search(r"cannot write .*m.safetensors \(No space left on device\). Make room for \d+ bytes, or name another", told)
    assert told.count("\n") == 1


def test_a_missing_file_is_no_model_of_the_hub(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(RltokError, match="there is no file models/mine.safetensors. Write one: rltok export RUN"):
        load("models/mine.safetensors")


def test_a_link_to_nothing_is_a_missing_file(tmp_path):
    (tmp_path / "mine.safetensors").symlink_to("gone")
    with pytest.raises(RltokError, match="there is no file .*mine.safetensors"):
        load(tmp_path / "mine.safetensors")


def test_a_checkpoint_may_have_the_name_of_a_file(finished, tmp_path):
    shutil.copytree(locate(finished), tmp_path / "step.safetensors")
    assert load(tmp_path / "step.safetensors").config == small_config().model


def test_a_run_whose_text_has_a_number_that_is_none_is_exported_without_it(finished, tmp_path):
    shutil.copytree(finished, tmp_path / "run")
    data = tmp_path / "run" / "data.json"
    data.write_text(json.dumps(json.loads(data.read_text()) | {"rows": float("nan")}))
    assert trained_on(rltok.export(tmp_path / "run", tmp_path / "run.safetensors")) is None


DAMAGE = {
    "cut off": (lambda data: data[: len(data) // 2], "is truncated, damaged or no safetensors file"),
    "empty": (lambda data: b"", "is truncated, damaged or no safetensors file"),
    "something else": (lambda data: b"PK\x03\x04" * 50, "is truncated, damaged or no safetensors file"),
    "a header that promises more": (lambda data: b"\xff" * 8 + data[8:], "is truncated, damaged or no safetensors file"),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_a_damaged_file_is_one_line(kind, run, exported, tmp_path):
    damage, why = DAMAGE[kind]
    path = tmp_path / "damaged.safetensors"
    path.write_bytes(damage(exported["fp32"].read_bytes()))
    told = run("show", path, TEXT, code=2).err
    assert why in told and told.count("\n") == 1


@pytest.mark.parametrize(
    ("facts", "why"),
    [
        ({"format": 2}, "has format 2; this version of rltok reads format 1. Use the version that wrote it."),
        ({"format": 0}, "has format 0; this version of rltok reads format 1. Use the version that wrote it."),
        ({"format": "x"}, "has format 'x'; this version of rltok reads format 1. Use the version that wrote it."),
        ({"format": None}, "its metadata is damaged ('format')"),
        ({"config": [1]}, "its metadata is damaged (config or data is no table)"),
        ({"data": "text"}, "its metadata is damaged (config or data is no table)"),
        ({"config_hash": "0" * 12}, "its metadata is damaged (config_hash is not that of its config)"),
        ({"config": {"modle": {}}}, "does not take its settings (config has no setting 'modle'. Did you mean 'model'?)"),
        ({"config": {"model": {"embedding_dim": 7}}}, "does not take its settings (model.embedding_dim=7 must be a multiple"),
    ],
)
def test_facts_that_this_version_does_not_know_are_one_line(facts, why, run, exported, tmp_path):
    told = run("show", rewritten(exported["fp32"], tmp_path / "other.safetensors", **facts), TEXT, code=2).err
    assert why in told and told.count("\n") == 1


@pytest.mark.parametrize(
    ("metadata", "why"),
    [
        (None, "holds weights without settings: rltok export did not write it"),
        ({"format": "pt"}, "holds weights without settings: rltok export did not write it"),
        ({"rltok": "{not JSON"}, "its metadata is damaged"),
        ({"rltok": "3"}, "its metadata is damaged"),
        ({"rltok": "[" * 100_000}, "its metadata is damaged"),
        ({"rltok": '{"format": 1, "data": {"rows": NaN}}'}, "its metadata is damaged (NaN is no number)"),
    ],
)
def test_metadata_of_others_is_one_line(metadata, why, run, exported, tmp_path):
    path = tmp_path / "other.safetensors"
    safetensors.torch.save_file(safetensors.torch.load_file(exported["fp32"]), path, metadata)
    told = run("show", path, TEXT, code=2).err
    assert why in told and told.count("\n") == 1


def test_tensors_that_are_not_the_models_are_named(exported, tmp_path):
    facts = {"rltok": header(exported["fp32"])["__metadata__"]["rltok"]}
    tensors = safetensors.torch.load_file(exported["fp32"])
    for name, changed, why in (
        ("foreign", {**tensors, "foreign": torch.zeros(2)}, "'foreign' stands on one side only"),
        ("nan", {**tensors, "embedding.weight": tensors["embedding.weight"] / 0}, "holds a number that is not finite"),
        ("few", {"embedding.weight": tensors["embedding.weight"]}, "and its settings name a model of at least"),
    ):
        safetensors.torch.save_file(changed, tmp_path / f"{name}.safetensors", facts)
        with pytest.raises(RltokError, match=why):
            load(tmp_path / f"{name}.safetensors")


def test_settings_of_a_giant_are_refused_before_it_is_made(exported, tmp_path, monkeypatch):
    giant = with_settings(small_config(), {"model.embedding_dim": 65_536, "model.num_heads": 4, "model.mid_layers": 1024})
    path = rewritten(exported["fp32"], tmp_path / "giant.safetensors", config=giant.to_dict(), config_hash=giant.digest())
    monkeypatch.setattr(loading, "FastUNet", pytest.fail)
    with pytest.raises(RltokError, match="and its settings name a model of at least"):
        load(path)


# Names


@pytest.mark.parametrize(
    ("name", "nearest"),
    [("dmeo", "demo"), ("DEMO", "demo"), ("demo/", "demo"),
     ("SMALL-ENGLISH", "small-english"), ("small english", "small-english"),
     ("english", "small-english"), ("engl", "small-english"), ("hf:small-english", "small-english")],
)  # fmt: skip
def test_an_unknown_name_tells_the_nearest(name, nearest, run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    told = run("show", name, TEXT, code=2).err
    assert told == f"rltok: there is no run, file or model {name!r}. Did you mean {nearest!r}?\n"


@pytest.mark.parametrize("name", ["something", "x", "me"])
def test_a_name_that_is_near_to_none_is_a_missing_run(name, run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert f"{name} is neither a run's folder nor a checkpoint. Train one: " in run("show", name, TEXT, code=2).err


@pytest.mark.parametrize("name", ["", " "])
def test_an_empty_name_is_not_this_folder(name, run, finished, monkeypatch):
    monkeypatch.chdir(finished)
    told = run("show", name, TEXT, code=2).err
    assert told.startswith("rltok: the name of a model is empty. Name a run's folder, ") and told.count("\n") == 1


def test_what_exists_goes_before_names_and_a_path_is_a_path(finished, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "demo").symlink_to(finished)
    assert load_config("demo") == small_config()
    (tmp_path / "demo").unlink()
    assert load_config("demo").name == "tiny" != small_config()
    with pytest.raises(RltokError, match="neither a run's folder nor a checkpoint"):
        locate(tmp_path / "demo")


# The hub


@pytest.fixture
def hub(monkeypatch, tmp_path, exported):
    """A hub that answers and has one model, me/mine; the names that it was asked for."""
    monkeypatch.chdir(tmp_path)
    asked = []

    def download(repository, file):
        asked.append((repository, file))
        if repository != "me/mine":
            raise OSError(f"404 Client Error.\nRepository {repository} is not there")
        return str(exported["bf16"])

    monkeypatch.setattr(loading, "hub_reachable", lambda timeout: True)
    monkeypatch.setattr(huggingface_hub, "hf_hub_download", download)
    return asked


@pytest.mark.parametrize("name", ["me/mine", "hf:me/mine"])
def test_a_model_of_the_hub_has_its_owners_name(name, hub, exported):
    assert locate(name) == exported["bf16"] and hub == [("me/mine", "model.safetensors")]
    assert load(name).config == small_config().model


def test_a_folder_goes_before_the_hub_and_so_does_what_would_lie_in_one(hub, finished, tmp_path):
    (tmp_path / "me").mkdir()
    with pytest.raises(RltokError, match="me/mine is neither a run's folder nor a checkpoint"):
        locate("me/mine")
    (tmp_path / "me" / "mine").symlink_to(finished)
    assert load_config("me/mine") == small_config() and hub == []
    assert locate("hf:me/mine") and hub


@pytest.mark.parametrize("name", ["a/b/c", "./a/b", "../b", "~/b", "/a/b", "hf:b", "a/", "/b", "a\\b"])
def test_other_paths_are_never_looked_up(name, hub):
    with pytest.raises(RltokError, match="neither a run's folder nor a checkpoint"):
        locate(name)
    assert hub == []


def test_a_name_is_looked_up_once_where_several_things_are_read_of_the_model(exported, tmp_path, monkeypatch):
    names = []
    monkeypatch.setattr(loading, "_from_hub", lambda name: names.append(name) or exported["fp32"])
    rltok.export("someone/model", tmp_path / "copy.safetensors")
    assert names == ["someone/model"]


def test_a_model_that_the_hub_does_not_have_is_one_line(hub, run):
    told = run("show", "me/other", TEXT, code=2).err
    assert "no run 'me/other' here, and model.safetensors of that name cannot be had" in told and "404 Client Error" in told
    assert told.count("\n") == 1


def test_without_a_network_an_earlier_download_is_taken_and_else_it_is_one_line(run, tmp_path, exported, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    told = run("show", "me/mine", TEXT, code=2).err
    assert "the Hugging Face hub cannot be reached" in told and told.count("\n") == 1
    kept = tmp_path / "cache" / "models--me--mine"
    (kept / "refs").mkdir(parents=True)
    (kept / "refs" / "main").write_text("abc")
    (kept / "snapshots" / "abc").mkdir(parents=True)
    (kept / "snapshots" / "abc" / "model.safetensors").symlink_to(exported["fp32"])
    assert load_config("me/mine") == small_config()


def test_a_name_that_the_hub_does_not_allow_is_one_line(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(RltokError, match="no run 'a--b/c' here, and .* Check the name."):
        load("a--b/c")


def test_a_hub_that_does_not_answer_is_given_less_than_three_seconds(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    given = []
    monkeypatch.setattr(loading, "hub_reachable", given.append)
    with pytest.raises(RltokError, match="cannot be reached"):
        load("nobody/nothing")
    assert 0 < given[0] < 3


def test_without_its_package_the_hub_says_how_to_get_it(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(__import__("sys").modules, "huggingface_hub", None)
    with pytest.raises(RltokError, match=r"pip install 'rltok\[data\]'"):
        load("me/mine")
