"""README: its numbers come from the stored record, and the record belongs to the preset as it is now."""

import json
import re
import tomllib

import make_claims  # noqa: E402
import make_verdict  # noqa: E402
import pytest
import readme_numbers  # noqa: E402
from paths import ROOT

from rltok.cli.demo import demo_config
from rltok.evidence import headline
from rltok.presets import presets
from rltok.show.plots import digest

RECORD = json.loads(readme_numbers.RECORD.read_text())
README = readme_numbers.README.read_text()
CLASSES = ("space", "word start", "letter", "punctuation")


def test_the_table_is_the_one_made_from_the_record():
    assert readme_numbers.render(README, RECORD) == README, "run: python scripts/book/readme_numbers.py"


@pytest.mark.parametrize("passage", ["d│ Park│ is", "d │Park│ is", "d Park│ is"])
def test_a_passage_begins_with_a_whole_word(passage):
    assert readme_numbers.whole_words(passage) == "Park│ is"


def test_the_record_was_measured_with_todays_demo_settings():
    assert RECORD["config_hash"] == demo_config(seed=0, smoke=False).digest(), "run scripts/measure/measure_tiny.py again"


def test_the_record_has_three_seeds_from_a_clean_tree():
    assert [run["seed"] for run in RECORD["runs"]] == [0, 1, 2]
    assert re.fullmatch(r"[0-9a-f]{40}", RECORD["commit"])
    assert not any(run["smoke"] for run in RECORD["runs"])


@pytest.mark.parametrize("run", RECORD["runs"], ids=lambda run: f"seed{run['seed']}")
def test_every_seed_shows_the_effect_that_the_preset_was_chosen_for(run):
    learned = run["learned"]
    rates = [learned["class_rates"][name] for name in CLASSES]
    assert learned["policy_entropy"] <= 0.40
    assert max(rates) >= 3 * min(rates)
    assert abs(learned["rate"] - RECORD["config"]["model"]["rule"]["target_rate"]) <= 0.02
    assert abs(run["random"]["rate"] - learned["rate"]) <= 0.005  # "as many boundaries at random places"
    assert run["random_minus_learned"] > 2 * run["standard_error"]  # "also predicts better than random places"


def test_readme_is_short():
    assert len(README.split()) <= 900


def test_the_verdict_and_its_picture_are_of_the_stored_records():
    assert make_verdict.TEXT.read_text() == headline.verdict(make_verdict.RESULTS) + "\n", "run make_verdict.py"
    assert make_verdict.SETTINGS.read_text() == make_verdict.settings() + "\n", "run make_verdict.py"
    drawing = headline.figure(make_verdict.RESULTS)
    assert f"<dc:description>{digest(drawing)}<" in re.sub(r"\s+", " ", make_verdict.PICTURE.read_text()).replace("> ", ">")


def test_claims_and_speeds_are_of_the_stored_records():
    for path, text in make_claims.files().items():
        assert path.read_text() == text, "run: python scripts/book/make_claims.py"


def test_presets_named_on_the_page_of_commands_exist():
    named = re.search(r"`--preset` takes (.*?)\. `--set", (ROOT / "book/using_rltok.md").read_text(), re.S).group(1)
    assert set(re.findall(r"`([^`]+)`", named)) <= set(presets())


def test_files_linked_in_the_readme_exist():
    links = re.findall(r"\]\((?!https?:)([^)]+)\)", README)
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_the_list_of_extras_is_whole_and_says_which_one_opens_a_notebook():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    (told,) = re.findall(r"^Extras: (.*?);", (ROOT / "book/using_rltok.md").read_text(), re.M | re.S)
    assert set(re.findall(r"`(\w+)`", told)) == extras.keys() - {"book"}
    programs = {name for name in extras if any(re.match(r"(jupyterlab|notebook)\b", need) for need in extras[name])}
    assert re.findall(r"`(\w+)` \(that, and JupyterLab\)", told) == ["lab"] and programs == {"lab"}
