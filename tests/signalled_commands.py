"""A process that runs commands in children, which may send themselves signals at chosen moments; `conftest.ended` talks to it.

It reads one JSON line a job, a list of a table for each child, {"arguments", "signals": [[name, point, call], ...], "ignored",
"folder", "environment", "folder_of_work"}, and answers with their exit codes, negative where a signal ended a child. Arguments
are those of the command line or, in a table, of `rltok.train`, or of the function of `several.py` that it names as "check". A
signal comes just before the `call`-th call of the function called `point`, "SIGTERM soon" half a second later; "error" in its
place raises one. What a child says is in the files stdout and stderr of its folder. Importing torch happens once, in the parent,
which never computes anything. A child that waits for ever ends by SIGALRM.
"""

import json
import os
import signal
import sys
import threading
from pathlib import Path

import several
import torch
import torch._dynamo  # the first optimizer step would import it, in every child again

import rltok.cli.commands
import rltok.cli.compare
import rltok.cli.main
import rltok.runs.snapshots
import rltok.runs.together
import rltok.runs.training
import rltok.system.processes
from rltok.config import from_dict
from rltok.errors import RltokError
from rltok.runs.folder import RunFolder

POINTS = {
    "parse": (rltok.cli.main, "parse"),
    "failed": (rltok.system.processes, "failed"),
    "meet": (rltok.runs.together, "meet"),
    "sharers": (rltok.system.processes, "_sharers"),
    "load_corpus": (rltok.cli.commands, "load_corpus"),
    "train_step": (rltok.runs.training, "train_step"),
    "show": (rltok.cli.commands, "boundary_view"),
    "result": (rltok.cli.compare, "duration"),  # printed for each
    "close": (RunFolder, "close"),
    "exit": (sys, "exit"),
}
SOON = " soon"
PATIENCE = 120  # seconds: far more than any of these commands takes


def signal_at(name: str, point: str, call: int) -> None:
    owner, attribute = POINTS[point]
    original, calls = getattr(owner, attribute), 0

    def signalling(*args, **kwargs):
        nonlocal calls
        calls += 1
        if calls == call and name == "error":
            raise RltokError("this process fails.")
        if calls == call:
            number = getattr(signal, name.removesuffix(SOON))
            threading.Timer(0.5, os.kill, (os.getpid(), number)).start() if name.endswith(SOON) else os.kill(os.getpid(), number)
        return original(*args, **kwargs)

    setattr(owner, attribute, signalling)


def run(order: dict) -> None:
    signal.alarm(PATIENCE)
    os.environ |= order["environment"]
    os.chdir(order.get("folder_of_work", "."))
    for number, name in enumerate(("stdout", "stderr"), start=1):
        os.dup2(os.open(Path(order["folder"], name), os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
    for name in order["ignored"]:
        signal.signal(getattr(signal, name), signal.SIG_IGN)
    for each in order["signals"]:
        signal_at(*each)
    torch.set_num_threads(1)
    rltok.runs.snapshots.FIXED_TEXTS = {"short": "Two gulls."}
    arguments = order["arguments"]
    if isinstance(arguments, dict) and "check" in arguments:
        getattr(several, arguments.pop("check"))(**arguments)
        os._exit(0)  # the end of an interpreter with torch takes a second
    if isinstance(arguments, dict):
        rltok.train(**arguments | {"config": from_dict(arguments["config"])})
        return
    sys.argv = ["rltok", *arguments]
    sys.exit(rltok.cli.main.main())


if __name__ == "__main__":
    # A job in the background, or under nohup, has inherited that some are ignored.
    for number, handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
        signal.signal(number, handler)
    for line in sys.stdin:
        children = []
        for order in json.loads(line):
            children.append(os.fork())
            if children[-1] == 0:
                run(order)
                sys.exit()
        print(json.dumps([os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]), flush=True)
