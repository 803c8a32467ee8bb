"""What a record of `scripts/measure_toy.py` shows: shares of the oracle's gain, curves, and where in a word boundaries fall."""

import statistics
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from rltok.plots import PALETTE
from rltok.toy_measures import ORACLE, RANDOM, WANTED, shares

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Run = dict[str, Any]


def runs_of(record: dict[str, Any], words: str, name: str, order: str = "second") -> list[Run]:
    """Runs of one arm, one a seed.

    Raises:
        KeyError: the record has none.
    """
    found = [run for run in record["runs"] if (run["words"], run["order"], run["name"]) == (words, order, name)]
    if not found:
        raise KeyError(f"the record has no run {words}, {order}, {name}")
    return found


def names_of(record: dict[str, Any], words: str, order: str = "second") -> list[str]:
    """Arms of a language in the record's order, oracle and random places left out."""
    found = (run["name"] for run in record["runs"] if (run["words"], run["order"]) == (words, order))
    return [name for name in dict.fromkeys(found) if name not in (ORACLE, RANDOM)]


def language_of(record: dict[str, Any], words: str, order: str = "second") -> dict[str, Any]:
    """What the record says of a language."""
    return next(found for found in record["languages"] if (found["words"], found["order"]) == (words, order))


def gain_lines(record: dict[str, Any], words: str) -> list[str]:
    """A sentence an estimator: share of the oracle's gain over random places on test rows, and after how many bytes it held."""
    found = []
    for line in shares([run for run in record["runs"] if run["words"] == words and run["order"] == "second"]):
        each = [seed["share"] for seed in line["seeds"]]
        reached = [seed["bytes_to_0.8"] for seed in line["seeds"] if seed["bytes_to_0.8"] is not None]
        told = (
            f"{line['name']:30s} {line['mean_share']:+.2f} of the oracle's gain ({min(each):+.2f} to {max(each):+.2f} over seeds)"
        )
        when = f", {WANTED} or more from {min(reached) / 1e3:.0f} to {max(reached) / 1e3:.0f} kB on" if reached else ""
        found.append(f"{told}; {len(reached)} of {len(each)} seeds hold {WANTED}{when}")
    return found


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
    panels[0].set(xlabel="training text (kB)", ylabel="held-out bits per byte", ylim=(0, None))
    panels[1].set(xlabel="training text (kB)", ylabel="policy entropy (nats per decision)", ylim=(0, None))
    panels[0].legend(fontsize=7)
    return figure


def places(record: dict[str, Any], words: str, name: str, seed: int) -> list[str]:
    """Every word of the lexicon with the share of boundaries after each of its letters, on test rows."""
    run = next(run for run in runs_of(record, words, name) if run["seed"] == seed)
    lines = []
    for word, rates in zip(language_of(record, words)["lexicon"], run["rates_in_words"], strict=True):
        told = "  ".join(
            f"{letter} {'  - ' if rate is None else f'{rate:.2f}'}" for letter, rate in zip(word, rates, strict=True)
        )
        lines.append(f"{word:8s} {told}")
    return lines


def offsets(record: dict[str, Any], words: str, names: Iterable[str], order: str = "second") -> dict[str, dict[int, float]]:
    """Of each arm the F1 of its boundaries against word ends shifted by k bytes, mean over seeds, on test rows."""
    return {
        name: {
            int(k): statistics.fmean(run["test"]["f1"][k] for run in runs_of(record, words, name, order))
            for k in runs_of(record, words, name, order)[0]["test"]["f1"]
        }
        for name in names
    }  # fmt: skip
