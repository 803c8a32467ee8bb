"""What measuring scripts share that train a small model in their own way: its curve, its score, and a record that resumes."""

import argparse
import math
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch

from rltok.config import Config, with_settings
from rltok.data import Corpus, load_corpus
from rltok.data.batches import micro_batches
from rltok.evaluation import Evaluation, evaluate
from rltok.evidence.measuring import Run, at_least, stored_runs
from rltok.losses import target_rate_loss
from rltok.optim import make_optimizer
from rltok.presets import preset
from rltok.runs.models import new_model
from rltok.runs.results import device_name, repository_commit, thin, versions
from rltok.step import RateLoss, train_step
from rltok.system.files import write_json
from rltok.unet import AutoregressiveUNet

Job = tuple[Any, ...]
CURVE_POINTS = 60
CPU = torch.device("cpu")


def config_of(seed: int, updates: int) -> Config:
    """The preset tiny with this seed, for so many updates."""
    tiny = preset("tiny", {"train.seed": seed})
    return with_settings(tiny, {"train.training_bytes": updates * tiny.bytes_per_update})


def last_fifth(values: list[float]) -> list[float]:
    """The last fifth of them, at least one."""
    return values[-max(1, len(values) // 5) :]


def trained(
    config: Config, corpus: Corpus, prepare: Callable[[AutoregressiveUNet], None], rate_loss: RateLoss = target_rate_loss
) -> tuple[AutoregressiveUNet, list[dict[str, float]], float]:  # fmt: skip
    """(model, rate and nll of every update, seconds) of the run that `rltok train` makes, from a model that `prepare` changed."""
    model = new_model(config, CPU)
    prepare(model)
    optimizer, curve, start = make_optimizer(model, config.train), list[dict[str, float]](), time.perf_counter()
    for step in range(1, config.num_updates + 1):
        metrics = train_step(model, optimizer, micro_batches(corpus, config, step, CPU), config, step, rate_loss=rate_loss)
        line = metrics.to_dict()
        curve.append({"step": step, **{key: line[key] for key in ("rate", "nll", "early_nll", "policy_entropy")}})
    return model, curve, time.perf_counter() - start


def facts(config: Config, curve: list[dict[str, float]], score: Evaluation, seconds: float) -> dict[str, Any]:
    """What a record says of every run."""
    return {
        "seed": config.train.seed,
        "start_rate": curve[0]["rate"],
        "rate": math.fsum(part := last_fifth([point["rate"] for point in curve])) / len(part),
        "held_out_rate": score.rate,
        "bits_per_byte": score.bits_per_byte,
        "early_bits_per_byte": score.early_bits_per_byte,
        "standard_error": score.standard_error,
        "policy_entropy": score.policy_entropy,
        "whitespace_share": score.whitespace_share,
        "config_hash": config.digest(),
        "commit": repository_commit(),
        "device": device_name(CPU),
        "updates": len(curve),
        "seconds": round(seconds, 1),
        "curve": [{key: round(value, 4) for key, value in point.items()} for point in thin(curve, CURVE_POINTS)],
    }


def scored(model: AutoregressiveUNet, corpus: Corpus, config: Config) -> Evaluation:
    """The held-out score as training takes it."""
    train = config.train
    return evaluate(model, corpus.validation, seed=train.seed, batch=train.micro_batch, max_rows=train.evaluate_rows)


def arguments(description: str, updates: int) -> argparse.ArgumentParser:
    """The options that all of these scripts have; `updates` make a full run."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, nargs="+", required=True)
    parser.add_argument("--updates", type=int, default=updates, help=f"fewer than {updates} are marked as not full")
    return parser


def parsed(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """The options, numbers checked and values of a list once each."""
    options = parser.parse_args()
    at_least(1, updates=options.updates)
    at_least(0, seeds=min(options.seeds))
    for name, value in vars(options).items():
        if isinstance(value, list):
            setattr(options, name, list(dict.fromkeys(value)))
    return options


def run_missing(
    options: argparse.Namespace, what: str, jobs: Iterable[Job], key_of: Callable[[Run], Job],
    make: Callable[[Job, Config, Corpus], Run], remade: Callable[[list[Run], Corpus], dict[str, Any]],
    line_of: Callable[[Run], str],
) -> dict[str, Any]:  # fmt: skip
    """All runs that the file does not hold yet; the record is written after each: an interruption loses what is under way.

    Args:
        options: `out` and `updates`.
        what: name of the record.
        jobs: keys of the runs that are wanted; the last entry is the seed.
        key_of: key of a run.
        make: a run, from key, configuration and text.
        remade: the record of runs.
        line_of: a line on a run, for the terminal.
    """
    corpus = load_corpus("sample", config_of(0, options.updates).data)
    runs = stored_runs(
        options.out, what, key_of, lambda run: config_of(run["seed"], options.updates), lambda runs: remade(runs, corpus)
    )
    have = set(map(key_of, runs))
    missing = [job for job in jobs if job not in have]
    for number, job in enumerate(missing, start=1):
        runs.append(make(job, config_of(job[-1], options.updates), corpus))
        write_json(options.out, remade(runs, corpus))
        print(f"{number}/{len(missing)}  {line_of(runs[-1])}", file=sys.stderr, flush=True)
    record = remade(runs, corpus)
    write_json(options.out, record)
    return record


def record_of(what: str, full: bool, shared: Config, corpus: Corpus, runs: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    """The runs with everything that names the measurement; `shared` is the configuration of all of them, but for the seed."""
    return {
        "schema": 1,
        "what": what,
        "full": full,
        **more,
        "config": shared.to_dict(),
        "config_hash": shared.digest(),
        "data": corpus.description,
        "versions": versions(),
        "runs": runs,
    }
