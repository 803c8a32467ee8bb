"""Would `torch.compile` help cards without kernels? Whole updates in plain PyTorch and fp16, eager and with byte layers compiled.

    python scripts/measure/measure_compile.py --data train-000.parquet --out notebooks/results/compile_32m.json

Byte layers have one shape for all updates, so they are compiled once; token layers have another number of tokens in each. No card
without bf16 could be had, so fp16 is forced on one that has it, at as many rows a pass as should fit 15 GB.
"""

import argparse
import statistics
from pathlib import Path
from typing import Any

import torch

from rltok.config import Config, with_settings
from rltok.data import Corpus, load_corpus
from rltok.data.batches import Prefetcher
from rltok.device import PRECISIONS, gradient_scaler, precision_of, resolve_device
from rltok.evidence.measuring import at_least, run, stored_record
from rltok.kernels import backends
from rltok.optim import make_optimizer
from rltok.presets import preset
from rltok.runs.models import new_model
from rltok.runs.results import origin
from rltok.speed.bench import WARM_UP
from rltok.step import train_step
from rltok.system.files import write_json
from rltok.system.stopwatch import stopwatch

WHAT = "whole updates in plain PyTorch, eager and with byte layers compiled"
COMPILER = "inductor"


def arm(config: Config, corpus: Corpus, device: torch.device, compiled: bool, updates: int) -> dict[str, Any]:
    """Seconds of updates of a fresh model, the first of which compiles, and what the last lost."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    with backends.use("plain"):
        model, last = new_model(config, device).train(), WARM_UP + updates
        for block in (*model.down_blocks, *model.up_blocks) if compiled else ():
            block.compile(backend=COMPILER, dynamic=False)
        optimizer, batches = make_optimizer(model, config.train), Prefetcher(corpus, config, device, last)
        scaler = gradient_scaler(config, device)

        def update(step: int) -> Any:
            return train_step(model, optimizer, batches(step), config, step, batches.prepare, scaler=scaler)

        timed = [stopwatch(lambda step=step: update(step), device) for step in range(1, last + 1)]
    seconds = [spent for spent, _ in timed]
    rates = [metrics.scored_bytes / spent for spent, metrics in timed[WARM_UP:]]
    return {
        "compiled": compiled, "first_seconds": seconds[0], "seconds": seconds[WARM_UP:],
        "bytes_per_second": statistics.median(rates), "nll": timed[-1][1].to_dict()["nll"],
        "peak_memory_bytes": torch.cuda.max_memory_allocated(device) if device.type == "cuda" else None,
    }  # fmt: skip


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--preset", default="32m")
    parser.add_argument("--data", default="sample")
    parser.add_argument("--micro-batch", type=int, default=8, help="rows of a pass (default: 8)")
    parser.add_argument("--precision", default="fp16")
    parser.add_argument("--updates", type=int, default=10, help="timed after the warm-up (default: 10)")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    at_least(1, updates=options.updates)
    stored_record(options.out, WHAT)
    settings = {"data.cut": "full_windows", "train.micro_batch": options.micro_batch, "train.precision": options.precision}
    config = with_settings(preset(options.preset), settings)
    device, corpus = resolve_device(options.device), load_corpus(options.data, config.data)
    arms = [arm(config, corpus, device, compiled, options.updates) for compiled in (False, True)]
    ratio = arms[1]["bytes_per_second"] / arms[0]["bytes_per_second"]
    named = origin(config, corpus.description, device) | {"precision": PRECISIONS[precision_of(config, device)]}
    write_json(options.out, {"schema": 1, "what": WHAT, **named, "backend": "plain", "arms": arms, "ratio": ratio})
    for one in arms:
        words = "compiled" if one["compiled"] else "eager"
        print(f"{words:9s}{one['bytes_per_second'] / 1e6:8.4f} MB/s, first update {one['first_seconds']:.1f} s")
    print(f"compiled is {ratio:.2f} times as fast")


if __name__ == "__main__":
    run(main)
