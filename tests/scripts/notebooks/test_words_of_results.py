"""Chapters 06b and 07: what their prose says of the stored runs. Apart from their other tests, which need no records."""

import pytest
from paths import ROOT

from rltok.evidence import headline
from rltok.evidence.chapters import ch06_case
from rltok.evidence.differences import RATE_TOLERANCE, gap, matched_gap, rates_beside
from rltok.evidence.headline import FAST

RESULTS = ROOT / "notebooks" / "results"
REWRITE = "the stored runs no longer say so: rewrite the sentence of the chapter"


@pytest.fixture(scope="module")
def best():
    return headline.best_sweep(RESULTS)


@pytest.fixture(scope="module")
def large():
    return headline.large_sweep(RESULTS)


def test_the_fast_policy_finds_spaces_and_predicts_better_than_even_spacing_at_both_sizes(best, large):
    for sweep in (best, large):
        ahead = gap(sweep, FAST, "even", "test")
        assert headline.at_spaces(sweep, FAST) and ahead.verdict == "lower" and ahead.seeds == 3, REWRITE


def test_beside_h_net_and_white_space_every_seed_is_ahead_and_the_mean_undecided_and_runs_aimed_at_their_rates_missed(best):
    for rival in ("hnet_port", "whitespace"):
        assert gap(best, FAST, rival, "test").verdict == "undecided" and max(headline.by_seed(best, FAST, rival)) < 0, REWRITE
        own, theirs = rates_beside(best, f"{FAST}_rate_{rival}", "test")
        assert own - theirs > RATE_TOLERANCE, REWRITE


def test_beside_tokenizers_nothing_is_decided(best):
    equal = [matched_gap(best, f"{FAST}_rate_{rival}", "test") for rival in ("bpe", "bpe_causal")]
    assert {found.verdict for found in (*equal, gap(best, FAST, "bpe", "test"))} == {"undecided"}, REWRITE


def test_all_fast_policies_but_one_go_to_white_space(best):
    shares = [share for name in best.runs if name.startswith(FAST) for share in best.values(name, "whitespace_share")]
    assert sum(share < 0.9 for share in shares) == 1, REWRITE


def test_at_147m_guidance_has_one_seed_two_methods_avoid_white_space_and_one_fast_policy_takes_its_time(large):
    assert len(large.runs["bpe"]) == len(large.runs["ours_gamma0.9"]) == 1, REWRITE
    avoid = [share for name in ("hnet_port", "ours_gamma0.9") for share in large.values(name, "whitespace_share")]
    assert max(avoid) < 0.1, REWRITE
    runs = large.runs[FAST].values()
    soon = [min(at["whitespace_share"] for at in run["held_out"] if 20e6 < at["bytes"] < 90e6) > 0.9 for run in runs]
    assert sorted(soon) == [False, True, True], REWRITE


def test_the_case_opens_with_the_fast_policy_of_147m():
    first = ch06_case.finding(ch06_case.read(RESULTS)).splitlines()[0]
    assert "the policy of 147M finds white space" in first and "better than even spacing" in first, REWRITE
