"""A new rule in one file: tokens begin where the kind of byte changes.

Give it to a model: `AutoregressiveUNet(config.model, rule=KindRule())`. To
train it by name, copy this file to `rltok/rules/kind.py` and add a line to
`RULES` in `rltok/registry.py`, and its name to `RULES` in `tests/helpers.py`:

    "kind": NamedRule("rltok.rules.kind:KindRule", "where kinds change"),
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from rltok.byte_classes import CLASSES, byte_classes
from rltok.rules import Boundaries, Rule
from rltok.rules.base import first_position


class KindRule(Rule):
    """A boundary at every byte of another kind than the one before it."""

    def decide(
        self,
        byte_states: Float[Tensor, "B N d"],
        ids: Int[Tensor, "B N"],
        uniforms: Float[Tensor, "B N"],
    ) -> Boundaries:
        """Compare neighbours; first letters of words are letters, too."""
        kinds = byte_classes(ids)
        start, letter = CLASSES.index("word start"), CLASSES.index("letter")
        kinds = torch.where(kinds == start, letter, kinds)
        changes = torch.zeros_like(ids, dtype=torch.bool)
        changes[:, 1:] = kinds[:, 1:] != kinds[:, :-1]
        return Boundaries(changes | first_position(ids))
