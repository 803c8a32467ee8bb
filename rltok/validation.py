"""Checks shared by all settings classes: types from annotations, unknown keys, one wording of errors."""

import dataclasses
import difflib
import functools
import types
import typing
from typing import Any, Literal, no_type_check

from rltok.errors import RltokError

# The shape checks of tests, which find nothing in these three, would take more time than all that building settings does.


@no_type_check
def require(ok: bool, section: str, key: str, value: Any, allowed: str) -> None:
    """Raise an error that names key, value and what is allowed, unless `ok`."""
    if not ok:
        raise RltokError(f"{section}.{key} must be {allowed}; got {value!r}.")


@no_type_check
def _matches(value: Any, hint: Any) -> bool:
    """Whether a plain value fits a field's annotation: numbers are no bools, whole ones fit 63 bits, others fp32."""
    if typing.get_origin(hint) is Literal:
        return value in typing.get_args(hint) and isinstance(value, str)
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return any(_matches(value, option) for option in typing.get_args(hint))
    if hint in (int, float):
        kinds = int if hint is int else (int, float)
        return (
            isinstance(value, kinds) and not isinstance(value, bool) and abs(value) < (2**63 if isinstance(value, int) else 3e38)
        )
    return isinstance(value, hint)


def _describe(hint: Any) -> str:
    if typing.get_origin(hint) is Literal:
        return "one of " + ", ".join(repr(option) for option in typing.get_args(hint))
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return " or ".join(_describe(option) for option in typing.get_args(hint))
    return {
        int: "a whole number below 2**63",
        float: "a finite number (fp32)",
        bool: "true or false",
        str: "text",
    }.get(hint, "null" if hint is type(None) else getattr(hint, "__name__", str(hint)))


types_of = functools.cache(typing.get_type_hints)  # of a settings class: evaluating annotations takes long


class Section:
    """Base of the settings: holds each field to its annotation; a whole number becomes a float where a float is meant."""

    section = "config"

    def __post_init__(self) -> None:
        for name, hint in types_of(type(self)).items():
            value = getattr(self, name)
            if not _matches(value, hint):
                require(False, self.section, name, value, _describe(hint))
            if float in (hint, *typing.get_args(hint)) and type(value) is int:
                object.__setattr__(self, name, float(value))
        self._check()

    def _check(self) -> None:
        """Limits of values and of their combinations."""

    @no_type_check
    def _between(self, low: float, high: float, *names: str) -> None:
        """Hold numeric settings to two limits, which are allowed; None passes. Far beyond them numbers overflow."""
        allowed = " and ".join(f"{limit:g}" if isinstance(limit, float) else str(limit) for limit in (low, high))
        for name in names:
            value = getattr(self, name)
            require(value is None or low <= value <= high, self.section, name, value, f"between {allowed}")


def build(cls: type, values: Any, path: str) -> Any:
    """A settings class from nested plain values; unknown keys are errors that name the nearest known one."""
    if not isinstance(values, dict):
        raise RltokError(f"{path or 'config'} must be a table of settings; got {values!r}.")
    hints = types_of(cls)
    for key in values:
        if key not in hints:
            close = difflib.get_close_matches(str(key), hints, n=1)
            hint = f"Did you mean {close[0]!r}?" if close else f"It has: {', '.join(hints)}."
            raise RltokError(f"{path or 'config'} has no setting {key!r}. {hint}")
    made = {
        key: build(hints[key], value, f"{path}.{key}" if path else key) if dataclasses.is_dataclass(hints[key]) else value
        for key, value in values.items()
    }
    return cls(**made)
