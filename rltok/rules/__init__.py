"""Ways of drawing boundaries behind one interface: `make_rule(settings)` gives a `Rule`. `rltok.registry` lists their names."""

from importlib import import_module

from rltok.config import ModelConfig
from rltok.registry import RULES
from rltok.rules.base import Boundaries, Rule

__all__ = ["Boundaries", "Rule", "make_rule"]


def make_rule(model: ModelConfig) -> Rule:
    """The rule that `model.rule.name` names, sized for the model."""
    module, name = RULES[model.rule.name].place.split(":")
    return getattr(import_module(module), name).for_model(model)
