"""Seconds of an update where several processes compute it together, beside those of one process alone.

    python scripts/measure/measure_processes.py --preset 147m --data train-000.parquet --counts 1 2 --out processes_147m.json

One process is `rltok train`, several are torchrun's, a card or a CPU each, with the same rows in each update. The counts take
turns `--rounds` times, so that a machine that grows slower shows. The loss after each update says whether they compute the same.
"""

import argparse
import json
import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from rltok.cli.options import parse_settings
from rltok.config import with_settings
from rltok.data.order import check_ranks
from rltok.device import PRECISIONS, backend_of, precision_of, resolve_device
from rltok.errors import RltokError
from rltok.evidence.measuring import at_least, rounded, run, stored_record
from rltok.presets import preset
from rltok.runs.results import origin
from rltok.system.files import write_json
from rltok.system.workers import printed_by

WHAT = "seconds of an update, and its loss, of one process and of several that torchrun started"


def train(count: int, words: Sequence[str], out: Path) -> list[dict[str, Any]]:
    """The logged line of each update of a run by so many processes. Raises `RltokError` where they fail."""
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(count)] if count > 1 else []
    command = [sys.executable, *torchrun, "-m", "rltok", "train", *words, "--out", str(out)]
    printed_by(f"rltok train in {count} processes", command)
    lines = map(json.loads, (out / "metrics.jsonl").read_text().splitlines())
    return [line for line in lines if line["split"] == "train"]


def seconds_of(lines: Sequence[dict[str, Any]], skip: int) -> list[float]:
    """Seconds of each update after the first `skip`, which compile kernels and meet for the first time."""
    ends = [line["seconds"] for line in lines]
    return [end - begin for begin, end in zip(ends[skip - 1 :], ends[skip:], strict=False)]


def largest_difference(runs: Sequence[dict[str, Any]]) -> float:
    """Of the losses of all runs after the same update, relative to those of the first run."""
    first = runs[0]["nll"]
    return max(abs(mine / own - 1) for each in runs for mine, own in zip(each["nll"], first, strict=True))


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--preset", default="147m")
    parser.add_argument("--data", default="sample")
    parser.add_argument("--counts", type=int, nargs="+", default=[1, 2], help="numbers of processes (default: 1 2)")
    parser.add_argument("--rounds", type=int, default=2, help="runs of each (default: 2)")
    parser.add_argument("--updates", type=int, default=40, help="of a run (default: 40)")
    parser.add_argument("--skip", type=int, default=10, help="updates at the start that are not timed (default: 10)")
    parser.add_argument("--set", nargs="+", default=[], metavar="KEY=VALUE", help="settings of the runs")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    at_least(1, rounds=options.rounds, skip=options.skip, counts=min(options.counts))
    at_least(options.skip + 2, updates=options.updates)
    if len(set(options.counts)) < len(options.counts):
        given = " ".join(map(str, options.counts))
        raise RltokError(f"--counts {given} has a number twice. Give each once, and --rounds for more.")
    stored_record(options.out, WHAT)
    config, device = with_settings(preset(options.preset), parse_settings(options.set)), resolve_device(options.device)
    for count in options.counts:
        check_ranks(config.train.sequences_per_update, config.train.micro_batch, count)
    most, cards = max(options.counts), torch.cuda.device_count()
    if device.type == "cuda" and most > cards:
        raise RltokError(f"--counts {most} takes a card each, and torch sees {cards}. Give at most {cards}, or --device cpu.")
    never = options.updates + 1
    budget = {
        "training_bytes": options.updates * config.bytes_per_update,
        "log_every": 1,
        "evaluate_rows": config.train.micro_batch,
    }
    changed = {f"train.{key}": value for key, value in (budget | {"evaluate_every": never, "checkpoint_every": never}).items()}
    config = with_settings(config, changed)
    settings = [*options.set, *(f"{key}={value}" for key, value in changed.items())]
    words = ["--preset", options.preset, "--data", options.data, "--device", device.type, "--json", "--set", *settings]
    runs: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        for number in range(options.rounds):
            for count in options.counts:
                out = Path(folder) / f"{count}-{number}"
                lines = train(count, words, out)
                seconds = seconds_of(lines, options.skip)
                runs.append({"processes": count, "seconds": seconds, "nll": [line["nll"] for line in lines]})
                print(f"{count} processes: {statistics.median(seconds):.4f} s an update", file=sys.stderr, flush=True)
        data = json.loads((out / "data.json").read_text())
    medians = {
        str(count): statistics.median(second for each in runs if each["processes"] == count for second in each["seconds"])
        for count in options.counts
    }
    alone = medians[str(options.counts[0])]
    times = {count: alone / each for count, each in medians.items()}
    of_run = [statistics.median(each["seconds"]) for each in runs if each["processes"] == options.counts[0]]
    backend, why = backend_of(config, device)
    named = origin(config, data, device) | {
        "precision": PRECISIONS[precision_of(config, device)], "backend": backend, "why_backend": why, "skip": options.skip,
    }  # fmt: skip
    measured = {
        "median_seconds": medians, "times_as_fast": times, "spread_of_rounds": max(of_run) / min(of_run) - 1,
        "largest_difference_of_losses": largest_difference(runs), "runs": runs,
    }  # fmt: skip
    write_json(options.out, {"schema": 1, "what": WHAT, **named, **rounded(measured)})
    for count, seconds in medians.items():
        print(f"{count} processes: {seconds:.4f} s an update, {times[count]:.3f} times as fast as {options.counts[0]}")


if __name__ == "__main__":
    run(main)
