"""Write the book's log of runs from every record in notebooks/results.

python scripts/book/make_log.py     # rewrites book/_generated/log.md and search.md; a test fails while they are out of date

A record is a JSON file with `config_hash`, `commit` and `device`, from `rltok train` (record.json) or from a measuring script
(with `runs`, which may each hold these three). It may hold `date`, `verdict`, `note` and `failed` (what went wrong); what a
record does not say shows as a dash. Nothing is typed here.
"""

import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "notebooks" / "results"
PAGE = ROOT / "book" / "_generated" / "log.md"
SEARCH = ROOT / "book" / "_generated" / "search.md"
NONE_YET = "No run has been recorded yet.\n"
DASH = "–"
MOST_CODES = 3  # commits, or digests of settings, that a line names


def records(folder: Path) -> list[tuple[str, dict[str, Any]]]:
    """(name, record) of every run record, by date where there is one, then by name; other JSON files are passed over."""
    entries = []
    for path in sorted(folder.glob("**/*.json")):
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except json.JSONDecodeError as error:
            raise SystemExit(
                f"{path.relative_to(ROOT)}, line {error.lineno}: not JSON ({error.msg}). Make the record again."
            ) from error
        if isinstance(content, dict) and all(_named(content, key) for key in ("config_hash", "commit", "device")):
            entries.append((str(path.relative_to(folder).with_suffix("")), content))
    return sorted(entries, key=lambda pair: (pair[1].get("date") or "", pair[0]))


def _named(record: dict[str, Any], key: str) -> list[str]:
    """What the record, or else its runs, say; each once."""
    if key in record:
        return [record[key]]
    runs = record.get("runs")
    return list(dict.fromkeys(run[key] for run in runs if key in run)) if isinstance(runs, list) else []


def _seconds(run: dict[str, Any]) -> float:
    """Seconds of a run, of its timed updates, or of the runs inside it."""
    inner = sum(_seconds(value) for value in run.values() if isinstance(value, dict))
    own = run.get("seconds", 0.0)
    return (sum(own) if isinstance(own, list) else own) + inner


def _cost(record: dict[str, Any]) -> str:
    seconds = record.get("seconds")
    if seconds is None and record.get("runs"):
        seconds = sum(_seconds(run) for run in record["runs"])
    if not seconds:
        return DASH
    shown = f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
    runs = record.get("runs", [])
    seeds = len({run.get("seed") for run in runs})
    if len(runs) > seeds:
        return f"{shown}, {len(runs)} runs"
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


def _ladder(stages: list[dict[str, Any]]) -> str:
    """Rows that the first and the last rung need, over all seeds and stages."""
    first, last = "naive", "causal+early+gamma0.9+batch"

    def span(name: str) -> str:
        needed = [stage["policy"]["estimators"].get(name, {}).get("rows_needed", [None])[0] for stage in stages]
        known = [value for value in needed if value is not None]
        never = f", never in {len(needed) - len(known)} of {len(needed)}" if len(known) < len(needed) else ""
        return f"{min(known):,.0f} to {max(known):,.0f}{never}" if known else "never"

    return f"rows to a cosine of 0.5 over all seeds and stages: {first} {span(first)}; {last} {span(last)}"


def _beyond(stages: list[dict[str, Any]]) -> str:
    """What two draws of the same text do to the variance, at each moment of training."""
    name = "leave one out, 2 draws"
    ratios = [stage["sampled"]["rungs"][name]["ratio"][0] for stage in stages]
    updates = ", ".join(str(stage["step"]) for stage in stages)
    return f"variance of one draw over that of {name}: {', '.join(f'{ratio:.1f}' for ratio in ratios)} at update {updates}"


def _rates(record: dict[str, Any]) -> str:
    counts = [f"{rule} {within} of {of}" for rule, (within, of) in record["runs_within"].items()]
    return f"rate within {record['within']} of its target: {', '.join(counts)} runs"


def _leak(runs: list[dict[str, Any]]) -> str:
    gap = "causal - shifted as often as causal"
    values = [run["unet_gaps"][gap]["bits_per_byte"] for run in runs]
    return f"bits per byte, {gap}: {min(values):+.4f} to {max(values):+.4f}"


def _memory(runs: list[dict[str, Any]]) -> str:
    """Peak by preset; the number of tokens on which it depends is that of the runs that fit."""
    tokens = sorted({run["tokens_per_byte"] for run in runs if run["fits"]})
    shown = [
        f"{run['preset']} "
        + (f"{run['peak_bytes'] / 1e9:.1f} GB at {run['micro_batch']} rows" if run["fits"] else "does not fit")
        for run in runs
    ]
    return f"{', '.join(shown)}; at {' and '.join(map(str, tokens))} tokens per byte"


def _bench(record: dict[str, Any]) -> str:
    """Speed, and the cost of the policy where it was timed."""
    cost, plain = record["policy_cost"], record["ratio"]
    words = [f"{record['preset']} {record['arm']['bytes_per_second'] / 1e6:.2f} MB/s"]
    words += [] if plain is None else [f"{plain:.1f} times plain"]
    if cost is not None:
        words.append(f"policy {cost['cost']:+.1%} ({cost['interval'][0]:+.1%} to {cost['interval'][1]:+.1%})")
    return ", ".join(words)


def _processes(record: dict[str, Any]) -> str:
    """How much faster several processes are."""
    each = (f"{count} processes {times:.2f}" for count, times in record["times_as_fast"].items() if count != "1")
    return f"{record['preset']}: {', '.join(each)} times as fast as one"


def _paths(record: dict[str, Any]) -> str:
    """Losses of both paths at the end, beside what seeds do."""
    means, deviation = record["means"], record["seed_deviation"]
    words = f"nats per byte of the last {record['last']} updates: fast {means['triton']:.4f}, plain {means['plain']:.4f}"
    return words if deviation is None else f"{words}, standard deviation over seeds {deviation:.4f}"


def _toy(shares: list[dict[str, Any]]) -> str:
    """Share of the oracle's gain that each estimator recovers, mean over seeds."""
    return "share of the oracle's gain: " + "; ".join(f"{s['words']} {s['name']} {s['mean_share']:.2f}" for s in shares)


def _scores(record: dict[str, Any]) -> str:
    """Held-out bits per byte of an evidence record; the test split where it was scored."""
    splits = {name: record["scores"][name] for name in ("validation", "test") if record["scores"][name]}
    words = [f"{name} {score['bits_per_byte']:.4f}" for name, score in splits.items()]
    return f"bits per byte: {', '.join(words)}; {splits['validation']['rate']:.3f} boundaries per byte"


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
        return _beyond(record["stages"]) if "sampled" in record["stages"][0] else _ladder(record["stages"])
    if record.get("runs_within"):
        return _rates(record)
    if runs and all("unet_gaps" in run for run in runs):
        return _leak(runs)
    if runs and all("peak_bytes" in run for run in runs):
        return _memory(runs)
    if "policy_cost" in record:
        return _bench(record)
    if "times_as_fast" in record:
        return _processes(record)
    if record.get("distances"):
        return _paths(record)
    if record.get("shares"):
        return _toy(record["shares"])
    if record.get("scores"):
        return _scores(record)
    scored = record.get("evaluation") or {}
    if isinstance(scored.get("bits_per_byte"), int | float):
        error = scored.get("standard_error")
        return f"{scored['bits_per_byte']:.3f}" + (f" ± {error:.3f}" if error else "") + " bits per byte"
    return DASH


def _short(commit: str | None) -> str:
    return f"{commit[:7]}{'+' if '+' in commit else ''}" if commit else ""


def _codes(names: list[str]) -> str:
    names = [name for name in names if name]
    return (", ".join(f"`{name}`" for name in names[:MOST_CODES]) + (" and others" if len(names) > MOST_CODES else "")) or DASH


def _row(name: str, record: dict[str, Any]) -> str:
    note = record.get("note") or record.get("what") or ""
    if record.get("full") is False or any(run.get("smoke") for run in record.get("runs", [])):
        note = f"smoke run. {note}"
    cells = [
        f"`{name}`", record.get("date") or DASH, _codes([_short(commit) for commit in _named(record, "commit")]),
        _codes(_named(record, "config_hash")), ", ".join(_named(record, "device")),
        _cost(record), verdict(record), note.strip() or DASH,
    ]  # fmt: skip
    return "| " + " | ".join(str(cell).replace("|", r"\|").replace("\n", " ") for cell in cells) + " |"


def render(entries: list[tuple[str, dict[str, Any]]]) -> str:
    """The table, oldest first."""
    if not entries:
        return NONE_YET
    head = ["run", "date", "commit", "config", "device", "cost", "verdict", "note"]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join(lines + [_row(name, record) for name, record in entries]) + "\n"


def search_table(entries: list[tuple[str, dict[str, Any]]]) -> str:
    """Validation bits per byte of every method under every schedule that a search has tried so far; the best of each in bold."""
    tried: dict[str, dict[tuple[float, float], float]] = {}
    read = set()
    for name, record in entries:
        if name.startswith("search/") and not record.get("failed"):
            train = record["config"]["train"]
            schedule = train["warmup_fraction"], train["learning_rate"]
            method = record["name"].partition("_warmup")[0]
            read.add(f"{record['bytes'] / 1e6:.1f} MB of {record['data']['name']} a run, seed {record['seed']}.")
            tried.setdefault(method, {})[schedule] = record["scores"]["validation"]["bits_per_byte"]
    if not tried:
        return NONE_YET
    schedules = sorted({schedule for scores in tried.values() for schedule in scores})
    head = ["method", *(f"{warmup:.0%}, {peak:g}" for warmup, peak in schedules)]
    lines = ["| " + " | ".join(head) + " |", "|---" + "|---:" * len(schedules) + "|"]
    for method, scores in sorted(tried.items(), key=lambda one: min(one[1].values())):
        cells = [f"{scores[one]:.4f}" if one in scores else DASH for one in schedules]
        whole = len(scores) == len(schedules)  # a method that was tried in part has no best yet
        best = schedules.index(min(scores, key=scores.get)) if whole else -1
        cells = [f"**{cell}**" if place == best else cell for place, cell in enumerate(cells)]
        lines.append("| " + " | ".join([f"`{method}`", *cells]) + " |")
    return "\n".join([*sorted(read), "", *lines]) + "\n"


def main() -> None:
    """Rewrite both tables."""
    entries = records(RESULTS)
    PAGE.write_text(render(entries), encoding="utf-8")
    SEARCH.write_text(search_table(entries), encoding="utf-8")


if __name__ == "__main__":
    main()
