"""ch06_case and ch06_suspicions: sentences and verdicts turn with the records, and what is not stored is left out."""

import matplotlib
import pytest
from sweeps import record, rows_of, sweep_of

from rltok.evidence.chapters.ch06_case import Case, figure, finding, schedules, travel_table
from rltok.evidence.chapters.ch06_suspicions import suspicions_table
from rltok.optim import policy_travel
from rltok.presets import preset

matplotlib.use("Agg")
LATE, SOON = {"train.warmup_fraction": 0.5}, {"train.warmup_fraction": 0.01}


def policy(name, white, bits=1.5, seeds=(0,), **more):
    """Runs of a policy that ends with a boundary after this share of white space."""
    return [record(name, seed, bits=bits, white=white, rule="learned", wiggle=0.0, **more) for seed in seeds]


def even(bits=1.5, seeds=(0,), **more):
    return [record("even", seed, bits=bits, wiggle=0.0, **more) for seed in seeds]


def case(large, best=(), early=None, longer=None, tested=None, start=None, distances=None):
    """A case of these runs; `best` has a policy of either kind without any."""
    three = (0, 1, 2)
    known = [*policy("policy", 0.1, seeds=three), *policy("policy_x20", 0.99, seeds=three), *even(seeds=three)]
    return Case(sweep_of(*large), sweep_of(*best or known), early, longer, tested, start, distances)


def verdicts(found):
    """What the table of suspicions says of each."""
    return {row[0]: row[-1] for row in rows_of(suspicions_table(found))[1:]}


@pytest.mark.parametrize("white, words", [
    ((0.03,), "does not find white space:"), ((0.97,), "finds white space:"), ((0.97, 0.1), "with some seeds only:"),
])  # fmt: skip
def test_the_finding_says_where_the_policy_of_the_large_run_ended(white, words):
    runs = [run for seed, share in enumerate(white) for run in policy("ours_gamma0.9", share, seeds=(seed,), sweep="147m")]
    told = finding(case([*runs, *even(bits=1.6, sweep="147m")]))
    assert words in told and "with a higher learning rate of its own is stored yet" in told


def test_a_policy_that_comes_out_ahead_is_told_to_and_one_behind_as_well():
    both = [
        *policy("ours_gamma0.9", 0.1, seeds=(0, 1, 2), sweep="147m"),
        *policy("policy_x20", 0.9, 1.7, (0, 1, 2), sweep="147m"),
    ]
    told = finding(case([*both, *even(1.6, (0, 1, 2), sweep="147m")])).replace("\N{NO-BREAK SPACE}", " ")
    fast, slow = (line for line in told.splitlines() if line.startswith("* With") and "the policy of" in line)
    assert "better than even spacing (-0.100 ± " in slow and "(3 seeds)" in slow and "does not find" in slow
    assert "worse than even spacing (+0.100 ± " in fast and "finds white space" in fast and "hints" not in told


def test_of_fewer_than_three_seeds_each_is_shown_and_none_counts():
    runs = [run for seed in (0, 1) for run in policy("ours_gamma0.9", 0.1, 1.5 - seed / 10, (seed,), sweep="147m")]
    told = finding(case([*runs, *even(1.6, (0, 1), sweep="147m")])).replace("\N{NO-BREAK SPACE}", " ")
    assert "Seeds 0 and 1 differ from even spacing by -0.100 and -0.200 bits per byte; two decide nothing." in told


def test_what_three_seeds_decide_is_no_longer_among_what_fewer_do_not():
    three, one = (0, 1, 2), {"sweep": "147m", "wiggle": 0.0}
    runs = [
        *policy("policy_x20", 0.99, 1.5, three, sweep="147m"),
        *even(1.6, three, sweep="147m"),
        record("bpe", bits=1.7, **one),
    ]
    told = finding(case(runs)).replace("\N{NO-BREAK SPACE}", " ")
    line = told.splitlines()[0]  # the result comes first
    assert "a higher learning rate of its own" in line
    assert (
        "It predicts better than even spacing (-0.100 ± 0.000). Seed 0 differs from BPE guidance, of which 1 seed ran, by -0.200"
        " bits per byte; one seed decides nothing." in line
    )


def test_references_are_told_together_where_they_share_seeds_and_the_policy_s_own_lack_of_seeds_is_no_one_else_s():
    one = {"sweep": "147m", "wiggle": 0.0}
    runs = [*policy("ours_gamma0.9", 0.1, 1.5, sweep="147m"), *even(1.6, (0, 1, 2), sweep="147m"), record("bpe", bits=1.7, **one)]
    assert "Seed 0 differs from even spacing by -0.100, from BPE guidance by -0.200 bits per byte; one seed decides" in finding(
        case(runs)
    )


def test_the_paper_s_budget_joins_when_it_is_stored():
    large = policy("ours_gamma0.9", 0.1, sweep="147m")
    longer = sweep_of(*policy("policy", 0.93, sweep="32m_paper"))
    assert "whole budget" not in finding(case(large))
    assert "it has one after 93%" in finding(case(large, longer=longer))
    rows = [row[0] for row in rows_of(travel_table(case(large, longer=longer)))]
    assert len(rows) == len(rows_of(travel_table(case(large)))) + 1 == len(set(rows))


def test_travel_is_that_of_each_run_s_settings_beside_the_paper_s():
    fast = {"train.policy_lr_multiplier": 20.0}
    large = [*policy("ours_gamma0.9", 0.1, sweep="147m"), *policy("policy_x20", 0.9, sweep="147m", **fast)]
    rows = rows_of(travel_table(case(large)))[1:]
    share = policy_travel(preset("tiny")) / policy_travel(preset("147m"))
    assert [row[1] for row in rows[:2]] == [f"{share:.0%}", f"{20 * share:.0%}"] and rows[-1][1] == "100%"
    assert rows[-1][0].endswith("the paper") and rows[0][2] == "10%"


def test_suspicions_turn_with_what_their_runs_say():
    def found(small, large_hnet, late, soon, seed, fast):
        runs = [*policy("ours_gamma0.9", 0.03, sweep="147m", **LATE), record("hnet_port", white=large_hnet, sweep="147m")]
        early = sweep_of(*policy("ours_gamma0.9", small))
        tested = sweep_of(*policy("ours_late", late, **LATE), *policy("ours_low", soon, **SOON))
        start = record("ours_gamma0.9", 1, white=seed), runs[0]
        distances = {"147m": {"plain": {"gradient": 8e-3}, "triton": {"gradient": fast}}}
        return verdicts(case(runs, None, early, None, tested, start, distances))

    agrees, differs = found(0.97, 0.03, 0.1, 0.9, 0.04, 9e-3), found(0.97, 0.95, 0.9, 0.1, 0.9, 9e-2)
    assert agrees["the estimator"].startswith("not by itself: H-Net of 32M") and differs["the estimator"] == "not ruled out"
    assert (agrees["a learning rate that peaks late"], differs["a learning rate that peaks late"]) == ("in part", "no")
    assert (agrees["the seed"], differs["the seed"]) == ("unlikely: neither goes there", "not ruled out")
    assert (agrees["the code"], differs["the code"]) == ("no", "not ruled out")
    assert agrees["tokens that help too late"] in ("no", "not ruled out")


@pytest.mark.parametrize("slow, fast, large, verdict", [
    (0.1, 0.99, None, "yes, at 32M"), (0.1, 0.99, 0.95, "yes"), (0.1, 0.99, 0.1, "at 32M, not at 147M"), (0.9, 0.99, None, "no"),
    (0.1, 0.2, 0.95, "at 147M, not at 32M"), (0.1, 0.2, 0.1, "no"),
])  # fmt: skip
def test_too_little_travel_is_blamed_where_a_rate_of_its_own_finds_white_space(slow, fast, large, verdict):
    runs = [*policy("ours_gamma0.9", 0.03, sweep="147m"), *(policy("policy_x20", large, sweep="147m") if large else [])]
    found = case(runs, [*policy("policy", slow), *policy("policy_x20", fast)])
    assert verdicts(found)["weights that move too little"] == verdict


def test_an_interruption_is_cleared_by_what_came_before_it():
    def cut(white):
        run = policy("ours_gamma0.9", white, sweep="147m")[0]
        for batch in run["curve"]:
            batch["whitespace_share"] = 0.5  # of training batches: the figure shows held-out text
        sessions = [{"after": after, "redone": redone} for after, redone in ((0, 0), (10, 2))]
        return verdicts(case([run | {"sessions": sessions}]))["the interruption"]

    assert cut(0.05) == "no" and cut(0.9) == "not ruled out"


def test_what_is_not_stored_has_no_row():
    bare = case([record("even", sweep="147m")], even())
    assert suspicions_table(bare).count("\n") == 1  # the head alone
    assert "No policy of" in finding(bare) and "no run with another schedule" in schedules(bare, ended=True)
    assert len(rows_of(travel_table(bare))) == 2  # the head and the paper


def test_the_suspected_schedule_counts_the_first_sweep_s_runs_and_says_of_how_many_seeds():
    large, tested = policy("ours_gamma0.9", 0.03, sweep="147m", **LATE), sweep_of(*policy("ours_late", 0.1, **LATE))
    early = sweep_of(*policy("ours_gamma0.9", 0.9, seeds=(0, 1, 2)))
    rows = {row[0]: row for row in rows_of(suspicions_table(case(large, early=early, tested=tested)))}
    told = rows["a learning rate that peaks late"][2:]
    assert told == ["white space: 10% with a late peak (1 seed each), 90% with an early one (3 seeds each)", "in part"]
    assert "10% without it, 99% with it (3 seeds of `32m`)" in rows["weights that move too little"][2]


def test_schedules_are_listed_without_and_with_their_outcome_and_with_the_share_of_the_run_before_their_peak():
    early = sweep_of(*policy("ours_gamma0.9", 0.97))
    tested = sweep_of(*policy("ours_late", 0.11, **LATE))
    found = case(policy("ours_gamma0.9", 0.03, sweep="147m", **SOON), early=early, tested=tested)
    before, after = schedules(found, ended=False), schedules(found, ended=True)
    assert "97%" not in before and [line.split()[-1] for line in after.splitlines()[1:]] == ["97%", "11%", "3%"]
    assert [line.split()[-2] for line in before.splitlines()[2:]] == ["50.0%", "1.0%"]
    assert max(map(len, after.splitlines())) <= 78


def test_the_figure_has_a_line_a_seed_and_a_label_a_policy():
    drawn = figure(case(policy("ours_gamma0.9", 0.03, sweep="147m")))
    (axes,) = drawn.axes
    assert len(axes.lines) == 1 + 3 + 3 and len(axes.get_legend_handles_labels()[1]) == 3
