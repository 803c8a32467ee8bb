"""task_items: files of benchmark sets, good and damaged, and the hub's columns through the real `datasets` package."""

import gzip
import json
import os
import subprocess
from dataclasses import replace
from functools import cache
from pathlib import Path

import pyarrow as pa
import pytest
from paths import BUNDLED, ROOT

from rltok.benchmarks.sets import TASKS, Item, without_marks
from rltok.benchmarks.task_items import TaskItems, hub_items, read_items
from rltok.data import hub
from rltok.errors import RltokError

COUNTS = {"piqa": 1838, "hellaswag": 10042, "arc_easy": 2376, "lambada": 5153}
GOOD = {
    "piqa": {"goal": "Open a jar.", "sol1": "Twist. ", "sol2": "Shout.", "label": 0},
    "hellaswag": {"activity_label": "Rowing", "ctx": "A man sits. he", "endings": ["rows.", "sings.", "é."], "label": 2},
    "arc_easy": {"id": "a", "question": "What is wet?", "choices": ["Sand", "Water"], "label": 1},
    "lambada": {"context": "He called the", "target": "dog"},
}
STEMS = {
    "piqa": "piqa-validation", "hellaswag": "hellaswag-validation", "arc_easy": "arc-easy-test", "lambada": "lambada-openai-test",
}  # fmt: skip


@cache
def shared_folder() -> Path | None:
    """The whole sets: named by RLTOK_SHARED, or beside the main checkout."""
    named = [Path(os.environ["RLTOK_SHARED"])] if "RLTOK_SHARED" in os.environ else []
    try:
        git = subprocess.run(["git", "rev-parse", "--git-common-dir"], cwd=ROOT, capture_output=True, text=True, check=False)
        main = (ROOT / git.stdout.strip()).resolve().parent
    except OSError:  # no git
        main = ROOT
    folders = [place / "data" / "eval" for place in (*named, main.parent / "shared", ROOT.parent / "shared")]
    return next((place for place in folders if place.is_dir()), None)


def write(folder: Path, task: str, lines: list, suffix=".jsonl") -> Path:
    """A set's file of these lines; strings stand as they are."""
    data = "".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines).encode()
    path = folder / f"{STEMS[task]}{suffix}"
    packed = {".jsonl": bytes, ".jsonl.gz": gzip.compress, ".jsonl.zst": lambda b: pa.compress(b, codec="zstd", asbytes=True)}
    path.write_bytes(packed[suffix](data))
    return path


@pytest.mark.parametrize("task", TASKS)
def test_the_whole_sets_have_the_published_counts_and_begin_with_the_bundled_items(task):
    if shared_folder() is None:
        pytest.skip("the whole sets are not here; name their folder in RLTOK_SHARED")
    items = read_items(task, shared_folder())
    assert len(items) == COUNTS[task] == TASKS[task].count
    assert items.items[:20] == read_items(task, BUNDLED, expected=False).items


def test_the_prompts_are_those_of_the_table(tmp_path):
    for task, line in GOOD.items():
        write(tmp_path, task, [line])
    actual = {task: read_items(task, tmp_path, expected=False).items for task in GOOD}
    assert actual == {
        "piqa": (Item("Question: Open a jar.\nAnswer:", (" Twist. ", " Shout."), 0),),
        "hellaswag": (Item("Rowing: A man sits. he", (" rows.", " sings.", " é."), 2),),
        "arc_easy": (Item("Question: What is wet?\nAnswer:", (" Sand", " Water"), 1),),
        "lambada": (Item("He called the", (" dog",), 0),),
    }


@pytest.mark.parametrize("suffix", [".jsonl", ".jsonl.gz", ".jsonl.zst"])
def test_packed_files_hold_the_same_items_in_their_order(tmp_path, suffix):
    lines = [GOOD["piqa"] | {"goal": f"Goal {number}"} for number in range(5)]
    write(tmp_path, "piqa", [lines[0], "", *lines[1:]], suffix)  # a blank line is no item
    items = read_items("piqa", tmp_path, expected=False)
    assert [item.context for item in items.items] == [f"Question: Goal {number}\nAnswer:" for number in range(5)]


def test_missing_and_ambiguous_files_are_named(tmp_path):
    with pytest.raises(
        RltokError, match=r"has no piqa-validation\.jsonl \(or \.jsonl\.gz, \.jsonl\.zst\), of which the set piqa"
    ):
        read_items("piqa", tmp_path)
    for suffix in (".jsonl", ".jsonl.gz"):
        write(tmp_path, "piqa", [GOOD["piqa"]], suffix)
    with pytest.raises(RltokError, match=r"holds piqa-validation\.jsonl and piqa-validation\.jsonl\.gz"):
        read_items("piqa", tmp_path)
    for look in (lambda: read_items("mmlu", tmp_path), lambda: hub_items("mmlu", False)):
        with pytest.raises(RltokError, match="no benchmark set 'mmlu'. Take one of piqa, hellaswag, arc_easy, lambada"):
            look()


def test_a_damaged_file_is_named(tmp_path):
    path = write(tmp_path, "piqa", [GOOD["piqa"]] * 50, ".jsonl.zst")
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(RltokError, match=r"cannot read '.*piqa-validation\.jsonl\.zst'"):
        read_items("piqa", tmp_path, expected=False)


@pytest.mark.parametrize("kept", [0, 1, 19, 21])
def test_a_wrong_number_of_items_is_refused_unless_a_part_is_asked_for(tmp_path, monkeypatch, kept):
    monkeypatch.setitem(TASKS, "piqa", replace(TASKS["piqa"], count=20))
    write(tmp_path, "piqa", [GOOD["piqa"]] * kept)
    with pytest.raises(RltokError, match=rf"piqa-validation\.jsonl holds {kept} items; the published set piqa has 20. Take the"):
        read_items("piqa", tmp_path)
    if kept:
        assert len(read_items("piqa", tmp_path, expected=False)) == kept
    write(tmp_path, "piqa", [GOOD["piqa"]] * 20)
    assert len(read_items("piqa", tmp_path)) == 20


BAD = [
    ("piqa", {"sol2": None}, "lack 'sol2'"),
    ("piqa", {"goal": 5}, "have a 'goal' that is no string of valid characters"),
    ("piqa", {"goal": "\ud800"}, "have a 'goal' that is no string of valid characters"),
    ("piqa", {"sol1": "  "}, "have an empty continuation"),
    ("piqa", {"label": 2}, "have a 'label' that is no index of a choice"),
    ("piqa", {"label": -1}, "have a 'label' that is no index of a choice"),
    ("piqa", {"label": True}, "have a 'label' that is no index of a choice"),
    ("piqa", {"label": "0"}, "have a 'label' that is no index of a choice"),
    ("hellaswag", {"endings": ["one"]}, "have 'endings' that are no list of two or more strings"),
    ("hellaswag", {"endings": ["one", 2]}, "have 'endings' that are no list of two or more strings"),
    ("hellaswag", {"endings": "ab"}, "have 'endings' that are no list of two or more strings"),
    ("hellaswag", {"label": 3}, "have a 'label' that is no index of a choice"),
    ("arc_easy", {"choices": ["Sand", ""]}, "have an empty continuation"),
    ("arc_easy", {"question": None}, "lack 'question'"),
    ("lambada", {"target": ""}, "have an empty continuation"),
    ("lambada", {"target": None}, "lack 'target'"),
]


@pytest.mark.parametrize(("task", "change", "message"), BAD)
def test_lines_with_a_wrong_field_are_counted_and_the_first_is_named(tmp_path, task, change, message):
    bad = {key: value for key, value in (GOOD[task] | change).items() if value is not None}
    write(tmp_path, task, [GOOD[task]] * 3 + ["", bad, GOOD[task], bad])
    with pytest.raises(RltokError) as caught:
        read_items(task, tmp_path, expected=False)
    assert str(caught.value).startswith(f"{tmp_path / STEMS[task]}.jsonl: 2 of 6 items {message}, the first on line 5. Take")


def test_every_kind_of_problem_is_counted(tmp_path):
    lacking = {key: value for key, value in GOOD["piqa"].items() if key != "label"}
    write(tmp_path, "piqa", [GOOD["piqa"], "{", lacking, "[1]", lacking, "3"])
    with pytest.raises(RltokError) as caught:
        read_items("piqa", tmp_path)
    assert "3 of 6 items are no JSON objects, the first on line 2; 2 of 6 items lack 'label', the first on line 3" in str(
        caught.value
    )


def test_the_fingerprint_is_of_every_part_of_every_item():
    items = (Item("a", ("b", "c"), 0), Item("d", ("e", "f"), 1))
    others = [
        (Item("A", ("b", "c"), 0), items[1]), (Item("a", ("b", "C"), 0), items[1]), (Item("a", ("b", "c"), 1), items[1]),
        items[::-1], items[:1],
    ]  # fmt: skip
    marks = {TaskItems("piqa", some).fingerprint for some in (items, *others)}
    assert len(marks) == 6 and all(len(mark) == 16 for mark in marks)
    assert TaskItems("piqa", items).fingerprint == TaskItems("piqa", tuple(items)).fingerprint


# The hub

ON_HUB = {
    "piqa": [{"goal": "Open a jar.", "sol1": "Twist. ", "sol2": "Shout.", "label": 0}],
    "hellaswag": [
        {
            "ind": 4,
            "activity_label": "Rowing",
            "ctx_a": "A man sits.",
            "ctx_b": "he",
            "ctx": "[header] A man [title] Sits. he",
            "endings": ["[step] rows.", "sings [substeps] loud.", "asks [www.a.org]."],
            "source_id": "x",
            "label": "2",
        }  # fmt: skip
    ],
    "arc_easy": [
        {
            "id": "a",
            "question": "What?",
            "choices": {"text": ["Sand", "Water", "Air"], "label": ["1", "2", "3"]},
            "answerKey": "3",
        },
        {"id": "b", "question": "Who?", "choices": {"text": ["I", "You"], "label": ["A", "B"]}, "answerKey": "A"},
    ],
    "lambada": [{"text": "He called the\n\nold dog"}],
}
FROM_HUB = {
    "piqa": (Item("Question: Open a jar.\nAnswer:", (" Twist. ", " Shout."), 0),),
    "hellaswag": (Item("Rowing: A man. Sits. he", (" rows.", " sings loud.", " asks [www.a.org]."), 2),),
    "arc_easy": (
        Item("Question: What?\nAnswer:", (" Sand", " Water", " Air"), 2),
        Item("Question: Who?\nAnswer:", (" I", " You"), 0),
    ),  # fmt: skip
    "lambada": (Item("He called the\n\nold", (" dog",), 0),),
}
PLACES = {
    "piqa": ("ybisk/piqa", None, "validation", "refs/convert/parquet"),
    "hellaswag": ("Rowan/hellaswag", None, "validation", None),
    "arc_easy": ("allenai/ai2_arc", "ARC-Easy", "test", None),
    "lambada": ("EleutherAI/lambada_openai", "default", "test", None),
}


@pytest.fixture
def local_hub(tmp_path, monkeypatch):
    """The real `datasets` package, offline; only names are looked up in a folder of files in place of the hub."""
    datasets = pytest.importorskip("datasets")
    requests = []

    def load(name, config, *, split, revision=None):
        requests.append((name, config, split, revision))
        return datasets.load_dataset("json", data_files={split: str(tmp_path / "hub.jsonl")}, split=split, streaming=True)

    monkeypatch.setattr(hub, "load_dataset", load)
    monkeypatch.setattr(hub, "hub_reachable", lambda: True)

    def put(task, rows):
        monkeypatch.setitem(TASKS, task, replace(TASKS[task], count=len(rows)))
        (tmp_path / "hub.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        return requests

    return put


@pytest.mark.parametrize("task", TASKS)
def test_the_hubs_columns_become_the_same_items(local_hub, task):
    requests = local_hub(task, ON_HUB[task])
    assert hub_items(task, False).items == FROM_HUB[task]
    assert requests == [PLACES[task]]


@pytest.mark.parametrize(
    ("task", "change", "message"),
    [
        ("hellaswag", {"label": ""}, "hf:Rowan/hellaswag: 1 of 2 items lack 'label', the first on row 1"),
        ("hellaswag", {"label": 3}, "1 of 2 items have a 'label' that is no index of a choice, the first on row 1"),
        ("arc_easy", {"choices": "none"}, "1 of 2 items lack 'choices', the first on row 1"),
        ("arc_easy", {"answerKey": "9"}, "hf:allenai/ai2_arc:ARC-Easy: 1 of 2 items lack 'label', the first on row 1"),
        ("lambada", {"text": "word"}, "1 of 2 items lack 'context', the first on row 1"),
        ("piqa", {"label": -1}, "1 of 2 items have a 'label' that is no index of a choice, the first on row 1"),
    ],
)
def test_rows_of_the_hub_with_a_wrong_column_are_counted(local_hub, task, change, message):
    local_hub(task, [ON_HUB[task][0], ON_HUB[task][0] | change])
    with pytest.raises(RltokError, match=message):
        hub_items(task, False)


def test_a_label_may_be_a_number_at_the_hub_too(local_hub):
    local_hub("hellaswag", [ON_HUB["hellaswag"][0] | {"label": 0}])
    assert hub_items("hellaswag", False).items[0].gold == 0


def test_without_a_network_the_hub_is_not_asked(monkeypatch):
    def never(*arguments, **named):
        raise AssertionError("asked")

    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr(hub, "load_dataset", never)
    with pytest.raises(RltokError, match="cannot reach the Hugging Face hub for 'ybisk/piqa'.*Use local files, --tasks FOLDER"):
        hub_items("piqa", False)
    with pytest.raises(RltokError, match="cannot read 'hf:ybisk/piqa' from the hub: asked"):
        hub_items("piqa", True)


def test_marks_of_hellaswag_go_as_is_usual():
    assert without_marks("[header] How to row [title] Sit. [step] Pull. [substeps] Rest.") == "How to row. Sit. Pull. Rest."
    assert without_marks("Press [ and ] at [www.a.org]") == "Press [ and ] at [www.a.org]"
