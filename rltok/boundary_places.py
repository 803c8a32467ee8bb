"""On which bytes the boundaries of a sweep's contenders lie: shares of held-out text, and the passages that records keep.

record --shares--> by class of byte     passage --words, lengths--> counts     sweep --places_table--> a row a contender
"""

from collections.abc import Mapping
from statistics import fmean
from typing import Any

import numpy as np

from rltok.evidence_tables import MISSING, contenders_of, over_seeds
from rltok.records import Sweep
from rltok.rule_views import markdown

PLACES = {"space": "white space", "word start": "first letter after it", "letter": "other letter", "punctuation": "punctuation"}


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
