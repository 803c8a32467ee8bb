"""Peak memory of one update of presets whose rule starts near one boundary per two bytes, on a CUDA card.

    python scripts/measure_memory.py --presets 147m 147m_hnet 147m_dynamic_pooling --out notebooks/results/memory.json

One micro-batch of English-like random bytes through forward, backward and optimizer with fresh weights; the number of tokens,
on which memory depends, is that of the rule's first weights, and is stored beside it.
"""

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from rltok.draws import row_uniforms
from rltok.optim import make_optimizer
from rltok.presets import preset
from rltok.results import device_name, repository_commit, versions
from rltok.step import new_model, train_step
from rltok.vocab import BOS


def measure(name: str, device: torch.device) -> dict[str, Any]:
    """Peak bytes allocated by one update of one micro-batch."""
    config = preset(name)
    batch, length = config.train.micro_batch, config.data.sequence_length
    config = replace(config, train=replace(config.train, sequences_per_update=batch))
    torch.manual_seed(0)
    ids = torch.randint(97, 123, (batch, length + 1), device=device)
    ids[:, 0] = BOS
    ids[:, 5::6] = ord(" ")
    uniforms = row_uniforms(0, 0, range(batch), length).to(device)
    torch.cuda.reset_peak_memory_stats(device)
    try:
        model = new_model(config, device).train()
        found = train_step(model, make_optimizer(model, config.train), [(ids, uniforms)], config, 1).to_dict()
        rate, fits = found["rate"], True
    except torch.cuda.OutOfMemoryError:
        rate, fits = None, False
    return {
        "preset": name,
        "config_hash": preset(name).digest(),
        "micro_batch": batch,
        "sequence_length": length,
        "rate": rate,
        "fits": fits,
        "peak_bytes": torch.cuda.max_memory_allocated(device),
    }


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--presets", nargs="+", required=True)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    device, runs = torch.device("cuda"), []
    for name in options.presets:
        runs.append(measure(name, device))
        print(runs[-1], flush=True)
        torch.cuda.empty_cache()
    record = {
        "schema": 1,
        "what": "peak memory of one update of one micro-batch, fresh weights",
        "commit": repository_commit(),
        "device": device_name(device),
        "card_bytes": torch.cuda.get_device_properties(device).total_memory,
        "versions": versions(),
        "runs": runs,
    }
    options.out.write_text(json.dumps(record, indent=1, allow_nan=False) + "\n")


if __name__ == "__main__":
    main()
