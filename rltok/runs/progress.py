"""How far training has come: a bar in a terminal, a line now and then anywhere else."""

import sys
import threading
import time

from tqdm import tqdm

from rltok.system.stopwatch import duration
from rltok.system.streams import lasting

LINES = 10  # in a log, for a whole run, after the one of its first update
LONG = 12 * 3600  # seconds: a run that takes longer deserves a remark
UNKNOWN_STEP = 10**9  # bytes from line to line of a run whose end nobody knows


class _Bar(tqdm):
    """A bar with a lock for one process; tqdm's own, for several, leaks a semaphore when a signal ends the process."""


_Bar.set_lock(threading.RLock())


class Progress:
    """Shows bytes trained on, bytes/s and time left on stderr, or nothing; a closed or full stderr does not stop training.

    Args:
        total: bytes of the whole run; None where nobody knows.
        done: bytes of it that are behind us.
        shown: False keeps quiet.
        remedy: how to need less time, told after the first update of a run that would take `LONG` from there; "" for none.
    """

    def __init__(self, total: int | None, done: int, shown: bool, remedy: str = "") -> None:
        in_terminal, self._stream = sys.stderr.isatty(), lasting(sys.stderr)
        self._bar = _Bar(
            total=total, initial=done, unit="B", unit_scale=True, disable=not (shown and in_terminal), mininterval=0.5,
            file=self._stream,
        )  # fmt: skip
        self._lines = shown and not in_terminal
        self._total, self._first, self._done = total, done, done
        self._start = time.perf_counter()
        self._step = total / LINES if total else UNKNOWN_STEP
        self._next = done
        self._remedy = remedy if shown else ""

    def update(self, scored: int, status: str) -> None:
        """Count the bytes of another update; `status` is printed at the end of the line."""
        self._done += scored
        self._bar.update(scored)
        self._bar.set_postfix_str(status, refresh=False)
        if (
            self._lines and self._done >= self._next and self._done > self._first
        ):  # nothing done yet says nothing of the time left
            past = self._total is not None and self._done >= self._total
            self._next = (
                self._done + UNKNOWN_STEP if past else self._next + self._step * ((self._done - self._next) // self._step + 1)
            )
            self._line(status)
        if self._remedy and self._done > self._first:
            seconds = ((self._total or 0) - self._done) / self._speed()
            if seconds > LONG:
                self._bar.write(f"at this speed that takes {duration(seconds)}. {self._remedy}", file=self._stream)
            self._remedy = ""

    def _speed(self) -> float:
        """Bytes per second since the start."""
        return (self._done - self._first) / max(1e-9, time.perf_counter() - self._start)

    def _line(self, status: str) -> None:
        speed = self._speed()
        come = f"{self._done / 1e9:.1f} GB"
        left = ""
        if self._total:
            come = f"{min(100, int(100 * self._done / self._total)):3d}%"  # how much there is may have been a guess
            left = f"  {duration((self._total - self._done) / speed)} left" if self._done <= self._total else ""
        print(f"{come}  {speed / 1e3:.1f} kB/s{left}  {status}", file=self._stream, flush=True)

    def close(self) -> None:
        """Close the bar and leave it on the screen."""
        self._bar.close()
