"""Write the book's log of runs from every record in notebooks/results.

python scripts/make_log.py     # rewrites book/_generated/log.md; a test fails while it is out of date

A record is a JSON file with `config_hash`, `commit` and `device`, from `rltok train` (record.json) or from a measuring script
(with `runs`, one a seed). It may hold `date`, `verdict`, `note` and `failed` (what went wrong); what a record does not say shows
as a dash. Nothing is typed here.
"""

import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "notebooks" / "results"
PAGE = ROOT / "book" / "_generated" / "log.md"
NONE_YET = "No run has been recorded yet.\n"
DASH = "–"


def records(folder: Path) -> list[tuple[str, dict[str, Any]]]:
    """(name, record) of every run record, by date where there is one, then by name; other JSON files are passed over."""
    found = []
    for path in sorted(folder.glob("**/*.json")):
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except json.JSONDecodeError as error:
            raise SystemExit(
                f"{path.relative_to(ROOT)}, line {error.lineno}: not JSON ({error.msg}). Make the record again."
            ) from error
        if isinstance(content, dict) and {"config_hash", "commit", "device"} <= content.keys():
            found.append((str(path.relative_to(folder).with_suffix("")), content))
    return sorted(found, key=lambda pair: (pair[1].get("date") or "", pair[0]))


def _cost(record: dict[str, Any]) -> str:
    seconds = record.get("seconds")
    if seconds is None and record.get("runs"):
        seconds = sum(run.get("seconds", 0.0) for run in record["runs"])
    if seconds is None:
        return DASH
    shown = f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
    seeds = len(record.get("runs", []))
    return f"{shown}, {seeds} seeds" if seeds > 1 else shown


def _comparison(runs: list[dict[str, Any]]) -> str:
    """Learned against random boundaries, seed by seed, by the paired standard error of each."""
    clear = [run["standard_error"] is not None and abs(run["random_minus_learned"]) >= 2 * run["standard_error"] for run in runs]
    better = sum(run["random_minus_learned"] > 0 and sure for run, sure in zip(runs, clear, strict=True))
    worse = sum(run["random_minus_learned"] < 0 and sure for run, sure in zip(runs, clear, strict=True))
    unclear = len(runs) - better - worse
    return (
        f"learned against random boundaries: better in {better}, worse in {worse}, no clear difference in {unclear} of the seeds"
    )


def _ladder(stages: list[dict[str, Any]], first: str = "naive", last: str = "causal+early+gamma0.9+batch") -> str:
    """Rows that the first and the last rung need, over all seeds and stages."""

    def span(name: str) -> str:
        found = [stage["policy"]["estimators"].get(name, {}).get("rows_needed", [None])[0] for stage in stages]
        known = [value for value in found if value is not None]
        never = f", never in {len(found) - len(known)} of {len(found)}" if len(known) < len(found) else ""
        return f"{min(known):,.0f} to {max(known):,.0f}{never}" if known else "never"

    return f"rows to a cosine of 0.5 over all seeds and stages: {first} {span(first)}; {last} {span(last)}"


def verdict(record: dict[str, Any]) -> str:
    """What came out, in the record's own words or from its numbers."""
    if record.get("failed"):
        return f"failed: {record['failed']}"
    if record.get("verdict"):
        return str(record["verdict"])
    runs = record.get("runs") or []
    if runs and all("random_minus_learned" in run for run in runs):
        return _comparison(runs)
    if record.get("stages"):
        return _ladder(record["stages"])
    scored = record.get("evaluation") or {}
    if isinstance(scored.get("bits_per_byte"), int | float):
        error = scored.get("standard_error")
        return f"{scored['bits_per_byte']:.3f}" + (f" ± {error:.3f}" if error else "") + " bits per byte"
    return DASH


def _row(name: str, record: dict[str, Any]) -> str:
    commit = record["commit"]
    note = record.get("note") or record.get("what") or ""
    if record.get("full") is False or any(run.get("smoke") for run in record.get("runs", [])):
        note = f"smoke run. {note}"
    cells = [
        f"`{name}`", record.get("date") or DASH, f"`{commit[:7]}{'+' if '+' in commit else ''}`" if commit else DASH,
        f"`{record['config_hash']}`", record["device"], _cost(record), verdict(record), note.strip() or DASH,
    ]  # fmt: skip
    return "| " + " | ".join(str(cell).replace("|", r"\|").replace("\n", " ") for cell in cells) + " |"


def render(found: list[tuple[str, dict[str, Any]]]) -> str:
    """The table, oldest first."""
    if not found:
        return NONE_YET
    head = ["run", "date", "commit", "config", "device", "cost", "verdict", "note"]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join(lines + [_row(name, record) for name, record in found]) + "\n"


def main() -> None:
    """Rewrite the table."""
    PAGE.write_text(render(records(RESULTS)), encoding="utf-8")


if __name__ == "__main__":
    main()
