"""The sessions of a run: where each began, and what the one before it had done beyond its last checkpoint.

    sessions.jsonl: one line a session, {"after": 200, "seconds": 111.2, "redone": 46, "lost_seconds": 25.7, ...}

A session that was interrupted lost the updates after its last checkpoint. They are done again, to the same numbers, and the time
they took the first time is in no other record. So the new entry is on the disk, in sessions.tmp, before the log is wound back:

    announce (sessions.tmp) --> the log is wound back --> settle (sessions.jsonl)
"""

import json
import math
import os
from pathlib import Path
from typing import Any

from rltok.errors import RltokError
from rltok.system.files import MISSING, read_file, require_own, room

NAME = "sessions.jsonl"
ANNOUNCED = "sessions.tmp"  # the list with a session whose log may not be wound back yet
KEYS = {"after", "seconds", "redone", "lost_seconds", "device", "commit"}

Session = dict[str, Any]


def problem(found: Any) -> str | None:
    """The first fault of a list of sessions, None for a good one. Entries beyond `KEYS` are free."""
    if not isinstance(found, list) or not all(isinstance(session, dict) for session in found):
        return "it is no list of tables"
    for number, session in enumerate(found, start=1):
        if lacking := sorted(KEYS - session.keys()):
            return f"session {number} lacks {', '.join(lacking)}"
        odd = [key for key in ("after", "redone") if type(session[key]) is not int or session[key] < 0]
        odd += [key for key in ("seconds", "lost_seconds") if not _is_time(session[key])]
        odd += [] if isinstance(session["device"], str) else ["device"]
        odd += [] if isinstance(session["commit"], str | None) else ["commit"]
        if odd:
            return f"session {number} has {odd[0]} {session[odd[0]]!r}"
    return None


def _is_time(value: Any) -> bool:
    return type(value) in (int, float) and 0 <= value < math.inf  # false of NaN


def sessions_of(folder: Path) -> list[Session]:
    """Every session of a run, oldest first; none in the folder of a version of rltok that kept no list.

    Raises:
        RltokError: the list is damaged.
    """
    path = folder / NAME
    try:
        found = [json.loads(line) for line in read_file(path).splitlines()]
    except MISSING:
        return []
    except (ValueError, RecursionError) as error:
        raise _damaged(path, error) from error
    if why := problem(found):
        raise _damaged(path, why)
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


def announce(
    folder: Path, *, after: int, seconds: float, reached: tuple[int, float], device: str, commit: str | None
) -> list[Session]:  # fmt: skip
    """Put the list with one more session on the disk, beside the one that counts until `settle`; gives that list.

    A process that was killed between the two left an announced session in which nothing was done. The new one takes its place,
    and where the log was wound back already, what that had cost.

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
    known = sessions_of(folder)
    before = _announced(folder, known)
    if before is not None and before["after"] == after and not redone:
        redone, lost = before["redone"], before["lost_seconds"]
    session = {"after": after, "seconds": round(seconds, 3), "redone": redone, "lost_seconds": round(lost, 3),
               "device": device, "commit": commit}  # fmt: skip
    found = [*known, session]
    with room(folder), (folder / ANNOUNCED).open("w") as file:
        file.write("".join(json.dumps(each) + "\n" for each in found))
        file.flush()
        os.fsync(file.fileno())
    return found


def _announced(folder: Path, known: list[Session]) -> Session | None:
    """The session that was announced and not settled. One that was written in part wound nothing back, so it is none."""
    require_own(folder / ANNOUNCED)
    try:
        found = [json.loads(line) for line in read_file(folder / ANNOUNCED).splitlines()]
    except (*MISSING, ValueError, RecursionError):
        return None
    return found[-1] if problem(found) is None and found[:-1] == known and found else None


def made_on(sessions: list[Session], step: int) -> str | None:
    """The device, with its number of threads, on which the last of so many updates was computed; None where nobody knows."""
    return next((session["device"] for session in reversed(sessions) if session["after"] < step), None)


def settle(folder: Path) -> None:
    """The announced list counts from now on: the log is wound back."""
    os.replace(folder / ANNOUNCED, folder / NAME)
