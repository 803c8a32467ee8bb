"""Write the appendix "Paper against code" from book/paper_against_code.yml.

python scripts/book/make_paper_against_code.py     # rewrites book/_generated/paper_against_code.md; a test checks it

The head of the YAML file says what an entry holds. Numbers that stand in braces there are computed again by a test; numbers of
our own runs come from records in notebooks/results.
"""

import csv
import json
from pathlib import Path
from typing import Any

import yaml
from book_config import repository, source_link
from make_register import module_file

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "book" / "paper_against_code.yml"
PAGE = ROOT / "book" / "_generated" / "paper_against_code.md"
RESULTS = ROOT / "notebooks" / "results"
EVIDENCE = ("read", "ran", "inferred")
DASH = "–"
ONE_SEED = "How little one seed says stands in [chapter 07](../notebooks/07_reading_the_results.ipynb#what-one-seed-says)."
TABLE = [
    "```{list-table}", ":header-rows: 1", ":widths: 13 21 37 29", ":class: rltok-told", "",
    "* - choice", "  - paper", "  - authors' code", "  - rltok",
]  # fmt: skip


def content() -> dict[str, Any]:
    """The file as it stands: numbers, what comes first, topics with their rows."""
    return yaml.safe_load(SOURCE.read_text(encoding="utf-8"))


def rows() -> list[dict[str, Any]]:
    """All rows in order."""
    return [row for topic in content()["topics"] for row in topic["rows"]]


def filled(text: str, numbers: dict[str, str]) -> str:
    """A text on one line, every {name} replaced by its number; other braces are LaTeX and stay."""
    for name, number in numbers.items():
        text = text.replace(f"{{{name}}}", number)
    return " ".join(text.split())


def fields(value: Any, path: str) -> list[float]:
    """Numbers at a dotted path into a record; * runs through a list, key=value through the entries that say so."""
    for depth, part in enumerate(parts := path.split(".")):
        key, equals, wanted = part.partition("=")
        if part == "*" or equals:
            chosen = [item for item in value if not equals or item[key] == wanted]
            return [number for item in chosen for number in fields(item, ".".join(parts[depth + 1 :]))]
        value = value[part]
    return [value]


def compared(entry: dict[str, Any]) -> str:
    """Paired differences from ours in a sweep, as `make_figure_csv.py` stored them; a word on it where none was run."""
    path = RESULTS / "figures" / entry["sweep"] / "gaps.csv"
    rows = list(csv.DictReader(path.read_text(encoding="utf-8").splitlines())) if path.is_file() else []
    words_of = {row["contender"]: row["told"] for row in rows if row["place"] == entry["place"]}
    said = [f"{name} {words_of[name]}" for name in entry["contenders"] if name in words_of]
    if not said:
        return f"The runs of the sweep {entry['sweep']} for this are to come."
    single = f" {ONE_SEED}" if any(one.endswith(" 1 seed") for one in said) else ""
    return entry["say"].replace("{}", "; ".join(said)) + single


def rates(method: str) -> list[float]:
    """Rates over the last fifth of training of a method of chapter 05b's comparison, in the order of seeds."""
    from rltok.evidence.chapters.ch05_rules import read_comparison
    from rltok.evidence.ranking import last_fifth

    runs = read_comparison(RESULTS).runs[method]
    return [last_fifth(runs[seed]["curve"], "rate") for seed in sorted(runs)]


def measured(entry: dict[str, Any]) -> str:
    """The words around a measurement with the numbers of its record; in seed order, as recorded."""
    if "rates_of" in entry:
        return entry["say"].replace("{}", ", ".join(format(rate, entry["format"]) for rate in rates(entry["rates_of"])))
    if "sweep" in entry:
        return compared(entry)
    record = json.loads((RESULTS / f"{entry['record']}.json").read_text(encoding="utf-8"))
    numbers = ", ".join(format(number, entry["format"]) for number in fields(record, entry["field"]))
    return entry["say"].replace("{}", numbers)


def _shown(value: Any) -> str:
    """A setting as one would write it with --set."""
    if isinstance(value, str):
        return value
    return f"{value:g}" if isinstance(value, float) else json.dumps(value)


def _source(name: str, address: str) -> str:
    try:
        return source_link(name, module_file(name), address)
    except SystemExit:
        raise SystemExit(f"{SOURCE.name} names {name}, but no file of rltok holds it. Correct the dotted name.") from None


def _settings(settings: dict[str, Any]) -> list[str]:
    return [f"`{name}={_shown(value)}`" for name, value in settings.items()]


def _chapter(name: str) -> str:
    number = name.split("_")[0]
    if not (ROOT / "notebooks" / f"{name}.ipynb").is_file():
        return f"To be measured in chapter {number}, not yet written."
    return f"Measured in [chapter {number}](../notebooks/{name}.ipynb)."


def _ours(row: dict[str, Any], numbers: dict[str, str]) -> str:
    parts = [filled(row["ours"], numbers)]
    parts += [measured(row["measured"])] if "measured" in row else []
    parts += [_chapter(row["chapter"])] if "chapter" in row else []
    return " ".join(parts)


def _row(row: dict[str, Any], numbers: dict[str, str]) -> list[str]:
    """One row of a list-table."""
    code = filled(row["code"], numbers)
    seen = f" *({', '.join(row['evidence'])})*" if row["evidence"] else ""
    cells = [f"**{row['choice']}**", filled(row["paper"], numbers), code + seen if code else DASH, _ours(row, numbers)]
    return [("* - " if place == 0 else "  - ") + cell for place, cell in enumerate(cells)]


def _where(row: dict[str, Any], address: str) -> str:
    """The line that says where a choice is made."""
    names = _settings(row.get("config", {}))
    names += [f"{', '.join(_settings(values))} in preset `{name}`" for name, values in row.get("presets", {}).items()]
    names += [_source(name, address) for name in row["where"]]
    return f"* {row['choice']}: {'; '.join(names)}"


def _topic(topic: dict[str, Any], numbers: dict[str, str], address: str) -> list[str]:
    """A table that is told in words, and below it, because long names make a table unreadable, where to find each choice."""
    lines = ["", f"## {topic['topic']}", "", *TABLE]
    for row in topic["rows"]:
        lines += _row(row, numbers)
    lines += ["```", "", "Where in `rltok`:", ""]
    return lines + [_where(row, address) for row in topic["rows"]]


def render() -> str:
    """The whole page body."""
    page, address = content(), repository()
    numbers = page["numbers"]
    lines = [
        "<!-- Made by scripts/book/make_paper_against_code.py from book/paper_against_code.yml. -->",
        "",
        "## What matters most",
        "",
    ]
    lines += [f"{place}. {filled(text, numbers)}" for place, text in enumerate(page["first"], start=1)]
    for topic in page["topics"]:
        lines += _topic(topic, numbers, address)
    return "\n".join(lines) + "\n"


def main() -> None:
    """Rewrite the page."""
    PAGE.write_text(render(), encoding="utf-8")


if __name__ == "__main__":
    main()
