"""Fast path against plain path on a CUDA card: loss and gradients beside float64, then training with several seeds.

    python scripts/measure/measure_paths.py --data english-train-000.parquet --seeds 0 1 2 --out notebooks/results/fast_path.json

First one pass with prescribed boundaries through fresh weights of the preset: how far loss and every gradient of either path are
from the same pass in float64, relative to its length. Then `--updates` updates a seed on either path, same rows, same uniforms,
with kernels counted that were compiled after the first five updates.
"""

import argparse
import copy
import statistics
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch

from rltok.config import Config, with_settings
from rltok.data import Corpus, load_corpus
from rltok.data.batches import Prefetcher
from rltok.errors import RltokError
from rltok.estimator import advantages
from rltok.evidence.measuring import at_least, run, stored_record
from rltok.kernels import backends
from rltok.optim import make_optimizer
from rltok.presets import preset
from rltok.runs.models import new_model
from rltok.runs.results import device_name, repository_commit, versions
from rltok.speed.kernel_times import compilations
from rltok.step import losses_of, train_step
from rltok.system.files import write_json
from rltok.unet import AutoregressiveUNet

WHAT = "fast path against plain path: distance from float64, and training"
WARM_UP = 5  # updates
LAST = 50  # updates whose mean loss is compared
PATHS = ("plain", "triton")


def one_pass(
    model: AutoregressiveUNet, ids: torch.Tensor, boundaries: torch.Tensor, config: Config, path: str | None
) -> dict[str, torch.Tensor]:
    """Losses of each byte and gradients of the objective; path None is plain in float64."""
    model = copy.deepcopy(model).to(torch.float64 if path is None else torch.float32)
    narrow = nullcontext() if path is None else torch.autocast("cuda", torch.bfloat16)
    with backends.use(path or "plain"), narrow:
        out = model(ids, boundaries=boundaries)
    paid = advantages(out.nll, out.early_nll, out.scored, **config.objective.reductions)
    losses = losses_of(out, paid, config.model.rule.target_rate)
    losses.total(**config.objective.weights).backward()
    gradients = {f"gradient {name}": p.grad for name, p in model.named_parameters()}
    return {"nll": out.nll.detach(), "early_nll": out.early_nll.detach()} | gradients


def distances(config: Config, corpus: Corpus, rows: int) -> dict[str, Any]:
    """||path - float64|| / ||float64||: of the losses, of the whole gradient, and of the parameter where it is largest."""
    device = torch.device("cuda")
    model, ids = new_model(config, device).train(), corpus.train.ids(list(range(rows))).to(device)
    generator = torch.Generator().manual_seed(config.train.seed)
    boundaries = torch.rand(rows, ids.shape[1] - 1, generator=generator).lt(config.model.rule.target_rate)
    boundaries[:, 0] = True
    exact = one_pass(model, ids, boundaries.to(device), config, None)
    by_path = {}
    for path in PATHS:
        values = one_pass(model, ids, boundaries.to(device), config, path)
        off = {name: float((values[name].double() - value).norm() / value.norm()) for name, value in exact.items()}
        gradients = [name for name in exact if name.startswith("gradient ")]
        squares = [
            sum(float(x.square().sum()) for x in (values[n].double() - exact[n] for n in gradients)),
            sum(float(exact[n].square().sum()) for n in gradients),
        ]
        worst = max(gradients, key=off.__getitem__)
        by_path[path] = {
            "nll": off["nll"], "early_nll": off["early_nll"], "gradient": (squares[0] / squares[1]) ** 0.5,
            "worst_parameter": worst.removeprefix("gradient "), "worst": off[worst],
            "median": statistics.median(off[name] for name in gradients),
        }  # fmt: skip
    return {"rows": rows, **by_path}


def losses_of_training(config: Config, corpus: Corpus, path: str, updates: int) -> dict[str, Any]:
    """NLL of every update in nats per byte, tokens per byte, kernels compiled after the warm-up."""
    device = torch.device("cuda")
    with backends.use(path):
        model = new_model(config, device).train()
        optimizer, batches = make_optimizer(model, config.train), Prefetcher(corpus, config, device, updates)
        nll, tokens, built = [], [], 0
        for step in range(1, updates + 1):
            metrics = train_step(model, optimizer, batches(step), config, step, batches.prepare).to_dict()
            nll.append(metrics["nll"])
            tokens.append(metrics["tokens_per_byte"])
            built = compilations() if step == WARM_UP else built
    return {
        "path": path, "seed": config.train.seed, "nll": nll, "last_mean": statistics.fmean(nll[-LAST:]),
        "tokens_per_byte": [min(tokens), max(tokens)], "compiled_after_warm_up": compilations() - built,
    }  # fmt: skip


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", required=True)
    parser.add_argument("--preset", default="32m")
    parser.add_argument("--micro-batch", type=int, default=16, help="rows of a training update (default: 16)")
    parser.add_argument("--updates", type=int, default=200)
    parser.add_argument("--rows", type=int, default=4, help="of the pass beside float64 (default: 4)")
    parser.add_argument("--distance-presets", nargs="+", default=["32m", "147m"])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    at_least(WARM_UP + LAST, updates=options.updates)
    at_least(1, rows=options.rows)
    stored_record(options.out, WHAT)
    if not torch.cuda.is_available():
        raise RltokError("there is no CUDA card, so there is no fast path to compare.")
    rows = options.micro_batch
    settings = {"data.cut": "full_windows", "train.micro_batch": rows, "train.sequences_per_update": rows}
    base = preset(options.preset, settings)
    base = with_settings(base, {"train.training_bytes": options.updates * base.bytes_per_update})
    corpus = load_corpus(options.data, base.data)
    apart = {
        name: distances(preset(name, {"data.cut": "full_windows"}), corpus, options.rows) for name in options.distance_presets
    }
    print(apart, flush=True)
    runs = []
    for seed in options.seeds:
        for path in PATHS:
            runs.append(losses_of_training(with_settings(base, {"train.seed": seed}), corpus, path, options.updates))
            print({key: value for key, value in runs[-1].items() if key != "nll"}, flush=True)
    means = {path: [one["last_mean"] for one in runs if one["path"] == path] for path in PATHS}
    record = {
        "schema": 1, "what": WHAT, "commit": repository_commit(), "device": device_name(torch.device("cuda")),
        "versions": versions(), "data": corpus.description, "config": base.to_dict(), "config_hash": base.digest(),
        "distances": apart, "updates": options.updates, "last": LAST, "runs": runs,
        "means": {path: statistics.fmean(values) for path, values in means.items()},
        "seed_deviation": statistics.stdev(means["plain"]) if len(options.seeds) > 1 else None,
    }  # fmt: skip
    write_json(options.out, record)
    print(record["means"], record["seed_deviation"])


if __name__ == "__main__":
    run(main)
