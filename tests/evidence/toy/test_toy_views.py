"""rltok.evidence.toy.views: sentences, tables and curves of a small record made up by hand."""

import pytest

from rltok.evidence.toy import views
from rltok.evidence.toy.measures import ORACLE, RANDOM


def run(name, seed, bits, entropy=None, f1=0.5):
    curve = [
        {
            "bytes": 1000 * k,
            "bits_per_byte": value,
            "policy_entropy": entropy,
            "advantage_rms": (10 + 2 * seed) * k or None,
        }
        for k, value in enumerate(bits)
    ]  # fmt: skip
    test = {"bits_per_byte": bits[-1], "rate": 0.25 + 0.1 * seed, "f1": {"-1": f1, "0": 1 - f1, "1": 0.0}}
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


def test_a_row_tells_the_share_of_the_gain_its_range_and_from_when_it_held():
    (row,) = views.gain_rows(RECORD, "early")
    # (0.6 - 0.5) / (0.6 - 0.2) = 0.25 and (0.6 - 0.25) / 0.4 = 0.875
    assert row == ["naive", "0.56", "0.25 to 0.88", "1 of 2", "1", "0.25 to 0.35"]
    assert len(row) == len(views.GAIN_HEAD)
    never = {"runs": [one for one in RUNS if one["seed"] == 0], "languages": [LANGUAGE]}
    assert views.gain_rows(never, "early")[0][3:5] == ["0 of 1", "-"]


def test_sizes_of_advantages_are_medians_of_the_first_and_the_last_look():
    (text,) = views.advantage_sizes(RECORD, "early", ["naive"])
    assert text.startswith("naive ") and text.endswith("advantages of 11 nats at first, 22 at the end")


def test_curves_show_mean_and_range_over_seeds_and_both_bounds():
    figure = views.curves_figure(RECORD, "early")
    left, right = figure.axes
    drawn = {line.get_label(): line.get_ydata() for line in left.lines}
    assert drawn["naive"] == pytest.approx([8, 0.425, 0.375])
    assert drawn[f"{ORACLE} boundaries"][-1] == pytest.approx(0.2) and drawn[f"{RANDOM} boundaries"][-1] == pytest.approx(0.6)
    assert right.lines[0].get_ydata() == pytest.approx([0.3] * 3) and len(left.collections) == 1
    assert left.get_ylim() == pytest.approx((0, 1.8))


def test_places_spell_every_word_with_the_share_of_boundaries_after_each_letter():
    assert views.places(RECORD, "early", "naive", 0) == ["ab       a 0.00  b 1.00", "bac      b 0.25  a   -   c 0.50"]


def test_places_are_shaded_word_by_word_and_seed_by_seed():
    panels = views.places_figure(RECORD, "early", "naive").axes
    assert [panel.get_title() for panel in panels] == ["seed 0", "seed 1"]
    shades = panels[0].images[0].get_array()
    assert shades[0, :2].tolist() == [0.0, 1.0] and shades[1, 0] == 0.25 and shades[1, 2] == 0.5
    assert shades.mask[0, 2] and shades.mask[1, 1]  # no such letter; never seen
    assert [text.get_text() for text in panels[0].texts] == list("abbac")


def test_offsets_are_means_over_seeds():
    assert views.offsets(RECORD, "early", ["naive"])["naive"] == pytest.approx({-1: 0.375, 0: 0.625, 1: 0.0})


def test_arms_are_named_in_order_without_the_bounds_and_a_missing_one_is_an_error():
    assert views.names_of(RECORD, "early") == ["naive"]
    with pytest.raises(KeyError, match="no run early, second, causal"):
        views.runs_of(RECORD, "early", "causal")
