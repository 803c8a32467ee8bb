"""What README opens with follows the records: which method is said to be better, and by how much."""

from statistics import fmean

import pytest
from sweeps import record, seeds_of, sweep_of, write

from rltok.errors import RltokError
from rltok.evidence import headline
from rltok.evidence.differences import matched_gap
from rltok.evidence.records import read_sweeps

SPREAD = (-0.005, 0.0, 0.005)  # of a method over its seeds


def best(policy=1.7, even=1.8, hnet=1.7, **rates):
    levels = {"policy_x20": policy, "even": even, "hnet_port": hnet, "bpe": 1.6, "whitespace": 1.75}
    runs = [
        record(name, seed, bits=bits + (SPREAD[seed] if name == "policy_x20" else 0.0), wiggle=0.0,
               rule="learned" if name == "policy_x20" else "even")
        for name, bits in levels.items() for seed in range(3)
    ]  # fmt: skip
    return sweep_of(*runs)


def test_a_method_is_called_better_or_worse_only_beyond_its_interval():
    gaps = headline._gaps(best(), "policy_x20", ("even", "hnet_port", "bpe"))
    half = 4.302653 * 0.005 / 3**0.5  # Student's t with 2 degrees of freedom at 95 %, from a table
    assert gaps["even"].reach() == pytest.approx(half, rel=0.02)
    assert headline.against(gaps).replace("\N{NO-BREAK SPACE}", " ") == (
        f"better than even spacing (-0.100 ± {half:.3f}), and not clearly better or worse than H-Net (+0.000 ± {half:.3f}),"
        f" and worse than BPE guidance (+0.100 ± {half:.3f})"
    )


def test_the_sentence_about_what_works_turns_with_the_runs():
    assert "better than even spacing" in headline._works(best())
    assert "worse than even spacing" in headline._works(best(even=1.6))
    assert "not clearly better or worse than even spacing" in headline._works(best(even=1.7))
    for even, sign in ((1.702, "-"), (1.698, "+")):
        assert f"better or worse than even spacing ({sign}0.002" in headline._works(best(even=even))


def test_shares_of_white_space_are_a_mean_only_where_seeds_agree():
    sweep = best()
    for name, values in {"policy_x20": (0.97, 0.95, 0.96), "even": (0.29, 0.85, 0.01)}.items():
        for run, value in zip(sweep.runs[name].values(), values, strict=True):
            run["scores"][headline.place_of(sweep)]["whitespace_share"] = value
    assert headline.shares(sweep, "policy_x20") == "96%"
    assert headline.shares(sweep, "even") == "1% to 85% (by seed)"


def test_the_table_has_the_range_of_shares_where_seeds_part():
    sweep = best()
    for run, value in zip(sweep.runs["hnet_port"].values(), (0.3, 0.69, 0.38), strict=True):
        run["scores"][headline.place_of(sweep)]["whitespace_share"] = value
    (row,) = (line for line in headline.table(sweep).splitlines() if headline.NAMES["hnet_port"] in line)
    assert row.endswith("| 30% to 69% |")


def test_what_every_seed_keeps_is_said_with_its_own_share():
    sweep = best()
    for run in sweep.runs["policy_x20"].values():
        run["scores"][headline.place_of(sweep)]["whitespace_share"] = 0.99
        for point in run["held_out"]:
            point["whitespace_share"] = 0.96
    first = max(run["held_out"][0]["bytes"] for run in sweep.runs["policy_x20"].values())
    assert f"after 99% of white space (at least 95% in every seed once it has read {first / 1e6:.0f} MB)" in headline._works(
        sweep
    )


def test_a_policy_is_held_against_tokenizers_at_their_rates_once_such_runs_have_their_seeds():
    levels = {"policy_x20": 1.7, "bpe": 1.6, "bpe_causal": 1.6, "policy_x20_rate_bpe": 1.5, "policy_x20_rate_bpe_causal": 1.6}
    runs = [record(name, seed, bits=bits + (SPREAD[seed] if "policy" in name else 0.0), wiggle=0.0,
                   rule="learned" if "policy" in name else "even")
            for name, bits in levels.items() for seed in range(3)]  # fmt: skip
    said = headline._guidance(sweep_of(*runs))
    assert "Run with as many boundaries as the tokenizer, it predicts better than BPE guidance (-0.100" in said
    assert "not clearly better or worse than BPE without its look ahead" in said
    fewer = sweep_of(*(run for run in runs if (run["name"], run["seed"]) != ("policy_x20_rate_bpe_causal", 2)))
    assert headline._guidance(fewer).endswith("each at a rate of its own.") and "worse than BPE guidance" in headline._guidance(
        fewer
    )


def test_the_table_lists_the_lowest_loss_first_each_beside_even_spacing():
    head, _, *lines = headline.table(best(hnet=1.5)).splitlines()
    even = fmean(run["scores"]["test"]["bits_per_byte"] for run in best().runs["even"].values())
    assert f"minus even spacing ({even:.3f})" in head
    assert [line.split("|")[1].strip() for line in lines] == [
        headline.NAMES[n] for n in ("hnet_port", "policy_x20", "whitespace")
    ]
    assert "| -0.300" in lines[0]


def whole(shares, policy=1.7, large=0.03):
    """A sweep in which the policy with its own rate, that as in the paper, and the large one end with these shares."""
    slow = [record("policy", seed, bits=1.75, rule="learned") for seed in range(3)]
    sweep = sweep_of(*best(policy=policy, hnet=1.7).records, *slow)
    for name, share in shares.items():
        for run in sweep.runs[name].values():
            run["scores"][headline.place_of(sweep)]["whitespace_share"] = share
    huge = sweep_of(record("ours_gamma0.9", 0, rule="learned"), record("bpe", 0, rule="bpe"))
    huge.runs["ours_gamma0.9"][0]["scores"][headline.place_of(huge)]["whitespace_share"] = large
    return sweep, huge


def test_the_first_sentence_says_in_plain_words_whether_the_paper_was_reproduced():
    said = headline.answer(*whole({"policy_x20": 0.99, "policy": 0.3}))
    assert said.startswith("**Was the paper reproduced? In part.** Shown: that the policy learns to end tokens at spaces")
    shown, not_shown = said.split(" Not shown: ")
    assert "better than even spacing" in shown and "H-Net" not in shown
    assert not_shown == (
        "that it predicts better than H-Net; that the paper's single learning rate is enough;"
        " that the paper's policy learns spaces at the paper's size."
    )


def test_opposite_records_turn_the_answer():
    bad = headline.answer(*whole({"policy_x20": 0.5, "policy": 0.3}, policy=1.9))
    assert bad.startswith("**Was the paper reproduced? No.** Not shown: that the policy learns") and " Shown" not in bad
    good = headline.answer(*whole({"policy_x20": 0.99, "policy": 0.98}, policy=1.6, large=0.97))
    assert good.startswith("**Was the paper reproduced? Yes.** Shown: that the policy learns") and "Not shown" not in good


def test_what_failed_is_silent_about_missing_runs_once_they_are_there():
    _, huge = whole({"policy_x20": 0.99, "policy": 0.3})
    assert "yet to run" in headline._failed(huge)
    assert "yet to run" not in headline._failed(sweep_of(*huge.records, record("policy_x20", 0, rule="learned")))


def test_one_seed_away_from_white_space_is_enough_to_doubt_that_the_policy_learns_it():
    sweep, huge = whole({"policy_x20": 0.99, "policy": 0.3})
    sweep.runs["policy_x20"][2]["scores"][headline.place_of(sweep)]["whitespace_share"] = 0.9
    assert "Not shown: that the policy learns to end tokens at spaces" in headline.answer(sweep, huge)


def test_boundaries_are_settled_after_the_last_time_that_any_seed_left_white_space():
    sweep = best()
    for seed, late in enumerate((3, 7, 2)):
        points = sweep.runs["policy_x20"][seed]["held_out"]
        for number, point in enumerate(points):
            point["whitespace_share"] = 0.99 if number >= late - 2 else 0.5
    points = [run["held_out"] for run in sweep.runs["policy_x20"].values()]
    assert headline.settled_after(sweep, "policy_x20") is None  # seed 1 never comes to stay
    for point in points[1]:
        point["whitespace_share"] = 0.99
    assert headline.settled_after(sweep, "policy_x20") == points[0][1]["bytes"]


def test_the_verdict_is_about_test_text_only_where_every_run_was_scored_on_it():
    sweep = best()
    assert headline.place_of(sweep) == "test"
    sweep.runs["bpe"][1]["scores"]["test"] = None
    assert headline.place_of(sweep) == "validation"


def rivals(*, rates=(0.22, 0.22, 0.22)):
    policies = [
        record("policy_x20_rate_bpe", seed, bits=1.7, rule="learned", rate=rate, **{"model.rule.target_rate": rate})
        for seed, rate in enumerate(rates)
    ]
    return [*policies, *seeds_of("bpe", 1.8, rate=0.22)]


def test_methods_at_equal_rates_are_compared():
    assert matched_gap(sweep_of(*rivals()), "policy_x20_rate_bpe", "test").bits == pytest.approx(-0.1, abs=0.01)
    assert matched_gap(sweep_of(*rivals()), "policy_x20_rate_bpe_causal", "test") is None


def test_rates_that_are_not_equal_are_refused():
    sweep = sweep_of(*rivals(rates=(0.227, 0.226, 0.228)))
    with pytest.raises(RltokError, match=r"draws 0\.2270 boundaries per byte and bpe 0\.2200.*at most 0\.005"):
        matched_gap(sweep, "policy_x20_rate_bpe", "test")


def test_seeds_of_a_method_whose_rate_is_anothers_may_have_targets_of_their_own(tmp_path):
    write(tmp_path, *rivals(rates=(0.22, 0.221, 0.222)))
    assert len(read_sweeps(tmp_path)["32m"].runs["policy_x20_rate_bpe"]) == 3
    write(tmp_path / "other", *(record("even", seed, **{"model.rule.target_rate": 0.2 + seed / 100}) for seed in range(2)))
    with pytest.raises(RltokError, match="target_rate"):
        read_sweeps(tmp_path / "other")
