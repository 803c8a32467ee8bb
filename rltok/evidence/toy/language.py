"""A language whose information lies in the order of its words, and all that is known of it exactly.

lexicon, table p(c | a, b) --> stationary p(a, b) --> entropy rate, bits per byte
                           --> rows of bytes --bits--> -log2 p of each byte to a reader who knows the language
"""

import math
from functools import cached_property

import numpy as np
from jaxtyping import Float, Integer

from rltok.data.corpus import Corpus, describe
from rltok.data.documents import Document
from rltok.data.rows import Rows, cut_documents
from rltok.errors import RltokError
from rltok.evidence.toy.lexicon import NO_WORD, Lexicon

SETTLED = 1e-15  # change of a stationary probability at which the iteration stops
MOST_STEPS = 100_000
SPLITS = ("train", "validation", "test")


class Language:
    """Words of a lexicon in a Markov chain of second order: each depends on the two before it.

    Args:
        lexicon: W words.
        table: probability of word c after the words a, b; each row [a, b] sums to 1.

    Raises:
        RltokError: a table of another shape, with negative entries, or with rows that do not sum to 1.
    """

    def __init__(self, lexicon: Lexicon, table: Float[np.ndarray, "a b c"]) -> None:
        words = len(lexicon)
        if table.shape != (words, words, words):
            raise RltokError(f"the table of {words} words must have shape {(words,) * 3}; got {table.shape}.")
        if (table < 0).any() or not np.allclose(table.sum(axis=2), 1, rtol=0, atol=1e-9):
            raise RltokError(
                f"every row of the table must hold probabilities that sum to 1; entries go from {table.min():g}, sums from"
                f" {table.sum(axis=2).min():g} to {table.sum(axis=2).max():g}. Divide each row by its sum."
            )
        self.lexicon, self.table = lexicon, table

    @cached_property
    def stationary(self) -> Float[np.ndarray, "a b"]:
        """Share of every pair of neighbours in endless text: p(b, c) = sum_a p(a, b) p(c | a, b), by iteration."""
        pairs = np.full(self.table.shape[:2], 1 / self.table.shape[0] ** 2)
        for _ in range(MOST_STEPS):
            after = np.einsum("ab,abc->bc", pairs, self.table)
            after = (after + pairs) / 2  # a chain that goes round in circles settles too
            if np.abs(after - pairs).max() < SETTLED:
                return after / after.sum()
            pairs = after
        raise RltokError(
            f"the shares of word pairs do not settle within {MOST_STEPS} steps. Raise the table's smallest probabilities."
        )

    @property
    def word_shares(self) -> Float[np.ndarray, " b"]:
        """Share of every word among the words of endless text."""
        return self.stationary.sum(axis=0)

    @property
    def bytes_per_word(self) -> float:
        """Mean length of a word in endless text; its inverse is the rate of word ends."""
        return float(self.word_shares @ self.lexicon.lengths)

    @property
    def entropy_rate(self) -> float:
        """Bits per byte that no reader can save: H(c | a, b) over the mean length of a word."""
        logs = np.log2(self.table, where=self.table > 0, out=np.zeros_like(self.table))
        return -float(np.einsum("ab,abc,abc->", self.stationary, self.table, logs)) / self.bytes_per_word

    def words(self, rows: int, count: int, seed: tuple[int, ...]) -> Integer[np.ndarray, "R count"]:
        """Word numbers; every row begins as if it were cut out of endless text at a word's start."""
        uniforms = np.random.Generator(np.random.Philox(np.random.SeedSequence(seed))).random((rows, count + 2))
        shares, last = np.cumsum(self.stationary.ravel())[:-1], len(self.lexicon)
        before, now = np.divmod(np.searchsorted(shares, uniforms[:, 0], side="right"), last)
        below = self.table.cumsum(axis=2)[..., :-1]  # without the last sum, which rounding may leave under 1
        made = np.empty((rows, count), np.int64)
        for i in range(count):
            drawn = (uniforms[:, i + 1, None] >= below[before, now]).sum(axis=1)
            before, now = now, drawn
            made[:, i] = drawn
        return made

    def rows(self, rows: int, length: int, seed: tuple[int, ...], name: str) -> Rows:
        """Rows of `length` bytes for the model, each a document of its own that begins with a word."""
        count = math.ceil(length / int(self.lexicon.lengths.min()))
        texts = (self.lexicon.spell(numbers)[:length] for numbers in self.words(rows, count, seed).tolist())
        documents = (Document(text, name, str(number)) for number, text in enumerate(texts))
        return cut_documents(documents, length, "documents", name=name)

    def corpus(self, name: str, length: int, sizes: tuple[int, int, int], seed: int) -> Corpus:
        """Training, validation and test rows of `length` bytes, `sizes` of them, each split from a seed of its own."""
        made = [self.rows(size, length, (seed, part), name) for part, size in enumerate(sizes)]
        facts = {"name": name, "words": len(self.lexicon), "entropy_rate": self.entropy_rate, "sequence_length": length}
        return Corpus(*made, facts | {split: describe(rows) for split, rows in zip(SPLITS, made, strict=True)})

    def bits(self, text: Integer[np.ndarray, "B N"]) -> Float[np.ndarray, "B N"]:
        """-log2 p of each byte given the row's bytes before it, to a reader who knows the language.

        Rows begin with a word. What such a reader cannot know are the two words before the row, so that the first two words
        cost more than later ones; from the third on the mean is `entropy_rate`.
        """
        return np.array([self._bits_of_row(row) for row in text])

    def _bits_of_row(self, row: np.ndarray) -> np.ndarray:
        first, of_pair = self.word_shares, self.stationary / np.maximum(self.word_shares[:, None], 1e-300)
        history: list[int] = []
        ended, spent, start = self.lexicon.follow(row[None])[0], np.empty(len(row)), 0
        for i in range(len(row)):
            if start == i:  # a word begins
                shares = first if not history else of_pair[history[0]] if len(history) == 1 else self.table[tuple(history[-2:])]
                left = sum(shares)
            prefix = row[start : i + 1].astype(np.uint8).tobytes()
            fits = sum(share for word, share in zip(self.lexicon.words, shares, strict=True) if word.startswith(prefix))
            spent[i] = math.log2(left / fits) if fits > 0 else math.inf
            left = fits
            if ended[i] != NO_WORD:
                history, start = [*history[-1:], int(ended[i])], i + 1
        return spent


def second_order(lexicon: Lexicon, surprise: float, seed: int) -> Language:
    """A language in which two words together foretell the next, and either of them alone tells nothing.

    After the words a, b comes a favourite f(a, b); with probability `surprise` a word drawn from all evenly instead. For fixed b
    the favourites of all a are different, and for fixed a those of all b (a Latin square, shuffled with the seed), so all pairs
    are equally frequent in the long run.

    Raises:
        RltokError: `surprise` outside [0, 1].
    """
    _check_surprise(surprise)
    words = len(lexicon)
    generator = np.random.Generator(np.random.Philox(np.random.SeedSequence((seed, words))))
    rows, columns, names = (np.argsort(generator.random(words)) for _ in range(3))
    favourite = names[(rows[:, None] + columns[None, :]) % words]
    return Language(lexicon, (1 - surprise) * np.eye(words)[favourite] + surprise / words)


def independent(lexicon: Lexicon) -> Language:
    """The control: every word as likely after any two, so there is nothing that a token could carry to the next word."""
    words = len(lexicon)
    return Language(lexicon, np.full((words, words, words), 1 / words))


def _check_surprise(surprise: float) -> None:
    if not 0 < surprise <= 1:
        raise RltokError(
            f"surprise must be greater than 0 and at most 1, the probability of a word that nothing foretells; got {surprise:g}."
        )
