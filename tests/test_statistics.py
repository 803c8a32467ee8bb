"""rltok.statistics: standard errors against formulas by hand, and when a difference counts."""

import math

import numpy as np
import pytest

from rltok.statistics import Difference, difference_of_seeds, difference_of_units, error_of_mean, ratio_error


def test_a_difference_counts_beyond_twice_the_larger_of_both_errors():
    assert Difference(0.1, 0.03, 0.04, 3).sigma == 0.04 and Difference(0.1, 0.05, 0.04, 3).sigma == 0.05
    assert [Difference(bits, 0.03, 0.04, 3).verdict for bits in (0.08, 0.081, -0.08, -0.081)] == [
        "undecided", "higher", "undecided", "lower"
    ]  # fmt: skip
    assert Difference(0.1, None, 0.051, 3).verdict == "undecided" and Difference(0.1, None, 0.049, 3).verdict == "higher"
    assert Difference(5.0, None, None, 3).sign == 0


def test_one_seed_gets_no_verdict_however_small_its_error_over_units():
    gap = difference_of_seeds([0.5], [0.001])
    assert (gap.error_seeds, gap.sign, gap.verdict, str(gap)) == (None, 1, "undecided", "+0.5000 ± 0.0010 / -")


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
    assert str(Difference(-0.05, 0.001, 0.02, 1, borrowed=True)) == "-0.0500 ± 0.0010 / (0.0200)"


def test_a_single_value_or_unit_has_no_error():
    assert error_of_mean([1.0]) is None and ratio_error(np.ones(1), np.ones(1)) is None
