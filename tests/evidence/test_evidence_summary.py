"""rltok.evidence.summary: the order of the methods, verdicts in short, runs made twice, one device alone."""

import re
import tomllib

import pytest
from paths import ROOT
from sweeps import PLACES, record, seeds_of, sweep_of, with_repeats

from rltok.errors import RltokError
from rltok.evidence.claims import claims
from rltok.evidence.differences import gap
from rltok.evidence.summary import (
    chance,
    in_fp16,
    in_short,
    luck,
    need,
    one_device,
    one_seed,
    order,
    repeated_pairs,
    single_seeds,
    spread_of_seeds,
    unscored,
)
from rltok.evidence.tables import WHO, judged_claims, who_is_who
from rltok.evidence.words import with_interval
from rltok.statistics import Difference

PLANS = ROOT / "scripts" / "measure" / "sweeps"
TEXTS = {claim.id: claim.text for claim in claims()}


def of_device(actual, device):
    return [run | {"device": device} for run in actual]


def names_in(message):
    return re.findall("`(.*?)`", message.partition(":** ")[2])


def test_the_order_is_by_distance_from_even_spacing_and_counts_single_seeds_only():
    three = [*seeds_of("even", 2.1), *seeds_of("bpe", 2.3, rule="bpe"), *seeds_of("ours", 2.0)]
    text = order(sweep_of(*three))
    assert names_in(text) == ["ours", "even", "bpe"] and "more" not in text
    assert "`ours` -0.09" in text and "`bpe` +0.20" in text and "`even`, " in text
    assert order(sweep_of(*three, record("ours_lags1"), record("naive"))).startswith(f"{text} 2 more with fewer than 3 seeds")
    assert names_in(order(sweep_of(record("even", bits=2.1), record("ours", bits=2.2)))) == [
        "even",
        "ours",
    ]  # better than nothing
    lonely = order(sweep_of(*seeds_of("even", 2.1), record("ours", bits=2.2), record("bpe", bits=2.0, rule="bpe")))
    assert names_in(lonely) == ["bpe", "even", "ours"]  # the reference's seeds compare nothing
    alone = order(sweep_of(record("ours")))
    assert "nothing to compare" in alone and alone.endswith("of a seed that `even` has, too: `ours`.")


def test_single_seeds_are_told_beside_one_run_and_the_mean_of_the_reference():
    # the differences of the only pair with several seeds are 0.1, 0.2 and 0.6: a deviation of sqrt(0.07), 2 degrees of freedom
    known = {"ours": (2.0, 2.0, 2.3), "even": (2.1, 2.2, 2.9), "bpe": (5.0,)}
    runs = [record(name, seed, bits=bits, wiggle=0) for name, each in known.items() for seed, bits in enumerate(each)]
    single = [record("naive", bits=2.5, wiggle=0, rate=0.1), record("ours_lags7", bits=1.9, wiggle=0), record("late", 7)]
    sweep = sweep_of(*runs, *single)
    rows = [row.strip("| ").split(" | ") for row in one_seed(sweep, "ours").splitlines()[2:]]
    assert [row[0] for row in rows] == ["`ours_lags7`", "`late`", "`naive`", "`bpe`"]
    assert rows[0][1].startswith("-0.1000 ± ") and rows[0][1].endswith(f"/ ({0.07**0.5:.4f}) (95%: ± {4.302653 * 0.07**0.5:.4f})")
    assert rows[1][1] == "-"  # nobody else has its seed
    # a run's own deviation: variances 0.03 of `ours` and 0.19 of `even`, 4 degrees of freedom; of one run and a mean of three
    error = (0.11 * (1 + 1 / 3)) ** 0.5
    assert rows[0][2] == f"-0.2000 ± ({error:.4f}) (95%: ± {2.776445 * error:.4f})"
    assert rows[3][2].startswith("+2.9000 ± (")
    assert rows[2][3:] == ["0.10", "0.95"]
    few = sweep_of(record("even"), record("ours", bits=2.1))
    assert "%" not in one_seed(few, "even").splitlines()[2]
    every = sweep_of(*seeds_of("even", 2.1), *seeds_of("ours", 2.0))
    assert f"deviates by {0.07**0.5:.3f}" in single_seeds(sweep) and single_seeds(every) == ""
    assert "no two contenders have several" in single_seeds(few) and single_seeds(few) in in_short(few)
    assert chance(few) == "" and "takes 5% of differences beyond it" in chance(every)


def test_runs_without_a_test_score_are_compared_with_those_that_have_one():
    def lost(*key, **more):
        made = record(*key, wiggle=0, **more)
        return made | {"scores": made["scores"] | {"test": None}}

    sweep = sweep_of(*(record("ours", seed, bits=2.0, wiggle=0) for seed in range(3)), record("even", bits=2.1))
    again = with_repeats(sweep, lost("ours", 0, bits=2.3), lost("ours", 0, bits=2.1), lost("ours", 1, bits=1.9))
    (row,) = unscored(again).splitlines()[2:]
    assert row == f"| `ours` | 2 | {(-0.2 + 0.1) / 2:+.4f} |"
    assert "`ours`" in luck(again) and luck(again).endswith(" by -0.0500.") and luck(sweep) == ""


def test_the_short_answer_begins_with_what_contradicts_the_paper():
    lower, higher = {"ours": 2.0, "even": 2.1}, {"ours": 2.0, "even": 1.9}
    text = [in_short(sweep_of(*(run for name, bits in case.items() for run in seeds_of(name, bits)))) for case in (lower, higher)]
    for one, part in zip(text, ("Supports the paper", "Contradicts the paper"), strict=True):
        blocks = dict(block.split(":**", 1) for block in one.removeprefix("**").split("\n\n**"))
        assert [name for name, lines in blocks.items() if TEXTS["test_even"] in lines] == [part]
    assert text[0].index("Contradicts") < text[0].index("Leans against") < text[0].index("Supports") < text[0].index("Leans for")
    alone = sweep_of(*seeds_of("ours", 2.0))
    undecided = sum(first.verdict not in ("supported", "contradicted") for _, (first, _) in judged_claims(alone))
    assert f"Undecided, or not run: {undecided} of {len(TEXTS)} claims." in in_short(alone)
    assert "From 3 seeds the interval reaches 4.3 errors over seeds" in in_short(alone)


def test_every_claim_against_the_paper_is_told_and_of_those_for_it_the_ones_that_matter_most():
    runs = [*seeds_of("ours", 2.0, white=0.99, rate=0.3), *seeds_of("even", 2.1), *seeds_of("hnet_port", 2.2, rule="hnet")]
    text = in_short(sweep_of(*runs))
    against, _, support = text.partition("**Supports the paper")
    assert TEXTS["rate"] in against  # no headline
    assert TEXTS["returns"] not in support and TEXTS["white_space"] in support
    judged = judged_claims(sweep_of(*runs))
    more = [claim for claim, findings in judged if "supported" in (one.verdict for one in findings if one) and not claim.headline]
    assert f"* {len(more)} more in the table of claims" in support


def test_the_short_answer_names_which_gamma_and_keeps_single_seeds_apart():
    sweep = sweep_of(*seeds_of("ours_gamma0.9", 2.0), *seeds_of("even", 2.1), record("hnet_port", 0, bits=2.3, rule="hnet"))
    sure, _, rest = in_short(sweep).partition("Leans for the paper")
    line = next(line for line in sure.splitlines() if TEXTS["test_even"] in line)
    assert "γ = 0.9: " in line and "0.99" not in line
    assert TEXTS["test_hnet_port"] in rest and TEXTS["test_hnet_port"] not in sure


def test_of_a_claim_with_many_parts_those_that_decide_are_told():
    everywhere = {place: 2.1 for place in PLACES}
    rivals = {"even": everywhere, "dynamic_pooling_port": everywhere, "hnet_port": everywhere | {"piqa": 1.9}}
    runs = [record(name, seed, bits=bits, rule="even") for name, bits in rivals.items() for seed in range(3)]
    text = in_short(sweep_of(*seeds_of("ours", 2.0), *runs))
    (line,) = (line for line in text.splitlines() if "PIQA: fewer bits per byte than each of the three" in line)
    minus_hnet = gap(sweep_of(*seeds_of("ours", 2.0), *runs), "ours", "hnet_port", "piqa")
    assert line.endswith(f"γ = 0.99: hnet_port: {with_interval(minus_hnet)}, 3 seeds (2 other parts in the table)")


def test_the_interval_of_a_difference_needs_several_seeds():
    assert with_interval(Difference(-0.03, 0.001, 0.01, 3)) == "-0.0300 ± 0.0010 / 0.0100 (95%: ± 0.0430)"
    assert with_interval(Difference(-0.03, 0.03, 0.01, 3)).endswith("(95%: ± 0.0588)")
    assert "%" not in with_interval(Difference(-0.03, 0.001, None, 1))
    assert with_interval(Difference(0.0, 0.0, 0.0, 3)) == "+0.0000 ± 0.0000 / 0.0000"


def test_two_names_of_one_run_have_no_difference_and_no_verdict():
    twice = [record(name, seed, bits=2.0 + 0.1 * seed, wiggle=0) for name in ("ours", "ours_lags1", "even") for seed in range(3)]
    sweep = sweep_of(*twice)
    text = in_short(sweep)
    assert "`ours` -0.0000 ± 0.0000 / 0.0000" in text or "`ours` +0.0000 ± 0.0000 / 0.0000" in text
    rows = {claim.text: first.verdict for claim, (first, _) in judged_claims(sweep)}
    assert rows[TEXTS["test_even"]] == "undecided" and rows[TEXTS["lags1_test"]] == "supported"
    one_device(sweep, ["ours"], ["even"])


def test_contenders_that_ran_without_a_common_score_are_no_missing_runs():
    sweep = sweep_of(record("ours", 0), record("even", 1))
    rows = {claim.text: first.verdict for claim, (first, _) in judged_claims(sweep)}
    assert rows[TEXTS["test_even"]] == "undecided: no score in common"
    assert rows[TEXTS["test_hnet_port"]] == "undecided: no run yet"


def test_pairs_of_one_seed_are_told_with_their_devices_in_one_order():
    first = sweep_of(*(record("ours", seed, bits=2.0 + seed / 10, wiggle=0) for seed in range(3)))
    (again,) = of_device([record("ours", 1, bits=2.05, wiggle=0)], "H100")
    (third,) = of_device([record("ours", 1, bits=2.06, wiggle=0)], "H100")
    pairs = repeated_pairs(with_repeats(first, again, third))
    assert [(name, seed, devices) for name, seed, _, devices in pairs] == [
        ("ours", 1, ("cpu", "H100")), ("ours", 1, ("cpu", "H100")), ("ours", 1, ("H100", "H100"))
    ]  # fmt: skip
    assert [bits for _, _, bits, _ in pairs] == pytest.approx([0.05, 0.04, -0.01])
    assert spread_of_seeds(first, ["ours"]) == pytest.approx([-0.1, -0.2, -0.1])


def test_differences_on_one_device_leave_the_runs_of_others_out():
    card = of_device(seeds_of("ours", 2.0, wiggle=0), "H100") + of_device(seeds_of("even", 2.1, wiggle=0), "H100")
    other = of_device(seeds_of("ours", 1.8, wiggle=0), "H200")
    sweep = with_repeats(sweep_of(*card), *other)
    head, _, row = one_device(sweep, ["ours"], ["even"], "validation").splitlines()
    assert head.split(" | ")[1:] == ["all runs", "H100", "H200 |"]
    cells = row.strip("| ").split(" | ")
    assert cells[1].startswith("-0.2000") and cells[2].startswith("-0.1000") and cells[3] == "-"
    assert cells[2].endswith("3 seeds: lower")


def test_a_page_that_needs_a_contender_says_which_one_is_missing():
    sweep = sweep_of(record("ours"))
    need(sweep, ["ours"])
    apart = sweep_of(record("ours", 0), record("ours", 1), record("even", 2))
    with pytest.raises(RltokError, match=r"no seed is common to ours, even, .*\(seeds: ours 0, 1; even 2\)"):
        need(apart, ["ours", "even"])
    with pytest.raises(
        RltokError, match="no finished run of even, bpe, which this page compares with. Make it: .*--only even bpe"
    ):
        need(sweep, ["even", "ours", "bpe"])


@pytest.mark.parametrize("plan", sorted(path.name for path in PLANS.glob("*.toml")))
def test_every_contender_of_a_plan_is_told_in_words(plan):
    names = {run["name"] for run in tomllib.loads((PLANS / plan).read_text())["run"]}
    assert names <= WHO.keys()
    text = who_is_who(sweep_of(*(record(name) for name in sorted(names)), record("somebody_elses")))
    assert all(f"| `{name}` | {WHO[name]} |" in text for name in names) and "| `somebody_elses` | - |" in text


@pytest.mark.parametrize(("offset", "side"), [(0.0015, "within"), (-0.0015, "within"), (0.0025, "beyond")])
def test_fp16_is_set_beside_bf16_and_the_noise_of_its_seeds(offset, side):
    narrow = seeds_of("ours_gamma0.9", 2.0, wiggle=0)  # 0.002 from seed to seed
    other = seeds_of("ours_gamma0.9_fp16", 2.0 + offset, wiggle=0)
    other = [run | {"skipped": count} for run, count in zip(other, (0, 2, 1), strict=True)]
    text = in_fp16(sweep_of(*narrow, *other))
    assert text.startswith(f"fp16 minus bf16, {offset:+.4f} ") and "3 seeds" in text
    assert f"{side} the noise of seeds, 0.0020 from one run" in text and text.endswith("by seed: 0, 2, 1.")


def test_before_there_are_records_of_both_precisions_nothing_is_said_of_them():
    for sweep in (None, sweep_of(*seeds_of("ours_gamma0.9", 2.0)), sweep_of(*seeds_of("ours_gamma0.9_fp16", 2.0))):
        assert in_fp16(sweep).startswith("Not measured yet")
