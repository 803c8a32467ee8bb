"""What a model says of each byte of a text, as HTML: surprise above a character, probability of a boundary below it.

The same picture as on the first page of the book. Two readings of one text are compared token by token.
"""

import html
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rltok.show.characters import SIGNS, harmless, replaced
from rltok.show.words import many
from rltok.vocab import character_spans

FULL_BAR = 8  # bits: surprises from here on have the highest bar
GLYPHS = {" ": "\u00b7", "\n": SIGNS["\n"] + "\n", "\t": SIGNS["\t"]}
NAMES = {" ": "space", "\n": "new line", "\t": "tab"}
SURPRISE, CHANCE, DRAWN, INK, MARKED = "#c4622d", "#7f9cc0", "#123c7a", "#16181d", "#ffe08a"
STRIP = 0.8  # rem: height of the bars
RULES = (
    f"background:#fff;color:{INK};font:1rem/3.3rem monospace;max-height:24rem;overflow-x:hidden;overflow-y:auto;"
    "overflow-wrap:anywhere;padding:0.2rem 0.8rem;unicode-bidi:plaintext;white-space:pre-wrap"
)
CHARACTER = f"background:#f1f1ee no-repeat;padding-block:calc({STRIP}rem + 1px)"
STYLE = (
    f"<style>.rltok-reading{{{RULES}}}.rltok-reading span{{{CHARACTER}}}"
    f".rltok-reading .ends{{border-inline-end:2px solid {INK}}}"
    f".rltok-reading .afresh{{border-inline-start:2px dashed #a3123f}}.rltok-reading .differs{{background-color:{MARKED}}}"
    ".rltok-reading .mirrored{direction:rtl;unicode-bidi:normal}</style>"
)


@dataclass(frozen=True)
class Reading:
    """Of each of the n bytes of a text: what was drawn after it, and how surprising it was."""

    data: bytes
    boundaries: Sequence[bool]  # whether a token ends after the byte
    probabilities: Sequence[float] | None  # of that; None for a rule without any
    bits: Sequence[float]  # -log2 of the model's probability of the byte
    early_bits: Sequence[float]  # the same of the early head, which knows no boundaries
    starts: Sequence[int]  # bytes at which the model began a row, 0 among them


def enrichment(reading: Reading) -> float | None:
    """Boundary enrichment: mean surprise right after a boundary over the mean surprise of all bytes, by the early head.

    1 for boundaries that do not care how hard the next byte is. None where no boundary has a byte of its row after it.
    """
    starts = set(reading.starts)
    counted = [i for i in range(len(reading.data)) if i not in starts]
    after = [reading.early_bits[i] for i in counted if reading.boundaries[i - 1]]
    everywhere = sum(reading.early_bits[i] for i in counted)
    return sum(after) / len(after) / (everywhere / len(counted)) if after and everywhere else None


def summary(reading: Reading) -> str:
    """One line of numbers about a reading."""
    size, tokens = len(reading.data), sum(map(bool, reading.boundaries))
    if size == 0:
        return "Nothing to read yet."
    counts = f"{many(tokens, 'boundary')} in {many(size, 'byte')}"
    words = f"{counts}, {tokens / size:.3f} tokens a byte; {sum(reading.bits) / size:.2f} bits a byte"
    rich = enrichment(reading)
    return words + ("" if rich is None else f"; boundary enrichment {rich:.2f}")


def differing(one: Sequence[bool], other: Sequence[bool]) -> list[bool]:
    """Of each byte whether it lies in a span that two rules divide differently, from one common boundary to the next."""
    marked, start = [False] * len(one), 0
    for i, (first, second) in enumerate(zip(one, other, strict=True)):
        if (first and second) or i == len(one) - 1:
            differs = list(one[start : i + 1]) != list(other[start : i + 1])
            marked[start : i + 1] = [differs] * (i + 1 - start)
            start = i + 1
    return marked


def _joins(before: str, character: str) -> bool:
    """Whether the character is drawn upon or together with the one before it."""
    joined = before[-1] == "\u200d" and character.isprintable()
    return (
        joined or character == "\u200d" or unicodedata.category(character)[0] == "M" or "\U0001f3fb" <= character <= "\U0001f3ff"
    )


def clusters(data: bytes) -> Iterator[tuple[int, int, str]]:
    """(start, stop, text) of what is drawn as one: a character with its marks; "" for a byte that is no UTF-8."""
    start, stop, text = 0, 0, ""
    for first, last in character_spans(data):
        character = data[first:last].decode("utf-8", errors="ignore")
        if not (text and character and _joins(text, character)):
            if stop:
                yield start, stop, text
            start, text = first, ""
        stop, text = last, text + character
    if stop:
        yield start, stop, text


def _visible(text: str) -> str:
    """The text of a cluster, in which only its first character could steer what stands around it."""
    return harmless(text[:1]) + text[1:]


def _title(reading: Reading, start: int, stop: int, text: str) -> str:
    parts = []
    for i in range(start, stop):
        chance = "" if reading.probabilities is None else f" {reading.probabilities[i]:.2f}"
        after = f"boundary after it{chance}" + (", drawn" if reading.boundaries[i] else ", not drawn")
        parts.append(f"byte {reading.data[i]}: surprise {reading.bits[i]:.2f} bits, {after}")
    points = " ".join(f"U+{ord(character):04X}" for character in text) or "no UTF-8"
    return f"{NAMES.get(text) or _visible(text)} ({points}) \u2013 " + "; ".join(parts)


def _background(reading: Reading, start: int, stop: int, mirrored: bool, threshold: float | None) -> str:
    """CSS of layers: two bars for each byte, a line where a boundary falls inside the character, one for the threshold."""
    layers, count = [], stop - start

    def layer(colour: str, width: str, height: str, x: float, y: str) -> None:
        layers.append((f"linear-gradient({colour},{colour})", f"{width} {height}", f"{100 - x if mirrored else x:.4g}% {y}"))

    if threshold is not None:
        layer(INK, "100%", "1px", 0, f"calc(100% - {STRIP * threshold:.2f}rem)")
    for place, i in enumerate(range(start, stop)):
        x, width = 100 * place / max(1, count - 1), f"{100 / count:.4g}%"
        surprise = round(STRIP * min(1.0, reading.bits[i] / FULL_BAR), 2)
        chance = STRIP * (float(reading.boundaries[i]) if reading.probabilities is None else reading.probabilities[i])
        if reading.boundaries[i] and i < stop - 1:
            layer(INK, "2px", "100%", 100 * (place + 1) / count, "0")
        layer(DRAWN if reading.boundaries[i] else CHANCE, width, f"{chance:.2f}rem", x, "100%")
        layer(SURPRISE, width, f"{surprise:.2f}rem", x, f"{STRIP - surprise:.2f}rem")
    images, sizes, places = (",".join(parts) for parts in zip(*layers, strict=True))
    return f"background-image:{images};background-size:{sizes};background-position:{places}"


def _span(reading: Reading, start: int, stop: int, text: str, differs: bool, threshold: float | None) -> str:
    mirrored = unicodedata.bidirectional(text[:1] or " ") in ("R", "AL")
    kinds = {
        "ends": reading.boundaries[stop - 1], "differs": differs, "mirrored": mirrored,
        "afresh": start > 0 and any(start <= at < stop for at in reading.starts),
    }  # fmt: skip
    classes = " ".join(name for name, there in kinds.items() if there)
    room = f";padding-inline:{stop - start}px" if stop - start > 4 else ""  # for a bar a byte
    style = _background(reading, start, stop, mirrored, threshold) + room
    title = html.escape(_title(reading, start, stop, text), quote=True)
    shown = html.escape(GLYPHS.get(text) or _visible(text) or f"<{reading.data[start]:02X}>")
    return f'<span class="{classes}" style="{style}" title="{title}">{shown}</span>' + ("<wbr>" if text == " " else "")


def reading_html(reading: Reading, label: str, *, threshold: float | None = None, marked: Sequence[bool] | None = None) -> str:
    """A reading as an HTML block: hovering over a character shows code points, bytes, and the numbers of each byte.

    Args:
        reading: of n bytes.
        label: what the block shows, for readers who cannot see it.
        threshold: drawn as a line through the bars of probabilities.
        marked: bytes on a coloured background, n entries.
    """
    body = "".join(
        _span(reading, start, stop, text, marked is not None and any(marked[start:stop]), threshold)
        for start, stop, text in clusters(reading.data)
    )
    return (
        f'{STYLE}<div class="rltok-reading" dir="auto" role="figure" aria-label="{html.escape(label, quote=True)}">{body}</div>'
    )


def keys(data: bytes, compared: bool = False) -> str:
    """What the bars mean, as HTML, what stands in for characters of a text, and of two readings compared what is marked."""
    entries = {
        SURPRISE: f"above: surprise of the byte (full height: {FULL_BAR} bits or more)",
        CHANCE: "below: probability of a boundary after it",
        DRAWN: "the same where one stands, with an upright line",
    }
    if compared:
        entries[MARKED] = "divided differently"
    box = "display:inline-block;width:0.8rem;height:0.8rem;background:"
    parts = [f'<i style="{box}{colour}"></i> {words}' for colour, words in entries.items()]
    seen = b"".join(text[:1].encode("utf-8") or data[start:stop] for start, stop, text in clusters(data))
    parts += [f"<code>{html.escape(shown)}</code> {words}" for words, shown in replaced(seen, [0] * len(seen)).items()]
    return f'<p style="font-size:0.9rem">{" ".join(parts)}</p>'
