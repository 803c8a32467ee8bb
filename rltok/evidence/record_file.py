"""The evidence record of one run in a JSON file of its own, as the machine that made the run leaves it.

record --write_record--> NAME-seedK.json --read_record--> record     `rltok.evidence.packed` keeps those of many runs smaller
"""

from functools import partial
from pathlib import Path
from typing import Any

from rltok.evidence.record_checks import Demand, check_digest, check_origin, demanding, read_with_digest
from rltok.evidence.record_schema import check_entries, check_rates
from rltok.evidence.schema import SCHEMA, WHAT
from rltok.runs.sessions import problem
from rltok.system.files import write_json

REMEDY = "Make the record again."

Record = dict[str, Any]


def check_made(record: Any, demand: Demand, *, any_commit: bool = False) -> None:
    """A record of this schema, as it was when it was made, from settings, and a commit, that can be looked up."""
    check_digest(record, demand, WHAT, SCHEMA)
    check_origin(record, demand, any_commit=any_commit)
    if "sessions" in record:
        demand((odd := problem(record["sessions"])) is None, f"its list of sessions is damaged ({odd})")
        last = record["sessions"][-1]["commit"] if record["sessions"] else record["commit"]
        demand(last == record["commit"], f"its last session was of commit {last}, the record says {record['commit']}")


def check(record: Any, where: str) -> Record:
    """The record itself; raises `RltokError`, which names `where` it is, for one that tables and figures cannot be made of."""
    _check_whole(record, demanding(where, REMEDY))
    return record


def _check_whole(record: Any, demand: Demand, *, any_commit: bool = False) -> None:
    check_digest(record, demand, WHAT, SCHEMA)
    check_entries(record, demand)
    check_made(record, demand, any_commit=any_commit)
    if not record.get("failed"):
        check_rates(record, demand)


def read_record(path: Path, whole: bool = False, *, any_commit: bool = False) -> Record:
    """The record of a file, which errors name with its folder: files of one name lie in several sweeps.

    Args:
        path: of the file.
        whole: check every entry, too.
        any_commit: whether it may be of code that nobody can look up.

    Raises:
        RltokError: no such file, another schema, a changed entry, or a commit that cannot be looked up.
    """
    checks = partial(_check_whole if whole else check_made, any_commit=any_commit)
    return read_with_digest(path, f"{path.parent.name}/{path.name}", REMEDY, checks)


def write_record(path: Path, record: Record, *, any_commit: bool = False) -> None:
    """Write a record in one step. Raises `RltokError` for one that could not be read again."""
    check_made(record, demanding(path.name, REMEDY), any_commit=any_commit)
    write_json(path, record)
