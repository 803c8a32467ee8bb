"""On which bytes the boundaries of a sweep's contenders lie, from the held-out passages that records keep.

record --places--> counts     sweep --places_table--> a row a contender
"""

from collections import Counter
from typing import Any

import numpy as np
import torch

from rltok.byte_classes import CLASSES, byte_classes
from rltok.evidence_tables import MISSING, contenders_of
from rltok.records import Sweep
from rltok.rule_views import markdown
from rltok.vocab import BOS

PLACES = ("space", "word start", "letter", "punctuation", "digit or other")


def places(sample: dict[str, Any]) -> Counter[str]:
    """Counts of one passage.

    Of every place of PLACES how many bytes are of it and how many of them have a boundary ("at ..."); of words (runs of ASCII
    letters, but for one that the passage begins with) how many there are and before how many the byte has one ("fresh"). `space`
    is white space, `word start` the first letter after it, `letter` any other.
    """
    text = np.frombuffer(sample["text"].encode("latin-1"), np.uint8).astype(np.int64)
    drawn = np.array([bit == "1" for bit in sample["boundaries"]])[: len(text)]
    kinds = byte_classes(torch.from_numpy(np.concatenate([[BOS], text]))[None])[0, 1:].tolist()
    names = [CLASSES[kind] if CLASSES[kind] in PLACES else PLACES[-1] for kind in kinds]
    found = Counter(names)
    found.update(f"at {name}" for name, one in zip(names, drawn, strict=True) if one)
    letters = np.array([name in ("word start", "letter") for name in names])
    starts = np.flatnonzero(letters[1:] & ~letters[:-1])  # the byte before the first letter
    found["words"], found["fresh"] = len(starts), int(drawn[starts].sum())
    return found


def lengths(sample: dict[str, Any]) -> np.ndarray:
    """Bytes of each token of a passage that begins and ends inside it."""
    return np.diff([at for at, bit in enumerate(sample["boundaries"]) if bit == "1"])


def places_table(sweep: Sweep) -> str:
    """Markdown: shares of boundaries by place, of punctuation and of words that have one, and how long tokens are."""
    rows = []
    for name in contenders_of(sweep):
        samples = [sample for run in sweep.runs[name].values() for sample in run["samples"]]
        found = sum((places(sample) for sample in samples), Counter())
        size = np.concatenate([lengths(sample) for sample in samples])
        drawn = sum(found[f"at {place}"] for place in PLACES)

        def share(part: str, whole: int, found: Counter[str] = found) -> str:
            return f"{found[part] / whole:.2f}" if whole else MISSING

        rows.append([
            f"`{name}`", *(share(f"at {place}", drawn) for place in PLACES), share("at punctuation", found["punctuation"]),
            share("fresh", found["words"]), f"{size.mean():.1f} ± {size.std():.1f}" if len(size) else MISSING,
        ])  # fmt: skip
    head = ["of all boundaries, on", *PLACES, "of punctuation, followed by one", "of words, begin a token", "bytes of a token"]
    return markdown(head, rows)
