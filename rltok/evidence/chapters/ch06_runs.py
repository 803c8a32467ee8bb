"""After a run at scale: its records beside those of other sizes, what it took, and what went wrong.

sweeps --facts_table, record_table, failed_table, *_figure--> what came out, and where a run was interrupted

Everything is read from evidence records; nothing is computed from models here.
"""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rltok.config import Config, with_settings
from rltok.errors import RltokError
from rltok.evidence.packed import read_folder
from rltok.evidence.record_file import Record
from rltok.evidence.records import SCHEDULE, Sweep, is_learned, read_sweeps, shared
from rltok.evidence.tables import by_size, label, methods_of
from rltok.evidence.words import NONE
from rltok.runs.checkpoint import differences
from rltok.show.plots import PALETTE
from rltok.show.tables import markdown

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STYLES = ("-", "--", ":", "-.")  # of sizes
CROSS = "interrupted"
UNKNOWN = "earlier sessions not recorded"


def of_sizes(folder: Path, names: Sequence[str]) -> list[Sweep]:
    """The stored sweeps of these names, smallest model first; where none of them is stored, whatever is.

    Raises:
        RltokError: the folder holds no finished run at all.
    """
    sweeps = list(all_sweeps(folder).values())
    return by_size([sweep for sweep in sweeps if sweep.name in names] or sweeps)


def all_sweeps(folder: Path) -> dict[str, Sweep]:
    """Every stored sweep, that of most runs first. Raises `RltokError` where there is none."""
    sweeps = read_sweeps(folder)
    if not sweeps:
        raise RltokError(
            f"{folder} holds no record of a finished run, so there is nothing to show. Take the folder of the repository, or make"
            " records: scripts/measure/run_sweep.py."
        )
    return sweeps


def schedule_sweep(folder: Path, name: str, beside: Sweep, varied: Collection[str] = ()) -> Sweep | None:
    """The sweep of this name if it repeats another one with a changed schedule of the learning rate; else None.

    Both have texts, network and, to two digits, budget in common, and methods of one name differ in their schedule alone.

    Args:
        varied: settings of training in which its methods may differ among themselves, as in `read_sweeps`.
    """
    other = read_sweeps(folder, varied, name).get(name)
    if other is None or not _alike(other.records[0], beside.records[0]):
        return None
    schedule = {f"train.{key}" for key in SCHEDULE}
    for same in other.runs.keys() & beside.runs.keys():
        first, second = (next(iter(sweep.runs[same].values()))["config"] for sweep in (other, beside))
        changed = {line.split(" ")[0] for line in differences(first, second)} - {"train.seed", "train.training_bytes"}
        if not changed or changed - schedule:
            return None
    return other


def _alike(first: Record, second: Record) -> bool:
    """Whether runs may be compared: all settings and texts agree but the schedule, and the budget to two digits."""
    budgets = {f"{run['config']['train']['training_bytes']:.1e}" for run in (first, second)}
    mine, theirs = (shared(run, (*SCHEDULE, "training_bytes")) for run in (first, second))
    return len(budgets) == 1 and all(mine[key] == theirs[key] for key in mine.keys() & theirs)  # one may lack a score


def stored(folder: Path, name: str) -> list[Record]:
    """Every record of a sweep, failed runs and repeats too."""
    return list(read_folder(folder / name).values())


def shown_sweeps(sweeps: Sequence[Sweep], wanted: str, folder: Path | None = None) -> str:
    """Markdown: what is shown, and, where the wanted sweep is not, why something else stands in its place.

    `folder` is that of all sweeps: records in it from which no sweep is made are failures or smoke runs.
    """
    names = ", ".join(f"`{label(sweep)}`" for sweep in sweeps)
    if any(sweep.name == wanted for sweep in sweeps):
        return f"Shown: {names}. Every number below is read from the records of these runs."
    there = [] if folder is None else stored(folder, wanted)
    finished = [run for run in there if not run.get("failed")]
    why = f"No record of the sweep `{wanted}` is stored yet."
    if finished:
        why = f"The records of `{wanted}` are of smoke runs, and smoke runs are not shown beside others."
    elif there:
        why = f"Of the sweep `{wanted}` no run has finished: {len(there)} failed."
    return (
        f"**{why}** Shown in its place: {names}. The tables and figures below are made"
        f" by the same functions, and say nothing about `{wanted}`."
    )


def failures(sweeps: Sequence[Sweep], folder: Path, names: Sequence[str]) -> list[Record]:
    """The failed runs of the sweeps shown, and of those of these names of which no run has finished."""
    shown = [run for sweep in sweeps for run in sweep.failed]
    others = [name for name in names if all(sweep.name != name for sweep in sweeps)]
    return shown + [run for name in others for run in stored(folder, name) if run.get("failed")]


def failed_table(failed: Sequence[Record]) -> str:
    """Markdown: a row for each run that failed, with its reason."""
    if not failed:
        return "No run of them failed."
    rows = [
        [run["sweep"], run["name"], str(run["seed"]), run["commit"][:7], run["device"],
         " ".join(run["failed"].split())]
        for run in failed
    ]  # fmt: skip
    return markdown(["sweep", "contender", "seed", "commit", "device", "why it failed"], rows)


def planned_methods(sweeps: Sequence[Sweep], planned: Sequence[str]) -> list[str]:
    """The planned methods that have a finished run, in the plan's order; every method there is if none of them has."""
    there = [name for name in planned if any(name in sweep.runs for sweep in sweeps)]
    return there or list(dict.fromkeys(name for sweep in sweeps for name in methods_of(sweep)))


def learned_run(sweep: Sweep, names: Sequence[str]) -> Record | None:
    """A run with learned boundaries: of the first of these methods that has one, else of any; its smallest seed."""
    for name in (*(name for name in names if name in sweep.runs), *methods_of(sweep)):
        run = sweep.runs[name][min(sweep.runs[name])]
        if is_learned(run):
            return run
    return None


def settings_against_plan(sweep: Sweep, planned: Mapping[str, Config]) -> list[str]:
    """A line for each run: whether its settings are those of the plan, by their digest. `planned` holds them by method."""
    lines = []
    for name in methods_of(sweep):
        for seed, run in sorted(sweep.runs[name].items()):
            same = name in planned and with_settings(planned[name], {"train.seed": seed}).digest() == run["config_hash"]
            word = "those of the plan" if same else "OTHERS THAN THE PLAN'S" if name in planned else "not in the plan"
            lines.append(f"{name}, seed {seed}: {word}")
    return lines


def interruptions(run: Record) -> list[dict[str, Any]] | None:
    """The sessions of a run that went on after an interruption, each with its step; None in a record without sessions.

    The first session of a list is one of them where the list was begun late, by another version or after it was deleted.
    """
    sessions = run.get("sessions")
    return sessions[0 if _late(sessions) else 1 :] if sessions else None


def _late(sessions: Sequence[Mapping[str, Any]]) -> bool:
    return sessions[0]["after"] > 0 or sessions[0]["redone"] > 0


def interrupted(run: Record) -> str:
    """The same in words. Updates done again are counted by lines of the log, so where not each has one, there may be more."""
    losses = interruptions(run)
    if losses is None:
        return "not recorded"
    least = "" if run["config"]["train"]["log_every"] == 1 else "at least "
    each = [UNKNOWN] if _late(run["sessions"]) else []
    for one in losses:
        count = f"{one['redone']:,} update{'' if one['redone'] == 1 else 's'}"
        each.append(f"went on after update {one['after']:,}, {least}{count} done again ({one['lost_seconds']:.0f} s)")
    return "; ".join(each) or "never"


def _facts(run: Record) -> dict[str, str]:
    """What identifies a run and what it cost, by column."""
    peak = run.get("peak_memory_bytes")
    return {
        "commit": run["commit"][:7],
        "config": run["config_hash"],
        "training text": run["data"]["train"].get("hash", NONE),
        "device": run["device"],
        "bytes": f"{run['bytes']:,}",
        "FLOPs": f"{run['flops']:.4g}",
        "seconds": f"{run['seconds']:.0f}",
        "MB/s": f"{run['bytes'] / run['seconds'] / 1e6:.3g}",
        "peak memory, GB": NONE if peak is None else f"{peak / 1e9:.1f}",
        "interrupted": interrupted(run),
    }


def facts_table(sweep: Sweep, names: Sequence[str]) -> str:
    """Markdown: a column for each run of these methods, with what identifies it and what it cost."""
    runs = [run for name in methods_of(sweep) if name in names for _, run in sorted(sweep.runs[name].items())]
    each = [{"seed": str(run["seed"])} | _facts(run) for run in runs]
    rows = [[what, *(facts[what] for facts in each)] for what in (each[0] if each else {})]
    return markdown([label(sweep), *(f"`{run['name']}`" for run in runs)], rows)


def record_table(sweeps: Sequence[Sweep], names: Sequence[str]) -> str:
    """Markdown: the same with a row for each run, for many runs."""
    rows, head = [], ["sweep", "contender", "seed"]
    for sweep in sweeps:
        for name in (name for name in methods_of(sweep) if name in names):
            for seed, run in sorted(sweep.runs[name].items()):
                facts = _facts(run)
                head = ["sweep", "contender", "seed", *facts]
                rows.append([label(sweep), name, str(seed), *facts.values()])
    return markdown(head, rows) if rows else "No other size is stored."


def _of(run: Record, curve: str, x: str, y: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(step, x, y) of the points of a curve at which y is known."""
    points = [point for point in run[curve] if point["step"] and point.get(y) is not None]
    return tuple(np.array([point[key] for point in points], float) for key in ("step", x, y))


def _draw(axes: Any, sweeps: Sequence[Sweep], names: Sequence[str], curve: str, x: str, y: str) -> None:
    """A line for each seed, the mean of its runs: colour by method, style by size; a cross at each interruption."""
    for number, name in enumerate(names):
        for place, sweep in enumerate(sweeps):
            for order, seed in enumerate(sorted(sweep.runs.get(name, {}))):
                runs = sweep.of_seed(name, seed)
                each = [_of(run, curve, x, y) for run in runs]
                shared = min(len(steps) for steps, _, _ in each)
                if shared == 0:
                    continue
                steps, across, up = np.mean([[values[:shared] for values in one] for one in each], axis=0)
                style = {"color": PALETTE[number % len(PALETTE)], "linestyle": STYLES[place % len(STYLES)]}
                legend = f"{name}, {label(sweep)}" if order == 0 else "_again"
                axes.plot(across, up, linewidth=1.5 if order == 0 else 0.6, label=legend, **style)
                at = [one["after"] for run in runs for one in interruptions(run) or [] if one["after"]]
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
