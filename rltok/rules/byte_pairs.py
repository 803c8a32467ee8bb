"""Byte-pair encoding over raw bytes, and the boundaries that follow from it.

    text --learn_merges--> merges [M, 2] --BytePairs--> where tokens start in any bytes, valid UTF-8 or not

The table of merges is all there is to a tokenizer: ids 0..255 are bytes, and every merge whose string is new makes the next
id. The `tokenizers` package learns the merges, splits text before them (GPT-2's byte-level pre-split) and applies them.
"""

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from jaxtyping import Bool, Int

from rltok.errors import RltokError

MIN_FREQUENCY = 2  # a pair that occurs once is no pattern
STRANGER = "\ufffd"  # stands for a byte that belongs to no whole character: neither letter, digit nor space
# Two characters of up to 4 bytes, then up to 3 bytes of a third: the pre-split never looks further ahead.
SETTLED = 11
# A place where every split starts anew, whatever stands before: white space right after visible ASCII.
CHUNK = re.compile(rb"(?<=[!-~])(?=[ \t\n\r\v\f])")
SURROGATES = re.compile("[\udc80-\udcff]+")
MOST_CACHED = 1 << 18  # chunks, and pieces of text between splits; English has far fewer that are frequent
LONGEST_CACHED = 128  # bytes


def require_tokenizers() -> Any:
    """The optional package, imported when it is needed. Raises `RltokError` where it is not installed."""
    try:
        import tokenizers
    except ImportError as error:
        raise RltokError(
            "BPE boundaries need the tokenizers package. Run: pip install 'rltok[bpe]' (in a clone: pip install -e '.[bpe]')"
        ) from error
    return tokenizers


def _letters() -> list[str]:
    """GPT-2's letter for every byte: itself where it is printable Latin-1, else the next one from U+0100 on."""
    visible = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    hidden = iter(range(0x100, 0x200))
    return [chr(byte if byte in visible else next(hidden)) for byte in range(256)]


def valid_runs(data: bytes) -> list[str]:
    """The stretches of valid UTF-8 in any bytes, in order."""
    return [run for run in SURROGATES.split(data.decode("utf-8", errors="surrogateescape")) if run]


def learn_merges(texts: Iterable[bytes], vocabulary: int) -> Int[np.ndarray, "M 2"]:
    """Merges of a byte-level BPE, most frequent pair first, until there are `vocabulary` ids or no pair occurs twice.

    Args:
        texts: any bytes; those that are no UTF-8 are left out.
        vocabulary: ids wanted, the 256 bytes among them.

    Returns:
        int32 [M, 2], M <= vocabulary - 256: text that is too short for so many ids gives fewer.

    Raises:
        RltokError: a vocabulary beyond the bytes is wanted, but no pair of bytes occurs twice inside a word.
    """
    package, letters = require_tokenizers(), _letters()
    tokenizer = package.Tokenizer(package.models.BPE())
    tokenizer.pre_tokenizer = package.pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = package.trainers.BpeTrainer(
        vocab_size=vocabulary, min_frequency=MIN_FREQUENCY, initial_alphabet=letters, show_progress=False
    )
    tokenizer.train_from_iterator((run for text in texts for run in valid_runs(text)), trainer)
    pairs = json.loads(tokenizer.to_str())["model"]["merges"]
    if not pairs and vocabulary > 256:
        raise RltokError(
            f"the training text supports no BPE vocabulary of {vocabulary}: no pair of bytes occurs {MIN_FREQUENCY} times"
            " inside a word. Give more text, or set model.rule.vocabulary=256."
        )
    ids = {letter: byte for byte, letter in enumerate(letters)}
    merges = np.zeros((len(pairs), 2), np.int32)
    for number, (left, right) in enumerate(pairs):
        merges[number] = ids[left], ids[right]
        ids.setdefault(left + right, len(ids))  # two ways to the same string share an id
    return merges


class BytePairs:
    """Where the tokens of a byte-level BPE start. Results of frequent words are kept, which changes no result.

    Args:
        merges: int [M, 2] as `learn_merges` gives them.

    Raises:
        RltokError: a merge of an id that is not made yet.
    """

    def __init__(self, merges: Int[np.ndarray, "M 2"]) -> None:
        package, letters = require_tokenizers(), _letters()
        self._table = {byte: letter for byte, letter in enumerate(letters)}
        strings, ids = list(letters), {letter: byte for byte, letter in enumerate(letters)}
        pairs = []
        for number, (left, right) in enumerate(merges.tolist()):
            if not (0 <= left < len(strings) and 0 <= right < len(strings)):
                raise RltokError(f"merge {number} joins ids {left} and {right}, of {len(strings)} so far. Fit the rule again.")
            pairs.append((strings[left], strings[right]))
            if (joined := strings[left] + strings[right]) not in ids:
                ids[joined] = len(strings)
                strings.append(joined)
        self.vocabulary = len(strings)
        self._model = package.models.BPE(vocab=ids, merges=pairs)
        self._split = package.pre_tokenizers.ByteLevel(add_prefix_space=False)
        self._lengths: dict[bytes, tuple[int, ...]] = {}
        self._patterns: dict[tuple[bytes, bool], bytes] = {}

    def pieces(self, data: bytes) -> Iterator[tuple[int, int]]:
        """(start, stop) in bytes of what the pre-split makes of the data, in order; they tile it."""
        text = data.decode("utf-8", errors="surrogateescape")
        if len(text) == len(data) and text.isascii():
            yield from (span for _, span in self._split.pre_tokenize_str(text))
            return
        text = SURROGATES.sub(lambda run: STRANGER * len(run[0]), text)
        # a stranger that was there before has 3 bytes, one that stands for a byte has 1
        sizes = [len(c.encode("utf-8", errors="surrogateescape")) for c in data.decode("utf-8", errors="surrogateescape")]
        places = np.concatenate([[0], np.cumsum(sizes)]).tolist()
        yield from ((places[start], places[stop]) for _, (start, stop) in self._split.pre_tokenize_str(text))

    def lengths(self, piece: bytes) -> tuple[int, ...]:
        """Bytes of each token of one piece."""
        lengths = self._lengths.get(piece)
        if lengths is None:
            letters = piece.decode("latin-1").translate(self._table)
            lengths = tuple(len(token.value) for token in self._model.tokenize(letters))
            _keep(self._lengths, piece, piece, lengths)
        return lengths

    def starts(self, data: bytes) -> list[int]:
        """First byte of every token when the data are segmented as a whole."""
        starts = []
        for start, stop in self.pieces(data):
            for length in self.lengths(data[start:stop]):
                starts.append(start)
                start += length
        return starts

    def _causal(self, chunk: bytes) -> bytes:
        """1 where the last token of the chunk up to and with that byte, segmented alone, is that byte."""
        pattern, base = bytearray(len(chunk)), 0
        for stop in range(1, len(chunk) + 1):
            spans = list(self.pieces(chunk[base:stop]))
            start, end = spans[-1]
            pattern[stop - 1] = self.lengths(chunk[base + start : base + end])[-1] == 1
            # pieces that no later byte can change need not be split again
            base += max((end for _, end in spans if end + SETTLED <= stop - base), default=0)
        return bytes(pattern)

    def _whole(self, chunk: bytes) -> bytes:
        """1 at the first byte of every token."""
        pattern = bytearray(len(chunk))
        for start in self.starts(chunk):
            pattern[start] = 1
        return bytes(pattern)

    def pattern(self, data: bytes, causal: bool) -> bytes:
        """0 or 1 for every byte: 1 where a token starts, in the data as a whole or in the data up to that byte.

        Args:
            data: any bytes.
            causal: False segments the whole data once. True segments every prefix alone and says of its last byte whether
                the last token starts there, so that no entry depends on a later byte.
        """
        return b"".join(self._chunk_pattern(chunk, causal) for chunk in CHUNK.split(data) if chunk)

    def _chunk_pattern(self, chunk: bytes, causal: bool) -> bytes:
        pattern = self._patterns.get((chunk, causal))
        if pattern is None:
            pattern = (self._causal if causal else self._whole)(chunk)
            _keep(self._patterns, (chunk, causal), chunk, pattern)
        return pattern


def _keep(cache: dict, key: Any, data: bytes, value: Any) -> None:
    """Remember a result, unless it is a rare one; a full memory starts again."""
    if len(data) <= LONGEST_CACHED:
        if len(cache) >= MOST_CACHED:
            cache.clear()
        cache[key] = value


def row_pattern(pairs: BytePairs, ids: Int[np.ndarray, " N"], causal: bool) -> Bool[np.ndarray, " N"]:
    """Boundaries of one row of ids. BOS and EOS are tokens of their own, between which texts are segmented apart.

    The first byte of a text follows no token of it, so the whole segmentation draws no boundary there (appendix D.1).
    """
    pattern = ids >= 256
    edges = np.flatnonzero(pattern)
    for start, stop in zip([0, *(edges + 1).tolist()], [*edges.tolist(), len(ids)], strict=True):
        if stop > start:
            data = ids[start:stop].astype(np.uint8).tobytes()
            pattern[start:stop] = np.frombuffer(pairs.pattern(data, causal), np.uint8).astype(bool)
            pattern[start] &= causal
    return pattern
