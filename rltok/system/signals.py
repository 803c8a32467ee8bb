"""Signals that ask a process to end: control-C, SIGTERM (a cluster wants its machine back), SIGHUP (a lost connection)."""

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rltok.system.place import place

HELD = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))  # Windows has no SIGHUP


class Ended(KeyboardInterrupt):
    """SIGTERM or SIGHUP, as control-C is a `KeyboardInterrupt`; its notes say what was saved."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def answer() -> None:
    """For the rest of this process, the first signal becomes an exception, and a second one ends it at once, without a word.

    Those that `held_back` holds wait, however many they are. In one of several processes a second one does nothing: torchrun
    hands on to each what a terminal has sent to all.

    Signals that were ignored at the start, as under nohup, stay ignored.
    """
    for number in (signal.SIGINT, *HELD):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _raise)


def _raise(number: int, _: Any) -> None:
    for each in (signal.SIGINT, *HELD):
        if signal.getsignal(each) is _raise:
            signal.signal(each, _leave_alone if place().count > 1 else signal.SIG_DFL)
    raise KeyboardInterrupt if number == signal.SIGINT else Ended(number)


def _leave_alone(number: int, _: Any) -> None:
    """What a signal does after the first one in one of several processes."""


@contextmanager
def held_back() -> Iterator[list[int]]:
    """Inside, SIGTERM and SIGHUP end nothing; their numbers come into the list, for `act_on` afterwards.

    Only what would end the process is held back, no handler of others; and only in the main thread, which gets all signals.
    """
    came: list[int] = []
    in_main = threading.current_thread() is threading.main_thread()
    before = {number: signal.getsignal(number) for number in HELD} if in_main else {}
    before = {number: handler for number, handler in before.items() if handler in (_raise, signal.SIG_DFL)}
    for number in before:
        signal.signal(number, lambda number, _: came.append(number))
    try:
        yield came
    finally:
        second = signal.getsignal(signal.SIGINT)  # after a control-C, what the next signal does
        for number, handler in before.items():
            signal.signal(number, second if second in (signal.SIG_DFL, _leave_alone) else handler)


def act_on(number: int, saved: str, shown: bool) -> None:
    """Do what a signal that was held back asks for: an `Ended` with a note under `answer`, else the end of the process.

    Args:
        number: of the signal.
        saved: what was saved, in words.
        shown: whether to say so on stderr before the end of the process.
    """
    if signal.getsignal(number) is _raise:
        try:
            _raise(number, None)
        except Ended as ended:
            ended.add_note(saved)
            raise
    if shown:
        print(f"{signal.Signals(number).name}: {saved}", file=sys.stderr, flush=True)
    signal.raise_signal(number)
