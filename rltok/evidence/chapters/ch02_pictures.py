"""Pictures of chapter 02 that need no model: the single decision, what a baseline does to it, and Jensen's gap."""

from typing import TYPE_CHECKING

import numpy as np

from rltok.show.plots import PALETTE

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def decision_figure(p: float, with_it: float, without: float) -> "Figure":
    """Expected loss of one decision over its logit, and its slope where a boundary has probability `p`.

    Args:
        with_it, without: the loss with the boundary and without it.
    """
    import matplotlib.pyplot as plt

    logits = np.linspace(-5, 5, 101)
    probability = 1 / (1 + np.exp(-logits))
    here, slope = np.log(p / (1 - p)), p * (1 - p) * (with_it - without)
    value = p * with_it + (1 - p) * without
    near = np.array([here - 1.8, here + 1.8])
    figure, axes = plt.subplots(figsize=(5.4, 2.6))
    axes.plot(logits, probability * with_it + (1 - probability) * without, label="expected loss")
    axes.plot(near, value + slope * (near - here), color=PALETTE[3], label="its slope here")
    axes.plot([here], [value], "o", color=PALETTE[3])
    for loss, x, words in ((with_it, -5, "loss with a boundary"), (without, 5, "loss without")):
        axes.axhline(loss, color="0.6", linewidth=0.8, linestyle=":")
        axes.text(x, loss, words, ha="left" if x < 0 else "right", va="bottom", fontsize=8, color="0.4")
    axes.set(xlabel="logit of a boundary", ylabel="loss", ylim=(min(with_it, without) - 0.15, max(with_it, without) + 0.2))
    axes.legend(fontsize=8, loc="center left")
    return figure


def baseline_figure(p: float, with_it: float, without: float) -> "Figure":
    """Both values of (loss - b) x score of one decision over the baseline b, and their mean, which b leaves alone."""
    import matplotlib.pyplot as plt

    b = np.linspace(0, 4, 81)
    boundary, none = (with_it - b) * (1 - p), (without - b) * -p
    figure, axes = plt.subplots(figsize=(5.4, 2.6))
    axes.plot(b, boundary, label="a boundary was drawn")
    axes.plot(b, none, label="none was drawn")
    axes.plot(b, p * boundary + (1 - p) * none, color="k", linestyle="--", label="mean")
    axes.axvline(p * with_it + (1 - p) * without, color="0.5", linewidth=0.8, linestyle=":")
    axes.set(xlabel="baseline b (dotted: the expected loss)", ylabel="(loss - b) x score")
    axes.legend(fontsize=8)
    return figure


def jensen_figure(first: float, second: float) -> "Figure":
    """The logarithm, and why that of the mean of two probabilities lies above the mean of their logarithms."""
    import matplotlib.pyplot as plt

    x, middle = np.linspace(0.05, 1, 96), (first + second) / 2
    ends = np.array([first, second])
    figure, axes = plt.subplots(figsize=(5.4, 2.6))
    axes.plot(x, np.log(x), label="logarithm")
    axes.plot(ends, np.log(ends), marker="o", color=PALETTE[1], label="chord between the two strings")
    axes.plot([middle, middle], [np.log(ends).mean(), np.log(middle)], marker="_", color=PALETTE[3], linewidth=2, label="gap")
    axes.set(xlabel="probability of the text", ylabel="its logarithm")
    axes.legend(fontsize=8, loc="lower right")
    return figure
