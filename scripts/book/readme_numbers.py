"""Write the measured parts of README.md from the stored records, between their markers.

python scripts/book/readme_numbers.py          # rewrites README.md; a test fails while it is out of date
"""

import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "notebooks" / "results"
RECORD = RESULTS / "tiny_demo.json"
README = ROOT / "README.md"
PASSAGE_LINES = 3


def _cells(run: dict[str, Any]) -> list[str]:
    before, learned, random = run["before"], run["learned"], run["random"]
    rates = learned["class_rates"]
    return [
        f"{before['policy_entropy']:.3f} → {learned['policy_entropy']:.3f}",
        f"{rates['space']:.2f}",
        f"{rates['word start']:.2f}",
        f"{rates['letter']:.3f}",
        f"{rates['punctuation']:.2f}",
        f"{learned['rate']:.3f}",
        f"{learned['bits_per_byte']:.3f} ± {learned['standard_error']:.3f}",
        f"{random['bits_per_byte']:.3f}",
        f"{run['random_minus_learned']:+.4f} ± {run['standard_error']:.4f}",
    ]


def table(record: dict[str, Any]) -> str:
    """Markdown: a row for each measure, a column for each seed, and where the numbers come from."""
    measures = [
        "policy entropy (nats)", "after a space", "word start", "other letter", "punctuation",
        "boundaries per byte", "learned (bits per byte)", "random (bits per byte)", "random − learned, paired",
    ]  # fmt: skip
    runs, first = record["runs"], record["runs"][0]
    rows = zip(measures, *map(_cells, runs), strict=True)
    lines = ["| |" + "".join(f" seed {run['seed']} |" for run in runs), "|---|" + "---|" * len(runs)]
    lines += [f"| {' | '.join(row)} |" for row in rows]
    seconds = [run["seconds"] for run in runs]
    target = record["config"]["model"]["rule"]["target_rate"]
    lines += [
        "",
        f"Preset `{record['preset']}` (config {record['config_hash']}, target rate {target:g}),"
        f" {first['learned']['rows']} rows of the sample's test split, trained on the CPU"
        f" ({record['device']}, torch {record['versions']['torch']}); one demo took {min(seconds) / 60:.1f} to"
        f" {max(seconds) / 60:.1f} minutes. Errors are standard errors over rows.",
    ]
    return "\n".join(lines)


def passages(record: dict[str, Any]) -> str:
    """The start of the passage before and after training, as the first seed's demo printed it."""
    shown = record["runs"][0]["passage"]

    def block(moment: str) -> str:
        return "\n".join(f"    {line}".rstrip() for line in shown[moment].split("\n")[:PASSAGE_LINES])

    return f"\nBefore training:\n\n{block('before')}\n\nAfter training:\n\n{block('after')}\n"


def verdict() -> str:
    """What our runs say of the paper, in five sentences and a table."""
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
