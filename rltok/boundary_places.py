"""On which bytes the boundaries of a sweep's contenders lie: shares of held-out text, and the passages that records keep.

record --shares--> by class of byte     passage --words, lengths, onsets--> counts     sweep --places_table--> a row a contender
"""

import re
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

import numpy as np

from rltok.evidence_tables import MISSING, by_size, contenders_of, label, over_seeds
from rltok.records import Sweep
from rltok.rule_views import markdown

PLACES = {"space": "white space", "word start": "first letter after it", "letter": "other letter", "punctuation": "punctuation"}
WORD = re.compile("(?<=[^A-Za-z])[A-Za-z]+")  # but for one that a passage begins with, of which the byte before is not known
ONSET = re.compile("[yY]?[^aeiouyAEIOUY]*")  # y counts as a consonant where a word begins with it, else as a vowel
MOST, LETTERS = 2, 3  # consonants that are told apart, the rest is "or more"; letters of a word that are looked at


def shares(score: Mapping[str, Any]) -> dict[str, float]:
    """Of all boundaries on held-out text the part on each class of bytes: rate * count of the class, over their sum.

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


def places_table(sweep: Sweep) -> str:
    """Markdown: shares of boundaries by place, of punctuation and of words that have one, and how long tokens are."""
    rows = []
    for name in contenders_of(sweep):
        runs = list(sweep.runs[name].values())
        scores = [run["scores"]["validation"] for run in runs if "class_counts" in run["scores"]["validation"]]
        parts = [found for score in scores if (found := shares(score))]
        samples = [sample for run in runs for sample in run["samples"]]
        counted = [words(sample) for sample in samples]
        all_words = sum(count for count, _ in counted)
        sizes = [size for sample in samples for size in lengths(sample)]
        rows.append([
            f"`{name}`", *(over_seeds([found[place] for found in parts], ".2f") for place in PLACES),
            over_seeds([rate for score in scores if (rate := score["class_rates"].get("punctuation")) is not None], ".2f"),
            f"{sum(fresh for _, fresh in counted) / all_words:.2f}" if all_words else MISSING,
            f"{fmean(sizes):.1f} ± {np.std(sizes):.1f}" if sizes else MISSING,
        ])  # fmt: skip
    found = ["of punctuation, followed by one", "of words, begin a token", "bytes of a token"]
    return markdown(["of all boundaries, on", *PLACES.values(), *found], rows)


def onsets(sample: Mapping[str, Any]) -> dict[tuple[int, int], list[bool]]:
    """Whether the words of a passage have a boundary, by the consonants that they begin with and by place.

    Keys are (consonants before the first vowel, MOST for as many or more; place): place 0 is the byte before the word, place k
    its k-th letter, which shorter words do not have. Words are runs of ASCII letters.
    """
    text, drawn = sample["text"], sample["boundaries"]
    found: dict[tuple[int, int], list[bool]] = {}
    for word in WORD.finditer(text):
        count = min(len(ONSET.match(word[0])[0]), MOST)
        for place in range(min(len(word[0]), LETTERS) + 1):
            found.setdefault((count, place), []).append(drawn[word.start() - 1 + place] == "1")
    return found


def onsets_table(sweeps: Sequence[Sweep], names: Sequence[str]) -> str:
    """Markdown: which part of words has a boundary, in the passages that records keep; a row a size, contender and onset."""
    rows = []
    for sweep in by_size(sweeps):
        for name in (name for name in names if name in sweep.runs):
            each = [onsets(sample) for run in sweep.runs[name].values() for sample in run["samples"]]
            for count in range(MOST + 1):
                cells = [[bit for one in each for bit in one.get((count, place), [])] for place in range(LETTERS + 1)]
                begin = "a vowel" if count == 0 else f"{count} consonant{'s' if count > 1 else ''}{' or more' * (count == MOST)}"
                shares = [f"{fmean(bits):.2f}" if bits else MISSING for bits in cells]
                rows.append([f"`{name}`", label(sweep), begin, str(len(cells[0])), *shares])
    after = ["the byte before", *(f"letter {place}" for place in range(1, LETTERS + 1))]
    return markdown(
        ["contender", "size", "words that begin with", "words", *(f"boundary after {where}" for where in after)], rows
    )
