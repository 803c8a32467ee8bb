"""The four benchmark sets: where each is found, and how its lines read as a context, its continuations, the right one.

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

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

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
