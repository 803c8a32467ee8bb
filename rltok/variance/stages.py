"""`rltok variance`: train a small model, stop at chosen moments, and measure every rung of the ladder there.

One call gives one record: the ladder at each stage, with everything that names the measurement.
"""

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from functools import partial
from typing import Any

import torch
from torch import Tensor

from rltok.config import Config
from rltok.data import Corpus
from rltok.data.batches import micro_batches
from rltok.device import gradient_scaler
from rltok.optim import make_optimizer
from rltok.presets import check_batch_fits
from rltok.runs.memory import with_oom_advice
from rltok.runs.models import new_model
from rltok.runs.results import origin
from rltok.step import train_step
from rltok.unet import AutoregressiveUNet
from rltok.variance.gradients import GROUPS
from rltok.variance.laboratory import Gradients, Sizes, batches_of, measure_gradients
from rltok.variance.statistics import measured_cosines, products_of, reference_error, shared_parameters, with_intervals

STAGES = {"start": 0.0, "early": 0.1, "late": 1.0}  # share of the updates that are done
LAMBDAS = [0.01, 0.1, 0.3, 1.0]  # weights of the policy term that `shared_parameters` compares; tiny trains with 0.3
LADDER_RECORD = "variance ladder"  # how the description of a record begins
BINS = 32  # of positions in a record
FULL = "causal+early+gamma0.9+batch"  # the estimator whose weight `shared_parameters` varies: all reductions, as presets train


def at_stages(
    config: Config, corpus: Corpus, stages: dict[str, float], device: torch.device
) -> Iterator[tuple[str, int, AutoregressiveUNet]]:
    """Train, and stop after each share of the updates: (stage, finished updates, model in training mode)."""
    check_batch_fits(config, len(corpus.train), corpus.train.total_bytes)
    model = new_model(config, device).train()
    optimizer, done = make_optimizer(model, config.train), 0
    step = partial(train_step, scaler=gradient_scaler(config, device))
    for stage, share in sorted(stages.items(), key=lambda item: item[1]):
        while done < round(share * config.num_updates):
            done += 1
            with_oom_advice(step, model, optimizer, micro_batches(corpus, config, done, device), config, done)
        model.zero_grad(set_to_none=True)
        yield stage, done, model


def measure_stage(model: AutoregressiveUNet, batches: list[Tensor], names: list[str], sizes: Sizes, seed: int) -> dict[str, Any]:
    """Every measure of every estimator at the present weights, as plain values; by group of parameters."""
    measured = measure_gradients(model, batches, names, sizes, seed)
    groups = {}
    for group in GROUPS:
        groups[group] = {
            "reference_error": reference_error(measured, group),
            "estimators": {name: with_intervals(products_of(measured, name, group)) for name in names},
            "cosines": {name: measured_cosines(measured, name, group) for name in names},
        }
    shared = {name: shared_parameters(measured, name, LAMBDAS) for name in (FULL,) if name in names}
    rms = {name: measured.advantage_rms[name] for name in names}
    return rounded({"means": measured.means, **groups, "shared": shared, "advantage_rms": rms, **_positions(measured)})


def _positions(measured: Gradients) -> dict[str, Any]:
    """Mean reward, and spread of the returns, in bins of neighbouring positions."""
    length = len(measured.rewards)
    edges = torch.linspace(0, length, min(BINS, length) + 1).round().long().tolist()
    bins = list(zip(edges[:-1], edges[1:], strict=True))

    def binned(values: Tensor) -> list[float]:
        return [float(values[start:stop].mean()) for start, stop in bins]

    return {
        "positions": [(start + stop - 1) / 2 for start, stop in bins],
        "mean_reward": binned(measured.rewards),
        "return_spread": {gamma: binned(values) for gamma, values in measured.return_spread.items()},
    }


def rounded(value: Any, digits: int = 5) -> Any:
    """Floats to so many significant digits, all the way down."""
    if isinstance(value, dict):
        return {key: rounded(inner, digits) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(inner, digits) for inner in value]
    return float(f"{value:.{digits}g}") if isinstance(value, float) and math.isfinite(value) else value


def measure_ladder(
    configs: Callable[[int], Config], corpus: Corpus, names: list[str], sizes: Sizes, seeds: list[int], device: torch.device,
    say: Callable[[str], None] = lambda _: None,
) -> dict[str, Any]:  # fmt: skip
    """The ladder at every stage of training, for every seed: the record that chapter 03 reads.

    Args:
        configs: the configuration that each seed trains.
        names: estimators.
        sizes: how much is measured; rows come from the training text, each at most once.
        seeds: of training, rows and draws; at least one.
        say: called with a line of progress.
    """
    start, measured = time.perf_counter(), []
    for seed in seeds:
        chosen = batches_of(corpus.train, sizes, seed, device)
        before = None
        for stage, step, model in at_stages(configs(seed), corpus, STAGES, device):
            same = f", the same weights as {before[0]}" if before and before[1] == step else ""
            say(f"seed {seed}, {stage}: {step} updates done{same}, measuring {len(names)} estimators")
            before = (stage, step)
            measured.append({"seed": seed, "stage": stage, "step": step, **measure_stage(model, chosen, names, sizes, seed)})
    return record_of(configs(seeds[0]), corpus, measured, sizes, device, start)


def record_of(
    config: Config, corpus: Corpus, measured: list[dict[str, Any]], sizes: Sizes, device: torch.device, start: float
) -> dict[str, Any]:
    """The record of a measurement, with everything that identifies it."""
    return {
        "schema": 1,
        "what": f"{LADDER_RECORD}: policy-gradient estimators on real rows, by stage of training",
        **origin(config, corpus.description, device),
        **asdict(sizes),
        "seconds": round(time.perf_counter() - start, 1),
        "stages": measured,
    }
