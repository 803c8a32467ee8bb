"""Scores on the benchmark sets of Table 1: bits per byte of the right continuation, as in appendix D, and accuracy.

row of an item's choice: BOS, context, continuation, PAD      position i predicts byte i (BOS stands at position 0)
nats of a continuation = sum of nll over positions len(context) .. len(context) + len(continuation) - 1
bits per byte = nats / bytes / ln 2; of a set: the mean over items of the right continuation's
"""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch

from rltok.benchmarks.sets import Item
from rltok.benchmarks.task_items import TaskItems
from rltok.errors import RltokError
from rltok.evaluation import checked_draws, evaluation_mode, require_finite
from rltok.rng import evaluation_uniforms
from rltok.statistics import beats_guessing, error_of_mean
from rltok.unet import AutoregressiveUNet
from rltok.vocab import BOS, PAD, encode, to_utf8

MOST_BYTES = 65_536  # of a row, whose attention takes memory


@dataclass(frozen=True)
class TaskScore:
    """What a model reaches on one set. Accuracy is close to chance at these sizes: noise, which bits per byte is not."""

    task: str
    items: int
    bits_per_byte: float  # mean over items
    standard_error: float | None  # of bits_per_byte, over items; None for a single one
    accuracy: float | None  # share of items whose right choice has the fewest bits per byte; None without a choice
    accuracy_error: float | None  # binomial standard error
    chance: float | None  # accuracy of guessing
    scored_bytes: int  # of the right continuations, the space before them included
    draws: str
    seed: int
    fingerprint: str  # of the whole set, however many items were scored
    item_bits_per_byte: tuple[float, ...]  # one entry an item

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON, without the entries of single items."""
        return {key: value for key, value in asdict(self).items() if key != "item_bits_per_byte"}

    @property
    def at_chance(self) -> bool:
        """Whether the accuracy is no better than by guessing, by the test of `beats_guessing`."""
        return self.accuracy is not None and not beats_guessing(round(self.accuracy * self.items), self.items, self.chance)


@dataclass(frozen=True)
class _Row:
    """One continuation behind its context. The item's number draws its boundaries: all choices follow the same uniforms,
    so that rules whose decisions look back only cut the common context alike."""

    item: int
    choice: int
    text: bytes  # context, continuation
    start: int  # first position that counts: the bytes of the context
    size: int  # positions that count: the bytes of the continuation


def _rows(items: Sequence[Item], all_choices: bool) -> list[_Row]:
    rows = []
    for number, item in enumerate(items):
        context = to_utf8(item.context)
        for choice in range(len(item.choices)) if all_choices else [item.gold]:
            continuation = to_utf8(item.choices[choice])
            if not continuation:
                raise RltokError(f"item {number} has an empty choice {choice}, which has no bits per byte. Leave the item out.")
            if len(context) + len(continuation) > MOST_BYTES:
                raise RltokError(
                    f"item {number} has a row of {len(context) + len(continuation)} bytes; at most {MOST_BYTES} can be scored."
                    " Shorten its context."
                )
            rows.append(_Row(number, choice, context + continuation, len(context), len(continuation)))
    return rows


def _nats(model: AutoregressiveUNet, rows: list[_Row], draws: str, num_draws: int, seed: int) -> list[np.ndarray]:
    """Nats of each byte of each row's continuation in one batch, a mean over draws."""
    device = next(model.parameters()).device
    ids = torch.full((len(rows), 1 + max(len(row.text) for row in rows)), PAD)
    ids[:, 0] = BOS
    for place, row in enumerate(rows):
        ids[place, 1 : 1 + len(row.text)] = torch.from_numpy(encode(row.text))
    ids = ids.to(device)
    numbers, total = [row.item for row in rows], torch.zeros(ids[:, 1:].shape, dtype=torch.float64, device=device)
    for draw in range(num_draws):
        uniforms = evaluation_uniforms(draws, seed, draw, numbers, ids.shape[1] - 1).to(device)
        total += model(ids, uniforms=uniforms).nll.double()
    each = (total / num_draws).cpu().numpy()
    return [nats[row.start : row.start + row.size] for row, nats in zip(rows, each, strict=True)]


@torch.no_grad()
def bits_of_bytes(
    model: AutoregressiveUNet, items: Sequence[Item], *, seed: int, batch: int, draws: str = "sample", num_draws: int = 1,
    all_choices: bool = False,
) -> list[dict[int, np.ndarray]]:  # fmt: skip
    """Bits of each byte of the continuation, by item and choice; without `all_choices` of the right one alone.

    Arguments as of `score_items`.
    """
    rows = sorted(_rows(items, all_choices), key=lambda row: -len(row.text))  # alike in length; the longest first, for memory
    bits: list[dict[int, np.ndarray]] = [{} for _ in items]
    with evaluation_mode(model):
        for start in range(0, len(rows), batch):
            part = rows[start : start + batch]
            for row, nats in zip(part, _nats(model, part, draws, num_draws, seed), strict=True):
                bits[row.item][row.choice] = nats / math.log(2)
    return bits


def score_items(
    model: AutoregressiveUNet, items: TaskItems, *, seed: int, batch: int, draws: str = "sample", num_draws: int = 1,
    max_items: int | None = None, all_choices: bool = True,
) -> TaskScore:  # fmt: skip
    """Score a set in evaluation mode (no softcap), boundaries drawn from uniforms of (seed, draw, item).

    Args:
        model: stays in the mode it was in.
        items: from `read_items` or `hub_items`.
        seed: of the boundary draws.
        batch: rows per forward pass, a row for each choice; the result does not depend on it.
        draws, num_draws: as in `evaluate`.
        max_items: score the first so many items only.
        all_choices: False scores the right choices alone, without accuracy; their bits per byte are the same.
    """
    drawn = checked_draws(model, draws, num_draws)
    for name, value in (("batch", batch), ("max_items", max_items), ("the number of items", len(items))):
        if value is not None and value < 1:
            raise RltokError(f"{name} must be at least 1; got {value}. Score at least one item.")
    chosen = items.items[:max_items]
    each_byte = bits_of_bytes(
        model, chosen, seed=seed, batch=batch, draws=draws, num_draws=num_draws, all_choices=all_choices
    )  # fmt: skip
    bits = [{choice: float(each.sum()) / len(each) for choice, each in item.items()} for item in each_byte]
    gold = [choices[item.gold] for choices, item in zip(bits, chosen, strict=True)]
    each = torch.tensor(gold, dtype=torch.float64)
    require_finite(float(each.mean()))
    return TaskScore(
        task=items.task, items=len(chosen), bits_per_byte=float(each.mean()), standard_error=error_of_mean(each.numpy()),
        **_accuracy(chosen, bits), scored_bytes=sum(len(to_utf8(item.choices[item.gold])) for item in chosen), draws=drawn,
        seed=seed, fingerprint=items.fingerprint, item_bits_per_byte=tuple(gold),
    )  # fmt: skip


def _accuracy(items: Sequence[Item], bits: list[dict[int, float]]) -> dict[str, float | None]:
    """How often the right choice has the fewest bits per byte (of equal ones the first counts), where there is a choice."""
    if any(len(choices) < 2 for choices in bits):
        return {"accuracy": None, "accuracy_error": None, "chance": None}
    right = sum(min(sorted(choices), key=choices.__getitem__) == item.gold for choices, item in zip(bits, items, strict=True))
    share = right / len(items)
    chance = sum(1 / len(item.choices) for item in items) / len(items)
    return {"accuracy": share, "accuracy_error": math.sqrt(share * (1 - share) / len(items)), "chance": chance}
