"""A complete new rule in one file: a token begins wherever the kind of byte changes (letter, digit, punctuation, white space).

Give it to a model with `AutoregressiveUNet(config.model, rule=KindRule())`. To train it by name, copy this file to
`rltok/rules/kind.py` and add a line to `RULES` in `rltok/registry.py` (and its name to `RULES` in `tests/helpers.py`):

    "kind": NamedRule("rltok.rules.kind:KindRule", "where the kind of byte changes"),
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from rltok.byte_classes import CLASSES, byte_classes
from rltok.rules import Boundaries, Rule
from rltok.rules.base import first_position


class KindRule(Rule):
    """A boundary at every byte of another kind than the one before it."""

    def decide(self, byte_states: Float[Tensor, "B N d"], ids: Int[Tensor, "B N"], uniforms: Float[Tensor, "B N"]) -> Boundaries:
        """Compare neighbours; the first byte of a word is a letter like the others."""
        kinds = byte_classes(ids)
        kinds = torch.where(kinds == CLASSES.index("word start"), CLASSES.index("letter"), kinds)
        changes = torch.zeros_like(ids, dtype=torch.bool)
        changes[:, 1:] = kinds[:, 1:] != kinds[:, :-1]
        return Boundaries(changes | first_position(ids))
