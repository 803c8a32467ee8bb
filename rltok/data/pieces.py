"""What sources looked like when a folder was begun: names, numbers of files, and a fingerprint of each unit made of files."""

import hashlib
import re
from typing import Any

from rltok.data.documents import one_line
from rltok.data.shards import sha256_of
from rltok.data.units import Unit
from rltok.errors import RltokError

Piece = dict[str, Any]
_MORE = re.compile(r" and \d+ more$")
REMEDY = "Put back the old text, or choose a new --out."


def fingerprint(unit: Unit) -> str | None:
    """A short digest of name and content of each of a unit's files; None for what is no file."""
    digest = hashlib.blake2b(digest_size=8)
    for path in unit.paths:
        name = path.relative_to(unit.folder).as_posix() if unit.folder is not None else path.name
        try:
            digest.update(f"{name}\0{sha256_of(path)}\0".encode(errors="surrogateescape"))
        except OSError as error:
            raise RltokError(f"cannot read {str(path)!r}: {one_line(error)}. Check its permissions, or leave it out.") from error
    return digest.hexdigest() if unit.paths else None


def piece_of(unit: Unit, source: int) -> Piece:
    """Plain values that tell a unit of the source of that number from another one, without folders of this machine."""
    return {"name": unit.name, "source": source, "files": len(unit.paths), "fingerprint": fingerprint(unit)}


def check_pieces(place: str, before: list[Piece], now: list[Piece], stored: set[int]) -> None:
    """Raise `RltokError` when files came or went, or when a unit whose number is in `stored` has another text now."""
    names = [[piece["name"] for piece in pieces] for pieces in (before, now)]
    if names[0] != names[1]:
        firsts = [[_MORE.sub("", name) for name in each] for each in names]
        counts = [sum(piece["files"] for piece in pieces) for pieces in (before, now)]
        told = [f"it began with {counts[0]} in all, now there are {counts[1]}"]
        for word, has, others in (("gone", *firsts), ("new", *reversed(firsts))):
            differing = [name for name in has if name not in others][:3]
            told += [f"{word}: {', '.join(differing)[:120]}"] if differing else []
        raise RltokError(f"files were added to or removed from the sources of {place}: {'; '.join(told)}. {REMEDY}")
    for number in sorted(stored):
        if before[number]["fingerprint"] != now[number]["fingerprint"]:
            raise RltokError(f"{now[number]['name']} is not the text that {place} was made of: it has changed. {REMEDY}")
