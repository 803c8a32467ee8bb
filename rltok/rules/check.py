"""Checks of what a rule returns, so that a mistake in a new rule is named and never broadcast."""

from typing import Any

import torch
from torch import Tensor

from rltok.errors import RltokError
from rltok.rules.base import Boundaries, Rule


def check_rule(rule: Any) -> None:
    """Raise `RltokError` unless this is an instance of `Rule`."""
    if not isinstance(rule, Rule):
        got = f"the class {rule.__name__}" if isinstance(rule, type) else type(rule).__name__
        raise RltokError(f"rule must be an instance of a subclass of rltok.rules.Rule; got {got}. Write rule=MyRule().")


def check_decided(decided: Any, source: str, byte_states: Tensor) -> None:
    """Raise `RltokError` unless a rule's answer is what `Boundaries` says; values are checked on the CPU only.

    Args:
        decided: what the rule returned.
        source: the method that returned it, as an error names it.
        byte_states: [B, N, d], the input of that method.
    """
    if not isinstance(decided, Boundaries):
        raise RltokError(
            f"{source} must return rltok.rules.Boundaries; got {type(decided).__name__}."
            " Wrap a bool tensor [B, N]: Boundaries(marks | first_position(ids))."
        )
    rows, length, device = *byte_states.shape[:2], byte_states.device
    marks = decided.boundaries
    _require(marks, f"{source} returned boundaries", torch.bool, (rows, length), device)
    for name in ("logits", "soft"):
        if (values := getattr(decided, name)) is not None:
            _require(values, f"{source} returned {name}", None, (rows, length), device)
    if decided.aux_loss is not None:
        _require(decided.aux_loss, f"{source} returned aux_loss", None, (), device)
    if device.type == "cpu" and not bool(marks[:, 0].all()):  # elsewhere, looking would cost a synchronisation
        raise RltokError(
            f"{source} returned boundaries without True at position 0 in {int((~marks[:, 0]).sum())} of {rows} rows; BOS carries"
            " the first token. Return marks | first_position(ids), from rltok.rules.base."
        )


def _require(values: Any, what: str, dtype: torch.dtype | None, shape: tuple[int, ...], device: torch.device) -> None:
    """A tensor of this dtype (None: of floating point), shape and device."""
    wanted = f"{dtype or 'floating point'} of shape {shape}" + (", one entry for each input position" if shape else ", a scalar")
    if not isinstance(values, Tensor):
        raise RltokError(f"{what} of type {type(values).__name__}; make it a tensor, {wanted}.")
    fits = values.is_floating_point() if dtype is None else values.dtype == dtype
    if not fits or tuple(values.shape) != shape or values.device != device:
        raise RltokError(
            f"{what} as {values.dtype} of shape {tuple(values.shape)} on {values.device}; make it {wanted}, on {device}."
        )
