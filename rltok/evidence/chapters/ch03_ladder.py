"""Chapters 03 and 03b: tables and figures of a record of `rltok variance --out`, and of a sweep. No model is run here."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rltok.errors import RltokError
from rltok.evidence.figures import held_out_data
from rltok.evidence.ladder import at, rows_of, stage_names
from rltok.evidence.records import Sweep
from rltok.show.plots import PALETTE
from rltok.variance.gradients import GROUPS
from rltok.variance.ladder import ALONE, CUMULATIVE, GAMMAS, gamma_sweep
from rltok.variance.statistics import USEFUL

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LADDER_SCHEMA = 1
WORDS = {
    "naive": "naive REINFORCE", "causal": "causal", "early": "early exit", "batch": "batch mean", "loo": "leave-one-out mean",
}  # fmt: skip


def check(record: dict[str, Any]) -> dict[str, Any]:
    """The record itself; `RltokError` for a record of another kind."""
    if record.get("schema") != LADDER_SCHEMA or not record.get("stages"):
        raise RltokError(
            f"this is no record of rltok variance (schema {record.get('schema')!r}, expected {LADDER_SCHEMA}). Make it again."
        )
    return record


def words(name: str) -> str:
    """A rung in words: "causal + early exit + γ = 0.9"."""
    return " + ".join(WORDS.get(part, part.replace("gamma", "γ = ")) for part in name.split("+"))


def short(value: float | None) -> str:
    """A number of rows to 2 significant digits, "never" for None."""
    if value is None:
        return "never"
    size = 10 ** max(0, int(np.floor(np.log10(max(value, 1)))) - 1)
    return f"{round(value / size) * size:,}"


def crossing(cosines: Sequence[Sequence[float]]) -> float | None:
    """Rows at which measured cosines first reach 0.5, between two measurements on a logarithmic axis; None outside them."""
    rows, seen = np.array(cosines, dtype=float).reshape(-1, 2).T
    if not seen.size or seen[0] >= USEFUL or seen.max() < USEFUL:
        return None
    right = int(np.argmax(seen >= USEFUL))
    share = (USEFUL - seen[right - 1]) / (seen[right] - seen[right - 1])
    return float(np.exp((1 - share) * np.log(rows[right - 1]) + share * np.log(rows[right])))


def formula_against_measured(record: dict[str, Any], most_error: float) -> list[float]:
    """Rows by the formula over rows at which the measured cosine gets to 0.5, wherever both are known.

    Stages whose reference has a larger standard error than `most_error` of its length are left out: cosines with an
    uncertain direction say little.
    """
    ratios = []
    for one in record["stages"]:
        for group in GROUPS:
            if (one[group]["reference_error"] or np.inf) > most_error:
                continue
            for name, cosines in one[group]["cosines"].items():
                measured, formula = crossing(cosines), one[group]["estimators"][name]["rows_needed"][0]
                if measured is not None and formula is not None:
                    ratios.append(formula / measured)
    return ratios


def spread(values: Sequence[float | None]) -> str:
    """Smallest to largest over seeds: "7 to 19", "never in 2 of 3 seeds, else 250"."""
    known = sorted(value for value in values if value is not None)
    if not known:
        return "never"
    low, high = short(known[0]), short(known[-1])
    span = low if low == high else f"{low} to {high}"
    missing = len(values) - len(known)
    return f"never in {missing} of {len(values)} seeds, else {span}" if missing else span


def ladder_table(record: dict[str, Any], names: Sequence[str]) -> str:
    """Markdown: a line for each rung, a column for each stage; rows needed, smallest to largest over seeds."""
    stages = stage_names(record)
    lines = [" | ".join(["", "estimator", *stages, ""]).strip(), "|---|" + "---|" * len(stages)]
    for name in names:
        cells = [spread(rows_of(record, stage, name)) for stage in stages]
        lines.append(" | ".join(["", words(name), *cells, ""]).strip())
    return "\n".join(lines)


def gain(record: dict[str, Any], stage: str, first: str = "naive", last: str = "causal+early+gamma0.9+batch") -> str:
    """One sentence on what the ladder buys at a stage, from the record."""
    seeds = len(at(record, stage))
    before, after = (spread(rows_of(record, stage, name)) for name in (first, last))
    return (
        f"{stage}: {words(first)} needs {before} rows, {words(last)} {after}"
        f" (cosine 0.5 with the true gradient of the policy's parameters, batches of {record['rows']} rows,"
        f" {seeds} seed{'s' if seeds > 1 else ''})"
    )


def ladder_figure(record: dict[str, Any]) -> "Figure":
    """The whole ladder at a glance: rows needed for a cosine of 0.5, for every rung, stage and seed, with intervals."""
    import matplotlib.pyplot as plt

    names = [*CUMULATIVE, *(name for name in ALONE if name not in CUMULATIVE)]
    names = [name for name in names if name in at(record, stage_names(record)[0])[0]["policy"]["estimators"]]
    stages, y = stage_names(record), np.arange(len(names))[::-1]
    figure, axes = plt.subplots(1, len(stages), figsize=(9.2, 0.34 * len(names) + 1.0), sharex=True, sharey=True)
    edge = 10 * max(value for stage in stages for name in names for value in rows_of(record, stage, name) if value is not None)
    for panel, stage in zip(np.atleast_1d(axes), stages, strict=True):
        seeds = at(record, stage)
        for number, one in enumerate(seeds):
            shift = 0.22 * (number - (len(seeds) - 1) / 2)
            for height, name in zip(y, names, strict=True):
                _interval(
                    panel, one["policy"]["estimators"][name]["rows_needed"], height + shift, edge, PALETTE[number % len(PALETTE)]
                )
        panel.axhline(len(names) - len([n for n in names if n in CUMULATIVE]) - 0.5, color="0.5", linewidth=0.8)
        panel.axvline(record["rows"], color="0.5", linewidth=0.8, linestyle=":")
        panel.set(xscale="log", title=stage, xlim=(1, edge * 3))
    first = np.atleast_1d(axes)[0]
    first.set_yticks(y, [words(name) for name in names], fontsize=7.5)
    figure.supxlabel(
        "rows of text until the cosine with the true gradient reaches 0.5 (colour: seed; ▸ never; dotted: one batch)", fontsize=9
    )
    return figure


def _interval(panel: Any, rows: list[float | None], height: float, edge: float, colour: str) -> None:
    value, low, high = rows
    if value is None:
        panel.plot([edge], [height], marker=">", color=colour, markersize=5)
        return
    panel.plot([value], [height], marker="o", color=colour, markersize=4)
    panel.plot([value if low is None else low, edge if high is None else high], [height, height], color=colour, linewidth=1.2)


STEPS = {
    "naive": "naive REINFORCE",
    "causal": "+ causal credit",
    "causal+early": "+ early exit",
    "causal+early+gamma0.9": "+ discount 0.9",
    "causal+early+gamma0.9+batch": "+ batch mean",
}


def median_rows(record: dict[str, Any], stage: str, name: str) -> float:
    """Median over seeds of the rows needed; infinite where most seeds never get there."""
    return float(np.median([np.inf if rows is None else rows for rows in rows_of(record, stage, name)]))


def waterfall_figure(record: dict[str, Any]) -> "Figure":
    """Rows needed by one reduction after the other, a panel for each stage: bars between medians over seeds, dots are seeds."""
    import matplotlib.pyplot as plt

    stages = stage_names(record)
    known = [rows for stage in stages for name in STEPS for rows in rows_of(record, stage, name) if rows is not None]
    edge = 4 * max(known)
    figure, panels = plt.subplots(1, len(stages), figsize=(9.2, 2.9), sharex=True, sharey=True)
    for panel, stage in zip(panels, stages, strict=True):
        before = None
        for height, name in enumerate(STEPS):
            rows, now = rows_of(record, stage, name), median_rows(record, stage, name)
            start, stop = (min(value, edge) for value in (now if before is None else before, now))
            colour = PALETTE[0] if stop <= start else PALETTE[3]
            panel.barh(height, stop - start, left=start, height=0.5, color=colour, alpha=0.35)
            panel.plot([edge if one is None else one for one in rows], [height] * len(rows), "o", color="k", markersize=3)
            if np.isinf(now):
                panel.plot([edge], [height], marker=">", color=PALETTE[3], markersize=7)
            label = short(now) if np.isfinite(now) else "never"
            lowest = min([start, stop, *(one for one in rows if one is not None)])
            panel.text(lowest / 1.6, height, label, ha="right", va="center", fontsize=8)
            before = now
        panel.axvline(record["rows"], color="0.5", linewidth=0.8, linestyle=":")
        panel.set(xscale="log", title=stage, xlim=(0.03, 3 * edge))
    panels[0].invert_yaxis()
    panels[0].set_yticks(range(len(STEPS)), list(STEPS.values()), fontsize=8)
    figure.supxlabel(
        "rows of text for a useful direction (number: median over seeds; dots: seeds; dotted: one batch)", fontsize=9
    )
    return figure


def discount_figure(record: dict[str, Any]) -> "Figure":
    """Rows needed against the discount: lines are medians over seeds, a line for each stage; dots are seeds."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(6.0, 3.2))
    for number, stage in enumerate(stage_names(record)):
        rows = np.array([rows_of(record, stage, name) for name in gamma_sweep()], dtype=float)
        middle = np.array([median_rows(record, stage, name) for name in gamma_sweep()])
        axes.plot(range(len(GAMMAS)), rows, linestyle="", marker="o", markersize=3, color=PALETTE[number], alpha=0.5)
        axes.plot(range(len(GAMMAS)), np.where(np.isinf(middle), np.nan, middle), color=PALETTE[number], label=stage)
    axes.set_xticks(range(len(GAMMAS)), [f"{gamma:g}" for gamma in GAMMAS])
    axes.set(yscale="log", xlabel="discount γ", ylabel="rows for a useful direction")
    axes.legend(fontsize=8)
    return figure


def from_even_figure(sweep: Sweep, names: dict[str, str]) -> "Figure":
    """Held-out bits per byte minus those of evenly spaced boundaries, second half of training; paired by seed.

    Args:
        names: methods and what the legend calls them.
    """
    import matplotlib.pyplot as plt

    data = held_out_data(sweep)
    bits = data.set_index(["contender", "seed", "bytes"])["bits_per_byte"]
    figure, axes = plt.subplots(figsize=(7.0, 3.2))
    for number, (name, label) in enumerate(names.items()):
        apart = (bits[name] - bits["even"]).dropna().groupby("bytes").mean()
        late = apart[apart.index >= apart.index.max() / 2]
        axes.plot(late.index / 1e6, late.to_numpy(), color=PALETTE[number], label=label)
    axes.axhline(0, color="k", linewidth=0.8)
    axes.set(xlabel="training text (MB)", ylabel="bits per byte, minus even spacing")
    axes.legend(fontsize=8, ncols=2)
    return figure


def gamma_figure(record: dict[str, Any]) -> "Figure":
    """Bias and rows needed against the discount: one line for each stage, the median over seeds; dots are seeds."""
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(8.4, 3.2))
    x = np.arange(len(GAMMAS))
    for number, stage in enumerate(stage_names(record)):
        seeds = [[one["policy"]["estimators"][name] for name in gamma_sweep()] for one in at(record, stage)]
        limits = np.array([[measures["limit"][0] for measures in one] for one in seeds], dtype=float)
        rows = np.array([[measures["rows_needed"][0] for measures in one] for one in seeds], dtype=float)
        for panel, values in ((left, limits), (right, rows)):
            for one in values:
                panel.plot(x, one, linestyle="", marker="o", markersize=3, color=PALETTE[number], alpha=0.5)
            middle = (
                np.median(np.where(np.isnan(values), np.inf, values), axis=0) if panel is right else np.median(values, axis=0)
            )
            panel.plot(x, np.where(np.isinf(middle), np.nan, middle), color=PALETTE[number], label=stage)
    for panel in (left, right):
        panel.set_xticks(x, [f"{gamma:g}" for gamma in GAMMAS], fontsize=8)
        panel.set_xlabel("discount γ")
    left.axhline(0.5, color="0.5", linewidth=0.8, linestyle=":")
    left.set(ylabel="largest cosine that bias allows", ylim=(-0.2, 1.05))
    left.legend(fontsize=8)
    right.set(yscale="log", ylabel="rows to a cosine of 0.5")
    return figure


def positions_figure(record: dict[str, Any], stage: str) -> "Figure":
    """Section 2.4: mean reward by position, and the spread of returns at several discounts; the first seed."""
    import matplotlib.pyplot as plt

    one = at(record, stage)[0]
    figure, (left, right) = plt.subplots(1, 2, figsize=(8.4, 3.0))
    left.plot(one["positions"], one["mean_reward"])
    left.axhline(0, color="0.5", linewidth=0.8)
    left.set(xlabel="position i", ylabel="mean reward (nats)")
    for number, gamma in enumerate(("1", "0.99", "0.9")):
        right.plot(one["positions"], one["return_spread"][gamma], color=PALETTE[number], label=f"γ = {gamma}")
    right.set(xlabel="position i", ylabel="spread of the return (nats)", yscale="log")
    right.legend(fontsize=8)
    return figure
