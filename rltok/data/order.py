"""Which rows each update trains on: a pure function of seed and step, so that a run resumes without saved state."""

import math
from functools import lru_cache

import numpy as np

from rltok.errors import RltokError


@lru_cache(maxsize=2)  # an update may straddle two passes
def pass_order(seed: int, pass_number: int, num_rows: int) -> np.ndarray:
    """Order of the rows in one pass over the corpus: a permutation of 0..num_rows-1, int64, read-only."""
    # Sorting raw 64-bit draws, because NumPy keeps the bit stream of Philox fixed for ever, but not Generator.permutation.
    draws = np.random.Philox(np.random.SeedSequence((seed, pass_number))).random_raw(num_rows)
    order = np.argsort(draws, kind="stable").astype(np.int64)
    order.flags.writeable = False
    return order


def row_indices(seed: int, step: int, rows_per_update: int, num_rows: int) -> np.ndarray:
    """Rows of update `step` (from 0), int64 [rows_per_update].

    Updates take the rows of pass 0, then those of pass 1, and so on; every pass visits each row once, in its own order.
    """
    numbers = np.arange(step * rows_per_update, (step + 1) * rows_per_update, dtype=np.int64)
    passes, places = np.divmod(numbers, num_rows)
    chosen = np.empty(rows_per_update, dtype=np.int64)
    for pass_number in np.unique(passes):
        here = passes == pass_number
        chosen[here] = pass_order(seed, int(pass_number), num_rows)[places[here]]
    return chosen


def sharing(rows: int, micro_batch: int, ranks: int) -> int:
    """How many of several processes hold rows of one micro-batch: as few as all having as many rows allows; 1 where whole
    micro-batches can be dealt out."""
    return ranks // math.gcd(rows // micro_batch, ranks)


def rank_rows(indices: np.ndarray, rank: int, ranks: int, micro_batch: int) -> np.ndarray:
    """The rows of an update that one of several processes takes, [forward passes, rows of each].

    Processes take whole micro-batches, the first process the first ones; where these are too few, groups of `sharing` processes
    take equal parts of each. So every micro-batch has the rows that it has with one process.

    Args:
        indices: of all rows of the update, or anything else that belongs to them, in order.
        rank, ranks: the number of the process, and how many there are.
        micro_batch: rows of which eq. (17) takes the mean; a divisor of those of the update.

    Raises:
        RltokError: `ranks` does not divide the rows, or `rank` is out of range.
    """
    if not 0 <= rank < ranks:
        raise RltokError(f"rank must lie between 0 and {ranks - 1}, for {ranks} processes; got {rank}.")
    check_ranks(len(indices), micro_batch, ranks)
    together = sharing(len(indices), micro_batch, ranks)
    dealt = indices.reshape(ranks // together, -1, together, micro_batch // together)
    return dealt[rank // together, :, rank % together]


def check_ranks(rows: int, micro_batch: int, ranks: int) -> None:
    """Raise `RltokError` where processes cannot have as many rows of an update each; it names the nearest numbers that can."""
    setting = f"train.sequences_per_update={rows}"
    step = math.lcm(ranks, micro_batch)
    if ranks > rows:
        raise RltokError(f"{setting} has fewer rows than {ranks} processes. Start at most {rows}, or raise it to {step}.")
    if rows % ranks:
        near = [str(number) for number in (rows // step * step, (rows // step + 1) * step) if number]
        fewer = max(number for number in range(1, ranks) if rows % number == 0)
        raise RltokError(
            f"{setting} is no multiple of {ranks} processes. The nearest that is one, with train.micro_batch={micro_batch}:"
            f" {' or '.join(near)}. Or start {fewer} process{'es' * (fewer > 1)}."
        )
