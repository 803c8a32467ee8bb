"""Common parts of rules that are fitted to the training text before the first update and then never change."""

from collections.abc import Iterator

import numpy as np
import torch
from jaxtyping import Int

from rltok.errors import RltokError
from rltok.rules.base import Rule, TrainingRows

ROWS_AT_A_TIME = 256


class FittedRule(Rule):
    """A rule that must be fitted. The fit lives in buffers and frozen parameters, so that checkpoints hold all of it."""

    name = ""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("fitted", torch.tensor(False))

    def require_fit(self) -> None:
        """Raise `RltokError` unless `fit` has run or a fitted rule was loaded."""
        if not bool(self.fitted):
            raise RltokError(
                f"the rule {self.name!r} has not seen any text yet. Fit it first: model.rule.fit(corpus.train, seed=0);"
                " training does so before its first update."
            )


def row_order(rows: TrainingRows, seed: int) -> Int[np.ndarray, " R"]:
    """All row numbers in an order that the seed decides."""
    return torch.randperm(len(rows), generator=torch.Generator().manual_seed(seed)).numpy()


def rows_in_random_order(rows: TrainingRows, seed: int, most_bytes: int) -> Iterator[Int[np.ndarray, " N_plus_1"]]:
    """Rows of ids, each at most once, until `most_bytes` input positions have come; at least one row."""
    order, given = row_order(rows, seed), 0
    for start in range(0, len(order), ROWS_AT_A_TIME):
        for row in rows.ids(order[start : start + ROWS_AT_A_TIME]).numpy():
            if given and given + len(row) - 1 > most_bytes:
                return
            given += len(row) - 1
            yield row
