"""Advice for an update that does not fit into memory: the largest micro-batch that does, by trial; nothing is split silently.

A smaller micro-batch changes the mean of eq. (17), hence the estimator; so the choice stays with the user.
"""

import gc
from collections.abc import Callable
from contextlib import nullcontext

import torch
from torch import Tensor

from rltok.config import Config
from rltok.errors import TrainingFailed
from rltok.fast import graphs
from rltok.metrics import StepMetrics
from rltok.ranks import ALONE, Ranks
from rltok.registry import RULES
from rltok.step import MicroBatch, accumulate_gradient
from rltok.unet import AutoregressiveUNet

Step = Callable[[AutoregressiveUNet, torch.optim.Optimizer, list[MicroBatch], Config, int], StepMetrics]


def with_oom_advice(
    train_step: Step, model: AutoregressiveUNet, optimizer: torch.optim.Optimizer, batches: list[MicroBatch], config: Config,
    step: int, ranks: Ranks = ALONE,
) -> StepMetrics:  # fmt: skip
    """`train_step`, with advice in place of torch's error when memory runs out.

    Raises:
        RltokError: out of memory; it names the largest micro-batch that fits, or, where several processes compute the update,
            how many rows did not. Weights, optimizer, random state and the rate that boundaries are drawn at are those from
            before, the gradients are gone.
    """
    while True:
        try:
            return train_step(model, optimizer, batches, config, step)
        except torch.OutOfMemoryError:
            pass  # leaving the block lets go of the traceback, which would keep the activations alive
        if not graphs.refuse(model):
            break
        _free(optimizer)  # without the memory that graphs keep, the update may fit
    device = batches[0][0].device
    used = _in_use(device)
    if ranks.count > 1:  # whose gradients are exchanged in every backward pass, so that none can be tried alone
        raise TrainingFailed(
            f"out of memory in process {ranks.number} of {ranks.count} at train.micro_batch={config.train.micro_batch},"
            f" {len(batches[0][0])} rows of it here{used}. Start more processes, or lower it (eq. (17) has the mean of fewer),"
            f" data.sequence_length={config.data.sequence_length} or the size of the model."
        )
    rates = model.rule.rates
    with nullcontext() if rates is None else model.rule.at_rate(rates[1]):  # the highest takes the most memory
        fitting = largest_fitting(model, optimizer, batches[0], config, smaller_sizes(config))
    raise _advice(config, fitting, used)


def smaller_sizes(config: Config) -> list[int]:
    """Smaller micro-batches that divide an update, largest first; at least 2 rows where eq. (17) takes a mean."""
    least = 2 if _centres(config) else 1
    whole = config.train.sequences_per_update
    return [rows for rows in range(config.train.micro_batch - 1, least - 1, -1) if whole % rows == 0]


def largest_fitting(
    model: AutoregressiveUNet, optimizer: torch.optim.Optimizer, batch: MicroBatch, config: Config, sizes: list[int]
) -> int | None:
    """The first size at which so many rows of the batch go forward and backward, or None; leaves no gradients.

    Each size is tried twice, because the second micro-batch has gradients to add to, and with memory set aside for the state
    that AdamW makes at its first step.
    """
    for rows in sizes:
        graphs.forget(model)  # each size has those that training would have
        _free(optimizer)
        if _fits(model, optimizer, (batch[0][:rows], batch[1][:rows]), config):
            break
    else:
        rows = None
    graphs.forget(model)
    _free(optimizer)
    return rows


def _fits(model: AutoregressiveUNet, optimizer: torch.optim.Optimizer, batch: MicroBatch, config: Config) -> bool:
    device = batch[0].device
    try:
        with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
            reserved = _room_for_state(optimizer)
            for _ in range(2):
                accumulate_gradient(model, batch, config, 1.0)
            del reserved
    except torch.OutOfMemoryError:
        return False
    return True


def peak_bytes(model: AutoregressiveUNet, device: torch.device) -> int:
    """Most memory of a card so far: what was allocated or, where a model has CUDA graphs, reserved (`graphs.has`)."""
    return torch.cuda.max_memory_reserved(device) if graphs.has(model) else torch.cuda.max_memory_allocated(device)


def _room_for_state(optimizer: torch.optim.Optimizer) -> list[Tensor]:
    """Two tensors for each parameter, like the state of AdamW; none where the state exists."""
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    return [] if optimizer.state else [torch.empty_like(p) for p in parameters for _ in range(2)]


def _free(optimizer: torch.optim.Optimizer) -> None:
    optimizer.zero_grad(set_to_none=True)
    gc.collect()
    if torch.cuda.is_initialized():
        torch.cuda.empty_cache()


def _centres(config: Config) -> bool:
    return config.objective.centring != "none" and RULES[config.model.rule.name].policy


def _in_use(device: torch.device) -> str:
    if device.type != "cuda":
        return ""
    free, total = torch.cuda.mem_get_info(device)
    return f" (card of {total / 1e9:.0f} GB, {(total - free) / 1e9:.0f} GB in use)"


def _advice(config: Config, fitting: int | None, used: str) -> TrainingFailed:
    draws = config.objective.draws
    several = "" if draws == 1 else f" with objective.draws={draws}, of which 1 takes the least memory"
    problem = f"out of memory at train.micro_batch={config.train.micro_batch}{several}{used}"
    if fitting is None:
        tried = smaller_sizes(config)
        smaller = f"neither fits a smaller one ({', '.join(map(str, tried))} tried)" if tried else "there is no smaller one"
        return TrainingFailed(
            f"{problem}, and {smaller}. Lower data.sequence_length={config.data.sequence_length}, or the size of the model:"
            f" model.embedding_dim={config.model.embedding_dim}, model.mid_layers={config.model.mid_layers}."
        )
    effect = (
        "it changes the mean of eq. (17), so compare only runs of one size"
        if _centres(config)
        else "the update stays the same mean over all its bytes"
    )
    rows = "1 row fits" if fitting == 1 else f"{fitting} rows fit"
    return TrainingFailed(f"{problem}; {rows}, as tried. Set train.micro_batch={fitting}; {effect}.")
