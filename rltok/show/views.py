"""Boundaries of a text as HTML, for notebooks and the book: colour for the probability, an edge for a drawn boundary.

The paper's figures colour each character by the probability of a boundary after it; so does this, see `rltok.show.characters`.
"""

import html
from collections.abc import Sequence

from rltok.show.characters import SIGNS, Shown, shown_characters

# Dark blue (0) over grey to yellow (1): the ends differ in lightness too, so the scale survives every common kind of colour
# blindness and a grey printout. Anchors of a linear scale, as red, green, blue.
ANCHORS = ((0, 32, 77), (66, 78, 107), (124, 123, 120), (188, 175, 111), (255, 233, 69))


EDGE = "#d81b60"  # of a drawn boundary


def colour_of(value: float) -> tuple[int, int, int]:
    """Red, green, blue (0 to 255) of a value between 0 and 1."""
    place = min(max(value, 0.0), 1.0) * (len(ANCHORS) - 1)
    left = min(int(place), len(ANCHORS) - 2)
    return tuple(round(a + (place - left) * (b - a)) for a, b in zip(ANCHORS[left], ANCHORS[left + 1], strict=True))


def ink_on(background: tuple[int, int, int]) -> str:
    """Black or white, whichever has the higher contrast (WCAG relative luminance) on the background."""

    def linear(channel: int) -> float:
        part = channel / 255
        return part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4

    red, green, blue = (linear(channel) for channel in background)
    return "#000" if 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.179 else "#fff"


def _span(entry: Shown, drawn: bool) -> str:
    background = colour_of(entry.value)
    edge = f"border-right:2px solid {EDGE};" if entry.ends else ""
    shown = SIGNS.get(entry.text, entry.text)
    chance = "" if drawn else f"boundary probability {entry.value:.2f}"
    ends = "a token ends here" if entry.ends else "no token ends here" if drawn else ""
    title = "; ".join(filter(None, (chance, ends, entry.meaning)))
    style = f"background:rgb{background};color:{ink_on(background)};".replace(" ", "") + edge
    return f'<span style="{style}" title="{title}">{html.escape(shown)}</span>' + ("<br>" if entry.text == "\n" else "")


def boundary_html(text: str | bytes, boundaries: Sequence[int], probabilities: Sequence[float] | None, label: str) -> str:
    """The text as an HTML block: blue to yellow for the probability, a red edge where a token ends.

    Args:
        text: n bytes once encoded.
        boundaries: 1 where a boundary was drawn after the byte; n entries.
        probabilities: of a boundary after the byte; n entries, or None for rules without any (boundaries are coloured).
        label: what the block shows, for readers who cannot see it.
    """
    values = boundaries if probabilities is None else probabilities
    body = "".join(_span(entry, probabilities is None) for entry in shown_characters(text, boundaries, values))
    style = "font-family:monospace;font-size:1em;line-height:1.7;white-space:pre-wrap;overflow-wrap:anywhere;margin:0.5em 0"
    return (
        f'<div class="rltok-boundaries" role="figure" aria-label="{html.escape(label, quote=True)}" style="{style}">{body}</div>'
    )
