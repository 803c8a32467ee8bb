"""ch07_answers: quarters and differences against plain loops over items, and items that were not those scored."""

import json
import math
import random
import statistics

import numpy as np
import pytest
from sweeps import UNITS, record, sweep_of, with_repeats

from rltok.benchmarks.sets import Item
from rltok.benchmarks.task_items import TaskItems
from rltok.errors import RltokError
from rltok.evidence.chapters.ch07_answers import (
    ANSWERS_RECORD,
    against_even,
    by_byte,
    bytes_table,
    fitting,
    gaps_by_length,
    lengths_of,
    quarter_of,
    quarters,
    read,
    table,
)
from rltok.system.digest import with_digest

TASK = "arc_easy"


def quartile_loop(lengths):
    """Quarter of every length: how many quartiles are below it, a quartile being the first length that reaches its share."""
    quartiles = []
    for k in (1, 2, 3):
        quartiles.append(next(x for x in sorted(lengths) if 4 * sum(y <= x for y in lengths) >= k * len(lengths)))
    return [sum(quartile < x for quartile in quartiles) for x in lengths]


def error(values):
    return statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else None


def gap_loops(gaps, lengths):
    """(bits, over items, over seeds) of every quarter that has items, item by item."""
    quarter, differences = quartile_loop(lengths), []
    for q in range(4):
        at = [i for i in range(len(lengths)) if quarter[i] == q]
        if at:
            of_items = [sum(row[i] for row in gaps) / len(gaps) for i in at]
            of_seeds = [sum(row[i] for i in at) / len(at) for row in gaps]
            differences.append((sum(of_items) / len(at), error(of_items), error(of_seeds) if len(gaps) > 2 else None))
    return differences


CASES = [
    (number, most, seed) for seed, (number, most) in enumerate([(1, 5), (2, 9), (3, 2), (7, 3), (40, 6), (41, 300), (64, 1)])
]


@pytest.mark.parametrize("number, most, seed", CASES)
@pytest.mark.parametrize("runs", [1, 2, 3])
def test_quarters_and_differences_are_those_of_plain_loops(number, most, seed, runs):
    maker = random.Random(seed)
    lengths = [maker.randint(1, most) for _ in range(number)]
    gaps = [[maker.gauss(1, 3) for _ in lengths] for _ in range(runs)]
    assert quarter_of(np.array(lengths)).tolist() == quartile_loop(lengths)
    differences, expected = gaps_by_length(np.array(gaps), np.array(lengths)), gap_loops(gaps, lengths)
    assert differences["seeds"] == runs and len(quarters(np.array(lengths))) == len(expected)
    assert differences["bits"] == pytest.approx([one[0] for one in expected])
    assert differences["over_items"] == [one if one is None else pytest.approx(one) for one in (each[1] for each in expected)]
    assert differences["over_seeds"] == (None if runs < 3 else pytest.approx([one[2] for one in expected]))


def test_items_of_one_length_stay_together_and_ranges_do_not_overlap():
    parts = quarters(np.array([9, 2, 2, 2, 2, 2, 4, 4, 30, 5]))
    assert [tuple(one.values()) for one in parts] == [(2, 2, 5), (4, 5, 3), (9, 30, 2)]  # 2 is the first quartile and the median
    assert quarters(np.array([7, 7, 7])) == [{"shortest": 7, "longest": 7, "items": 3}]
    assert [one["items"] for one in quarters(np.array([3, 1]))] == [1, 1]


def items_of(seed=0):
    """As many items as the records of `sweeps` have, with answers of a few bytes, two of them in one letter here and there."""
    maker = random.Random(seed)
    answers = [" " + "".join(maker.choice("abé") for _ in range(maker.randint(1, 9))) for _ in range(UNITS)]
    return TaskItems(TASK, tuple(Item("Question:", ("x" * 99, answer), 1) for answer in answers))


def run_on(items, *names, **more):
    one = record(*names, **more)
    size = sum(len(item.choices[1].encode()) for item in items.items)
    one["scores"][TASK] |= {"fingerprint": items.fingerprint, "items": len(items), "scored_bytes": size}
    return one


def test_bits_of_an_item_are_paired_by_seed_and_item_and_repeats_are_averaged():
    items = items_of()
    runs = [run_on(items, "even", 0), run_on(items, "even", 2), *(run_on(items, "bpe", seed, wiggle=0.5) for seed in (0, 1, 2))]
    again = run_on(items, "bpe", 2, bits=3.0, wiggle=0.4)
    sweep = with_repeats(sweep_of(*runs, run_on(items, "naive", 1)), again)
    lengths = lengths_of(items, [sweep])
    assert lengths.tolist() == [len(item.choices[1].encode()) for item in items.items]
    even0, even2, bpe0, _, bpe2, other = (one["scores"][TASK]["item_bits_per_byte"] for one in (*runs, again))
    first = [(a - b) * n for a, b, n in zip(bpe0, even0, lengths, strict=True)]
    second = [((a + b) / 2 - c) * n for a, b, c, n in zip(bpe2, other, even2, lengths, strict=True)]
    gaps = against_even(sweep, TASK, lengths)
    assert list(gaps) == ["bpe"]  # naive has no seed in common with even
    assert gaps["bpe"]["seeds"] == 2 and gaps["bpe"]["over_seeds"] is None
    assert gaps["bpe"]["bits"] == pytest.approx([one[0] for one in gap_loops([first, second], lengths.tolist())])


def test_a_difference_at_the_start_is_equal_in_all_quarters_and_one_along_the_answer_grows():
    items = items_of()
    even, start, along = (run_on(items, name, wiggle=0) for name in ("even", "start", "along"))
    sweep = sweep_of(even, start, along)
    lengths = lengths_of(items, [sweep])
    for run, gap in ((start, 3 / lengths), (along, np.full(UNITS, 0.5))):  # bits per byte
        run["scores"][TASK]["item_bits_per_byte"] = (np.array(even["scores"][TASK]["item_bits_per_byte"]) + gap).tolist()
    gaps = against_even(sweep, TASK, lengths)
    assert gaps["start"]["bits"] == pytest.approx([3] * 4)
    assert gaps["along"]["bits"] == sorted(gaps["along"]["bits"]) and gaps["along"]["bits"][0] < 2 < gaps["along"]["bits"][3]


@pytest.mark.parametrize("key, other", [("fingerprint", "0" * 16), ("items", UNITS - 1), ("scored_bytes", 7)])
def test_items_that_were_not_those_scored_are_refused(key, other):
    items = items_of()
    one, again = run_on(items, "even"), run_on(items, "even")
    again["scores"][TASK][key] = other
    why = rf"on {other} items, these are {UNITS}\. Smoke" if key == "items" else rf"whose {key} is {other!r}; .* Name the folder"
    with pytest.raises(RltokError, match=rf"{TASK}: sweep 32m, even, seed 0 .* {why}"):
        lengths_of(items, [sweep_of(one), with_repeats(sweep_of(one), again)])
    again["scores"][TASK] = None  # not scored at all
    assert len(lengths_of(items, [sweep_of(again)])) == UNITS
    assert against_even(sweep_of(again, run_on(items, "bpe")), TASK, lengths_of(items, [])) == {}


def test_the_table_tells_ranges_errors_over_seeds_where_known_and_leaves_out_who_is_not_there():
    three = {"seeds": 3, "bits": [4.361, -0.2], "over_items": [0.5, 0.5], "over_seeds": [0.1, 0.2]}
    one = {"seeds": 1, "bits": [0.0, 1.0], "over_items": [0.25, None], "over_seeds": None}
    ranges = [{"shortest": 2, "longest": 10, "items": 4}, {"shortest": 11, "longest": 11, "items": 1}]
    sweeps = {"32m": {"gaps": {TASK: {"ours": one, "bpe": three}}}, "147m": {"gaps": {TASK: {"ours": one}}}}
    lines = table({"tasks": {TASK: {"quarters": ranges}}, "sweeps": sweeps}, TASK, ["bpe", "ours", "nobody"]).splitlines()
    assert lines[0] == "| size | contender | seeds | 2–10 bytes | 11 |"
    assert lines[2:] == [
        "| 32m | `bpe` | 3 | +4.36 ± 0.10 | -0.20 ± 0.20 |",
        "| 32m | `ours` | 1 | +0.00 ± 0.25 | +1.00 ± - |",
        "| 147m | `ours` | 1 | +0.00 ± 0.25 | +1.00 ± - |",
    ]


def test_sizes_of_other_records_are_left_out_and_named():
    first, second = record("ours"), record("even")
    own, other = {"records": sorted([first["digest"], second["digest"]])}, {"records": ["f" * 64]}
    kept, text = fitting({"what": "x", "sweeps": {"32m": own, "147m": other}}, [sweep_of(first, second)])
    assert kept == {"what": "x", "sweeps": {"32m": own}} and text.startswith("without 147m, made of other records")
    assert fitting({"sweeps": {"32m": own}}, [sweep_of(first, second)])[1] == "made of the records on this page"
    assert fitting({"sweeps": {"32m": own}}, [sweep_of(first)])[0] == {"sweeps": {}}
    newer = sweep_of(record("ours", sweep="147m"))
    kept, text = fitting({"sweeps": {"32m": own, "90m": other}}, [sweep_of(first, second), newer])
    assert list(kept["sweeps"]) == ["32m"]
    assert text == (
        "without 90m, made of other records than those on this page and without 147m, made before there were such records;"
        " run scripts/measure/measure_answers.py"
    )


def test_a_file_that_is_no_record_or_was_edited_is_refused(tmp_path):
    path = tmp_path / "answers.json"
    whole = with_digest({"schema": 1, "what": ANSWERS_RECORD, "tasks": {}, "sweeps": {}})
    path.write_text(json.dumps(whole))
    assert read(path) == whole
    of_one = {"arc_easy": {"quarters": []}}
    for sweep in ({"gaps": {}, "records": []}, {"gaps": of_one}):
        path.write_text(json.dumps(with_digest(whole | {"tasks": of_one, "sweeps": {"147m": sweep}})))
        with pytest.raises(RltokError, match="lacks entries about arc_easy, 147m. Restore"):
            read(path)
    for text, why in (
        (json.dumps(whole | {"tasks": {"a": 1}}), "digest differs"),
        (json.dumps(with_digest(whole | {"what": "else"})), "no record of differences"),
        ("[]", "no record of"),
        ("{", "no JSON"),
        ('{"a": NaN}', "no JSON"),
    ):
        path.write_text(text)
        with pytest.raises(RltokError, match=f"{why}.*scripts/measure/measure_answers.py"):
            read(path)
    with pytest.raises(RltokError, match="missing"):
        read(tmp_path / "nothing.json")


def test_the_bits_of_an_answers_bytes_are_split_into_its_space_the_next_byte_the_last_and_the_others():
    answers = [np.array([1.0, 2.0]), np.array([0.5, 4.0, 8.0]), np.array([0.0, 1.0, 2.0, 4.0, 16.0])]
    parts = by_byte(answers)
    assert parts == pytest.approx({"the space": 1.5 / 3, "the byte after it": 7 / 3, "between": 6 / 3, "the last byte": 24 / 3})
    assert sum(parts.values()) == pytest.approx(sum(each.sum() for each in answers) / 3)


def test_a_table_by_byte_has_the_first_run_as_it_is_and_the_others_minus_it():
    runs = [{"name": name, "tasks": {TASK: {"items": 7, "bits": {"the space": bits, "between": 2.0}, "space": [0.25, 0.5]}}}
            for name, bits in (("even", 1.5), ("ours", 1.25))]  # fmt: skip
    head, _, first, second = bytes_table({"runs": runs}, [TASK]).splitlines()
    assert head == "| set | run | the space | between | probability of the space |"
    assert first == "| arc_easy, 7 items | `even` | 1.50 | 2.00 | 0.25 to 0.50 |"
    assert second == "| arc_easy, 7 items | `ours`, minus the first | -0.25 | +0.00 | 0.25 to 0.50 |"
