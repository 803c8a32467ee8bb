"""Which of the processes that torchrun started this one is, without torch: `rltok.system.processes` says how they meet."""

import os
from dataclasses import dataclass

from rltok.errors import RltokError

UNSET = "or unset RANK and WORLD_SIZE"


@dataclass(frozen=True)
class Place:
    """Which of the processes this one is."""

    number: int = 0
    count: int = 1
    local: int = 0  # among those of this machine


def numbered() -> bool:
    """Whether torchrun, or another launcher, gave this process a number."""
    return {"RANK", "WORLD_SIZE"} <= os.environ.keys()


def place() -> Place:
    """As torchrun has it in the environment; the only process where that does not name both RANK and WORLD_SIZE."""
    if not numbered():
        return Place()
    number, count = _whole("RANK"), _whole("WORLD_SIZE")
    if not 0 <= number < count:
        raise RltokError(f"RANK={number} must be at least 0 and below WORLD_SIZE={count}. Start with torchrun, {UNSET}.")
    return Place(number, count, _whole("LOCAL_RANK") if "LOCAL_RANK" in os.environ else number)


def _whole(name: str) -> int:
    try:
        return int(os.environ[name])
    except ValueError:
        raise RltokError(f"{name}={os.environ[name]!r} is no whole number. Start with torchrun, or unset it.") from None
