"""rltok.evidence.methods: who competes, and that nothing but the rule differs."""

from dataclasses import replace
from operator import attrgetter

import pytest
import torch
from runs import SETTINGS

from rltok.errors import RltokError
from rltok.evidence.methods import (
    MATCHED,
    MATCHED_RANDOM,
    RULES,
    SMOKE_UPDATES,
    base_config,
    comparison,
    method_config,
    named_methods,
)
from rltok.runs.models import new_model


def test_all_are_the_eleven_rules_and_random_places_for_those_that_do_not_control_their_rate():
    assert named_methods(["all"]) == [*RULES, *MATCHED_RANDOM]
    assert len(RULES) == 11 and {name.removeprefix(MATCHED) for name in MATCHED_RANDOM} == {"whitespace", "bpe", "bpe_causal"}
    assert named_methods(["random_k_as_bpe", "bpe", "even", "bpe"]) == ["bpe", "even", "random_k_as_bpe"]


@pytest.mark.parametrize("size", ["tiny", "147m"])
def test_contenders_differ_in_their_rule_and_in_nothing_else(size):
    base = base_config(size, {}, budget="full", seed=3)
    for name in RULES:
        config = method_config(base, size, name, {})
        rest = replace(config.model, rule=base.model.rule)
        assert (rest, config.objective, config.data) == (base.model, base.objective, base.data)
        assert replace(config.train, micro_batch=base.train.micro_batch) == base.train
        assert config.name == f"{size}_{name}"
        assert config.train.micro_batch == base.train.micro_batch or config.model.rule.name in ("hnet", "dynamic_pooling")
    assert len({method_config(base, size, name, {}).digest() for name in RULES}) == len(RULES)


def test_a_setting_of_a_rule_reaches_the_rules_that_read_it():
    settings = {"model.rule.target_rate": 0.25, "model.rule.vocabulary": 999}
    base = base_config("tiny", settings, budget="full", seed=0)
    for name in RULES:
        rule = method_config(base, "tiny", name, settings).model.rule
        assert (rule.target_rate, rule.vocabulary) == (0.25, 999)


@pytest.mark.parametrize("budget", ["smoke", "full"])
def test_settings_of_a_policy_reach_the_policy_alone(budget):
    own = {"train.policy_lr_multiplier": 5.0, "train.policy_start_fraction": 0.3, "objective.draws": 2,
           "objective.lambda_entropy": 0.1, "model.rule.lowest_rate": 0.1, "model.rule.highest_rate": 0.5}  # fmt: skip
    base = base_config("tiny", own, budget=budget, seed=0)
    configs = {name: method_config(base, "tiny", name, own) for name in RULES}
    configs["random_k_as_bpe"] = plan_of(base).base(plan_of(base).runs[-1])
    for name, config in configs.items():
        assert [attrgetter(key)(config) for key in own] == ([*own.values()] if name == "learned" else [1, 0, 1, 0, None, None])
    for name, value in own.items():
        with pytest.raises(RltokError, match=f"{name} is of the rule learned, which does not compete. Name it in --rules"):
            base_config("tiny", {name: value}, budget="full", seed=0, names=["even"])


def test_a_smoke_run_has_few_updates_and_a_full_one_the_presets_budget():
    smoke, full = (base_config("tiny", {}, budget=budget, seed=0) for budget in ("smoke", "full"))
    assert (smoke.num_updates, full.num_updates) == (SMOKE_UPDATES, 292)
    assert replace(smoke.train, training_bytes=full.train.training_bytes, evaluate_rows=full.train.evaluate_rows) == full.train
    assert method_config(smoke, "tiny", "entropy", {}).model.rule.fit_bytes == smoke.train.training_bytes // 3
    assert method_config(full, "tiny", "entropy", {}).model.rule.fit_bytes == full.train.training_bytes // 3


def plan_of(*bases):
    """The plan of BPE, which does not control its rate, and random places for it."""
    names = ["bpe", "random_k_as_bpe"]
    return comparison("x", names, bases, size="tiny", settings={}, full=False, split="test")


def test_rate_matched_random_places_follow_the_tokens_of_their_seed_on_the_split_that_decides():
    bases = [base_config("tiny", {}, budget="smoke", seed=seed) for seed in (0, 1)]
    plan = plan_of(*bases)
    assert [run.stem for run in plan.runs] == [
        "bpe-seed0", "random_k_as_bpe-seed0", "bpe-seed1", "random_k_as_bpe-seed1",
    ]  # fmt: skip
    other = {"tokens_per_byte": 0.5, "rate": 0.5}
    records = {
        f"bpe-seed{seed}": {"scores": {"validation": other, "test": {"tokens_per_byte": tokens, "rate": 0.4}}}
        for seed, tokens in ((0, 0.31), (1, 1.0))
    }
    one, two = (plan.config(run, records) for run in plan.runs[1::2])
    assert (one.model.rule.name, one.model.rule.target_rate) == ("random_k", 0.31)
    assert replace(one.model, rule=bases[0].model.rule) == bases[0].model and one.train == bases[0].train
    assert two.model.rule.target_rate < 1


@pytest.mark.parametrize("settings", [{"model.rule.target_rate": 0.999}, {"train.micro_batch": 1}])
def test_limits_of_the_learned_rule_hold_only_where_it_competes(settings):
    for names in (["even"], ["hnet", "bpe"]):
        base = base_config("tiny", settings, budget="smoke", seed=0, names=names)
        assert method_config(base, "tiny", names[0], settings).model.rule.name == names[0]
    with pytest.raises(RltokError):
        base_config("tiny", settings, budget="smoke", seed=0, names=["even", "learned"])


def test_the_settings_of_a_contender_are_the_same_whoever_competes():
    one, other = (base_config("tiny", SETTINGS, budget="smoke", seed=0, names=names) for names in (["even"], ["learned", "even"]))
    assert method_config(one, "tiny", "even", {}) == method_config(other, "tiny", "even", {})


def test_networks_of_all_rules_start_from_the_same_weights():
    base = base_config("tiny", SETTINGS, budget="smoke", seed=2)
    models = [new_model(method_config(base, "tiny", name, {}), torch.device("cpu")) for name in ("even", "whitespace", "bpe")]
    first = dict(models[0].named_parameters())
    for model in models[1:]:
        assert all(bool((weights == first[name]).all()) for name, weights in model.named_parameters())
