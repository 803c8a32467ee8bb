"""Before and after a run at scale: what it takes by card, the command that makes it, and sizes beside each other.

    config --plan_table, cost_table, train_command--> what to expect, what to type
    sweeps --record_table, sizes_figure, learning_figure--> what came out, with a mark where a run was interrupted

Everything after a run is read from evidence records; nothing is computed from models here.
"""

import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rltok.config import Config
from rltok.evidence_tables import MISSING, by_size, contenders_of, label
from rltok.flops import flops_per_byte, parameter_counts, training_flops
from rltok.plots import PALETTE
from rltok.presets import preset
from rltok.records import Record, Sweep, read_sweeps
from rltok.rule_views import markdown
from rltok.speeds import Speed, outlooks

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STYLES = ("-", "--", ":", "-.")  # of sizes
CROSS = "interrupted"
LARGE = 120  # of a unit of time, from which on the next one is told
OPTIMIZER_COPIES = 3  # of every weight in a checkpoint: itself and two moments of AdamW
BYTES = 4  # of a number in fp32
WATCHING = ("log_every", "evaluate_every", "evaluate_rows", "checkpoint_every", "keep_checkpoints")  # changes no weight


# Before


def settings_of(values: Mapping[str, Any], path: str = "") -> dict[str, Any]:
    """Nested settings as {"objective.gamma": 0.9, ...}, the name left out."""
    found: dict[str, Any] = {}
    for key, value in values.items():
        here = f"{path}{key}"
        found |= settings_of(value, here + ".") if isinstance(value, Mapping) else {here: value}
    return {key: value for key, value in found.items() if key != "name"}


def changes(config: Config, base: Config) -> dict[str, Any]:
    """The settings in which a configuration differs from another one."""
    before = settings_of(base.to_dict())
    return {key: value for key, value in settings_of(config.to_dict()).items() if value != before[key]}


def train_command(config: Config, base: str, *, data: str, out: str, validation: str | None = None) -> str:
    """The `rltok train` that makes a run of this configuration: a preset, and each setting that differs from it."""
    words = ["rltok train", f"--preset {shlex.quote(base)}", f"--data {shlex.quote(data)}"]
    words += [] if validation is None else [f"--validation {shlex.quote(validation)}"]
    words += [f"--out {shlex.quote(out)}"]
    changed = [shlex.quote(f"{key}={json.dumps(value)}") for key, value in changes(config, preset(base)).items()]
    return " \\\n  ".join(words + ([f"--set {' '.join(changed)}"] if changed else []))


def plan_table(plans: Mapping[str, Config]) -> str:
    """Markdown: budgets beside each other, counted from settings, and every setting that changes a weight and differs."""
    configs = list(plans.values())
    rows = [[name, *(told(config) for config in configs)] for name, told in PLANNED.items()]
    each = [settings_of(config.to_dict()) for config in configs]
    different = [key for key in each[0] if any(one[key] != each[0][key] for one in each) and key.split(".")[-1] not in WATCHING]
    rows += [[f"`{key}`", *(_plain(one[key]) for one in each)] for key in different]
    return markdown(["", *plans], rows)


def _plain(value: Any) -> str:
    return f"{value:,}" if type(value) is int else str(value)


def _flops(config: Config, attention: bool) -> float:
    """Of all updates, at the target rate."""
    size = config.num_updates * config.bytes_per_update
    rate = config.model.rule.target_rate
    matrices, more = training_flops(config.model, size, round(size * rate), config.data.sequence_length)
    return matrices + more if attention else matrices


PLANNED: dict[str, Callable[[Config], str]] = {
    "parameters in matrices": lambda config: f"{sum(parameter_counts(config.model).values()):,}",
    "updates": lambda config: f"{config.num_updates:,}",
    "bytes read in them": lambda config: f"{config.num_updates * config.bytes_per_update:,}",
    "rows": lambda config: f"{config.num_updates * config.train.sequences_per_update:,}",
    "updates of rising learning rate": lambda config: f"{round(config.num_updates * config.train.warmup_fraction):,}",
    "FLOPs a byte": lambda config: f"{flops_per_byte(config.model, config.model.rule.target_rate):.3g}",
    "FLOPs": lambda config: f"{_flops(config, attention=False):.3g}",
    "FLOPs with attention": lambda config: f"{_flops(config, attention=True):.3g}",
}


def checkpoint_bytes(config: Config) -> int:
    """Of a checkpoint's tensors, about: every weight and two moments of AdamW in fp32."""
    return OPTIMIZER_COPIES * BYTES * sum(parameter_counts(config.model).values())


def lasting(seconds: float) -> str:
    """A time in seconds, minutes or hours."""
    minutes = seconds / 60
    if seconds < LARGE:
        return f"{seconds:.0f} s"
    return f"{minutes:.0f} min" if minutes < LARGE else f"{minutes / 60:.1f} h"


def cost_table(name: str, budgets: Mapping[str, int], speeds: list[Speed], price: float | None = None) -> str:
    """Markdown: how long a preset takes on every card of `rltok doctor`, updates alone, and what that costs.

    Args:
        name: of the preset.
        budgets: training bytes by what they are called.
        speeds: `rltok.speeds.measured_speeds()`.
        price: of an hour of a card, in a currency of yours; None leaves the columns out.
    """
    rows = []
    for found in (each for each in outlooks(speeds) if each.preset == name):
        rate, fits = found.bytes_per_second, found.micro_batch
        cells = [MISSING if rate is None else f"{rate / 1e6:.3g}"]
        for size in budgets.values():
            cells.append(MISSING if rate is None else lasting(size / rate))
            cells += [] if price is None else [MISSING if rate is None else f"{size / rate / 3600 * price:.2f}"]
        rows.append([found.card, "does not fit" if fits == 0 else MISSING if fits is None else f"{fits}", *cells, found.basis])
    head = [column for budget in budgets for column in (budget, *([] if price is None else [f"{budget}, cost"]))]
    return markdown(["card", "rows a pass", "MB/s", *head, "basis"], rows)


# After


def of_sizes(folder: Path, names: Sequence[str]) -> list[Sweep]:
    """The stored sweeps of these names, smallest model first; where none of them is stored, whatever is."""
    found = list(read_sweeps(folder).values())
    return by_size([sweep for sweep in found if sweep.name in names] or found)


def told(sweeps: Sequence[Sweep], wanted: str) -> str:
    """Markdown: what is shown, and, where the wanted sweep is not stored, that something else stands in its place."""
    names = ", ".join(f"`{label(sweep)}`" for sweep in sweeps)
    if any(sweep.name == wanted for sweep in sweeps):
        return f"Shown: {names}. Every number below is read from the records of these runs."
    return (
        f"**No record of the sweep `{wanted}` is stored yet.** Shown in its place: {names}. The tables and figures below are made"
        f" by the same functions, and say nothing about `{wanted}`."
    )


def interruptions(run: Record) -> list[dict[str, Any]] | None:
    """The sessions of a run that went on after an interruption, each with its step; None in a record that does not tell."""
    sessions = run.get("sessions")
    return sessions[1:] if sessions else None


def interrupted(run: Record) -> str:
    """The same in words."""
    found = interruptions(run)
    if found is None:
        return "not recorded"
    each = [
        f"went on after update {one['after']:,}, {one['redone']:,} of them again ({one['lost_seconds']:.0f} s)" for one in found
    ]
    return "; ".join(each) or "never"


def record_table(sweeps: Sequence[Sweep], names: Sequence[str]) -> str:
    """Markdown: a row a run of these contenders, with what names it and what it took."""
    rows = []
    for sweep in sweeps:
        for name in (name for name in contenders_of(sweep) if name in names):
            for seed, run in sorted(sweep.runs[name].items()):
                peak = run.get("peak_memory_bytes")
                rows.append([
                    label(sweep), name, str(seed), run["commit"][:7], run["config_hash"],
                    run["data"]["train"].get("hash", MISSING), run["device"], f"{run['bytes']:,}",
                    f"{run['seconds']:.0f}", f"{run['bytes'] / run['seconds'] / 1e6:.3g}",
                    MISSING if peak is None else f"{peak / 1e9:.1f}", interrupted(run),
                ])  # fmt: skip
    head = ["sweep", "contender", "seed", "commit", "config", "training text", "device", "bytes", "seconds", "MB/s",
            "peak memory, GB", "interrupted"]  # fmt: skip
    return markdown(head, rows)


def _of(run: Record, curve: str, x: str, y: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(step, x, y) of the points of a curve at which y is known."""
    points = [point for point in run[curve] if point["step"] and point.get(y) is not None]
    return tuple(np.array([point[key] for point in points], float) for key in ("step", x, y))


def _draw(axes: Any, sweeps: Sequence[Sweep], names: Sequence[str], curve: str, x: str, y: str) -> None:
    """A line a run: colour by contender, style by size; a cross where it was interrupted and went on."""
    for number, name in enumerate(names):
        for place, sweep in enumerate(sweeps):
            for order, (_, run) in enumerate(sorted(sweep.runs.get(name, {}).items())):
                steps, across, up = _of(run, curve, x, y)
                if len(steps) == 0:
                    continue
                style = {"color": PALETTE[number % len(PALETTE)], "linestyle": STYLES[place % len(STYLES)]}
                told = f"{name}, {label(sweep)}" if order == 0 else "_again"
                axes.plot(across, up, linewidth=1.5 if order == 0 else 0.6, label=told, **style)
                at = [one["after"] for one in interruptions(run) or [] if one["after"]]
                if at:
                    marks = np.interp(at, steps, across), np.interp(at, steps, up)
                    first = CROSS not in axes.get_legend_handles_labels()[1]
                    axes.plot(*marks, "kx", markersize=7, label=CROSS if first else f"_{CROSS}")


def sizes_figure(sweeps: Sequence[Sweep], names: Sequence[str]) -> "Figure":
    """Held-out bits per byte against training FLOPs without attention, all sizes on one axis."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7.4, 4.2))
    _draw(axes, sweeps, names, "held_out", "flops", "bits_per_byte")
    axes.set(xlabel="training FLOPs (without attention)", ylabel="held-out bits per byte", xscale="log")
    axes.legend(fontsize=8)
    return figure


def learning_figure(sweeps: Sequence[Sweep], names: Sequence[str]) -> "Figure":
    """Left, the share of white-space bytes with a boundary; right, the policy's entropy; both by bytes read."""
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(1, 2, figsize=(8.4, 3.9), layout="constrained")
    shown = (
        ("whitespace_share", "share of white space with a boundary"),
        ("policy_entropy", "policy entropy (nats per decision)"),
    )
    for axes, (key, words) in zip(panels, shown, strict=True):
        _draw(axes, sweeps, names, "curve", "bytes", key)
        axes.set(xlabel="bytes of training text", ylabel=words, xscale="log", ylim=(0, None))
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, fontsize=8)
    return figure
