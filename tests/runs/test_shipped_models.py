"""The models that come with rltok: scores made again are those that stand beside them; card, record and file belong together."""

import ast
import hashlib
import json
import re
import shlex
import sys
from collections import Counter
from pathlib import Path

import pytest
import ship_model
import torch
from ship_model import MODELS, PLACED_BYTES, SCORED_BYTES, card, overlap, passages, places_of

import rltok
from rltok.cli.commands import _settings
from rltok.cli.options import parse
from rltok.config import from_dict
from rltok.data import documents, load_corpus
from rltok.explore.kinds import added
from rltok.runs.models import new_model
from rltok.runs.shipped import FOLDER, card_of, facts_of, shipped_models, weights_of

pytestmark = pytest.mark.usefixtures("shapes_unchecked")
ROOT = Path(__file__).resolve().parents[2]
each_model = pytest.mark.parametrize("name", shipped_models())


def test_every_model_has_its_three_files_and_its_words():
    assert {path.name for path in FOLDER.iterdir()} == {
        f"{name}.{kind}" for name in shipped_models() for kind in ("safetensors", "json", "md")
    }
    assert "demo" in shipped_models() and set(shipped_models()) <= MODELS.keys()


@each_model
def test_the_stored_scores_are_those_of_the_stored_weights(name, run):
    facts = facts_of(name)
    command = shlex.split(facts["measured_by"])
    assert command[:3] == ["rltok", "evaluate", name]
    again = json.loads(run(*command[1:], "--device", "cpu", "--json").out)
    assert again["bits_per_byte"] == pytest.approx(facts["scores"]["bits_per_byte"], abs=1e-4)
    assert again["rate"] == pytest.approx(facts["scores"]["rate"], abs=1e-3)
    assert again["whitespace_share"] == pytest.approx(facts["scores"]["whitespace_share"], abs=1e-3)
    assert again["scored_bytes"] == facts["scores"]["scored_bytes"]
    for score, (low, high) in MODELS[name]["limits_of_scores"].items():
        assert low < again[score] < high
    assert (again["whitespace_share"] > again["rate"]) == (name != "small-python"), "more often than chance gives"


@each_model
def test_the_places_of_boundaries_are_counted_anew_and_bear_out_the_words_of_the_card(name):
    again = places_of(name, weights_of(name))
    stored = facts_of(name)["places"]
    kinds = {kind: added(counts) for kind, counts in again.items()}
    assert sum(there for _, there in kinds.values()) == PLACED_BYTES and again.keys() == stored.keys()
    for kind, counts in again.items():
        assert counts.keys() == stored[kind].keys()
        for sign, (drawn, there) in counts.items():
            assert there == stored[kind][sign][1] and abs(drawn - stored[kind][sign][0]) <= max(3, 0.01 * there)
    shares = {sign: added({kind: counts[sign] for kind, counts in again.items() if sign in counts}) for sign in "([mr"}
    for what, (low, high) in MODELS[name]["limits_of_places"].items():
        drawn, there = kinds.get(what) or shares[what]
        assert low <= drawn / there <= high
    consonants = sum(kinds[kind][0] for kind in ("first consonants of a word", "other consonant"))
    most = "consonants" if consonants > sum(drawn for drawn, _ in kinds.values()) / 2 else "others"
    assert most == ("consonants" if name == "small-python" else "others")


@each_model
def test_no_kind_of_the_table_hides_what_its_bytes_do(name):
    """Each byte that is there often, but where it is the only one of its kind, is named once, in the list of what was counted."""
    drawn, there = Counter(), Counter()
    for kind, counts in facts_of(name)["places"].items():
        often = [sign for sign, (_, number) in counts.items() if number >= 20]
        for sign, (boundaries, number) in counts.items():
            alone = often == [sign] and kind in ("end of a line", "other white space")
            drawn[sign] += 0 if alone else boundaries
            there[sign] += 0 if alone else number
    lists = Counter()
    for line in re.findall(
        r"^[A-Z].*, those that are there at least 20 times: (.*)\.$", card_of(name).replace("`` ` ``", "`tick`"), re.M
    ):
        for told in re.split("; (?=nearly|in between|hardly|never)", line):
            how, signs = re.fullmatch(r"(.*?)(?: \(.*?\))? after (.*)", told).groups()
            lists.update(("`" if sign == "tick" else sign, how) for sign in re.findall("`([^`]+)`", signs))
    expected = {}
    for sign in (sign for sign, number in there.items() if number >= 20):
        share = round(100 * drawn[sign] / there[sign])
        low = "hardly ever" if drawn[sign] else "never"
        expected[sign, "nearly always" if share >= 95 else low if share <= 5 else "in between"] = 1
    assert lists == expected and len(expected) > 30


@each_model
def test_the_words_of_a_card_follow_from_its_counts(name):
    told = re.findall(r"\{(.*?)\} (\w+)", MODELS[name]["places"])
    assert len(told) > 3
    for kind, noun in told:
        for drawn, word in {0: "no", 1: "hardly any", 30: "some", 60: "most", 95: "nearly all"}.items():
            facts = facts_of(name)
            facts["places"][kind] = {"x": [drawn, 100]}
            assert f" {word} {noun}" in card(facts).split("| byte |")[0]


@each_model
def test_a_card_that_names_files_of_the_repository_says_where_they_are(name):
    assert "in the root of a clone" in card_of(name)
    given = parse(shlex.split(facts_of(name)["measured_by"])[1:]).data
    assert given == "sample" or (ROOT / given).is_file()


@each_model
def test_a_model_of_code_shows_code(name, run):
    """Where no text is given, and in the first command of its card; other models show no code."""
    command = shlex.split(re.search(r"^    rltok (show .*)", card_of(name), re.M)[1])
    assert command[:2] == ["show", name]
    for text in (command[2], bytes(json.loads(run("show", name, "--json").out)["bytes"]).decode()):
        try:
            kind = "Python code" if ast.parse(text) else ""
        except SyntaxError:
            kind = "English"
        assert kind == facts_of(name)["language"]


@each_model
def test_rounding_to_bf16_costs_less_than_a_hundredth_of_a_bit(name):
    model, record = rltok.load(name), facts_of(name)["record"]
    assert model.config == from_dict(record["config"]).model
    # the run's own score is of its validation rows, in full precision; of the sample's models these are at hand
    if record["data"]["name"] == "sample":
        config = from_dict(record["config"])
        rows = load_corpus("sample", config.data).validation
        scores = rltok.evaluation.evaluate(model, rows, seed=config.train.seed, batch=32, max_rows=record["evaluation"]["rows"])
        assert scores.bits_per_byte == pytest.approx(record["evaluation"]["bits_per_byte"], abs=0.01)


@each_model
def test_what_is_said_of_the_file_is_true(name):
    facts, data = facts_of(name), weights_of(name).read_bytes()
    assert (facts["file_bytes"], facts["sha256"]) == (len(data), hashlib.sha256(data).hexdigest())
    assert len(data) <= MODELS[name]["most_bytes"]
    assert facts["parameters"] == sum(each.numel() for each in rltok.load(name).parameters())


@each_model
def test_the_recipe_is_the_command_of_the_run(name):
    facts = facts_of(name)
    config, note = _settings(parse(shlex.split(facts["recipe"])[1:]))
    record = facts["record"]
    assert config.digest() == record["config_hash"] == from_dict(record["config"]).digest()
    assert re.fullmatch(r"[0-9a-f]{40}", record["commit"]), "made from a clean tree"
    assert record["full"] and record["updates"] == config.num_updates


@pytest.mark.parametrize("name", MODELS)
def test_every_recipe_can_be_followed_and_gives_a_file_of_the_size_that_is_allowed(name):
    command = shlex.split(MODELS[name]["recipe"])
    config, _ = _settings(parse(command[1:]))
    parameters = sum(each.numel() for each in new_model(config, torch.device("cpu")).parameters())
    assert command[:2] == ["rltok", "train"] and 2 * parameters <= 0.99 * MODELS[name]["most_bytes"]  # and the settings inside
    assert command[-1] == f"runs/{name}"


@pytest.mark.parametrize("name", MODELS)
def test_the_text_that_a_model_is_scored_on_is_at_hand_and_long_enough(name):
    text = next(documents(MODELS[name]["text"])).text
    assert len(text) >= SCORED_BYTES and len(passages(text[:SCORED_BYTES])) > 300


def test_a_card_lists_the_packages_of_training_text_with_their_licences():
    packages = [{"name": "gull", "version": "1.2", "licence": "MIT", "split": "train", "files": 3, "bytes": 2_500_000}]
    assert "| gull | 1.2 | MIT | 2.50 |" in card(facts_of("demo") | {"packages": packages})
    assert "| package |" not in card(facts_of("demo"))


def test_what_is_measured_of_stored_weights_can_be_measured_again_without_the_run(tmp_path, monkeypatch):
    monkeypatch.setattr(ship_model, "FOLDER", tmp_path)
    monkeypatch.setattr(ship_model, "measured", lambda name: {"scores": {}, "places": {"digit": [1, 2]}})
    monkeypatch.setattr(sys, "argv", ["ship_model.py", "demo"])
    ship_model.main()
    assert json.loads((tmp_path / "demo.json").read_text()) == facts_of("demo") | {"scores": {}, "places": {"digit": [1, 2]}}
    assert {path.stem for path in tmp_path.glob("*.md")} == {*shipped_models()}


@each_model
def test_the_card_is_made_from_the_record(name):
    stored = (FOLDER / f"{name}.md").read_text(encoding="utf-8")
    assert stored == card(facts_of(name)), "run scripts/measure/ship_model.py"
    assert all(f"## {part}" in stored for part in ("Scores", "Recipe", "Data", "Limits", "Licence"))


@each_model
def test_no_model_was_trained_on_what_it_is_scored_on(name):
    facts = facts_of(name)
    assert facts["overlap"]["passages"] > 1000 and facts["overlap"]["found"] == 0
    assert int(facts["measured_by"].split()[-1]) == SCORED_BYTES == facts["scores"]["scored_bytes"]
    if facts["record"]["data"]["name"] == "sample":
        assert overlap(name, "sample:train") == facts["overlap"]


def test_a_shared_passage_is_found():
    text = next(documents("sample:test")).text[:5000]
    assert len(passages(text)) > 30
    assert passages(b"Other text. " * 9 + text.upper().replace(b" ", b"\n")) >= passages(text)
    assert not passages(text) & passages(b" ".join(reversed(text.split())))


def test_the_list_names_every_model_with_its_numbers(run):
    told = run("models").out
    for name in shipped_models():
        (line,) = [line for line in told.splitlines() if line.startswith(f"{name} ")]
        facts = facts_of(name)
        assert f"{facts['parameters']:,d}" in line and facts["language"] in line
        assert f"{facts['scores']['bits_per_byte']:.3f}" in line and f"{facts['scores']['whitespace_share']:.1%}" in line
        assert (f"`{facts['measured_by']}`" in run("models", name).out) and run("models", name).out == card_of(name) + "\n"
        assert json.loads(run("models", name, "--json").out)["models"] == [facts]
    assert "rltok models NAME" in told and "tests/" not in told, "what works in a clone alone is left to the card"
    assert [each["name"] for each in json.loads(run("models", "--json").out)["models"]] == shipped_models()
    assert run("models", "runs/mine", code=2).err.strip().endswith(f"Its models: {', '.join(shipped_models())}.")


@each_model
def test_models_load_and_generate_without_a_network(name, run, monkeypatch):
    monkeypatch.setattr("socket.socket.connect", pytest.fail)
    assert run("generate", name, "The", "--bytes", "20").out.startswith("The")
