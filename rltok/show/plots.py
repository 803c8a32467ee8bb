"""Figures of the book: one style, readable in print and for colour-blind readers, and a line of text about the plotted data.

PNGs are not compared. So every figure goes through `show`, which prints a digest of the plotted data below it, and a strict
check of the notebook fails when the data change.
"""

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from rltok.show.characters import SIGNS, shown_characters
from rltok.show.views import ANCHORS, EDGE

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's palette: distinct for every common kind of colour blindness.
PALETTE = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#000000")
DIGITS = 3  # significant digits in a digest: more would differ between processors


def use_style() -> None:
    """Set matplotlib up for the book: size, white opaque background, palette."""
    import matplotlib.pyplot as plt

    plt.rcParams.update(
        {
            "figure.figsize": (7.0, 3.2), "figure.dpi": 110, "figure.facecolor": "white", "savefig.facecolor": "white",
            "figure.constrained_layout.use": True, "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True,
            "grid.alpha": 0.25, "font.size": 10, "axes.prop_cycle": plt.cycler(color=PALETTE), "legend.frameon": False,
        }
    )  # fmt: skip


def _rounded(values: np.ndarray | np.floating) -> np.ndarray | np.floating:
    """Rounded to DIGITS significant digits; zero stays zero, and -0 becomes 0."""
    values = np.asarray(values, dtype=np.float64)
    size = np.where(values == 0, 1.0, np.abs(values))
    unit = 10.0 ** (np.floor(np.log10(size)) - (DIGITS - 1))
    return np.round(values / unit) * unit + 0.0


def _plotted(axes: "Axes") -> list[np.ndarray]:
    """The finite values of everything drawn in an axes: lines, bars, points, images."""
    arrays = [np.asarray(line.get_ydata(), dtype=float) for line in axes.lines]
    arrays += [np.array([patch.get_height() for patch in bars]) for bars in axes.containers if hasattr(bars, "patches")]
    arrays += [np.asarray(points.get_offsets()) for points in axes.collections if type(points).__name__ == "PathCollection"]
    arrays += [np.asarray(image.get_array(), dtype=float) for image in axes.images]
    return [values[np.isfinite(values)] for values in arrays if values.size]


def digest(figure: "Figure", checksum: bool = True) -> str:
    """One line about the plotted data: series, points, range, and a checksum of the values to 3 significant digits.

    Leave the checksum out where the values come from training: their third digit may differ between processors.
    """
    series = [values for axes in figure.axes for values in _plotted(axes)]
    words = [text.get_text() for axes in figure.axes for text in axes.texts]
    if not series:
        return f"figure: no data, {len(words)} labels"
    flat = np.concatenate([values.ravel() for values in series])
    line = f"figure data: {len(series)} series, {flat.size} values"
    if not checksum:
        return line
    places = [
        np.asarray(line.get_xdata(orig=False), dtype=float) for axes in figure.axes for line in axes.lines
    ]  # of a line, x is data too
    drawn = np.concatenate([flat, *(x[np.isfinite(x)] for x in places)])
    total = hashlib.sha256(_rounded(drawn).round(9).tobytes() + "".join(words).encode()).hexdigest()[:8]
    return f"{line}, {_rounded(flat.min()):g} to {_rounded(flat.max()):g}, checksum {total}"


def show(figure: "Figure", checksum: bool = True) -> None:
    """Display a figure in a notebook, close it, and print its digest."""
    import matplotlib.pyplot as plt
    from IPython.display import display

    display(figure)
    plt.close(figure)
    print(digest(figure, checksum))


def boundary_figure(
    text: str | bytes, boundaries: Sequence[int], probabilities: Sequence[float] | None, width: int = 64
) -> "Figure":
    """The text as a grid of characters coloured by boundary probability, in the manner of the paper's figure 2.

    Args:
        text, boundaries, probabilities: as in `rltok.show.views.boundary_html`.
        width: characters in a line.
    """
    import matplotlib.pyplot as plt
    from matplotlib.colors import LinearSegmentedColormap

    entries = shown_characters(text, boundaries, boundaries if probabilities is None else probabilities)
    rows = -(-len(entries) // width)
    grid = np.full((rows, width), np.nan)
    grid.flat[: len(entries)] = [entry.value for entry in entries]
    scale = LinearSegmentedColormap.from_list("boundaries", np.array(ANCHORS) / 255)
    figure, axes = plt.subplots(figsize=(7.4, 0.27 * rows + 0.75))
    image = axes.imshow(grid, cmap=scale, vmin=0, vmax=1, aspect="auto")
    for number, (character, value, ends, _) in enumerate(entries):
        row, column = divmod(number, width)
        shown = SIGNS.get(character, character)
        size = 8 if len(shown) == 1 else 4
        axes.text(
            column, row, shown, ha="center", va="center", family="monospace", fontsize=size, color="k" if value > 0.5 else "w"
        )
        if ends:
            axes.vlines(column + 0.5, row - 0.48, row + 0.48, color=EDGE, linewidth=1.6)
    axes.set(xlim=(-0.5, width - 0.5), ylim=(rows - 0.5, -0.5))
    axes.axis("off")
    bar = figure.colorbar(image, ax=axes, orientation="horizontal", fraction=0.08, aspect=50, pad=0.02)
    bar.set_label("probability of a boundary after the character (red edge: one was drawn)", fontsize=8)
    return figure


def unet_diagram(labels: Sequence[str], boundaries: Sequence[int]) -> "Figure":
    """The U-Net on a short row (the paper's figure 1, left): boundaries, tokens, attention among them, skips and uses of a token.

    Args:
        labels: what stands at each input position, N of them.
        boundaries: 1 where a token ends; 1 at position 0.
    """
    import matplotlib.pyplot as plt

    ends = [i for i, ending in enumerate(boundaries) if ending]
    figure, axes = plt.subplots(figsize=(7.4, 5.2))

    def box(x: float, y: float, words: str, colour: str) -> None:
        look = {"boxstyle": "round", "fc": colour, "ec": "k", "lw": 0.7}
        axes.text(x, y, words, ha="center", va="center", fontsize=8, bbox=look)

    def arrow(start: tuple[float, float], stop: tuple[float, float], colour: str, **look: object) -> None:
        shape = {"arrowstyle": "->", "color": colour, "lw": 1.0, "shrinkA": 9, "shrinkB": 9} | look
        axes.annotate("", stop, start, arrowprops=shape)

    for i, label in enumerate(labels):
        token = sum(boundaries[: i + 1]) - 1
        box(i, 0, label, "white")
        box(i, 1, f"$X_{i}$", "#d7e8f5")
        axes.text(i - 0.3, 1.55, str(boundaries[i]), ha="center", va="center", fontsize=9, color=PALETTE[3])
        box(i, 4.2, f"$Y_{i}$", "#d7e8f5")
        box(i, 5.2, labels[i + 1] if i + 1 < len(labels) else "?", "white")
        arrow((i, 0), (i, 1), "k")
        arrow((i, 4.2), (i, 5.2), "k")
        arrow((i + 0.12, 1), (i + 0.12, 4.2), "0.6", lw=0.8, linestyle=":")  # the skip of eq. (9)
        arrow((ends[token], 3.2), (i, 4.2), PALETTE[1])
        if boundaries[i]:
            box(i, 2.2, f"$X'_{token + 1}$", "#fbe3b5")
            box(i, 3.2, f"$Y'_{token + 1}$", "#fbe3b5")
            arrow((i, 1), (i, 2.2), PALETTE[3])
            for earlier in ends[: token + 1]:
                arrow((earlier, 2.2), (i, 3.2), PALETTE[2], lw=0.7)
    rows = {0: "input", 1: "encode (1)", 1.55: "boundary $a_i$ (2)", 2.2: "selected (7)", 3.2: "token layers (4)",
            4.2: "add (9), decode (6)", 5.2: "predicts"}  # fmt: skip
    for y, words in rows.items():
        axes.text(-0.75, y, words, ha="right", va="center", fontsize=8)
    axes.set(xlim=(-2.6, len(labels) - 0.4), ylim=(-0.5, 5.7))
    axes.axis("off")
    return figure
