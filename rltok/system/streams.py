"""Output whose failure does not stop work: what cannot be written, to a closed pipe or a full disk, is dropped."""

import io
import os
import select
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any


class _Raw(io.RawIOBase):
    """Passes bytes on to another stream until that fails; `error` says why it did."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self.error: OSError | None = None

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._stream.fileno()

    def isatty(self) -> bool:
        return self._stream.isatty()

    def write(self, data: Any) -> int:
        while self.error is None:
            try:
                if (written := self._stream.write(data)) is not None:
                    return written
                select.select([], [self._stream], [])  # a pipe that is full for now and does not block
            except OSError as error:
                self.error = error
        return len(data)


class Lasting(io.TextIOWrapper):
    """The same output as a stream of Python's own, but writing to it never fails."""

    def __init__(self, stream: io.TextIOWrapper) -> None:
        with suppress(OSError):
            stream.flush()
        self._before = stream  # which would be closed with its last name
        self._lasting = _Raw(getattr(stream.buffer, "raw", stream.buffer))
        at_once = stream.line_buffering or stream.write_through
        super().__init__(io.BufferedWriter(self._lasting), stream.encoding, stream.errors, line_buffering=at_once)

    def failure(self) -> OSError | None:
        """Why something was dropped; None if everything was written, or the reader closed the pipe."""
        self.flush()
        error = self._lasting.error
        return None if isinstance(error, BrokenPipeError) else error


def lasting(stream: Any) -> Any:
    """`Lasting` in place of a stream of Python's own; any other, such as a notebook's, stays."""
    return Lasting(stream) if isinstance(stream, io.TextIOWrapper) and not isinstance(stream, Lasting) else stream


@contextmanager
def lasting_output(errors: str = "replace") -> Iterator[Callable[[], OSError | None]]:
    """Make standard output and standard error `Lasting` inside; yields `Lasting.failure` of standard output.

    `errors` is what becomes of characters that standard output's encoding lacks.
    """
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by the caller, as with >&-
            setattr(sys, name, open(os.devnull, "w"))
    before = sys.stdout, sys.stderr
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors=errors)
    sys.stdout, sys.stderr = map(lasting, before)
    try:
        yield sys.stdout.failure if isinstance(sys.stdout, Lasting) else lambda: None
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        sys.stdout, sys.stderr = before
