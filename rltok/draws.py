"""Uniform random numbers as a pure function of (seed, step, row), so that resume, one rank and two ranks agree."""

from collections.abc import Iterable

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor


def row_uniforms(seed: int, step: int, rows: Iterable[int], length: int) -> Float[Tensor, "B N"]:
    """Uniforms in [0, 1), one row for each global row number, from a counter-based generator (Philox).

    The numbers of a row depend on nothing but (seed, step, row): not on the batch it stands in, nor on the device.

    Args:
        seed: the run's seed, 0 to 2**63 - 1.
        step: number of the update; evaluation uses step 0 with a seed of its own.
        rows: global row numbers, at least 0.
        length: N, numbers per row. A longer row starts with the numbers of a shorter one.
    """
    made = [
        np.random.Generator(np.random.Philox(key=[seed, step], counter=[0, 0, 0, row])).random(length, np.float32) for row in rows
    ]
    return torch.from_numpy(np.stack(made) if made else np.zeros((0, length), np.float32))
