"""rltok.evidence.chapters.ch08_explore: positions counted while they are computed, tables of odd records and texts by hand."""

import json
from pathlib import Path

import matplotlib
import pytest
import torch

matplotlib.use("agg")

import rltok
from rltok.evidence.chapters import ch08_explore
from rltok.explore import places, read
from rltok.explore.kinds import added, amount, each_byte, percent
from rltok.generation import Generation, Sampling

TRAINING = {"bytes": 1_000_000, "scripts": {"ASCII": 999_950, "CJK": 50}}


@pytest.fixture(scope="module")
def demo():
    return rltok.load("demo")


@pytest.mark.parametrize("cached", [True, False])
def test_positions_are_those_that_the_networks_compute(demo, monkeypatch, cached):
    """The last pass, for a byte that is not drawn any more, is not counted."""
    sizes = {"encode": [], "mid": []}
    if not cached:
        encode, mid = demo.encode, demo.mid
        monkeypatch.setattr(demo, "encode", lambda ids: sizes["encode"].append(ids.numel()) or encode(ids))
        monkeypatch.setattr(demo, "mid", lambda packed: sizes["mid"].append(len(packed.states)) or mid(packed))
    (row,) = Generation(demo, ["The sea "], Sampling(max_bytes=6), cached=cached).results()
    counted = ch08_explore.positions(row)
    assert row.ended == "length" and counted.bytes_cached == 8 + 6 and counted.tokens_cached == 1 + sum(row.boundaries[:-1])
    if not cached:
        assert counted.bytes_full == sum(sizes["encode"][:-1]) and counted.tokens_full == sum(sizes["mid"][:-1])


def test_speeds_of_a_record_and_of_none(tmp_path):
    path = tmp_path / "generation.json"
    assert "No record" in ch08_explore.speeds(path)
    batches = [{"rows": 1, "bytes_per_second": 150.4}, {"rows": 16, "bytes_per_second": 900.0}]
    one = {"preset": "tiny", "device": "cpu", "full_pass_bytes_per_second": 7.25, "times_as_fast": 20.7, "batches": batches}
    for same, words in ((True, "the same bytes both ways"), (False, "not the same bytes both ways")):
        path.write_text(json.dumps({"prompt_bytes": 2048, "runs": [one | {"same_bytes": same}]}))
        shown = ch08_explore.speeds(path)
        assert "| `tiny` | cpu | 7.2 | 150 | 900 | 21 |" in shown and "cached, 1 row |" in shown
        assert f"after a prompt of 2048 bytes; {words}." in shown
        assert shown.endswith(
            "cpu: caches make a single row 20.7 times as fast; a step for 16 rows takes 2.7 times as long as for one."
        )


def test_a_step_with_caches_calls_only_a_few_times_fewer_operations_than_a_full_pass(demo):
    """Each operation is a kernel or two on a card, so this is why caches help a single row little there."""
    counts = {}
    for cached in (True, False):
        generation = Generation(demo, ["The sea was " * 20], Sampling(max_bytes=9), cached=cached)
        next(generation)
        with torch.profiler.profile() as profile:
            [next(generation) for _ in range(8)]
        counts[cached] = sum(event.count for event in profile.key_averages() if event.key.startswith("aten::"))
    assert 1 < counts[False] / counts[True] < 6


def test_a_step_for_many_rows_is_compared_with_one_for_a_single_row():
    batches = [{"rows": 1, "bytes_per_second": 10.0}, {"rows": 64, "bytes_per_second": 320.0}]
    assert ch08_explore.cost_of_rows({"batches": batches}) == pytest.approx(2.0)
    both = [{"device": "a", "times_as_fast": gain, "batches": batches} for gain in (2.0, 4.0)]
    assert "a single row 2.0 to 4.0 times as fast; a step for 64 rows takes 2.0 times" in ch08_explore.steps({"runs": both})


def test_kinds_of_bytes_are_shown_for_each_model():
    shown = ch08_explore.kinds_table(b"a b b", {"one": [True] * 5, "two": [False, True, False, True, True]})
    assert shown.splitlines()[0] == "| byte | how many | boundary after it, one | boundary after it, two |"
    assert "| other white space | 2 | 100% | 100% |" in shown and "| first consonants of a word | 2 | 100% | 50% |" in shown


def test_a_language_is_counted_byte_by_byte(demo):
    text = "日本 語ab"
    drawn = read(demo, text, row_bytes=512, seed=0).boundaries
    one = ch08_explore.language(demo, "some", text, 512)
    assert one.script == "CJK" and one.bytes_per_character == 12 / 6 and one.bytes_per_token == 12 / sum(drawn)
    assert one.after_space == drawn[6] / sum(drawn)
    assert one.inside == sum(drawn[i] for i in (0, 1, 3, 4, 7, 8)) / sum(drawn)
    kinds = ch08_explore.byte_kinds(text, drawn)
    assert {kind: there for kind, (_, there) in kinds.items()} == {
        "white space": 1, "other ASCII": 2, "last byte": 3, "earlier byte": 6,
    }  # fmt: skip
    assert sum(hits for hits, _ in kinds.values()) == sum(drawn)


def test_the_table_says_how_much_of_a_script_was_in_the_training_text():
    found = [
        ch08_explore.Language(name, script, 3.0, 6.04, 2.75, 0.01, 0.876)
        for name, script in (("chinese", "CJK"), ("english", None), ("tamil", "TAMIL"))
    ]
    lines = ch08_explore.languages_table(found, TRAINING).splitlines()[2:]
    assert lines[0] == "| chinese | 3.0 | 6.0 | 2.8 | 1% | 88% | 50.0 |"
    assert lines[1].endswith("| - |") and lines[2].endswith("| 0.0 |")


def test_the_figure_places_each_language_by_its_script_and_leaves_english_out():
    found = [
        ch08_explore.Language(name, script, 3.0, 6.0, 2.8, 0.01, 0.25) for name, script in (("chinese", "CJK"), ("english", None))
    ]
    figure = ch08_explore.scripts_figure(found, TRAINING)
    (line,), (words,) = figure.axes[0].lines, figure.axes[0].texts
    assert (line.get_xdata()[0], line.get_ydata()[0], words.get_text()) == (50.0, 25.0, "chinese")


def test_what_chapter_08_says_of_the_model_of_code_is_what_is_counted():
    code = (Path(__file__).parents[2] / "items/python.txt").read_bytes()[:8192]
    of_code, of_english = rltok.load("small-python"), rltok.load("small-english")
    found = each_byte(code, read(of_code, code, row_bytes=2048, seed=0).boundaries)
    kinds = {kind: added(counts) for kind, counts in found.items()}
    assert kinds["other white space"][0] == 0 == found["other sign"]["("][0]
    assert [amount(kinds[kind]) for kind in ("digit", "closing bracket")] == ["nearly all", "nearly all"]
    assert amount(found["other sign"]["["]) == "nearly all"
    first, later = kinds["first consonants of a word"], kinds["other consonant"]
    assert first[0] + later[0] > sum(drawn for drawn, _ in kinds.values()) / 2 and percent(first) > percent(later)
    letters = [added({kind: found[kind].get(letter, (0, 0)) for kind in found}) for letter in "tmdfr"]
    assert min(map(percent, letters[:2])) > 80 and max(map(percent, letters[2:])) <= 5
    in_english = places(code, read(of_english, code, row_bytes=2048, seed=0).boundaries)
    assert percent(in_english["other white space"]) > 50 > percent(in_english["other consonant"])
