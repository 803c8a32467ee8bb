"""Table 2 and its variants as functions: a variant calls its base and changes what it is about.

`preset(name)` gives a `Config`; `presets()` lists the names.
"""

import difflib
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from rltok.config import Config, DataConfig, ModelConfig, ObjectiveConfig, RuleConfig, TrainConfig, with_settings
from rltok.errors import RltokError
from rltok.registry import RULES

LITTLE_TRAVEL = 0.25  # share of the paper's, see `travel_advice`: at 32m a sixth still costs 0.01 to 0.02 bits per byte
LARGEST_ADVISED = 100  # a larger multiplier makes up for no more than a handful of updates
SHORTEST = 8  # bytes in a row, the smallest data.sequence_length
_PRESETS: dict[str, Callable[[], Config]] = {}


def _register(name: str) -> Callable[[Callable[[], Config]], Callable[[], Config]]:
    def keep(build: Callable[[], Config]) -> Callable[[], Config]:
        _PRESETS[name] = lambda: replace(build(), name=name)
        return _PRESETS[name]

    return keep


@_register("147m")
def p147m() -> Config:
    """Table 2, left: 147M parameters on English. `rltok train --preset 147m --data fineweb --out runs/147m`"""
    return Config(
        model=ModelConfig(embedding_dim=768, num_heads=12, mid_layers=12, rule=RuleConfig(target_rate=1 / 5)),
        train=TrainConfig(learning_rate=1.5e-3, sequences_per_update=128, micro_batch=32, training_bytes=6_000_000_000),
    )


@_register("90m")
def p90m() -> Config:
    """Table 2, middle: 90M parameters on Python code. `rltok train --preset 90m --data codeparrot --out runs/90m`"""
    base = with_settings(p147m(), {"model.mid_layers": 6})
    return replace(base, train=replace(base.train, learning_rate=2e-3, training_bytes=3_400_000_000))


def _aspect_ratio(n: int) -> Config:
    """Table 2, right: n token layers at one boundary every n bytes."""
    return Config(
        model=ModelConfig(embedding_dim=512, num_heads=8, mid_layers=n, rule=RuleConfig(target_rate=1 / n)),
        train=TrainConfig(learning_rate=3e-3, sequences_per_update=64, training_bytes=1_500_000_000),
    )


@_register("24m")
def p24m() -> Config:
    """Table 2, right, n = 2: 23.5M parameters, one boundary every 2 bytes."""
    return _aspect_ratio(2)


@_register("32m")
def p32m() -> Config:
    """Table 2, right, n = 4: 31.9M parameters, one boundary every 4 bytes."""
    return _aspect_ratio(4)


@_register("40m")
def p40m() -> Config:
    """Table 2, right, n = 6: 40.3M parameters, one boundary every 6 bytes."""
    return _aspect_ratio(6)


@_register("147m_authors")
def p147m_authors() -> Config:
    """What the authors' released code very probably ran as "Ours, w = 8": gamma 0.9, 7 lags, weight 0.9 on the first term."""
    return with_settings(
        p147m(),
        {
            "objective.gamma": 0.9,
            "objective.lambda_auto": 0.9,
            "model.rule.lags": 7,
            "model.head_norm": "none",
            "train.micro_batch": 8,
        },
    )


@_register("small")
def small() -> Config:
    """A few million parameters for one small GPU or a patient CPU: rows of 1024 bytes, rate 1/5."""
    return Config(
        model=ModelConfig(embedding_dim=256, num_heads=4, down_layers=2, mid_layers=4, up_layers=2),
        data=DataConfig(sequence_length=1024, cut="windows"),
        train=TrainConfig(
            learning_rate=2e-3,
            sequences_per_update=32,
            micro_batch=32,
            training_bytes=200_000_000,
            evaluate_every=250,
            checkpoint_every=250,
        ),  # fmt: skip
    )


@_register("tiny")
def tiny() -> Config:
    """What `make demo` trains in minutes on two CPU cores: its policy finds white space within about 300 updates.

    What makes the effect quick at this size, each measured on the validation split: a byte window of 4, so
    that only tokens carry what is further away; scale 1 instead of 16 and weights of 0.3 instead of 0.01, so that the
    policy moves in hundreds of updates instead of tens of thousands.
    """
    return Config(
        model=ModelConfig(
            embedding_dim=64, num_heads=2, down_layers=1, mid_layers=2, up_layers=1, window=4, attention_softcap=None,
            rule=RuleConfig(target_rate=1 / 5, scale=1.0),
        ),
        objective=ObjectiveConfig(gamma=0.9, lambda_policy=0.3, lambda_target=0.3),
        data=DataConfig(sequence_length=512, cut="windows", held_out_fraction=0.05),
        train=TrainConfig(
            learning_rate=6e-3, sequences_per_update=16, micro_batch=16, training_bytes=2_400_000,
            evaluate_every=100, checkpoint_every=50, log_every=5,
        ),
    )  # fmt: skip


# For runs of hundreds of updates, in which the paper's policy hardly moves; chosen at 32m, on validation text.
FAST_POLICY: dict[str, Any] = {"train.policy_lr_multiplier": 20.0, "objective.gamma": 0.95}


def rule_variants() -> dict[str, dict[str, Any]]:
    """Suffix -> settings of every way of drawing boundaries but the learned one, which the sizes have."""
    variants = {}
    for name, rule in RULES.items():
        for suffix, settings in ({"": {}} | {f"_{key}": value for key, value in rule.variants.items()}).items():
            variants[name + suffix] = {"name": name} | settings
    variants.pop("learned")
    return {suffix: {f"model.rule.{key}": value for key, value in settings.items()} for suffix, settings in variants.items()}


WAYS = ("learned", *rule_variants())  # of drawing boundaries, by name


def _variants() -> None:
    """Register variants of every size, such as `40m_gamma0.9` and `tiny_hnet`: gammas, lags, a fast policy, and the rules."""
    for name in list(_PRESETS):
        if name.endswith("_authors"):
            continue
        for gamma in (0.9, 0.99):
            _vary(name, f"gamma{gamma:g}", {"objective.gamma": gamma})
        for lags in (0, 1, 7, 8):
            _vary(name, f"lags{lags}", {"model.rule.lags": lags})
        _vary(name, "fast_policy", FAST_POLICY)
        for suffix, settings in rule_variants().items():
            _vary(name, suffix, settings | _room(_PRESETS[name](), settings) | _byte_model(_PRESETS[name](), settings))


def _room(base: Config, settings: dict[str, Any]) -> dict[str, Any]:
    """A quarter of the rows in a forward pass, where rows are long and every second byte may carry a boundary at first.

    Only the learned rule's estimator depends on the micro-batch (eq. 17); these rules have none.
    """
    crowded = settings["model.rule.name"] in ("dynamic_pooling", "hnet") and base.data.sequence_length >= 4096
    return {"train.micro_batch": base.train.micro_batch // 4} if crowded else {}


def _byte_model(base: Config, settings: dict[str, Any]) -> dict[str, Any]:
    """An entropy rule's byte model no wider than the network, and trained on no more than a third of its bytes."""
    if settings["model.rule.name"] != "entropy":
        return {}
    rule = base.model.rule
    return {
        "model.rule.entropy_dim": min(rule.entropy_dim, base.model.embedding_dim),
        "model.rule.fit_bytes": min(rule.fit_bytes, base.train.training_bytes // 3),
    }


def _vary(name: str, suffix: str, settings: dict[str, Any]) -> None:
    base = _PRESETS[name]
    _register(f"{name}_{suffix}")(lambda: with_settings(base(), settings))


_variants()


def presets() -> list[str]:
    """Names that `preset` knows."""
    return list(_PRESETS)


def size_of(name: str) -> str:
    """The size that a preset's name begins with, also that of a variant or of a run of one: 32m of 32m_ours_gamma0.9."""
    return name.split("_")[0]


def preset(name: str, settings: dict[str, Any] | None = None) -> Config:
    """The configuration called `name`, with settings changed: `preset("tiny", {"objective.gamma": 0.99})`.

    An unknown name is an error that lists the nearest and the base sizes.
    """
    if name not in _PRESETS:
        close = difflib.get_close_matches(name, _PRESETS, n=3)
        sizes = [known for known in _PRESETS if "_" not in known]
        hint = f"Did you mean {' or '.join(map(repr, close))}?" if close else "Add a variant such as _lags0 or _hnet to a size."
        raise RltokError(f"there is no preset {name!r}. Sizes: {', '.join(sizes)}. {hint}")
    return with_settings(_PRESETS[name](), settings or {})


def fit_to_corpus(config: Config, num_bytes: int) -> Config:
    """The same model with rows, batch and budget that a small corpus can fill after rows are held out of it.

    Rows are halved until there are at least 8 and a batch takes at most half of them; training stops after
    at most 100 passes. A corpus that fills the preset's batch keeps the preset.

    Raises:
        RltokError: too little text for two training rows of 8 bytes.
    """
    length, fraction = config.data.sequence_length, config.data.held_out_fraction
    while length > 16 and num_bytes // length < 16:
        length //= 2
    while length > SHORTEST and _training_rows(num_bytes, length, fraction) < 2:
        length = max(SHORTEST, length // 2)
    left = _training_rows(num_bytes, length, fraction)
    if left < 2:
        least = SHORTEST * max(3, math.ceil(2.5 / (1 - fraction)))
        raise RltokError(
            f"{num_bytes} bytes of text are too few to train on: training takes 2 rows of at least {SHORTEST} bytes, besides"
            f" what data.held_out_fraction={fraction:g} holds out. Give at least {least} bytes."
        )
    most = min(config.train.sequences_per_update, max(2, min(num_bytes // length // 2, left)))
    batch = 1 << (most.bit_length() - 1)  # the largest power of two that fits
    if most == config.train.sequences_per_update:
        batch = most
    budget = min(config.train.training_bytes, max(100 * num_bytes, batch * length))
    return with_settings(
        config,
        {
            "data.sequence_length": length,
            "data.cut": "windows",
            "train.sequences_per_update": batch,
            "train.micro_batch": min(config.train.micro_batch, batch),
            "train.training_bytes": budget,
            "train.checkpoint_every": min(config.train.checkpoint_every, max(1, budget // (batch * length) // 4)),
        },
    )


def travel_share(config: Config) -> float:
    """How far the policy's weights can move in this run, as a share of how far they can in the paper's at 147M."""
    from rltok.optim import policy_travel  # here and below, because torch comes with it

    return policy_travel(config) / policy_travel(preset("147m"))


def travel_advice(config: Config) -> str | None:
    """A line for a run whose policy can move only a small part of what it moves in the paper's; None for any other run."""
    if config.model.rule.name != "learned" or config.objective.lambda_policy == 0:
        return None
    share = travel_share(config)
    if share >= LITTLE_TRAVEL:
        return None
    wanted = float(f"{config.train.policy_lr_multiplier / share:.2g}") if share else math.inf
    faster = f", or begin anew with --set train.policy_lr_multiplier={wanted:g}" if wanted <= LARGEST_ADVISED else ""
    return (
        f"a short run for a policy: its weights move {100 * share:.2g} % as far as in the paper's run, so boundaries may"
        f" stay undecided. Train longer{faster}"
    )


def _training_rows(num_bytes: int, length: int, fraction: float) -> int:
    """Windows of one text that are left for training; 0 for a single one."""
    from rltok.data.corpus import num_held_out
    from rltok.data.rows import MIN_TAIL

    rows = num_bytes // length + (num_bytes % length >= min(MIN_TAIL, length))
    return rows - num_held_out(rows, fraction) if rows > 1 else 0


def check_batch_fits(config: Config, num_rows: int, num_bytes: int) -> None:
    """Raise `RltokError` when the training rows do not fill one update; it spells out settings that would fit."""
    from rltok.data.rows import MIN_TAIL

    wanted = config.train.sequences_per_update
    if num_rows < wanted:
        length, fraction = config.data.sequence_length, config.data.held_out_fraction
        held_out = max(1, int(num_rows * fraction / (1 - fraction)))  # rows, and each has at least so many bytes:
        fitting = fit_to_corpus(config, num_bytes + held_out * min(MIN_TAIL, length))
        data, train = fitting.data, fitting.train
        raise RltokError(
            f"the corpus has {num_rows} training rows of {length} bytes, less than one batch of {wanted}."
            " Without --preset and settings of its own rltok fits its smallest model to the text (in Python:"
            " from rltok.presets import fit_to_corpus), or:"
            f" --set data.cut=windows data.sequence_length={data.sequence_length}"
            f" train.sequences_per_update={train.sequences_per_update}"
            f" train.micro_batch={train.micro_batch} train.training_bytes={train.training_bytes}"
        )
