"""A text with a decision after every byte, as the characters that a view shows.

A character of several bytes appears once, with the value of its last byte. If a boundary falls inside it, its bytes appear
instead, such as <E6>. No character that is shown can control a terminal.
"""

import re
import unicodedata
from collections.abc import Sequence
from typing import NamedTuple

from rltok.errors import RltokError
from rltok.vocab import character_spans, to_utf8

SIGNS = {"\n": "\u21b5", "\t": "\u21e5"}  # what a view prints for a line's end and a tab


class Shown(NamedTuple):
    """One entry of a view: text to print, the value that colours it, and whether a token ends after it."""

    text: str  # "\n" for a line's end
    value: float
    ends: bool


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
        decoded = data[start:stop].decode("utf-8", errors="replace")
        if any(boundaries[start : stop - 1]) or decoded == "\ufffd" != data[start:stop].decode("utf-8", errors="ignore"):
            shown += [Shown(f"<{data[i]:02X}>", float(values[i]), bool(boundaries[i])) for i in range(start, stop)]
        else:
            shown.append(Shown(_picture(decoded), float(values[stop - 1]), bool(boundaries[stop - 1])))
    return shown


def replaced(text: str | bytes, boundaries: Sequence[int]) -> dict[str, str]:
    """Of each way in which `shown_characters` stands in for a character: one that it shows of this text, and what that means."""
    found: dict[str, str] = {}
    pictures = {chr(0x2400 + byte) for byte in to_utf8(text) if byte < 32}
    for entry in shown_characters(text, boundaries, boundaries):
        if re.fullmatch("<[0-9A-F]{2}>", entry.text):
            found.setdefault("a byte of a character inside which a token ends, or a byte that is no UTF-8", entry.text)
        elif entry.text in pictures or re.fullmatch(r"<U\+[0-9A-F]+>", entry.text):
            found.setdefault("a character that cannot be seen", entry.text)
    return {shown: meaning for meaning, shown in found.items()}
