"""Uniform random numbers as a pure function of (seed, step, row), so that resume, one rank and two ranks agree."""

from collections.abc import Iterable, Sequence

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from rltok.errors import RltokError


def row_uniforms(seed: int, step: int, rows: Iterable[int], length: int) -> Float[Tensor, "B N"]:
    """Uniforms in [0, 1), one row for each global row number, from a counter-based generator (Philox).

    The numbers of a row depend on nothing but (seed, step, row): not on the batch it stands in, nor on the device.

    Args:
        seed: the run's seed, 0 to 2**63 - 1.
        step: number of the update; evaluation uses step 0 with a seed of its own.
        rows: global row numbers, at least 0.
        length: N, numbers per row. A longer row starts with the numbers of a shorter one.
    """
    if not (0 <= seed < 2**63 and 0 <= step < 2**63):
        raise RltokError(f"seed and step must lie between 0 and 2**63 - 1; got {seed} and {step}.")
    key = np.array([seed, step], dtype=np.uint64)  # as a list they would pass through float64, which merges large seeds
    made = [np.random.Generator(np.random.Philox(key=key, counter=[0, 0, 0, row])).random(length, np.float32) for row in rows]
    return torch.from_numpy(np.stack(made) if made else np.zeros((0, length), np.float32))


def drawn_rate(seed: int, step: int, number: int, lowest: float, highest: float) -> float:
    """The target rate of a micro-batch, log-uniform in a range: a function of (seed, step, number) that shares no number with
    `row_uniforms`.

    Args:
        seed, step: as in `row_uniforms`.
        number: of the micro-batch in the update, over all processes.
        lowest, highest: ends of the range, boundaries per byte.
    """
    key = np.array([seed, step], dtype=np.uint64)
    share = np.random.Generator(np.random.Philox(key=key, counter=[0, 0, 1, number])).random()
    return min(lowest * (highest / lowest) ** share, highest)  # rounding could carry it over the end


DRAWS = ("sample", "threshold", "mean")


def name_draws(draws: str, num_draws: int) -> str:
    """What a record calls a way of drawing in evaluation: "sample", "threshold" or "mean of 4".

    Raises:
        RltokError: no such way, or a number of draws that does not go with it.
    """
    if draws not in DRAWS:
        raise RltokError(f"draws must be one of {', '.join(DRAWS)}; got {draws!r}.")
    if draws == "mean" and num_draws < 2:
        raise RltokError(f"draws='mean' needs num_draws of at least 2; got {num_draws}. Give 4, or take draws='sample'.")
    if draws != "mean" and num_draws != 1:
        raise RltokError(f"draws={draws!r} is one draw; got num_draws={num_draws}. Take draws='mean', or leave num_draws out.")
    return f"mean of {num_draws}" if draws == "mean" else draws


def evaluation_uniforms(draws: str, seed: int, draw: int, rows: Sequence[int], length: int) -> Float[Tensor, "B N"]:
    """Uniforms of one draw in evaluation: those of (seed, draw, row), or 1/2 everywhere, which says whether p > 1/2.

    Draw 0 of a mean is the draw of "sample".
    """
    return torch.full((len(rows), length), 0.5) if draws == "threshold" else row_uniforms(seed, draw, rows, length)
