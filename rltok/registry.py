"""Boundary rules by name: what settings, presets, FLOP counts and `rltok.rules.make_rule` know of each.

A rule that is to be trained by name is a subclass of `rltok.rules.Rule` in a file of its own, and an entry here.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from rltok.vocab import PREDICTED

Count = Callable[[Any], int]  # of matrix parameters, from a `config.ModelConfig`


def _none(model: Any) -> int:
    return 0


@dataclass(frozen=True)
class NamedRule:
    """An entry of `RULES`."""

    place: str  # "module:class"
    description: str  # where its tokens end
    settings: tuple[str, ...] = ()  # fields of `config.RuleConfig` that it reads: no other enters `Config.digest`
    policy: bool = False  # whether it has logits that are trained by their score, eq. (18)
    matrices: Count = _none  # trained with the network
    fitted: bool = False  # to the training text, before the first update
    fitted_matrices: Count = _none  # trained in that fit on `fit_bytes` bytes; they only run forward in an update
    variants: dict[str, dict[str, Any]] = field(default_factory=dict)  # presets beside the rule's own: suffix -> its settings


def _byte_model(model: Any) -> int:
    """Matrices of the entropy rule's byte model, embedding left out: q, k, v, out; gate, up, down of width 2 d; head."""
    d = model.rule.entropy_dim
    return model.rule.entropy_layers * (4 * d * d + 3 * 2 * d * d) + len(PREDICTED) * d


RULES: dict[str, NamedRule] = {
    "learned": NamedRule(
        "rltok.rules.learned:LearnedRule",
        "where a policy trained by its score puts them",
        ("target_rate", "lags", "scale", "softcap", "lowest_rate", "highest_rate"),
        policy=True,
        matrices=lambda model: (model.rule.lags + 1) * model.embedding_dim,
    ),
    "even": NamedRule("rltok.rules.fixed:EvenRule", "evenly spaced", ("target_rate",)),
    "random_k": NamedRule("rltok.rules.fixed:RandomKRule", "as many at random places", ("target_rate",)),
    "whitespace": NamedRule("rltok.rules.whitespace:WhitespaceRule", "after words (SpaceByte)"),  # the text decides the rate
    "entropy": NamedRule(
        "rltok.rules.entropy:EntropyRule",
        "before bytes that a small byte model finds hard to predict (BLT)",
        ("target_rate", "fit_bytes", "entropy_dim", "entropy_layers", "entropy_window", "entropy_learning_rate"),
        fitted=True,
        fitted_matrices=_byte_model,
    ),
    "bpe": NamedRule(
        "rltok.rules.bpe:BpeRule",
        "where tokens of a byte-pair encoding start",
        ("vocabulary", "bpe_boundary", "fit_bytes"),  # vocabulary and text decide the rate
        fitted=True,
        variants={"causal": {"bpe_boundary": "causal"}},  # the plain one looks ahead, as in appendix D.1
    ),
    "dynamic_pooling": NamedRule(
        "rltok.rules.dynamic_pooling:DynamicPoolingRule",
        "where relaxed Bernoulli gates put them",
        ("target_rate", "variant", "temperature", "prior_weight"),
        matrices=lambda model: model.embedding_dim**2 + model.embedding_dim,  # hidden layer, gate
        variants={"port": {"variant": "authors", "temperature": 1.0, "prior_weight": 2.0}},
    ),
    "hnet": NamedRule(
        "rltok.rules.hnet:HNetRule",
        "between byte states that point in different directions",
        ("target_rate", "variant", "smooth", "ratio_weight"),
        matrices=lambda model: (3 if model.rule.variant == "faithful" else 2) * model.embedding_dim**2,  # router, residual
        variants={"port": {"variant": "port"}},
    ),
}
