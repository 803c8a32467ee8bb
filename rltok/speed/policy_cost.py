"""What the boundary policy costs in time: whole updates with learned boundaries against the same rows with them given.

The second arm has as many tokens in the same places, and neither policy, early head nor rate loss.
"""

import math
import statistics
from functools import partial
from typing import Any

import torch
from torch import Tensor

from rltok.config import Config
from rltok.data import Corpus
from rltok.data.batches import micro_batches
from rltok.device import autocast
from rltok.errors import RltokError
from rltok.kernels import backends
from rltok.losses import Losses, mean_over
from rltok.metrics import StepMetrics
from rltok.optim import make_optimizer
from rltok.rules.base import first_position
from rltok.runs.models import new_model
from rltok.step import MicroBatch, train_step
from rltok.system.stopwatch import stopwatch
from rltok.unet import AutoregressiveUNet, UNetOutput
from rltok.vocab import PAD

LEAST_REPEATS = 5
UPDATES = 4  # pairs in a repeat
WARM_UP = 2  # untimed pairs
CONFIDENCE = 0.95


def check(config: Config, repeats: int) -> None:
    """Raise `RltokError` for too few repeats, or a rule without a policy."""
    if repeats < LEAST_REPEATS:
        raise RltokError(f"--repeats must be at least {LEAST_REPEATS}; got {repeats}. Fewer give no interval.")
    if config.model.rule.name != "learned":
        raise RltokError(f"model.rule.name={config.model.rule.name!r} has no policy whose cost could be timed. Take 'learned'.")


def policy_cost(config: Config, corpus: Corpus, device: torch.device, repeats: int) -> dict[str, Any]:
    """(seconds with learned boundaries) / (seconds with given ones) - 1: median over repeats, with an interval.

    A repeat's figure is the median over its pairs.

    Args:
        config: with learning rate 0 at step 1, so that both arms find the same weights throughout; rule "learned".
        corpus: text; both arms of a repeat take the same rows.
        device: where.
        repeats: at least 5, of a few pairs each: how long an update takes depends on its rows, so that arms are compared
            row by row.

    Raises:
        RltokError: as `check`.
    """
    check(config, repeats)
    model = new_model(config, device).train()
    optimizer = make_optimizer(model, config.train)
    costs = []
    for repeat in range(-1, repeats):  # the first warms up
        first = 1 + (repeat + 1) * UPDATES
        pairs = [_pair(model, optimizer, corpus, config, first + n) for n in range(UPDATES if repeat >= 0 else WARM_UP)]
        if repeat >= 0:
            cost = statistics.median(pair["learned"] / pair["given"] for pair in pairs) - 1
            costs.append({"learned": [p["learned"] for p in pairs], "given": [p["given"] for p in pairs], "cost": cost})
    low, high, confidence = median_interval([repeat["cost"] for repeat in costs])
    return {
        "what": "(learned - given) / given of whole updates, optimizer included, data already on the device",
        "pairs_a_repeat": UPDATES, "repeats": costs,
        "cost": statistics.median(repeat["cost"] for repeat in costs), "interval": [low, high], "confidence": confidence,
    }  # fmt: skip


def _pair(
    model: AutoregressiveUNet, optimizer: torch.optim.Optimizer, corpus: Corpus, config: Config, number: int
) -> dict[str, float]:
    """Seconds of update `number` in each arm, one after the other on the same rows; which comes first alternates."""
    batches = micro_batches(corpus, config, number, next(model.parameters()).device)
    given = _drawn(model, batches, config)
    arms = ("learned", "given") if number % 2 else ("given", "learned")
    step = partial(_step, model=model, optimizer=optimizer, batches=batches, given=given, config=config)
    return {arm: stopwatch(partial(step, arm), batches[0][0].device)[0] for arm in arms}


def _step(
    arm: str, model: AutoregressiveUNet, optimizer: torch.optim.Optimizer, batches: list[MicroBatch], given: list[Tensor],
    config: Config,
) -> None:  # fmt: skip
    if arm == "learned":
        with backends.graphs(False):  # which the other arm has not
            train_step(model, optimizer, batches, config, 1)
    else:
        given_step(model, optimizer, batches, given, config)


def given_step(
    model: AutoregressiveUNet, optimizer: torch.optim.Optimizer, batches: list[MicroBatch], given: list[Tensor], config: Config
) -> StepMetrics:
    """One update at learning rate 0 with boundaries prescribed and eq. (25) alone; what `train_step` notes of such an update."""
    total = sum((ids[:, 1:] != PAD).sum() for ids, _ in batches)
    metrics = StepMetrics(1)
    optimizer.zero_grad(set_to_none=True)
    for (ids, _), boundaries in zip(batches, given, strict=True):
        with autocast(config, ids.device):
            nll = model.given_nll(ids, boundaries)
        scored, none = ids[:, 1:] != PAD, torch.zeros_like(nll)
        losses = Losses(auto=mean_over(nll, scored), early=none[0, 0], policy=none[0, 0], target=none[0, 0], aux=none[0, 0])
        (losses.auto * (scored.sum() / total)).backward()
        drawn = scored & ~first_position(scored)
        metrics.add(ids, UNetOutput(nll, none, boundaries, None, scored, drawn, none[0, 0]), losses, none)
    metrics.grad_norm = torch.nn.utils.clip_grad_norm_(model.parameters(), config.train.clip_norm)
    metrics.check_finite()
    for group in optimizer.param_groups:
        group["lr"] = 0.0
    optimizer.step()
    return metrics


@torch.no_grad()
def _drawn(model: AutoregressiveUNet, batches: list[MicroBatch], config: Config) -> list[Tensor]:
    """The boundaries that an update draws, by the draw that trains."""
    made = []
    for ids, uniforms in batches:
        with autocast(config, ids.device):
            first = uniforms[:, : ids.shape[1] - 1]
            made.append(model.decide(model.encode(ids[:, :-1]), ids, uniforms=first).boundaries)
    return made


def median_interval(values: list[float]) -> tuple[float, float, float]:
    """Two of the values that hold the median between them, and how surely: 0.95 or, of few values, what their ends give."""
    ordered, count = sorted(values), len(values)
    outside, cut = 2 * 0.5**count, 0  # the chance that the median lies beyond the ends
    while 2 * (cut + 1) < count and (more := outside + 2 * math.comb(count, cut + 1) * 0.5**count) <= 1 - CONFIDENCE:
        outside, cut = more, cut + 1
    return ordered[cut], ordered[count - 1 - cut], 1 - outside
