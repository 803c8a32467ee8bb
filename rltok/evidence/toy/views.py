"""What a record of `measure_toy.py` shows: shares of the oracle's gain, curves, and where in a word boundaries fall."""

import statistics
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from rltok.evidence.toy.measures import CONTROLS, ORACLE, RANDOM, WANTED, shares
from rltok.show.plots import PALETTE

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Run = dict[str, Any]


def runs_of(record: dict[str, Any], words: str, name: str, order: str = "second") -> list[Run]:
    """Runs of one arm, one a seed.

    Raises:
        KeyError: the record has none.
    """
    runs = [run for run in record["runs"] if (run["words"], run["order"], run["name"]) == (words, order, name)]
    if not runs:
        raise KeyError(f"the record has no run {words}, {order}, {name}")
    return runs


def names_of(record: dict[str, Any], words: str) -> list[str]:
    """Estimators of a language in the record's order, without the controls."""
    names = (run["name"] for run in record["runs"] if (run["words"], run["order"]) == (words, "second"))
    return [name for name in dict.fromkeys(names) if name not in CONTROLS]


def language_of(record: dict[str, Any], words: str, order: str = "second") -> dict[str, Any]:
    """What the record says of a language."""
    for language in record["languages"]:
        if (language["words"], language["order"]) == (words, order):
            return language
    raise KeyError(f"the record has no language {words}, {order}")


GAIN_HEAD = ("estimator", "share, mean", "least to most", f"seeds that hold {WANTED}", "from kB on", "boundaries per byte")


def gain_rows(record: dict[str, Any], words: str, controls: bool = False) -> list[list[str]]:
    """A row of `GAIN_HEAD` an estimator, or a control: share of the oracle's gain over random places on test rows, from how many
    bytes of training on at least 0.8 of it was held on validation rows, and the rate of boundaries.
    """
    rows = []
    of_words = [run for run in record["runs"] if run["words"] == words and run["order"] == "second"]
    for line in (line for line in shares(of_words) if (line["name"] in CONTROLS) == controls):
        each = [seed["share"] for seed in line["seeds"]]
        reached = [seed["bytes_to_0.8"] / 1e3 for seed in line["seeds"] if seed["bytes_to_0.8"] is not None]
        seeds = {seed["seed"] for seed in line["seeds"]}
        rates = [run["test"]["rate"] for run in runs_of(record, words, line["name"]) if run["seed"] in seeds]
        rows.append([
            line["name"], f"{line['mean_share']:.2f}", f"{min(each):.2f} to {max(each):.2f}", f"{len(reached)} of {len(each)}",
            _span(reached) if reached else "-", f"{min(rates):.2f} to {max(rates):.2f}",
        ])  # fmt: skip
    return rows


def _span(values: list[float]) -> str:
    low, high = f"{min(values):.0f}", f"{max(values):.0f}"
    return low if low == high else f"{low} to {high}"


def advantage_sizes(record: dict[str, Any], words: str, names: Iterable[str]) -> list[str]:
    """A sentence for each estimator: root mean square of its advantages in nats, first and last look, median over seeds."""
    sentences = []
    for name in names:
        sizes = [
            [p["advantage_rms"] for p in run["curve"] if p["advantage_rms"] is not None] for run in runs_of(record, words, name)
        ]
        first, last = (statistics.median(one[end] for one in sizes) for end in (0, -1))
        sentences.append(f"{name:30s} advantages of {first:.3g} nats at first, {last:.3g} at the end")
    return sentences


def _band(runs: list[Run], key: str) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """kB, and mean, least and most over seeds of an entry of the curves, whose looks are at the same updates."""
    values = np.array([[np.nan if point[key] is None else point[key] for point in run["curve"]] for run in runs])
    kilobytes = np.array([point["bytes"] / 1e3 for point in runs[0]["curve"]])
    return kilobytes, values.mean(axis=0), values.min(axis=0), values.max(axis=0)


def curves_figure(record: dict[str, Any], words: str) -> "Figure":
    """Held-out bits per byte and policy entropy over training: mean over seeds, and the range between least and most."""
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(1, 2, figsize=(8.4, 3.4))
    for number, name in enumerate(names_of(record, words)):
        for panel, key in zip(panels, ("bits_per_byte", "policy_entropy"), strict=True):
            kilobytes, mean, low, high = _band(runs_of(record, words, name), key)
            panel.plot(kilobytes, mean, color=PALETTE[number % len(PALETTE)], label=name, linewidth=1.4)
            panel.fill_between(kilobytes, low, high, color=PALETTE[number % len(PALETTE)], alpha=0.18, linewidth=0)
    for name, style in ((RANDOM, ":"), (ORACLE, "--")):
        kilobytes, mean, _, _ = _band(runs_of(record, words, name), "bits_per_byte")
        panels[0].plot(kilobytes, mean, color="k", linestyle=style, linewidth=1.0, label=f"{name} boundaries")
    panels[0].axhline(language_of(record, words)["validation_bits_per_byte"], color="k", linewidth=0.6)
    top = 3 * statistics.fmean(
        run["curve"][-1]["bits_per_byte"] for run in runs_of(record, words, RANDOM)
    )  # first looks are above
    panels[0].set(xlabel="training text (kB)", ylabel="held-out bits per byte", ylim=(0, top))
    panels[1].set(xlabel="training text (kB)", ylabel="policy entropy (nats per decision)", ylim=(0, None))
    panels[0].legend(fontsize=7)
    return figure


def places(record: dict[str, Any], words: str, name: str, seed: int) -> list[str]:
    """Every word of the lexicon with the share of boundaries after each of its letters, on test rows."""
    run = {run["seed"]: run for run in runs_of(record, words, name)}[seed]
    lines = []
    for word, rates in zip(language_of(record, words)["lexicon"], run["rates_in_words"], strict=True):
        letters = "  ".join(
            f"{letter} {'  - ' if rate is None else f'{rate:.2f}'}" for letter, rate in zip(word, rates, strict=True)
        )
        lines.append(f"{word:8s} {letters}")
    return lines


def offsets(record: dict[str, Any], words: str, names: Iterable[str]) -> dict[str, dict[int, float]]:
    """F1 of the boundaries of each arm against word ends shifted by k bytes, mean over seeds, on test rows."""
    return {
        name: {
            int(k): statistics.fmean(run["test"]["f1"][k] for run in runs_of(record, words, name))
            for k in runs_of(record, words, name)[0]["test"]["f1"]
        }
        for name in names
    }  # fmt: skip


def places_figure(record: dict[str, Any], words: str, name: str) -> "Figure":
    """`places` as shades, one panel a seed: a row for each word, a cell for each of its letters."""
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
