"""The parts of a notebook that the runner writes: the strip under its title, and the first code cell."""

import json
import math
import re
from dataclasses import asdict
from pathlib import Path
from typing import Any

from nbtools.address import colab_link, repository
from nbtools.execute import Facts
from nbtools.rules import ROOT, NotebookError, tags, where

BEGIN, END = "<!-- strip -->", "<!-- /strip -->"
STRIP = re.compile(f"{re.escape(BEGIN)}\n.*?{re.escape(END)}", re.DOTALL)
RECORDS = "headers.json"  # in the folder results beside the notebooks
FIRST_CELL = ROOT / "scripts" / "notebooks" / "templates" / "first_cell.py"
MINUTES = (1, 2, 3, 5, 10, 15, 20, 30, 45)
GIGABYTES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 80, 96, 141)
ROOM = 1.25  # a rerun that is slower by this much still keeps what the strip promises


def read_records(folder: Path) -> dict[str, Any]:
    """What was measured, by name of notebook."""
    path = folder / "results" / RECORDS
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def write_record(folder: Path, name: str, facts: Facts) -> None:
    """Store a measurement, the others kept."""
    records = read_records(folder) | {name: asdict(facts)}
    path = folder / "results" / RECORDS
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(dict(sorted(records.items())), indent=1, sort_keys=True) + "\n", encoding="utf-8")


def minutes(seconds: float) -> int:
    """Upper bound in whole minutes, from a coarse scale, with room for a slower run."""
    needed = seconds * ROOM / 60
    return next((step for step in MINUTES if step >= needed), 60 * math.ceil(needed / 60))


def gigabytes(size: float) -> int:
    """Upper bound in whole gigabytes, from a coarse scale, with room for another version of torch."""
    needed = size * ROOM / 1e9
    return next((step for step in GIGABYTES if step >= needed), math.ceil(needed))


def strip_line(record: dict[str, Any] | None, download_mb: float) -> str:
    """Where it runs, how long, how much memory and how large a download, from a measured run."""
    if record is None:
        return "*Not measured yet.*"
    gpu = record["device"] != "cpu"
    time = minutes(record["seconds"])
    machine = record["device"] if gpu else f"one {record['machine']} core"
    memory = f"{gigabytes(record['peak_memory'])} GB of memory"
    if record.get("gpu_memory"):
        memory += f" and {gigabytes(record['gpu_memory'])} GB on the card"
    load = f"downloads {download_mb:g} MB" if download_mb else "no download"
    spell = "minute" if time == 1 else "minutes"
    return f"*{'GPU' if gpu else 'CPU'} · under {time} {spell} on {machine} · under {memory} · {load}*"


def strip_text(nb, path: Path, record: dict[str, Any] | None) -> str:
    """The strip with its markers, as it stands in the cell; with a link to Colab where the repository's address allows one."""
    link = colab_link(repository(), path.name)
    lines = [BEGIN, strip_line(record, nb.metadata.get("rltok", {}).get("download_mb", 0))]
    return "\n".join([*lines, *([f"[Open in Colab]({link})"] if link else []), END])


def first_cell(address: str | None = None) -> str:
    """Source of the common first cell, with the repository's address: that of pyproject.toml, if none is given."""
    text = FIRST_CELL.read_text(encoding="utf-8").rstrip("\n")
    return text.replace('REPOSITORY = ""', f"REPOSITORY = {json.dumps(repository() if address is None else address)}", 1)


def fill_in(nb, path: Path, record: dict[str, Any] | None) -> None:
    """Write strip and first cell into a notebook; their places must be there."""
    first = nb.cells[0] if nb.cells else None
    if first is None or "header-strip" not in tags(first) or not STRIP.search(first.source):
        raise NotebookError(
            f'{where(path, 0)} must be markdown with tags=["header-strip"] and hold the lines "{BEGIN}" and "{END}".'
        )
    first.source = STRIP.sub(lambda _: strip_text(nb, path, record), first.source, count=1)
    for index, cell in enumerate(nb.cells):
        if cell.cell_type == "code" and "first-cell" in tags(cell):
            if cell.source and cell.source.splitlines()[0] != first_cell().splitlines()[0]:
                raise NotebookError(f"{where(path, index)} is tagged first-cell and holds other code. Empty it; it is generated.")
            cell.source = first_cell()


def outgrown(record: dict[str, Any] | None, facts: Facts) -> str | None:
    """Why the strip promises too little for what a run took, or None."""
    if record is None or record["device"] != facts.device:
        return None
    if facts.seconds > 60 * minutes(record["seconds"]):
        return f"took {facts.seconds:.0f} s, the strip promises under {minutes(record['seconds'])} min"
    if facts.peak_memory > 1e9 * gigabytes(record["peak_memory"]):
        return f"took {facts.peak_memory / 1e9:.1f} GB, the strip promises under {gigabytes(record['peak_memory'])} GB"
    return None
