"""The command line: `rltok COMMAND`. A user's mistake is one line on stderr and exit code 2."""

import argparse
import os
import signal
import sys

from rltok.cli.options import parse
from rltok.errors import RltokError
from rltok.show.terminal import REPLACED
from rltok.system import signals
from rltok.system.place import UNSET, numbered, place
from rltok.system.streams import lasting_output

HOW_TO_GO_ON = {
    "train": " Go on with the same command and --resume.",
    "compare": " Go on with the same command, its folder as --out, and --resume.",
    "prepare": " The same command reads only what it had not read to the end.",
}


SMALLER = "data.sequence_length or the size of the model."
FREE = "End other programs that hold memory, or try another --device."
FEWER = "Lower --num-samples or --bytes, or give fewer or shorter prompts."
SHORTER = "Show less text, of a file with --bytes."
# What to do when memory runs out, by command: where torch says so, it is a model that wants it, else the text that is read.
MODEL_TOO_LARGE = {
    "train": f"Lower train.micro_batch, {SMALLER}", "bench": f"Lower train.micro_batch, {SMALLER}",
    "compare": f"Take --jobs 1, or lower train.micro_batch, {SMALLER}", "variance": f"Lower --rows, {SMALLER}", "show": SHORTER,
    "generate": FEWER,
}  # fmt: skip
TEXT_TOO_LARGE = {
    "prepare": "Take --jobs 1. A document is held as a whole: split those that are larger than memory.",
    "show": SHORTER, "generate": FEWER, "demo": FREE, "doctor": FREE, "models": FREE, "export": FREE,
}  # fmt: skip
READ_LESS = "Read less of the text with --max-bytes, or let rltok prepare write it to files that stay on the disk."


def _one_line(error: BaseException, command: str) -> str:
    if isinstance(error, MemoryError):
        return f"out of memory. {TEXT_TOO_LARGE.get(command, READ_LESS)}"
    if isinstance(error, RuntimeError):  # torch's own, for a card and for the CPU
        return f"out of memory. {MODEL_TOO_LARGE.get(command, FREE)}"
    return " ".join(str(error).split())


def _mendable(error: BaseException) -> bool:
    """Whether the user can do something about it: of torch's RuntimeErrors only those that want for memory."""
    wants_memory = any(words in str(error) for words in ("allocate memory", "not enough memory", "out of memory"))
    return wants_memory or not isinstance(error, RuntimeError)


def main(arguments: list[str] | None = None) -> int:
    """Run one command.

    Returns:
        0 when it did its work, 2 for a mistake the user can mend, or where standard output could not take the result, and
        128 + the signal's number when it was interrupted: 130 after control-C, 143 after SIGTERM, 129 after SIGHUP.
    """
    if arguments is None:  # this process runs nothing else
        signals.answer()
    with lasting_output(REPLACED) as failure:
        try:
            code = _obey(arguments)
            _end_at_once(code)
        except SystemExit as ended:  # of --help, --version, and options that cannot be understood
            if ended.code or failure() is None:
                raise
            code = 0
        except Exception as error:  # a fault of ours
            _end_at_once(1, error)
            raise
        if code == 0 and (error := failure()) is not None:
            text = f"standard output could not be written ({error.strerror}); all else is done. Make room, or send it elsewhere."
            print(f"rltok: {text}", file=sys.stderr)
            return 2
        return code


def _end_at_once(code: int, error: Exception | None = None) -> None:
    """Where one of several processes failed, end it: its connections may be in any state, and others wait for it."""
    if code and numbered():
        if error is not None:
            sys.excepthook(type(error), error, error.__traceback__)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _obey(arguments: list[str] | None) -> int:
    """A signal is one line whenever it comes: while options are read, during the work, or as an error is told."""
    options = argparse.Namespace(command="")
    try:
        options = parse(arguments)
        return _run(options)
    except KeyboardInterrupt as interrupted:
        number = getattr(interrupted, "number", signal.SIGINT)
        what = "\nrltok: interrupted" if number == signal.SIGINT else f"rltok: ended by {signal.Signals(number).name}"
        notes = "; ".join([what, *getattr(interrupted, "__notes__", [])])
        if _speaks():
            print(f"{notes}.{HOW_TO_GO_ON.get(options.command, '')}", file=sys.stderr)
        return 128 + number


def _speaks() -> bool:
    """Whether it is for this process to say that a signal ended it."""
    if not numbered():
        return True
    from rltok.system import processes

    return processes.interrupted()


def _run(options: argparse.Namespace) -> int:
    processes = None
    try:
        from rltok.cli import commands
        from rltok.kernels import backends
        from rltok.system import processes  # all with torch, whose import takes seconds, and --help needs none of them

        if options.command != "train" and place().count > 1:
            raise RltokError(f"torchrun is for rltok train; rltok {options.command} is one process. Leave torchrun out, {UNSET}.")
        with backends.use(options.backend or backends.requested()):
            getattr(commands, options.command)(options)
        return 0
    except (RltokError, OSError, MemoryError, RuntimeError) as error:
        if processes is None or options.debug or not _mendable(error):
            raise
        line = _one_line(error, options.command)
        if not isinstance(error, processes.Lost) and processes.failed(line):
            print(f"rltok: {line}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
