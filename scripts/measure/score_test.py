r"""Score finished runs on the test split, each once. The only script that reads it; a test holds all others off.

python scripts/measure/score_test.py scripts/measure/sweeps/32m.toml --runs runs/32m \
    --records notebooks/results/runs/32m --data corpora/english-test.parquet

Choices are made on validation. So this comes last, and a record that has a test score does not get another one.
Score before scripts/measure/pack_records.py packs the records.
"""

import argparse
import sys
from dataclasses import replace
from pathlib import Path

from rltok.data import load_test
from rltok.errors import RltokError
from rltok.evidence import measuring
from rltok.evidence.export import add_test
from rltok.evidence.packed import read_folder
from rltok.evidence.plan import Planned, read_plan
from rltok.evidence.record_file import Record, write_record


def check_text(test: str, records: list[Record]) -> None:
    """Raise `RltokError` for a test text that is training or validation text, or not that of runs scored before."""
    for record in records:
        where = f"{record['name']}, seed {record['seed']}"
        if test in (record["data"]["train"]["hash"], record["scores"]["validation"]["hash"]):
            raise RltokError(f"this is the training or validation text of {where}. Give the test text.")
        if record["scores"]["test"] is not None and record["scores"]["test"]["hash"] != test:
            raise RltokError(f"{where} was scored on another test text. A run is scored once; name another --records.")


def repeats_of(run: Planned, records: Path) -> list[Planned]:
    """The runs that repeat this one and have a record."""
    numbers = [path.stem.removeprefix(f"{run.stem}-") for path in records.glob(f"repeats/{run.stem}-*.json")]
    return [replace(run, repeat=int(number)) for number in sorted(numbers) if number.isdecimal()]


def main() -> None:
    """Every record of the plan without a test score whose run is there."""
    parser = argparse.ArgumentParser(description="Score finished runs on the test split, each once.")
    parser.add_argument("plan", type=Path)
    parser.add_argument("--runs", type=Path, required=True)
    parser.add_argument("--records", type=Path, required=True)
    parser.add_argument("--data", default="sample", help="the test text, a prepared folder, or sample (default)")
    parser.add_argument("--device", default="auto")
    options = parser.parse_args()
    plan = read_plan(options.plan)
    rows = load_test(options.data, plan.config(plan.runs[0], {}).data)
    known = {options.records / name: record for name, record in read_folder(options.records, whole=False).items()}
    check_text(rows.hash, [record for record in known.values() if not record.get("failed")])
    scored = 0
    for run in [one for planned in plan.runs for one in (planned, *repeats_of(planned, options.records))]:
        path, folder = run.record(options.records), options.runs / run.stem
        record = known.get(path)
        if record is None or record.get("failed"):
            print(f"{run.stem}: no finished record", file=sys.stderr)
            continue
        if record["scores"]["test"] is not None:
            print(f"{run.stem}: was scored before", file=sys.stderr)
            scored += 1
            continue
        if not folder.exists():
            print(f"{run.stem}: its run is not in {options.runs}", file=sys.stderr)
            continue
        record = add_test(record, folder, rows, device=options.device)
        write_record(path, record)
        scored += 1
        print(f"{run.stem}: {record['scores']['test']['bits_per_byte']:.4f} bits per byte on test", file=sys.stderr, flush=True)
    if not scored:
        raise RltokError(f"no run was scored: {options.records} and {options.runs} have none of the plan's in common.")


if __name__ == "__main__":
    measuring.run(main)
