"""Faster ways of the fast path whose gain no card has shown yet: each is off, and a measurement turns it on for its own time.

An attempt that is kept becomes the only way, and one that is not is deleted; either takes its name out of `NAMES`.
"""

import contextlib
from collections.abc import Iterator

NAMES = {
    "tanh": "attention: the card's own tanh for the softcap, and one comparison instead of two for who sees whom",
    "pairs": "attention of byte layers, forward: halves that are turned together stand side by side, and are read once",
    "merge": "attention of byte layers: two half-empty tiles of scores are one full one, in whose elements half the work is",
    "turn": "attention of tokens: gradients of queries and keys are turned back in registers, not in a pass of their own",
    "stream": "the residual stream and its gradient in 16 bits",
    "zeros": "no gradient of zeros is made and read for a sum that nothing but its norm is read from",
    "weights": "weights of products are narrowed once an update, all at once, and their gradients are never in 16 bits",
    "graphs": "byte layers of a training step as two CUDA graphs",
    "ahead": "AdamW is queued before the processor waits for loss and norm, and the card itself drops a step that is not finite",
}
_on: frozenset[str] = frozenset()  # of the whole process: backward passes run in threads of their own


def on(name: str) -> bool:
    """Whether this attempt is to be taken."""
    assert name in NAMES, name
    return name in _on


def taken() -> frozenset[str]:
    """All that are on."""
    return _on


@contextlib.contextmanager
def trying(*names: str) -> Iterator[None]:
    """Take these attempts, and no others, for everything inside."""
    global _on
    assert set(names) <= set(NAMES), names
    before, _on = _on, frozenset(names)
    try:
        yield
    finally:
        _on = before
