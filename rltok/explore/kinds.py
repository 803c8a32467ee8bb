"""After which kinds of bytes a model ends its tokens, and after which bytes of a kind."""

import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import TypeVar

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
Kind = TypeVar("Kind", bound=Hashable)
Counts = Mapping[str, Mapping[str, tuple[int, int]]]  # kind, byte: boundaries after it, how often it is there
GROUPS: dict[str, Callable[[str], bool]] = {
    "letters": str.isalpha, "digits": str.isdigit, "signs": lambda sign: len(sign) == 1 and not sign.isalnum(),
    "bytes beyond ASCII": lambda sign: len(sign) > 1,
}  # fmt: skip
WHITE = ("end of a line", "other white space")  # no kind of these mixes bytes that differ
OFTEN = 20  # so many of a byte, before anything is said of it by itself
ALWAYS, HARDLY, APART = 95, 5, 20  # percent


def counted(kinds: Iterable[Kind], boundaries: Iterable[bool]) -> dict[Kind, tuple[int, int]]:
    """(Boundaries, positions) of each kind that is there, by the kind and the boundary of every byte."""
    drawn, there = Counter[Kind](), Counter[Kind]()
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
    return {kind: added(found) for kind, found in each_byte(data, boundaries).items()}


def added(counts: Mapping[str, tuple[int, int]]) -> tuple[int, int]:
    """(Boundaries, positions) of several bytes together."""
    return sum(drawn for drawn, _ in counts.values()), sum(there for _, there in counts.values())


def each_byte(data: bytes, boundaries: Iterable[bool]) -> dict[str, dict[str, tuple[int, int]]]:
    """What `places` counts, by kind and byte: a sign of ASCII as itself, another byte as <0A>.

    Example:
        >>> each_byte(b"a(e)", [True, False, False, True])
        {'vowel': {'a': (1, 1), 'e': (0, 1)}, 'closing bracket': {')': (1, 1)}, 'other sign': {'(': (0, 1)}}
    """
    names = [*KINDS]
    kinds = [name for match in KIND.finditer(data) for name in [names[match.lastindex - 1]] * len(match[0])]
    signs = [chr(byte) if 32 <= byte < 127 else f"<{byte:02X}>" for byte in data]
    found = sorted(counted(zip(kinds, signs, strict=True), boundaries).items())
    sorted_out = {name: {sign: counts for (kind, sign), counts in found if kind == name} for name in KINDS}
    return {name: counts for name, counts in sorted_out.items() if counts}


def percent(counts: tuple[int, int]) -> int:
    """Of bytes, how many in a hundred have a boundary after them."""
    return round(100 * counts[0] / counts[1])


def amount(counts: tuple[int, int]) -> str:
    """The same as a word in front of what was counted."""
    share = percent(counts)
    some = "nearly all" if share >= ALWAYS else "most" if share > 50 else "some" if share > HARDLY else "hardly any"
    return some if counts[0] else "no"


def by_themselves(found: Counts) -> list[str]:
    """Sentences on the letters, digits and signs that are there OFTEN, and on letters that depend on their place in a word."""
    dark = {kind: counts for kind, counts in found.items() if kind not in WHITE}
    signs = sorted({sign for counts in dark.values() for sign in counts})
    whole = {sign: added({kind: counts[sign] for kind, counts in dark.items() if sign in counts}) for sign in signs}
    often = {sign: counts for sign, counts in whole.items() if counts[1] >= OFTEN}
    lines = [_told(name, {sign: often[sign] for sign in often if belongs(sign)}) for name, belongs in GROUPS.items()]
    first, later = (found.get(kind, {}) for kind in ("first consonants of a word", "other consonant"))
    both = {sign: (percent(first[sign]), percent(later[sign])) for sign in first if _often(first, sign) and _often(later, sign)}
    apart = [f"{_code(sign)} {here}% and {there}%" for sign, (here, there) in both.items() if abs(here - there) >= APART]
    lines.append(f"Among the first consonants of a word, and later in it: {', '.join(apart)}." if apart else "")
    return [line for line in lines if line]


def _often(counts: Mapping[str, tuple[int, int]], sign: str) -> bool:
    return counts.get(sign, (0, 0))[1] >= OFTEN


def _code(sign: str) -> str:
    return "`` ` ``" if sign == "`" else f"`{sign}`"


def _told(name: str, often: Mapping[str, tuple[int, int]]) -> str:
    """One sentence on the bytes of a group, most boundaries first; "" without any."""
    limits = f"nearly always ({ALWAYS}% or more)", f"hardly ever ({HARDLY}% or less)", "never"
    parts: dict[str, list[str]] = {}
    for sign in sorted(often, key=lambda sign: -often[sign][0] / often[sign][1]):
        share = percent(often[sign])
        if HARDLY < share < ALWAYS:
            parts.setdefault("in between", []).append(f"{_code(sign)} ({share}%)")
        else:
            parts.setdefault(limits[0 if share >= ALWAYS else 1 if often[sign][0] else 2], []).append(_code(sign))
    told = "; ".join(f"{how} after {' '.join(signs)}" for how, signs in parts.items())
    return f"{name[0].upper()}{name[1:]}, those that are there at least {OFTEN} times: {told}." if told else ""
