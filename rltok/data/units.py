"""Units of work of `rltok prepare`: pieces of a source that processes read apart from each other, always the same pieces."""

import itertools
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from rltok.data import files, hub, tables
from rltok.data.documents import Document
from rltok.data.found import found_files
from rltok.data.sample import SPLITS, sample_documents
from rltok.data.sources import file_documents, is_hub

GROUP_BYTES, GROUP_FILES = 1 << 26, 4096  # text files read as one unit: a folder may hold many small ones
UNPACKED = 3  # times larger than its file is compressed text, about


@dataclass(frozen=True)
class Unit:
    """What one process reads in one go.

    Attributes:
        name: for records, without folders of this machine.
        split: the split that its documents belong to whatever they are; None: by their hash.
        paths: one table, or text files in order; none for what is no file.
        folder: of text files: that which they are named by.
        spec: of a dataset on the hub or the sample.
        part: (i, n) for the i-th of n files of a dataset.
        expected_bytes: of text, roughly, for the progress bar; None where nothing is known.
    """

    name: str
    split: str | None
    paths: tuple[Path, ...] = ()
    folder: Path | None = None
    spec: str = ""
    part: tuple[int, int] = (0, 1)
    expected_bytes: int | None = None


def _text_bytes(path: Path) -> int:
    """Bytes of text in a file, roughly, without reading it."""
    name = path.name.lower()
    if name.endswith(tables.PARQUET_SUFFIXES):
        return tables.parquet_text_bytes(path)
    size = os.path.getsize(path) if os.path.isfile(path) else 0
    return size * (UNPACKED if name.endswith((".gz", ".zst")) else 1)


def _groups(paths: list[Path]) -> Iterator[list[Path]]:
    """Consecutive files in groups of at most GROUP_BYTES and GROUP_FILES, at least one file each."""
    group, size = [], 0
    for path in paths:
        if group and (size + os.path.getsize(path) > GROUP_BYTES or len(group) == GROUP_FILES):
            yield group
            group, size = [], 0
        group.append(path)
        size += os.path.getsize(path)
    yield group


def _grouped(folder: Path, paths: list[Path], split: str | None) -> list[Unit]:
    units = []
    for path in paths:
        files.require_file(path)
    for group in _groups(paths):
        first = f"{folder.resolve().name}/{group[0].relative_to(folder).as_posix()}"
        name = f"{first} and {len(group) - 1} more" if len(group) > 1 else first
        units.append(Unit(name, split, tuple(group), folder, expected_bytes=sum(map(os.path.getsize, group))))
    return units


@lru_cache(maxsize=2)
def opened(spec: str, force: bool) -> Any:
    """A dataset on the hub, resolved once in a process: that takes seconds where it has thousands of files."""
    return hub.open_texts(spec, force)


def units_of(spec: str, split: str | None, force: bool) -> list[Unit]:
    """The units of one source, in order. Asks the hub how many files a dataset has.

    Raises:
        RltokError: nothing is there that `documents` would take.
    """
    if spec == "sample":
        return [Unit(f"sample:{part}", split or part, spec=f"sample:{part}") for part in SPLITS]
    if spec.startswith("sample:"):
        next(sample_documents(spec.removeprefix("sample:")))  # an error for another word
        return [Unit(spec, split, spec=spec)]
    if is_hub(spec):
        spec = hub.ALIASES.get(spec, spec)
        count = opened(spec, force).num_shards
        return [Unit(f"{spec}, file {i + 1} of {count}", split, spec=spec, part=(i, count)) for i in range(count)]
    found = found_files(spec)
    if found.whole:
        return _grouped(found.base, found.paths, split)
    for path in found.paths:
        files.require_file(path)
    return [Unit(found.name(path), split, (path,), expected_bytes=_text_bytes(path)) for path in found.paths]


def unit_documents(
    unit: Unit, start: int, force: bool, sleep: Callable[[float], None], max_bytes: int | None = None
) -> Iterator[Document]:  # fmt: skip
    """Documents of a unit from number `start` on; nulls come as `NULL_TEXT`, and of longer texts a beginning past `max_bytes`."""
    if unit.spec.startswith("sample:"):
        found = sample_documents(unit.spec.removeprefix("sample:"))
    elif unit.spec:
        yield from hub.shard_documents(unit.spec, opened(unit.spec, force), unit.part, start, allow_null=True, sleep=sleep)
        return
    elif unit.folder is not None:
        yield from files.folder_documents(unit.folder, list(unit.paths[start:]), True, max_bytes)
        return
    else:
        found = file_documents(unit.paths[0], allow_binary=True, allow_null=True, max_bytes=max_bytes)
    yield from itertools.islice(found, start, None)
