"""Items of the benchmark sets (`rltok.benchmarks.sets`), read from local files or the Hugging Face hub and checked."""

import hashlib
import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from rltok import vocab
from rltok.benchmarks.sets import TASKS, Item, Task
from rltok.data import hub
from rltok.data.tables import JSONL_SUFFIXES, numbered_lines
from rltok.errors import RltokError


@dataclass(frozen=True)
class TaskItems:
    """The items of one set in their order."""

    task: str
    items: tuple[Item, ...]

    def __len__(self) -> int:
        """How many there are."""
        return len(self.items)

    @cached_property
    def fingerprint(self) -> str:
        """First 16 hex digits of the SHA-256 of all contexts, continuations and answers."""
        digest = hashlib.sha256()
        for item in self.items:
            digest.update(json.dumps([item.context, item.choices, item.gold]).encode() + b"\n")
        return digest.hexdigest()[:16]


def _is_text(value: Any) -> bool:
    try:
        return isinstance(value, str) and vocab.to_utf8(value) is not None
    except RltokError:  # half of a surrogate pair
        return False


def _problem(task: Task, row: Any) -> str | None:
    """What is wrong with a line, as a sentence goes on after "12 of 1838 items", or None."""
    if not isinstance(row, dict):
        return "are no JSON objects"
    for name in task.fields:
        if row.get(name) is None:
            return f"lack {name!r}"
    for name in task.texts:
        if not _is_text(row[name]):
            return f"have a {name!r} that is no string of valid characters"
    if task.choices is not None:
        answers = row[task.choices]
        if not isinstance(answers, list) or len(answers) < 2 or not all(map(_is_text, answers)):
            return f"have {task.choices!r} that are no list of two or more strings"
    if "label" in task.fields:
        most = 2 if task.choices is None else len(row[task.choices])
        if type(row["label"]) is not int or not 0 <= row["label"] < most:
            return "have a 'label' that is no index of a choice"
    item = task.item(row)
    return None if all(choice.strip() for choice in item.choices) else "have an empty continuation"


def _checked(name: str, rows: list[tuple[int, Any]], place: str, source: str, expected: bool) -> TaskItems:
    """Items of numbered lines; every kind of problem is counted and named with the first line that has it."""
    task, problems = TASKS[name], {}
    for number, row in rows:
        problem = _problem(task, row)
        if problem is not None:
            problems.setdefault(problem, []).append(number)
    if problems:
        faults = "; ".join(
            f"{len(at)} of {len(rows)} items {problem}, the first on {place} {at[0]}" for problem, at in problems.items()
        )
        raise RltokError(f"{source}: {faults}. Take the set again from where it is published, or mend these lines.")
    if not rows or (expected and len(rows) != task.count):
        raise RltokError(
            f"{source} holds {len(rows)} items; the published set {name} has {task.count}. Take the whole set"
            + (", or pass expected=False to read a part." if rows else ".")
        )
    return TaskItems(name, tuple(task.item(row) for _, row in rows))


def _known(name: str) -> Task:
    if name not in TASKS:
        raise RltokError(f"there is no benchmark set {name!r}. Take one of {', '.join(TASKS)}.")
    return TASKS[name]


def _parsed(line: bytes) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None  # counted with all that is no object


def read_items(name: str, folder: str | Path, *, expected: bool = True) -> TaskItems:
    """The items of a set from its file in a folder.

    Args:
        name: of `TASKS`.
        folder: holds the file named in the table above, in one of its three forms.
        expected: refuse another number of items than the published one.

    Raises:
        RltokError: no such set or file, lines with missing or wrong fields (all counted, the first named), a wrong number.
    """
    task = _known(name)
    there = [path for suffix in JSONL_SUFFIXES if (path := Path(folder) / f"{task.stem}{suffix}").exists()]
    if len(there) != 1:
        has = (
            f"holds {' and '.join(path.name for path in there)}"
            if there
            else f"has no {task.stem}.jsonl (or .jsonl.gz, .jsonl.zst)"
        )
        raise RltokError(f"folder {str(folder)!r} {has}, of which the set {name} needs one. Name another folder.")
    lines = [(number, _parsed(line)) for number, line in numbered_lines(there[0])]
    return _checked(name, lines, "line", str(there[0]), expected)


def hub_items(name: str, force: bool) -> TaskItems:
    """The items of a set from the Hugging Face hub, fewer or more than published being an error.

    Args:
        name: of `TASKS`.
        force: ask without first testing that the hub answers (on a slow network).
    """
    task = _known(name)
    dataset = hub.open_dataset(task.hub, force, instead="local files, --tasks FOLDER", **task.where)
    rows = [(number, task.from_hub(row)) for number, row in hub.dataset_rows(task.hub, dataset)]
    return _checked(name, rows, "row", task.hub, True)
