"""Write the measured parts of README.md from the stored records, between their markers.

python scripts/book/readme_numbers.py          # rewrites README.md; a test fails while it is out of date
"""

import json
import math
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "notebooks" / "results"
RECORD = RESULTS / "tiny_demo.json"
README = ROOT / "README.md"
PASSAGE_LINES = 3
KINDS = {"white space": "space", "a word's first letter": "word start", "another letter": "letter", "punctuation": "punctuation"}


def _cells(run: dict[str, Any]) -> list[str]:
    learned, random = run["learned"], run["random"]
    shares = [learned["class_rates"][kind] for kind in KINDS.values()]
    bits = [f"{learned['bits_per_byte']:.3f}", f"{random['bits_per_byte']:.3f}", f"{run['random_minus_learned']:+.3f}"]
    return [*(f"{share:.1%}" for share in (*shares, learned["rate"])), *bits]


def table(record: dict[str, Any]) -> str:
    """Markdown of the first page: a row for each measure, a column for each seed, and where the numbers come from."""
    after = [f"boundary after {kind}" for kind in (*KINDS, "any byte")]
    measures = [*after, "bits per byte", "with random boundaries", "random minus learned"]
    runs, first = record["runs"], record["runs"][0]
    lines = ["| |" + "".join(f" seed {run['seed']} |" for run in runs), "|---|" + "---|" * len(runs)]
    lines += [f"| {' | '.join(row)} |" for row in zip(measures, *map(_cells, runs), strict=True)]
    seconds = [run["seconds"] for run in runs]
    sure = min(run["random_minus_learned"] / run["standard_error"] for run in runs)
    lines += [
        "",
        f"Scored on {first['learned']['rows']} stretches of the bundled text that were kept out of training; each difference is"
        f" more than {math.floor(sure)} times its standard error over them. Preset `{record['preset']}` (config"
        f" {record['config_hash']}), trained on the CPU ({record['device']}, torch {record['versions']['torch']}); one demo took"
        f" {min(seconds) / 60:.1f} to {max(seconds) / 60:.1f} minutes.",
    ]
    return "\n".join(lines)


def whole_words(passage: str) -> str:
    """The passage without the word whose beginning it lacks, and without the boundary after that word's space."""
    return re.sub(r"^\S* │?", "", passage)


def passages(record: dict[str, Any]) -> str:
    """The start of the passage before and after training, as the first seed's demo printed it."""
    shown = record["runs"][0]["passage"]

    def block(moment: str) -> str:
        return "\n".join(f"    {line}".rstrip() for line in whole_words(shown[moment]).split("\n")[:PASSAGE_LINES])

    return f"\nBefore training:\n\n{block('before')}\n\nAfter training:\n\n{block('after')}\n"


def verdict() -> str:
    """What our runs say of the paper, in four paragraphs and a table."""
    from rltok.evidence import headline  # here: the environment of the book, which needs `table` only, has no torch

    return headline.verdict(RESULTS)


def _fill(readme: str, name: str, made: str) -> str:
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    before, rest = readme.split(begin)
    return f"{before}{begin}\n{made}\n{end}{rest.split(end)[1]}"


def render(readme: str, record: dict[str, Any]) -> str:
    """The README with the parts between markers made anew."""
    for name, made in {"passage": passages(record), "verdict": verdict()}.items():
        readme = _fill(readme, name, made)
    return readme


def main() -> None:
    """Rewrite README.md."""
    README.write_text(render(README.read_text(), json.loads(RECORD.read_text())))


if __name__ == "__main__":
    from rltok.evidence.measuring import run

    run(main)
