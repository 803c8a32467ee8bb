"""What `rltok prepare` counts while it reads, a shard at a time, and how the counts of many shards become one."""

from collections.abc import Iterable
from typing import Any

MOST_SOURCES = 200  # told apart: a table may name another source in every row
NAMED = 5  # documents named of each kind of trouble
OTHER = "(other sources)"
SKIPPED = ("too_short", "empty", "null", "invalid_utf8", "no_text")

Counts = dict[str, Any]


def new_tally() -> Counts:
    """Nothing counted yet."""
    return {
        "read": 0, "read_bytes": 0, "stored": 0, "stored_bytes": 0, "longest": 0, **dict.fromkeys(SKIPPED, 0),
        "named": {"null": [], "invalid_utf8": [], "no_text": []}, "sources": {},
    }  # fmt: skip


def count_skipped(tally: Counts, reason: str, name: str) -> None:
    """One document that is not stored, and its name where that helps to find it."""
    tally[reason] += 1
    named = tally["named"].get(reason)
    if named is not None and len(named) < NAMED:
        named.append(name)


def count_stored(tally: Counts, source: str, stored: int) -> None:
    """One document of which so many bytes are stored."""
    tally["stored"] += 1
    tally["stored_bytes"] += stored
    tally["longest"] = max(tally["longest"], stored)
    _add_source(tally["sources"], source, 1, stored)


def _add_source(sources: dict[str, list[int]], source: str, documents: int, stored: int) -> None:
    known = source in sources or len(sources) < MOST_SOURCES
    total = sources.setdefault(source if known else OTHER, [0, 0])
    total[0] += documents
    total[1] += stored


def merged(tallies: Iterable[Counts]) -> Counts:
    """The counts of all shards together."""
    total = new_tally()
    for tally in tallies:
        for name in ("read", "read_bytes", "stored", "stored_bytes", *SKIPPED):
            total[name] += tally[name]
        total["longest"] = max(total["longest"], tally["longest"])
        for kind, names in total["named"].items():
            names.extend(tally["named"][kind][: NAMED - len(names)])
        for source, (documents, stored) in tally["sources"].items():
            _add_source(total["sources"], source, documents, stored)
    return total


def largest_sources(tally: Counts, most: int) -> dict[str, dict[str, int]]:
    """The sources with the most stored bytes, largest first."""
    ordered = sorted(tally["sources"].items(), key=lambda item: (-item[1][1], item[0]))
    return {source: {"documents": documents, "bytes": stored} for source, (documents, stored) in ordered[:most]}
