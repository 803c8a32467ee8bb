"""Worker processes that end with the process that started them: at an error, at control-C, and when it is killed."""

import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager

from rltok.errors import RltokError


def end_with_parent() -> None:
    """In a worker, at its start: control-C ends it without a traceback, and so does the end of the process that started it.

    Where control-C was ignored at the start, as behind `&` in a script, it stays ignored, as in the process that started it.
    """
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_exit_after, args=(parent,), daemon=True).start()


def _exit_after(parent: multiprocessing.process.BaseProcess) -> None:
    parent.join()
    os._exit(1)  # a worker that waits for work would wait for ever


@contextmanager
def stopping(pool: ProcessPoolExecutor, count: int, remedy: str) -> Iterator[None]:
    """Around the use of a pool: at any error, waiting jobs are cancelled and workers terminated at once.

    Raises:
        RltokError: a worker ended by itself; `remedy` says how to go on.
    """
    before = set(multiprocessing.active_children())
    try:
        yield
    except BaseException as error:
        pool.shutdown(wait=False, cancel_futures=True)
        for child in set(multiprocessing.active_children()) - before:
            child.terminate()
        if isinstance(error, BrokenProcessPool):
            raise RltokError(f"one of {count} worker processes ended, perhaps for want of memory. {remedy}") from error
        raise
