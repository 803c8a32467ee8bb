"""Rows that stay in files: a stand-in for the array of their bytes, which reads what is asked for through memory maps."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

MOST_MAPS = 64  # open at a time: each holds a file descriptor, of which a process may have 1,024 or fewer


class MappedBytes:
    """uint8 [R, N] like an array that cannot be written to: rows are copied out of mapped files when indexed, zero-padded.

    Files are mapped when first read, at most MOST_MAPS at a time. A copy sent to another process carries their names, not their
    bytes.

    Args:
        paths: the files.
        file: which of them holds each row, [R].
        start: where in it the row begins, [R].
        lengths: bytes of each row, [R], at most N.
        width: N.
    """

    def __init__(self, paths: Sequence[Path], file: np.ndarray, start: np.ndarray, lengths: np.ndarray, width: int) -> None:
        self._paths, self._file, self._start, self._lengths = tuple(paths), file, start, lengths
        self.shape = (len(lengths), width)
        self.dtype = np.dtype(np.uint8)
        self._maps: dict[int, np.ndarray] = {}

    def __getstate__(self) -> dict[str, Any]:
        """Everything but the maps, which belong to this process."""
        return {**self.__dict__, "_maps": {}}

    def __len__(self) -> int:
        """R, the number of rows."""
        return self.shape[0]

    def view(self, indices: slice | np.ndarray | Sequence[int]) -> "MappedBytes":
        """Some of the rows in the order given, read no more than these."""
        arrays = (array[indices] for array in (self._file, self._start, self._lengths))
        return MappedBytes(self._paths, *arrays, self.shape[1])

    def __getitem__(self, key: Any) -> Any:
        """A copy of one row (a number), of some (a slice or an array), or of a part of them (a pair), as from an array."""
        rows, *rest = key if isinstance(key, tuple) else (key,)
        if isinstance(rows, int | np.integer):
            return self._read(np.array([range(len(self))[rows]]))[0][tuple(rest)]
        return self._read(np.arange(len(self))[rows])[(slice(None), *rest)]

    def _read(self, rows: np.ndarray) -> np.ndarray:
        found = np.zeros((len(rows), self.shape[1]), dtype=np.uint8)
        for place, row in zip(found, rows, strict=True):
            start, length = int(self._start[row]), int(self._lengths[row])
            place[:length] = self._map(int(self._file[row]))[start : start + length]
        return found

    def _map(self, file: int) -> np.ndarray:
        found = self._maps.get(file)  # kept here, as another thread may drop it
        if found is None:
            if len(self._maps) >= MOST_MAPS:
                for oldest in list(self._maps)[:1]:
                    self._maps.pop(oldest, None)
            found = self._maps[file] = np.memmap(self._paths[file], dtype=np.uint8, mode="r")
        return found
