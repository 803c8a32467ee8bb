"""rltok.evidence.verdicts: the rule, case by case."""

import numpy as np
import pytest

from rltok.evidence.verdicts import NO_RUN, bounded, by_chance, conjunction, equivalent, non_inferior, one_sided, weakened
from rltok.statistics import Difference


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
    assert one_sided(Difference(bits, rows, seeds, 3), -1) == verdict
    other = {"supported": "contradicted", "contradicted": "supported"}.get(verdict, verdict)
    assert one_sided(Difference(-bits, rows, seeds, 3), -1) == other
    assert one_sided(Difference(bits, rows, seeds, 3), +1) == other


@pytest.mark.parametrize("seeds", [1, 2])
def test_fewer_than_three_seeds_are_at_most_indicative(seeds):
    spread = None if seeds == 1 else 0.001
    assert one_sided(Difference(-0.5, 0.01, spread, seeds), -1) == "indicative: for"
    assert one_sided(Difference(0.5, 0.01, spread, seeds), -1) == "indicative: against"
    assert one_sided(Difference(0.005, 0.01, spread, seeds), -1) == "undecided"
    assert equivalent(Difference(0.0, 0.001, spread, seeds), 0.01) == "indicative: for"
    assert bounded(0.99, spread, seeds, low=0.9) == "indicative: for"


def test_without_any_error_nothing_is_decided():
    assert Difference(-1.0, None, None, 5).sigma is None
    assert one_sided(Difference(-1.0, None, None, 5), -1) == equivalent(Difference(0.0, None, None, 5), 0.1) == "undecided"


@pytest.mark.parametrize(
    ("bits", "error", "verdict"),
    [(0.002, 0.003, "supported"), (-0.002, 0.003, "supported"), (0.0, 0.006, "undecided"), (0.03, 0.005, "contradicted"),
     (-0.03, 0.005, "contradicted"), (0.015, 0.004, "undecided")],
)  # fmt: skip
def test_being_alike_needs_the_whole_interval_inside_the_margin(bits, error, verdict):
    assert equivalent(Difference(bits, error, error / 2, 3), 0.01) == verdict


@pytest.mark.parametrize(
    ("bits", "error", "verdict"),
    [(-0.5, 0.01, "supported"), (0.002, 0.003, "supported"), (0.0, 0.006, "undecided"), (0.03, 0.005, "contradicted"),
     (-0.03, 0.005, "supported"), (0.015, 0.004, "undecided")],
)  # fmt: skip
def test_being_as_good_is_one_sided(bits, error, verdict):
    assert non_inferior(Difference(bits, error / 2, error, 3), 0.01) == verdict


@pytest.mark.parametrize("seeds", [3, 5])
def test_chance_alone_is_beyond_two_errors_about_as_often_as_drawn(seeds):
    draws = np.random.default_rng(0).normal(size=(200_000, seeds))
    t = draws.mean(axis=1) / (draws.std(axis=1, ddof=1) / np.sqrt(seeds))
    assert by_chance(seeds) == pytest.approx((abs(t) > 2).mean(), abs=0.003)


@pytest.mark.parametrize(
    ("mean", "error", "low", "high", "verdict"),
    [(0.95, 0.01, 0.9, None, "supported"), (0.91, 0.01, 0.9, None, "undecided"), (0.85, 0.01, 0.9, None, "contradicted"),
     (0.2, 0.001, 0.19, 0.21, "supported"), (0.22, 0.001, 0.19, 0.21, "contradicted"), (0.2, 0.02, 0.19, 0.21, "undecided")],
)  # fmt: skip
def test_a_number_is_held_against_its_limits_with_two_errors_of_room(mean, error, low, high, verdict):
    assert bounded(mean, error, 3, low=low, high=high) == verdict


def test_a_claim_of_several_parts_is_as_good_as_its_worst():
    assert conjunction(["supported", "supported"]) == "supported"
    assert conjunction(["supported", "indicative: for"]) == "indicative: for"
    assert conjunction(["supported", "undecided"]) == "undecided"
    assert conjunction(["undecided", NO_RUN]) == NO_RUN
    assert conjunction([NO_RUN, "indicative: against", "supported"]) == "indicative: against"
    assert conjunction(["contradicted", "supported"]) == "contradicted"


def test_undecided_stays_undecided_whatever_the_number_of_seeds():
    assert weakened("undecided", 1) == weakened("undecided", 9) == "undecided"
    assert weakened("supported", 3) == "supported"
