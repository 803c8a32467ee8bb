"""The stored start of a run that was stopped: what it must hold, and reading it."""

from pathlib import Path
from typing import Any

from rltok.config import from_dict
from rltok.evidence.record_checks import Demand, check_commit, check_digest, check_origin, read_with_digest
from rltok.evidence.records import Record, filled
from rltok.evidence.schema import SCHEMA, START

NEEDED = ("sweep", "name", "seed", "config", "config_hash", "commit", "device", "data", "bytes", "updates", "sessions", "curve",
          "held_out", "snapshots")  # fmt: skip
REMEDY = "Restore it from the repository, or make one of a run of yours: scripts/measure/keep_start.py."


def check_start(record: Any, demand: Demand) -> None:
    """The start of a run: `demand(ok, what is wrong)` raises for one that says too little, was edited or is of no known code."""
    check_digest(record, demand, START, SCHEMA)
    lacking = [key for key in NEEDED if key not in record]
    demand(not lacking, f"it lacks {', '.join(lacking)}")
    check_origin(record, demand)
    for session in record["sessions"]:
        check_commit(session["commit"], demand)
    demand(from_dict(record["config"]).to_dict() == filled(record["config"]), "its configuration is not whole")
    demand(isinstance(record["data"], dict) and "hash" in (record["data"].get("train") or {}), "its text has no hash")
    demand(len(record["curve"]) > 0 and len(record["snapshots"]) > 0, "it holds no line of training, or no snapshot")


def read_start(path: Path) -> Record:
    """The start of a run from a file.

    Raises:
        RltokError: no such file, another kind of record, one that says too little, an edited one, or one of no known code.
    """
    return read_with_digest(path, path.name, REMEDY, check_start)
