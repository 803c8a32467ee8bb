"""rltok.statistics: standard errors against formulas by hand, and when a difference counts."""

import math

import numpy as np
import pytest

from rltok.statistics import (
    LEANING,
    SURE,
    Difference,
    by_guessing,
    difference_of_seeds,
    difference_of_units,
    error_of_mean,
    ratio_error,
    t_limit,
)

# Two-sided quantiles of Student's t as printed in tables: by degrees of freedom, at 80 % and at 95 %; the last is the normal one.
T_TABLE = [(1, 3.078, 12.706), (2, 1.886, 4.303), (3, 1.638, 3.182), (4, 1.533, 2.776), (10, 1.372, 2.228), (22, 1.321, 2.074),
           (math.inf, 1.282, 1.960)]  # fmt: skip


@pytest.mark.parametrize(("freedom", "leaning", "sure"), T_TABLE)
def test_the_limits_are_those_of_printed_tables_of_students_t(freedom, leaning, sure):
    assert (t_limit(LEANING, freedom), t_limit(SURE, freedom)) == pytest.approx((leaning, sure), abs=6e-4)


def test_means_of_three_seeds_stay_within_their_interval_as_often_as_it_says():
    draws = np.random.default_rng(0).normal(size=(200_000, 3))
    t = draws.mean(axis=1) / (draws.std(axis=1, ddof=1) / np.sqrt(3))
    assert (abs(t) < t_limit(SURE, 2)).mean() == pytest.approx(0.95, abs=0.002)
    assert (abs(t) < t_limit(LEANING, 2)).mean() == pytest.approx(0.8, abs=0.004)


def test_a_difference_counts_beyond_the_wider_interval_of_both_errors():
    assert Difference(0.1, 0.03, 0.04, 3).reach() == pytest.approx(4.303 * 0.04, rel=1e-3)
    assert Difference(0.1, 0.05, 0.01, 3).reach() == pytest.approx(1.960 * 0.05, rel=1e-3)
    assert [Difference(bits, 0.03, 0.04, 3).verdict for bits in (0.172, 0.173, -0.172, -0.173)] == [
        "undecided", "higher", "undecided", "lower"
    ]  # fmt: skip
    assert Difference(0.1, None, 0.0233, 3).verdict == "undecided" and Difference(0.1, None, 0.0232, 3).verdict == "higher"
    assert Difference(5.0, None, None, 3).sign() == 0


def test_a_borrowed_error_has_the_degrees_of_freedom_of_whom_it_is_borrowed_from():
    own, borrowed = Difference(0.1, None, 0.04, 2), Difference(0.1, None, 0.04, 2, borrowed_freedom=10)
    assert own.reach() == pytest.approx(12.706 * 0.04, rel=1e-3) and borrowed.reach() == pytest.approx(2.228 * 0.04, rel=1e-3)


@pytest.mark.parametrize(("right", "items", "chance"), [(0, 5, 0.25), (3, 5, 0.25), (5, 5, 0.5), (9, 12, 0.5), (40, 100, 0.25)])
def test_guessing_gives_so_many_right_answers_as_often_as_counting_all_outcomes_says(right, items, chance):
    each = (math.comb(items, k) * chance**k * (1 - chance) ** (items - k) for k in range(right, items + 1))
    assert by_guessing(right, items, chance) == pytest.approx(sum(each), rel=1e-9)


def test_one_seed_gets_no_verdict_however_small_its_error_over_units():
    gap = difference_of_seeds([0.5], [0.001])
    assert (gap.error_seeds, gap.sign(), gap.verdict, str(gap)) == (None, 1, "undecided", "+0.5000 ± 0.0010 / -")


def test_a_difference_of_seeds_is_their_mean_with_the_error_of_that_mean_and_the_largest_error_over_units():
    gap = difference_of_seeds([0.1, 0.2, 0.6], [0.01, 0.03, 0.02])
    assert gap.bits == pytest.approx(0.3) and gap.seeds == 3
    assert gap.error_seeds == pytest.approx(np.std([0.1, 0.2, 0.6], ddof=1) / math.sqrt(3))
    assert gap.error_units == 0.03


def test_a_difference_of_units_weighs_each_by_its_bytes_and_pairs_the_seeds():
    bits, sizes = np.array([[1.0, -2.0, 6.0], [3.0, 2.0, 2.0]]), np.array([10.0, 20.0, 70.0])
    gap = difference_of_units(bits, sizes)
    assert gap.bits == pytest.approx((5 + 7) / 2 / 100) and gap.seeds == 2
    assert gap.error_seeds == pytest.approx((7 - 5) / 100 / 2)  # half the distance of two
    rest = [2.0 - 0.06 * 10, 0.0 - 0.06 * 20, 4.0 - 0.06 * 70]
    assert gap.error_units == pytest.approx(math.sqrt(3 / 2 * sum(x**2 for x in rest)) / 100)


def test_a_borrowed_error_is_printed_in_parentheses():
    assert str(Difference(-0.05, 0.001, 0.02, 1, borrowed_freedom=9)) == "-0.0500 ± 0.0010 / (0.0200)"


def test_a_single_value_or_unit_has_no_error():
    assert error_of_mean([1.0]) is None and ratio_error(np.ones(1), np.ones(1)) is None
