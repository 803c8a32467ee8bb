"""rltok.evidence.verdicts: the rule, case by case."""

import numpy as np
import pytest

from rltok.evidence.verdicts import NO_RUN, alike, bounded, by_chance, directed, no_worse, sigma, together, weakened
from rltok.statistics import Gap


@pytest.mark.parametrize(
    ("bits", "rows", "seeds", "verdict"),
    [
        (-0.05, 0.01, 0.02, "supported"),  # 2.5 of the larger error
        (-0.05, 0.03, 0.01, "undecided"),  # the larger one is that of documents
        (-0.05, 0.01, 0.03, "undecided"),  # or of seeds
        (-0.05, 0.01, 0.025, "undecided"),  # exactly two errors are not beyond two
        (0.05, 0.01, 0.02, "contradicted"),
        (0.0, 0.0, 0.0, "undecided"),
    ],
)
def test_a_difference_counts_beyond_two_of_the_larger_error(bits, rows, seeds, verdict):
    assert directed(Gap(bits, rows, seeds), -1, 3) == verdict
    other = {"supported": "contradicted", "contradicted": "supported"}.get(verdict, verdict)
    assert directed(Gap(-bits, rows, seeds), -1, 3) == other
    assert directed(Gap(bits, rows, seeds), +1, 3) == other


@pytest.mark.parametrize("seeds", [1, 2])
def test_fewer_than_three_seeds_are_at_most_indicative(seeds):
    spread = None if seeds == 1 else 0.001
    assert directed(Gap(-0.5, 0.01, spread), -1, seeds) == "indicative: for"
    assert directed(Gap(0.5, 0.01, spread), -1, seeds) == "indicative: against"
    assert directed(Gap(0.005, 0.01, spread), -1, seeds) == "undecided"
    assert alike(Gap(0.0, 0.001, spread), 0.01, seeds) == "indicative: for"
    assert bounded(0.99, spread, seeds, low=0.9) == "indicative: for"


def test_without_any_error_nothing_is_decided():
    assert sigma(Gap(-1.0, None, None)) is None
    assert directed(Gap(-1.0, None, None), -1, 5) == alike(Gap(0.0, None, None), 0.1, 5) == "undecided"


@pytest.mark.parametrize(
    ("bits", "error", "verdict"),
    [(0.002, 0.003, "supported"), (-0.002, 0.003, "supported"), (0.0, 0.006, "undecided"), (0.03, 0.005, "contradicted"),
     (-0.03, 0.005, "contradicted"), (0.015, 0.004, "undecided")],
)  # fmt: skip
def test_being_alike_needs_the_whole_interval_inside_the_margin(bits, error, verdict):
    assert alike(Gap(bits, error, error / 2), 0.01, 3) == verdict


@pytest.mark.parametrize(
    ("bits", "error", "verdict"),
    [(-0.5, 0.01, "supported"), (0.002, 0.003, "supported"), (0.0, 0.006, "undecided"), (0.03, 0.005, "contradicted"),
     (-0.03, 0.005, "supported"), (0.015, 0.004, "undecided")],
)  # fmt: skip
def test_being_as_good_is_one_sided(bits, error, verdict):
    assert no_worse(Gap(bits, error / 2, error), 0.01, 3) == verdict


def test_chance_alone_is_beyond_two_errors_of_three_seeds_about_as_often_as_drawn():
    draws = np.random.default_rng(0).normal(size=(200_000, 3))
    t = draws.mean(axis=1) / (draws.std(axis=1, ddof=1) / np.sqrt(3))
    assert by_chance(3) == pytest.approx((abs(t) > 2).mean(), abs=0.003)
    with pytest.raises(ValueError, match="3 seeds; got 4"):
        by_chance(4)


@pytest.mark.parametrize(
    ("mean", "error", "low", "high", "verdict"),
    [(0.95, 0.01, 0.9, None, "supported"), (0.91, 0.01, 0.9, None, "undecided"), (0.85, 0.01, 0.9, None, "contradicted"),
     (0.2, 0.001, 0.19, 0.21, "supported"), (0.22, 0.001, 0.19, 0.21, "contradicted"), (0.2, 0.02, 0.19, 0.21, "undecided")],
)  # fmt: skip
def test_a_number_is_held_against_its_limits_with_two_errors_of_room(mean, error, low, high, verdict):
    assert bounded(mean, error, 3, low=low, high=high) == verdict


def test_a_claim_of_several_parts_is_as_good_as_its_worst():
    assert together(["supported", "supported"]) == "supported"
    assert together(["supported", "indicative: for"]) == "indicative: for"
    assert together(["supported", "undecided"]) == "undecided"
    assert together(["undecided", NO_RUN]) == NO_RUN
    assert together([NO_RUN, "indicative: against", "supported"]) == "indicative: against"
    assert together(["contradicted", "supported"]) == "contradicted"


def test_undecided_stays_undecided_whatever_the_number_of_seeds():
    assert weakened("undecided", 1) == weakened("undecided", 9) == "undecided"
    assert weakened("supported", 3) == "supported"
