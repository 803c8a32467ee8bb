"""Write the dated log of decisions from book/decisions.yml: what was asked, expected, measured and decided.

python scripts/book/make_decisions.py     # rewrites book/_generated/decisions.md; a test fails when it is out of date

The head of the YAML file says what an entry holds. Every number of a result stands there in braces and is read from records.
"""

import json
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from rltok.evidence import measuring, words
from rltok.evidence.chapters.ch09_rates import rate_curve
from rltok.evidence.differences import borrowing, gap
from rltok.evidence.records import SCHEDULE, Record, Sweep, read_sweeps
from rltok.runs.shipped import FOLDER

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "book" / "decisions.yml"
PAGE = ROOT / "book" / "_generated" / "decisions.md"
RESULTS = ROOT / "notebooks" / "results"
PLANS = ROOT / "scripts" / "measure" / "sweeps"
NO_RECORD = "No run of it is stored yet."


def entries() -> list[dict[str, Any]]:
    """The entries as they stand, in the order of the file."""
    return yaml.safe_load(SOURCE.read_text(encoding="utf-8"))


@cache
def sweep_of(plan: str) -> Sweep | None:
    """The stored runs of a plan; None where there is none."""
    for folder in sorted(RESULTS.glob(f"*/{plan}")):
        if found := read_sweeps(folder.parent, varied=(*SCHEDULE, "precision"), only=plan):
            return found[plan]
    return None


def runs_of(entry: dict[str, Any]) -> list[Record]:
    """Stored runs that answer an entry: of its plans, and of these the methods that it names, or all."""
    sweeps = [sweep for plan in entry.get("plans", []) if (sweep := sweep_of(plan))]
    return [run for sweep in sweeps for run in sweep.everything if run["name"] in entry.get("methods", [run["name"]])]


def at(value: Any, path: list[Any]) -> list[float]:
    """Numbers at a path into a record: a key, {key: value, ...} for the entries of a list that say so, {} for all of them."""
    for depth, part in enumerate(path):
        if isinstance(part, dict):
            chosen = [item for item in value if all(item[key] == wanted for key, wanted in part.items())]
            return [number for item in chosen for number in at(item, path[depth + 1 :])]
        value = value[part]
    return [value]


def number(spec: dict[str, Any]) -> str:
    """A number in words: of a record, or of a plan a difference with half its interval, a score, or how many runs it has."""
    if "field" in spec:
        path = RESULTS / f"{spec['record']}.json" if "record" in spec else FOLDER / f"{spec['model']}.json"
        return words.ends(at(json.loads(path.read_text(encoding="utf-8")), spec["field"]), spec["shown"])
    sweep = sweep_of(spec["plan"])
    if "minus" in spec:
        found = gap(borrowing(sweep, sweep_of("32m")), spec["method"], spec["minus"], spec["place"])
        return words.amount(found)
    if "rate" in spec:
        (found,) = (at.difference for at in rate_curve(sweep) if at.target == spec["rate"])
        return words.amount(found)
    if "score" in spec:
        methods = [name for name in sweep.runs if name.partition("_warmup")[0] in spec["methods"]]
        values = [value for name in methods for value in sweep.values(name, spec["score"])]
        return words.ends([min(values)] if spec.get("least") else values, spec["shown"])
    return str(sum(run["name"] in spec.get("methods", [run["name"]]) for run in sweep.everything))


def result(entry: dict[str, Any]) -> str:
    """What came out, with its numbers, and on which days the runs were made where their records say so."""
    if "result" not in entry:
        return NO_RECORD
    text = entry["result"]
    for name, spec in entry.get("numbers", {}).items():
        text = text.replace(f"{{{name}}}", number(spec))
    days = sorted({run["date"] for run in runs_of(entry) if run.get("date")})
    made = f" (Runs of {' to '.join(dict.fromkeys((days[0], days[-1])))}.)" if days else ""
    return text.strip() + made


def section(entry: dict[str, Any]) -> str:
    """One entry: the question as its heading, what was expected, what came out, what was decided, and where it is from."""
    names = [f"`scripts/measure/sweeps/{plan}.toml`" for plan in entry.get("plans", [])]
    names += [f"`notebooks/results/{record}.json`" for record in entry.get("records", [])]
    names += [f"`rltok/weights/{model}.json`" for model in entry.get("models", [])]
    lines = [
        f"### {entry['date']}: {entry['question'].strip()}",
        f"**Expected.** {entry['expected'].strip()}",
        f"**Result.** {result(entry)}",
        f"**Decision.** {entry['decision'].strip()}",
        f"*From {', '.join(names)}.*",
    ]
    return "\n\n".join(lines)


def render() -> str:
    """All entries, oldest question first."""
    return "\n\n".join(section(entry) for entry in sorted(entries(), key=lambda entry: entry["date"])) + "\n"


def main() -> None:
    """Rewrite the page."""
    PAGE.write_text(render(), encoding="utf-8")


if __name__ == "__main__":
    measuring.run(main)
