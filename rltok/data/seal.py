"""Plain values that carry a digest of themselves, so that an edited or damaged record is noticed."""

import hashlib
import json
from typing import Any

_LEFT_OUT = ("digest", "timing")  # timing differs from run to run, and nothing depends on it


def _digest(values: dict[str, Any]) -> str:
    rest = {key: value for key, value in values.items() if key not in _LEFT_OUT}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


def sealed(values: dict[str, Any]) -> dict[str, Any]:
    """The values with `digest`, the SHA-256 of the canonical JSON of all entries but `digest` and `timing`."""
    return values | {"digest": _digest(values)}


def is_sealed(values: Any) -> bool:
    """Whether values read from a file are what `sealed` gave."""
    return isinstance(values, dict) and values.get("digest") == _digest(values)
