"""Plain values with a digest of themselves, which shows whether a file was edited or damaged."""

import hashlib
import json
from collections.abc import Sequence
from typing import Any


def with_digest(values: dict[str, Any], leave_out: Sequence[str] = ()) -> dict[str, Any]:
    """The values with `digest`, the SHA-256 of the canonical JSON of all other entries but those in `leave_out`."""
    rest = {key: value for key, value in values.items() if key != "digest"}
    counted = {key: value for key, value in rest.items() if key not in leave_out}
    return rest | {"digest": hashlib.sha256(json.dumps(counted, sort_keys=True).encode()).hexdigest()}


def digest_matches(values: Any, leave_out: Sequence[str] = ()) -> bool:
    """Whether values read from a file are what `with_digest` gave."""
    return isinstance(values, dict) and values.get("digest") == with_digest(values, leave_out)["digest"]
