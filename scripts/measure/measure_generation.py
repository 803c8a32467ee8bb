"""Bytes a second of generation, with caches and by a full pass for every byte, after a prompt of 2 kB.

    python scripts/measure/measure_generation.py --presets tiny small 147m --out notebooks/results/generation.json
    python scripts/measure/measure_generation.py --presets tiny small 147m --device cuda --out notebooks/results/generation.json

The second command, on a machine with a card, adds its runs to those that the record holds of other devices; chapter 08 shows all.

Fresh weights of each preset, whose learned rule draws at the target rate; texts of the bundled sample as prompts, one a row. With
caches `--bytes` bytes are generated in batches of `--batches` rows, `--repeats` times; the full passes make `--full-bytes` bytes
of a single row. The prompt's own pass is timed apart. Another end of the text than the number of bytes is ruled out.
"""

import argparse
import statistics
from pathlib import Path
from typing import Any

import torch

from rltok.config import Config, DataConfig
from rltok.data import load_corpus
from rltok.device import resolve_device
from rltok.errors import RltokError
from rltok.evidence.measuring import at_least, reading, run, stored_record
from rltok.generation import Generation, Sampling
from rltok.presets import preset
from rltok.runs.models import new_model
from rltok.runs.results import device_name, origin
from rltok.system.files import write_json
from rltok.system.stopwatch import stopwatch
from rltok.unet import AutoregressiveUNet
from rltok.vocab import EOS, decode

WHAT = "bytes a second of generation after a prompt, with caches and by full passes"
PROMPT_BYTES = 2048


def timed(model: AutoregressiveUNet, prompts: list[bytes], count: int, cached: bool) -> dict[str, Any]:
    """Seconds of the prompt's pass with the first byte, and of the `count` bytes after it; what was written."""
    device = model.embedding.weight.device
    generation = Generation(model, prompts, Sampling(max_bytes=count + 1), cached=cached)
    first, _ = stopwatch(lambda: next(generation), device)
    rest, _ = stopwatch(lambda: [next(generation) for _ in range(count)], device)
    return {"prompt_seconds": first, "seconds": rest, "data": [row.data for row in generation.results()]}


def speed(config: Config, prompts: list[bytes], device: torch.device, options: argparse.Namespace) -> dict[str, Any]:
    """What the record says of one preset."""
    model = new_model(config, device).eval()
    model.never_predicted[EOS] = float("-inf")
    timed(model, prompts[:1], 2, True)  # so that nothing is set up while the clock runs
    batches, written = [], b""
    for rows in options.batches:
        timings = [timed(model, prompts[:rows], options.bytes, True) for _ in range(options.repeats)]
        written = written or timings[0]["data"][0]
        seconds = [one["seconds"] for one in timings]
        rate = rows * options.bytes / statistics.median(seconds)
        prompt = statistics.median(one["prompt_seconds"] for one in timings)
        batches.append({"rows": rows, "bytes_per_second": rate, "seconds": seconds, "prompt_seconds": prompt})
    full = timed(model, prompts[:1], options.full_bytes, False)
    rate = options.full_bytes / full["seconds"]
    one = next((batch["bytes_per_second"] / rate for batch in batches if batch["rows"] == 1), None)
    same = written[: options.full_bytes + 1] == full["data"][0][: options.bytes + 1]
    return {"batches": batches, "full_pass_bytes_per_second": rate, "times_as_fast": one, "same_bytes": same}


def of_other_devices(path: Path, plan: dict[str, Any], batches: list[int], device: torch.device) -> dict[str, Any]:
    """What a stored record holds of other devices: its runs, and the threads of its CPU; empty where there is none.

    Raises:
        RltokError: those were measured by another plan, or in batches of other sizes, so that no table could hold both.
    """
    stored = stored_record(path, WHAT)
    if stored is None:
        return {}
    with reading(path):
        runs = [one for one in stored["runs"] if one["device"] != device_name(device)]
        was = {key: stored[key] for key in plan} | {"batches": [batch["rows"] for batch in stored["runs"][0]["batches"]]}
        if runs and was != plan | {"batches": batches}:
            raise RltokError(f"--out {path} holds runs by another plan, {was}. Take that one, or name another file.")
        return {"runs": runs, "threads": stored["threads"]} if runs else {}


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--presets", nargs="+", default=["tiny", "small"])
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 16, 64], help="rows at a time (default: 1 16 64)")
    parser.add_argument("--bytes", type=int, default=200, help="with caches, timed (default: 200)")
    parser.add_argument("--full-bytes", type=int, default=10, help="by full passes, timed (default: 10)")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    at_least(1, bytes=options.bytes, full_bytes=options.full_bytes, repeats=options.repeats, batches=min(options.batches))
    device = resolve_device(options.device)
    plan = {"prompt_bytes": PROMPT_BYTES} | {key: getattr(options, key) for key in ("bytes", "full_bytes", "repeats")}
    others = of_other_devices(options.out, plan, options.batches, device)
    presets = others.pop("runs", [])
    corpus = load_corpus("sample", DataConfig(sequence_length=PROMPT_BYTES, cut="full_windows"))
    prompts = [decode(row) for row in corpus.validation.ids(range(max(options.batches)))]
    for name in options.presets:
        config = preset(name)
        presets.append(origin(config, corpus.description, device) | speed(config, prompts, device, options))
        print(name, {key: value for key, value in presets[-1].items() if key in ("times_as_fast", "full_pass_bytes_per_second")})
        print(*(f"{batch['rows']} rows: {batch['bytes_per_second']:.0f} bytes/s" for batch in presets[-1]["batches"]), sep=", ")
    about = {"schema": 1, "what": WHAT, **plan, "threads": torch.get_num_threads()} | others
    write_json(options.out, about | {"runs": presets})


if __name__ == "__main__":
    run(main)
