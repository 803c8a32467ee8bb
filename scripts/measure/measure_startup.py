"""Seconds from the command `rltok train` to the end of its first update, part by part, without and with compiled kernels.

    python scripts/measure/measure_startup.py --preset 147m --data train-000.parquet --out notebooks/results/startup_147m.json

Each start is a process of its own. The first finds empty folders for compiled kernels, the `--repeats` after it find what it
left there. What the system keeps of files in memory is not emptied, so imports of the first start may be quick, too.
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from rltok.cli.options import parse_settings
from rltok.config import Config, with_settings
from rltok.device import PRECISIONS, backend_of, precision_of, resolve_device
from rltok.evidence.measuring import at_least, run, stored_record
from rltok.presets import preset
from rltok.runs.results import origin
from rltok.system.files import write_json
from rltok.system.workers import printed_by

WHAT = "seconds from the command to the first update, with empty and with filled folders of compiled kernels"
UPDATES = 3  # of a run: the first, and two beside it that compile nothing
PARTS = ("imports", "data", "model", "evaluation")  # before the first update
FOLDERS = {"TRITON_CACHE_DIR": "triton", "TORCHINDUCTOR_CACHE_DIR": "inductor"}


def start(words: list[str], kept: Path) -> list[tuple[str, float, float]]:
    """Run `rltok train` with these words in a process of its own; what `timed_start.py` notes, and before it when it was started.

    Args:
        kept: folder for compiled kernels.

    Raises:
        RltokError: the command failed.
    """
    environment = os.environ | {name: str(kept / folder) for name, folder in FOLDERS.items()}
    with tempfile.TemporaryDirectory() as folder:
        script, marks = Path(__file__).with_name("timed_start.py"), Path(folder) / "marks.json"
        command = [sys.executable, str(script), str(marks), "train", *words]
        begun = time.time()
        printed_by("rltok train", command, environment)
        return [("start", begun, begun), *json.loads(marks.read_text())]


def phases(marks: list[tuple[str, float, float]]) -> dict[str, float]:
    """Seconds of each part before the first update, of that update, of all else until its end, of the whole, of a later one."""
    (_, begun, _), (_, _, imported), *rest = marks
    updates = [(begin, end) for part, begin, end in rest if part == "update"]
    ready, ended = updates[0]
    before = [(part, end - begin) for part, begin, end in rest if end <= ready]
    seconds = {part: sum(spent for name, spent in before if name == part) for part in PARTS} | {"imports": imported - begun}
    seconds["first_update"] = ended - ready
    other = ended - begun - sum(seconds.values())
    return seconds | {"other": other, "whole": ended - begun, "later_update": min(end - begin for begin, end in updates[1:])}


def measure(config: Config, words: list[str], repeats: int, device: str) -> dict[str, Any]:
    """One start with empty folders and `repeats` with filled ones."""
    with tempfile.TemporaryDirectory() as folder:
        kept = Path(folder) / "kernels"
        changed = {"train.training_bytes": UPDATES * config.bytes_per_update}
        settings = [f"{key}={value}" for key, value in changed.items()]

        def one(number: int) -> dict[str, float]:
            out = ["--out", str(Path(folder) / f"run{number}"), "--device", device, "--json", "--set", *settings]
            return phases(start([*words, *out], kept))

        empty, filled = one(0), [one(number) for number in range(1, repeats + 1)]
        data = json.loads((Path(folder) / "run0" / "data.json").read_text())
        size = sum(path.stat().st_size for path in kept.rglob("*") if path.is_file())
    middle = {part: statistics.median(each[part] for each in filled) for part in empty}
    return {"data": data, "empty": empty, "filled": filled, "filled_median": middle, "kernel_bytes": size}


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--preset", default="147m")
    parser.add_argument("--data", default="sample")
    parser.add_argument("--repeats", type=int, default=3, help="starts with filled folders (default: 3)")
    parser.add_argument("--set", nargs="+", default=[], metavar="KEY=VALUE", help="settings of the run")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    at_least(1, repeats=options.repeats)
    stored_record(options.out, WHAT)
    config, device = with_settings(preset(options.preset), parse_settings(options.set)), resolve_device(options.device)
    backend, why = backend_of(config, device)
    words = ["--preset", options.preset, "--data", options.data]
    made = measure(config, [*words, *(["--set", *options.set] if options.set else [])], options.repeats, device.type)
    precision = PRECISIONS[precision_of(config, device)]
    named = origin(config, made.pop("data"), device) | {"precision": precision, "backend": backend, "why_backend": why}
    write_json(options.out, {"schema": 1, "what": WHAT, **named, "updates": UPDATES, **made})
    for part, seconds in made["empty"].items():
        print(f"{part:14s}{seconds:8.2f} s with empty folders{made['filled_median'][part]:8.2f} s with filled ones")
    print(f"compiled kernels: {made['kernel_bytes'] / 1e6:.0f} MB")


if __name__ == "__main__":
    run(main)
