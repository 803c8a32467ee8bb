"""Processes that end with the one that started them: workers at an error, at control-C, and when it is killed; a command that is
waited for at whatever becomes an exception in this process, such as a signal under `signals.answer`."""

import multiprocessing
import os
import signal
import subprocess
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager

from rltok.errors import RltokError

TO_END = 60  # seconds: torchrun, asked to end, gives its own processes 30


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


def printed_by(what: str, command: Sequence[str], environment: dict[str, str] | None = None) -> str:
    """What a command prints, once it has ended.

    At an exception here it is asked to end, and waited for: killed at once, torchrun would leave the processes that it started.

    Raises:
        RltokError: it failed; `what` is how it is called.
    """
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment) as child:
        try:
            output, errors = child.communicate()
        except BaseException:
            child.terminate()
            try:
                child.communicate(timeout=TO_END)
            except subprocess.TimeoutExpired:
                child.kill()
            raise
    if child.returncode:
        lines = errors.splitlines() or ["nothing"]
        *_, why = [line for line in lines if line.startswith("rltok: ")] or lines
        raise RltokError(f"{what} ended with code {child.returncode}: {why}")
    return output
