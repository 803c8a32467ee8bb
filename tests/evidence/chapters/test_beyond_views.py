"""Chapter 09 on records with numbers of our choice: sizes, the ceiling, courses of policies, expectations, the target."""

import json
import math
from dataclasses import replace

import matplotlib
import pytest
from sweeps import record, rows_of, sweep_of, write
from test_optima import EVEN, LAST, SPACES, passage

from rltok.errors import RltokError
from rltok.evidence.chapters import ch09_ceiling, ch09_courses, ch09_questions, ch09_rungs, ch09_target
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
    for folder, plan in (
        ("beyond", "tiny_ceiling"),
        ("causes", "tiny_draws"),
        ("causes", "tiny_optima"),
        ("beyond", "tiny_rates"),
    ):
        write(tmp_path / folder, *runs("policy_early", 1.9, sweep=plan))
    assert ch09_questions.largest(tmp_path, "draws").name == "tiny_draws"
    write(tmp_path / "causes", *runs("policy_one_draw", 1.7, sweep="32m_draws"))
    assert ch09_questions.largest(tmp_path, "draws").name == "32m_draws"
    stored = [ch09_questions.largest(tmp_path, question) for question in ch09_questions.QUESTIONS]
    rows = {row[0]: row for row in rows_of(ch09_questions.questions_table(tmp_path, stored))[1:]}
    assert rows["Does less noise lower the loss?"][2:] == ["3: 3 seeds each, 0.02 MB", "-"]
    assert rows["Where do boundaries end up?"][2:] == ["3: 3 seeds each, 0.02 MB", "`32m_optima`"]


def test_a_question_without_records_says_how_to_make_them(tmp_path):
    with pytest.raises(RltokError, match=r"no run about the question: Where do .*/tiny_optima\.toml\.$"):
        ch09_questions.largest(tmp_path, "optima")


# --- the ceiling ---

RATES = {"even_every_1": 0.9, "even_every_2": 0.5, "policy_x20_every_2": 0.5, "even_every_8": 0.125, "policy_x20_every_8": 0.125,
         "even_every_3": 1 / 3, "policy_x20_every_3": 1 / 3}  # fmt: skip
LOSSES = {"even_every_1": 1.99, "even_every_2": 1.97, "policy_x20_every_2": 1.95, "even_every_8": 2.2, "policy_x20_every_8": 2.1,
          "even_every_3": 1.98, "policy_x20_every_3": 1.94}  # fmt: skip


def ceiling_of(results):
    return ch09_ceiling.rules_at_rates(ch09_questions.largest(results, "ceiling"), results)


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
    found = {point.name: point for point in ch09_ceiling.points(ceiling_of(results))}
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
        ceiling_of(results)


def test_at_equal_flops_the_loss_of_even_spacing_lies_on_the_line_between_its_rates(results):
    # even spacing: 2.20 at 1.125, 2.00 at 1.2, 1.98 at 4/3, 1.97 at 1.5, 1.99 at 1.9, each times 1e10
    write(results / "beyond", *runs("random_k_every_2", 1.99, sweep="tiny_ceiling", rate=0.5, rule="random_k", flops=1.7e10))
    write(results / "beyond", *runs("entropy_every_8", 1.5, sweep="tiny_ceiling", rate=0.125, rule="entropy", flops=2e10))
    write(results / "beyond", *runs("bpe_1000", 1.8, sweep="tiny_ceiling", rate=0.4, rule="bpe", flops=1.125e10))
    sweep = ceiling_of(results)
    every = ch09_ceiling.points(sweep)
    found = {point.name: ch09_ceiling.at_equal_flops(sweep, point, every) for point in every}
    assert found["random_k_every_2"].bits == pytest.approx(1.99 - 1.98)  # halfway between 1.97 and 1.99
    assert found["whitespace"].bits == pytest.approx(1.9 - (2.2 - 0.2 * 0.6))
    assert found["bpe_1000"].bits == pytest.approx(1.8 - 2.2)
    assert found["entropy_every_8"] is None  # dearer than any even spacing
    assert found["policy_x20"].bits == pytest.approx(1.96 - 2.0) and found["policy_x20"].seeds == 3
    rows = {row[0]: row[1:] for row in rows_of(ch09_ceiling.flops_table(sweep))[1:]}
    assert rows["random places"] == ["+0.010", "1", "0", "1"] and rows["BPE guidance"] == ["-0.400", "1", "1", "0"]
    assert rows["policy"] == ["-0.100 to -0.020", "4", "4", "0"]
    assert rows.keys() == {"random places", "policy", "white space", "BPE guidance"}


def test_a_lead_that_one_seed_makes_alone_is_not_clear(results):
    sweep = ceiling_of(results)
    first = sweep.runs["whitespace"][0]["scores"]["validation"]
    first["unit_bits"] = [bits - 0.5 * size for bits, size in zip(first["unit_bits"], first["unit_bytes"], strict=True)]
    rows = {row[0]: row[1:] for row in rows_of(ch09_ceiling.flops_table(sweep))[1:]}
    assert rows["white space"][1:] == ["1", "0", "0"]


def test_what_is_left_is_from_the_lowest_loss_without_look_ahead_to_the_policys_lowest(results):
    write(results / "beyond", *runs("bpe_1000", 1.8, sweep="tiny_ceiling", rate=0.4, rule="bpe"))
    said = plain(ch09_ceiling.headroom(ceiling_of(results)))
    assert said.startswith(
        "Of 11 combinations of rule and rate, BPE guidance at 0.40 tokens per byte has the lowest loss. Without look ahead,"
        " white space at 0.17 tokens per byte has the lowest, +0.100 ± 0.000 from that of BPE guidance, at 0.58 times its FLOPs."
    )
    assert said.endswith("The policy's lowest, at 0.33, is +0.040 ± 0.000 from that of white space, at 1.14 times its FLOPs.")


def test_the_figure_draws_each_rule_against_rate_and_price(results):
    left, right = ch09_ceiling.figure(ceiling_of(results)).axes
    lines = {box.get_label(): box.lines[0] for box in left.containers}
    assert list(lines["policy"].get_xdata()) == pytest.approx([0.125, 0.2, 1 / 3, 0.5])
    assert list(lines["policy"].get_ydata()) == pytest.approx([0.1, -0.04, -0.06, -0.05])
    prices = {line.get_label(): line for line in right.lines}
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
    table = ch09_courses.courses_table
    rows = [[plain(cell) for cell in row] for row in rows_of(table(draws, "policy_one_draw", "decided", "after spaces"))[1:]]
    differences = (0.02, -0.02, 0.03)
    mean = sum(differences) / 3
    deviation = math.sqrt(sum((one - mean) ** 2 for one in differences) / 2)
    half = T2 * deviation / math.sqrt(3)
    assert [row[:1] + row[2:] for row in rows] == [
        ["one draw", "1.00", "0.01", "3 of 3"],  # 9,000 bytes
        ["baseline of 1 other draw", "1.20", "**0.00**", "3 of 3"],
        ["antithetic, 2 draws", "1.00", "-, never in 3", "1 of 3"],
    ]
    assert [row[1] for row in rows[1:]] == ["**-0.030 ± 0.000**", f"+{mean:.3f} ± {half:.3f}"]  # bold beyond the interval alone
    assert [row[2:] for row in rows_of(table(draws, "policy_one_draw"))[1:]] == [["1.00"], ["1.20"], ["1.00"]]


def test_the_time_to_decide_is_compared_seed_by_seed_where_both_decide(draws):
    sooner = ch09_courses.later(draws, "policy_two_draws", "policy_one_draw")
    assert (sooner.bits, sooner.sign()) == (pytest.approx(-0.005), -1)  # 4,000 bytes against 9,000
    assert ch09_courses.later(draws, "policy_antithetic", "policy_one_draw") is None


# --- what was expected ---


FOUR = (0, 1, 2, 3)


def policies(early, late):
    """Four seeds each of an early and a late policy that end as marked."""
    each = {"policy_early": early, "policy_late": late}
    return sweep_of(*(run for name, at in each.items() for run in runs(name, 1.9, sweep="tiny_optima", marked=at, seeds=FOUR)))


def many_rates(apart):
    """A model for many rates that is behind one with one rate by so much, with every seed."""
    made = runs("policy_any", 1.8, sweep="tiny_rates", **{"model.rule.lowest_rate": 0.1, "model.rule.highest_rate": 0.5})
    made += runs("policy_three", 1.8, sweep="tiny_rates", **{"model.rule.target_rate": 0.333333})
    for run in made:
        bits = 1.8 + 0.01 * run["seed"]
        run["scores"]["validation"] |= {"bits_per_byte": bits, "tokens_per_byte": 0.3}
        score = {"target_rate": 0.333333, "bits_per_byte": bits + apart, "tokens_per_byte": 0.3}
        run["rates"] = {"validation": [score], "test": None}
    return sweep_of(*map(with_digest, made))


@pytest.fixture
def held(results, draws):
    """Verdict and outcome of each expectation, of these sweeps or of others in their place."""

    def verdicts_of(**others):
        usual = {
            "ceiling": ceiling_of(results),
            "draws": draws,
            "optima": policies([SPACES] * 4, [LAST] * 4),
            "rates": many_rates(0.0),
        }
        every = ch09_questions.expectations(**usual | others)
        names = ("every byte", "variance", "early", "late", "rates")
        return {name: (one.held, plain(one.outcome)) for name, one in zip(names, every, strict=True)}

    return verdicts_of


def test_a_token_for_every_byte_must_be_the_dearest_and_behind_beyond_its_interval(held, results):
    assert held()["every byte"] == ("yes", "it costs the most; white space, the lowest, minus it: -0.090 ± 0.000")
    sweep = ceiling_of(results)
    for name in ("whitespace", "policy_x20_every_3", "policy_x20_every_2", "policy_x20", "even_every_2", "even_every_3"):
        del sweep.runs[name]
    assert held(ceiling=sweep)["every byte"][0] == "no"  # it is the best itself
    sweep = ceiling_of(results)
    for by, run in zip((0.4, -0.4, 0.0), sweep.runs["even_every_1"].values(), strict=True):
        score = run["scores"]["validation"]
        score["unit_bits"] = [bits + by * size for bits, size in zip(score["unit_bits"], score["unit_bytes"], strict=True)]
    assert held(ceiling=sweep)["every byte"][0] == "undecided"
    for run in sweep.runs["whitespace"].values():
        run["flops"] = 1e12
    assert held(ceiling=sweep)["every byte"][0] == "no"


def test_less_variance_moves_no_mean_loss_by_more_than_the_seeds_of_one_draw_deviate(held, draws):
    counted = "beyond their intervals in 1 of 2 ways; seeds deviate by 0.010"
    assert held()["variance"] == ("no", f"at most by -0.030 ± 0.000, {counted}")
    for by, run in zip((-0.08, 0.0, 0.08), draws.runs["policy_one_draw"].values(), strict=True):
        score = run["scores"]["validation"]
        score["unit_bits"] = [bits + by * size for bits, size in zip(score["unit_bits"], score["unit_bytes"], strict=True)]
    assert held(draws=replace(draws))["variance"][0] == "yes"  # of 0.02 a seed's own deviation is far more


@pytest.mark.parametrize(
    ("early", "late", "wanted"),
    [([SPACES] * 4, [LAST] * 4, ["yes", "yes"]), ([SPACES] * 4, [SPACES, SPACES, LAST, LAST], ["yes", "undecided"]),
     ([SPACES, SPACES, LAST, LAST], [SPACES] * 4, ["no", "no"])],
)  # fmt: skip
def test_fewer_late_policies_after_spaces_are_decided_where_it_can_hardly_be_luck(held, early, late, wanted):
    found = held(optima=policies(early, late))
    assert [found[name][0] for name in ("early", "late")] == wanted


def test_so_few_by_luck_is_fishers_exact_test():
    assert ch09_questions.so_few_by_luck(0, 4, 4, 4) == pytest.approx(1 / 70)  # the tea-tasting lady
    assert ch09_questions.so_few_by_luck(1, 4, 3, 4) == pytest.approx(17 / 70)


def test_one_model_for_many_rates_is_level_until_it_differs_beyond_its_interval(held):
    assert held()["rates"] == ("yes", "within the intervals at 1 rates")
    assert held(rates=many_rates(0.04))["rates"] == ("no", "+0.040 ± 0.000 at 1/3")


def test_the_table_has_a_row_for_each_expectation(draws, results):
    made = ch09_questions.expected_table(ceiling_of(results), draws, policies([SPACES] * 4, [LAST] * 4), many_rates(0.0))
    assert [row[2] for row in rows_of(made)[1:]] == ["**yes**", "**no**", "**yes**", "**yes**", "**yes**"]


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
    fair = "supported"  # at as many FLOPs
    assert verdicts(matched((-0.02, -0.021, -0.019))) == ["supported", "supported", fair, "to be halved"]
    assert verdicts(matched((0.004, 0.005, 0.003))) == ["supported", "contradicted", fair, "to be halved"]
    assert verdicts(matched((0.02, 0.021, 0.019))) == ["contradicted", "contradicted", fair, "to be halved"]
    assert verdicts(matched((-0.06, 0.06, 0.0))) == ["undecided", "undecided", fair, "to be halved"]


def test_the_deviation_over_seeds_is_to_be_half_of_what_it_was():
    before = matched((-0.02, 0.02, 0.0))  # deviation 0.02
    assert ch09_target.deviation(before) == pytest.approx(0.02)
    assert verdicts(matched((-0.0099, 0.0099, 0.0), sweep="32m_target"), before)[-1] == "supported"
    assert verdicts(matched((-0.011, 0.011, 0.0), sweep="32m_target"), before)[-1] == "contradicted"


def test_a_policy_that_takes_more_computation_is_said_to():
    dear, fair = (
        ch09_target.target_table(sweep, sweep) for sweep in (matched((0.0, 0.0, 0.0), flops=flops) for flops in (2.1e10, 2.03e10))
    )
    assert "| 1.050 | contradicted |" in dear and "| 1.015 | supported |" in fair


def test_runs_of_the_plans_are_judged_once_they_are_there(tmp_path):
    write(tmp_path / "best", *matched((-0.02, 0.02, 0.0)).records)
    first = ch09_target.judged(tmp_path)
    assert first.endswith("Not run yet: `32m_target` and `147m_target`.") and first.count("measured") == 1
    write(tmp_path / "beyond", *matched((-0.002, 0.002, 0.0), sweep="32m_target").records)
    then = ch09_target.judged(tmp_path)
    assert then.endswith("Not run yet: `147m_target`.") and "(`32m_target`, test text)" in then


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
        exact["antithetic, 2 draws"] = rung(1.0, bias=(4e-10, 3e-11)[number])
        costs = {name: {"passes": 2, "flops": 1.25} for name in ch09_rungs.SHOWN}
        stages.append({"step": number, "sampled": {"rungs": sampled}, "exact": exact, "costs": costs})
    config = {"data": {"sequence_length": 512}}
    made = {"schema": 1, "what": "estimators beyond the paper, x", "exact_bytes": 4, "config": config, "stages": stages}
    path = tmp_path / "estimators.json"
    path.write_text(json.dumps(made))
    return path


def test_a_row_has_variance_and_cost_of_an_estimator_over_all_moments(estimators):
    found = ch09_rungs.read(estimators)
    rows = {row[0]: row[1:] for row in rows_of(ch09_rungs.rungs_table(found))[1:]}
    assert rows["baseline of 1 other draw"] == ["5 to 7", "1.2"] and rows["antithetic, 2 draws"] == ["2 to 3", "1.2"]
    assert "one draw" not in rows and "one decision in 16 flipped" in rows
    assert ch09_rungs.times_less(found, "baseline of 1 other draw") == [5.0, 7.0]


def test_of_short_rows_the_largest_bias_is_told_and_the_variance_that_the_oracle_leaves(estimators):
    said = ch09_rungs.exactly(ch09_rungs.read(estimators))
    assert said.startswith(
        "Over all draws of rows of 4 bytes, the largest bias of all estimators is 4e-10 of the gradient's largest"
    )
    assert said.endswith(
        "the *mean return of the text* has 3.3 to 5.0 times one draw's variance there, by moment of training."
    )  # over 0.3, 0.2


def test_another_kind_of_record_is_refused(tmp_path):
    (tmp_path / "toy.json").write_text(json.dumps({"schema": 1, "what": "estimators on the toy language"}))
    with pytest.raises(RltokError, match=r"^toy\.json is no record of estimators beyond .* Make it: .*measure_estim"):
        ch09_rungs.read(tmp_path / "toy.json")
