"""After a run at scale: the stored sweeps, which of them may be set beside each other, and what a run took.

folder --all_sweeps, schedule_sweep--> sweeps     (sweep, plan) --record_table--> a row for each run, with its interruptions
"""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from rltok.config import Config, with_settings
from rltok.errors import RltokError
from rltok.evidence.record_file import Record
from rltok.evidence.records import SCHEDULE, Sweep, read_sweeps, shared
from rltok.evidence.tables import label
from rltok.evidence.words import NONE
from rltok.runs.checkpoint import differences
from rltok.show.tables import markdown

UNKNOWN = "earlier sessions not recorded"


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


def record_table(sweep: Sweep, planned: Mapping[str, Config]) -> str:
    """Markdown: a row for each run of a sweep, also for one that failed: whether its settings are those of its plan, by their
    digest, what it took, and how it went; below, which runs of the plan have no record.

    Args:
        planned: settings of the plan by method, those of one seed.
    """
    rows = []
    for run in sorted([*sweep.records, *sweep.failed], key=lambda run: (run["name"], run["seed"])):
        peak, name = run.get("peak_memory_bytes"), run["name"]
        same = name in planned and with_settings(planned[name], {"train.seed": run["seed"]}).digest() == run["config_hash"]
        settings = "as planned" if same else "**not as planned**" if name in planned else "not in the plan"
        failed = " ".join(run.get("failed", "").split())
        rows.append([
            f"`{name}`, seed {run['seed']}", run["device"].replace("NVIDIA ", ""), run["commit"][:7], settings,
            NONE if failed else f"{run['seconds']:.0f}", NONE if peak is None else f"{peak / 1e9:.1f}",
            f"failed: {failed}" if failed else interrupted(run),
        ])  # fmt: skip
    missing = ", ".join(f"`{name}`" for name in planned if name not in sweep.runs)
    table = markdown([f"`{label(sweep)}`", "card", "commit", "settings", "seconds", "peak GB", "interrupted"], rows)
    return f"{table}\n\nRuns of the plan without a finished record: {missing or 'none'}."
