"""rltok.evidence.toy.views: sentences, tables and curves of a small record made up by hand."""

import pytest

from rltok.evidence.toy import views
from rltok.evidence.toy.measures import MORE_RANDOM, ORACLE, RANDOM
from rltok.evidence.toy.runs import FULL


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


def rows_of(table):
    """Cells of a Markdown table below its head."""
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]]


def test_a_row_tells_the_share_of_the_gain_its_range_and_from_when_it_held():
    (row,) = rows_of(views.gain_table(RECORD, "early", ["naive"]))
    # (0.6 - 0.5) / (0.6 - 0.2) = 0.25 and (0.6 - 0.25) / 0.4 = 0.875
    assert row == ["naive REINFORCE", "0.56", "0.25 to 0.88", "0.25 to 0.35", "1 of 2", "1"]
    assert rows_of(views.gain_table(RECORD, "early", ["naive"], columns=3)) == [row[:3]]
    never = {"runs": [one for one in RUNS if one["seed"] == 0], "languages": [LANGUAGE]}
    assert rows_of(views.gain_table(never, "early", ["naive"]))[0][4:] == ["0 of 1", "-"]


def test_scores_are_means_of_test_rows_and_of_the_last_look():
    curve_differs = [one | {"test": one["test"] | {"bits_per_byte": 1 + one["seed"]}} for one in RUNS]
    (line,) = views.scores({"runs": curve_differs}, "early", ["naive"])
    assert line == "naive REINFORCE  1.500 bits per byte on test rows, 0.375 on validation"


def test_sizes_of_advantages_are_medians_of_the_first_and_the_last_look():
    (text,) = views.advantage_sizes(RECORD, "early", ["naive"])
    assert text.split() == "naive REINFORCE 11 nats at first, 22 at the end".split() and len(text) <= 78


def test_curves_show_mean_and_range_over_seeds_and_name_both_ends_of_the_scale():
    left, right = views.curves_figure(RECORD, "early", ["naive"]).axes
    drawn = {line.get_label(): line.get_ydata() for line in left.lines}
    assert drawn["naive REINFORCE"] == pytest.approx([8, 0.425, 0.375])
    ends = {text.get_text(): text.xy[1] for text in left.texts}
    assert ends == pytest.approx({"ends of words": 0.2, "random places": 0.6})
    assert [line.get_ydata()[0] for line in left.lines[1:]] == pytest.approx([0.6, 0.2])
    assert right.lines[0].get_ydata() == pytest.approx([0.3] * 3) and len(left.collections) == 1
    assert left.get_ylim() == pytest.approx((0, 1.8))
    assert [text.get_text() for text in left.get_legend().get_texts()] == ["naive REINFORCE"]


def test_words_whose_last_letter_has_a_boundary_more_often_than_not_are_counted_over_seeds():
    assert views.at_last_letters(RECORD, "early", "naive") == (2, 4)  # 1.0 and 0.5 in each of two seeds


def test_places_are_shaded_word_by_word_and_seed_by_seed():
    panels = views.places_figure(RECORD, "early", "naive").axes
    assert [panel.get_title() for panel in panels] == ["seed 0", "seed 1"]
    shades = panels[0].images[0].get_array()
    assert shades[0, :2].tolist() == [0.0, 1.0] and shades[1, 0] == 0.25 and shades[1, 2] == 0.5
    assert shades.mask[0, 2] and shades.mask[1, 1]  # no such letter; never seen
    assert [text.get_text() for text in panels[0].texts] == list("abbac")


def test_estimators_and_controls_are_named_in_order_without_the_ends_of_the_scale_and_a_missing_one_is_an_error():
    more = RECORD["runs"] + [run(FULL, 0, [1]), run(MORE_RANDOM, 0, [1])]
    assert views.names_of({"runs": more}, "early") == ["naive", FULL]
    assert views.names_of({"runs": more}, "early", controls=True) == [MORE_RANDOM]
    assert views.in_words(FULL) == "full estimator" and views.in_words("causal") == "causal"
    with pytest.raises(KeyError, match="no run early, second, causal"):
        views.runs_of(RECORD, "early", "causal")
