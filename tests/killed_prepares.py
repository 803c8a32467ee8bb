"""A process that prepares text in children which kill themselves at a chosen moment; `test_prepare_resume.py` talks to it.

It reads one JSON line a child, {"sources", "out", "rules", "point", "call"}, and answers with how the child ended. The child dies
by SIGKILL just before the `call`-th call of the function called `point`, or in the middle of it where HALFWAY says so.
"""

import json
import os
import signal
import sys
from pathlib import Path

import numpy as np
from preparing import request

from rltok.data.prepare import prepare_folder
from rltok.data.shards import ShardWriter

POINTS = {
    "add": (ShardWriter, "add"), "fsync": (os, "fsync"), "replace": (os, "replace"), "lexsort": (np, "lexsort"),
    "save": (np, "save"),
}  # fmt: skip


def half_a_document(writer, text, *_):
    writer._file.write(text[: len(text) // 2])
    writer._file.flush()


HALFWAY = {"add": half_a_document, "save": lambda file, *_, **__: file.write(b"half")}


def die_at(point: str, call: int) -> None:
    owner, name = POINTS[point]
    original, calls = getattr(owner, name), 0

    def deadly(*args, **kwargs):
        nonlocal calls
        calls += 1
        if calls == call:
            HALFWAY.get(point, lambda *_, **__: None)(*args)
            os.kill(os.getpid(), signal.SIGKILL)
        return original(*args, **kwargs)

    setattr(owner, name, deadly)


if __name__ == "__main__":
    os.fsync = lambda file: None  # a kill loses nothing that was written, and disks take their time
    for line in sys.stdin:
        order = json.loads(line)
        child = os.fork()
        if child == 0:
            try:
                die_at(order["point"], order["call"])
                prepare_folder(request(order["sources"], **order["rules"]), Path(order["out"]))
                os._exit(0)
            finally:
                os._exit(1)
        print(os.waitpid(child, 0)[1], flush=True)
