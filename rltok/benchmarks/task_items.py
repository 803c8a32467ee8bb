"""Items of the four benchmark sets, from local files or the Hugging Face hub: a context, its continuations, the right one.

| set | file | context | continuation |
|---|---|---|---|
| `piqa` | `piqa-validation` | `Question: {goal}` + newline + `Answer:` | ` {sol}` |
| `hellaswag` | `hellaswag-validation` | `{activity_label}: {ctx}` | ` {ending}` |
| `arc_easy` | `arc-easy-test` | `Question: {question}` + newline + `Answer:` | ` {choice}` |
| `lambada` | `lambada-openai-test` | `{context}` | ` {target}`, the final word |

Files end in .jsonl, .jsonl.gz or .jsonl.zst, one object a line. The paper gives neither prompts nor says who owns the space
between context and continuation. Here it belongs to the continuation and is scored, as every byte after the context is: it
has to be predicted, too. Bits per byte on these sets are therefore comparable between models of this package, not to the
paper's to the last digit.
"""

import hashlib
import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from rltok import vocab
from rltok.data import hub
from rltok.data.tables import JSONL_SUFFIXES, numbered_lines
from rltok.errors import RltokError

Fields = dict[str, Any]  # of one line
PIQA_REVISION = "refs/convert/parquet"  # its main revision is a script, which `datasets` no longer runs


@dataclass(frozen=True)
class Item:
    """One question. Row of choice c: BOS, context, choices[c]."""

    context: str
    choices: tuple[str, ...]  # continuations, the space before them included; one for LAMBADA
    gold: int  # index of the right one


@dataclass(frozen=True)
class Task:
    """Where a set is found and how its lines read."""

    stem: str  # file name without suffix
    texts: tuple[str, ...]  # fields that hold a string
    choices: str | None  # field that holds a list of strings
    count: int  # items of the published set
    hub: str  # hf:OWNER/NAME:CONFIG
    where: dict[str, str]  # split and revision there
    from_hub: Callable[[Fields], Fields]  # the hub's columns as the fields above; None for what it lacks
    item: Callable[[Fields], Item]

    @property
    def fields(self) -> tuple[str, ...]:
        """All that a line must have."""
        label = () if self.stem.startswith("lambada") else ("label",)
        return self.texts + (() if self.choices is None else (self.choices,)) + label


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


def _question(text: str, choices: Iterable[str], gold: int) -> Item:
    return Item(f"Question: {text}\nAnswer:", tuple(f" {choice}" for choice in choices), gold)


def without_marks(text: str) -> str:
    """A text of HellaSwag without WikiHow's marks: ` [title]` ends a sentence, the others vanish, double spaces close up."""
    text = text.strip().replace(" [title]", ". ")
    return re.sub(r"\[(header|title|step|substeps)\]", "", text).replace("  ", " ").strip()


def _clean(value: Any) -> Any:
    if isinstance(value, list):
        return [_clean(part) for part in value]
    return without_marks(value) if isinstance(value, str) else value


def _hellaswag_from_hub(row: Fields) -> Fields:
    label = row.get("label")
    if isinstance(label, str):  # "" where the answer is held back
        label = int(label) if label.isdecimal() else None
    return {key: _clean(row.get(key)) for key in ("activity_label", "ctx", "endings")} | {"label": label}


def _arc_from_hub(row: Fields) -> Fields:
    choices = row["choices"] if isinstance(row.get("choices"), dict) else {}
    names = choices.get("label") or []
    label = names.index(row["answerKey"]) if row.get("answerKey") in names else None
    return {"question": row.get("question"), "choices": choices.get("text"), "label": label}


def _lambada_from_hub(row: Fields) -> Fields:
    context, _, target = str(row.get("text") or "").strip().rpartition(" ")
    return {"context": context or None, "target": target or None}


TASKS = {
    "piqa": Task(
        "piqa-validation", ("goal", "sol1", "sol2"), None, 1838, "hf:ybisk/piqa",
        {"split": "validation", "revision": PIQA_REVISION}, lambda row: row,
        lambda f: _question(f["goal"], (f["sol1"], f["sol2"]), f["label"]),
    ),
    "hellaswag": Task(
        "hellaswag-validation", ("activity_label", "ctx"), "endings", 10042, "hf:Rowan/hellaswag", {"split": "validation"},
        _hellaswag_from_hub,
        lambda f: Item(f"{f['activity_label']}: {f['ctx']}", tuple(f" {ending}" for ending in f["endings"]), f["label"]),
    ),
    "arc_easy": Task(
        "arc-easy-test", ("question",), "choices", 2376, "hf:allenai/ai2_arc:ARC-Easy", {"split": "test"}, _arc_from_hub,
        lambda f: _question(f["question"], f["choices"], f["label"]),
    ),
    "lambada": Task(
        "lambada-openai-test", ("context", "target"), None, 5153, "hf:EleutherAI/lambada_openai:default", {"split": "test"},
        _lambada_from_hub, lambda f: Item(f["context"], (f" {f['target']}",), 0),
    ),
}  # fmt: skip


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
