"""A request to `rltok prepare` and the folder it claims: one request, one process at a time."""

import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rltok.config import LONGEST_ROW
from rltok.data.pieces import Piece, check_pieces, piece_of
from rltok.data.prepared import REQUEST, WHAT
from rltok.data.shards import SPLITS
from rltok.data.sources import is_hub, spec_name
from rltok.data.unit_writer import Rules
from rltok.data.units import Unit, units_of
from rltok.errors import RltokError
from rltok.system.digest import is_sealed, sealed
from rltok.system.files import MISSING, quoted, read_file, require_own, room, write_json

try:
    import fcntl
except ImportError:  # not a Unix
    fcntl = None

AGAIN = "the same command"
SCHEMA = 3  # 3: fingerprints of whole files


@dataclass(frozen=True)
class Request:
    """What is prepared: sources by name, and what is stored of them. Texts of their own may be validation and test."""

    sources: tuple[str, ...]
    rules: Rules
    validation: str | None = None
    test: str | None = None

    def __post_init__(self) -> None:
        """Raise `RltokError` for a value that makes no sense."""
        rules = self.rules
        shares = (rules.validation_fraction, rules.test_fraction)
        checks = (
            (
                "--sequence-length",
                rules.sequence_length,
                8 <= rules.sequence_length <= LONGEST_ROW,
                f"between 8 and {LONGEST_ROW}",
            ),
            ("--shard-bytes", rules.shard_bytes, rules.shard_bytes >= 1, "at least 1"),
            ("--validation-fraction", shares[0], math.isfinite(shares[0]) and 0 <= shares[0] < 1, "at least 0 and less than 1"),
            ("--test-fraction", shares[1], math.isfinite(shares[1]) and 0 <= shares[1] < 1, "at least 0 and less than 1"),
            ("their sum", sum(shares), sum(shares) < 1, "less than 1, or nothing is left for training"),
        )
        for name, value, fine, allowed in checks:
            if not fine:
                raise RltokError(f"{name} must be {allowed}; got {value}.")
        if rules.max_bytes is not None and rules.max_bytes < rules.sequence_length:
            least = rules.sequence_length
            raise RltokError(f"--max-bytes must be at least one row of --sequence-length {least}; got {rules.max_bytes}.")
        if not self.sources or not all(spec.strip() for spec in self.sources):
            raise RltokError("there is no SOURCE, or one is empty. Name a file, a folder, a pattern or a dataset.")

    def record(self) -> dict[str, Any]:
        """Plain values without folders of this machine; requests with equal ones may go on with each other's work."""
        names = {"sources": [spec_name(source) for source in self.sources]}
        for role in ("validation", "test"):
            spec = getattr(self, role)
            names[role] = None if spec is None else spec_name(spec)
        return names | asdict(self.rules)

    def units(self, force: bool) -> tuple[list[Unit], list[int]]:
        """All units in order, and of each which limit it counts against: 0 for the sources, 1 and 2 for the texts."""
        units, groups = [], []
        for _, spec, split in self._texts():
            found = units_of(spec, split, force)
            units += found
            groups += [0 if split is None else SPLITS.index(split)] * len(found)
        return units, groups

    def _texts(self) -> list[tuple[int, str, str | None]]:
        """Number, name and split of its own of each source and text."""
        texts = [*((source, None) for source in self.sources), (self.validation, "validation"), (self.test, "test")]
        return [(number, spec, split) for number, (spec, split) in enumerate(texts) if spec is not None]

    def pieces(self, force: bool, before: list[Piece] | None = None) -> list[Piece]:
        """What `check_pieces` compares; with those of `before`, the hub is not asked, and its pieces are taken from there."""
        found = []
        for number, spec, split in self._texts():
            if before is not None and is_hub(spec):
                found += [piece for piece in before if piece["source"] == number]
            else:
                found += [piece_of(unit, number) for unit in units_of(spec, split, force)]
        return found


@contextmanager
def claimed(folder: Path, request: Request) -> Iterator[None]:
    """Around work in a folder: it is made, belongs to this request, and no other process works in it.

    Raises:
        RltokError: the folder is taken, by another process or another request.
    """
    try:
        with room(folder, AGAIN):
            folder.mkdir(parents=True, exist_ok=True)
            require_own(folder / ".lock")
            lock = (folder / ".lock").open("a")
    except OSError as error:
        raise RltokError(f"cannot write to {folder} ({error.strerror}). Choose a folder you may write to with --out.") from error
    with lock:
        if fcntl is not None:  # the system frees the lock when the process ends, however it ends
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise RltokError(f"another rltok prepare works in {folder}. Wait for it, or choose another --out.") from None
        if not (folder / REQUEST).exists():
            others = [path.name for path in folder.iterdir() if path.name != ".lock" and not path.match(".rltok-*.tmp")]
            if others:
                raise RltokError(f"{folder} is not empty ({sorted(others)[0]} is there). Choose another --out.")
        else:
            check_settings(folder, request.record())
        yield


def write_request(folder: Path, request: Request, pieces: list[Piece]) -> None:
    """Write down what a folder is for."""
    found = {"schema": SCHEMA, "what": WHAT, "settings": request.record(), "pieces": pieces}
    write_json(folder / REQUEST, sealed(found))


def read_request(folder: Path) -> dict[str, Any]:
    """What a folder was begun with. Raises `RltokError` for one that is damaged or of another version."""
    try:
        stored = json.loads(read_file(folder / REQUEST))
        if is_sealed(stored) and stored["schema"] == SCHEMA:
            return stored
        other = stored["schema"] != SCHEMA
    except (*MISSING, ValueError, KeyError, TypeError, RecursionError) as error:
        if isinstance(error, RltokError):
            raise
        raise RltokError(f"{folder / REQUEST} is damaged. Delete {folder} and prepare again.") from error
    if other:
        raise RltokError(
            f"{folder} was begun by another version of rltok, which cannot be gone on with. Choose another --out; where it is"
            f" finished, rltok train --data {folder} still reads it."
        )
    raise RltokError(f"{folder / REQUEST} is damaged. Delete {folder} and prepare again.")


def check_finished(folder: Path, request: Request, stored: set[int]) -> None:
    """Raise `RltokError` when a finished folder was made of other text, as far as its files tell; the hub is not asked."""
    before = read_request(folder)["pieces"]
    try:
        now = request.pieces(False, before)
    except RltokError as error:
        raise RltokError(f"{error} {folder} itself is finished: rltok train --data {quoted(folder)} needs no source.") from error
    check_pieces(str(folder), before, now, stored)


def check_settings(folder: Path, now: dict[str, Any]) -> None:
    """Raise `RltokError` when a folder was begun with other settings; names what differs."""
    stored = read_request(folder)["settings"]
    differing = [name for name in now if stored.get(name) != now[name]]
    if differing:
        told = "; ".join(f"{name} was {stored.get(name)!r}, now {now[name]!r}" for name in differing[:3])
        raise RltokError(f"{folder} was begun by another command: {told[:400]}. Give the same command, or choose another --out.")
