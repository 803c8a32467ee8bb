"""On which bytes the boundaries of a sweep's methods lie: shares of held-out text, and the passages that records keep.

record --shares--> by class of byte                  passage --words, lengths, onsets, around_words--> counts
sweep --places_table, onsets_table--> rows by method      views of a text --around_table--> rows by view
"""

import re
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

import numpy as np

from rltok.evidence.records import Sweep
from rltok.evidence.tables import label, methods_of, over_seeds
from rltok.evidence.words import NONE
from rltok.show.tables import markdown

PLACES = {"space": "white space", "word start": "first letter after it", "letter": "other letter", "punctuation": "punctuation"}
WORD = re.compile("(?<=[^A-Za-z])[A-Za-z]+")  # but for one that a passage begins with, of which the byte before is not known
BESIDE = re.compile("(?<=[A-Za-z] )[A-Za-z]+")
ONSET = re.compile("[yY]?[^aeiouyAEIOUY]*")  # y counts as a consonant where a word begins with it, else as a vowel
MOST, LETTERS = 2, 3  # consonants that are told apart, the rest is "or more"; letters of a word that are looked at
CLUSTERS = "stST"  # with which most words of several consonants begin: the, she, still


def shares(score: Mapping[str, Any]) -> dict[str, float]:
    """The share of all boundaries on held-out text that lies on each class of bytes: rate * count of the class, over their sum.

    Classes are those of `rltok.byte_classes`; one that the text lacks has no rate.
    """
    counts, rates = score["class_counts"], score["class_rates"]
    drawn = {name: counts[name] * (rates.get(name) or 0.0) for name in counts}
    total = sum(drawn.values())
    return {name: count / total for name, count in drawn.items()} if total else {}


def words(sample: Mapping[str, Any]) -> tuple[int, int]:
    """(words, those of them that begin a token) of a passage: the byte before the first letter has a boundary.

    Words are runs of ASCII letters; one that the passage begins with does not count.
    """
    text = np.frombuffer(sample["text"].encode("latin-1"), np.uint8)
    lower = text | 0x20
    letters = (lower >= ord("a")) & (lower <= ord("z"))
    before = np.flatnonzero(letters[1:] & ~letters[:-1])  # the byte before a first letter
    return len(before), sum(sample["boundaries"][at] == "1" for at in before)


def lengths(sample: Mapping[str, Any]) -> list[int]:
    """Bytes of each token of a passage that begins and ends inside it."""
    return np.diff([at for at, bit in enumerate(sample["boundaries"]) if bit == "1"]).tolist()


def places_table(sweep: Sweep, names: Sequence[str] | None = None) -> str:
    """Markdown: shares of boundaries by place, of punctuation and of words that have one, and how long tokens are.

    A row for each method, or for those named.
    """
    rows = []
    for name in (name for name in methods_of(sweep) if names is None or name in names):
        runs = list(sweep.runs[name].values())
        scores = [run["scores"]["validation"] for run in runs if "class_counts" in run["scores"]["validation"]]
        parts = [share for score in scores if (share := shares(score))]
        samples = [sample for run in runs for sample in run["samples"]]
        counted = [words(sample) for sample in samples]
        all_words = sum(count for count, _ in counted)
        sizes = [size for sample in samples for size in lengths(sample)]
        rows.append([
            f"`{name}`", *(over_seeds([share[place] for share in parts], ".2f") for place in PLACES),
            over_seeds([rate for score in scores if (rate := score["class_rates"].get("punctuation")) is not None], ".2f"),
            f"{sum(fresh for _, fresh in counted) / all_words:.2f}" if all_words else NONE,
            f"{fmean(sizes):.1f} ± {np.std(sizes):.1f}" if sizes else NONE,
        ])  # fmt: skip
    heads = ["of punctuation, followed by one", "of words, begin a token", "bytes of a token"]
    return markdown(["of all boundaries, on", *PLACES.values(), *heads], rows)


def onsets(sample: Mapping[str, Any]) -> dict[tuple[int, bool, int], list[bool]]:
    """Whether the words of a passage have a boundary, by the consonants that they begin with and by place.

    Keys are (consonants before the first vowel, MOST for as many or more; whether the first letter is one of CLUSTERS; place):
    place 0 is the byte before the word, place k its k-th letter, which shorter words lack. Words are runs of ASCII letters.
    """
    text, drawn = sample["text"], sample["boundaries"]
    drawn_at: dict[tuple[int, bool, int], list[bool]] = {}
    for word in WORD.finditer(text):
        count = min(len(ONSET.match(word[0])[0]), MOST)
        for place in range(min(len(word[0]), LETTERS) + 1):
            key = (count, word[0][0] in CLUSTERS, place)
            drawn_at.setdefault(key, []).append(drawn[word.start() - 1 + place] == "1")
    return drawn_at


BEGINNINGS = {
    (0, False): "a vowel", (1, False): "one consonant, not s or t", (1, True): "s or t and a vowel",
    (MOST, False): "several consonants, not s or t first", (MOST, True): "several consonants, s or t first",
}  # fmt: skip


def onsets_table(sweep: Sweep, name: str) -> str:
    """Markdown: which part of words has a boundary, in the passages that the runs of a method keep; a row for each beginning.

    Words are counted once, whatever the number of seeds: all runs keep the same passages.
    """
    runs, rows = sweep.runs[name].values(), []
    each = [onsets(sample) for run in runs for sample in run["samples"]]
    for (count, cluster), told in BEGINNINGS.items():
        cells = [[bit for one in each for bit in one.get((count, cluster, at), [])] for at in range(LETTERS + 1)]
        shares = [f"{fmean(bits):.2f}" if bits else NONE for bits in cells]
        rows.append([told, str(len(cells[0]) // len(runs)), *shares])
    after = ["before the word", *(f"after letter {place}" for place in range(1, LETTERS + 1))]
    return markdown([f"words of `{name}`, `{label(sweep)}`, that begin with", "words", *after], rows)


AROUND = {"last letter before the space": -2, "the space": -1, "letter 1": 0, "letter 2": 1, "letter 3": 2}


def around_words(view: Mapping[str, Any]) -> dict[str, list[bool]]:
    """Whether there is a boundary at each place around the beginning of a word, of all words after a letter and one space."""
    text, drawn = view["text"], view["boundaries"]
    drawn_at: dict[str, list[bool]] = {place: [] for place in AROUND}
    for word in BESIDE.finditer(text):
        for place, offset in AROUND.items():
            if offset < len(word[0]):
                drawn_at[place].append(drawn[word.start() + offset] == "1")
    return drawn_at


def around_table(views: Mapping[str, Mapping[str, Any]]) -> str:
    """Markdown: share of words with a boundary at each place around their beginning, a row for each named view of a text."""
    rows = []
    for name, view in views.items():
        drawn_at = around_words(view)
        shares = [f"{fmean(bits):.2f}" if bits else NONE for bits in drawn_at.values()]
        rows.append([name, str(len(drawn_at["the space"])), *shares])
    return markdown(["of words, have a boundary after", "words", *AROUND], rows)
