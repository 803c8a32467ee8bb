"""Every way of drawing boundaries behind one interface: `make_rule(settings)` gives a `Rule`."""

from rltok.config import ModelConfig
from rltok.rules.base import Boundaries, Rule
from rltok.rules.bpe import BpeRule
from rltok.rules.dynamic_pooling import DynamicPoolingRule
from rltok.rules.entropy import ByteModel, EntropyRule
from rltok.rules.fitted import FittedRule
from rltok.rules.fixed import EvenRule, RandomKRule
from rltok.rules.hnet import HNetRule
from rltok.rules.learned import LearnedRule
from rltok.rules.whitespace import WhitespaceRule

__all__ = [
    "Boundaries",
    "BpeRule",
    "DynamicPoolingRule",
    "EntropyRule",
    "EvenRule",
    "FittedRule",
    "HNetRule",
    "LearnedRule",
    "RandomKRule",
    "Rule",
    "WhitespaceRule",
    "make_rule",
]


def make_rule(model: ModelConfig) -> Rule:
    """The rule that `model.rule.name` names, sized for the model."""
    rule, d = model.rule, model.embedding_dim
    norm_eps = model.norm_eps if model.head_norm == "rms" else None
    if rule.name == "learned":
        return LearnedRule(
            d,
            target_rate=rule.target_rate,
            lags=rule.lags,
            scale=rule.scale,
            softcap=rule.softcap,
            norm_eps=norm_eps,
        )
    if rule.name == "dynamic_pooling":
        return DynamicPoolingRule(
            d,
            target_rate=rule.target_rate,
            variant=rule.variant,
            temperature=rule.temperature,
            prior_weight=rule.prior_weight,
            norm_eps=norm_eps,
        )
    if rule.name == "hnet":
        return HNetRule(d, target_rate=rule.target_rate, variant=rule.variant, smooth=rule.smooth, ratio_weight=rule.ratio_weight)
    if rule.name == "whitespace":
        return WhitespaceRule()
    if rule.name == "entropy":
        return _entropy_rule(model)
    if rule.name == "bpe":
        return BpeRule(vocabulary=rule.vocabulary, causal=rule.bpe_boundary == "causal", fit_bytes=rule.fit_bytes)
    return {"even": EvenRule, "random_k": RandomKRule}[rule.name](rule.target_rate)


def _entropy_rule(model: ModelConfig) -> EntropyRule:
    rule = model.rule
    byte_model = ByteModel(
        dim=rule.entropy_dim, layers=rule.entropy_layers, window=rule.entropy_window, norm_eps=model.norm_eps,
        rope_theta=model.rope_theta,
    )  # fmt: skip
    return EntropyRule(
        byte_model, target_rate=rule.target_rate, fit_bytes=rule.fit_bytes, learning_rate=rule.entropy_learning_rate
    )
