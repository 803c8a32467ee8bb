"""rltok.presets: Table 2 as it stands in the paper, variants that change what they say, and fits that hold."""

import math
import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rltok.config import with_settings
from rltok.data.corpus import num_held_out
from rltok.errors import RltokError
from rltok.evidence.paper import WARMUP_BYTES
from rltok.optim import policy_travel
from rltok.presets import check_batch_fits, fit_to_corpus, preset, presets, size_of, travel_advice

TABLE_2 = {  # d, heads, down / mid / up, learning rate, sequences, warm-up bytes, training bytes, 1 / target rate
    "147m": (768, 12, (4, 12, 4), 1.5e-3, 128, 4.5e8, 6e9, 5),
    "90m": (768, 12, (4, 6, 4), 2e-3, 128, 2.5e8, 3.4e9, 5),
    "24m": (512, 8, (4, 2, 4), 3e-3, 64, 1.1e8, 1.5e9, 2),
    "32m": (512, 8, (4, 4, 4), 3e-3, 64, 1.1e8, 1.5e9, 4),
    "40m": (512, 8, (4, 6, 4), 3e-3, 64, 1.1e8, 1.5e9, 6),
}
VARIANTS = [f"_{name}{value}" for name, values in (("gamma", ("0.9", "0.99")), ("lags", (0, 1, 7, 8))) for value in values]


def differences(one, other, path=""):
    """Dotted names of the settings in which two configs differ."""
    for key, value in one.items():
        if isinstance(value, dict):
            yield from differences(value, other[key], f"{path}{key}.")
        elif value != other[key]:
            yield f"{path}{key}"


@pytest.mark.parametrize("name", TABLE_2)
def test_sizes_and_optimisation_are_those_of_table_2(name):
    d, heads, layers, rate, sequences, warmup, budget, every = TABLE_2[name]
    config = preset(name)
    model, train = config.model, config.train
    assert (model.embedding_dim, model.num_heads, (model.down_layers, model.mid_layers, model.up_layers)) == (d, heads, layers)
    assert (train.learning_rate, train.sequences_per_update, train.training_bytes) == (rate, sequences, budget)
    assert model.rule.target_rate == pytest.approx(1 / every)
    assert WARMUP_BYTES[name] == warmup
    assert train.warmup_fraction * budget == pytest.approx(warmup, rel=0.03)  # one fraction for three rounded ratios
    assert (config.data.sequence_length, model.window, model.rule.lags, model.rule.scale) == (4096, 64, 8, 16.0)
    assert (model.byte_mlp_ratio, model.token_mlp_ratio, train.beta1, train.beta2) == (1, 4, 0.9, 0.999)
    objective = config.objective
    weights = [getattr(objective, f"lambda_{part}") for part in ("auto", "policy", "target", "early")]
    assert (objective.gamma, weights) == (0.99, [1.0, 0.01, 0.01, 0.1])


@pytest.mark.parametrize("name", presets())
def test_every_name_builds_a_config_that_carries_it(name):
    config = preset(name)
    assert config.name == name and config.num_updates >= 1


@pytest.mark.parametrize("size", [name for name in presets() if "_" not in name])
def test_a_variant_changes_the_setting_in_its_name_and_no_other(size):
    for suffix in VARIANTS:
        config, base = preset(size + suffix), preset(size)
        dotted = "objective.gamma" if "gamma" in suffix else "model.rule.lags"
        value = float(suffix.removeprefix("_gamma").removeprefix("_lags"))
        section = config.objective.gamma if "gamma" in suffix else config.model.rule.lags
        assert section == value
        assert set(differences(config.to_dict(), base.to_dict())) <= {dotted, "name"}
        assert config.digest() != base.digest() or with_settings(base, {dotted: section}) == base


RULE_VARIANTS = {
    "even": {"name": "even"},
    "random_k": {"name": "random_k"},
    "dynamic_pooling": {"name": "dynamic_pooling"},
    "dynamic_pooling_port": {"name": "dynamic_pooling", "variant": "authors", "temperature": 1.0, "prior_weight": 2.0},
    "hnet": {"name": "hnet"},
    "hnet_port": {"name": "hnet", "variant": "port"},
}


@pytest.mark.parametrize("size", [name for name in presets() if "_" not in name])
def test_a_rules_variant_changes_that_rule_and_at_most_the_rows_a_forward_pass(size):
    base = preset(size)
    for suffix, settings in RULE_VARIANTS.items():
        config = preset(f"{size}_{suffix}")
        assert {key: getattr(config.model.rule, key) for key in settings} == settings
        allowed = {f"model.rule.{key}" for key in settings} | {"name"}
        crowded = settings["name"] in ("dynamic_pooling", "hnet") and size not in ("tiny", "small")
        assert config.train.micro_batch == base.train.micro_batch // (4 if crowded else 1)
        assert set(differences(config.to_dict(), base.to_dict())) == allowed | ({"train.micro_batch"} if crowded else set())


@pytest.mark.parametrize("size", [name for name in presets() if "_" not in name])
def test_the_variant_for_short_runs_gives_the_policy_a_learning_rate_of_its_own(size):
    config, base = preset(f"{size}_fast_policy"), preset(size)
    assert set(differences(config.to_dict(), base.to_dict())) == {"name", "objective.gamma", "train.policy_lr_multiplier"}
    assert config.train.policy_lr_multiplier == 20


# The policy's travel


def test_the_papers_runs_move_the_policy_equally_far_at_every_size():
    travels = [policy_travel(preset(name)) for name in ("147m", "90m", "24m", "32m", "40m")]
    assert all(travel == pytest.approx(travels[0], rel=0.25) for travel in travels)


@pytest.mark.parametrize("name", presets())
def test_no_preset_is_short_at_its_own_budget(name):
    assert travel_advice(preset(name)) is None


def test_a_short_run_is_told_the_multiplier_with_which_its_policy_moves_as_far_as_the_papers():
    short = preset("32m", {"train.training_bytes": 100_000_000})
    text = travel_advice(short)
    multiplier = float(re.search(r"train\.policy_lr_multiplier=(\S+)$", text)[1])
    enough = with_settings(short, {"train.policy_lr_multiplier": multiplier})
    assert policy_travel(enough) == pytest.approx(policy_travel(preset("147m")), rel=0.05)
    assert travel_advice(enough) is None
    slow = with_settings(short, {"train.policy_lr_multiplier": 2.0})  # what is set already is counted
    assert f"={multiplier:g}" in travel_advice(slow)
    still = with_settings(preset("tiny"), {"train.training_bytes": 8192, "train.warmup_start": 0.0})
    assert policy_travel(still) == 0 and travel_advice(still).endswith("Train longer")
    handful = preset("32m", {"train.training_bytes": 2**20})
    assert travel_advice(handful).endswith("Train longer")
    for settings in ({"model.rule.name": "even"}, {"objective.lambda_policy": 0.0}):
        assert travel_advice(with_settings(short, settings)) is None


def test_the_faithful_variants_carry_the_numbers_of_their_papers():
    rule = preset("147m_dynamic_pooling").model.rule
    assert (rule.variant, rule.temperature, rule.prior_weight, rule.target_rate) == ("faithful", 0.5, 1.0, 0.2)
    rule = preset("147m_hnet").model.rule
    assert (rule.variant, rule.smooth, rule.ratio_weight, rule.target_rate) == ("faithful", "ema", 0.03, 0.2)


def test_the_authors_preset_differs_from_ours_in_these_settings_only():
    changed = set(differences(preset("147m_authors").to_dict(), preset("147m").to_dict()))
    assert changed == {
        "name", "objective.gamma", "objective.lambda_auto", "model.rule.lags", "model.head_norm", "train.micro_batch",
    }  # fmt: skip
    assert "147m_authors" in presets() and "147m_authors_lags0" not in presets()


@pytest.mark.parametrize("name", presets())
def test_the_name_of_a_variant_or_of_a_run_of_it_begins_with_its_size(name):
    assert size_of(f"{name}_of_a_sweep") == size_of(name)
    assert preset(size_of(name)).model.embedding_dim == preset(name).model.embedding_dim


@pytest.mark.parametrize(("name", "hint"), [("147", "147m"), ("40m_gama0.9", "40m_gamma0.9"), ("zzz", "Add a variant such as")])
def test_an_unknown_name_is_an_error_that_lists_sizes_and_the_nearest(name, hint):
    with pytest.raises(RltokError) as error:
        preset(name)
    assert repr(name) in str(error.value) and hint in str(error.value) and "24m, 32m, 40m" in str(error.value)


# Small corpora


def training_rows(config, num_bytes):
    """Rows left for training when one text of `num_bytes` is cut into windows and a tail is held out."""
    length = config.data.sequence_length
    rows = num_bytes // length + (num_bytes % length >= 16)
    return rows - num_held_out(rows, config.data.held_out_fraction)


@given(
    st.floats(math.log(1000), math.log(10_000_000)).map(lambda size: round(math.exp(size))),
    st.sampled_from(["tiny", "small", "147m", "24m"]),
)
@example(1000, "147m")
@example(10_000_000, "tiny")
def test_a_fit_fills_its_batches_from_one_kilobyte_to_ten_megabytes(num_bytes, name):
    base = preset(name)
    config = fit_to_corpus(base, num_bytes)
    rows = training_rows(config, num_bytes)
    check_batch_fits(config, rows, num_bytes)
    assert rows >= 4 and config.num_updates >= 1
    assert config.train.training_bytes <= max(100 * num_bytes, config.bytes_per_update)
    assert config.model == base.model and config.objective == base.objective
    allowed = {"data.sequence_length", "data.cut"} | {
        f"train.{name}" for name in ("sequences_per_update", "micro_batch", "training_bytes", "checkpoint_every")
    }
    assert config.train.checkpoint_every <= max(1, config.num_updates // 4)  # a kill loses no more than a quarter
    assert set(differences(config.to_dict(), base.to_dict())) <= allowed


def test_a_corpus_that_fills_the_preset_keeps_it():
    assert fit_to_corpus(preset("tiny"), 10_000_000) == preset("tiny")


def test_a_batch_that_cannot_be_filled_is_an_error_whose_remedy_works():
    config, num_bytes = preset("tiny"), 5000
    with pytest.raises(RltokError, match="less than one batch of 16") as error:
        check_batch_fits(config, 9, num_bytes)
    pairs = [word.split("=") for word in str(error.value).split("--set ")[1].split()]
    values = {key: int(value) if value.isdigit() else value for key, value in pairs}
    remedied = with_settings(config, values)
    check_batch_fits(remedied, training_rows(remedied, num_bytes), num_bytes)
    check_batch_fits(config, 16, num_bytes)


@pytest.mark.parametrize("fraction", [0.01, 0.05, 0.4, 0.9])
def test_a_fit_of_very_little_text_can_be_trained_on_or_says_how_much_is_needed(fraction):
    base = with_settings(preset("tiny"), {"data.held_out_fraction": fraction})
    refused = []
    for num_bytes in [*range(50), 100, 199, 200, 201, 400]:
        try:
            config = fit_to_corpus(base, num_bytes)
        except RltokError as error:
            least = int(str(error).split("Give at least ")[1].split()[0])
            assert num_bytes < least and f"{num_bytes} bytes of text are too few" in str(error)
            fit_to_corpus(base, least)
            refused.append(num_bytes)
        else:
            check_batch_fits(config, training_rows(config, num_bytes), num_bytes)
    assert refused[:24] == list(range(24)) and (fraction == 0.9 or len(refused) == 24)  # three rows of 8 bytes, one held out


@pytest.mark.parametrize("length", [8, 16, 24, 64, 512])
@pytest.mark.parametrize("fraction", [0.01, 0.05, 0.3])
def test_the_remedy_for_a_batch_that_little_text_does_not_fill_works_with_and_without_separate_validation_text(length, fraction):
    settings = {"data.sequence_length": length, "data.held_out_fraction": fraction, "train.training_bytes": 10**6}
    config = with_settings(preset("tiny"), settings)
    for num_bytes in range(2 * length, 12 * length, 3 * length - 5):
        rows = training_rows(config, num_bytes)
        with pytest.raises(RltokError) as error:
            check_batch_fits(config, rows, min(num_bytes, rows * length))
        if "too few to train on" in str(error.value):
            assert num_bytes < 32
            continue
        pairs = [word.split("=") for word in str(error.value).split("--set ")[1].split()]
        remedied = with_settings(config, {key: int(value) if value.isdigit() else value for key, value in pairs})
        check_batch_fits(remedied, training_rows(remedied, num_bytes), num_bytes)
        check_batch_fits(remedied, rows * length // remedied.data.sequence_length, num_bytes)
