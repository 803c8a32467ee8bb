"""rltok.evidence.donors: how differences deviate from seed to seed, and who borrows that."""

import numpy as np
import pytest
from sweeps import record, seeds_of, sweep_of, with_repeats

from rltok.evidence.criteria import at_equal_flops
from rltok.evidence.donors import borrowing, by_pair, deviation, full, gap, in_deviations, lend, pooled, source
from rltok.evidence.verdicts import directed, in_sigmas, no_worse, sigma
from rltok.statistics import Gap


def of_bits(**known):
    return [record(name, seed, bits=bits, wiggle=0) for name, each in known.items() for seed, bits in enumerate(each)]


def test_the_deviation_is_pooled_over_pairs_with_three_seeds():
    bits = {"ours": (2.0, 2.1, 2.3), "even": (2.1, 2.1, 2.6), "bpe": (2.5, 2.2, 2.4)}
    sweep = sweep_of(*of_bits(**bits, naive=(9.0, 3.0)))
    pairs = [("ours", "even"), ("ours", "bpe"), ("even", "bpe")]
    variances = [np.var(np.subtract(bits[a], bits[b]), ddof=1) for a, b in pairs]
    assert full(sweep) == ["ours", "even", "bpe"] and list(by_pair(sweep, "test")) == pairs
    assert deviation(sweep, "test") == pytest.approx(np.sqrt(np.mean(variances)))
    assert deviation(sweep_of(*seeds_of("ours", 2.0)), "test") is None and pooled([[1.0, 2.0], []]) is None


def test_a_seed_that_was_run_twice_counts_with_the_mean_of_its_runs():
    runs = of_bits(ours=(2.0, 2.0, 2.0), even=(2.1, 2.2, 2.6))
    again = with_repeats(sweep_of(*runs), record("even", 2, bits=2.4, wiggle=0))
    assert by_pair(again, "test")["ours", "even"] == pytest.approx([-0.1, -0.2, -0.5])


@pytest.mark.parametrize(
    "seeds, own, expected", [(1, None, 0.06), (2, None, 0.06 / 2**0.5), (2, 0.05, 0.05), (2, 0.01, 0.06 / 2**0.5)]
)
def test_few_seeds_borrow_unless_their_own_error_is_larger(seeds, own, expected):
    lent = lend(Gap(-0.05, 0.001, own), seeds, 0.06)
    assert lent.seeds == pytest.approx(expected) == sigma(lent) and lent.lent
    assert f"/ ({expected:.4f}) (" in in_sigmas(lent)


def test_three_seeds_borrow_nothing_and_nobody_borrows_from_nobody():
    own = Gap(-0.05, 0.001, 0.01)
    assert lend(own, 3, 0.06) == own and lend(own, 1, None) == own and not own.lent


def test_borrowing_turns_verdicts_into_undecided_and_nothing_else():
    for bits in (-0.3, -0.1, -0.01, 0.01, 0.1, 0.3):
        before = Gap(bits, 0.001, None)
        after = lend(before, 1, 0.06)
        for judge in (lambda one: directed(one, -1, 1), lambda one: no_worse(one, 0.01, 1)):
            assert judge(after) in (judge(before), "undecided")
    assert directed(lend(Gap(-0.1, 0.001, None), 1, 0.06), -1, 1) == "undecided"
    assert directed(lend(Gap(-0.3, 0.001, None), 1, 0.06), -1, 1) == "indicative: for"


def test_a_difference_of_one_seed_borrows_from_its_sweep():
    sweep = sweep_of(*of_bits(ours=(2.0, 2.0, 2.0), even=(2.1, 2.2, 2.6), naive=(2.5,)))
    found, seeds = gap(sweep, "naive", "ours", "piqa")
    assert (seeds, found.lent) == (1, True) and found.seeds == pytest.approx(0.07**0.5)
    assert gap(sweep, "even", "ours", "piqa") == sweep.gap("even", "ours", "piqa")
    assert gap(sweep, "nobody", "ours", "piqa") is None


def test_a_sweep_in_which_nobody_has_three_seeds_borrows_from_the_one_beside_it():
    beside = sweep_of(*of_bits(ours=(2.0, 2.0, 2.0), even=(2.1, 2.2, 2.6)))
    alone = sweep_of(*of_bits(ours=(1.5,), even=(1.7,)))
    lent = borrowing(alone, beside)
    assert deviation(alone, "test") is None and deviation(lent, "test") == deviation(beside, "test") == pytest.approx(0.07**0.5)
    assert gap(alone, "ours", "even", "test") == alone.gap("ours", "even", "test")
    found, seeds = gap(lent, "ours", "even", "test")
    assert (seeds, found.lent, found.bits) == (1, True, alone.gap("ours", "even", "test")[0].bits)
    assert "/ (" not in at_equal_flops(alone, "ours", "even").ours and "/ (" in at_equal_flops(lent, "ours", "even").ours
    assert source(borrowing(beside, alone), "test").runs == beside.runs  # it has its own
    unscored = sweep_of(*of_bits(ours=(1.5, 1.5, 1.5), even=(1.7, 1.7, 1.7)))  # of three seeds one was scored on test text
    for run in unscored.records:
        run["scores"]["test"] = run["scores"]["test"] if run["seed"] == 0 else None
    apart = sweep_of(
        *of_bits(ours=(1.5,) * 3), *(record("even", seed, bits=1.7, wiggle=0) for seed in (0, 4, 5))
    )  # one in common
    for few in (unscored, apart):
        found, seeds = gap(borrowing(few, beside), "ours", "even", "test")
        assert (seeds, found.lent, found.seeds) == (1, True, pytest.approx(0.07**0.5))
    assert borrowing(alone, None) is alone and borrowing(alone, alone) is alone


def test_a_difference_in_deviations_of_all_pairs_and_of_its_own():
    beside = sweep_of(*of_bits(ours=(2.0, 2.0, 2.0), even=(2.1, 2.2, 2.6), bpe=(2.0, 2.5, 2.1)))
    alone = sweep_of(*of_bits(ours=(1.5,), even=(1.7,), naive=(1.9,)))
    own, spread = np.std([0.1, 0.2, 0.6], ddof=1), deviation(beside, "test")
    told = in_deviations(alone, beside, "ours", "even", "test")
    assert told == f"ours minus even: -0.2000, which is {0.2 / spread:.1f} deviations of all pairs, {0.2 / own:.1f} of this pair"
    assert f", {0.2 / own:.1f} of this pair" in in_deviations(alone, beside, "even", "ours", "test")
    assert in_deviations(alone, beside, "naive", "even", "test").endswith("deviations of all pairs")
    for sweep, lender, name in ((alone, alone, "even"), (alone, beside, "bpe")):
        assert in_deviations(sweep, lender, "ours", name, "test") == f"ours minus {name}: not known"
