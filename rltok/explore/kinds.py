"""After which kinds of bytes a model ends its tokens."""

import re
from collections import Counter
from collections.abc import Iterable

# In this order: a byte is of the first kind that takes it.
KINDS = {
    "end of a line": rb"\n",
    "other white space": rb"\s",
    "vowel": rb"[aeiouAEIOU]",
    "first consonants of a word": rb"(?<![A-Za-z])[A-Za-z](?:(?![aeiouAEIOU])[A-Za-z])*",
    "other consonant": rb"[A-Za-z]",
    "digit": rb"[0-9]",
    "closing bracket": rb"[)\]}]",
    "other sign": rb"[\x00-\x7f]",
    "beyond ASCII": rb"[\x80-\xff]",
}
KIND = re.compile(b"|".join(b"(%b)" % pattern for pattern in KINDS.values()))


def counted(kinds: Iterable[str], boundaries: Iterable[bool]) -> dict[str, tuple[int, int]]:
    """(Boundaries, positions) of each kind that is there, by the kind and the boundary of every byte."""
    drawn, there = Counter[str](), Counter[str]()
    for kind, boundary in zip(kinds, boundaries, strict=True):
        drawn[kind] += bool(boundary)
        there[kind] += 1
    return {kind: (drawn[kind], there[kind]) for kind in there}


def places(data: bytes, boundaries: Iterable[bool]) -> dict[str, tuple[int, int]]:
    """(Boundaries after bytes of a kind, such bytes), for the kinds of KINDS that the data have, in their order.

    Example:
        >>> places(b"to 2", [True, False, False, True])
        {'other white space': (0, 1), 'vowel': (0, 1), 'first consonants of a word': (1, 1), 'digit': (1, 1)}
    """
    names = [*KINDS]
    kinds = [name for match in KIND.finditer(data) for name in [names[match.lastindex - 1]] * len(match[0])]
    found = counted(kinds, boundaries)
    return {name: found[name] for name in KINDS if name in found}
