"""The start of a run that was stopped: too little for a score, enough to see whether it goes the way of another.

file --read_start--> start     (start, finished run) --starts_table, views, agreement_table--> both after as many updates
"""

import json
from pathlib import Path
from typing import Any

from rltok.errors import RltokError
from rltok.evidence_figures import passage_html
from rltok.evidence_format import SCHEMA, START
from rltok.files import MISSING, read_file
from rltok.judges import agreement
from rltok.records import Record, is_clean
from rltok.rule_views import markdown
from rltok.seal import is_sealed

SHOWN = {"whitespace_share": ".2f", "policy_entropy": ".3f", "bits_per_byte": ".3f"}  # with their digits
AGAIN = "Make it again: scripts/keep_start.py."


def read_start(path: Path) -> Record:
    """The start of a run from a file.

    Raises:
        RltokError: no such file, another kind of record, an edited one, or one of code that cannot be looked up.
    """
    try:
        found = json.loads(read_file(path))
    except (*MISSING, ValueError, RecursionError) as error:
        raise RltokError(f"{path.name} is missing or no JSON ({error}). {AGAIN}") from error
    if not isinstance(found, dict) or (found.get("what"), found.get("schema")) != (START, SCHEMA):
        raise RltokError(f"{path.name} is no {START} of schema {SCHEMA}. {AGAIN}")
    if not is_sealed(found):
        raise RltokError(f"{path.name} was changed after it was made: its digest differs. {AGAIN}")
    if not is_clean(found["commit"]):
        raise RltokError(f"{path.name} is of commit {found['commit']!r}, which cannot be looked up. {AGAIN}")
    return found


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
            pairs = [(other[point["step"]][key], point[key], digits) for key, digits in SHOWN.items()]
            rows.append([f"{point['bytes'] / 1e6:.0f}", *(format(each[k], each[2]) for each in pairs for k in (0, 1))])
    seeds = [f"seed {each['seed']}" for each in (run, start)]
    words = ("white space", "entropy, nats", "bits per byte")
    return markdown(["MB read", *(f"{what}, {seed}" for what in words for seed in seeds)], rows)


def views(start: Record, run: Record, text: str = "prose") -> dict[str, dict[str, Any]]:
    """A fixed text with the boundaries of both after as many updates as the start's last snapshot, and of the run at its end."""
    _check_pair(start, run)
    last, shots = start["snapshots"][-1], {shot["step"]: shot for shot in run["snapshots"]}
    found = {}
    for each, shot in ((run, shots[last["step"]]), (start, last), (run, run["snapshots"][-1])):
        read = run["bytes"] / run["updates"] * shot["step"] / 1e6
        found[f"seed {each['seed']}, after update {shot['step']:,} ({read:.0f} MB)"] = shot[text]
    return found


def starts_html(start: Record, run: Record, text: str = "prose", characters: int = 300) -> str:
    """HTML of the three `views`."""
    return "".join(passage_html(view, name, "fixed text", characters) for name, view in views(start, run, text).items())


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
    settings = [{**each["config"], "train": {**each["config"]["train"], "seed": None}} for each in (start, run)]
    if settings[0] != settings[1] or start["data"]["train"] != run["data"]["train"]:
        return f"The run of {run['name']}, seed {run['seed']}, is of other settings or text than {who}."
    if start["snapshots"][-1]["step"] not in {shot["step"] for shot in run["snapshots"]}:
        return f"The run of {run['name']}, seed {run['seed']}, has no snapshot at the update of the last one of {who}."
    return ""


def _check_pair(start: Record, run: Record) -> None:
    if why := apart(start, run):
        raise RltokError(why)
