"""Run the demo over fixed seeds and store what came out: the record behind the README's numbers.

    python scripts/measure/measure_tiny.py --seeds 0 1 2 --out notebooks/results/tiny_demo.json

Takes as many demos as seeds, several minutes each on two cores. Commit first: a record of a changed tree says so.
"""

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

from rltok.cli.demo import demo_config, run_demo
from rltok.runs.results import device_name, repository_commit, versions


def measure(seeds: list[int]) -> dict[str, Any]:
    """One demo a seed, with everything that names the measurement."""
    runs = []
    with tempfile.TemporaryDirectory() as folder:
        for seed in seeds:
            start = time.perf_counter()
            result = run_demo(f"{folder}/{seed}", seed=seed, device="cpu", smoke=False, quiet=True)
            runs.append(result | {"seconds": round(time.perf_counter() - start, 1)})
            print(f"seed {seed}: {runs[-1]['seconds']} s", flush=True)
    config = demo_config(seed=0, smoke=False)
    return {
        "schema": 1,
        "what": "rltok demo: learned against random boundaries on the bundled sample, test split",
        "preset": config.name,
        "config": config.to_dict(),
        "config_hash": config.digest(),
        "commit": repository_commit(),
        "device": device_name(torch.device("cpu")),
        "versions": versions(),
        "runs": runs,
    }


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, nargs="+", required=True)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    options.out.write_text(json.dumps(measure(options.seeds), indent=1, allow_nan=False) + "\n")


if __name__ == "__main__":
    main()
