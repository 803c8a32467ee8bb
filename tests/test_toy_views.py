"""rltok.toy_views: sentences, tables and curves of a small record made up by hand."""

import pytest

from rltok import toy_views
from rltok.toy_measures import ORACLE, RANDOM


def run(name, seed, bits, entropy=None, f1=0.5):
    curve = [
        {"bytes": 1000 * k, "bits_per_byte": value, "policy_entropy": entropy} for k, value in enumerate(bits)
    ]  # fmt: skip
    test = {"bits_per_byte": bits[-1], "f1": {"-1": f1, "0": 1 - f1, "1": 0.0}}
    rates = [[0.0, 1.0], [0.25, None, 0.5]]
    return {
        "words": "early",
        "order": "second",
        "name": name,
        "seed": seed,
        "curve": curve,
        "test": test,
        "rates_in_words": rates,
    }


RUNS = [
    run(ORACLE, 0, [8, 0.5, 0.2]), run(RANDOM, 0, [8, 1.0, 0.6]), run("naive", 0, [8, 0.6, 0.5], 0.4),
    run(ORACLE, 1, [8, 0.5, 0.2]), run(RANDOM, 1, [8, 1.0, 0.6]), run("naive", 1, [8, 0.25, 0.25], 0.2, f1=0.25),
]  # fmt: skip
LANGUAGE = {"words": "early", "order": "second", "lexicon": ["ab", "bac"], "validation_bits_per_byte": 0.15}
RECORD = {"runs": RUNS, "languages": [LANGUAGE]}


def test_a_sentence_tells_the_share_of_the_gain_its_range_and_from_when_it_held():
    (line,) = toy_views.gain_lines(RECORD, "early")
    # (0.6 - 0.5) / (0.6 - 0.2) = 0.25 and (0.6 - 0.25) / 0.4 = 0.875
    assert line.startswith("naive ") and "+0.56 of the oracle's gain (+0.25 to +0.88 over seeds)" in line
    assert line.endswith("1 of 2 seeds hold 0.8, 0.8 or more from 1 to 1 kB on")


def test_curves_show_mean_and_range_over_seeds_and_both_bounds():
    figure = toy_views.curves_figure(RECORD, "early")
    left, right = figure.axes
    drawn = {line.get_label(): line.get_ydata() for line in left.lines}
    assert drawn["naive"] == pytest.approx([8, 0.425, 0.375])
    assert drawn[f"{ORACLE} boundaries"][-1] == pytest.approx(0.2) and drawn[f"{RANDOM} boundaries"][-1] == pytest.approx(0.6)
    assert right.lines[0].get_ydata() == pytest.approx([0.3] * 3) and len(left.collections) == 1


def test_places_spell_every_word_with_the_share_of_boundaries_after_each_letter():
    assert toy_views.places(RECORD, "early", "naive", 0) == ["ab       a 0.00  b 1.00", "bac      b 0.25  a   -   c 0.50"]


def test_offsets_are_means_over_seeds():
    assert toy_views.offsets(RECORD, "early", ["naive"])["naive"] == pytest.approx({-1: 0.375, 0: 0.625, 1: 0.0})


def test_arms_are_named_in_order_without_the_bounds_and_a_missing_one_is_an_error():
    assert toy_views.names_of(RECORD, "early") == ["naive"]
    with pytest.raises(KeyError, match="no run early, second, causal"):
        toy_views.runs_of(RECORD, "early", "causal")
