"""Write rltok/speed/measured_speeds.json, which `rltok doctor` reads, from the stored records of `rltok bench`.

python scripts/book/make_speeds.py          # reads notebooks/results/bench*.json; a test fails while the file is out of date
"""

import json
import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "notebooks" / "results"
STORED = ROOT / "rltok" / "speed" / "measured_speeds.json"


def rows_of(record: dict[str, Any], name: str) -> list[dict[str, Any]]:
    """A row for each arm of a record: what was timed, where, and what came out."""
    if record["arm"]["peak_memory_bytes"] is None:
        raise SystemExit(f"{name} was measured on a CPU, and these are speeds of cards. Take it away.")
    if not record["full"] or not re.fullmatch(r"[0-9a-f]{40}", record["commit"] or ""):
        raise SystemExit(f"{name} is no full record of a clean tree: measure again, with 50 updates or more.")
    shared = {key: record[key] for key in ("preset", "device", "precision", "commit")} | {"record": name}
    numbers = ("backend", "micro_batch", "bytes_per_second", "tokens_per_byte", "peak_memory_bytes", "updates")
    return [shared | {key: arm[key] for key in numbers} for arm in (record["arm"], record["plain"]) if arm is not None]


def bench_record(path: Path) -> dict[str, Any]:
    """A stored record of `rltok bench`; exits with one line for a file that is none."""
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        known = (
            str(record["what"]).startswith("rltok bench:") and record["schema"] == 1 and {"arm", "plain", "full"} <= set(record)
        )
    except (ValueError, TypeError, KeyError) as error:
        raise SystemExit(
            f"{path.name} is no record of rltok bench ({type(error).__name__}). Make it again, or take it away."
        ) from error
    if not known:
        raise SystemExit(f"{path.name} is no record of rltok bench of schema 1. Make it again, or take it away.")
    return record


def made(folder: Path) -> str:
    """The file's text from the records in a folder."""
    rows = [row for path in sorted(folder.glob("bench*.json")) for row in rows_of(bench_record(path), path.name)]
    return json.dumps({"made_by": "scripts/book/make_speeds.py", "speeds": rows}, indent=1, allow_nan=False) + "\n"


def main() -> int:
    """Rewrite the file."""
    STORED.write_text(made(RESULTS))
    return 0


if __name__ == "__main__":
    sys.exit(main())
