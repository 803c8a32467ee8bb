"""The start of a run that was stopped: too little for a score, enough to see whether it goes the way of another.

file --read_start, beside--> start     (start, finished run) --starts_table, views, agreement_table--> both after as many updates
"""

from pathlib import Path
from typing import Any

from rltok.errors import RltokError
from rltok.evidence.criteria import agreement
from rltok.evidence.partial_runs import read_start
from rltok.evidence.record_file import Record
from rltok.evidence.records import Sweep
from rltok.evidence.words import NONE
from rltok.show.tables import markdown

SHOWN = {"whitespace_share": ".2f", "policy_entropy": ".3f", "bits_per_byte": ".3f"}  # with their digits


def beside(path: Path, sweep: Sweep | None) -> tuple[Record | None, Record | None, str]:
    """(start, finished run of the same method to set beside it, why that is not possible: empty where it is).

    Raises:
        RltokError: the file is there and cannot be read.
    """
    if not path.exists():
        return None, None, f"There is no start of a second run: {path.name} is not stored."
    start = read_start(path)
    runs = [] if sweep is None else [run for _, run in sorted(sweep.runs.get(start["name"], {}).items())]
    fitting = [run for run in runs if not apart(start, run)]
    run = next(iter([*fitting, *runs]), None)
    return start, run, apart(start, run)


def starts_table(start: Record, run: Record) -> str:
    """Markdown: white space with a boundary, entropy and loss of both at each evaluation on held-out text that both have.

    Raises:
        RltokError: they differ in more than the seed, so what differs between them would not be the seed's doing.
    """
    _check_pair(start, run)
    other = {point["step"]: point for point in run["held_out"]}
    rows = []
    for point in start["held_out"]:
        if point["step"] in other:
            pairs = [(each[key], digits) for key, digits in SHOWN.items() for each in (other[point["step"]], point)]
            cells = [NONE if value is None else format(value, digits) for value, digits in pairs]
            rows.append([f"{point['bytes'] / 1e6:.0f}", *cells])
    seeds = [f"seed {each['seed']}" for each in (run, start)]
    words = ("white space", "entropy, nats", "bits per byte")
    return markdown(["MB read", *(f"{what}, {seed}" for what in words for seed in seeds)], rows)


def views(start: Record, run: Record, text: str = "prose") -> dict[str, dict[str, Any]]:
    """A fixed text with the boundaries of both after as many updates as the start's last snapshot, and of the run at its end."""
    _check_pair(start, run)
    last, shots = start["snapshots"][-1], {shot["step"]: shot for shot in run["snapshots"]}
    texts = {}
    for each, shot in ((run, shots[last["step"]]), (start, last), (run, run["snapshots"][-1])):
        read = run["bytes"] / run["updates"] * shot["step"] / 1e6
        texts[f"seed {each['seed']}, after update {shot['step']:,} ({read:.0f} MB)"] = shot[text]
    return texts


def agreement_table(start: Record, run: Record) -> str:
    """Markdown: F1 of the boundaries of each fixed text, of the run against the start and against itself at its end."""
    rows = []
    for text in (text for text in start["snapshots"][-1] if text != "step"):
        mine, other, end = (view["boundaries"] for view in views(start, run, text).values())
        rows.append([text, f"{agreement(mine, other):.2f}", f"{agreement(mine, end):.2f}"])
    seeds = [f"seed {each['seed']}" for each in (run, start)]
    return markdown(["F1 of boundaries", f"{seeds[0]} and {seeds[1]}, both then", f"{seeds[0]} then and at its end"], rows)


def apart(start: Record, run: Record | None) -> str:
    """Why the two cannot be set beside each other: more than the seed differs, or there is no run. Empty where they can."""
    who = f"the start of {start['name']}, seed {start['seed']}, sweep {start['sweep']}"
    if run is None:
        return f"There is no finished run to set beside {who}."
    theirs = f"The run of {run['name']}, seed {run['seed']},"
    if run["seed"] == start["seed"]:
        return f"{theirs} has the seed of {who}."
    settings = [{**each["config"], "train": {**each["config"]["train"], "seed": None}} for each in (start, run)]
    if settings[0] != settings[1] or start["data"]["train"] != run["data"]["train"]:
        return f"{theirs} is of other settings or text than {who}."
    shots = {shot["step"]: shot for shot in run["snapshots"]}
    last = start["snapshots"][-1]
    if last["step"] not in shots:
        return f"{theirs} has no snapshot at the update of the last one of {who}."
    if any("text" not in shots[last["step"]].get(text, {}) for text in last if text != "step"):
        return f"{theirs} keeps no texts in its snapshots, as that of seed 0 does, so it cannot be set beside {who}."
    if not {point["step"] for point in start["held_out"]} & {point["step"] for point in run["held_out"]} - {0}:
        return f"{theirs} has no evaluation at the same update as {who}."
    return ""


def _check_pair(start: Record, run: Record) -> None:
    if why := apart(start, run):
        raise RltokError(why)
