"""Boundaries of a text in the terminal: colour for the probability, a bar for a boundary that was drawn.

What is shown of a text, character by character, is decided in `rltok.show.characters`.
"""

import codecs
from collections.abc import Sequence

from rltok.show.characters import SIGNS, replaced, shown_characters
from rltok.vocab import to_utf8

BAR = "\u2502"
NEWLINE = SIGNS["\n"]
PLAIN = {BAR: "|", NEWLINE: "$"}  # where the terminal's encoding lacks the sign
REPLACED = "rltok.replaced"  # for `errors` of a text stream
RESET = "\x1b[0m"
# Blue (0) over grey to yellow (1), readable with every common kind of colour blindness: 256-colour codes.
SCALE = (18, 19, 25, 60, 66, 102, 108, 143, 179, 185, 220, 226)


def _replace(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(PLAIN.get(sign, "?") for sign in error.object[error.start : error.end]), error.end


codecs.register_error(REPLACED, _replace)


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
    for text, value, ends, _ in shown_characters(data, boundaries, values):
        shown, ending = (NEWLINE, "\n") if text == "\n" else (text, "")
        if colour:
            shown = f"{_background(value)}{shown}{RESET}"
        painted.append(shown + (BAR if ends else "") + ending)
    return "".join(painted)


def paint_view(text: str | bytes, view: dict[str, list], colour: bool = False) -> str:
    """`paint` for what `rltok.runs.snapshots.boundary_view` returns."""
    return paint(to_utf8(text), view["boundaries"], view["probabilities"], colour)


def legend(colour: bool, *views: tuple[bytes, Sequence[int]], drawn: bool = False) -> str:
    """One line that explains what `paint` shows, of texts and their boundaries also what stands in for a character.

    drawn: whether colours are of drawn boundaries, for want of probabilities.
    """
    signs = {"a token ends here": BAR, "end of a line": NEWLINE}
    for data, boundaries in views:
        signs |= {words: shown for words, shown in replaced(data, boundaries).items() if words not in signs}
    bar = ", ".join(f"{shown} = {words}" for words, shown in signs.items())
    if not colour:
        return bar
    what = "whether that was drawn, no probability" if drawn else "probability of that"
    values = (0.0, 1.0) if drawn else [(i + 0.5) / len(SCALE) for i in range(len(SCALE))]
    steps = "".join(f"{_background(value)} {RESET}" for value in values)
    return f"{bar}; background = {what}, 0 {steps} 1"
