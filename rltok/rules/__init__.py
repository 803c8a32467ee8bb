"""Every way of drawing boundaries behind one interface: `make_rule(settings)` gives a `Rule`."""

from rltok.config import ModelConfig
from rltok.rules.base import Boundaries, Rule
from rltok.rules.fixed import EvenRule, RandomKRule
from rltok.rules.learned import LearnedRule

__all__ = ["Boundaries", "EvenRule", "LearnedRule", "RandomKRule", "Rule", "make_rule"]


def make_rule(model: ModelConfig) -> Rule:
    """The rule that `model.rule.name` names, sized for the model."""
    rule = model.rule
    if rule.name == "learned":
        return LearnedRule(
            model.embedding_dim,
            target_rate=rule.target_rate,
            lags=rule.lags,
            scale=rule.scale,
            softcap=rule.softcap,
            norm_eps=model.norm_eps if model.head_norm == "rms" else None,
        )
    return {"even": EvenRule, "random_k": RandomKRule}[rule.name](rule.target_rate)
