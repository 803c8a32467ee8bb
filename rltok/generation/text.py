"""From bytes that come one by one to text that can be shown at once: whole characters, and no part of a stop string."""

from rltok.errors import RltokError
from rltok.vocab import StreamingDecoder, Texts, as_texts


class TextStream:
    """The text of one row. Bytes that may begin a stop string wait until it is clear that they do not.

    Args:
        stops: a text or several; where the first of them is complete the row ends, and it is not part of the text.

    Raises:
        RltokError: an empty stop string.
    """

    def __init__(self, stops: Texts) -> None:
        self._stops = as_texts(stops)
        if not all(self._stops):
            raise RltokError("a stop string is empty, so the text would end before it begins. Give at least one character.")
        self._decoder, self._waiting = StreamingDecoder(), b""
        self.data, self.stopped = b"", False

    def feed(self, byte: int) -> str:
        """The characters that one more byte makes certain."""
        self._waiting += bytes([byte])
        matches = [len(stop) for stop in self._stops if self._waiting.endswith(stop)]
        if matches:
            self.stopped, self._waiting = True, self._waiting[: -max(matches)]
        return self._release(0 if matches else self._may_begin_a_stop())

    def finish(self) -> str:
        """What was waiting, once no byte follows; a character without its end becomes U+FFFD."""
        return self._release(0) + self._decoder.finish()

    def _may_begin_a_stop(self) -> int:
        """Bytes at the end that could be the start of a stop string."""
        longest = max(map(len, self._stops), default=1) - 1
        sizes = range(min(longest, len(self._waiting)), 0, -1)
        return next((size for size in sizes if any(stop.startswith(self._waiting[-size:]) for stop in self._stops)), 0)

    def _release(self, waiting: int) -> str:
        cut = len(self._waiting) - waiting
        free, self._waiting = self._waiting[:cut], self._waiting[cut:]
        self.data += free
        return self._decoder.feed(free)
