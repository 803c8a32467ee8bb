"""Seconds of a call that may run on a card, and seconds in words."""

import time
from collections.abc import Callable
from typing import TypeVar

import torch

T = TypeVar("T")


def stopwatch(work: Callable[[], T], device: torch.device) -> tuple[float, T]:
    """Seconds of a call, and what it returns; waits for the card before and after."""
    _wait(device)
    start = time.perf_counter()
    made = work()
    _wait(device)
    return time.perf_counter() - start, made


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def duration(seconds: float, large: float = 100) -> str:
    """Seconds in words: in minutes from `large` seconds on, in hours from `large` minutes on."""
    if seconds < large:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds / 60 < large else f"{seconds / 3600:.1f} h"
