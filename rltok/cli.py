"""The command line: `rltok COMMAND`. A user's mistake is one line on stderr and exit code 2."""

import argparse
import signal
import sys

import torch

from rltok import backends, commands, signals
from rltok.errors import RltokError
from rltok.options import parse
from rltok.streams import lasting_output

HOW_TO_GO_ON = {
    "train": " Go on with the same command and --resume.",
    "compare": " Go on with the same command, its folder as --out, and --resume.",
    "prepare": " The same command goes on where it stopped.",
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
    """Run one command.

    Returns:
        0 when it did its work, 2 for a mistake the user can mend, or where standard output could not take the result, and
        128 + the signal's number when it was interrupted: 130 after control-C, 143 after SIGTERM, 129 after SIGHUP.
    """
    if arguments is None:  # this process runs nothing else
        signals.answer()
    with lasting_output() as failure:
        try:
            code = _run(parse(arguments))
        except SystemExit as ended:  # of --help, --version, and options that cannot be understood
            if ended.code or failure() is None:
                raise
            code = 0
        if code == 0 and (error := failure()) is not None:
            told = f"standard output could not be written ({error.strerror}); all else is done. Make room, or send it elsewhere."
            print(f"rltok: {told}", file=sys.stderr)
            return 2
        return code


def _run(options: argparse.Namespace) -> int:
    try:
        with backends.use(options.backend or backends.asked()):
            getattr(commands, options.command)(options)
        return 0
    except (RltokError, OSError, MemoryError, RuntimeError) as error:
        if options.debug or not _mendable(error):
            raise
        print(f"rltok: {_one_line(error)}", file=sys.stderr)
        return 2
    except KeyboardInterrupt as interrupted:
        number = getattr(interrupted, "number", signal.SIGINT)
        what = "\nrltok: interrupted" if number == signal.SIGINT else f"rltok: ended by {signal.Signals(number).name}"
        notes = "; ".join([what, *getattr(interrupted, "__notes__", [])])
        print(f"{notes}.{HOW_TO_GO_ON.get(options.command, '')}", file=sys.stderr)
        return 128 + number


if __name__ == "__main__":
    sys.exit(main())
