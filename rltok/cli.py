"""The command line: `rltok COMMAND`. A user's mistake is one line on stderr and exit code 2."""

import io
import os
import sys

import torch

from rltok import backends, commands
from rltok.errors import RltokError
from rltok.options import parse
from rltok.terminal import REPLACED

HOW_TO_GO_ON = dict.fromkeys(("train", "compare"), " Go on with the same command and --resume.") | {
    "prepare": " The same command goes on where it stopped."
}


def _one_line(error: BaseException) -> str:
    if isinstance(error, MemoryError | RuntimeError):  # torch's own, for a card and for the CPU, are RuntimeErrors
        return (
            "out of memory. Lower train.micro_batch (of `rltok variance`: --rows), data.sequence_length or the size of the model."
        )
    return " ".join(str(error).split())


def _mendable(error: BaseException) -> bool:
    """Whether the user can do something about it: of torch's RuntimeErrors only those that want for memory."""
    out_of_memory = isinstance(error, torch.OutOfMemoryError) or "allocate memory" in str(error)
    return out_of_memory or not isinstance(error, RuntimeError)


def main(arguments: list[str] | None = None) -> int:
    """Run one command; 0 when it did its work, 2 for a mistake the user can mend, 130 when interrupted."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by the caller, as with >&-
            setattr(sys, name, open(os.devnull, "w"))
    options = parse(arguments)
    if isinstance(sys.stdout, io.TextIOWrapper):  # a notebook has another stream
        sys.stdout.reconfigure(errors=REPLACED)  # a terminal that lacks a character gets another one instead of an error
    try:
        with backends.use(options.backend or backends.asked()):
            getattr(commands, options.command)(options)
        sys.stdout.flush()
        return 0
    except BrokenPipeError:  # the reader of a pipe had enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (RltokError, OSError, MemoryError, RuntimeError) as error:
        if options.debug or not _mendable(error):
            raise
        print(f"rltok: {_one_line(error)}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        hint = HOW_TO_GO_ON.get(options.command, "")
        print(f"\nrltok: interrupted.{hint}", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
