"""Micro-batches of an update: rows of text and the uniforms that draw their boundaries, on the device."""

from functools import partial

import numpy as np
import torch
from torch import Tensor

from rltok.config import Config
from rltok.data.corpus import Corpus
from rltok.data.order import rank_rows, row_indices, sharing
from rltok.ranks import ALONE, Ranks
from rltok.rng import row_uniforms


def micro_batches(
    corpus: Corpus, config: Config, step: int, device: torch.device, ranks: Ranks = ALONE
) -> list[tuple[Tensor, Tensor]]:  # fmt: skip
    """(ids [B, N + 1], uniforms [B, draws * N]) of each micro-batch of update `step` (from 1).

    Of several processes each gets the part that falls to it. They are pure functions of seed, step and global row number.
    """
    return [_micro_batch(corpus, config, ranks, step, number, device) for number in range(_forward_passes(config, ranks))]


def _forward_passes(config: Config, ranks: Ranks) -> int:
    """Of one process in an update."""
    train = config.train
    return config.micro_batches_per_update * sharing(train.sequences_per_update, train.micro_batch, ranks.count) // ranks.count


def _micro_batch(
    corpus: Corpus, config: Config, ranks: Ranks, step: int, number: int, device: torch.device
) -> tuple[Tensor, Tensor]:  # fmt: skip
    train, size = config.train, config.train.sequences_per_update

    def own(rows: np.ndarray) -> np.ndarray:
        return rank_rows(rows, ranks.number, ranks.count, train.micro_batch)[number]

    ids = corpus.train.ids(own(row_indices(train.seed, step - 1, size, len(corpus.train))))
    rows = own(np.arange((step - 1) * size, step * size))
    numbers = config.objective.draws * (ids.shape[1] - 1)
    return _moved(ids, device), _moved(row_uniforms(train.seed, step, rows.tolist(), numbers), device)


def _moved(x: Tensor, device: torch.device) -> Tensor:
    """Copy to the device; to a card without waiting for it, which takes pinned memory."""
    return x.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else x.to(device)


class Prefetcher:
    """Micro-batches of consecutive updates; on a card, those of the next update are made while it computes the current one.

    Args:
        corpus, config, device, ranks: as in `micro_batches`.
        last: number of the last update; nothing is made beyond it.
    """

    def __init__(self, corpus: Corpus, config: Config, device: torch.device, last: int, ranks: Ranks = ALONE) -> None:
        self._make = partial(_micro_batch, corpus, config, ranks, device=device)
        self._count = _forward_passes(config, ranks)
        self._last = last if device.type == "cuda" else 0  # a CPU gains nothing
        self._step, self._ready = 0, list[tuple[Tensor, Tensor]]()

    def __call__(self, step: int) -> list[tuple[Tensor, Tensor]]:
        """`micro_batches` of update `step`."""
        ready = self._ready if self._step + 1 == step else []
        self._step, self._ready = step, []
        return ready + [self._make(step=step, number=number) for number in range(len(ready), self._count)]

    def prepare(self) -> None:
        """Make one more micro-batch of the next update; `train_step` calls it while the card is busy."""
        if self._step < self._last and len(self._ready) < self._count:
            self._ready.append(self._make(step=self._step + 1, number=len(self._ready)))
