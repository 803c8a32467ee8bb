"""The sessions of a run: where each began, and what the one before it had done beyond its last checkpoint.

    sessions.jsonl: one line a session, {"after": 200, "seconds": 111.2, "redone": 46, "lost_seconds": 25.7, ...}

A session that was interrupted lost the updates after its last checkpoint. They are done again, to the same numbers, and the time
they took the first time is in no other record.
"""

import json
import os
from pathlib import Path
from typing import Any

from rltok.errors import RltokError
from rltok.files import MISSING, read_file, room

NAME = "sessions.jsonl"
KEYS = {"after", "seconds", "redone", "lost_seconds", "device", "commit"}

Session = dict[str, Any]


def sessions_of(folder: Path) -> list[Session]:
    """Every session of a run, oldest first; none in the folder of a version of rltok that kept no list.

    Raises:
        RltokError: the list is damaged.
    """
    path = folder / NAME
    try:
        found = [json.loads(line) for line in read_file(path).splitlines()]
        whole = all(session.keys() >= KEYS for session in found)
    except MISSING:
        return []
    except (ValueError, AttributeError, RecursionError) as error:
        raise _damaged(path, error) from error
    if not whole:
        raise _damaged(path, "an entry is missing")
    return found


def _damaged(path: Path, why: object) -> RltokError:
    return RltokError(
        f"{path} is damaged ({why}). Restore the file, or delete it: the run then no longer knows its earlier sessions."
    )


def furthest(metrics: Path) -> tuple[int, float]:
    """(update, seconds) of the last whole line of training in metrics.jsonl; (0, 0) without one.

    A damaged line ends the search: what to do about it is decided by whoever winds the log back.
    """
    step, seconds = 0, 0.0
    try:
        lines = read_file(metrics).splitlines()
    except MISSING:
        return step, seconds
    for line in lines:
        try:
            values = json.loads(line)
            if values["split"] == "train":
                step, seconds = int(values["step"]), float(values["seconds"])
        except (ValueError, KeyError, TypeError, RecursionError):
            break
    return step, seconds


def begin(
    folder: Path, *, after: int, seconds: float, reached: tuple[int, float], device: str, commit: str | None
) -> list[Session]:  # fmt: skip
    """Add a session to the list, in one step, and give the whole list.

    Args:
        folder: of the run.
        after: updates done when it begins.
        seconds: spent in them.
        reached: `furthest` of the session before, which may have been logged seldom: it did at least so many updates.
        device, commit: of this session.
    """
    step, spent = reached
    redone = max(0, step - after)
    lost = max(0.0, spent - seconds) if redone else 0.0
    session = {"after": after, "seconds": round(seconds, 3), "redone": redone, "lost_seconds": round(lost, 3),
               "device": device, "commit": commit}  # fmt: skip
    found = [*sessions_of(folder), session]
    temporary = (folder / NAME).with_suffix(".tmp")
    with room(folder):
        temporary.write_text("".join(json.dumps(each) + "\n" for each in found))
        os.replace(temporary, folder / NAME)
    return found
