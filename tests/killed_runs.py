"""A process that starts training in children which kill themselves at a chosen moment; `test_resume.py` talks to it.

It reads one JSON line a child, {"text", "out", "config", "threads", "resume", "point", "call"}, and answers with how the
child ended. The child dies by SIGKILL just before the `call`-th call of the function called `point`, or in the middle of it
where HALFWAY says what half of it does. Importing torch happens once, in the parent, which never computes anything.
"""

import json
import os
import shutil
import signal
import sys
from pathlib import Path

import safetensors.torch
import torch
import torch._dynamo  # the first optimizer step would import it, in every child again

import rltok
import rltok.runs.snapshots
import rltok.runs.training
from rltok.config import from_dict
from rltok.runs.folder import RunFolder
from rltok.runs.results import RunRecord

SHORT_TEXT = "Two gulls."
POINTS = {
    "train_step": (rltok.runs.training, "train_step"),
    "save_file": (safetensors.torch, "save_file"),
    "rename": (Path, "rename"),
    "rmtree": (shutil, "rmtree"),
    "replace": (os, "replace"),
    "log": (RunFolder, "log"),
    "record": (RunRecord, "save"),
}


def half_a_file(tensors, path):
    Path(path).write_bytes(b"half")


def half_a_folder(path):
    (Path(path) / "state.json").unlink()


def half_a_line(folder, name, values):
    folder._logs[name].write(json.dumps(values)[:25])
    folder._logs[name].flush()


HALFWAY = {"save_file": half_a_file, "rmtree": half_a_folder, "log": half_a_line}


def die_at(point: str, call: int) -> None:
    owner, name = POINTS[point]
    original, calls = getattr(owner, name), 0

    def deadly(*args, **kwargs):
        nonlocal calls
        calls += 1
        if calls == call:
            HALFWAY.get(point, lambda *_: None)(*args)
            os.kill(os.getpid(), signal.SIGKILL)
        return original(*args, **kwargs)

    setattr(owner, name, deadly)


def train(order: dict) -> None:
    torch.set_num_threads(order["threads"])
    rltok.runs.snapshots.FIXED_TEXTS = {"short": SHORT_TEXT}
    die_at(order["point"], order["call"])
    rltok.train(from_dict(order["config"]), order["text"], order["out"], order["resume"])


if __name__ == "__main__":
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            try:
                train(json.loads(line))
            finally:
                os._exit(1)
        print(os.waitpid(child, 0)[1], flush=True)
