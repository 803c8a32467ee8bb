"""Processes that torchrun started together: which one this is, how they meet, and how they end together.

torchrun gives each RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT, and keeps a table for them there, the store.

    roll_call (the store) --> meet (process groups, the watch) --> work --> part

A process that ends before its time ends the others: before they meet through the store, later because its connections close. What
it said of itself is said once, and what others then suffer is not said at all. No signal is heard inside torch, so what waits
there before they have met has a thread of its own.
"""

import json
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import cache, partial
from typing import TypeVar

import torch
import torch.distributed as dist

from rltok.errors import RltokError
from rltok.system.place import UNSET, Place, place

T = TypeVar("T")
LONG = timedelta(days=30)  # who waits for process 0 learns of its end from the watch, not from a clock
REACHABLE = timedelta(minutes=5)  # process 0, which may still read its text
THERE_BEFORE = timedelta(minutes=1)  # the store of torchrun
TO_SPEAK = 10  # seconds until the main thread has said what it has to say
PAUSE = 0.05  # seconds from look to look at the store
GONE = "gone"
GO_ON = "Go on with the same command and --resume."
FAILURES, INTERRUPTIONS = "failures", "interruptions"
_ending = threading.Event()  # once this process has said in the store that it ends


class Lost(RltokError):
    """Another process of the job ended; it, or torchrun, says why."""


def _started(work: Callable[[], T]) -> Future[T]:
    """Work in a thread of its own: who waits for its result hears signals."""
    done = Future[T]()

    def finish() -> None:
        try:
            done.set_result(work())
        except Exception as error:
            done.set_exception(error)

    threading.Thread(target=finish, daemon=True).start()
    return done


@cache
def _reaching() -> Future[dist.Store]:
    """The table of all processes, kept by torchrun or, without it, by process 0; reached once."""
    here = place()

    def reach() -> dist.Store:
        socket.getaddrinfo(os.environ.get("MASTER_ADDR"), None)  # a name that nobody knows fails at once, not after minutes
        limit = THERE_BEFORE if _kept_by_torchrun() else REACHABLE
        store = next(dist.rendezvous("env://", here.number, here.count, timeout=limit))[0]
        attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", 0)  # --max-restarts keeps the store
        return dist.PrefixStore(f"attempt {attempt}", store)

    return _started(reach)


def _kept_by_torchrun() -> bool:
    return os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"


def _store() -> dist.Store:
    """`_reaching`, waited for. Raises `RltokError` where it is not reached."""
    here, address = place(), f"{os.environ.get('MASTER_ADDR')}:{os.environ.get('MASTER_PORT')}"
    try:
        return _reaching().result()
    except (RuntimeError, ValueError, OSError) as error:
        if "address already in use" in str(error).lower():
            raise RltokError(
                f"{address} is in use. Set MASTER_PORT to a free port, or start with torchrun --standalone."
            ) from error
        raise RltokError(
            f"process {here.number} of {here.count} cannot meet the others at MASTER_ADDR:MASTER_PORT={address}. Start all with"
            f" torchrun, with one address and port, {UNSET}."
        ) from error


def failed(message: str) -> bool:
    """Tell the other processes that this one ends for a reason of its own; returns whether it is the first to give it."""
    try:
        return not _ends(FAILURES) or _store().add(f"said: {message}", 1) == 1
    except (RltokError, RuntimeError):  # no store any more
        return True


def interrupted() -> bool:
    """Tell the other processes that a signal ends this one; returns whether it speaks of it: process 0, of no consequence."""
    try:
        return not _ends(INTERRUPTIONS) or (place().number == 0 and _store().add(FAILURES, 0) == 0)
    except (RltokError, RuntimeError):
        return True


def _ends(why: str) -> bool:
    """Note in the store that this process ends, so that no roll call waits for it; False where there is no store."""
    here = place()
    there = _reaching().done() if _reaching.cache_info().currsize else _kept_by_torchrun()
    if here.count == 1 or not there:
        return False
    _ending.set()
    store = _store()
    store.add(why, 1)
    store.set(_key(store.add(f"calls {here.number}", 0) + 1, here.number), GONE)
    return True


def _key(call: int, number: int) -> str:
    return f"call {call} of {number}"


def roll_call(facts: dict[str, str]) -> str:
    """Wait until all processes are here, and compare what each says of itself with what process 0 says.

    Returns:
        A name for this meeting, another one each time.

    Raises:
        RltokError: facts of two processes differ; `Lost`: a process ended.
    """
    here, store, said = place(), _store(), []
    try:
        call = store.add(f"calls {here.number}", 1)
        store.set(_key(call, here.number), json.dumps(facts))
        for number in range(here.count):
            while not store.check([_key(call, number)]):
                time.sleep(PAUSE)  # not in the store's own wait, in which no signal is heard
            said.append(store.get(_key(call, number)).decode())
        untold = here.number == 0 and store.add(FAILURES, 0) == 0  # by who failed; who was interrupted leaves it to process 0
    except RuntimeError as error:
        raise RltokError("torchrun ended, or process 0, before all processes had met. Start all again.") from error
    if GONE in said:
        raise (RltokError if untold else Lost)(f"process {said.index(GONE)} of {here.count} ended. {GO_ON}")
    first, *others = map(json.loads, said)
    for number, theirs in enumerate(others, start=1):
        for name in first:
            if theirs[name] != first[name]:
                raise RltokError(
                    f"process {number} has another {name} ({theirs[name]}) than process 0 ({first[name]}). Start all processes"
                    " with the same code, settings and text."
                )
    return f"meeting {call}"


@dataclass(frozen=True)
class Meeting:
    """All processes of the job, connected."""

    waiting: dist.ProcessGroup  # over the network, for values on the CPU and for waits without a limit
    watching: dist.ProcessGroup
    watch: threading.Thread
    sharers: dist.ProcessGroup | None  # those with rows of this one's micro-batches; None where each has its own

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Around what the processes do together: an error that comes of the end of another one is left to the watch."""
        try:
            yield
        except RuntimeError:  # such as a connection that closed
            self.watch.join(timeout=TO_SPEAK)
            raise

    def part(self) -> None:
        """End the watch and leave, once all others do."""
        here = place()
        dist.barrier(group=self.waiting)
        dist.send(torch.zeros(1), (here.number - 1) % here.count, group=self.watching)
        self.watch.join()
        dist.destroy_process_group()


def meet(name: str, device: torch.device, sharing: int = 1) -> Meeting:
    """Connect the processes: NCCL between cards, gloo between CPUs. From then on the end of one ends all.

    name: of the meeting, from `roll_call`.
    sharing: processes that hold rows of one micro-batch.
    """
    return _started(partial(_connected, place(), name, device, sharing)).result()


def _connected(here: Place, name: str, device: torch.device, sharing: int) -> Meeting:
    card = device if device.type == "cuda" else None
    if card is not None:
        torch.cuda.set_device(card)  # each thread has its own
    # Connections of its own to the store: a wait in one of them would keep all others that use it waiting.
    store = dist.PrefixStore(name, _store().clone())
    backend = "gloo" if card is None else "nccl"
    dist.init_process_group(backend, store=store, rank=here.number, world_size=here.count, device_id=card)
    waiting, watching = (dist.new_group(backend="gloo", timeout=LONG) for _ in range(2))
    watch = threading.Thread(target=_watch, args=(watching, here), daemon=True)
    watch.start()
    return Meeting(waiting, watching, watch, _sharers(here, sharing))


def _sharers(here: Place, sharing: int) -> dist.ProcessGroup | None:
    """The processes with rows of this one's micro-batches. All processes make all groups, as torch demands."""
    if sharing == 1:
        return None
    groups = [dist.new_group(list(range(first, first + sharing))) for first in range(0, here.count, sharing)]
    return groups[here.number // sharing]


def _watch(group: dist.ProcessGroup, here: Place) -> None:
    """Wait for the word of the next process that it parts; where its connection closes first, end this one at once.

    A collective operation on cards would wait for a process that is no more, and no Python code of the main thread would run.
    """
    try:
        dist.recv(torch.zeros(1), (here.number + 1) % here.count, group=group)
    except RuntimeError:
        if not _ending.is_set():  # else the main thread speaks and ends it
            _end_after_another(here)


def _end_after_another(here: Place) -> None:
    """End this process because another one did, with a word only where that one has left none.

    Who was interrupted leaves it to process 0, whose main thread also knows the newest checkpoint.
    """
    try:
        store = _store()
        interrupted = store.add(INTERRUPTIONS, 0) > 0
        silent = here.number > 0 or store.add(FAILURES, 0) > 0 if interrupted else store.add(FAILURES, 1) > 1
    except RuntimeError:
        interrupted = silent = False
    if interrupted and not silent:
        os.kill(os.getpid(), signal.SIGINT)
        threading.Event().wait(TO_SPEAK)  # it then ends the process, unless an operation on a card holds it
    if not silent:
        print(f"rltok: another one of the {here.count} processes ended. {GO_ON}", file=sys.stderr, flush=True)
    os._exit(1)
