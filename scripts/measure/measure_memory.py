"""Peak memory of one update with a boundary at every second byte, on a CUDA card: what straight-through rules may start with.

    python scripts/measure/measure_memory.py --presets 147m_hnet 147m_dynamic_pooling --out notebooks/results/memory.json

One micro-batch of random letters through forward, backward and optimizer, with fresh weights. Memory depends on the number of
tokens; so that it is known, boundaries are prescribed: BOS and every second byte after it.
"""

import argparse
from pathlib import Path
from typing import Any

import torch

from rltok.device import autocast
from rltok.errors import RltokError
from rltok.estimator import advantages
from rltok.evidence.measuring import run, stored_record
from rltok.optim import make_optimizer
from rltok.presets import preset
from rltok.runs.models import new_model
from rltok.runs.results import device_name, repository_commit, versions
from rltok.step import losses_of
from rltok.system.files import write_json
from rltok.vocab import BOS

WHAT = "peak memory of one update of one micro-batch, fresh weights, a boundary at every second byte"


def measure(name: str, device: torch.device) -> dict[str, Any]:
    """Peak bytes allocated by one update of one micro-batch."""
    config = preset(name)
    batch, length = config.train.micro_batch, config.data.sequence_length
    torch.manual_seed(0)
    ids = torch.randint(97, 123, (batch, length + 1), device=device)
    ids[:, 0] = BOS
    half = torch.arange(length, device=device).remainder(2).eq(0).expand(batch, length)
    torch.cuda.reset_peak_memory_stats(device)
    try:
        model = new_model(config, device).train()
        optimizer = make_optimizer(model, config.train)
        with autocast(config, device):
            out = model(ids, boundaries=half)
        paid = advantages(out.nll, out.early_nll, out.scored, **config.objective.reductions)
        losses = losses_of(out, paid, config.model.rule.target_rate)
        (losses.auto + losses.early + losses.policy + losses.target + losses.aux).backward()
        optimizer.step()
        tokens, fits = float(out.boundaries.float().mean()), True
    except torch.cuda.OutOfMemoryError:
        tokens, fits = None, False
    return {
        "preset": name,
        "config_hash": preset(name).digest(),
        "micro_batch": batch,
        "sequence_length": length,
        "tokens_per_byte": tokens,
        "fits": fits,
        "peak_bytes": torch.cuda.max_memory_allocated(device),
    }


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--presets", nargs="+", required=True)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    stored_record(options.out, WHAT)
    for name in options.presets:
        preset(name)  # a wrong one is told before anything runs
    if not torch.cuda.is_available():
        raise RltokError("there is no CUDA card, whose memory this measures.")
    device, runs = torch.device("cuda"), []
    for name in options.presets:
        runs.append(measure(name, device))
        print(runs[-1], flush=True)
        torch.cuda.empty_cache()
    write_json(
        options.out,
        {
            "schema": 1, "what": WHAT, "commit": repository_commit(), "device": device_name(device),
            "card_bytes": torch.cuda.get_device_properties(device).total_memory, "versions": versions(), "runs": runs,
        },
    )  # fmt: skip


if __name__ == "__main__":
    run(main)
