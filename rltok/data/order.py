"""Which rows each update trains on: a pure function of seed and step, so that a run resumes without saved state."""

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


def rank_rows(indices: np.ndarray, rank: int, ranks: int) -> np.ndarray:
    """The rows of an update that one of several processes takes: the rank-th of equal contiguous parts.

    Raises:
        RltokError: `ranks` does not divide the rows, or `rank` is out of range.
    """
    if not 0 <= rank < ranks:
        raise RltokError(f"rank must lie between 0 and {ranks - 1}, for {ranks} processes; got {rank}.")
    if len(indices) % ranks:
        raise RltokError(
            f"train.sequences_per_update={len(indices)} is no multiple of {ranks} processes. Set one, or use fewer processes."
        )
    each = len(indices) // ranks
    return indices[rank * each : (rank + 1) * each]
