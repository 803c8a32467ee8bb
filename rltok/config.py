"""Every setting of a run, with its default and its limits, in one place.

    Config = name + ModelConfig(rule=RuleConfig) + ObjectiveConfig + DataConfig + TrainConfig

Frozen dataclasses: a variant is `dataclasses.replace` of another. Nothing outside this file holds a default for a
hyper-parameter. Unknown keys, impossible sizes and rates that contradict each other raise `RltokError`.
"""

import dataclasses
import functools
import hashlib
import json
import math
import operator
import re
from dataclasses import dataclass, field
from typing import Any, Literal

from rltok.errors import RltokError
from rltok.policy_settings import OF_LEARNED, check_policy, check_range, check_target_rate
from rltok.registry import RULES
from rltok.validation import Section, build, require

# Settings younger than stored runs, with the value that the code had before: at that value `Config.digest` leaves them out, so
# that a run keeps its digest.
ADDED_SETTINGS: dict[str, Any] = {**OF_LEARNED, "model.rotary_positions": "exact"}

LEAST_RATE = 1e-6  # of dynamic_pooling and hnet, as far from 1
MOST_WEIGHT = 1_000_000  # of a part of the loss, and of what logits are divided by
LONGEST_ROW = 1 << 24  # bytes
MOST_BYTES = 10**15  # of training; no run has more updates


@dataclass(frozen=True)
class RuleConfig(Section):
    """How token boundaries are drawn. `registry.RULES` says which rule reads which setting."""

    section = "model.rule"
    name: str = "learned"  # of `registry.RULES`
    target_rate: float = 1 / 5  # wanted boundaries per byte
    lags: int = 8  # w of eq. (21): how many earlier decisions the policy sees; 0 is memoryless
    scale: float = 16.0  # D of eq. (22)
    softcap: float | None = 6.0  # c of eq. (23), training only; the paper gives no value, 6 is the authors' code
    # range of target rates: each micro-batch of training has one of its own, and later one is chosen; null: target_rate alone
    lowest_rate: float | None = None
    highest_rate: float | None = None
    # as published, or as the paper's authors compared with: "authors" of dynamic_pooling, "port" of hnet. Stored records hold
    # a "port" of dynamic_pooling, too: an earlier reading of what the authors ran, which no rule computes any more
    variant: Literal["faithful", "port", "authors"] = "faithful"
    temperature: float = 0.5  # dynamic_pooling: of the relaxed Bernoulli gates; the authors have 1
    prior_weight: float = 1.0  # dynamic_pooling: of the binomial prior; with the authors, of the logit pressure, 2
    ratio_weight: float = 0.03  # hnet: of the ratio loss
    smooth: Literal["ema", "none"] = "ema"  # hnet: what becomes of token states before they are distributed

    vocabulary: int = 200_000  # bpe: ids wanted, the 256 bytes among them; short text gives fewer
    bpe_boundary: Literal["shifted", "causal"] = "shifted"  # bpe: as in appendix D.1, which looks ahead, or from prefixes alone
    fit_bytes: int = 500_000_000  # bpe, entropy: training text that is read to fit the rule, before the first update
    entropy_dim: int = 128  # entropy: width of the frozen byte model
    entropy_layers: int = 2
    entropy_window: int = 64  # positions that each of its layers sees, itself included
    entropy_learning_rate: float = 3e-3

    def __post_init__(self) -> None:
        named = isinstance(self.name, str) and self.name in RULES
        require(named, self.section, "name", self.name, "one of " + ", ".join(map(repr, RULES)))
        super().__post_init__()

    def _check(self) -> None:
        rate = self.target_rate
        check_target_rate("model.rule.target_rate", rate, None)
        if self.name in ("dynamic_pooling", "hnet") and not LEAST_RATE <= rate <= 1 - LEAST_RATE:  # fp32 logarithms and ratios
            require(False, self.section, "target_rate", rate, f"between {LEAST_RATE:g} and {1 - LEAST_RATE:g} for {self.name}")
        if self.name == "hnet" and self.variant == "authors":
            require(False, self.section, "variant", self.variant, "'faithful' or 'port' for hnet")
        self._between(0, 64, "lags")
        self._between(0.001, MOST_WEIGHT, "scale")
        self._between(0.01, MOST_WEIGHT, "softcap")
        self._between(0.01, 100, "temperature")
        self._between(0, MOST_WEIGHT, "prior_weight", "ratio_weight")
        self._between(256, 1_000_000, "vocabulary")
        self._between(1, MOST_BYTES, "fit_bytes")
        self._between(1, LONGEST_ROW, "entropy_window")
        self._between(1, 64, "entropy_layers")
        self._between(1e-12, 1, "entropy_learning_rate")
        dim, allowed = self.entropy_dim, "a multiple of 32, the width of a head, and at most 8192"
        require(0 < dim <= 8192 and dim % 32 == 0, self.section, "entropy_dim", dim, allowed)
        if self.name == "learned":
            check_target_rate("model.rule.target_rate", rate, self.softcap)
        check_range(self.lowest_rate, self.highest_rate, rate, self.softcap)


@dataclass(frozen=True)
class ModelConfig(Section):
    """Sizes of the autoregressive U-Net (Table 2, appendix D) and the readings that the paper leaves open."""

    section = "model"
    embedding_dim: int = 768
    num_heads: int = 12
    down_layers: int = 4  # byte layers before the token level
    mid_layers: int = 12  # token layers
    up_layers: int = 4  # byte layers after the token level
    window: int = 64  # positions a byte layer sees, itself included
    byte_mlp_ratio: int = 1  # GeGLU width of byte layers / embedding_dim
    token_mlp_ratio: int = 4
    attention_softcap: float | None = 50.0  # Gemma 2
    rope_theta: float = 10000.0
    norm_eps: float = 1e-6
    # RMSNorm before output head, early head and policy: "rms" before all three, "none" as in the authors' code, "heads" before
    # the two heads alone, "policy" before the policy alone
    head_norm: Literal["rms", "none", "heads", "policy"] = "rms"
    token_positions: Literal["byte", "index"] = "byte"  # rotary position of a token: its boundary byte, or its number
    rotary_positions: Literal["exact", "bf16"] = "exact"  # "bf16": rounded to 8 bits, as in the authors' code
    upsample: Literal["value", "deviation"] = "value"  # add Y' (eq. 9) or Y' - X'
    rule: RuleConfig = field(default_factory=RuleConfig)

    @property
    def head_dim(self) -> int:
        """Width of a head of attention."""
        return self.embedding_dim // self.num_heads

    @property
    def policy_norm_eps(self) -> float | None:
        """Epsilon of the norm before the policy; None without that norm."""
        return self.norm_eps if self.head_norm in ("rms", "policy") else None

    def _check(self) -> None:
        self._between(1, 65_536, "embedding_dim", "num_heads")
        self._between(1, 1024, "down_layers", "mid_layers", "up_layers")
        self._between(1, LONGEST_ROW, "window")
        self._between(1, 64, "byte_mlp_ratio", "token_mlp_ratio")
        self._between(0.01, MOST_WEIGHT, "attention_softcap")
        self._between(1, 1e12, "rope_theta")
        self._between(1e-12, 1, "norm_eps")
        if self.embedding_dim % (2 * self.num_heads):
            raise RltokError(
                f"model.embedding_dim={self.embedding_dim} must be a multiple of 2 * num_heads={2 * self.num_heads}:"
                " each head needs an even width for rotary positions. Change either."
            )


@dataclass(frozen=True)
class ObjectiveConfig(Section):
    """Weights of eq. (27) and the four variance reductions, each of which can be switched off."""

    section = "objective"
    gamma: float = 0.99  # discount of eq. (16); 1 switches discounting off
    relative_rewards: bool = True  # eq. (15): subtract the early head; False rewards -nll
    credit: Literal["causal", "total"] = "causal"  # causal: a decision is paid for later bytes only; total: for the whole row
    centring: Literal["batch", "leave_one_out", "none"] = "batch"  # eq. (17)
    draws: int = 1  # boundaries drawn for each row, 1 by the paper; the network trains on the first draw alone
    # what further draws are for: "baseline": their mean NLL takes the early head's place in eq. (15), and the first draw trains
    # the policy; "train": every draw trains it, against the mean of the others; "antithetic": every draw trains it, and the
    # second half of them is drawn with 1 - u (`baselines.antithetic_coefficients`), against the mean of the other pairs
    further_draws: Literal["baseline", "train", "antithetic"] = "baseline"
    lambda_auto: float = 1.0  # the authors' code has 0.9
    lambda_policy: float = 0.01
    lambda_target: float = 0.01
    lambda_early: float = 0.1
    lambda_entropy: float = 0.0  # of the pressure that keeps decisions open (`losses.least_entropy_loss`); 0 as in the paper
    least_entropy: float = 0.0  # nats per decision, below which that pressure sets in

    def _check(self) -> None:
        self._between(0, 1, "gamma")
        self._between(1, 64, "draws")
        if self.further_draws == "antithetic" and self.draws % 2 and self.draws > 1:
            require(False, self.section, "draws", self.draws, "even where further_draws='antithetic', which draws in pairs")
        if self.draws > 1 and not self.relative_rewards:
            raise RltokError(
                f"objective.draws={self.draws} subtracts other draws of the row in place of the early head (eq. 15), and"
                " relative_rewards=False subtracts nothing. Set draws=1, or relative_rewards=True."
            )
        self._between(0, MOST_WEIGHT, "lambda_auto", "lambda_policy", "lambda_target", "lambda_early", "lambda_entropy")
        self._between(0, math.log(2), "least_entropy")
        if self.credit == "total" and self.gamma != 1:
            raise RltokError(
                f"objective.credit='total' pays every decision the whole row's reward, so a discount has no meaning;"
                f" got gamma={self.gamma:g}. Set gamma=1, or credit='causal'."
            )

    @property
    def reductions(self) -> dict[str, Any]:
        """Keywords of `estimator.advantages`."""
        return {"gamma": self.gamma, "relative": self.relative_rewards, "credit": self.credit, "centring": self.centring}

    @property
    def weights(self) -> dict[str, float]:
        """Keywords of `losses.Losses.total`."""
        return {name: getattr(self, name) for name in ("lambda_auto", "lambda_policy", "lambda_target", "lambda_early")}


@dataclass(frozen=True)
class DataConfig(Section):
    """How documents become rows of `sequence_length` bytes."""

    section = "data"
    sequence_length: int = 4096  # N: bytes scored in a full row
    # first N bytes of documents of at least N; consecutive windows, with what is left at the end, or full ones alone
    cut: Literal["documents", "windows", "full_windows"] = "documents"
    held_out_fraction: float = 0.01  # share of rows kept for validation when the corpus has no split of its own

    def _check(self) -> None:
        self._between(8, LONGEST_ROW, "sequence_length")
        value = self.held_out_fraction
        require(0 < value < 1, self.section, "held_out_fraction", value, "strictly between 0 and 1")


@dataclass(frozen=True)
class TrainConfig(Section):
    """Optimisation, budget, and when to log, evaluate and save."""

    section = "train"
    training_bytes: int = 6_000_000_000
    sequences_per_update: int = 128
    micro_batch: int = 32  # rows per forward pass; eq. (17) averages over them, so changing it changes the estimator
    learning_rate: float = 1.5e-3
    policy_lr_multiplier: float = 1.0  # of the learned rule's own parameters; 1 as in the paper, short runs need more (optim.py)
    policy_start_fraction: float = 0.0  # share of training at which that multiplier sets in; 0 as in the paper
    policy_first_multiplier: float = 0.0  # the multiplier until then; 0: those parameters stay put
    policy_beta2: float | None = None  # beta2 of those parameters; null: that of all
    policy_restarts: int = 0  # times that those parameters are set back to 0, at even steps of the first half of training
    # share of training in which the wanted rate, D of eq. (22) and objective.least_entropy anneal: in a line, from
    # policy_first_rate to model.rule.target_rate, from policy_first_temperature * D to D, and from least_entropy to 0
    policy_anneal_fraction: float = 0.0
    policy_first_rate: float | None = None  # null: the wanted rate stays what it is
    policy_first_temperature: float = 1.0
    precision: Literal["auto", "fp32", "bf16", "fp16"] = "auto"  # of forward passes; auto: 16 bits on cards (device.precision_of)
    warmup_fraction: float = 0.075  # of training_bytes
    warmup_start: float = 0.1  # learning rate at step 0 / learning_rate
    final_fraction: float = 0.0  # learning rate at the end of the cosine / learning_rate
    beta1: float = 0.9
    beta2: float = 0.999
    adam_eps: float = 1e-8
    weight_decay: float = 0.01  # on matrices only
    clip_norm: float = 1.0  # once per update, on the gradient of all parameters
    seed: int = 0
    log_every: int = 10  # updates
    evaluate_every: int = 500
    evaluate_rows: int = 64
    checkpoint_every: int = 500
    keep_checkpoints: int = 2

    def _check(self) -> None:
        self._between(1, MOST_BYTES, "training_bytes")
        self._between(1, 2**63 - 1, "log_every", "evaluate_every", "evaluate_rows", "checkpoint_every", "keep_checkpoints")
        self._between(1, 1 << 20, "sequences_per_update", "micro_batch")
        self._between(1e-12, 10, "learning_rate")
        self._between(1e-6, 10_000, "policy_lr_multiplier")
        self._between(0, 10_000, "policy_first_multiplier")
        self._between(0, 64, "policy_restarts")
        self._between(0.01, 1000, "policy_first_temperature")
        self._between(1e-30, 1, "adam_eps")
        self._between(1e-6, 1e30, "clip_norm")
        self._between(0, 1, "warmup_fraction", "warmup_start", "final_fraction")
        self._between(0, 10, "weight_decay")
        self._between(0, 2**63 - 1, "seed")
        for name in ("beta1", "beta2", "policy_beta2", "policy_start_fraction", "policy_anneal_fraction"):
            value = getattr(self, name)
            require(value is None or 0 <= value < 1, self.section, name, value, "at least 0 and below 1")
        rate = self.policy_first_rate
        require(rate is None or 0 < rate < 1, self.section, "policy_first_rate", rate, "strictly between 0 and 1")
        if more := self.sequences_per_update % self.micro_batch:
            fewer = self.sequences_per_update - more
            near = " or ".join(str(rows) for rows in (fewer, fewer + self.micro_batch) if rows)
            raise RltokError(
                f"train.sequences_per_update={self.sequences_per_update} must be a multiple of micro_batch={self.micro_batch},"
                f" so that every micro-batch is full. Take {near}, or another micro_batch."
            )


@dataclass(frozen=True)
class Config(Section):
    """All settings of one run."""

    name: str = "custom"
    model: ModelConfig = field(default_factory=ModelConfig)
    objective: ObjectiveConfig = field(default_factory=ObjectiveConfig)
    data: DataConfig = field(default_factory=DataConfig)
    train: TrainConfig = field(default_factory=TrainConfig)

    def _check(self) -> None:
        require(
            re.fullmatch(r"[\w.+-]{1,80}", self.name) is not None, self.section, "name", self.name, "letters, digits and . _ + -"
        )
        rule = self.model.rule.name
        if self.objective.centring != "none" and self.train.micro_batch < 2 and RULES[rule].policy:
            raise RltokError(
                f"objective.centring={self.objective.centring!r} subtracts a mean over the micro-batch (eq. 17), so it needs"
                f" at least 2 rows; got train.micro_batch={self.train.micro_batch}. Raise it, or set centring='none'."
            )
        check_policy(self)
        if self.num_updates < 1:
            raise RltokError(
                f"train.training_bytes={self.train.training_bytes} is less than one update of {self.bytes_per_update} bytes"
                " (sequences_per_update * sequence_length). Raise training_bytes or lower either factor."
            )

    @property
    def bytes_per_update(self) -> int:
        """Bytes scored by one update when every row is full."""
        return self.train.sequences_per_update * self.data.sequence_length

    @property
    def micro_batches_per_update(self) -> int:
        """Forward passes of one update."""
        return self.train.sequences_per_update // self.train.micro_batch

    @property
    def num_updates(self) -> int:
        """Whole updates that fit into the budget of training bytes."""
        return self.train.training_bytes // self.bytes_per_update

    def to_dict(self) -> dict[str, Any]:
        """Nested plain values, as stored beside every run."""
        return dataclasses.asdict(self)

    def digest(self) -> str:
        """First 12 hex digits of the SHA-256 of the canonical JSON of all settings that matter.

        Left out: the name, what the rule does not read, and `ADDED_SETTINGS` at their old values.
        """
        plain = {key: value for key, value in self.to_dict().items() if key != "name"}
        rule = plain["model"]["rule"]
        plain["model"]["rule"] = {key: rule[key] for key in ("name", *RULES[rule["name"]].settings)}
        for name, old in ADDED_SETTINGS.items():
            place, last = place_of(plain, name)
            if last in place and place[last] == old:
                del place[last]
        return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()[:12]


def place_of(values: dict[str, Any], dotted: str) -> tuple[dict[str, Any], str]:
    """The section of nested plain values that holds a dotted setting, and the setting's name in it."""
    *sections, last = dotted.split(".")
    return functools.reduce(operator.getitem, sections, values), last


def from_dict(values: dict[str, Any]) -> Config:
    """Config from nested plain values; settings left out keep their defaults, unknown ones raise `RltokError`."""
    return build(Config, values, "")


def with_settings(config: Config, settings: dict[str, Any]) -> Config:
    """A copy with dotted settings replaced, all at once: `{"objective.gamma": 0.9, "model.rule.lags": 0}`."""
    values = config.to_dict()
    for dotted, value in settings.items():
        *sections, last = dotted.split(".")
        place = values
        for depth, section in enumerate(sections):
            if not isinstance(place.get(section), dict):
                build(Config, {sections[0]: {}} if depth else {section: {}}, "")
                raise RltokError(f"config has no section {'.'.join(sections)!r} (in {dotted!r}).")
            place = place[section]
        if isinstance(place.get(last), dict):
            raise RltokError(f"{dotted!r} is a section; name one of its settings: {', '.join(place[last])}.")
        place[last] = value
    return from_dict(values)
