"""Words without separators that can be told apart as they are read, because none begins another.

Lexicon(words) --follow(bytes)--> which word has just ended, at every byte;  --places(bytes)--> (word, place in it)
"""

from collections.abc import Iterable
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Integer

from rltok.errors import RltokError

NO_WORD = -1
# Of "early", the first letter tells a word from all others, as any two neighbouring letters do. Of "late", only the last letter.
WORDS = {
    "early": (b"bal", b"dor", b"hamu", b"jelo", b"kiro", b"fupe", b"nerti", b"posku"),
    "late": (b"abc", b"abd", b"abe", b"abf", b"abg", b"abh", b"abi", b"abj"),
}


class Lexicon:
    """A prefix-free set of words, and the tree that reads them byte by byte.

    Args:
        words: at least two, of at least one byte each, in the order of their numbers.

    Raises:
        RltokError: fewer than two words, a word that is no bytes or empty, or one that begins another (both are named).

    Example:
        >>> Lexicon([b"ab", b"ba"]).follow(np.frombuffer(b"abba", np.uint8)[None]).tolist()
        [[-1, 0, -1, 1]]
    """

    def __init__(self, words: Iterable[Any]) -> None:
        self.words = tuple(words)
        self._check()
        self.lengths = np.array([len(word) for word in self.words])

    def _check(self) -> None:
        if len(self.words) < 2:
            got = "it is empty" if not self.words else f"it has one word, {self.words[0]!r}"
            raise RltokError(f"a lexicon needs at least 2 words, so that there is something to tell; {got}. Add words.")
        for word in self.words:
            if not isinstance(word, bytes) or not word:
                raise RltokError(f"a word must be bytes, at least one of them; got {word!r}. Write b'word'.")
        in_order = sorted(self.words)
        for first, second in zip(in_order, in_order[1:], strict=False):  # a word sorts directly before those that it begins
            if first == second:
                raise RltokError(f"the word {first!r} stands twice in the lexicon. Take one out.")
            if second.startswith(first):
                raise RltokError(
                    f"the word {first!r} begins the word {second!r}, so without separators the end of the first cannot be seen"
                    " when it is read. Change one of the two."
                )

    def __len__(self) -> int:
        """W, the number of words."""
        return len(self.words)

    @cached_property
    def _tree(self) -> tuple[np.ndarray, np.ndarray]:
        """For every node and byte: the next node, and the word that ends there (NO_WORD: none).

        Node 0 is the start of a word, where a word's end leads back to; the last node is for bytes that are no word's, and is
        never left. [nodes, 256] int64 both.
        """
        nodes: dict[bytes, int] = {b"": 0}
        for word in self.words:
            for stop in range(1, len(word)):
                nodes.setdefault(word[:stop], len(nodes))
        lost = len(nodes)
        after = np.full((lost + 1, 256), lost)
        ends = np.full((lost + 1, 256), NO_WORD)
        for number, word in enumerate(self.words):
            for place, byte in enumerate(word):
                last = place == len(word) - 1
                after[nodes[word[:place]], byte] = 0 if last else nodes[word[: place + 1]]
            ends[nodes[word[:-1]], word[-1]] = number
        return after, ends

    def follow(self, text: Integer[np.ndarray, "B N"]) -> Integer[np.ndarray, "B N"]:
        """Number of the word whose last byte stands here, NO_WORD elsewhere; reading starts at a word's first byte.

        Entry i depends on bytes up to i alone. After bytes that no word has nothing ends any more. Ids above 255 are such.
        """
        after, ends = self._tree
        node = np.zeros(len(text), np.int64)
        words = np.full(text.shape, NO_WORD)
        for i in range(text.shape[1]):
            byte = text[:, i].astype(np.int64)
            known = byte < 256
            byte = np.where(known, byte, 0)
            words[:, i] = np.where(known, ends[node, byte], NO_WORD)
            node = np.where(known, after[node, byte], len(after) - 1)
        return words

    def places(self, text: Integer[np.ndarray, "B N"]) -> tuple[Integer[np.ndarray, "B N"], Integer[np.ndarray, "B N"]]:
        """(word, place in it from 0) of every byte, told in hindsight; NO_WORD where the row ends before the word does."""
        ended = self.follow(text)
        word, place = np.full(text.shape, NO_WORD), np.full(text.shape, NO_WORD)
        for row, stop in zip(*np.nonzero(ended != NO_WORD), strict=True):
            number = ended[row, stop]
            start = stop + 1 - self.lengths[number]
            word[row, start : stop + 1] = number
            place[row, start : stop + 1] = np.arange(self.lengths[number])
        return word, place

    def spell(self, numbers: Iterable[int]) -> bytes:
        """The words of these numbers, one after another."""
        return b"".join(self.words[number] for number in numbers)
