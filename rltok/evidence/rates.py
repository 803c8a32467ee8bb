"""How often a rule draws boundaries in given text, for a control that draws as many at random places."""

from typing import NamedTuple

import torch

from rltok.errors import RltokError
from rltok.rng import row_uniforms
from rltok.rules.base import Rule, TrainingRows, first_position
from rltok.vocab import PAD


class Rates(NamedTuple):
    """Both ways of counting; `random_k` at target_rate = tokens_per_byte draws as many as were counted."""

    rate: float  # boundaries per drawn position: without those on BOS
    tokens_per_byte: float  # boundaries per scored byte, those on BOS included


@torch.no_grad()
def text_rates(rule: Rule, rows: TrainingRows, *, batch: int, most_rows: int | None = None) -> Rates:
    """Rates of a rule that looks at text alone: every rule without a policy or a router.

    Args:
        rule: its `decide` gets byte states of width 0.
        batch: rows at a time; the result does not depend on it.
        most_rows: count the first so many rows only.
    """
    total = len(rows) if most_rows is None else min(most_rows, len(rows))
    if total < 1:
        raise RltokError(f"there are no rows to count boundaries in (most_rows={most_rows}). Give at least one.")
    tokens, hits, scored, drawn = 0, 0, 0, 0
    for start in range(0, total, batch):
        numbers = range(start, min(total, start + batch))
        ids = rows.ids(list(numbers))
        counts = ids[:, 1:] != PAD
        inputs = torch.where(counts | first_position(counts), ids[:, :-1], PAD)
        uniforms = row_uniforms(0, 0, numbers, inputs.shape[1])
        boundaries = rule.decide(torch.zeros(*inputs.shape, 0), inputs, uniforms).boundaries & counts
        free = counts & ~first_position(counts)
        tokens, hits = tokens + int(boundaries.sum()), hits + int((boundaries & free).sum())
        scored, drawn = scored + int(counts.sum()), drawn + int(free.sum())
    return Rates(hits / max(1, drawn), tokens / scored)
