"""Write the tables of the appendix "The texts of our runs": sources with credit and counts, held-out splits, benchmark sets.

python scripts/book/make_texts.py     # rewrites book/_generated/texts.md; a test fails while it is out of date

Words come from book/texts.yml, all numbers from notebooks/results/texts.json, which scripts/measure/measure_texts.py writes.
"""

import json
from pathlib import Path
from typing import Any

import yaml
from book_tables import table

ROOT = Path(__file__).resolve().parents[2]
RECORD = ROOT / "notebooks" / "results" / "texts.json"
WORDS = ROOT / "book" / "texts.yml"
PAGE = ROOT / "book" / "_generated" / "texts.md"
SPLITS = ("train", "validation", "test")
COUNTED = ("documents", "rows", "bytes", "windows")
Table = dict[str, Any]


def record() -> Table:
    """The counts."""
    return json.loads(RECORD.read_text(encoding="utf-8"))


def words() -> Table:
    """Registers, licences, origins."""
    return yaml.safe_load(WORDS.read_text(encoding="utf-8"))


def check(counted: Table, described: Table) -> None:
    """End with a line that names what one file has and the other lacks, or a kind that nobody explains."""
    for key in ("sources", "tasks"):
        for name in counted[key].keys() - described[key].keys():
            raise SystemExit(f"{WORDS.name} says nothing of {name}, which {RECORD.name} counts. Enter it under {key}.")
        for name in described[key].keys() - counted[key].keys():
            raise SystemExit(f"{RECORD.name} does not count {name}, of which {WORDS.name} tells under {key}. Take it out there.")
    for name, source in described["sources"].items():
        if source["kind"] not in described["kinds"]:
            raise SystemExit(f"{WORDS.name}: {name} is of kind {source['kind']!r}, which is not under kinds. Enter it there.")


def totals(counted: Table) -> str:
    """What each split holds altogether."""
    rows = [[split, *(f"{counted['splits'][split][key]:,}" for key in COUNTED)] for split in SPLITS]
    return table(["split", *COUNTED[:3], f"windows of {counted['window_bytes']} bytes"], rows, 1)


def kinds(counted: Table, described: Table) -> str:
    """Shares of the windows of each split by kind of text, largest in training first."""
    by_kind = {}
    for kind in described["kinds"]:
        names = [name for name, source in described["sources"].items() if source["kind"] == kind]
        sums = {split: sum(counted["sources"][name][split]["windows"] for name in names) for split in SPLITS}
        by_kind[kind] = [sums[split] / counted["splits"][split]["windows"] for split in SPLITS]
    ordered = sorted(by_kind.items(), key=lambda item: -item[1][0])
    rows = [[described["kinds"][kind], *(f"{share:.1%}" for share in shares)] for kind, shares in ordered]
    return table(["share of the windows", *SPLITS], rows, 1)


def concentration(counted: Table) -> str:
    """How few documents a held-out split lies in, a line for each."""
    lines = []
    for split, facts in counted["held_out"].items():
        whole, documents = (counted["splits"][split][key] for key in ("windows", "documents"))
        first, sizes = facts["largest"][0], [each["windows"] for each in facts["largest"]]
        lines.append(
            f"* {split}: the largest document, `{first['document']}` of `{first['source']}`, holds {first['windows']:,} of"
            f" {whole:,} windows, {first['windows'] / whole:.1%}, and the {len(sizes)} largest together {sum(sizes) / whole:.1%}."
            f" The effective number of documents is {facts['effective_documents']:.1f}; there are {documents:,}.\n"
        )
    absent = [name for name, source in counted["sources"].items() if not any(source[s]["rows"] for s in SPLITS[1:])]
    names = ", ".join(f"`{name}`" for name in absent)
    return "".join(lines) + (f"\nIn training only: {names}.\n" if absent else "")


def licence(entry: Table, described: Table) -> str:
    """Its name, a link where there is one."""
    name = entry["licence"]
    return f"[{name}]({described['licences'][name]})" if name in described["licences"] else name


def repository(entry: Table) -> str:
    """A link."""
    return f"[{entry['repository']}](https://github.com/{entry['repository']})"


def notes(entries: dict[str, Table]) -> str:
    """What a table has no room for: origin, what has to be known about a licence, folders."""
    lines = []
    for name, each in entries.items():
        said = [each[key] for key in ("origin", "note") if key in each]
        if "folders" in each:
            said.append(f"From {' and '.join(f'`{folder}`' for folder in each['folders'])}")
        lines += [f"* {name}: {'. '.join(said)}.\n"] if said else []
    return "".join(lines)


def by_size(counted: Table) -> list[str]:
    """Names of the sources, most training text first."""
    return sorted(counted["sources"], key=lambda name: (-counted["sources"][name]["train"]["bytes"], name))


def credit(counted: Table, described: Table) -> str:
    """Where each source comes from, and under which licence."""
    entries = {f"`{name}`": described["sources"][name] for name in by_size(counted)}
    rows = [[name, each["register"], repository(each), licence(each, described)] for name, each in entries.items()]
    return table(["source", "register", "repository", "licence"], rows) + "\n" + notes(entries)


def sizes(counted: Table) -> str:
    """Documents and kilobytes of each source by split, with their sums."""
    head = ["source", *(f"{unit}, {split}" for unit in ("documents", "kB") for split in SPLITS)]
    cells = {f"`{name}`": counted["sources"][name] for name in by_size(counted)}
    rows = [
        [
            name,
            *(f"{counts[split]['documents']:,}" for split in SPLITS),
            *(f"{counts[split]['bytes'] / 1000:,.0f}" for split in SPLITS),
        ]
        for name, counts in {**cells, "together": counted["splits"]}.items()
    ]
    return table(head, rows, 1)


def tasks(counted: Table, described: Table) -> str:
    """The benchmark sets."""
    rows = [
        [each["name"], each["split"], f"{counted['tasks'][name]['items']:,}", repository(each), licence(each, described)]
        for name, each in described["tasks"].items()
    ]
    head = ["set", "split", "items", "repository", "licence"]
    return table(head, rows) + "\n" + notes({each["name"]: each for each in described["tasks"].values()})


def hashes(counted: Table) -> str:
    """SHA-256 of every file, as `sha256sum` prints them."""
    files = [file for split in SPLITS for file in counted["files"][split]]
    files += [each["file"] | {"name": f"eval/{each['file']['name']}"} for each in counted["tasks"].values()]
    return "\n".join(
        ["```{code-block} text\n:class: rltok-broken\n", *(f"{file['sha256']}  {file['name']}" for file in files), "```", ""]
    )


def render(counted: Table, described: Table) -> str:
    """The whole body of the page."""
    check(counted, described)
    parts = [
        "<!-- Made by scripts/book/make_texts.py from book/texts.yml and notebooks/results/texts.json. -->\n",
        "## How much of what\n", totals(counted), kinds(counted, described),
        "## How few documents the held-out splits are\n", concentration(counted),
        "## Sources and credit\n", credit(counted, described), sizes(counted),
        "## Benchmark sets\n", tasks(counted, described),
        "## How the text was cleaned\n", "".join(f"* {' '.join(rule.split())}\n" for rule in described["cleaning"]),
        "## Files\n", f"Counted at commit `{counted['commit'][:7]}`; SHA-256:\n", hashes(counted),
    ]  # fmt: skip
    return "\n".join(parts).rstrip("\n") + "\n"


def main() -> None:
    """Rewrite it."""
    PAGE.write_text(render(record(), words()), encoding="utf-8")


if __name__ == "__main__":
    main()
