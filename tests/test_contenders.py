"""rltok.evidence.methods: who competes, and that nothing but the rule differs."""

from dataclasses import replace

import pytest
import torch
from runs import SETTINGS

from rltok.errors import RltokError
from rltok.evidence.methods import RULES, SMOKE_UPDATES, TWIN, TWINS, base_config, contender, contenders, twin
from rltok.runs.models import new_model


def test_all_are_the_eleven_rules_and_the_twins_of_those_that_do_not_control_their_rate():
    assert contenders(["all"]) == [*RULES, *TWINS]
    assert len(RULES) == 11 and {name.removeprefix(TWIN) for name in TWINS} == {"whitespace", "bpe", "bpe_causal"}
    assert contenders(["random_k_as_bpe", "bpe", "even", "bpe"]) == ["bpe", "even", "random_k_as_bpe"]


@pytest.mark.parametrize("size", ["tiny", "147m"])
def test_contenders_differ_in_their_rule_and_in_nothing_else(size):
    base = base_config(size, {}, budget="full", seed=3)
    for name in RULES:
        config = contender(base, size, name, {})
        rest = replace(config.model, rule=base.model.rule)
        assert (rest, config.objective, config.data) == (base.model, base.objective, base.data)
        assert replace(config.train, micro_batch=base.train.micro_batch) == base.train
        assert config.name == f"{size}_{name}"
        assert config.train.micro_batch == base.train.micro_batch or config.model.rule.name in ("hnet", "dynamic_pooling")
    assert len({contender(base, size, name, {}).digest() for name in RULES}) == len(RULES)


def test_a_setting_of_a_rule_reaches_the_rules_that_read_it():
    settings = {"model.rule.target_rate": 0.25, "model.rule.vocabulary": 999}
    base = base_config("tiny", settings, budget="full", seed=0)
    for name in RULES:
        rule = contender(base, "tiny", name, settings).model.rule
        assert (rule.target_rate, rule.vocabulary) == (0.25, 999)


def test_a_multiplier_of_the_policys_learning_rate_reaches_the_policy_alone():
    own = {"train.policy_lr_multiplier": 5.0, "train.policy_start_fraction": 0.3}
    base = base_config("tiny", own, budget="full", seed=0)
    trains = {name: contender(base, "tiny", name, {}).train for name in RULES}
    trains["twin"] = twin(base, "tiny", "random_k_as_bpe", 0.3).train
    found = {name: (train.policy_lr_multiplier, train.policy_start_fraction) for name, train in trains.items()}
    assert found == {name: (5.0, 0.3) if name == "learned" else (1.0, 0.0) for name in trains}
    for name, value in own.items():
        with pytest.raises(RltokError, match=f"{name} is of the rule learned, which does not compete. Name it in --rules"):
            base_config("tiny", {name: value}, budget="full", seed=0, names=["even"])


def test_a_smoke_run_has_few_updates_and_a_full_one_the_presets_budget():
    smoke, full = (base_config("tiny", {}, budget=budget, seed=0) for budget in ("smoke", "full"))
    assert (smoke.num_updates, full.num_updates) == (SMOKE_UPDATES, 292)
    assert replace(smoke.train, training_bytes=full.train.training_bytes, evaluate_rows=full.train.evaluate_rows) == full.train
    assert contender(smoke, "tiny", "entropy", {}).model.rule.fit_bytes == smoke.train.training_bytes // 3
    assert contender(full, "tiny", "entropy", {}).model.rule.fit_bytes == full.train.training_bytes // 3


def test_a_twin_is_random_k_at_the_tokens_that_came_out():
    base = base_config("tiny", {}, budget="smoke", seed=0)
    config = twin(base, "tiny", "random_k_as_bpe", 0.31)
    assert (config.model.rule.name, config.model.rule.target_rate) == ("random_k", 0.31)
    assert replace(config.model, rule=base.model.rule) == base.model and config.train == base.train
    assert twin(base, "tiny", "random_k_as_bpe", 1.0).model.rule.target_rate < 1


def test_networks_of_all_rules_start_from_the_same_weights():
    base = base_config("tiny", SETTINGS, budget="smoke", seed=2)
    models = [new_model(contender(base, "tiny", name, {}), torch.device("cpu")) for name in ("even", "whitespace", "bpe")]
    first = dict(models[0].named_parameters())
    for model in models[1:]:
        assert all(bool((weights == first[name]).all()) for name, weights in model.named_parameters())
