"""Chapters 06b and 07: what their prose says of the stored runs. Apart from their other tests, which need no records."""

from statistics import fmean

import pytest
from paths import ROOT

from rltok.evidence import headline
from rltok.evidence.chapters import ch06_case, ch07_results
from rltok.evidence.differences import RATE_TOLERANCE, gap, matched_gap, rates_beside
from rltok.evidence.headline import FAST, SLOW

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


def test_at_147m_guidance_is_undecided_two_methods_avoid_white_space_and_one_fast_policy_takes_its_time(large):
    assert all([*large.runs[name]] == [0] for name in ("hnet_port", "ours_gamma0.9")), REWRITE
    assert len(large.runs["bpe"]) == 3 and gap(large, FAST, "bpe", "test").verdict == "undecided", REWRITE
    avoid = [share for name in ("hnet_port", "ours_gamma0.9") for share in large.values(name, "whitespace_share")]
    assert max(avoid) < 0.1, REWRITE
    runs = large.runs[FAST].values()
    soon = [min(at["whitespace_share"] for at in run["held_out"] if 20e6 < at["bytes"] < 90e6) > 0.9 for run in runs]
    assert sorted(soon) == [False, True, True], REWRITE


def test_the_case_opens_with_the_fast_policy_of_147m():
    first = ch06_case.finding(ch06_case.read(RESULTS)).splitlines()[0]
    assert "the policy of 147M finds white space" in first and "better than even spacing" in first, REWRITE


@pytest.fixture(scope="module")
def told():
    return ch06_case.read(RESULTS)


def test_the_large_run_s_peak_is_late_in_text_alone_and_small_runs_with_it_stay_where_they_began(told):
    large, first = (ch06_case.settings(sweep, "ours_gamma0.9").train.warmup_fraction for sweep in (told.large, told.early))
    assert large == first, REWRITE
    runs = [(name, run) for name, seeds in told.schedules.runs.items() for run in seeds.values()]
    late = [run for name, run in runs if ch06_case.settings(told.schedules, name).train.warmup_fraction > 2 * large]
    shares = [[run["held_out"][at]["whitespace_share"] for at in (0, -1)] for run in late]
    assert len(late) == 3 and all(abs(began - 0.2) < 0.01 and ended < 0.21 for began, ended in shares), REWRITE


def test_with_one_rate_seeds_differ_while_undecided_and_their_leads_hardly_do(best):
    runs = best.runs[SLOW].values()
    half = [min(run["curve"], key=lambda at, run=run: abs(at["bytes"] - run["bytes"] / 2)) for run in runs]
    shares = sorted(at["whitespace_share"] for at in half)
    apart = min(more - less for less, more in zip(shares, shares[1:], strict=False))
    assert min(at["policy_entropy"] for at in half) > 0.35 and apart > 0.1, REWRITE
    leads = headline.by_seed(best, SLOW, "even")
    assert max(leads) - min(leads) < 0.005, REWRITE


def test_seeds_of_the_entropy_rule_and_without_lags_differ_about_as_much_as_policy_and_even_spacing(best):
    lead = -gap(best, FAST, "even", "test").bits
    assert 0.8 < ch07_results.spread(best, "entropy") / lead < 1, REWRITE
    without = sorted(ch07_results.bits_of(best, f"{FAST}_lags0").values())
    assert without[-1] - without[-2] > lead and min(best.values(f"{FAST}_lags0", "whitespace_share", "test")) > 0.99, REWRITE


def test_policies_and_h_net_draw_fewer_tokens_when_trained_than_in_training_and_h_net_has_more_matrices(best):
    def tokens(name):
        return fmean(run["tokens"] / run["bytes"] for run in best.runs[name].values())

    for name in (FAST, SLOW, "hnet_port"):
        assert tokens(name) > fmean(best.values(name, "rate", "test")), REWRITE
    assert best.runs["hnet_port"][0]["matrix_parameters"] > 1.01 * best.runs[FAST][0]["matrix_parameters"], REWRITE


def test_one_rate_finds_white_space_under_the_early_peak_and_parts_by_seed_where_it_predicts_best(best, told):
    assert headline.at_spaces(told.early, "ours_gamma0.9"), REWRITE
    shares = best.values(SLOW, "whitespace_share", "test")
    assert max(shares) - min(shares) > 0.5, REWRITE
    even = [sweep.mean("even", "test").bits for sweep in (told.early, best)]
    assert even[1] < even[0], REWRITE
