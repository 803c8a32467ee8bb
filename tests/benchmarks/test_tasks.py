"""tasks against a plain computation of each item alone: bytes, positions, logarithms and prompts written out here."""

import json
import math

import numpy as np
import pytest
import torch
from fitted import FITTED, fitted_model
from helpers import STRAIGHT_THROUGH, tiny_model
from hypothesis import given, settings
from hypothesis import strategies as st
from test_task_items import BUNDLED, STEMS

from rltok.benchmarks.sets import Item
from rltok.benchmarks.task_items import TaskItems, read_items
from rltok.benchmarks.tasks import TaskScore, bits_of_bytes, score_items
from rltok.errors import RltokError
from rltok.rng import row_uniforms
from rltok.unet import UNetOutput
from rltok.vocab import BOS, PAD

pytestmark = pytest.mark.usefixtures("shapes_unchecked")

RAGGED = TaskItems(
    "piqa",
    (
        Item("Q: how to tie a knot?", (" With a rope, 2 loops.", " No."), 1), Item("x", (" é", " a long answer, it is"), 0),
        Item("The cat sat on the", (" mat.", " m", " ma"), 2), Item("A: yes. A: no. 12 dogs", (" ran", " sat down"), 1),
    ),
)  # fmt: skip
MODELS = {
    **{rule: lambda rule=rule: tiny_model(rule, dtype=torch.float64) for rule in ("learned", "even", "random_k")},
    **{
        f"{rule} {kind}": lambda rule=rule, kind=kind: tiny_model(rule, variant=kind, dtype=torch.float64)
        for rule, kind in STRAIGHT_THROUGH
    },
    **{rule: lambda rule=rule: fitted_model(rule, dtype=torch.float64) for rule in FITTED},
}


def bits_alone(model, number, context: str, continuation: str, seed: int, draw: int = 0) -> float:
    """Bits per byte of a continuation: one call of the model, one logarithm a byte."""
    before, after = list(context.encode()), list(continuation.encode())
    ids = torch.tensor([[256, *before, *after]])
    uniforms = row_uniforms(seed, draw, [number], len(before) + len(after))
    with torch.no_grad():
        predicted = model.eval().log_probs(ids, uniforms=uniforms)[0].double().numpy()
    nats = 0.0
    for place, byte in enumerate(after):
        nats -= predicted[len(before) + place, byte]
    return nats / len(after) / math.log(2)


def as_written(task: str, line: dict) -> tuple[str, list[str], int]:
    """Prompt, continuations and answer of a line, in this test's own words."""
    if task == "piqa":
        return "Question: " + line["goal"] + "\nAnswer:", [" " + line["sol1"], " " + line["sol2"]], line["label"]
    if task == "hellaswag":
        return line["activity_label"] + ": " + line["ctx"], [" " + ending for ending in line["endings"]], line["label"]
    if task == "arc_easy":
        return "Question: " + line["question"] + "\nAnswer:", [" " + choice for choice in line["choices"]], line["label"]
    return line["context"], [" " + line["target"]], 0


@pytest.mark.parametrize("task", STEMS)
def test_the_first_20_items_of_each_set_score_as_a_plain_computation_of_each_alone(task):
    model = tiny_model(dtype=torch.float64)
    score = score_items(model, read_items(task, BUNDLED, expected=False), seed=7, batch=16)
    lines = [json.loads(line) for line in (BUNDLED / f"{STEMS[task]}.jsonl").read_text(encoding="utf-8").splitlines()]
    gold, right, size, chances = [], [], 0, []
    for number, line in enumerate(lines):
        context, choices, answer = as_written(task, line)
        bits = [bits_alone(model, number, context, choice, 7) for choice in choices]
        gold.append(bits[answer])
        right.append(int(np.argmin(bits)) == answer)
        chances.append(1 / len(choices))
        size += len(choices[answer].encode())
    assert len(gold) == score.items == 20
    assert score.item_bits_per_byte == pytest.approx(gold, rel=1e-10)
    assert score.bits_per_byte == pytest.approx(np.mean(gold), rel=1e-10)
    assert score.standard_error == pytest.approx(np.std(gold, ddof=1) / math.sqrt(20), rel=1e-9)
    assert (score.task, score.scored_bytes, score.seed, score.draws) == (task, size, 7, "sample")
    if task == "lambada":
        assert (score.accuracy, score.accuracy_error, score.chance, score.at_chance) == (None, None, None, False)
    else:
        share = np.mean(right)
        assert score.accuracy == pytest.approx(share) and score.chance == pytest.approx(np.mean(chances))
        assert score.accuracy_error == pytest.approx(math.sqrt(share * (1 - share) / 20))


def test_the_bits_of_each_byte_are_those_of_each_prefix_of_the_answer_alone():
    model, item = tiny_model(dtype=torch.float64), RAGGED.items[0]
    (bits,) = bits_of_bytes(model, [item], seed=3, batch=1)
    text = item.choices[item.gold]
    whole = [0.0, *(bits_alone(model, 0, item.context, text[:size], 3) * size for size in range(1, len(text) + 1))]
    assert bits[item.gold] == pytest.approx(np.diff(whole), rel=1e-8) and list(bits) == [item.gold]


def recorded(model, monkeypatch, **settings) -> tuple[TaskScore, dict[bytes, list]]:
    """The score, and the boundaries of every row by its text."""
    seen, forward = {}, type(model).forward

    def watched(ids, uniforms):
        out = forward(model, ids, uniforms=uniforms)
        for row, marks in zip(ids.tolist(), out.boundaries.tolist(), strict=True):
            text = [id for id in row if id < BOS]
            seen.setdefault(bytes(text), []).append(marks[: len(text)])
        return out

    with monkeypatch.context() as patch:
        patch.setattr(model, "forward", watched)
        return score_items(model, RAGGED, seed=3, **settings), seen


@pytest.mark.parametrize("rule", MODELS)
def test_batched_equals_one_at_a_time_and_alone_with_exactly_the_same_boundaries(rule, monkeypatch):
    model = MODELS[rule]()
    (one, marks), (some, same), (many, too) = (recorded(model, monkeypatch, batch=batch) for batch in (1, 3, 100))
    assert marks == same == too and len(marks) == sum(len(item.choices) for item in RAGGED.items)
    alone = [bits_alone(model, n, item.context, item.choices[item.gold], 3) for n, item in enumerate(RAGGED.items)]
    for scores in (one, some, many):
        assert scores.item_bits_per_byte == pytest.approx(alone, rel=1e-10, abs=1e-10)
    assert one.accuracy == some.accuracy == many.accuracy


@pytest.mark.parametrize("rule", ["learned", "random_k", "bpe"])
def test_right_choices_alone_and_the_first_items_score_as_among_all(rule):
    model = MODELS[rule]()
    whole = score_items(model, RAGGED, seed=3, batch=4)
    gold, part = (
        score_items(model, RAGGED, seed=3, batch=4, all_choices=False),
        score_items(model, RAGGED, seed=3, batch=4, max_items=3),
    )
    assert gold.item_bits_per_byte == pytest.approx(whole.item_bits_per_byte, rel=1e-10)
    assert gold.accuracy is None and gold.chance is None
    assert part.item_bits_per_byte == pytest.approx(whole.item_bits_per_byte[:3], rel=1e-10)
    assert (part.items, part.fingerprint) == (3, whole.fingerprint)
    assert score_items(model, RAGGED, seed=3, batch=4, max_items=99).items == 4
    assert score_items(model, RAGGED, seed=3, batch=4, max_items=1).standard_error is None


class Known(torch.nn.Module):
    """Nats that the test can tell: the value of the byte that is predicted, beside boundaries that nobody asks for."""

    def __init__(self):
        super().__init__()
        self.weight, self.rule = torch.nn.Parameter(torch.zeros(())), tiny_model("even").rule

    def forward(self, ids, *, uniforms):
        assert not self.training and uniforms.shape == ids[:, 1:].shape
        nll = torch.where(ids[:, 1:] == PAD, 1e9, ids[:, 1:].double())  # a score on padding would stand out
        marks = torch.zeros_like(nll, dtype=torch.bool)
        return UNetOutput(nll, nll, marks, None, marks, marks, torch.zeros(()))


TEXTS = st.text(st.characters(codec="utf-8"), max_size=20)


@settings(max_examples=40)
@given(st.lists(st.tuples(TEXTS, st.lists(TEXTS.filter(len), min_size=1, max_size=4), st.integers(0, 3)), min_size=1, max_size=5))
def test_a_continuation_is_scored_on_its_own_bytes_whatever_stands_before_it(made):
    items = tuple(Item(context, tuple(choices), gold % len(choices)) for context, choices, gold in made)
    score = score_items(Known(), TaskItems("piqa", items), seed=0, batch=3)
    wanted = [sum(item.choices[item.gold].encode()) / len(item.choices[item.gold].encode()) / math.log(2) for item in items]
    assert score.item_bits_per_byte == pytest.approx(wanted, rel=1e-12)


def test_accuracy_counts_the_fewest_bits_per_byte_and_of_equal_ones_the_first():
    items = (
        Item("c", ("b" * 9, "c"), 0),  # fewer a byte, though more in sum
        Item("c", ("b", "a"), 0),
        Item("c", ("z", "a", "a"), 1),
        Item("c", ("z", "a", "a"), 2),
    )
    score = score_items(Known(), TaskItems("piqa", items), seed=0, batch=2)
    assert (score.accuracy, score.chance) == (0.5, pytest.approx((1 / 2 + 1 / 2 + 1 / 3 + 1 / 3) / 4))
    assert score.accuracy_error == pytest.approx(0.25)
    assert "item_bits_per_byte" not in score.to_dict() and len(score.to_dict()) == 11


@pytest.mark.parametrize("right", [10, 50, 58, 59, 80])
def test_an_accuracy_that_guessing_reaches_once_in_twenty_times_is_at_chance(right):
    reached = sum(math.comb(100, number) for number in range(right, 101)) / 2**100
    items = tuple(Item("c", ("a", "b"), int(number >= right)) for number in range(100))
    score = score_items(Known(), TaskItems("piqa", items), seed=0, batch=100)
    assert (score.accuracy, score.at_chance) == (right / 100, reached > 0.05)


@pytest.mark.parametrize("batch", [1, 100])
def test_a_mean_is_over_draws_of_nats_the_first_of_which_is_the_sample(batch):
    model = tiny_model(dtype=torch.float64)
    score = score_items(model, RAGGED, seed=3, batch=batch, draws="mean", num_draws=3)
    each = [
        [bits_alone(model, n, item.context, item.choices[item.gold], 3, draw) for n, item in enumerate(RAGGED.items)]
        for draw in range(3)
    ]
    assert score.item_bits_per_byte == pytest.approx(np.mean(each, axis=0), rel=1e-10)
    assert score.standard_error == pytest.approx(np.std(np.mean(each, axis=0), ddof=1) / 2)
    assert score.draws == "mean of 3"
    assert score_items(model, RAGGED, seed=3, batch=batch).item_bits_per_byte == pytest.approx(each[0], rel=1e-10)


def test_a_threshold_is_the_same_for_every_seed():
    model = tiny_model(dtype=torch.float64)
    scores = [score_items(model, RAGGED, seed=seed, batch=2, draws="threshold") for seed in (1, 2)]
    assert scores[0].item_bits_per_byte == scores[1].item_bits_per_byte and scores[0].draws == "threshold"
    assert score_items(model, RAGGED, seed=1, batch=2).item_bits_per_byte != scores[0].item_bits_per_byte
    with pytest.raises(RltokError, match="RandomKRule draws without a probability of each. Take draws='sample' or 'mean'"):
        score_items(tiny_model("random_k"), RAGGED, seed=1, batch=2, draws="threshold")


@pytest.mark.parametrize("training", [True, False])
def test_scoring_leaves_the_model_in_its_mode_and_without_gradients(training):
    model = tiny_model(softcap=2.0).train(training)
    score = score_items(model, RAGGED, seed=1, batch=4)
    assert model.training == training and all(parameter.grad is None for parameter in model.parameters())
    assert score == score_items(model.eval(), RAGGED, seed=1, batch=4)


def test_the_precision_is_the_callers():
    model = tiny_model("even")
    full = score_items(model, RAGGED, seed=1, batch=4)
    with torch.autocast("cpu", torch.bfloat16):
        rough = score_items(model, RAGGED, seed=1, batch=4)
    assert rough.item_bits_per_byte != full.item_bits_per_byte
    assert rough.item_bits_per_byte == pytest.approx(full.item_bits_per_byte, rel=0.02)


def test_sizes_that_cannot_be_scored_are_refused():
    for name, sizes in (("batch", {"batch": 0}), ("max_items", {"batch": 1, "max_items": 0})):
        with pytest.raises(RltokError, match=f"^{name} must be at least 1; got 0"):
            score_items(Known(), RAGGED, seed=0, **sizes)
    with pytest.raises(RltokError, match="the number of items must be at least 1; got 0"):
        score_items(Known(), TaskItems("piqa", ()), seed=0, batch=1)
    for context, choice, text in (
        ("a" * 65_530, " long..", "item 1 has a row of 65537 bytes; at most 65536"),
        ("a", "", "empty choice 0"),
    ):
        with pytest.raises(RltokError, match=text):
            score_items(Known(), TaskItems("piqa", (Item("a", ("b",), 0), Item(context, (choice,), 0))), seed=0, batch=1)
    score = score_items(Known(), TaskItems("piqa", (Item("a" * 65_529, (" long..",), 0),)), seed=0, batch=1)
    assert score.scored_bytes == 7
