"""Chapter 09: what its prose says of the stored runs, and that a baseline of the reader's own is judged."""

import re
from pathlib import Path

import pytest
import torch
from chapters import code
from nbtools.rules import NOTEBOOKS
from notebooks_in_a_folder import read
from paths import ROOT

import rltok
from rltok import vocab
from rltok.evidence.chapters import ch09_ceiling, ch09_courses, ch09_questions, ch09_rates, ch09_rungs
from rltok.evidence.differences import gap
from rltok.runs.models import new_model
from rltok.variance.exact import all_strings, policy_log_prob
from rltok.variance.gradients import share

SETUP = {"torch": torch, "rltok": rltok, "vocab": vocab, "new_model": new_model, "all_strings": all_strings,
         "policy_log_prob": policy_log_prob, "share": share}  # fmt: skip
RESULTS = ROOT / "notebooks" / "results"
CHAPTER = read(Path(NOTEBOOKS) / "09_beyond_the_paper")
REWRITE = "the runs that the page shows no longer say so: rewrite the sentence of chapter 09"


@pytest.fixture(scope="module")
def ceiling():
    return ch09_ceiling.rules_at_rates(ch09_questions.largest(RESULTS, "ceiling"), RESULTS)


@pytest.fixture(scope="module")
def draws():
    return ch09_questions.largest(RESULTS, "draws")


@pytest.fixture(scope="module")
def optima():
    return ch09_questions.largest(RESULTS, "optima")


@pytest.fixture(scope="module")
def rates():
    return ch09_questions.largest(RESULTS, "rates")


def test_the_opening_and_what_we_saw_are_of_the_smallest_size_as_long_as_no_larger_one_has_run(ceiling, draws, optima, rates):
    assert {sweep.name.partition("_")[0] for sweep in (ceiling, draws, optima, rates)} == {"tiny"}, REWRITE


def test_less_noise_lowers_the_loss_a_little_and_a_dense_start_more(draws, optima):
    verdicts = ch09_courses.moved(draws, "policy_one_draw")
    assert verdicts["policy_two_draws"] == "lower" and "higher" not in verdicts.values(), REWRITE
    less = max(gap(draws, name, "policy_one_draw", "validation").bits for name in verdicts)
    dense = gap(optima, "policy_dense", "policy_early", "validation")
    assert dense.bits + dense.reach() < less, REWRITE


def test_more_tokens_lower_the_loss_of_even_spacing_from_one_in_five_to_every_byte(ceiling):
    steps = [("even_every_1", "even_every_2"), ("even_every_2", "even_every_3"), ("even_every_3", "even")]
    assert all(gap(ceiling, *pair, "validation").verdict == "lower" for pair in steps), REWRITE


def test_the_lowest_loss_and_the_lowest_without_look_ahead_cannot_be_told_apart_but_by_price(ceiling):
    every = ch09_ceiling.points(ceiling)
    lowest, causal = ch09_ceiling.best(every), ch09_ceiling.best([point for point in every if point.kind != "bpe"])
    assert (lowest.kind, causal.name) == ("bpe", "even_every_1"), REWRITE
    assert gap(ceiling, lowest.name, causal.name, "validation").verdict == "undecided", REWRITE
    assert 1.75 < causal.flops / lowest.flops < 2.25, REWRITE


def test_at_equal_flops_tokenizers_are_ahead_of_even_spacing_and_the_entropy_rule_is_not(ceiling):
    every = ch09_ceiling.points(ceiling)
    even = [(point.flops, point.gap.bits) for point in every if point.kind == "even"]
    for point in (point for point in every if point.kind in ("bpe", "bpe_causal", "entropy")):
        (left, low), (right, high) = next(pair for pair in zip(even, even[1:], strict=False) if pair[1][0] > point.flops)
        between = low + (high - low) * (point.flops - left) / (right - left)
        assert (point.gap.bits < between) == (point.kind != "entropy"), REWRITE


def test_the_policy_is_not_ahead_of_even_spacing_at_any_rate_and_behind_the_entropy_rule_at_all(ceiling):
    for rate in ("", "_every_2", "_every_3", "_every_8"):
        assert gap(ceiling, f"policy_x20{rate}", f"even{rate}", "validation").verdict == "undecided", REWRITE
        if f"entropy{rate}" in ceiling.runs:
            assert gap(ceiling, f"policy_x20{rate}", f"entropy{rate}", "validation").verdict == "higher", REWRITE


def test_nearly_all_policies_end_after_spaces_and_differ_by_more_than_endings(optima):
    first, *others = ch09_courses.optima(optima.records)
    assert first.name == "after spaces" and first.runs > 0.9 * len(optima.records), REWRITE
    assert all(-0.01 < one.apart <= 0.0 for one in others), REWRITE
    assert all(ch09_courses.ended(run) == "after spaces" for run in optima.runs["policy_early"].values()), REWRITE


def test_one_model_for_many_rates_holds_them_and_is_behind_at_one_in_three_alone(rates):
    many, some, few = ch09_rates.rate_curve(rates)
    assert [at.difference.sign() for at in (many, some, few)] == [1, 0, 0], REWRITE
    assert some.ranged.bits - many.ranged.bits < 0.2 * (some.single.bits - many.single.bits), REWRITE
    for at in (many, some, few):
        assert all(abs(form.tokens - at.target) < 0.01 for form in (at.ranged, at.single)), REWRITE


def test_not_all_expectations_held(ceiling, draws, optima, rates):
    found = {one.held for one in ch09_questions.expectations(ceiling, draws, optima, rates)}
    assert found == {"yes", "no", "undecided"}, REWRITE


def test_estimators_are_unbiased_to_a_billionth_and_a_second_draw_is_worth_nearly_the_oracle():
    record = ch09_rungs.read(RESULTS / "estimators.json")
    biases = [one[key] for stage in record["stages"] for one in stage["exact"].values() for key in ("bias", "bias_true")]
    assert max(biases) < 1e-9
    second, oracle = (ch09_rungs.times_less(record, rung) for rung in ("baseline of 1 other draw", ch09_rungs.ORACLE))
    assert all(0.7 * most < one < most for one, most in zip(second, oracle, strict=True)), REWRITE
    assert max(ch09_rungs.times_less(record, "linear value, whole text")) < 1.3, REWRITE


def test_a_baseline_that_peeks_is_found_out_and_any_of_the_text_is_not(capsys):
    check = code(CHAPTER.cells, "baselines = {")
    own = check.replace("baselines = {", 'baselines = {\n    "mine": text.sin(), "mine that peeks": bits * 3 - 1,', 1)
    exec(compile(own, "chapter 09", "exec"), dict(SETUP))
    said = dict(re.findall(r"^(\S.*?)\s{2,}(.*)$|^$", capsys.readouterr().out, re.M))
    assert said["mine"] == said["all later bytes"] == said["boundaries before"] == "0"
    assert said["mine that peeks"].startswith("not 0") and said["boundaries up to here"].startswith("not 0")
