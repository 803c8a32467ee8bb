"""Figures of a sweep, each drawn from rows that are also stored as CSV: Figures 2, 3, 6 to 8 and 13, rewards by position.

sweep --figure_3_data--> a frame --> the figure, and notebooks/results/figures/SWEEP/figure_3.csv
"""

import html
from collections.abc import Callable, Sequence
from statistics import fmean
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from rltok.errors import RltokError
from rltok.evidence import differences
from rltok.evidence.criteria import TEXT_POLICY, agreement_at
from rltok.evidence.paper import FIGURE_3, PLACES
from rltok.evidence.ranking import MARKERS
from rltok.evidence.record_file import Record
from rltok.evidence.records import Sweep, is_learned
from rltok.evidence.tables import methods_of
from rltok.evidence.words import many
from rltok.show.plots import PALETTE
from rltok.show.views import boundary_html

if TYPE_CHECKING:
    from matplotlib.figure import Figure

HARD = ("hnet", "hnet_port")  # shown by their decisions, as in the paper's Figure 8


def _curves(sweep: Sweep, points: Callable[[Record], Sequence[Sequence[float]]], columns: list[str]) -> pd.DataFrame:
    """Points of every seed; of one that was run several times the mean over its runs, point by point, as in the tables."""
    rows = [
        [name, seed, *map(_mean, zip(*same, strict=True))]
        for name in methods_of(sweep) for seed in sweep.runs[name]
        for same in zip(*(points(run) for run in sweep.of_seed(name, seed)), strict=False)  # as many as all of them have
    ]  # fmt: skip
    return pd.DataFrame(rows, columns=["contender", "seed", *columns], dtype=object)


def _mean(values: Sequence[float | None]) -> float | None:
    """Their mean; a value that all share stays as it is: None, or an integer, of which a mean would make a float."""
    return values[0] if len(set(values)) == 1 else fmean(values)


def figure_3_data(sweep: Sweep) -> pd.DataFrame:
    """Held-out bits per byte during training: FLOPs by the paper's rule, FLOPs with attention, bits per byte."""

    def points(run: Record) -> list[list[float]]:
        return [[p["flops"], p["flops"] + p["attention_flops"], p["bits_per_byte"]] for p in run["held_out"] if p["step"]]

    return _curves(sweep, points, ["flops", "flops_with_attention", "bits_per_byte"])


def figure_13_data(sweep: Sweep) -> pd.DataFrame:
    """Policy entropy during training, by share of the updates; methods without a policy have none."""

    def points(run: Record) -> list[list[float]]:
        last = run["curve"][-1]["step"]
        return [[p["step"] / last, p["policy_entropy"]] for p in run["curve"] if p["policy_entropy"] is not None]

    return _curves(sweep, points, ["share_of_training", "entropy_nats"])


def agreement_data(sweep: Sweep) -> pd.DataFrame:
    """F1 of the boundaries of the fixed texts, at each snapshot, against the final ones."""

    def points(run: Record) -> list[list[float]]:
        last = run["snapshots"][-1]["step"]
        return [[shot["step"] / last, agreement_at(run, shot["step"] / last)] for shot in run["snapshots"]]

    return _curves(sweep, points, ["share_of_training", "f1_with_final"])


def white_space_data(sweep: Sweep) -> pd.DataFrame:
    """Share of white-space bytes with a boundary during training, by bytes of training text."""

    def points(run: Record) -> list[list[float]]:
        return [[p["bytes"], p["whitespace_share"]] for p in run["curve"] if p["whitespace_share"] is not None]

    return _curves(sweep, points, ["bytes", "whitespace_share"])


def held_out_data(sweep: Sweep) -> pd.DataFrame:
    """Held-out bits per byte and share of white space with a boundary during training, by bytes of training text."""

    def points(run: Record) -> list[list[float]]:
        return [[p["bytes"], p["bits_per_byte"], p["whitespace_share"]] for p in run["held_out"] if p["step"]]

    return _curves(sweep, points, ["bytes", "bits_per_byte", "whitespace_share"])


def positions_data(sweep: Sweep) -> pd.DataFrame:
    """Mean reward and return by position in the row, nats; of methods with a policy."""

    def points(run: Record) -> list[list[float]]:
        if not is_learned(run):
            return []
        binned = run["positions"]
        each = zip(binned["start"], binned["rewards"], binned["returns"], strict=True)
        return [[start, reward, back] for start, reward, back in each if reward is not None]

    return _curves(sweep, points, ["position", "reward", "return"])


DATA: dict[str, Callable[[Sweep], pd.DataFrame]] = {
    "figure_3": figure_3_data, "figure_13": figure_13_data, "agreement": agreement_data, "white_space": white_space_data,
    "held_out": held_out_data, "positions": positions_data,
}  # fmt: skip


def gaps_data(sweep: Sweep) -> pd.DataFrame:
    """Paired differences of every method from the policy on every text: bits per byte, both errors, seeds, in words."""
    rows: list[list[Any]] = []
    for name in methods_of(sweep):
        for place in ("validation", *PLACES):
            gap = differences.gap(sweep, name, TEXT_POLICY, place) if name != TEXT_POLICY else None
            if gap is not None:
                own = None if gap.borrowed else gap.error_seeds
                rows.append([name, place, gap.bits, gap.error_units, own, gap.seeds, f"{gap}, {many(gap.seeds, 'seed')}"])
    columns = ["contender", "place", "bits_per_byte", "error_units", "error_seeds", "seeds", "told"]
    return pd.DataFrame(rows, columns=columns, dtype=object)


def as_csv(data: pd.DataFrame) -> str:
    """The rows as CSV, numbers to six significant digits."""
    cells = data.map(lambda cell: f"{cell:.6g}" if isinstance(cell, float) else cell)
    return cells.to_csv(index=False, lineterminator="\n")


def _lines(data: pd.DataFrame, names: Sequence[str], x: str, y: str) -> dict[str, list[tuple[np.ndarray, np.ndarray]]]:
    """(x, y) of every seed of these methods."""
    each = {name: seeds.groupby("seed", sort=False) for name, seeds in data.groupby("contender") if name in names}
    return {
        name: [tuple(points[[x, y]].to_numpy(float).T) for _, points in each[name]] for name in names if name in each
    }  # fmt: skip


def _second_half(lines: dict[str, list[tuple[np.ndarray, np.ndarray]]]) -> dict[str, list[tuple[np.ndarray, np.ndarray]]]:
    """The lines from half of the largest x on."""
    half = max(x[-1] for seeds in lines.values() for x, _ in seeds) / 2
    return {name: [(x[x >= half], y[x >= half]) for x, y in seeds] for name, seeds in lines.items()}


def _draw(axes: Any, lines: dict[str, list[tuple[np.ndarray, np.ndarray]]]) -> None:
    """The mean over seeds as a line, the seeds behind it as thin ones; x is nearly the same in all seeds, and averaged too."""
    for number, (name, seeds) in enumerate(lines.items()):
        colour, marker = PALETTE[number % len(PALETTE)], MARKERS[number // len(PALETTE) % len(MARKERS)]
        shortest = min(len(x) for x, _ in seeds)
        for x, y in seeds if len(seeds) > 1 else ():
            axes.plot(x, y, color=colour, linewidth=0.5, alpha=0.5)
        mean = [np.mean([pair[axis][:shortest] for pair in seeds], axis=0) for axis in (0, 1)]
        axes.plot(*mean, color=colour, linewidth=1.5, label=name, marker=marker, markersize=3, markevery=max(1, shortest // 8))


def _legend(figure: "Figure", axes: Any) -> None:
    """One legend for all panels, above them: inside it would lie on somebody's curves, whoever competes."""
    figure.set_layout_engine("constrained")
    figure.legend(*axes.get_legend_handles_labels(), loc="outside upper center", ncols=4, fontsize=8)


def figure_3(sweep: Sweep, names: Sequence[str]) -> "Figure":
    """Held-out bits per byte against training FLOPs, the second half again in large; the paper's end point where it is near."""
    import matplotlib.pyplot as plt

    figure, (whole, late) = plt.subplots(1, 2, figsize=(8.4, 4.2))
    lines = _lines(figure_3_data(sweep), names, "flops", "bits_per_byte")
    _draw(whole, lines)
    if whole.get_xlim()[1] > FIGURE_3["flops"] / 3:  # else it would squeeze ours into a corner
        whole.plot([FIGURE_3["flops"]], [FIGURE_3["ours"]], "k*", label="paper, ours")
    _draw(late, _second_half(lines))
    for axes in (whole, late):
        axes.set_xlabel("training FLOPs (without attention)")
    whole.set_ylabel("held-out bits per byte")
    _legend(figure, whole)
    return figure


def figure_13(sweep: Sweep, names: Sequence[str]) -> "Figure":
    """Left, the policy's entropy; right, agreement of boundaries with the final ones; both by share of training."""
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(8.4, 3.4))
    _draw(left, _lines(figure_13_data(sweep), names, "share_of_training", "entropy_nats"))
    _draw(right, _lines(agreement_data(sweep), names, "share_of_training", "f1_with_final"))
    for axes, label in ((left, "policy entropy (nats per decision)"), (right, "F1 with final boundaries")):
        axes.axvline(0.1, color="0.5", linewidth=0.8, linestyle=":")
        axes.set(xlabel="share of training", ylabel=label, ylim=(0, None))
    _legend(figure, left)
    return figure


def training_figure(sweep: Sweep, names: Sequence[str]) -> "Figure":
    """Held-out bits per byte (left, the second half of training, which the first would hide) and white space (right)."""
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(8.4, 3.6))
    for axes, key in ((left, "bits_per_byte"), (right, "whitespace_share")):
        lines = _lines(held_out_data(sweep), names, "bytes", key)
        shown = {name: [(x / 1e6, y) for x, y in seeds] for name, seeds in lines.items()}
        _draw(axes, _second_half(shown) if axes is left else shown)
        axes.set(xlabel="training text (MB)")
    left.set_ylabel("held-out bits per byte")
    right.set(ylabel="white space with a boundary (share)", ylim=(0, 1.02))
    _legend(figure, right)
    return figure


def positions_figure(sweep: Sweep, names: Sequence[str]) -> "Figure":
    """Mean reward (left) and return (right) by position in the row."""
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(1, 2, figsize=(8.4, 3.2))
    for axes, key in zip(panels, ("reward", "return"), strict=True):
        _draw(axes, _lines(positions_data(sweep), names, "position", key))
        axes.axhline(0, color="0.5", linewidth=0.8)
        axes.set(xlabel="position in the row (bytes)", ylabel=f"mean {key} (nats)")
    _legend(figure, panels[0])
    return figure


def sample_html(sweep: Sweep, name: str, characters: int = 400, seed: int | None = None, label: str = "") -> str:
    """HTML: a held-out passage with a method's boundaries, of its smallest seed or of that named; as the paper's Figure 2.

    The label stands above it in place of the method's name.
    """
    runs = sweep.runs[name]
    run = runs[min(runs) if seed is None else seed]
    return passage_html(run["samples"][0], label or name, "held-out passage", characters, hard=name in HARD)


def passage_html(view: dict[str, Any], name: str, what: str, characters: int, *, hard: bool = False) -> str:
    """HTML: the beginning of a text that a record keeps, under a name; `hard` leaves probabilities out."""
    text = view["text"].encode("latin-1")[:characters]
    boundaries = [int(bit) for bit in view["boundaries"][: len(text)]]
    percent = None if hard else probabilities(view, len(text))
    share = f"{sum(boundaries)} of {len(boundaries)} bytes end a token"
    block = boundary_html(text, boundaries, percent, f"{name}: {what}, {share}")
    return f"<div><strong>{html.escape(name)}</strong> ({share}){block}</div>"


def probabilities(view: dict[str, Any], size: int) -> list[float] | None:
    """The first probabilities of a view, from two digits each; None where the rule has none."""
    digits = view["percent"]
    return digits and [int(digits[2 * i : 2 * i + 2]) / 100 for i in range(size)]


def snapshots_figure(sweep: Sweep, name: str, characters: int = 64) -> "Figure":
    """Boundary probabilities (or decisions) on the start of a fixed text: a row a snapshot, from first to last update."""
    import matplotlib.pyplot as plt

    runs = (run for seed in sorted(sweep.runs[name]) for run in sweep.of_seed(name, seed))
    run = next((run for run in runs if "text" in run["snapshots"][0]["prose"]), None)
    if run is None:  # the records of the other seeds leave texts out
        raise RltokError(
            f"no record of {name} in the sweep {sweep.name} keeps texts in its snapshots: that of seed 0"
            f" is missing. Make it: scripts/measure/run_sweep.py ... --only {name} --seeds 0."
        )
    shots = run["snapshots"]
    shown = shots[0]["prose"]["text"].encode("latin-1")[:characters]
    decided = [[int(bit) for bit in shot["prose"]["boundaries"][: len(shown)]] for shot in shots]
    grid = [probabilities(shot["prose"], len(shown)) or bits for shot, bits in zip(shots, decided, strict=True)]
    figure, axes = plt.subplots(figsize=(8.4, 0.2 * len(shots) + 1.0))
    axes.imshow(np.array(grid), cmap="cividis", vmin=0, vmax=1, aspect="auto")
    axes.set_yticks(range(len(shots)), [str(shot["step"]) for shot in shots], fontsize=7)
    axes.set_xticks(range(len(shown)), [chr(byte) if 32 < byte < 127 else "␣" for byte in shown], fontsize=7, family="monospace")
    axes.set_ylabel("updates")
    axes.grid(visible=False)
    return figure
