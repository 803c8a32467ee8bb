"""What measuring scripts share that train a small model in their own way: its curve, its score, and a record that resumes."""

import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from record_files import reading, stored_record

from rltok.config import Config, with_settings
from rltok.data import Corpus
from rltok.errors import RltokError
from rltok.evaluation import Evaluation, evaluate
from rltok.losses import target_rate_loss
from rltok.optim import make_optimizer
from rltok.presets import preset
from rltok.results import device_name, repository_commit, thin, versions
from rltok.step import RateLoss, micro_batches, new_model, train_step
from rltok.unet import AutoregressiveUNet

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
        found = metrics.to_dict()
        curve.append({"step": step, **{key: found[key] for key in ("rate", "nll", "early_nll", "policy_entropy")}})
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


def stored_runs(
    path: Path, what: str, data: dict[str, Any], config_of: Callable[[dict[str, Any]], Config],
    remade: Callable[[list[dict[str, Any]]], Any],
) -> list[dict[str, Any]]:  # fmt: skip
    """The runs of a record of the same text and settings, of which `remade` makes a record; none if there is no such file."""
    record = stored_record(path, what)
    if record is None:
        return []
    with reading(path):
        if record["data"] != data:
            raise RltokError(f"--out {path} holds runs on other text, so it stays. Name another file.")
        if any(config_of(found).digest() != found["config_hash"] for found in record["runs"]):
            raise RltokError(f"--out {path} holds runs of other settings, so it stays. Name another file.")
        remade(record["runs"])  # a run that lacks something is told now, not after hours
    return record["runs"]


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
