"""Write the equation register of the book from book/register.yml.

python scripts/book/make_register.py     # rewrites book/_generated/register.md; a test fails while it is out of date
"""

import re
from pathlib import Path
from typing import Any

import yaml
from book_config import repository, source_link

ROOT = Path(__file__).resolve().parents[2]
REGISTER = ROOT / "book" / "register.yml"
PAGE = ROOT / "book" / "_generated" / "register.md"


def sections() -> list[dict[str, Any]]:
    """The register as it stands: sections of the paper with their equations."""
    return yaml.safe_load(REGISTER.read_text(encoding="utf-8"))


def entries() -> list[dict[str, Any]]:
    """All equations in order."""
    return [entry for section in sections() for entry in section["equations"]]


def equations_named(text: str) -> set[int]:
    """Numbers that a text names, as in 'eq. (16)', 'eqs. (7) and (8)', 'eqs. 1 to 6 and 14', 'eq. 9', or with a LaTeX tag."""
    equations = {int(number) for number in re.findall(r"\\tag\{(\d+)\}", text)}
    number = r"\(?(?:eq\. )?\(?(\d+)\)?"
    for match in re.finditer(rf"\beqs?\.?\s+{number}(?:(?:,? and|,| to)\s+{number})*", text, re.I):
        numbers = [(int(n), word) for word, n in re.findall(r"(to)?\s*\(?(\d+)\)?", match.group())]
        for index, (value, word) in enumerate(numbers):
            start = numbers[index - 1][0] if word and index else value
            equations |= set(range(start, value + 1))
    return equations


def slug(heading: str) -> str:
    """The name under which MyST and GitHub know a heading."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def module_file(function: str) -> str:
    """File of a dotted name, found without importing anything."""
    parts = function.split(".")
    for length in range(len(parts), 0, -1):
        base = Path(*parts[:length])
        for path in (base.with_suffix(".py"), base / "__init__.py"):
            if (ROOT / path).is_file():
                return str(path)
    raise SystemExit(f"book/register.yml names {function}, but no file of rltok holds it. Correct the dotted name.")


def _cell(entry: dict[str, Any]) -> str:
    if "cell" not in entry:
        return f"chapter {entry['chapter']}, not yet written"
    notebook, heading = entry["cell"].split("#")
    return f"chapter {notebook[:2]}, [{heading}](../notebooks/{notebook}.ipynb#{slug(heading)})"


def _equation(entry: dict[str, Any], address: str) -> list[str]:
    number = entry["equation"]
    functions = ", ".join(source_link(name, module_file(name), address) for name in entry["functions"])
    tests = ", ".join(source_link(test, test.split("::")[0], address) for test in entry["tests"])
    return [
        f"(eq-{number})=", f"### Eq. ({number}): {entry['title']}", "",
        f"$$\n{entry['tex'].strip()} \\tag{{{number}}}\n$$", "",
        entry["reading"].strip(), "",
        f"* Function: {functions}", f"* Test: {tests}", f"* Cell: {_cell(entry)}", "",
    ]  # fmt: skip


def render() -> str:
    """The whole page body."""
    address = repository()
    lines = ["<!-- Made by scripts/book/make_register.py from book/register.yml. -->", ""]
    for section in sections():
        lines += [f"## {section['section']}", ""]
        for entry in section["equations"]:
            lines += _equation(entry, address)
    return "\n".join(lines).rstrip() + "\n"


def main() -> None:
    """Rewrite the page."""
    PAGE.write_text(render(), encoding="utf-8")


if __name__ == "__main__":
    main()
