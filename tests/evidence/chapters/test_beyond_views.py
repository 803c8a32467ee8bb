"""Chapter 09 on records with numbers of our choice: sizes, the ceiling, courses of policies, expectations, the target."""

import json
import math

import matplotlib
import pytest
from sweeps import record, rows_of, sweep_of, write
from test_optima import EVEN, LAST, SECOND, SPACES, passage

from rltok.errors import RltokError
from rltok.evidence.chapters import ch09_ceiling, ch09_courses, ch09_expected, ch09_rungs, ch09_stored, ch09_target
from rltok.system.digest import with_digest

matplotlib.use("Agg")
T2 = 4.302653  # Student's t, two-sided 95 %, 2 degrees of freedom, from a printed table


def plain(text):
    return text.replace("\N{NO-BREAK SPACE}", " ")


def runs(name, bits, *, sweep, rate=0.2, flops=2e10, marked=SPACES, decided=9, seeds=(0, 1, 2), rule=None, **more):
    """Three seeds whose losses differ by 0.01 from one to the next, alike for every method: differences have no spread."""
    kind = rule or ("learned" if name.startswith(("policy", "learned")) else name.partition("_every")[0])
    made = []
    for seed in seeds:
        run = record(name, seed, bits=bits + 0.01 * seed, wiggle=0.0, sweep=sweep, rate=rate, rule=kind, **more)
        run["flops"], run["attention_flops"] = flops, 0.1 * flops
        run["samples"] = [passage(marked[seed] if isinstance(marked, list) else marked)]
        for point in run["curve"]:
            point["policy_entropy"] = 0.5 if point["step"] < decided else 0.1
        made.append(with_digest(run))
    return made


# --- which sizes are stored ---


def test_the_largest_size_with_records_answers_and_what_has_not_run_is_named(tmp_path):
    for folder, plan in (("beyond", "tiny_ceiling"), ("causes", "tiny_draws"), ("causes", "tiny_optima")):
        write(tmp_path / folder, *runs("policy_early", 1.9, sweep=plan))
    assert ch09_stored.largest(tmp_path, "draws").name == "tiny_draws"
    write(tmp_path / "causes", *runs("policy_one_draw", 1.7, sweep="32m_draws"))
    assert ch09_stored.largest(tmp_path, "draws").name == "32m_draws"
    rows = {row[0]: row for row in rows_of(ch09_stored.stored_table(tmp_path))[1:]}
    assert rows["whether less noise lowers the loss"][2:] == ["`32m_draws`, 3 runs of 0.02 MB", "-"]
    assert rows["which optimum a policy finds"][2:] == ["`tiny_optima`, 3 runs of 0.02 MB", "`32m_optima`"]


def test_a_question_without_records_says_how_to_make_them(tmp_path):
    with pytest.raises(RltokError, match=r"no run about which optimum .*/tiny_optima\.toml\.$"):
        ch09_stored.largest(tmp_path, "optima")


# --- the ceiling ---

RATES = {"even_every_1": 0.9, "even_every_2": 0.5, "policy_x20_every_2": 0.5, "even_every_8": 0.125, "policy_x20_every_8": 0.125,
         "even_every_3": 1 / 3, "policy_x20_every_3": 1 / 3}  # fmt: skip
LOSSES = {"even_every_1": 1.99, "even_every_2": 1.97, "policy_x20_every_2": 1.95, "even_every_8": 2.2, "policy_x20_every_8": 2.1,
          "even_every_3": 1.98, "policy_x20_every_3": 1.94}  # fmt: skip


@pytest.fixture
def results(tmp_path):
    for name, rate in RATES.items():
        rule = "learned" if name.startswith(("policy", "learned")) else "even"
        write(tmp_path / "beyond", *runs(name, LOSSES[name], sweep="tiny_ceiling", rate=rate, rule=rule, flops=1e10 * (1 + rate)))
    write(tmp_path / "rules", *runs("even", 2.0, sweep="tiny", flops=1.2e10), *runs("learned", 1.5, sweep="tiny"))
    write(tmp_path / "rules", *runs("whitespace", 1.9, sweep="tiny", rate=0.17, flops=1.17e10))
    write(tmp_path / "causes", *runs("policy_x20", 1.96, sweep="tiny_travel", flops=1.2e10))
    write(tmp_path / "causes", *runs("policy_x5", 1.5, sweep="tiny_travel"))
    return tmp_path


@pytest.mark.parametrize(
    ("name", "kind"),
    [("even_every_2", "even"), ("random_k_as_bpe_causal", "random_k"), ("random_k_rate_bpe", "random_k"), ("bpe_8000", "bpe"),
     ("bpe_causal_1000", "bpe_causal"), ("policy_x20_rate_bpe", "policy_x20"), ("policy_x20_gamma0.9", None), ("learned", None),
     ("policy_x20_late", None), ("hnet", None)],
)  # fmt: skip
def test_a_method_belongs_to_its_rule_whatever_its_rate(name, kind):
    assert ch09_ceiling.kind_of(name) == kind


def test_methods_at_one_in_five_stand_beside_those_of_the_plan_and_others_do_not(results):
    found = {point.name: point for point in ch09_ceiling.points(ch09_ceiling.rules_at_rates(results))}
    assert found.keys() == {*RATES, "even", "whitespace", "policy_x20"}
    for name, point in found.items():
        assert point.gap.bits == pytest.approx({**LOSSES, "even": 2.0, "whitespace": 1.9, "policy_x20": 1.96}[name] - 2.0)
    assert found["even_every_2"].rate == 0.5 and found["even"].flops == pytest.approx(1.1 * 1.2e10 / 20_000)


def test_runs_with_another_budget_are_no_companions(results):
    other = {"train.training_bytes": 1_000_000}
    write(
        results / "causes",
        *(run for name in ("policy_x20", "policy_x5") for run in runs(name, 1.9, sweep="tiny_travel", **other)),
    )
    with pytest.raises(RltokError, match=r"policy_x20 of sweep tiny_travel differs .* train\.training_bytes"):
        ch09_ceiling.rules_at_rates(results)


def test_the_table_compares_the_policy_with_the_rule_of_the_nearest_rate_and_leaves_a_cell_where_none_is_near(results):
    rows = [[plain(cell) for cell in row] for row in rows_of(ch09_ceiling.rates_table(ch09_ceiling.rules_at_rates(results)))[1:]]
    assert [row[0] for row in rows] == ["0.12", "0.20", "0.33", "0.50"]
    assert [row[2].split()[0] for row in rows] == ["+0.100", "-0.040", "-0.060", "-0.050"]
    assert [row[3].split()[0] for row in rows] == ["-0.100", "-0.040", "-0.040", "-0.020"]
    assert {cell for row in rows for cell in row[4:]} == {"-"}


def test_what_is_left_is_from_the_lowest_loss_without_look_ahead_to_the_policys_lowest(results):
    write(results / "beyond", *runs("bpe_1000", 1.8, sweep="tiny_ceiling", rate=0.4, rule="bpe"))
    said = plain(ch09_ceiling.headroom(ch09_ceiling.rules_at_rates(results)))
    assert said.startswith("The lowest loss of 11 methods has BPE guidance at 0.40 tokens per byte (-0.200 ± 0.000 from even")
    assert "of those that do not, white space at 0.17 tokens per byte (-0.100 ± 0.000 from even spacing at 1/5)" in said
    assert "The policy's lowest, at 0.33 tokens per byte, is +0.040 ± 0.000 bits per byte from that, at 1.14 times" in said
    assert "costs 1.6 times the FLOPs of one for five and gives -0.010" in said


def test_the_figure_draws_each_rule_against_rate_and_price(results):
    left, right = ch09_ceiling.figure(ch09_ceiling.rules_at_rates(results)).axes
    lines = {box.get_label(): box.lines[0] for box in left.containers}
    assert list(lines["policy"].get_xdata()) == pytest.approx([0.125, 0.2, 1 / 3, 0.5])
    assert list(lines["policy"].get_ydata()) == pytest.approx([0.1, -0.04, -0.06, -0.05])
    prices = {box.get_label(): box.lines[0] for box in right.containers}
    assert list(prices["even spacing"].get_xdata()) == pytest.approx(
        [1.1 * 1e4 * f / 2e4 for f in (1.125, 1.2, 1 + 1 / 3, 1.5, 1.9)]
    )


# --- courses of policies ---


def test_a_policy_decides_when_its_entropy_first_falls_to_a_tenth_of_a_nat_and_perhaps_never():
    early, never = runs("policy_early", 1.9, sweep="tiny_draws", decided=4, seeds=[0]) + runs(
        "policy_late", 1.9, sweep="tiny_draws", decided=99, seeds=[0]
    )
    assert ch09_courses.bytes_to_decide(early) == 4000 and ch09_courses.bytes_to_decide(never) is None


@pytest.fixture
def draws():
    made = runs("policy_two_draws", 1.87, sweep="tiny_draws", flops=2.4e10, decided=4) + runs(
        "policy_one_draw", 1.9, sweep="tiny_draws"
    )
    for seed, run in enumerate(runs("policy_antithetic", 1.9, sweep="tiny_draws", marked=[SPACES, LAST, EVEN], decided=99)):
        for number, size in enumerate(run["scores"]["validation"]["unit_bytes"]):
            run["scores"]["validation"]["unit_bits"][number] += (0.02, -0.02, 0.03)[seed] * size
        made.append(with_digest(run))
    return sweep_of(*made)


def test_each_policy_is_compared_with_the_first_seed_by_seed(draws):
    head, *rows = rows_of(ch09_courses.courses_table(draws, "policy_one_draw"))
    rows = {row[0]: [plain(cell) for cell in row[1:]] for row in rows}
    assert list(rows) == ["`policy_one_draw`", "`policy_two_draws`", "`policy_antithetic`"]
    assert rows["`policy_one_draw`"][1:5] == ["0.01", "-", "0.200", "1.00"]  # 9,000 bytes
    assert rows["`policy_two_draws`"][:5] == ["-0.030 ± 0.000", "0.00", "-0.01 ± 0.00", "0.200", "1.20"]
    differences = (0.02, -0.02, 0.03)
    mean = sum(differences) / 3
    deviation = math.sqrt(sum((one - mean) ** 2 for one in differences) / 2)
    half = T2 * deviation / math.sqrt(3)
    assert rows["`policy_antithetic`"][:5] == [f"+{mean:.3f} ± {half:.3f}", "-, never in 3", "-", "0.200", "1.00"]
    assert head[6:] == ["after spaces", "at last letters", "at none of these"]
    assert rows["`policy_antithetic`"][5:] == ["1", "1", "1"] and rows["`policy_two_draws`"][5:] == ["3", "-", "-"]


def test_in_words_a_change_counts_beyond_its_interval_alone(draws):
    assert ch09_courses.in_words(draws, "policy_one_draw") == (
        "Beyond its interval, of 2 changes to `policy_one_draw`: the loss is lower in 1 (`policy_two_draws`) and higher in 0; the"
        " policy decides sooner in 1 (`policy_two_draws`) and later in 0."
    )


# --- what was expected ---


def test_expectations_about_draws_hold_only_where_no_loss_moves(draws):
    loss, time = ch09_expected.of_draws(draws)
    assert (loss.held, time.held) == (False, True) and loss.outcome.startswith(
        "beyond its interval in 1 of 2; the largest is -0.030"
    )
    del draws.runs["policy_two_draws"]
    loss, time = ch09_expected.of_draws(draws)
    assert (loss.held, time.held) == (True, False)


def test_expectations_about_the_ceiling_are_decided_by_losses_and_flops(results):
    sweep = ch09_ceiling.rules_at_rates(results)
    dense, step, seldom = ch09_expected.of_ceiling(sweep)
    assert dense.held and dense.outcome == "the dearest is `even_every_1`, the best `whitespace`"
    assert step.held and plain(step.outcome) == "+0.020 ± 0.000 against -0.100 ± 0.000"  # 1.99 - 1.97, 1.90 - 2.00
    assert seldom.held and plain(seldom.outcome).startswith("policy minus even: -0.100 ± 0.000 at 1/8, -0.040")
    for run in sweep.runs["whitespace"].values():
        run["flops"] = 1e12
    assert not next(iter(ch09_expected.of_ceiling(sweep))).held
    del sweep.runs["even_every_1"]
    assert len(list(ch09_expected.of_ceiling(sweep))) == 1


@pytest.mark.parametrize(
    ("early", "late", "dense", "wanted"),
    [([SPACES, SPACES, LAST], [SPACES, LAST, LAST], 1.91, [True, True, True, True]),
     ([SPACES, LAST, LAST], [SPACES, LAST, LAST], 1.89, [False, False, True, False]),
     ([SPACES] * 3, [SECOND] * 3, 1.9, [True, True, False, True])],
)  # fmt: skip
def test_expectations_about_optima_are_counts_means_and_a_price(early, late, dense, wanted):
    losses = {"policy_early": 1.9, "policy_late": 1.9 if wanted[2] else 1.93, "policy_dense": dense}
    sweep = sweep_of(*runs("policy_early", losses["policy_early"], sweep="tiny_optima", marked=early),
                     *runs("policy_late", losses["policy_late"], sweep="tiny_optima", marked=late),
                     *runs("policy_dense", dense, sweep="tiny_optima", marked=early, flops=3e10))  # fmt: skip
    assert [one.held for one in ch09_expected.of_optima(sweep)] == wanted


def test_the_table_of_expectations_says_where_each_was_written(draws, results):
    optima = sweep_of(
        *runs("policy_early", 1.9, sweep="tiny_optima"), *runs("policy_late", 1.9, sweep="tiny_optima", marked=LAST)
    )
    rows = rows_of(ch09_expected.table(ch09_ceiling.rules_at_rates(results), draws, optima))[1:]
    assert len(rows) == 3 + 2 + 3 and {row[1] for row in rows} == {"`tiny`", "`32m`", "`tiny` and `32m`"}
    assert {row[3] for row in rows} == {"yes", "**no**"}


# --- the target ---


def matched(apart, sweep="32m_best", flops=2e10):
    """Three seeds of BPE guidance, its causal form and the policy at their rates, whose loss is `apart` from theirs, by seed."""
    made = []
    for rival, bits in {"bpe": 1.8, "bpe_causal": 1.85}.items():
        made += runs(rival, bits, sweep=sweep, rule="bpe")
        for by, seed in zip(apart, range(3), strict=True):
            made += runs(f"policy_x20_rate_{rival}", bits + by, sweep=sweep, flops=flops, seeds=[seed])
    return sweep_of(*made)


def verdicts(sweep, before=None):
    return [row[-1] for row in rows_of(ch09_target.target_table(sweep, before or sweep))[1:]]


def test_not_behind_is_a_margin_and_ahead_is_below_zero_both_with_their_intervals():
    assert verdicts(matched((-0.02, -0.021, -0.019))) == ["supported", "supported", "-"]
    assert verdicts(matched((0.004, 0.005, 0.003))) == ["supported", "contradicted", "-"]
    assert verdicts(matched((0.02, 0.021, 0.019))) == ["contradicted", "contradicted", "-"]
    assert verdicts(matched((-0.06, 0.06, 0.0))) == ["undecided", "undecided", "-"]


def test_the_deviation_over_seeds_is_to_be_half_of_what_it_was():
    before = matched((-0.02, 0.02, 0.0))  # deviation 0.02
    assert ch09_target.deviation(before) == pytest.approx(0.02)
    assert verdicts(matched((-0.0099, 0.0099, 0.0), sweep="32m_target"), before)[-1] == "supported"
    assert verdicts(matched((-0.011, 0.011, 0.0), sweep="32m_target"), before)[-1] == "contradicted"


def test_a_policy_that_takes_more_computation_is_said_to():
    dear, fair = (
        ch09_target.target_table(sweep, sweep) for sweep in (matched((0.0, 0.0, 0.0), flops=flops) for flops in (2.1e10, 2.03e10))
    )
    assert "at 1.050 times the FLOPs, too dear" in dear and "at 1.015 times the FLOPs |" in fair


def test_runs_of_the_plans_are_judged_once_they_are_there(tmp_path):
    write(tmp_path / "best", *matched((-0.02, 0.02, 0.0)).records)
    first = ch09_target.judged(tmp_path)
    assert first.endswith("Not run yet: `32m_target` and `147m_target`.") and first.count("measured") == 1
    write(tmp_path / "beyond", *matched((-0.002, 0.002, 0.0), sweep="32m_target").records)
    then = ch09_target.judged(tmp_path)
    assert then.endswith("Not run yet: `147m_target`.") and "test text of `32m_target`" in then


# --- the rungs ---


def rung(ratio, bias=1e-12):
    return {"bias": bias, "bias_true": bias / 2, "variance": 1.0, "ratio": ratio}


@pytest.fixture
def estimators(tmp_path):
    """Two moments, in which every ratio is 2 and then 3, but for the second draw as a baseline: 5 and 7 on full rows."""
    stages = []
    for number, ratio in enumerate((2.0, 3.0)):
        sampled = {f"{name}+loo": {"ratio": [ratio, 1.0, 9.0]} for name in ch09_rungs.SHOWN}
        sampled |= {"one decision in 16 flipped": {"ratio": [ratio, 1.0, 9.0]}}
        sampled["baseline of 1 other draw+loo"] = {"ratio": [(5.0, 7.0)[number], 1.0, 9.0]}
        exact = {name: rung(ratio / 10) for name in [*ch09_rungs.SHOWN, "one decision in 2 flipped"]}
        exact["antithetic, 2 draws"] = rung(1.0, bias=(3e-11, 4e-10)[number])
        costs = {name: {"passes": 2, "flops": 1.25} for name in ch09_rungs.SHOWN}
        stages.append({"step": number, "sampled": {"rungs": sampled}, "exact": exact, "costs": costs})
    config = {"data": {"sequence_length": 512}}
    made = {"schema": 1, "what": "estimators beyond the paper, x", "exact_bytes": 4, "config": config, "stages": stages}
    path = tmp_path / "estimators.json"
    path.write_text(json.dumps(made))
    return path


def test_a_row_has_bias_variance_and_cost_of_an_estimator_over_all_moments(estimators):
    found = ch09_rungs.read(estimators)
    rows = {row[0]: row[1:] for row in rows_of(ch09_rungs.rungs_table(found))[1:]}
    assert rows["baseline of 1 other draw"] == ["1e-12", "0.2 to 0.3", "5 to 7", "2 and 1", "1.25"]
    assert rows["antithetic, 2 draws"] == ["4e-10", "1", "2 to 3", "2 and 2", "1.25"]
    assert rows["leave one out, 2 draws"][3] == "2 and 2" and rows["one decision in 16 flipped"][1] == "0.2 to 0.3"
    assert ch09_rungs.largest_bias(found) == 4e-10 and ch09_rungs.times_less(found, "baseline of 1 other draw") == [5.0, 7.0]


def test_another_kind_of_record_is_refused(tmp_path):
    (tmp_path / "toy.json").write_text(json.dumps({"schema": 1, "what": "estimators on the toy language"}))
    with pytest.raises(RltokError, match=r"^toy\.json is no record of estimators beyond .* Make it: .*measure_estim"):
        ch09_rungs.read(tmp_path / "toy.json")
