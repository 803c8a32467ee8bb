"""ch09_rates: on made-up records, means and intervals are those of a printed table of t, and forms meet at their target rates."""

import pytest
from sweeps import record, rows_of, sweep_of, with_repeats

from rltok.errors import RltokError
from rltok.evidence.chapters.ch09_rates import rate_curve, rates_figure, rates_table

RANGE = {"model.rule.lowest_rate": 0.1, "model.rule.highest_rate": 0.5}


def ranged(seed, bits, tokens=(0.34, 0.21), test=None, name="policy_x20_any_rate"):
    """A run scored at one in three and one in five."""
    made = record(name, seed, rule="learned", **RANGE)

    def scores(values):
        each = zip((0.333333, 0.2), values, tokens, strict=True)
        return [{"target_rate": rate, "bits_per_byte": b, "tokens_per_byte": t, "rate": t - 0.01} for rate, b, t in each]

    return made | {"rates": {"validation": scores(bits), "test": test and scores(test)}}


def single(name, seed, rate, bits, tokens=0.2):
    made = record(name, seed, rule="learned", **{"model.rule.target_rate": rate})
    made["scores"]["validation"] |= {"bits_per_byte": bits, "tokens_per_byte": tokens}
    return made


def sweep():
    return sweep_of(
        *(ranged(seed, (1.75 + step, 1.80 + 2 * step)) for seed, step in enumerate((-0.01, 0.0, 0.04))),
        *(single("policy_x20_every_3", seed, 0.333333, 1.74 + step) for seed, step in enumerate((-0.02, 0.01, 0.01))),
        single("policy_x20_every_8", 0, 0.125, 1.9),
        record("even", 0, rule="even"),
    )


def test_at_each_rate_both_forms_have_means_with_students_interval_and_a_difference_paired_by_seed():
    dense, sparse = rate_curve(sweep())
    assert (dense.target, sparse.target) == (0.333333, 0.2)
    # t(0.975, 2) = 4.3027; the deviation of -0.01, 0, 0.04 is 0.026458, of -0.02, 0.01, 0.01 it is 0.017321
    assert (dense.ranged.bits, dense.ranged.bits_reach) == pytest.approx((1.76, 4.3027 * 0.026458 / 3**0.5), rel=1e-4)
    assert (dense.single.bits, dense.single.bits_reach) == pytest.approx((1.74, 4.3027 * 0.017321 / 3**0.5), rel=1e-4)
    assert (dense.ranged.tokens, dense.ranged.tokens_reach) == pytest.approx((0.34, 0))
    # 0.02, 0, 0.04: of each seed's own pair
    assert (dense.difference.bits, dense.difference.reach()) == pytest.approx((0.02, 4.3027 * 0.02 / 3**0.5), rel=1e-4)
    assert sparse.ranged.bits == pytest.approx(1.82) and sparse.single is None and sparse.difference is None


def test_a_seed_without_a_twin_is_left_out_of_the_difference_and_a_repeated_one_counts_once():
    runs = sweep_of(ranged(0, (1.7, 1.8)), ranged(1, (1.8, 1.9)), single("policy_x20_every_5", 0, 0.2, 1.75))
    once = rate_curve(runs)[1]
    assert (once.difference.bits, once.difference.seeds, once.difference.reach()) == (pytest.approx(0.05), 1, None)
    again = rate_curve(with_repeats(runs, ranged(0, (1.9, 2.0)), single("policy_x20_every_5", 0, 0.2, 1.85)))[1]
    assert again.ranged.bits == pytest.approx((1.9 + 1.9) / 2) and again.single.bits == pytest.approx(1.8)
    assert again.difference.bits == pytest.approx(0.1)


def test_the_test_split_has_its_own_curve_once_it_was_scored():
    with pytest.raises(RltokError, match=r"policy_x20_any_rate of sweep 32m has no score on test yet\. Make it: "):
        rate_curve(sweep(), "test")
    (dense, _) = rate_curve(sweep_of(ranged(0, (1.7, 1.8), test=(1.5, 1.6))), "test")
    assert dense.ranged.bits == 1.5


def test_a_sweep_of_which_no_single_curve_can_be_drawn_is_refused():
    alone = single("policy_x20", 0, 0.2, 1.8)
    for runs, message in (
        ([alone], "has 0 methods with a range of rates"),
        ([ranged(0, (1, 1)), ranged(0, (1, 1), name="policy_other")], "has 2 methods with a range"),
        ([ranged(0, (1, 1)), alone, single("policy_y", 0, 0.2, 1.8)], "policy_x20 and policy_y of sweep 32m have the same rate"),
        ([ranged(0, (1, 1)) | {"rates": {"validation": [], "test": None}}], "policy_x20_any_rate of sweep 32m has a score at no"),
    ):
        with pytest.raises(RltokError, match=message):
            rate_curve(sweep_of(*runs))


def test_the_table_has_a_row_for_each_rate_and_the_figure_both_forms():
    head, dense, sparse = ([cell.replace("\N{NO-BREAK SPACE}", " ") for cell in row] for row in rows_of(rates_table(sweep())))
    assert [cell.split(",")[0] for cell in head] == ["target rate", "bits per byte", "bits per byte", "difference"]
    assert dense == ["1/3", "1.760", "1.740", "+0.020 ± 0.050"]
    assert sparse == ["1/5", "1.820", "-", "-"]
    (axes,) = rates_figure(sweep()).axes
    lines = [container.lines[0] for container in axes.containers]
    assert [line.get_ydata().tolist() for line in lines] == [pytest.approx([1.76, 1.82]), pytest.approx([1.74])]
    assert lines[0].get_xdata().tolist() == pytest.approx([0.34, 0.21])
