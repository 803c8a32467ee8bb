"""rltok.evidence.verdicts: the rule, case by case."""

import pytest

from rltok.evidence.verdicts import NO_RUN, bounded, conjunction, equivalent, non_inferior, one_sided
from rltok.statistics import Difference


# Of 3 seeds, t is 4.303 at 95 % and 1.886 at 80 %, from a printed table; of an error that is known, 1.960 and 1.282.
@pytest.mark.parametrize(
    ("bits", "documents", "seeds", "verdict"),
    [
        (-0.0431, 0.01, 0.01, "supported"),
        (-0.0430, 0.01, 0.01, "leans for"),
        (-0.0189, 0.01, 0.01, "leans for"),
        (-0.0188, 0.01, 0.01, "undecided"),
        (-0.0197, 0.01, 0.001, "supported"),  # seeds that agree: documents have the wider interval
        (-0.0195, 0.01, 0.001, "leans for"),
        (-0.0127, 0.01, 0.001, "undecided"),
        (0.05, 0.01, 0.01, "contradicted"),
        (0.02, 0.01, 0.01, "leans against"),
        (0.0, 0.0, 0.0, "undecided"),
    ],
)
def test_a_difference_counts_beyond_the_wider_of_its_two_intervals_and_leans_beyond_that_at_80_percent(
    bits, documents, seeds, verdict
):
    assert one_sided(Difference(bits, documents, seeds, 3), -1) == verdict
    other = {"supported": "contradicted", "contradicted": "supported", "leans for": "leans against", "leans against": "leans for"}
    assert one_sided(Difference(-bits, documents, seeds, 3), -1) == other.get(verdict, verdict)
    assert one_sided(Difference(bits, documents, seeds, 3), +1) == other.get(verdict, verdict)


@pytest.mark.parametrize("seeds", [1, 2])
def test_fewer_than_three_seeds_lean_at_most(seeds):
    spread = None if seeds == 1 else 0.001
    assert one_sided(Difference(-0.5, 0.01, spread, seeds), -1) == "leans for"
    assert one_sided(Difference(0.5, 0.01, spread, seeds), -1) == "leans against"
    assert one_sided(Difference(0.005, 0.01, spread, seeds), -1) == "undecided"
    assert equivalent(Difference(0.0, 0.001, spread, seeds), 0.01) == "leans for"
    assert bounded(0.99, spread, seeds, low=0.9) == "leans for"


def test_without_any_error_nothing_is_decided():
    assert Difference(-1.0, None, None, 5).reach() is None
    assert one_sided(Difference(-1.0, None, None, 5), -1) == equivalent(Difference(0.0, None, None, 5), 0.1) == "undecided"


@pytest.mark.parametrize(
    ("bits", "error", "verdict"),
    [(0.001, 0.002, "supported"), (-0.001, 0.002, "supported"), (0.002, 0.003, "leans for"), (0.0, 0.006, "undecided"),
     (0.03, 0.004, "contradicted"), (-0.03, 0.004, "contradicted"), (0.03, 0.005, "leans against"), (0.015, 0.004, "undecided")],
)  # fmt: skip
def test_being_alike_needs_the_whole_interval_inside_the_margin(bits, error, verdict):
    assert equivalent(Difference(bits, error, error, 3), 0.01) == verdict


@pytest.mark.parametrize(
    ("bits", "error", "verdict"),
    [(-0.5, 0.01, "supported"), (0.002, 0.001, "supported"), (0.002, 0.003, "leans for"), (0.0, 0.006, "undecided"),
     (0.03, 0.004, "contradicted"), (-0.03, 0.005, "supported"), (0.03, 0.005, "leans against"), (0.015, 0.004, "undecided")],
)  # fmt: skip
def test_being_as_good_is_one_sided(bits, error, verdict):
    assert non_inferior(Difference(bits, error / 2, error, 3), 0.01) == verdict


@pytest.mark.parametrize(
    ("mean", "error", "low", "high", "verdict"),
    [(0.95, 0.01, 0.9, None, "supported"), (0.93, 0.01, 0.9, None, "leans for"), (0.91, 0.01, 0.9, None, "undecided"),
     (0.85, 0.01, 0.9, None, "contradicted"), (0.87, 0.01, 0.9, None, "leans against"), (0.2, 0.001, 0.19, 0.21, "supported"),
     (0.22, 0.001, 0.19, 0.21, "contradicted"), (0.2, 0.02, 0.19, 0.21, "undecided")],
)  # fmt: skip
def test_a_number_is_held_against_its_limits_with_the_interval_of_its_seeds_for_room(mean, error, low, high, verdict):
    assert bounded(mean, error, 3, low=low, high=high) == verdict


def test_a_claim_of_several_parts_is_as_good_as_its_worst():
    assert conjunction(["supported", "supported"]) == "supported"
    assert conjunction(["supported", "leans for"]) == "leans for"
    assert conjunction(["supported", "undecided"]) == "undecided"
    assert conjunction(["undecided", NO_RUN]) == NO_RUN
    assert conjunction([NO_RUN, "leans against", "supported"]) == "leans against"
    assert conjunction(["contradicted", "supported"]) == "contradicted"
