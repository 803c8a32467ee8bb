"""A text with a decision after every byte, as the characters that a view shows.

A character of several bytes appears once, with the value of its last byte. If a boundary falls inside it, its bytes appear
instead, such as <E6>. No character that is shown can control a terminal.
"""

import unicodedata
from collections.abc import Sequence
from typing import NamedTuple

from rltok.errors import RltokError
from rltok.vocab import character_spans, to_utf8

SIGNS = {"\n": "\u21b5", "\t": "\u21e5"}  # what a view prints for a line's end and a tab
# What legends say of an entry that stands in for a character.
NO_UTF8, PART = "a byte that is no UTF-8", "a byte of a character inside which a token ends"
UNSEEN = "a character that cannot be seen"


class Shown(NamedTuple):
    """One entry of a view: text to print, the value that colours it, and whether a token ends after it."""

    text: str  # "\n" for a line's end
    value: float
    ends: bool
    meaning: str = ""  # of what stands in for a character


def _picture(character: str) -> str:
    """The character, or a visible replacement if it would move the cursor or be invisible."""
    code = ord(character)
    if character in "\n\t" or character.isprintable() or unicodedata.category(character) == "Zs":
        return character
    return chr(0x2400 + code) if code < 32 else f"<U+{code:04X}>"


def harmless(text: str) -> str:
    """The text with something visible in place of what could steer a terminal, ends of lines and tabs aside."""
    return "".join(map(_picture, text))


def shown_characters(text: str | bytes, boundaries: Sequence[int], values: Sequence[float]) -> list[Shown]:
    """The characters of a text of n bytes, in order.

    Args:
        text: n bytes when encoded; bytes that are not UTF-8 appear as <FF>.
        boundaries: 1 where a boundary was drawn after the byte; n entries.
        values: the value that colours each byte, such as the probability of a boundary; n entries.
    """
    data = to_utf8(text)
    if not len(data) == len(boundaries) == len(values):
        raise RltokError(
            f"a text of {len(data)} bytes needs as many boundaries and values; got {len(boundaries)}, {len(values)}."
        )
    shown = []
    for start, stop in character_spans(data):
        decoded = data[start:stop].decode("utf-8", errors="ignore")
        if any(boundaries[start : stop - 1]) or not decoded:
            meaning = PART if decoded else NO_UTF8
            shown += [Shown(f"<{data[i]:02X}>", float(values[i]), bool(boundaries[i]), meaning) for i in range(start, stop)]
        else:
            picture, last = _picture(decoded), stop - 1
            shown.append(Shown(picture, float(values[last]), bool(boundaries[last]), UNSEEN if picture != decoded else ""))
    return shown


def replaced(text: str | bytes, boundaries: Sequence[int]) -> dict[str, str]:
    """What stands in for characters of this text: each meaning, with the first entry that has it."""
    found: dict[str, str] = {}
    for entry in shown_characters(text, boundaries, boundaries):
        if entry.meaning:
            found.setdefault(entry.meaning, entry.text)
    return found
