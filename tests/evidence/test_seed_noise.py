"""rltok.evidence.differences: how differences deviate from seed to seed, and who borrows that."""

import numpy as np
import pytest
from sweeps import record, seeds_of, sweep_of, with_repeats

from rltok.evidence.criteria import at_equal_flops
from rltok.evidence.differences import borrow, borrowing, by_pair, deviation, freedom, gap, in_deviations, pooled, source
from rltok.evidence.verdicts import non_inferior, one_sided
from rltok.evidence.words import with_interval
from rltok.statistics import Difference, difference_of_units


def of_bits(**known):
    return [record(name, seed, bits=bits, wiggle=0) for name, each in known.items() for seed, bits in enumerate(each)]


def test_the_deviation_is_pooled_over_pairs_with_several_seeds():
    bits = {"ours": (2.0, 2.1, 2.3), "even": (2.1, 2.1, 2.6), "bpe": (2.5, 2.2, 2.4)}
    sweep = sweep_of(*of_bits(**bits, naive=(9.0,)))
    pairs = [("ours", "even"), ("ours", "bpe"), ("even", "bpe")]
    variances = [np.var(np.subtract(bits[a], bits[b]), ddof=1) for a, b in pairs]
    assert list(by_pair(sweep, "test")) == pairs
    assert deviation(sweep, "test") == pytest.approx(np.sqrt(np.mean(variances)))
    assert deviation(sweep_of(*seeds_of("ours", 2.0)), "test") is None and pooled([[1.0], []]) is None


def test_a_seed_that_was_run_twice_counts_with_the_mean_of_its_runs():
    runs = of_bits(ours=(2.0, 2.0, 2.0), even=(2.1, 2.2, 2.6))
    again = with_repeats(sweep_of(*runs), record("even", 2, bits=2.4, wiggle=0))
    assert by_pair(again, "test")["ours", "even"] == pytest.approx([-0.1, -0.2, -0.5])


def test_a_pair_weighs_as_much_in_the_deviation_as_it_has_degrees_of_freedom():
    three, two = [1.0, 2.0, 6.0], [0.0, 1.0]  # sums of squares 14 and 1/2
    assert pooled([three, two, [5.0]]) == pytest.approx((14.5 / 3) ** 0.5)


def test_the_pooled_deviation_has_the_degrees_of_freedom_of_what_is_left_without_methods_and_seeds():
    names, spread, deviations = "abcd", 0.01, []
    for seed in range(1000):  # its relative variance, 2 / degrees of freedom, over many sweeps of four methods and three seeds
        scores = spread * np.random.default_rng(seed).normal(size=(4, 3))
        pairs = {(names[i], names[j]): list(scores[i] - scores[j]) for i in range(4) for j in range(i)}
        deviations.append(pooled(pairs.values()) ** 2)
    assert freedom(pairs) == 6 and np.var(deviations) / np.mean(deviations) ** 2 == pytest.approx(2 / 6, rel=0.2)
    assert freedom({("a", "b"): [1.0, 2.0, 4.0], ("a", "c"): [1.0]}) == 2


PAIRS = {("even", "bpe"): [0.0, 0.06, 0.12]}  # which deviate by 0.06, of two degrees of freedom


@pytest.mark.parametrize("seeds, own, expected", [(1, None, 0.06), (2, None, 0.06 / 2**0.5), (2, 0.05, 0.06 / 2**0.5)])
def test_few_seeds_take_the_error_of_their_sweep(seeds, own, expected):
    actual = borrow(Difference(-0.05, 0.001, own, seeds), PAIRS)
    assert actual.error_seeds == pytest.approx(expected) and actual.borrowed
    assert actual.reach() == pytest.approx(4.303 * expected, rel=1e-3)
    assert f"/ ({expected:.4f}) (95%: ± {4.3027 * expected:.4f})" in with_interval(actual)


def test_three_seeds_borrow_nothing_and_nobody_borrows_from_nobody():
    three, one = Difference(-0.05, 0.001, 0.01, 3), Difference(-0.05, 0.001, None, 1)
    assert borrow(three, PAIRS) == three and borrow(one, {}) == one and not one.borrowed


def test_borrowing_turns_leanings_into_undecided_and_nothing_else():
    for bits in (-0.3, -0.1, -0.01, 0.01, 0.1, 0.3):
        before = Difference(bits, 0.001, None, 1)
        after = borrow(before, PAIRS)
        for judge in (lambda one: one_sided(one, -1), lambda one: non_inferior(one, 0.01)):
            assert judge(after) in (judge(before), "undecided")
    assert one_sided(borrow(Difference(-0.1, 0.001, None, 1), PAIRS), -1) == "undecided"
    assert one_sided(borrow(Difference(-0.3, 0.001, None, 1), PAIRS), -1) == "leans for"


def test_a_difference_of_one_seed_borrows_from_its_sweep():
    sweep = sweep_of(*of_bits(ours=(2.0, 2.0, 2.0), even=(2.1, 2.2, 2.6), naive=(2.5,)))
    difference = gap(sweep, "naive", "ours", "piqa")
    assert (difference.seeds, difference.borrowed) == (1, True) and difference.error_seeds == pytest.approx(0.07**0.5)
    assert gap(sweep, "even", "ours", "piqa") == difference_of_units(*sweep.paired("even", "ours", "piqa"))
    assert gap(sweep, "nobody", "ours", "piqa") is None


def test_a_sweep_with_two_seeds_of_two_methods_uses_its_own_deviation_and_not_its_donors():
    beside = sweep_of(*of_bits(ours=(2.0, 2.0, 2.0), even=(2.1, 2.2, 2.6)))
    own = borrowing(sweep_of(*of_bits(ours=(1.5, 1.5), even=(1.7, 1.72), bpe=(1.6,))), beside)
    assert source(own, "test") is own and deviation(own, "test") == pytest.approx(0.02 / 2**0.5)
    assert gap(own, "bpe", "ours", "test").error_seeds == pytest.approx(0.02 / 2**0.5)


def test_a_sweep_in_which_nobody_has_two_seeds_borrows_from_the_one_beside_it():
    beside = sweep_of(*of_bits(ours=(2.0, 2.0, 2.0), even=(2.1, 2.2, 2.6)))
    alone = sweep_of(*of_bits(ours=(1.5,), even=(1.7,)))
    with_donor = borrowing(alone, beside)
    assert deviation(alone, "test") is None and deviation(with_donor, "test") == deviation(beside, "test") == pytest.approx(
        0.07**0.5
    )
    own, difference = (gap(sweep, "ours", "even", "test") for sweep in (alone, with_donor))
    assert (own.seeds, own.borrowed, own.error_seeds) == (1, False, None)
    assert (difference.seeds, difference.borrowed, difference.bits) == (1, True, own.bits)
    assert [at_equal_flops(sweep, "ours", "even").parts[0].measured.borrowed for sweep in (alone, with_donor)] == [False, True]
    assert source(borrowing(beside, alone), "test").runs == beside.runs  # it has its own
    unscored = sweep_of(*of_bits(ours=(1.5, 1.5, 1.5), even=(1.7, 1.7, 1.7)))  # of three seeds one was scored on test text
    for run in unscored.records:
        run["scores"]["test"] = run["scores"]["test"] if run["seed"] == 0 else None
    apart = sweep_of(
        *of_bits(ours=(1.5,) * 3), *(record("even", seed, bits=1.7, wiggle=0) for seed in (0, 4, 5))
    )  # one in common
    for few in (unscored, apart):
        difference = gap(borrowing(few, beside), "ours", "even", "test")
        assert (difference.seeds, difference.borrowed, difference.error_seeds) == (1, True, pytest.approx(0.07**0.5))
    assert borrowing(alone, None) is alone and borrowing(alone, alone) is alone


def test_a_difference_in_deviations_of_all_pairs_and_of_its_own():
    beside = sweep_of(*of_bits(ours=(2.0, 2.0, 2.0), even=(2.1, 2.2, 2.6), bpe=(2.0, 2.5, 2.1)))
    alone = sweep_of(*of_bits(ours=(1.5,), even=(1.7,), naive=(1.9,)))
    own, spread = np.std([0.1, 0.2, 0.6], ddof=1), deviation(beside, "test")
    text = in_deviations(alone, beside, "ours", "even", "test")
    assert text == f"ours minus even: -0.2000, which is {0.2 / spread:.1f} deviations of all pairs, {0.2 / own:.1f} of this pair"
    assert f", {0.2 / own:.1f} of this pair" in in_deviations(alone, beside, "even", "ours", "test")
    assert in_deviations(alone, beside, "naive", "even", "test").endswith("deviations of all pairs")
    for sweep, donor, name in ((alone, alone, "even"), (alone, beside, "bpe")):
        assert in_deviations(sweep, donor, "ours", name, "test") == f"ours minus {name}: not known"
