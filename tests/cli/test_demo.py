"""rltok.cli.demo: the words follow the numbers, and the whole story runs at smoke size."""

import json
from dataclasses import replace

import pytest
from runs import digests

from rltok.byte_classes import CLASSES
from rltok.cli import demo
from rltok.cli.demo import demo_config, passage, rate_matched_random, verdict
from rltok.cli.main import main
from rltok.data import FIXED_TEXTS, load_corpus
from rltok.device import resolve_device
from rltok.errors import RltokError
from rltok.evaluation import Evaluation
from rltok.runs.checkpoint import checkpoints
from rltok.runs.loading import load, load_config
from rltok.runs.snapshots import boundary_view
from rltok.show.terminal import BAR, paint_view

RATES = {"space": 0.9, "word start": 0.05, "letter": 0.1, "punctuation": 0.4, "digit": 1.0, "other": 0.0}


def scored(*row_bits, rates=RATES) -> Evaluation:
    """An evaluation that scored these rows."""
    return Evaluation(
        bits_per_byte=sum(row_bits) / len(row_bits), standard_error=0.1, early_bits_per_byte=3.0, rate=0.2, tokens_per_byte=0.21,
        policy_entropy=0.3, whitespace_share=0.9, class_rates=rates, rows=len(row_bits), scored_bytes=100, seed=0,
        row_bits_per_byte=row_bits,
    )  # fmt: skip


def test_fewer_bits_than_random_places_are_called_better_with_gap_and_error():
    text = verdict(scored(2.0, 3.0, 4.0), scored(2.2, 3.4, 4.3))
    assert "Against random places: learned boundaries are better by 0.3000 +- 0.0577 bits per byte (paired over 3 rows)." in text


def test_more_bits_than_random_places_are_called_worse():
    text = verdict(scored(2.2, 3.4, 4.3), scored(2.0, 3.0, 4.0))
    assert "learned boundaries are worse by 0.3000 +- 0.0577 bits per byte" in text
    assert "better by" not in text


@pytest.mark.parametrize(
    ("learned", "random"), [((2.0, 3.0, 4.0), (2.4, 2.9, 4.0)), ((2.0, 3.0), (2.0, 3.0)), ((2.0,), (9.0,))]
)  # a gap under two standard errors, none at all, and a single row, which has no error
def test_a_gap_that_noise_may_make_is_called_no_difference(learned, random):
    text = verdict(scored(*learned), scored(*random))
    assert "no difference that this test can see (gap " in text
    assert "are better" not in text and "are worse" not in text


def test_the_classes_named_are_those_with_the_highest_and_lowest_rate():
    text = verdict(scored(2.0, 3.0), scored(2.0, 3.0))
    assert "most often after a space (0.90)" in text and "least often after a word start (0.05)" in text
    other = scored(2.0, 3.0, rates=RATES | {"space": None, "punctuation": 0.01, "letter": 0.7})
    text = verdict(other, scored(2.0, 3.0))
    assert "most often after a letter (0.70)" in text and "least often after a punctuation (0.01)" in text


def test_the_verdict_says_what_it_cannot_show():
    assert "What this cannot show: one seed" in verdict(scored(2.0, 3.0), scored(2.0, 3.0))


def test_the_twin_differs_in_nothing_but_rule_rate_and_name():
    config = demo_config(3, smoke=False)
    matched = rate_matched_random(config, 0.17)
    rule = replace(config.model.rule, name="random_k", target_rate=0.17)
    assert matched == replace(config, name="tiny_random_k", model=replace(config.model, rule=rule))
    assert config.train.seed == 3
    assert demo_config(3, smoke=True).num_updates == 12


def test_two_demos_at_once_get_a_folder_each_and_one_that_fails_leaves_none(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs/demo-1").write_text("taken")
    taken = []

    def fail(config, corpus, folder, **_):
        taken.append(folder.parent.name)
        raise RltokError("enough")

    def second(device):
        monkeypatch.setattr(demo, "resolve_device", resolve_device)
        assert main(["demo", "--smoke"]) == 2
        return resolve_device(device)

    monkeypatch.setattr(demo, "train", fail)
    monkeypatch.setattr(demo, "resolve_device", second)  # the second begins when the first has just begun
    assert main(["demo", "--smoke"]) == 2
    assert capsys.readouterr().err == "rltok: enough\n" * 2
    assert taken == ["demo-3", "demo-2"] and [path.name for path in (tmp_path / "runs").iterdir()] == ["demo-1"]


def test_a_folder_that_exists_is_refused_before_anything_is_trained(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(demo, "train", pytest.fail)
    (tmp_path / "note.txt").write_text("mine")
    before = digests(tmp_path)
    assert main(["demo", "--smoke", "--out", str(tmp_path)]) == 2
    assert "exists already. Leave --out away, or choose a new folder" in capsys.readouterr().err
    assert digests(tmp_path) == before


@pytest.mark.usefixtures("shapes_unchecked", "short_snapshots")
def test_the_whole_demo_in_four_updates_tells_the_story_and_stores_its_numbers(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(demo, "SMOKE_BYTES", 4 * 8192)
    out, own = tmp_path / "demo", "It's my own $5 text."
    assert main(["demo", "--smoke", "--out", str(out), "--device", "cpu", "--seed", "2", "--text", own]) == 0
    output, errors = capsys.readouterr()
    assert all("kB/s" in line or line.startswith(("backend plain: ", "training text: ")) for line in errors.splitlines())
    content = json.loads((out / "demo.json").read_text(), parse_constant=pytest.fail)
    assert content["classes"] == list(CLASSES)
    for text, wanted in (("paragraph", FIXED_TEXTS["prose"]), ("text", own)):
        painted = content["shipped"][text]
        assert painted.replace(BAR, "") == wanted and painted == paint_view(wanted, boundary_view(load(demo.SHIPPED), wanted, 2))
        assert output.index(painted) < output.index("1/2  ")  # before anything is trained
    assert (content["smoke"], content["seed"], content["config_hash"]) == (True, 2, demo_config(2, smoke=True).digest())
    gap = content["random"]["bits_per_byte"] - content["learned"]["bits_per_byte"]
    assert content["random_minus_learned"] == pytest.approx(gap, abs=1e-3)  # rows differ a little in length
    assert content["random"]["tokens_per_byte"] == pytest.approx(content["learned"]["tokens_per_byte"], abs=0.005)
    assert content["before"]["bits_per_byte"] > 7.5  # nothing learned yet: about log2 257
    assert {content[which]["rows"] for which in ("before", "learned", "random")} == {32}
    for which in ("learned", "random"):
        assert f"{content[which]['bits_per_byte']:.3f} +- " in output
        assert not json.loads((out / which / "record.json").read_text())["full"]
        assert len(checkpoints(out / which)) >= 1
    assert load_config(out / "random").model.rule.name == "random_k"
    shown = passage(load_corpus("sample", demo_config(2, smoke=True).data)).decode()
    for moment in ("before", "after"):
        assert content["passage"][moment].replace("\u21b5", "").replace(BAR, "") == shown
        assert f"--- {moment} training\n{content['passage'][moment]}\n" in output
    assert "Against random places: " in output
    assert str(out / "learned") in output and "This was a smoke run" in output.splitlines()[-1]


@pytest.mark.parametrize(("text", "why"), [("", "no text to show"), ("x" * 50_001, "at most 50000 can be shown")])
def test_a_text_that_cannot_be_shown_is_refused_before_anything_is_made(text, why, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["demo", "--text", text]) == 2
    told = capsys.readouterr().err
    assert why in told and told.count("\n") == 1 and list(tmp_path.iterdir()) == []


def test_the_passage_shown_is_held_out_text_that_ends_with_a_word():
    corpus = load_corpus("sample", demo_config(0, smoke=True).data)
    text = passage(corpus)
    assert 300 < len(text) <= demo.SHOWN_BYTES
    row = bytes(corpus.test.bytes_[1])
    assert row.startswith(text + b" ")
    assert text not in corpus.train.bytes_.tobytes()
