"""The interface between a way of drawing boundaries and the U-Net."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from numbers import Real
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

import rltok.resample as resample
from rltok.config import ModelConfig
from rltok.errors import RltokError
from rltok.registry import RULES
from rltok.resample import Packed
from rltok.rules.growing import GrowingRows, entries
from rltok.vocab import PAD


@dataclass(frozen=True)
class Boundaries:
    """A decision for every byte, with logits, gates and loss where the rule has them."""

    boundaries: Bool[Tensor, "B N"]
    logits: Float[Tensor, "B N"] | None = None  # of rules whose policy is trained by its score, eq. (18); else None
    soft: Float[Tensor, "B N"] | None = None  # gates in [0, 1] of straight-through rules, which carry the loss's gradient
    aux_loss: Float[Tensor, ""] | None = None  # a rule's own loss, already weighted


@runtime_checkable
class TrainingRows(Protocol):
    """Rows of ids by number that a rule is fitted to, such as `data.Rows`."""

    def __len__(self) -> int:
        """How many rows there are."""

    def ids(self, indices: np.ndarray | Sequence[int]) -> Int[Tensor, "B N_plus_1"]:
        """BOS, bytes, EOS where a document ends, PAD, of some rows."""


class Rule(nn.Module):
    """A way of drawing boundaries. A new rule overrides `decide`, and `downsample` or `upsample` if it pools differently.

    Generation decides byte by byte through `decide_newest`, which calls `decide` on the end of each row. A rule need say only
    what is special about it: `looks_ahead`, `sees`, `reads_length`, and `settle` where `upsample` mixes tokens.
    """

    # Whether uniforms of 1/2 give the boundaries with p > 1/2 (or the only ones there are): what draws="threshold" stands on.
    has_threshold = True
    looks_ahead: str | None = None  # why a decision needs what comes after it, so that this rule cannot generate
    sees: int | None = None  # positions that a decision depends on, its own included; None: all up to there
    rate: float | None = None  # target rate of a policy
    rates: tuple[float, float] | None = None  # lowest and highest target rate of a policy that was trained for a range of them
    reads_length = False  # whether a decision depends on how long the row will be

    @classmethod
    def for_model(cls, model: ModelConfig) -> "Rule":
        """The rule that the settings describe; by default its constructor takes what `rltok.registry` says it reads."""
        return cls(**settings_of(model))

    def fit(self, rows: TrainingRows, seed: int) -> None:
        """Fit to the training text, before the first update, what no update changes; nothing by default.

        The result is a function of rows and seed, and lives in buffers or frozen parameters, so that a checkpoint holds it.
        """

    def facts(self) -> dict[str, float]:
        """Numbers about the fit that a record should name."""
        return {}

    def use_rate(self, rate: float) -> None:
        """Draw at this target rate from now on. Raises `RltokError` for one that it was not trained for."""
        if self.rates is None:
            raise RltokError(
                f"this model was trained for one rate of boundaries, so {rate!r} cannot be chosen. Leave the rate out, or take a"
                " model that was trained with model.rule.lowest_rate and highest_rate."
            )
        lowest, highest = self.rates
        if not (isinstance(rate, Real) and lowest <= rate <= highest):
            raise RltokError(f"this model was trained for rates from {lowest} to {highest}; got {rate!r}. Choose one of them.")

    @contextmanager
    def at_rate(self, rate: float) -> Iterator[None]:
        """Inside, draw at this target rate; after it, at the one before. Raises as `use_rate` does."""
        own = self.rate
        self.use_rate(rate)
        try:
            yield
        finally:
            self.use_rate(own)

    def decide(self, byte_states: Float[Tensor, "B N d"], ids: Int[Tensor, "B N"], uniforms: Float[Tensor, "B N"]) -> Boundaries:
        """Draw a boundary, or not, at every position i from what stands at or before i, eq. (2).

        Args:
            byte_states: X of eq. (1).
            ids: input ids (BOS, then bytes), PAD where a row has ended and no boundary counts.
            uniforms: the only source of randomness, [0, 1).

        Returns:
            Boundaries with True at position 0; what stands on PAD is ignored.
        """
        raise NotImplementedError(f"{type(self).__name__} does not define decide().")

    def decide_newest(self, rows: GrowingRows) -> Boundaries:
        """What `decide` says of the newest position of every row, [B, 1], from as many positions as a decision depends on."""
        width = rows.ids.shape[1] - 1 if self.reads_length else rows.longest
        if self.sees is not None:
            width = min(max(2, self.sees), width)  # 2: the first of the positions that `decide` sees is forced
        start = (rows.newest - width + 1).clamp(min=0)
        known = (rows.byte_states, rows.ids, rows.uniforms)
        seen = [values[:, :width] if width >= rows.longest else entries(values, start, width) for values in known]
        decided, place = self.decide(*seen), (rows.newest - start)[:, None]
        soft = None if decided.soft is None else decided.soft.gather(1, place)
        return Boundaries(decided.boundaries.gather(1, place), soft=soft)

    def prescribed(self, byte_states: Float[Tensor, "B N d"], boundaries: Bool[Tensor, "B N"]) -> Boundaries:
        """`Boundaries` for boundaries made elsewhere; rules with a policy add their logits."""
        return Boundaries(boundaries)

    def downsample(self, byte_states: Float[Tensor, "B N d"], decided: Boundaries) -> Packed:
        """Byte states to packed token states; select by default, eqs. (3), (7) and (8)."""
        return resample.downsample(byte_states, decided.boundaries)

    def settle(self, token_states: Float[Tensor, "M d"], decided: Boundaries) -> Float[Tensor, "M d"]:
        """What bytes read of packed tokens, where `upsample` mixes a token with those before it; the tokens themselves by
        default. Must give the same from any token on when that one is replaced by what became of it."""
        return token_states

    def upsample(
        self, token_states: Float[Tensor, "M d"], byte_states: Float[Tensor, "B N d"], decided: Boundaries
    ) -> Float[Tensor, "B N d"]:
        """Packed token states back to bytes; distribute-then-add by default, eqs. (5) and (9)."""
        return resample.upsample(token_states, byte_states, decided.boundaries)


def settings_of(model: ModelConfig) -> dict[str, Any]:
    """The settings that the rule of a model reads, by name."""
    return {name: getattr(model.rule, name) for name in RULES[model.rule.name].settings}


def first_position(like: Tensor) -> Bool[Tensor, "B N"]:
    """True at position 0 of every row: the boundary that is forced on BOS."""
    forced = torch.zeros(like.shape[:2], dtype=torch.bool, device=like.device)
    forced[:, 0] = True
    return forced


def drawn_positions(ids: Int[Tensor, "B N"]) -> Bool[Tensor, "B N"]:
    """True where a decision counts: not on padding, and not on BOS, where it is forced. What a rule's own loss averages over."""
    return (ids != PAD) & ~first_position(ids)
