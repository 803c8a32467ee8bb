"""Held-out scores of a model: bits per byte with a standard error, and where its boundaries fall."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from rltok.byte_classes import CLASSES, byte_classes
from rltok.data.rows import Rows
from rltok.draws import row_uniforms
from rltok.errors import RltokError
from rltok.policy import entropy
from rltok.unet import AutoregressiveUNet, UNetOutput


@dataclass(frozen=True)
class Evaluation:
    """Numbers of one evaluation; rates are boundaries per drawn position, one seeded draw of boundaries a row."""

    bits_per_byte: float
    standard_error: float | None  # of bits_per_byte, over rows; None for a single row
    early_bits_per_byte: float
    rate: float
    tokens_per_byte: float  # all tokens, forced ones too, per scored byte
    policy_entropy: float | None  # nats per decision; None for rules without a policy
    whitespace_share: float | None  # share of white-space bytes that carry a boundary
    class_rates: dict[str, float | None]  # None where no such byte occurs
    rows: int
    scored_bytes: int
    seed: int
    row_bits_per_byte: tuple[float, ...]  # one entry a row, for paired comparisons
    draws: str = "sample"

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON, without the entries of single rows."""
        return {key: value for key, value in asdict(self).items() if key != "row_bits_per_byte"}


def boundary_counts(ids: Tensor, out: UNetOutput) -> Tensor:
    """[classes, 2]: drawn positions, and boundaries among them, of each byte class."""
    each = torch.arange(len(CLASSES), device=ids.device)[:, None, None] == byte_classes(ids[:, :-1])  # [classes, B, N]
    # sums over masks: selecting by a mask, and bincount, would wait for the device
    return torch.stack([(each & chosen).sum(dim=(1, 2)) for chosen in (out.drawn, out.drawn & out.boundaries)], dim=1)


def _standard_error(values: Tensor) -> float | None:
    return float(values.std() / math.sqrt(len(values))) if len(values) > 1 else None


def paired_difference(first: Evaluation, second: Evaluation) -> tuple[float, float | None]:
    """Mean over rows of first - second in bits per byte, with its standard error; both scored the same rows."""
    if first.rows != second.rows:
        raise RltokError(f"a paired difference needs the same rows on both sides; got {first.rows} and {second.rows}.")
    gaps = torch.tensor(first.row_bits_per_byte).double() - torch.tensor(second.row_bits_per_byte).double()
    return float(gaps.mean()), _standard_error(gaps)


@contextmanager
def evaluation_mode(model: torch.nn.Module) -> Iterator[None]:
    """Put the model into evaluation mode and, whatever happens, back into the mode it was in."""
    training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(training)


@torch.no_grad()
def evaluate(model: AutoregressiveUNet, rows: Rows, *, seed: int, batch: int, max_rows: int | None = None) -> Evaluation:
    """Score rows in evaluation mode (no softcap), boundaries drawn once from uniforms of (seed, row).

    Bits per byte is the mean over all scored bytes; its standard error treats rows as independent.

    Args:
        model: stays in the mode it was in.
        rows: held-out rows.
        seed: of the boundary draws.
        batch: rows per forward pass; the result does not depend on it.
        max_rows: score the first so many rows only.
    """
    if len(rows) == 0:
        raise RltokError("there are no rows to evaluate. Give text of at least one row.")
    for name, value in (("batch", batch), ("max_rows", max_rows)):
        if value is not None and value < 1:
            raise RltokError(f"{name} must be at least 1; got {value}. Score at least one row.")
    device = next(model.parameters()).device
    count = len(rows) if max_rows is None else min(len(rows), max_rows)
    sums = {"nll": [], "early": [], "scored": []}
    counts, entropy_sum, tokens = torch.zeros(len(CLASSES), 2, dtype=torch.long), 0.0, 0
    with evaluation_mode(model):
        for start in range(0, count, batch):
            numbers = range(start, min(count, start + batch))
            ids = rows.ids(list(numbers)).to(device)
            out = model(ids, uniforms=row_uniforms(seed, 0, numbers, ids.shape[1] - 1).to(device))
            for key, values in (("nll", out.nll), ("early", out.early_nll), ("scored", out.scored)):
                sums[key].append(values.double().sum(dim=1).cpu())
            counts += boundary_counts(ids, out).cpu()
            tokens += int(out.boundaries.sum())
            if out.boundary_logits is not None:
                entropy_sum += float(entropy(out.boundary_logits)[out.drawn].double().sum())
    return _summarise({key: torch.cat(parts) for key, parts in sums.items()}, counts, entropy_sum, tokens, out, seed)


def _summarise(
    sums: dict[str, Tensor], counts: Tensor, entropy_sum: float, tokens: int, last: UNetOutput, seed: int
) -> Evaluation:
    scored = int(sums["scored"].sum())
    per_row = sums["nll"] / sums["scored"] / math.log(2)
    drawn, hits = counts.sum(dim=0).tolist()
    per_class = {name: hit / total if total else None for name, (total, hit) in zip(CLASSES, counts.tolist(), strict=True)}
    return Evaluation(
        bits_per_byte=float(sums["nll"].sum()) / scored / math.log(2),
        standard_error=_standard_error(per_row),
        early_bits_per_byte=float(sums["early"].sum()) / scored / math.log(2),
        rate=hits / max(1, drawn),
        tokens_per_byte=tokens / scored,
        policy_entropy=None if last.boundary_logits is None else entropy_sum / max(1, drawn),
        whitespace_share=per_class["space"],
        class_rates=per_class,
        rows=len(sums["nll"]),
        scored_bytes=scored,
        seed=seed,
        row_bits_per_byte=tuple(per_row.tolist()),
    )
