"""rltok.config and rltok.validation: every limit is named when it is crossed, and the digest knows every setting."""

import dataclasses
import hashlib
import json
import math
import typing

import pytest
import torch
from runs import small_config, write_text

from rltok.config import Config, RuleConfig, from_dict, with_settings
from rltok.data import load_corpus
from rltok.data.batches import micro_batches
from rltok.errors import RltokError
from rltok.optim import make_optimizer
from rltok.presets import preset
from rltok.registry import RULES
from rltok.rules import make_rule
from rltok.runs.models import new_model
from rltok.step import train_step

RANGE = {"model.rule.lowest_rate": 0.1, "model.rule.highest_rate": 0.5}
# A valid other value where neither the half, nor another choice, nor None would be one.
OTHER = {
    "objective.credit": {"objective.credit": "total", "objective.gamma": 1.0},
    "objective.draws": {"objective.draws": 2},
    "objective.further_draws": {"objective.further_draws": "train", "objective.draws": 2},
    "objective.lambda_entropy": {"objective.lambda_entropy": 1.0},
    "objective.least_entropy": {"objective.least_entropy": 0.4, "objective.lambda_entropy": 1.0},
    "train.sequences_per_update": {"train.sequences_per_update": 64},
    "model.embedding_dim": {"model.embedding_dim": 96},
    "train.final_fraction": {"train.final_fraction": 0.1},
    "train.seed": {"train.seed": 1},
    "train.policy_lr_multiplier": {"train.policy_lr_multiplier": 20.0},
    "train.policy_start_fraction": {"train.policy_start_fraction": 0.3},
    "train.policy_first_multiplier": {"train.policy_first_multiplier": 5.0, "train.policy_start_fraction": 0.3},
    "train.policy_beta2": {"train.policy_beta2": 0.95},
    "train.policy_restarts": {"train.policy_restarts": 2},
    "train.policy_anneal_fraction": {"train.policy_anneal_fraction": 0.3},
    "train.policy_first_rate": {"train.policy_first_rate": 0.5, "train.policy_anneal_fraction": 0.3},
    "train.policy_first_temperature": {"train.policy_first_temperature": 4.0, "train.policy_anneal_fraction": 0.3},
    "model.byte_mlp_ratio": {"model.byte_mlp_ratio": 2},
    "model.rule.name": {"model.rule.name": "even"},
    "model.rule.temperature": {"model.rule.temperature": 1.0},
    **dict.fromkeys(RANGE, RANGE),
}


def leaves(values=None, path=""):
    """Every setting by its dotted name, with its default."""
    for key, value in (Config().to_dict() if values is None else values).items():
        if isinstance(value, dict):
            yield from leaves(value, f"{path}{key}.")
        else:
            yield f"{path}{key}", value


def section_of(dotted):
    """The settings class that holds a setting, and its name there."""
    cls, parts = Config, dotted.split(".")
    for part in parts[:-1]:
        cls = typing.get_type_hints(cls)[part]
    return cls, parts[-1]


def changed(dotted, value):
    """Settings that give `dotted` another valid value."""
    if dotted in OTHER:
        return OTHER[dotted]
    cls, name = section_of(dotted)
    choices = typing.get_args(typing.get_type_hints(cls)[name])
    if isinstance(value, bool):
        return {dotted: not value}
    if isinstance(value, str):
        return {dotted: next(choice for choice in choices if choice != value)} if choices else {dotted: value + "2"}
    return {dotted: value // 2 if isinstance(value, int) else value / 2}


def reader_of(dotted):
    """A rule that reads the setting."""
    return next((rule for rule, entry in RULES.items() if dotted.removeprefix("model.rule.") in entry.settings), "learned")


LEAVES = dict(leaves())


def refused(settings, *words):
    with pytest.raises(RltokError) as error:
        with_settings(Config(), settings)
    for word in words:
        assert word in str(error.value), error.value


# Digest and round trip


@pytest.mark.parametrize("dotted", [name for name in LEAVES if name != "name"])
def test_the_digest_changes_with_every_setting(dotted):
    changes = changed(dotted, LEAVES[dotted])
    base = with_settings(Config(), {"model.rule.name": reader_of(dotted)})
    other = with_settings(base, changes)
    assert other.digest() != base.digest()
    assert from_dict(json.loads(json.dumps(other.to_dict()))) == other
    before = dict(leaves(base.to_dict()))
    differing = {name for name, value in leaves(other.to_dict()) if value != before[name]}
    assert differing == set(changes)


@pytest.mark.parametrize("rule", RULES)
def test_the_digest_knows_the_settings_that_the_rule_reads_and_no_others(rule, monkeypatch):
    base = with_settings(preset("tiny"), {"model.rule.name": rule})
    refused = [] if RULES[rule].policy else ["lowest_rate", "highest_rate"]
    for name in (field.name for field in dataclasses.fields(RuleConfig) if field.name not in ("name", "target_rate", *refused)):
        other = with_settings(base, changed(f"model.rule.{name}", LEAVES[f"model.rule.{name}"]))
        assert (other.digest() != base.digest()) == (name in RULES[rule].settings), name
    read, plain = set(), RuleConfig.__getattribute__
    monkeypatch.setattr(RuleConfig, "__getattribute__", lambda self, name: read.add(name) or plain(self, name))
    make_rule(base.model)
    assert read & {field.name for field in dataclasses.fields(RuleConfig)} - {"name"} == set(RULES[rule].settings)


def test_a_new_rules_settings_moved_no_hash_of_old_runs():
    assert preset("tiny").digest() == "762bafd3ee5d"  # the record of the demo carries it


def test_the_digest_ignores_the_name_and_tells_related_changes_apart():
    assert with_settings(Config(), {"name": "other"}).digest() == Config().digest()
    assert len(Config().digest()) == 12
    related = [with_settings(Config(), OTHER["objective.credit"]), with_settings(Config(), {"objective.gamma": 1.0})]
    assert related[0].digest() != related[1].digest()


def test_a_whole_number_means_the_same_as_its_float():
    one, other = (with_settings(Config(), {"model.rule.scale": scale}) for scale in (16, 16.0))
    assert one == other == Config() and one.digest() == other.digest()
    assert isinstance(one.model.rule.scale, float)
    assert with_settings(Config(), {"model.rule.softcap": 8}).model.rule.softcap == 8.0


def test_a_round_trip_through_json_keeps_everything_and_left_out_settings_keep_their_defaults():
    assert from_dict(json.loads(json.dumps(Config().to_dict()))) == Config()
    assert from_dict({}) == Config()
    assert from_dict({"model": {"rule": {"lags": 0}}}).model.rule == RuleConfig(lags=0)


def test_settings_are_frozen_and_with_settings_leaves_its_input_alone():
    config = Config()
    assert with_settings(config, {"objective.gamma": 0.5}).objective.gamma == 0.5
    assert config.objective.gamma == 0.99
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.objective.gamma = 0.5


def test_settings_that_are_valid_only_together_can_be_given_together():
    config = with_settings(Config(), {"objective.credit": "total", "objective.gamma": 1})
    assert (config.objective.credit, config.objective.gamma) == ("total", 1.0)


def test_updates_are_counted_whole():
    settings = {"train.sequences_per_update": 32, "train.micro_batch": 16, "data.sequence_length": 100}
    for budget, updates in ((3200, 1), (6399, 1), (6400, 2)):
        config = with_settings(Config(), {**settings, "train.training_bytes": budget})
        assert (config.bytes_per_update, config.num_updates) == (3200, updates)


# Limits

# Every numeric setting with the least and the largest value that is allowed, or with the open limits that its message names.
LIMITS = {
    "model.embedding_dim": (1, 65536), "model.num_heads": (1, 65536), "model.window": (1, 2**24),
    "model.byte_mlp_ratio": (1, 64), "model.token_mlp_ratio": (1, 64), "model.attention_softcap": (0.01, 1e6),
    "model.down_layers": (1, 1024), "model.mid_layers": (1, 1024), "model.up_layers": (1, 1024),
    "model.rope_theta": (1, 1e12), "model.norm_eps": (1e-12, 1), "model.rule.target_rate": "strictly between 0 and 1",
    "model.rule.lags": (0, 64), "model.rule.scale": (0.001, 1e6), "model.rule.softcap": (0.01, 1e6),
    "model.rule.temperature": (0.01, 100), "model.rule.prior_weight": (0, 1e6), "model.rule.ratio_weight": (0, 1e6),
    "model.rule.vocabulary": (256, 10**6), "model.rule.fit_bytes": (1, 10**15), "model.rule.entropy_dim": "a multiple of 32",
    "model.rule.entropy_layers": (1, 64), "model.rule.entropy_window": (1, 2**24),
    "model.rule.entropy_learning_rate": (1e-12, 1),
    "objective.gamma": (0, 1), "objective.draws": (1, 64), "objective.lambda_auto": (0, 1e6), "objective.lambda_policy": (0, 1e6),
    "objective.lambda_target": (0, 1e6), "objective.lambda_early": (0, 1e6), "objective.lambda_entropy": (0, 1e6),
    "objective.least_entropy": (0, math.log(2)),
    "data.sequence_length": (8, 2**24), "data.held_out_fraction": "strictly between 0 and 1",
    "train.training_bytes": (1, 10**15), "train.sequences_per_update": (1, 2**20), "train.micro_batch": (1, 2**20),
    "train.learning_rate": (1e-12, 10), "train.policy_lr_multiplier": (1e-6, 10_000),
    "train.policy_start_fraction": "at least 0 and below 1", "train.policy_anneal_fraction": "at least 0 and below 1",
    "train.policy_first_multiplier": (0, 10_000), "train.policy_first_temperature": (0.01, 1e3), "train.policy_restarts": (0, 64),
    "train.warmup_fraction": (0, 1), "train.warmup_start": (0, 1),
    "train.final_fraction": (0, 1), "train.beta1": "at least 0 and below 1", "train.beta2": "at least 0 and below 1",
    "train.adam_eps": (1e-30, 1), "train.weight_decay": (0, 10), "train.clip_norm": (1e-6, 1e30), "train.seed": (0, 2**63 - 1),
    "train.log_every": (1, 2**63 - 1), "train.evaluate_every": (1, 2**63 - 1), "train.evaluate_rows": (1, 2**63 - 1),
    "train.checkpoint_every": (1, 2**63 - 1), "train.keep_checkpoints": (1, 2**63 - 1),
}  # fmt: skip
OPEN = {name: allowed for name, allowed in LIMITS.items() if isinstance(allowed, str)}
CLOSED = {name: pair for name, pair in LIMITS.items() if name not in OPEN}
EDGES = (-(2**64), -(2**63), -1e38, -1, 1e38, 2**63 - 1, 2**63, 2**64, 1e300, 10**400)  # of float32, int64 and float64


def is_whole(name):
    """Whether a setting is a whole number."""
    return isinstance(LEAVES[name], int)


def test_every_numeric_setting_has_limits():
    numeric = {name for name, value in LEAVES.items() if isinstance(value, int | float) and not isinstance(value, bool)}
    assert numeric == LIMITS.keys()


@pytest.mark.usefixtures("shapes_unchecked")
@pytest.mark.parametrize("name", LIMITS)
def test_values_at_the_edges_of_ints_and_floats_are_refused_by_the_settings_own_name(name):
    for value in (*EDGES, float("nan"), float("inf")):
        low, high = CLOSED.get(name, (math.inf, -math.inf))
        if not low <= value <= high:
            refused({name: value}, f"{name} must", "; got ")


@pytest.mark.parametrize("name", OPEN)
def test_a_limit_that_is_not_reached_itself_is_named(name):
    for value in (0, 1) if "strictly" in OPEN[name] else (1,):
        refused({name: value}, f"{name} must", OPEN[name], f"got {value}")


@pytest.mark.parametrize("name", CLOSED)
def test_what_lies_beyond_its_limits_is_told_both(name):
    low, high = CLOSED[name]
    for value in (low - 1, high + 1) if is_whole(name) else (low - 1e-15, high * 1.01):
        refused({name: value}, f"{name} must be ", "below 2**63" if value == 2**63 else " and ", f"got {value}")


# What is whole has limits of memory and time besides, but for these.
WHOLE = ["model.window", "model.byte_mlp_ratio", "model.token_mlp_ratio", "model.rule.lags", "model.rule.entropy_window"]


@pytest.mark.usefixtures("shapes_unchecked")
@pytest.mark.parametrize("name", [*(name for name in CLOSED if not is_whole(name)), *WHOLE])
def test_updates_at_a_limit_are_finite(name, tmp_path):
    corpus, device = load_corpus(write_text(tmp_path), small_config().data), torch.device("cpu")
    rule = {"model.rule.name": reader_of(name), "model.rule.fit_bytes": 500, "model.rule.target_rate": 0.5}
    for value in CLOSED[name]:
        config = with_settings(small_config(), rule | OTHER.get(name, {}) | {name: value})
        model = new_model(config, device)
        model.rule.fit(corpus.train, 0)
        optimizer = make_optimizer(model, config.train)
        for step in (1, 2):
            train_step(model, optimizer, micro_batches(corpus, config, step, device), config, step)
        assert all(weights.isfinite().all() for weights in model.parameters())


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"model.rule.target_rate": 0}, ["model.rule.target_rate", "strictly between 0 and 1"]),
        ({"model.rule.target_rate": 1}, ["model.rule.target_rate", "strictly between 0 and 1"]),
        ({"model.rule.target_rate": 5}, ["For one boundary every 5 bytes write 1/5"]),
        ({"model.rule.target_rate": 0.002}, ["softcap=6", "its logit is -6.21", "above 6.3"]),
        ({"model.rule.entropy_dim": 3_200_000_000}, ["model.rule.entropy_dim", "at most 8192", "got 3200000000"]),
        ({"model.rule.entropy_dim": 0}, ["model.rule.entropy_dim", "a multiple of 32", "got 0"]),
        ({"model.num_heads": 7}, ["embedding_dim=768", "multiple of 2 * num_heads=14"]),
        ({"model.embedding_dim": 36}, ["embedding_dim=36", "even width for rotary positions"]),
        ({"objective.credit": "total"}, ["credit='total'", "gamma=0.99", "Set gamma=1"]),
        ({"train.micro_batch": 24}, ["sequences_per_update=128", "multiple of micro_batch=24"]),
        ({"train.micro_batch": 1}, ["centring='batch'", "at least 2 rows", "train.micro_batch=1"]),
        ({"train.training_bytes": 1000}, ["train.training_bytes=1000", "less than one update of 524288"]),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_a_crossed_limit_is_named_with_value_and_remedy(settings, words):
    refused(settings, *words)


def test_one_row_a_micro_batch_is_fine_where_nothing_is_centred():
    for settings in ({"objective.centring": "none"}, {"model.rule.name": "even"}):
        assert with_settings(Config(), {"train.micro_batch": 1, **settings}).train.micro_batch == 1


@pytest.mark.parametrize("rule", ["dynamic_pooling", "hnet"])
def test_rates_that_round_to_0_or_1_are_refused_for_rules_that_take_their_logarithm_or_ratio(rule):
    for rate in (1e-46, 9e-7, 0.9999995, 0.99999999):
        refused(
            {"model.rule.name": rule, "model.rule.target_rate": rate},
            "model.rule.target_rate", "between 1e-06 and 0.999999", f"for {rule}", f"got {rate!r}",
        )  # fmt: skip
    for rate in (1e-6, 1 - 1e-6):
        with_settings(Config(), {"model.rule.name": rule, "model.rule.target_rate": rate})
    with_settings(Config(), {"model.rule.name": "even", "model.rule.target_rate": 1e-46})


def test_without_a_softcap_any_rate_can_be_reached():
    assert with_settings(Config(), {"model.rule.target_rate": 0.001, "model.rule.softcap": None}).model.rule.softcap is None


# Types and names


@pytest.mark.usefixtures("shapes_unchecked")  # the package's own checks, not those of the tests
@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"model.rule.lags": 1.5}, ["model.rule.lags", "a whole number", "got 1.5"]),
        ({"model.rule.lags": True}, ["model.rule.lags", "a whole number", "got True"]),
        ({"objective.gamma": "0.9"}, ["objective.gamma", "a finite number", "got '0.9'"]),
        ({"objective.gamma": float("nan")}, ["a finite number", "got nan"]),
        ({"train.learning_rate": float("inf")}, ["a finite number", "got inf"]),
        ({"objective.gamma": None}, ["a finite number", "got None"]),
        ({"objective.gamma": 10**400}, ["objective.gamma", "a finite number", "fp32"]),
        ({"train.learning_rate": 1e300}, ["train.learning_rate", "fp32"]),
        ({"train.seed": 10**400}, ["train.seed", "below 2**63"]),
        ({"model.window": 2**63}, ["model.window", "below 2**63"]),
        ({"name": "a b"}, ["config.name", "letters, digits and . _ + -", "got 'a b'"]),
        ({"name": ""}, ["config.name", "got ''"]),
        ({"objective.relative_rewards": 1}, ["objective.relative_rewards", "true or false", "got 1"]),
        ({"model.rule.name": "learnt"}, ["model.rule.name", "'learned', 'even', 'random_k'", "got 'learnt'"]),
        ({"model.attention_softcap": "no"}, ["a finite number (fp32) or null", "got 'no'"]),
        ({"name": 3}, ["name", "text", "got 3"]),
        ({"objective.gama": 0.9}, ["objective has no setting 'gama'", "Did you mean 'gamma'?"]),
        ({"model.rule.xyzzy": 1}, ["model.rule has no setting 'xyzzy'", "It has: name, target_rate"]),
        ({"objectiv.gamma": 1}, ["config has no setting 'objectiv'", "Did you mean 'objective'?"]),
        ({"objective": 3}, ["'objective' is a section", "gamma"]),
        ({"objective.gamma.x": 3}, ["no section 'objective.gamma'"]),
    ],
    ids=str,
)
def test_a_wrong_type_or_name_is_named_with_what_is_allowed(settings, words):
    refused(settings, *words)


@pytest.mark.usefixtures("shapes_unchecked")
@pytest.mark.parametrize(
    ("values", "words"), [({"model": 3}, "model must be a table"), ([], "config must be a table"), ({"modle": {}}, "'model'")]
)
def test_nested_values_that_are_no_settings_are_refused(values, words):
    with pytest.raises(RltokError, match=words):
        from_dict(values)


def test_a_setting_younger_than_stored_runs_moves_the_digest_only_away_from_its_old_value():
    config = Config()
    plain = {key: value for key, value in config.to_dict().items() if key != "name"}
    younger = ("lr_multiplier", "start_fraction", "first_multiplier", "beta2", "restarts", "anneal_fraction", "first_rate",
               "first_temperature")  # fmt: skip
    plain["train"] = {key: value for key, value in plain["train"].items() if key not in {f"policy_{name}" for name in younger}}
    for name in ("draws", "further_draws", "lambda_entropy", "least_entropy"):
        del plain["objective"][name]
    del plain["model"]["rotary_positions"]
    rule = plain["model"]["rule"]
    plain["model"]["rule"] = {key: rule[key] for key in ("name", "target_rate", "lags", "scale", "softcap")}
    before = hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()[:12]
    assert config.digest() == before
    moved = [
        {"train.policy_lr_multiplier": 2.0}, {"train.policy_start_fraction": 0.3}, {"train.policy_start_fraction": 0.4},
        {"model.rotary_positions": "bf16"}, *(OTHER[f"train.policy_{name}"] for name in younger[2:]),
        *(OTHER[f"objective.{name}"] for name in ("draws", "further_draws", "lambda_entropy", "least_entropy")),
        RANGE, RANGE | {"model.rule.highest_rate": 0.4},
    ]  # fmt: skip
    assert len({before, *(with_settings(config, settings).digest() for settings in moved)}) == 1 + len(moved) == 17


@pytest.mark.parametrize("value", [0, -1, 0.0, 1e5, float("nan"), True])
def test_a_multiplier_that_is_none_is_refused(value):
    with pytest.raises(RltokError, match=r"train\.policy_lr_multiplier must be"):
        with_settings(Config(), {"train.policy_lr_multiplier": value})


@pytest.mark.parametrize("value", [-0.1, 1, 1.0, 1.5, float("nan"), True])
def test_a_policy_that_would_start_before_training_or_never_is_refused(value):
    with pytest.raises(RltokError, match=r"train\.policy_start_fraction must be"):
        with_settings(Config(), {"train.policy_start_fraction": value})


@pytest.mark.parametrize("rule", [name for name in RULES if name != "learned"])
def test_a_multiplier_on_a_rule_without_a_policy_is_refused(rule):
    with pytest.raises(RltokError, match=rf"policy_lr_multiplier=20 .* the rule '{rule}' has none\. Set it to 1"):
        with_settings(Config(), {"model.rule.name": rule, "train.policy_lr_multiplier": 20})
    with pytest.raises(RltokError, match=rf"policy_start_fraction=0\.3 .* the rule '{rule}' has none\. Set it to 0"):
        with_settings(Config(), {"model.rule.name": rule, "train.policy_start_fraction": 0.3})
    for name, value in OTHER.items():
        if name.startswith(("objective.draws", "objective.further", "objective.le", "objective.lambda_entropy", "train.policy",
                            "model.rule.lowest", "model.rule.highest")):  # fmt: skip
            with pytest.raises(
                RltokError, match=rf"(objective|train|rule)\..*=.* of a learned policy, and the rule '{rule}' has none\."
            ):
                with_settings(Config(), {"model.rule.name": rule} | value)
    with pytest.raises(RltokError, match=rf"objective\.draws=2 .* the rule '{rule}' has none\. Set it to 1, or"):
        with_settings(Config(), {"model.rule.name": rule, "objective.draws": 2})
    with pytest.raises(RltokError, match=rf"policy_beta2=0\.9 .* the rule '{rule}' has none\. Set it to null, or"):
        with_settings(Config(), {"model.rule.name": rule, "train.policy_beta2": 0.9})


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"model.rule.lowest_rate": 0.1}, r"ends of one range; got 0\.1 and None\. Set both, or both to null\."),
        (RANGE | {"model.rule.lowest_rate": None}, r"ends of one range; got None and 0\.5\."),
        (RANGE | {"model.rule.lowest_rate": 0.5}, r"must be in this order; got 0\.5 and 0\.5\. Lower the first or raise"),
        (RANGE | {"model.rule.lowest_rate": 0.6}, r"must be in this order; got 0\.6 and 0\.5\."),
        (RANGE | {"model.rule.lowest_rate": 0}, r"lowest_rate must lie strictly between 0 and 1 .* got 0"),
        (RANGE | {"model.rule.highest_rate": 8}, r"highest_rate must lie strictly .* got 8.* write 1/8\."),
        (RANGE | {"model.rule.highest_rate": 0.999}, r"softcap=6 cannot reach highest_rate=0\.999: .* 6\.91, .* above 7 or"),
        (RANGE | {"model.rule.lowest_rate": 0.3}, r"target_rate=0\.2 must lie in the range from lowest_rate=0\.3 to highest"),
        (RANGE | {"model.rule.lowest_rate": 1 / 3, "model.rule.target_rate": 0.333333}, r"0\.333333 .*lowest_rate=0\.33333333"),
        (RANGE | {"model.rule.target_rate": 0.6}, r"target_rate=0\.6 must lie in the range from .* to highest_rate=0\.5: it"),
        (
            RANGE | {"train.policy_first_rate": 0.5, "train.policy_anneal_fraction": 0.3},
            r"policy_first_rate=0\.5 lets one target rate anneal, .* give every micro-batch its own\. Set it to null, or those",
        ),
    ],
)
def test_a_range_of_rates_that_is_none_or_that_another_setting_excludes_is_refused_in_one_line(settings, message):
    with pytest.raises(RltokError, match=message) as error:
        with_settings(Config(), settings)
    assert "\n" not in str(error.value)


def test_the_ends_of_a_range_may_be_the_target_rate():
    for rate in RANGE.values():
        assert with_settings(Config(), RANGE | {"model.rule.target_rate": rate}).model.rule.target_rate == rate


def test_several_draws_that_nothing_would_be_compared_with_are_refused():
    with pytest.raises(RltokError, match=r"draws=2 subtracts other draws .* Set draws=1, or relative_rewards=True\.$"):
        with_settings(Config(), {"objective.draws": 2, "objective.relative_rewards": False})


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"train.policy_first_multiplier": 5},
            "policy_first_multiplier=5 does nothing while train.policy_start_fraction is 0. Set",
        ),
        (
            {"train.policy_first_rate": 0.5},
            "policy_first_rate=0.5 does nothing while train.policy_anneal_fraction is 0. Set that,",
        ),
        (
            {"train.policy_first_temperature": 4},
            "while train.policy_anneal_fraction is 0. Set that, too, or train.policy_first_temp",
        ),
        ({"objective.further_draws": "train"}, "further_draws=train does nothing while objective.draws is 1. Set that, too, or"),
        ({"objective.least_entropy": 0.4}, "least_entropy=0.4 does nothing while objective.lambda_entropy is 0. Set that, too,"),
        (
            {"objective.draws": 3, "objective.further_draws": "antithetic"},
            "objective.draws must be even where further_draws='anti",
        ),
        ({"train.policy_beta2": 1.0}, "train.policy_beta2 must be at least 0 and below 1; got 1.0"),
        ({"train.policy_first_rate": 1.0}, "train.policy_first_rate must be strictly between 0 and 1; got 1.0"),
        ({"train.policy_first_rate": 0.999, "train.policy_anneal_fraction": 0.3}, "softcap=6 cannot reach target_rate=0.999"),
        (
            {"train.policy_first_temperature": 100, "train.policy_anneal_fraction": 0.3, "model.rule.scale": 5e5},
            "model.rule.scale",
        ),
    ],
    ids=lambda value: next(reversed(value)) if isinstance(value, dict) else "",
)
def test_a_setting_that_would_do_nothing_or_leads_out_of_its_limits_is_refused_in_one_line(settings, message):
    with pytest.raises(RltokError) as error:
        with_settings(Config(), settings)
    assert message in str(error.value) and "\n" not in str(error.value)
