"""The leak of shifted BPE boundaries, counted: what they tell of the rest of a word that its beginning does not tell."""

import math
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

from rltok.config import Config
from rltok.data import Corpus, Rows
from rltok.rules import make_rule
from rltok.rules.bpe import BpeRule

MOST_KNOWN = 8  # beginnings of so many bytes and more are counted together


def fitted(config: Config, corpus: Corpus) -> BpeRule:
    """The BPE rule of a configuration, as its training fits it."""
    rule = make_rule(config.model)
    rule.fit(corpus.train, config.train.seed)
    return rule


def word_steps(rule: BpeRule, word: bytes) -> Iterator[tuple[bytes, bytes, int]]:
    """(the word's beginning, its shifted bits, what comes next: a byte, or 256 for the end) for every length of beginning."""
    bits = rule.pairs.pattern(word, causal=False)
    for k in range(1, len(word) + 1):
        yield word[:k], bits[:k], word[k] if k < len(word) else 256


def words_of(rule: BpeRule, rows: Rows) -> Counter[bytes]:
    """How often each piece of the pre-split occurs."""
    words: Counter[bytes] = Counter()
    for row, length in zip(rows.bytes_, rows.lengths, strict=True):
        data = bytes(row[:length])
        words.update(data[start:stop] for start, stop in rule.pairs.pieces(data))
    return words


def measure_words(rule: BpeRule, corpus: Corpus, rows: Rows) -> dict[str, Any]:
    """Bits per byte of the rest of words, by counts of their beginnings, without and with shifted bits.

    Both counts fall back on the same smoothed estimate, with the weight of one occurrence.
    """
    plain: dict[Any, Counter[int]] = defaultdict(Counter)
    for word, n in words_of(rule, corpus.train).items():
        for beginning, bits, after in word_steps(rule, word):
            plain[beginning][after] += n
            plain[beginning, bits][after] += n
    totals = {key: counts.total() for key, counts in plain.items()}

    def estimate(key: Any, after: int, fallback: float) -> float:
        return (plain[key][after] + fallback) / (totals.get(key, 0) + 1) if key in totals else fallback

    sums: dict[int, list[float]] = defaultdict(lambda: [0, 0.0, 0.0])  # by bytes known: number, bits without, bits with
    for word, n in words_of(rule, rows).items():
        for beginning, bits, after in word_steps(rule, word):
            rough = estimate(beginning, after, 1 / 257)
            place = sums[min(len(beginning), MOST_KNOWN)]
            place[0] += n
            place[1] -= n * math.log2(estimate(beginning, after, rough))
            place[2] -= n * math.log2(estimate((beginning, bits), after, rough))
    count, without, seen = (sum(column) for column in zip(*sums.values(), strict=True))
    by_known = {str(k): {"bytes": n, "leak": (a - b) / n} for k, (n, a, b) in sorted(sums.items())}
    return {"without_bits": without / count, "shifted_bits": seen / count, "leak": (without - seen) / count, "by_known": by_known}
