"""Boundaries of a text in the terminal: colour for the probability, a bar for a boundary that was drawn.

A character of several bytes has the colour of its last byte, and a bar if any of its bytes got one. Control characters
appear as pictures, so that no text can steer the terminal.
"""

import unicodedata
from collections.abc import Sequence

from rltok.vocab import character_spans

BAR = "\u2502"
RESET = "\x1b[0m"
# Blue (0) over grey to yellow (1), readable with every common kind of colour blindness: 256-colour codes.
SCALE = (18, 19, 25, 60, 66, 102, 108, 143, 179, 185, 220, 226)


def _printable(piece: bytes) -> str:
    """The character, or a picture of it if it would move the cursor or is no valid UTF-8."""
    text = piece.decode("utf-8", errors="replace")
    if len(text) == 1 and ord(text) < 32 and text != "\n":
        return chr(0x2400 + ord(text)) if text != "\t" else "\t"
    is_space = len(text) == 1 and unicodedata.category(text) == "Zs"  # other spaces than " " do not count as printable
    return text if text == "\n" or is_space or text.isprintable() else "\ufffd"


def _background(value: float) -> str:
    code = SCALE[min(len(SCALE) - 1, int(value * len(SCALE)))]
    return f"\x1b[48;5;{code}m\x1b[38;5;{16 if value > 0.5 else 231}m"


def paint(data: bytes, boundaries: Sequence[int], probabilities: Sequence[float] | None, colour: bool) -> str:
    """The text with its boundaries: a bar after each drawn one, and a background by probability where colour is on.

    Args:
        data: the text's bytes, n of them.
        boundaries: 1 where a boundary was drawn after the byte; n entries.
        probabilities: of a boundary after the byte; n entries, or None for a rule without a policy.
        colour: False leaves only the bars.
    """
    values = boundaries if probabilities is None else probabilities
    painted = []
    for start, stop in character_spans(data):
        shown = _printable(data[start:stop])
        bar = BAR if any(boundaries[start:stop]) else ""
        if shown == "\n":  # the bar goes before the line ends
            shown, ending = "\u21b5" if bar else "", "\n"
        else:
            ending = ""
        if colour and shown:
            shown = f"{_background(values[stop - 1])}{shown}{RESET}"
        painted.append(shown + bar + ending)
    return "".join(painted)


def legend(colour: bool) -> str:
    """One line that explains what `paint` shows."""
    bar = f"{BAR} = a token ends here"
    if not colour:
        return bar
    steps = "".join(f"{_background((i + 0.5) / len(SCALE))} {RESET}" for i in range(len(SCALE)))
    return f"{bar}; background = probability of that, 0 {steps} 1"
