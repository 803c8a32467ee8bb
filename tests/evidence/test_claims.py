"""rltok.evidence.claims, criteria and small_claims: every claim has a row, and rows follow the records."""

import json
import re

import pytest
from sweeps import record, seeds_of, sweep_of, with_repeats, write

from rltok.data.fixed_texts import FIXED_TEXTS
from rltok.evidence import words
from rltok.evidence.claims import POLICIES, claims
from rltok.evidence.criteria import agreement_at, at_equal_flops, curve_at
from rltok.evidence.paper import ABLATION, PLACES, TABLE_1, TABLE_3
from rltok.evidence.records import read_sweeps
from rltok.evidence.small_claims import judged, small_claims
from rltok.evidence.tables import (
    accuracy_table,
    at_chance,
    claims_table,
    counts,
    course_table,
    heading,
    judged_claims,
    small_claims_table,
    table_1,
    table_3,
)
from rltok.evidence.verdicts import NO_RUN
from rltok.system.digest import with_digest

BY_ID = {claim.id: claim for claim in claims()}
SMALL = {claim.id: claim for claim in small_claims()}

# What the register of equations and the paper's own text list, by the row that answers for it.
LISTED = {
    "Table 1, held-out text, against each of the three": ["test_even", "test_dynamic_pooling_port", "test_hnet_port"],
    "Table 1, lowest on PIQA, HellaSwag and LAMBADA": ["best_piqa", "best_hellaswag", "best_lambada"],
    "Table 1, ARC-Easy": ["arc_even"],
    "section 4.3, BPE": ["bpe_test", "bpe_others", "bpe_piqa", "bpe_hellaswag", "bpe_arc_easy"],
    "Table 1, BPE on LAMBADA": ["bpe_lambada"],
    "one lag, and none, against eight": ["lags1_test", "lags0_test", "lags1_lambada"],
    "Table 3 and appendix D": ["rate", "rate_below"],
    "Figure 3": ["flops_random_k", "flops_dynamic_pooling_port", "flops_hnet_port", "all_along"],
    "Figure 4": ["python"],
    "Figures 5, 9, 10": ["python_places"],
    "Figures 2 and 6": ["white_space"],
    "Figure 13": ["entropy", "stable"],
    "B.6": ["every_second", "rates_robust"],
    "section 2.4, returns": ["returns_positive", "returns"],
    "section 5, aspect ratio": ["aspect"],
    "the authors' ablation": [
        "ablation_gamma1", "ablation_no_centring", "ablation_no_early", "ablation_lags0", "ablation_no_rate_loss"
    ],
}  # fmt: skip
LISTED_SMALL = {
    "efficiency": ["efficiency_flops", "efficiency_time"],
    "eq. (10)": ["equality"],
    "section 2.4, noise": ["noise"],
    "section 2.6": ["no_constraint", "pressure"],
    "D.1": ["leak"],
}


def test_every_claim_that_is_listed_has_a_row_and_every_row_is_listed():
    assert sorted(BY_ID) == sorted(claim for group in LISTED.values() for claim in group)
    assert sorted(SMALL) == sorted(claim for group in LISTED_SMALL.values() for claim in group)
    assert len(claims()) == len(BY_ID)  # no name twice
    assert len(judged_claims(None)) == len(BY_ID)


def test_without_a_run_everything_is_undecided():
    for _, (first, second) in judged_claims(None):
        assert first.verdict == NO_RUN and (second is None or second.verdict == NO_RUN)
    assert set(counts(None)) == {NO_RUN}


def test_numbers_of_the_paper_are_its_table():
    assert BY_ID["test_even"].paper == "-0.079 ± 0.004"  # 1.297 - 1.376; root of twice 0.003 squared
    assert BY_ID["arc_even"].paper == "+0.042 ± 0.025"
    assert BY_ID["bpe_lambada"].paper == "-0.092 ± 0.018"
    assert BY_ID["lags1_lambada"].paper == "-0.153 ± 0.018"
    assert TABLE_1["hnet_port"]["lambada"].mean == 2.130 and TABLE_3["hnet_port"] == 0.206
    assert all(set(row) == set(PLACES) for row in TABLE_1.values())


@pytest.mark.parametrize(
    ("ours", "rival", "verdict"), [(2.0, 2.1, "supported"), (2.1, 2.0, "contradicted"), (2.0, 2.0, "undecided")]
)
@pytest.mark.parametrize("claim", ["test_even", "bpe_test", "best_piqa"])
def test_verdicts_follow_the_runs(claim, ours, rival, verdict):
    rivals = [run for name in ("even", "dynamic_pooling_port", "hnet_port", "bpe") for run in seeds_of(name, rival)]
    sweep = sweep_of(*seeds_of("ours", ours), *rivals)
    if claim == "bpe_test" and verdict == "undecided":  # no worse by more than a margin
        verdict = "supported"
    assert BY_ID[claim].criterion(sweep, "ours").verdict == verdict
    assert BY_ID[claim].criterion(sweep, "ours_gamma0.9").verdict == NO_RUN


def test_one_seed_leans_at_most():
    sweep = sweep_of(record("ours", 0, bits=2.0), record("even", 0, bits=2.2))
    assert BY_ID["test_even"].criterion(sweep, "ours").verdict == "leans for"


def test_claims_judged_by_the_very_same_runs_carry_one_number_and_others_another_or_none():
    rows = claims_table(sweep_of(*seeds_of("ours", 2.0), *seeds_of("even", 2.1), *seeds_of("bpe", 2.2))).splitlines()

    def mark(claim):
        (row,) = (row for row in rows if f"| {BY_ID[claim].text} (" in row)
        match = re.search(r"\*\*( \(runs \d+\))?", row.split(" | ")[2].partition("**")[2])
        return match[1]

    assert mark("test_even") == mark("arc_even") is not None
    assert mark("bpe_test") == mark("bpe_piqa") not in (None, mark("test_even"))
    assert mark("white_space") == mark("rate") not in (None, mark("test_even"), mark("bpe_test"))
    apart = [one["seed"] for one in seeds_of("ours", 2.0, seeds=2)]
    mixed = sweep_of(*seeds_of("ours", 2.0), *seeds_of("even", 2.1, seeds=2))  # of even two seeds were run
    assert BY_ID["test_even"].criterion(mixed, "ours").runs == {(name, seed) for name in ("ours", "even") for seed in apart}


def guessing(sweep, place, right):
    """The sweep with this share of right answers of every run on a benchmark."""
    for run in sweep.records:
        run["scores"][place]["accuracy"] = right[run["name"]]
    return sweep


def test_a_benchmark_that_nobody_answers_better_than_by_guessing_is_marked_and_so_are_claims_about_it():
    # of 30 items at a chance of 1/4: 12 or more by guessing in 5.1 % of cases, 13 in 2.2 %, 14 in 0.8 %
    runs = [*seeds_of("ours", 2.0), *seeds_of("even", 2.1)]
    sweep = guessing(sweep_of(*runs), "arc_easy", {"ours": 13 / 30, "even": 12 / 30})
    assert at_chance(guessing(sweep, "piqa", {"ours": 14 / 30, "even": 5 / 30})) == []  # 5 % shared between two
    three = sweep_of(*runs, *seeds_of("random_k", 2.1))  # 2.2 % is below 5 %, and above a third of it
    right = {"piqa": {"ours": 14 / 30, "even": 0.2, "random_k": 0.2}, "arc_easy": dict.fromkeys(three.runs, 13 / 30)}
    for place, shares in right.items():
        guessing(three, place, shares)
    assert "piqa" not in at_chance(three) and "arc_easy" in at_chance(three)
    guessing(sweep, "arc_easy", {"ours": 12 / 30, "even": 12 / 30})
    assert at_chance(sweep) == ["arc_easy"]
    rows = {claim.id: first for claim, (first, _) in judged_claims(sweep)}
    assert rows["arc_even"].at_chance and not (rows["best_piqa"].at_chance or rows["test_even"].at_chance)
    text = claims_table(sweep)
    assert text.count("[not interpretable at this size]") == 1  # claims about ARC-Easy without a run have nothing to mark
    assert "ARC-Easy" in next(row for row in text.splitlines() if "not interpretable" in row)
    assert accuracy_table(sweep).splitlines()[-1] == "| better than guessing? | yes | yes | no: not interpretable at this size |"


def verdicts_on(sweep):
    """By claim the verdicts for both gammas, as tables print them."""
    return {claim.id: [words.verdict(one) for one in findings] for claim, findings in judged_claims(sweep)}


def test_a_record_replaced_by_another_changes_row_and_verdict(tmp_path):
    write(tmp_path, *seeds_of("ours", 2.0), *seeds_of("even", 2.1))
    before = verdicts_on(read_sweeps(tmp_path)["32m"])
    text = table_1(read_sweeps(tmp_path)["32m"])
    write(tmp_path, *seeds_of("even", 1.9))
    after = verdicts_on(read_sweeps(tmp_path)["32m"])
    assert (before["test_even"][0], after["test_even"][0]) == ("supported", "contradicted")
    assert table_1(read_sweeps(tmp_path)["32m"]) != text


def test_smoke_runs_say_so_in_verdict_and_heading():
    sweep = sweep_of(*seeds_of("ours", 2.0, full=False), *seeds_of("even", 2.1, full=False))
    assert verdicts_on(sweep)["test_even"] == ["smoke: supported", NO_RUN]
    assert heading(sweep).startswith("**Smoke runs")
    assert not heading(sweep_of(record())).startswith("**Smoke")


def test_a_heading_counts_runs_and_those_of_a_seed_that_was_run_before():
    sweep = sweep_of(record("ours"), record("even"))
    assert "; 2 runs; cpu; commit 0000000." in heading(sweep)
    assert "; 3 runs, 1 of them of a seed that was run before; cpu;" in heading(with_repeats(sweep, record("ours", bits=1.5)))


def test_white_space_rate_and_entropy_are_held_against_their_limits():
    good, bad = sweep_of(*seeds_of("ours", 2.0)), sweep_of(*seeds_of("ours", 2.0, white=0.4, rate=0.3, entropy=(0.5, 0.5)))
    for claim in ("white_space", "rate", "entropy"):
        verdicts = [BY_ID[claim].criterion(sweep, "ours").verdict for sweep in (good, bad)]
        assert verdicts[1] == "contradicted", claim
    assert BY_ID["white_space"].criterion(good, "ours").verdict == "supported"
    assert BY_ID["rate"].criterion(good, "ours").verdict == "supported"
    assert BY_ID["returns"].criterion(good, "ours").verdict == "supported"
    assert BY_ID["returns_positive"].criterion(good, "ours").verdict == "supported"
    assert BY_ID["stable"].criterion(good, "ours").verdict == "supported"


def test_questions_about_the_gamma_of_the_text_are_not_asked_of_the_other():
    runs = [
        *seeds_of("ours", 2.0),
        *seeds_of("ours_gamma0.9", 2.0),
        *seeds_of("ours_lags1", 2.0),
        *seeds_of("ours_no_early", 2.1),
    ]
    sweep = sweep_of(*runs)
    for claim in ("lags1_test", "ablation_no_early"):
        assert BY_ID[claim].criterion(sweep, POLICIES[0]).verdict == "supported"
        assert BY_ID[claim].criterion(sweep, POLICIES[1]) is None


def test_the_sign_of_an_ablation_is_that_of_the_authors():
    sweep = sweep_of(*seeds_of("ours", 2.0), *seeds_of("ours_gamma1", 1.9))
    assert ABLATION["ours_gamma1"][0] < ABLATION["ours"][0]  # there no discount was better, too
    assert BY_ID["ablation_gamma1"].criterion(sweep, "ours").verdict == "supported"


def test_curves_are_read_between_their_points():
    curve = [{"flops": 0.0, "bits_per_byte": 8.0}, {"flops": 10.0, "bits_per_byte": 4.0}, {"flops": 30.0, "bits_per_byte": 2.0}]
    assert [curve_at(curve, flops) for flops in (0.0, 5.0, 10.0, 20.0, 30.0, 99.0)] == [8.0, 6.0, 4.0, 3.0, 2.0, 2.0]


def test_equal_flops_compares_where_both_have_been():
    ours, rival = seeds_of("ours", 2.0), seeds_of("random_k", 2.1)
    for run in rival:
        for point in run["held_out"]:
            point["flops"] *= 2  # the same losses at twice the cost
    sweep = sweep_of(*ours, *[with_digest(run) for run in rival])
    finding = BY_ID["flops_random_k"].criterion(sweep, "ours")
    assert finding.verdict == "supported"
    at = ours[0]["held_out"][-1]["flops"]
    assert finding.parts[0].measured.bits == pytest.approx(2.0 - curve_at(rival[1]["held_out"], at), abs=0.003)


def test_agreement_is_f1_of_all_fixed_texts():
    run = record()
    size = len(FIXED_TEXTS["prose"].encode())
    run["snapshots"][1]["prose"] = run["snapshots"][1]["prose"] | {"boundaries": "1" * size}
    last = "".join(run["snapshots"][-1][text]["boundaries"] for text in FIXED_TEXTS)
    ones = last.count("1")
    then = ones - run["snapshots"][-1]["prose"]["boundaries"].count("1") + size
    assert agreement_at(run, 1 / 20) == pytest.approx(2 * ones / (ones + then))
    assert agreement_at(run, 1.0) == 1.0
    assert agreement_at(run, 1 / 10) == agreement_at(run, 1 / 20)  # of 0, 1, 5, 20 the nearest to 2


def test_a_claim_about_a_tenth_of_training_says_how_much_text_that_is():
    finding = BY_ID["stable"].criterion(sweep_of(*seeds_of("ours", 2.0)), "ours")
    assert (
        words.lines(finding)[0].endswith("3 seeds, after 0.002 MB") and "600 MB" in BY_ID["stable"].paper
    )  # of 20,000 bytes, and of 6 GB


def test_tables_set_ours_beside_the_paper():
    sweep = sweep_of(*seeds_of("ours", 2.0), *seeds_of("even", 2.1), record("naive", 0, rule="learned"))
    lines = table_1(sweep).splitlines()
    assert lines[0] == "| bits per byte | PIQA | HellaSwag | ARC-Easy | LAMBADA | held-out text |"
    assert "| even, paper | 1.660 ± 0.011 | 1.306 ± 0.002 | 1.974 ± 0.017 | 1.926 ± 0.012 | 1.376 ± 0.003 |" in lines
    assert [line.split("|")[1].strip() for line in lines[2:]] == [
        "**even**",
        "even, paper",
        "**ours**",
        "ours, paper",
        "**naive**",
    ]
    assert "| ours | 0.200 ± 0.000 | 0.200 ± 0.000 | 0.204 |" in table_3(sweep)
    head = claims_table(sweep).splitlines()[0]
    assert head == "| claim | paper | ours, 32m, γ = 0.99 | ours, 32m, γ = 0.9 |"
    assert "| **supported** (runs 1)<br>-0." in claims_table(sweep)


def test_small_claims_are_undecided_without_their_record(tmp_path):
    for claim in small_claims():
        verdict = judged(claim, tmp_path).verdict
        assert (verdict == NO_RUN) == (claim.record is not None)
    assert len(small_claims_table(tmp_path).splitlines()) == 2 + len(SMALL)


def test_eq_10_and_the_count_of_flops_are_computed(tmp_path):
    finding = judged(SMALL["equality"], tmp_path)
    assert finding.verdict == "contradicted" and "nats" in words.lines(finding)[0]
    assert judged(SMALL["efficiency_flops"], tmp_path).verdict == "contradicted"
    d = 768  # heads of 257 rows, a policy of 9; byte layers of 7 d^2, token layers of 16 d^2
    share = (257 + 9) * d / (8 * 7 * d * d + 12 * 16 * d * d / 5 + 257 * d)
    assert words.lines(judged(SMALL["efficiency_flops"], tmp_path)) == [f"{share:.2%}"]


@pytest.mark.parametrize(
    ("name", "content", "verdict"),
    [
        ("efficiency_time", {"policy_cost": {"cost": 0.007, "interval": [0.003, 0.011]}, "device": "x"}, "contradicted"),
        ("efficiency_time", {"policy_cost": {"cost": 0.0, "interval": [-0.001, 0.0009]}, "device": "x"}, "supported"),
        ("efficiency_time", {"policy_cost": {"cost": 0.002, "interval": [-0.001, 0.004]}, "device": "x"}, "undecided"),
        ("no_constraint", {"runs": [{"loss": "none", "rate": 0.999}] * 3}, "supported"),
        ("no_constraint", {"runs": [{"loss": "none", "rate": 0.999}, {"loss": "none", "rate": 0.17}]}, "undecided"),
        ("no_constraint", {"runs": [{"loss": "none", "rate": 0.2}] * 3}, "contradicted"),
        ("pressure", {"target": 0.2, "runs": [{"loss": loss, "rate": rate, "seed": seed} for loss, rates in
                      (("logits", (0.2, 0.21, 0.2)), ("probabilities", (0.28, 0.29, 0.3)))
                      for seed, rate in enumerate(rates)]}, "supported"),
        ("leak", {"words": {"2048": {"leak": 0.0}, "8192": {"leak": 0.05}}}, "contradicted"),
        ("leak", {"words": {"2048": {"leak": 0.05}, "8192": {"leak": 0.0}}}, "supported"),
    ],
)  # fmt: skip
def test_small_verdicts_follow_their_records(tmp_path, name, content, verdict):
    (tmp_path / f"{SMALL[name].record}.json").write_text(json.dumps(content))
    assert judged(SMALL[name], tmp_path).verdict == verdict


def test_equal_flops_of_one_seed_lean_by_the_error_over_documents():
    sweep = sweep_of(record("ours", 0, bits=2.0), record("random_k", 0, bits=2.3))
    assert BY_ID["flops_random_k"].criterion(sweep, "ours").verdict == "leans for"


def test_equal_flops_of_one_seed_borrow_the_deviation_of_curves_at_that_place():
    # ours minus even is 0.1, 0.2, 0.6 at the end and, as early curves are alike, 0 at the first point
    runs = [record("ours", seed, bits=2.0, wiggle=0) for seed in range(3)]
    runs += [record("even", seed, bits=bits, wiggle=0) for seed, bits in enumerate((2.1, 2.2, 2.6))]
    for run in runs:
        run["held_out"][0]["bits_per_byte"] = 3.0
    sweep = sweep_of(*map(with_digest, runs), record("random_k", bits=2.4, wiggle=0))
    end = sweep.runs["ours"][0]["held_out"][-1]["flops"]
    late, early = (
        at_equal_flops(sweep, "ours", "random_k", part) for part in (1.0, sweep.runs["ours"][0]["held_out"][0]["flops"] / end)
    )
    late_minus, early_minus = (one.parts[0].measured for one in (late, early))
    assert late_minus.borrowed and late_minus.error_seeds == pytest.approx(0.07**0.5) and late.verdict == "undecided"
    assert early_minus.borrowed and early_minus.error_seeds == pytest.approx(0.0, abs=1e-9)


def test_a_claim_with_one_seed_is_undecided_inside_the_deviation_of_seeds():
    runs = [record("ours", seed, bits=2.0, wiggle=0) for seed in range(3)]
    runs += [record("even", seed, bits=bits, wiggle=0) for seed, bits in enumerate((2.1, 2.2, 2.6))]
    near, far = (record("ours_lags1", bits=bits, wiggle=0.001) for bits in (2.1, 3.4))
    findings = [BY_ID["lags1_test"].criterion(sweep_of(*runs, one), "ours") for one in (near, far)]
    assert [one.verdict for one in findings] == ["undecided", "leans against"]
    ablated = record("ours_no_early", bits=2.1, wiggle=0.001)
    assert BY_ID["ablation_no_early"].criterion(sweep_of(*runs, ablated), "ours").verdict == "undecided"


def test_the_course_of_training_is_set_beside_that_of_even_spacing():
    ours = [record("ours", seed, bits=2.0 + 0.1 * seed, wiggle=0) for seed in range(3)]
    even = [record("even", seed, bits=2.1, wiggle=0) for seed in range(3)]
    for run in [*ours, *even]:
        first, last = run["held_out"][0], run["held_out"][-1]
        run["held_out"] = [{**first, "bytes": 20, "bits_per_byte": 5.0}, {**last, "bytes": 100}]
        run["bytes"] = 100
    sweep = sweep_of(*map(with_digest, ours), *map(with_digest, even), record("late", 7))
    head, _, *rows = (row.strip("| ").split(" | ") for row in course_table(sweep, parts=(0.6, 1.0)).splitlines())
    assert head[1:] == ["after 0 MB", "after 0 MB"] and [row[0] for row in rows] == ["`ours`", "`late`"]
    # differences at the end are -0.1, 0 and 0.1; half way from a common start half of that
    assert rows[0][1:] == [f"+0.000 ± {0.05 / 3**0.5:.3f}", f"+0.000 ± {0.1 / 3**0.5:.3f}"]
    assert rows[1][1:] == ["-", "-"]


def test_a_claim_about_the_whole_curve_fails_where_the_beginning_is_worse():
    ours, rivals = (
        seeds_of("ours", 2.0),
        [run for name in ("random_k", "dynamic_pooling_port", "hnet_port") for run in seeds_of(name, 2.1)],
    )
    assert BY_ID["all_along"].criterion(sweep_of(*ours, *rivals), "ours").verdict == "supported"
    for run in ours:
        run["held_out"][1]["bits_per_byte"] += 1.0  # at a quarter
    assert BY_ID["all_along"].criterion(sweep_of(*[with_digest(run) for run in ours], *rivals), "ours").verdict == "contradicted"


def test_our_rate_is_compared_with_those_of_the_rivals():
    rivals = [run for name in ("hnet_port", "bpe") for run in seeds_of(name, 2.0, rate=0.21)]
    assert BY_ID["rate_below"].criterion(sweep_of(*seeds_of("ours", 2.0), *rivals), "ours").verdict == "supported"
    assert BY_ID["rate_below"].criterion(sweep_of(*seeds_of("ours", 2.0, rate=0.22), *rivals), "ours").verdict == "contradicted"
