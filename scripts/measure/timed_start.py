"""`rltok train` in this process, noting when each part of its start begins and ends; `measure_startup.py` runs it.

    python scripts/measure/timed_start.py marks.json train --preset tiny --data sample --out runs/one

The file lists [part, begin, end] in seconds since the epoch, in the order in which parts ended. Nothing of rltok is imported
before `main`, so that the time of imports is that of the command.
"""

import functools
import json
import sys
import time
from importlib import import_module
from pathlib import Path
from typing import Any

PARTS = {  # functions that the command calls, by module, and the part of its start that each is
    "rltok.cli.commands": {"load_corpus": "data"},
    "rltok.runs.training": {
        "new_model": "model",
        "make_optimizer": "model",
        "evaluate": "evaluation",
        "snapshot": "evaluation",
        "train_step": "update",
    },
}


def main() -> int:
    """The command's own exit code."""
    from rltok.cli.main import main as command

    modules = {name: import_module(name) for name in PARTS}  # timed, with all that `main` imports before a command begins
    marks: list[tuple[str, float, float]] = [("imports", 0.0, time.time())]

    def timed(part: str, work: Any) -> Any:
        @functools.wraps(work)
        def noting(*arguments: Any, **more: Any) -> Any:
            begin = time.time()
            made = work(*arguments, **more)
            marks.append((part, begin, time.time()))
            return made

        return noting

    for module, names in PARTS.items():
        for name, part in names.items():
            setattr(modules[module], name, timed(part, getattr(modules[module], name)))
    code = command(sys.argv[2:])
    Path(sys.argv[1]).write_text(json.dumps(marks))
    return code


if __name__ == "__main__":
    sys.exit(main())
