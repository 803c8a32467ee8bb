"""How fast whole updates are on the cards where `rltok bench` measured them.

The rows are in measured_speeds.json, which scripts/book/make_speeds.py writes from the stored records.
"""

import json
from pathlib import Path
from typing import Any

from rltok.errors import RltokError

FULL_UPDATES = 50  # of a record of `rltok bench`; fewer mark it as not full
STORED = Path(__file__).with_name("measured_speeds.json")
NUMBERS = ("micro_batch", "bytes_per_second", "tokens_per_byte", "peak_memory_bytes", "updates")
WORDS = ("preset", "device", "precision", "backend")

Speed = dict[str, Any]


def measured_speeds() -> list[Speed]:
    """The measured rows that come with the package.

    Raises:
        RltokError: the file is missing or damaged.
    """
    try:
        rows = json.loads(STORED.read_text(encoding="utf-8"))["speeds"]
        whole = all(row[key] > 0 for row in rows for key in NUMBERS)
        whole = whole and all(isinstance(row[key], str) for row in rows for key in WORDS)
    except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
        raise RltokError(f"{STORED} cannot be read ({type(error).__name__}). Install rltok again.") from error
    if not whole:
        raise RltokError(f"{STORED} holds a number or a name that is none. Install rltok again.")
    return rows


def fastest(speeds: list[Speed], preset: str) -> Speed:
    """The row of a preset with the most bytes per second.

    Raises:
        RltokError: the preset was measured nowhere.
    """
    rows = [row for row in speeds if row["preset"] == preset]
    if not rows:
        known = ", ".join(sorted({row["preset"] for row in speeds})) or "none"
        raise RltokError(f"{preset!r} was measured on no card; measured presets: {known}. `rltok bench` measures this machine.")
    return max(rows, key=lambda row: row["bytes_per_second"])
