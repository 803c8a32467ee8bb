"""Write the measured parts of README.md from the stored records, between their markers.

python scripts/book/readme_numbers.py          # rewrites README.md; a test fails while it is out of date
"""

import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "notebooks" / "results"
RECORD = RESULTS / "tiny_demo.json"
LADDER = RESULTS / "variance_ladder.json"
RUNGS = (
    "naive",
    "causal",
    "causal+early",
    "causal+early+gamma0.99",
    "causal+early+gamma0.99+batch",
    "causal+early+gamma0.9+batch",
)
README = ROOT / "README.md"
PASSAGE_LINES = 5


def _cells(run: dict[str, Any]) -> list[str]:
    before, learned, random = run["before"], run["learned"], run["random"]
    rates = learned["class_rates"]
    return [
        str(run["seed"]),
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
    """Markdown between the markers: one row a seed, and where the numbers come from."""
    head = [
        "seed", "policy entropy (nats)", "after a space", "word start", "other letter", "punctuation",
        "boundaries per byte", "learned (bits per byte)", "random (bits per byte)", "random − learned, paired",
    ]  # fmt: skip
    lines = [" | ".join(["", *head, ""]).strip(), "|" + "---|" * len(head)]
    lines += [" | ".join(["", *_cells(run), ""]).strip() for run in record["runs"]]
    first = record["runs"][0]
    seconds = [run["seconds"] for run in record["runs"]]
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


def ladder(record: dict[str, Any]) -> str:
    """Rows that each rung of the variance ladder needs, by stage, and where the numbers come from."""
    sys.path.insert(0, str(ROOT))
    from rltok.evidence.chapters import (
        ch03_ladder as ladder_views,  # not above: the book's environment, which needs `table` only, has no torch
    )

    seeds = len(ladder_views.at(record, ladder_views.stage_names(record)[0]))
    errors = [stage["policy"]["reference_error"] for stage in ladder_views.at(record, "late")]
    source = (
        f"Preset `{record['preset']}` (config {record['config_hash']}) on the bundled sample, rows of"
        f" {record['data']['sequence_length']} bytes in batches of {record['rows']}, {seeds} seeds of training (least to most),"
        f" before the first update, after a tenth, and at the end of training; {record['device']}, commit {record['commit'][:7]}."
        f" The true gradient is known from a long run; at the end of training with a standard error of {min(errors):.2f} to"
        f" {max(errors):.2f} of its length."
    )
    return f"{ladder_views.ladder_table(record, RUNGS)}\n\n{source}"


def comparison() -> str:
    """Every rule's loss beside the learned one's, and where the numbers come from."""
    sys.path.insert(0, str(ROOT))
    from rltok.evidence.chapters import ch05_rules

    sweep = ch05_rules.read_comparison(RESULTS)
    learned = sweep.runs["learned"]
    first = learned[min(learned)]
    rate, trained = (first["config"][part][key] for part, key in (("model", "rule"), ("train", "training_bytes")))
    commits = ", ".join(sorted({run["commit"][:7] for run in sweep.records}))
    source = (
        f"Preset `tiny` (config {first['config_hash']}, target rate {rate['target_rate']:g}), the bundled sample and not the"
        f" paper's corpus, its {ch05_rules.SPLIT} split, {len(learned)} seeds, {trained / 1e6:g} MB of training bytes a run, on"
        f" the CPU; commit {commits}. Errors: standard errors over rows / over seeds."
    )
    return f"{ch05_rules.comparison_table(sweep)}\n\n{source}"


def speeds() -> str:
    """What `rltok doctor` knows of the card that was measured, in a sentence."""
    sys.path.insert(0, str(ROOT))
    from rltok.presets import preset
    from rltok.speed.speeds import measured_speeds

    rows = measured_speeds()
    plain = {row["record"]: row["bytes_per_second"] for row in rows if row["backend"] == "plain"}
    told = []
    for row in (row for row in rows if row["backend"] == "triton"):
        rate, total = row["bytes_per_second"], preset(row["preset"]).train.training_bytes
        told.append(
            f"`{row['preset']}` trains at {rate / 1e6:.2f} MB/s, {rate / plain[row['record']]:.1f} times as fast as plain PyTorch"
            f" ({total / rate / 3600:.1f} hours for its {total / 1e9:g} GB)"
        )
    devices = " and ".join(dict.fromkeys(row["device"] for row in rows))
    return f"On one {devices}, {'; '.join(told)}; what was timed, and how, is in [the tables](book/_generated/speed_bench.md)."


READ = (
    "Differences in bits per byte, behind ± their standard errors over documents (or questions) / over seeds; σ is the larger."
    " `dynamic_pooling_port` and `hnet_port` are those methods as the paper's authors compared with them; `even` is a boundary"
    " after every fifth byte."
)


def evidence() -> str:
    """The claims that matter most, with what our runs say of them; smoke runs say nothing."""
    sys.path.insert(0, str(ROOT))
    from rltok.evidence import aside, records, summary, tables
    from rltok.evidence.chapters import ch06_runs

    found = [sweep for sweep in records.read_sweeps(RESULTS / "sweeps").values() if sweep.full]
    sweeps, others = found[:1], found[1:]  # that of most runs; of the others a paragraph
    parts = [f"{tables.heading(sweep)}\n\n{tables.claims_table(sweep, headline=True)}" for sweep in sweeps]
    for sweep in sweeps:
        told = [READ, summary.chance(sweep), summary.single_seeds(sweep), summary.luck(sweep)]
        parts.append(" ".join(filter(None, told)))
    slow = ch06_runs.schedule_sweep(RESULTS / "causes", f"{sweeps[0].name}_slow", sweeps[0]) if sweeps else None
    parts += [aside.aside(slow, found[0], main=True)] if slow else []
    parts += [aside.aside(sweep, found[0]) for sweep in others]
    parts = parts or [f"No sweep at full size has been run yet.\n\n{tables.claims_table(None, headline=True)}"]
    small = "What a count or small runs answer:\n\n" + tables.small_claims_table(RESULTS, headline=True)
    return "\n\n".join([*parts, small])


def _fill(readme: str, name: str, made: str) -> str:
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    before, rest = readme.split(begin)
    return f"{before}{begin}\n{made}\n{end}{rest.split(end)[1]}"


def render(readme: str, record: dict[str, Any]) -> str:
    """The README with the parts between markers made anew."""
    parts = {
        "measured": table(record), "passage": passages(record), "ladder": ladder(json.loads(LADDER.read_text())),
        "comparison": comparison(), "speeds": speeds(), "evidence": evidence(),
    }  # fmt: skip
    for name, made in parts.items():
        readme = _fill(readme, name, made)
    return readme


def main() -> None:
    """Rewrite README.md."""
    README.write_text(render(README.read_text(), json.loads(RECORD.read_text())))


if __name__ == "__main__":
    from rltok.evidence.measuring import run

    run(main)
