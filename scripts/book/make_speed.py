"""Write what the book tells in numbers about the fast path: the notes of its making, and tables of stored records.

python scripts/book/make_speed.py     # rewrites book/_generated/speed_*.md; a test fails while they are out of date

Notes come from book/speed_notes.yml, tables from notebooks/results: bench*.json of `rltok bench`, kernels.json and fast_path.json
of the measuring scripts. What was not measured yet is said to be so.
"""

import itertools
import json
import statistics
from pathlib import Path
from typing import Any

import yaml
from book_tables import table
from make_speeds import bench_record

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "notebooks" / "results"
NOTES = ROOT / "book" / "speed_notes.yml"
GENERATED = ROOT / "book" / "_generated"


def turned(head: list[str], rows: list[list[str]]) -> str:
    """The same with a column for each row: few records of many numbers fit on a page so."""
    first, *rest = zip(head, *rows, strict=True)
    return table(list(first), [list(row) for row in rest])


def notes(parts: list[dict[str, Any]]) -> str:
    """Prediction, change, outcome, in order; a table for each card, numbered through."""
    number, tables = itertools.count(1), []
    for part in parts:
        rows = [[str(next(number)), note["change"], note["predicted"], note["outcome"]] for note in part["notes"]]
        said = f"On one {part['card']}, {part['where']}.\n"
        tables.append(table(["", "change", "predicted", "outcome"], rows) + "\n" + said)
    return "\n".join(tables)


def benches(records: list[dict[str, Any]]) -> str:
    """One line for each stored bench."""
    if not records:
        return "No record of `rltok bench` is stored yet.\n"
    rows = []
    for record in records:
        arm, plain, cost = record["arm"], record["plain"], record["policy_cost"]
        rows.append([
            record["preset"], record["device"], f"{arm['bytes_per_second'] / 1e6:.3f}", f"{arm['micro_batch']}",
            f"{arm['tokens_per_byte']:.3f}", f"{arm['share_of_product']['with_attention']:.0%}",
            f"{arm['peak_memory_bytes'] / 1e9:.0f}", f"{arm['cold_start_seconds']:.0f}",
            "-" if plain is None else f"{record['ratio']:.1f} (at {plain['micro_batch']} rows)",
            "-" if cost is None else _cost(cost),
            f"`{record['commit'][:7]}`",
        ])  # fmt: skip
    head = [
        "preset", "card", "MB/s", "rows a pass", "tokens per byte", "of a matrix product's rate", "GB", "first update, s",
        "times as fast as plain", "cost of the policy", "commit",
    ]  # fmt: skip
    return turned(head, rows) + "\n" + "\n".join(map(_conditions, records)) + "\n\n" + _splits(records)


def _cost(cost: dict[str, Any]) -> str:
    pairs = [one - other for repeat in cost["repeats"] for one, other in zip(repeat["learned"], repeat["given"], strict=True)]
    share = f"{cost['cost']:+.1%} ({cost['interval'][0]:+.1%} to {cost['interval'][1]:+.1%})"
    return f"{share}, {1e3 * statistics.median(pairs):.1f} ms"


def _conditions(record: dict[str, Any]) -> str:
    """What was timed, as an item of a list."""
    arm, plain, cost, data = record["arm"], record["plain"], record["policy_cost"], record["data"]
    low, high = (f"{value / 1e6:.3f}" for value in arm["quartiles"])
    counted = f"{arm['updates']} updates" + ("" if plain is None else f" and {plain['updates']} plain ones")
    pairs = (
        "" if cost is None else f"; {len(cost['repeats'])} repeats of {cost['pairs_a_repeat']} pairs for the cost of the policy"
    )
    sure = "" if cost is None else f", interval at {cost['confidence']:.0%}"
    rows = f"{data['train']['rows']:,} {data['cut'].replace('_', ' ')} of {data['sequence_length']} bytes"
    return (
        f"* {record['preset']}: {counted}, quartiles {low} to {high} MB/s{pairs}{sure}; {record['precision']},"
        f" torch {record['versions']['torch']}; text {data['name']}, {rows}, hash {data['train']['hash'][:8]};"
        f" {arm['compilations_after_warm_up']} kernels compiled after the warm-up."
    )


def _splits(records: list[dict[str, Any]]) -> str:
    """What the time of a median update goes to, how long no kernel runs, and how fast the matrix products are."""
    groups, rows = list(records[0]["arm"]["time_split"]["seconds"]), []
    for record in records:
        arm, spent, product = record["arm"], record["arm"]["time_split"]["seconds"], record["product"]["rate"]
        whole = statistics.median(arm["seconds"])
        flops = arm["flops_per_byte"]["without_attention"] * statistics.median(arm["bytes"])  # all of them in products
        rows.append([
            record["preset"], f"{1e3 * whole:.0f}", *(f"{spent[group] / whole:.1%}" for group in groups),
            f"{max(0.0, 1 - sum(spent.values()) / whole):.1%}", f"{flops / spent['matrix products'] / 1e12:.0f}",
            f"{product / 1e12:.0f}",
        ])  # fmt: skip
    head = ["preset", "update, ms", *groups, "no kernel", "products, TFLOP/s", "a large square product, TFLOP/s"]
    said = "Where the time of a median update goes on the fast path; kernel times are those of one profiled update:"
    return f"{said}\n\n{turned(head, rows)}"


def kernels(record: dict[str, Any] | None) -> str:
    """Milliseconds of every operation in every way."""
    if record is None:
        return "No record of single operations is stored yet.\n"
    rows = []
    for one in record["operations"]:
        spent = one["failed"] if "failed" in one else " and ".join(f"{value:.3g}" for value in one["milliseconds"])
        floor = " and ".join(f"{value:.2g}" for value in one.get("floor_milliseconds", [])) or "-"
        rows.append([one["operation"], one["way"], spent, floor])
    size = f"{record['rows']} rows of {record['sequence_length']} bytes"
    said = (
        f"{record['device']}, commit `{record['commit'][:7]}`, {size}, a boundary at every fifth; forward and backward, medians."
        " What is bounded by bytes was computed with the bandwidth of a copy,"
        f" {record['copy_bytes_per_second'] / 1e12:.2f} TB/s. FlexAttention and the plain forms of attention are timed with"
        " the rotation in plain PyTorch before them, which the kernels do inside. The draw and the returns are several small"
        " operations each, and timed alone they wait for the processor between them, which in an update is ahead of the card.\n"
    )
    return table(["operation", "way", "ms", "ms if only bytes moved"], rows) + "\n" + said


def paths(record: dict[str, Any] | None) -> str:
    """Distances from float64, and losses after training, of both paths."""
    if record is None:
        return "No record of both paths side by side is stored yet.\n"
    rows = [
        [name, path, *(f"{distance[path][key]:.2e}" for key in ("nll", "early_nll", "gradient", "worst"))]
        for name, distance in record["distances"].items()
        for path in ("plain", "triton")
    ]
    seeds = len({run["seed"] for run in record["runs"]})
    apart, deviation = record["means"]["triton"] - record["means"]["plain"], record["seed_deviation"]
    spread = "" if deviation is None else f" standard deviation over seeds {deviation:.4f} (plain path)."
    said = (
        f"After {record['updates']} updates of {record['config']['name']}, {seeds} seeds, mean loss of the last {record['last']},"
        f" nats per byte:"
        f" plain {record['means']['plain']:.4f}, fast {record['means']['triton']:.4f}, apart by {apart:+.4f};"
        f"{spread}"
        f" {record['device']}, commit `{record['commit'][:7]}`, text {record['data']['name']}.\n"
    )
    what = (
        "Distance from the plain path in float64, relative to the length of what is compared (losses of all bytes, gradient of"
        " all parameters, gradient of the worst parameter); fresh weights, prescribed boundaries, both in bf16 autocast:\n"
    )
    return what + "\n" + table(["preset", "path", "loss", "early head", "gradient", "worst parameter"], rows) + "\n" + said


def _record(name: str) -> dict[str, Any] | None:
    path = RESULTS / name
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None


def pages() -> dict[Path, str]:
    """Every generated part."""
    records = [bench_record(path) for path in sorted(RESULTS.glob("bench*.json"))]
    return {
        GENERATED / "speed_notes.md": notes(list(yaml.safe_load_all(NOTES.read_text(encoding="utf-8")))),
        GENERATED / "speed_bench.md": benches(records),
        GENERATED / "speed_kernels.md": kernels(_record("kernels.json")),
        GENERATED / "speed_paths.md": paths(_record("fast_path.json")),
    }


def main() -> None:
    """Rewrite them."""
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
