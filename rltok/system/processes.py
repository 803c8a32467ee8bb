"""Processes that torchrun started together: which one this is, how they meet, and how they end together.

torchrun gives each RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT, and keeps a table for them there, the store.

    roll_call (the store) --> meet (process groups, the watch) --> work --> part

A process that ends before its time ends the others: before they meet through the store, later because its connections close. What
it said of itself is said once, and what others then suffer is not said at all.
"""

import functools
import json
import os
import sys
import threading
import time
from dataclasses import dataclass
from datetime import timedelta

import torch
import torch.distributed as dist

from rltok.errors import RltokError

LONG = timedelta(days=30)  # who waits for process 0 learns of its end from the watch, not from a clock
REACHABLE = timedelta(minutes=5)
PAUSE = 0.05  # seconds from look to look at the store
GONE = "gone"
FAILURES, INTERRUPTIONS = "failures", "interruptions"


@dataclass(frozen=True)
class Place:
    """Which of the processes this one is."""

    number: int = 0
    count: int = 1
    local: int = 0  # among those of this machine


class Lost(RltokError):
    """Another process of the job ended; it, or torchrun, says why."""


def place() -> Place:
    """As torchrun has it in the environment; the only process where that does not name both RANK and WORLD_SIZE."""
    if not {"RANK", "WORLD_SIZE"} <= os.environ.keys():
        return Place()
    number, count = _whole("RANK"), _whole("WORLD_SIZE")
    if not 0 <= number < count:
        raise RltokError(f"RANK={number} must be at least 0 and below WORLD_SIZE={count}. Start with torchrun, or unset both.")
    return Place(number, count, _whole("LOCAL_RANK") if "LOCAL_RANK" in os.environ else number)


def _whole(name: str) -> int:
    try:
        return int(os.environ[name])
    except ValueError:
        raise RltokError(f"{name}={os.environ[name]!r} is no whole number. Start with torchrun, or unset it.") from None


@functools.cache
def _store() -> dist.Store:
    """The table of all processes, kept by torchrun or, without it, by process 0. Raises `RltokError` where it is not reached."""
    here, address = place(), f"{os.environ.get('MASTER_ADDR')}:{os.environ.get('MASTER_PORT')}"
    try:
        store = next(dist.rendezvous("env://", here.number, here.count, timeout=REACHABLE))[0]
        return dist.PrefixStore(f"attempt {os.environ.get('TORCHELASTIC_RESTART_COUNT', 0)}", store)  # --max-restarts keeps it
    except (RuntimeError, ValueError) as error:
        if "address already in use" in str(error).lower():
            raise RltokError(
                f"{address} is in use. Set MASTER_PORT to a free port, or start with torchrun --standalone."
            ) from error
        raise RltokError(
            f"process {here.number} of {here.count} cannot meet the others at MASTER_ADDR:MASTER_PORT={address}. Start all with"
            " torchrun, with one address and port."
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
    here, kept = place(), os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"  # by torchrun, not by one of us
    if here.count == 1 or not (kept or _store.cache_info().currsize):
        return False
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
    here, store = place(), _store()
    call = store.add(f"calls {here.number}", 1)
    store.set(_key(call, here.number), json.dumps(facts))
    said = []
    for number in range(here.count):
        while not store.check([_key(call, number)]):
            time.sleep(PAUSE)  # not in the store's own wait, in which no signal is heard
        said.append(store.get(_key(call, number)).decode())
    if GONE in said:
        raise Lost(f"process {said.index(GONE)} of {here.count} ended.")
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

    def look(self) -> None:
        """Where something failed in this process: end it if another one ended before, which is why."""
        self.watch.join(timeout=5)

    def part(self) -> None:
        """End the watch and leave, once all others do."""
        here = place()
        dist.barrier(group=self.waiting)
        dist.send(torch.zeros(1), (here.number - 1) % here.count, group=self.watching)
        self.watch.join()
        dist.destroy_process_group()


def meet(name: str, device: torch.device) -> Meeting:
    """Connect the processes: NCCL between cards, gloo between CPUs. From then on the end of one ends all.

    name: of the meeting, from `roll_call`.
    """
    here = place()
    backend = "nccl" if device.type == "cuda" else "gloo"
    store = dist.PrefixStore(name, _store())
    dist.init_process_group(
        backend, store=store, rank=here.number, world_size=here.count, device_id=device if device.type == "cuda" else None
    )
    waiting, watching = (dist.new_group(backend="gloo", timeout=LONG) for _ in range(2))
    watch = threading.Thread(target=_watch, args=(watching, here), daemon=True)
    watch.start()
    return Meeting(waiting, watching, watch)


def _watch(group: dist.ProcessGroup, here: Place) -> None:
    """Wait for the word of the next process that it parts; where its connection closes first, end this one at once.

    A collective operation on cards would wait for a process that is no more, and no Python code of the main thread would run.
    """
    try:
        dist.recv(torch.zeros(1), (here.number + 1) % here.count, group=group)
    except RuntimeError:
        try:
            store = _store()
            silent = store.add(INTERRUPTIONS, 0) > 0 or store.add(FAILURES, 1) > 1
        except RuntimeError:
            silent = False
        if not silent:
            text = f"another one of the {here.count} processes ended. Go on with the same command and --resume."
            print(f"rltok: {text}", file=sys.stderr, flush=True)
        os._exit(1)
