"""What a record of `measure_toy.py` shows: shares of the oracle's gain, curves, and where in a word boundaries fall."""

import statistics
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rltok.evidence.toy.measures import CONTROLS, MORE_RANDOM, ORACLE, RANDOM, WANTED, shares
from rltok.evidence.toy.runs import FULL, QUIET
from rltok.evidence.words import ends
from rltok.show.plots import PALETTE
from rltok.show.tables import markdown

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Run = dict[str, Any]
IN_WORDS = {
    "naive": "naive REINFORCE", QUIET: "naive, a fiftieth of the weight", "causal+early": "causal + early exit",
    "causal+early+gamma0.9": "causal + early exit + discount", FULL: "full estimator",
    ORACLE: "ends of words", RANDOM: "random places", MORE_RANDOM: "random places, at naive's rate",
}  # fmt: skip


def in_words(name: str) -> str:
    """An estimator or a control as a reader knows it."""
    return IN_WORDS.get(name, name)


def runs_of(record: dict[str, Any], words: str, name: str, order: str = "second") -> list[Run]:
    """Runs of one arm, one a seed.

    Raises:
        KeyError: the record has none.
    """
    runs = [run for run in record["runs"] if (run["words"], run["order"], run["name"]) == (words, order, name)]
    if not runs:
        raise KeyError(f"the record has no run {words}, {order}, {name}")
    return runs


def names_of(record: dict[str, Any], words: str, controls: bool = False) -> list[str]:
    """Estimators of a language in the record's order, or its controls but for the two ends of the scale."""
    names = dict.fromkeys(run["name"] for run in record["runs"] if (run["words"], run["order"]) == (words, "second"))
    return [name for name in names if (name in CONTROLS) == controls and name not in (ORACLE, RANDOM)]


def language_of(record: dict[str, Any], words: str, order: str = "second") -> dict[str, Any]:
    """What the record says of a language."""
    for language in record["languages"]:
        if (language["words"], language["order"]) == (words, order):
            return language
    raise KeyError(f"the record has no language {words}, {order}")


GAIN_HEAD = ("boundaries by", "share, mean", "over seeds", "boundaries per byte", f"seeds that hold {WANTED}", "from kB on")


def gain_table(record: dict[str, Any], words: str, names: Sequence[str], columns: int = len(GAIN_HEAD)) -> str:
    """Markdown: a row an estimator, or a control, and the first columns of `GAIN_HEAD`.

    The share of the oracle's gain over random places on test rows, the rate of boundaries, and from how many bytes of training on
    at least 0.8 of the gain was held on validation rows.
    """
    lines = {
        one["name"]: one for one in shares([run for run in record["runs"] if (run["words"], run["order"]) == (words, "second")])
    }
    rows = []
    for name in names:
        seeds = {seed["seed"]: seed for seed in lines[name]["seeds"]}
        each = [seed["share"] for seed in seeds.values()]
        reached = [seed["bytes_to_0.8"] / 1e3 for seed in seeds.values() if seed["bytes_to_0.8"] is not None]
        rates = [run["test"]["rate"] for run in runs_of(record, words, name) if run["seed"] in seeds]
        rows.append([
            in_words(name), f"{lines[name]['mean_share']:.2f}", f"{min(each):.2f} to {max(each):.2f}",
            f"{min(rates):.2f} to {max(rates):.2f}", f"{len(reached)} of {len(each)}", ends(reached, ".0f") if reached else "-",
        ][:columns])  # fmt: skip
    return markdown(GAIN_HEAD[:columns], rows)


def advantage_sizes(record: dict[str, Any], words: str, names: Sequence[str]) -> list[str]:
    """A line for each estimator: root mean square of its advantages in nats, first and last look, median over seeds."""
    lines = []
    for name in names:
        sizes = [
            [p["advantage_rms"] for p in run["curve"] if p["advantage_rms"] is not None] for run in runs_of(record, words, name)
        ]
        first, last = (statistics.median(one[end] for one in sizes) for end in (0, -1))
        lines.append(f"{in_words(name):32s}{first:6.3g} nats at first, {last:.3g} at the end")
    return lines


def _band(runs: list[Run], key: str) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """kB, and mean, least and most over seeds of an entry of the curves, whose looks are at the same updates."""
    values = np.array([[np.nan if point[key] is None else point[key] for point in run["curve"]] for run in runs])
    kilobytes = np.array([point["bytes"] / 1e3 for point in runs[0]["curve"]])
    return kilobytes, values.mean(axis=0), values.min(axis=0), values.max(axis=0)


def curves_figure(record: dict[str, Any], words: str, names: Sequence[str]) -> "Figure":
    """Held-out bits per byte and policy entropy over training: mean over seeds, and the range between least and most.

    Level lines, named at their right end, are the two ends of the scale, which is the mean score of the last look.
    """
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(1, 2, figsize=(8.4, 3.4))
    for number, name in enumerate(names):
        for panel, key in zip(panels, ("bits_per_byte", "policy_entropy"), strict=True):
            kilobytes, mean, low, high = _band(runs_of(record, words, name), key)
            panel.plot(kilobytes, mean, color=PALETTE[number % len(PALETTE)], label=in_words(name), linewidth=1.4)
            panel.fill_between(kilobytes, low, high, color=PALETTE[number % len(PALETTE)], alpha=0.18, linewidth=0)
    ends = {name: _last_look(record, words, name) for name in (RANDOM, ORACLE)}
    for (name, level), shift in zip(ends.items(), (3, -10), strict=True):
        panels[0].axhline(level, color="0.35", linestyle="--", linewidth=0.9)
        panels[0].annotate(in_words(name), (0.99, level), (0, shift), xycoords=panels[0].get_yaxis_transform(),
                           textcoords="offset points", ha="right", fontsize=7.5, color="0.35")  # fmt: skip
    panels[0].set(
        xlabel="training text (kB)", ylabel="held-out bits per byte", ylim=(0, 3 * ends[RANDOM])
    )  # first looks are above
    panels[1].set(xlabel="training text (kB)", ylabel="policy entropy (nats per decision)", ylim=(0, None))
    panels[0].legend(fontsize=7.5)
    return figure


def _last_look(record: dict[str, Any], words: str, name: str) -> float:
    """Bits per byte on validation rows at the end of training, mean over seeds."""
    return statistics.fmean(run["curve"][-1]["bits_per_byte"] for run in runs_of(record, words, name))


def scores(record: dict[str, Any], words: str, names: Sequence[str]) -> list[str]:
    """A line for each arm: bits per byte on test rows, mean over seeds, and at the end of the curves, on validation rows."""
    lines = []
    for name in names:
        test = statistics.fmean(run["test"]["bits_per_byte"] for run in runs_of(record, words, name))
        lines.append(
            f"{in_words(name):17s}{test:.3f} bits per byte on test rows, {_last_look(record, words, name):.3f} on validation"
        )
    return lines


def at_last_letters(record: dict[str, Any], words: str, name: str) -> tuple[int, int]:
    """After how many words, over all seeds, a boundary follows the last letter more often than not; and how many words."""
    ends = [rates[-1] for run in runs_of(record, words, name) for rates in run["rates_in_words"]]
    return sum(end > 0.5 for end in ends if end is not None), len(ends)


def places_figure(record: dict[str, Any], words: str, name: str) -> "Figure":
    """How often a boundary follows each letter, as shades, one panel a seed: a row for each word of the lexicon."""
    import matplotlib.pyplot as plt

    runs, lexicon = runs_of(record, words, name), language_of(record, words)["lexicon"]
    figure, panels = plt.subplots(1, len(runs), figsize=(8.4, 0.5 + 0.24 * len(lexicon)), squeeze=False)
    for panel, run in zip(panels[0], runs, strict=True):
        shades = np.full((len(lexicon), max(map(len, lexicon))), np.nan)
        for row, rates in enumerate(run["rates_in_words"]):
            shades[row, : len(rates)] = [np.nan if rate is None else rate for rate in rates]
        panel.imshow(shades, cmap="Greys", vmin=0, vmax=1, aspect="auto")
        for row, word in enumerate(lexicon):
            for column, letter in enumerate(word):
                ink = "white" if shades[row, column] > 0.5 else "black"
                panel.text(column, row, letter, ha="center", va="center", color=ink, fontsize=8)
                panel.add_patch(plt.Rectangle((column - 0.5, row - 0.5), 1, 1, fill=False, edgecolor="0.75", linewidth=0.6))
        panel.set(title=f"seed {run['seed']}", xticks=[], yticks=[])
        panel.grid(visible=False)
        panel.spines[:].set_visible(False)
    return figure
