"""The sessions of a run: the update at which each began, and how many updates of the previous one it had to repeat.

    sessions.jsonl: one line a session, {"after": 200, "seconds": 111.2, "redone": 46, "lost_seconds": 25.7, ...}

An interrupted session loses the updates after its last checkpoint. They are repeated, with the same numbers, and no other record
holds the time they took the first time. So the new entry is written to sessions.tmp before the log is rewound:

    announce (sessions.tmp) --> the log is rewound --> settle (sessions.jsonl)
"""

import json
import math
import os
from pathlib import Path
from typing import Any

from rltok.errors import RltokError
from rltok.system.files import MISSING, read_file, require_own, room

NAME = "sessions.jsonl"
ANNOUNCED = "sessions.tmp"  # the list with a session whose log may not be rewound yet
KEYS = {"after", "seconds", "redone", "lost_seconds", "device", "commit"}

Session = dict[str, Any]


def problem(sessions: Any) -> str | None:
    """What is wrong with a list of sessions, or None. Keys beyond `KEYS` are not checked."""
    if not isinstance(sessions, list) or not all(isinstance(session, dict) for session in sessions):
        return "it is no list of tables"
    for number, session in enumerate(sessions, start=1):
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
    """All sessions of a run, oldest first; empty for runs of versions of rltok that kept no list.

    Raises:
        RltokError: the list is damaged.
    """
    path = folder / NAME
    try:
        sessions = [json.loads(line) for line in read_file(path).splitlines()]
    except MISSING:
        return []
    except (ValueError, RecursionError) as error:
        raise _damaged(path, error) from error
    if why := problem(sessions):
        raise _damaged(path, why)
    return sessions


def _damaged(path: Path, why: object) -> RltokError:
    return RltokError(
        f"{path} is damaged ({why}). Restore the file, or delete it: the run then no longer knows its earlier sessions."
    )


def furthest(metrics: Path) -> tuple[int, float]:
    """(update, seconds) of the last complete training line in metrics.jsonl; (0, 0) if there is none.

    A damaged line ends the search; `RunFolder.rewind` decides what to do about it.
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
    """Write the list with a new session to sessions.tmp, beside the list that is valid until `settle`; return the new list.

    A process that was killed before `settle` leaves an announced session without any work. The new session replaces it and, if
    the log was already rewound, takes over its `redone` and `lost_seconds`.

    Args:
        folder: of the run.
        after: updates done when the session begins.
        seconds: spent on them.
        reached: `furthest` of the previous session, a lower bound if it logged only some updates.
        device, commit: of the new session.
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
    sessions = [*known, session]
    with room(folder), (folder / ANNOUNCED).open("w") as file:
        file.write("".join(json.dumps(each) + "\n" for each in sessions))
        file.flush()
        os.fsync(file.fileno())
    return sessions


def _announced(folder: Path, known: list[Session]) -> Session | None:
    """The session that was announced but not settled, or None. With an incomplete file the log was not rewound: None, too."""
    require_own(folder / ANNOUNCED)
    try:
        sessions = [json.loads(line) for line in read_file(folder / ANNOUNCED).splitlines()]
    except (*MISSING, ValueError, RecursionError):
        return None
    return sessions[-1] if problem(sessions) is None and sessions[:-1] == known and sessions else None


def made_on(sessions: list[Session], step: int) -> str | None:
    """The device, with its number of threads, on which update `step` was computed; None if unknown."""
    return next((session["device"] for session in reversed(sessions) if session["after"] < step), None)


def settle(folder: Path) -> None:
    """Make the announced list the valid one; called after the log was rewound."""
    os.replace(folder / ANNOUNCED, folder / NAME)
