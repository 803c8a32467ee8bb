"""Shards: raw bytes of documents in one file, an index of them in another, and a small JSON that seals both with their hashes.

    NNNNN-NNN.bin  the documents, one after another      NNNNN-NNN.idx  ENTRY of each (.npy)      NNNNN-NNN.json  the seal

The first number is that of the unit, the second that of the shard in it. A seal is written last, so that a shard with a seal is
whole; a unit goes on after its last seal.
"""

import hashlib
import json
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from rltok.data.documents import one_line
from rltok.errors import RltokError
from rltok.system.digest import is_sealed, sealed
from rltok.system.files import MISSING, read_file, write_json

ENTRY = np.dtype(
    [
        ("offset", "<u8"),  # of the first byte in the .bin file
        ("length", "<u8"),  # bytes stored
        ("high", "<u8"),  # digest of the stored bytes, as two numbers
        ("low", "<u8"),
        ("part_of", "<u8"),  # of a part, a digest of the name of the whole document; 0 for a document that is whole itself
        ("number", "<u4"),  # of the document in the unit, counting those that were skipped
        ("split", "u1"),  # index in SPLITS
        ("complete", "u1"),  # 1: what is stored is all of the document
        ("spare", "<u2"),
    ]
)
SPLITS = ("train", "validation", "test")
MAX_SHARD_DOCUMENTS = 1 << 20  # a shard's index is held in memory until it is sealed
AGAIN = "Delete prepared.json there and give the same `rltok prepare` again; it makes anew what is damaged."
BLOCK = 1 << 20  # bytes read at a time
SUFFIXES = (".bin", ".idx")


def shard_name(unit: int, shard: int) -> str:
    """Beginning of the names of a shard's files."""
    return f"{unit:05d}-{shard:03d}"


def digest_of(text: bytes) -> tuple[int, int]:
    """The 16-byte BLAKE2b digest of a text as two 64-bit numbers."""
    digest = hashlib.blake2b(text, digest_size=16).digest()
    return int.from_bytes(digest[:8], "big"), int.from_bytes(digest[8:], "big")


def sha256_of(path: Path) -> str:
    """SHA-256 of a file, read block by block."""
    digest, block = hashlib.sha256(), bytearray(BLOCK)
    with path.open("rb", buffering=0) as file:
        while count := file.readinto(block):
            digest.update(memoryview(block)[:count])
    return digest.hexdigest()


class Plain:
    """A file to which numpy writes as to any other: its own way of writing to a real file hides why it failed."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def write(self, data: bytes) -> int:
        """Write bytes."""
        return self._file.write(data)


class ShardWriter:
    """One shard in the making, under names that only this process uses until it is sealed."""

    def __init__(self, folder: Path, unit: int, shard: int) -> None:
        self._folder, self._name = folder, shard_name(unit, shard)
        self._file: BinaryIO = self._temporary(".bin").open("wb")
        self._hash = hashlib.sha256()
        self._entries: list[tuple[int, ...]] = []
        self._chunks: list[np.ndarray] = []  # of the index, packed: a list of numbers takes ten times as much memory
        self.bytes = 0
        self.documents = 0

    def _temporary(self, suffix: str) -> Path:
        return self._folder / f"{self._name}{suffix}.{os.getpid()}.tmp"

    def add(self, text: bytes, digest: tuple[int, int], part_of: int, number: int, split: int, complete: bool) -> None:
        """Store a document's bytes."""
        self._file.write(text)
        self._hash.update(text)
        self._entries.append((self.bytes, len(text), *digest, part_of, number, split, complete, 0))
        self.bytes += len(text)
        self.documents += 1
        if len(self._entries) == 4096:
            self._pack()

    def _pack(self) -> None:
        self._chunks.append(np.array(self._entries, dtype=ENTRY))
        self._entries = []

    def seal(self, facts: dict[str, Any]) -> dict[str, Any]:
        """Put both files in place, on the disk before the seal, which holds `facts` besides their sizes and hashes."""
        self._pack()
        _sync_and_close(self._file)
        index = self._temporary(".idx")
        with index.open("wb") as file:
            np.save(Plain(file), np.concatenate(self._chunks), allow_pickle=False)
            file.flush()
            os.fsync(file.fileno())
        files = {
            ".bin": {"bytes": self.bytes, "sha256": self._hash.hexdigest()},
            ".idx": {"bytes": index.stat().st_size, "sha256": sha256_of(index)},
        }
        for suffix in SUFFIXES:
            self._temporary(suffix).replace(self._folder / (self._name + suffix))
        _sync_folder(self._folder)
        seal = sealed({"shard": self._name, "documents": self.documents, "files": files, **facts})
        write_json(self._folder / f"{self._name}.json", seal)
        return seal

    def abandon(self) -> None:
        """Remove what was not sealed."""
        with suppress(OSError):  # what is still in memory goes nowhere
            self._file.close()
        for suffix in SUFFIXES:
            self._temporary(suffix).unlink(missing_ok=True)


def _sync_and_close(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())
    file.close()


def _sync_folder(folder: Path) -> None:
    """Make the names in a folder last through a loss of power, where the system can."""
    if os.name == "posix":
        number = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(number)
        finally:
            os.close(number)


def seals_of(folder: Path, unit: int) -> list[dict[str, Any]]:
    """The seals of a unit from its first shard on; one that is damaged, or was left empty by a loss of power, does not count."""
    found: list[dict[str, Any]] = []
    while not (found and found[-1]["last"]):
        path = folder / f"{shard_name(unit, len(found))}.json"
        try:
            seal = json.loads(read_file(path))
            if not is_sealed(seal):
                return found
            for suffix, file in seal["files"].items():
                if path.with_suffix(suffix).stat().st_size != file["bytes"]:
                    return found
        except (*MISSING, ValueError, KeyError, TypeError, RecursionError):
            return found
        found.append(seal)
    return found


def sound_seals(folder: Path, unit: int, note: Callable[[str], None]) -> list[dict[str, Any]]:
    """The seals of a unit whose files have their hashes. From the first that is damaged on, its shards are removed.

    Args:
        note: told of a damaged shard in a line.
    """
    found = seals_of(folder, unit)
    for place, seal in enumerate(found):
        try:
            check_files(folder, seal, hashes=True)
        except RltokError:
            found = found[:place]
            break
    if not (found and found[-1]["last"]) and (folder / f"{shard_name(unit, len(found))}.json").exists():
        note(f"{folder}: shard {shard_name(unit, len(found))} is damaged; it and the later ones of its source are made again")
        place = len(found)
        while any((removed := folder / (shard_name(unit, place) + suffix)).exists() for suffix in (".json", *SUFFIXES)):
            for suffix in (".json", *SUFFIXES):
                removed.with_suffix(suffix).unlink(missing_ok=True)
            place += 1
    return found


def check_files(folder: Path, shard: dict[str, Any], hashes: bool) -> None:
    """Raise `RltokError` for a file of a shard that is missing, has another size, or, with `hashes`, other bytes."""
    for suffix, file in shard["files"].items():
        path = folder / (shard["shard"] + suffix)
        try:
            size = path.stat().st_size
            if size != file["bytes"]:
                raise RltokError(
                    f"shard {path.name} of {folder} is damaged: expected {file['bytes']} bytes, found {size}. {AGAIN}"
                )
            found = sha256_of(path) if hashes else file["sha256"]
        except OSError as error:
            raise RltokError(f"shard {path.name} of {folder} cannot be read ({one_line(error)}). {AGAIN}") from error
        if found != file["sha256"]:
            raise RltokError(
                f"shard {path.name} of {folder} is damaged: expected SHA-256 {file['sha256']}, found {found}. {AGAIN}"
            )


def entries(folder: Path, shard: dict[str, Any]) -> np.ndarray:
    """The index of a shard, mapped from its file: ENTRY [documents]."""
    return mapped_array(folder / f"{shard['shard']}.idx", ENTRY, shard["documents"])


def mapped_array(path: Path, dtype: np.dtype, count: int) -> np.ndarray:
    """A .npy file of `count` entries, mapped. Raises `RltokError` for any other."""
    try:
        found = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError, SyntaxError) as error:
        raise RltokError(f"{path} is damaged ({one_line(error)}). {AGAIN}") from error
    if not isinstance(found, np.ndarray) or found.dtype != dtype or found.shape != (count,):
        raise RltokError(f"{path} is damaged: it does not hold one entry for each of {count} documents. {AGAIN}")
    return found
