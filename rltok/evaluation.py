"""Held-out scores of a model: bits per byte with standard errors, and where its boundaries fall."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from rltok.byte_classes import CLASSES, boundary_counts
from rltok.data.rows import Rows
from rltok.errors import RltokError, TrainingFailed
from rltok.policy import entropy
from rltok.rng import evaluation_uniforms, name_draws
from rltok.statistics import Difference, difference_of_units, error_of_mean, ratio_error
from rltok.unet import AutoregressiveUNet, UNetOutput

SINGLE = ("row_bits_per_byte", "document_bits", "document_bytes")  # entries of single rows and documents, which no record keeps


@dataclass(frozen=True)
class Evaluation:
    """Numbers of one evaluation; rates are boundaries per drawn position. `draws` says how the boundaries came about.

    Of several draws, nats and rates are means over draws, taken before bits per byte and its standard errors.
    """

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
    documents: int = 0  # 0: scored before documents were counted
    standard_error_documents: float | None = None  # of bits_per_byte, over documents; None for a single one
    class_counts: dict[str, int] = field(default_factory=dict)  # drawn positions of each class, by which rates are pooled
    document_bits: tuple[float, ...] = ()  # one entry a document
    document_bytes: tuple[int, ...] = ()  # scored ones, end marks included

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON, without the entries of single rows and documents."""
        return {key: value for key, value in asdict(self).items() if key not in SINGLE}


def paired_difference(first: Evaluation, second: Evaluation, over: Literal["rows", "documents"] = "rows") -> Difference:
    """first - second in bits per byte, paired by unit: the mean over rows, or all bits over all bytes of documents.

    Raises:
        RltokError: other units on one side; or no documents, which evaluations read from a record do not hold.
    """
    if over == "rows":
        units = [(one.row_bits_per_byte, (1,) * one.rows) for one in (first, second)]
        counts = [str(one.rows) for one in (first, second)]
    else:
        units = [(one.document_bits, one.document_bytes) for one in (first, second)]
        counts = [f"{len(sizes)} documents of {sum(sizes)} bytes" for _, sizes in units]
    (bits, sizes), (others, other_sizes) = units
    if not sizes or sizes != other_sizes:
        raise RltokError(
            f"a paired difference needs the same {over} on both sides; got {' and '.join(counts)}. Score the same rows."
        )
    return difference_of_units(np.subtract(bits, others)[None], np.array(sizes, dtype=float))


def checked_model(model: Any) -> AutoregressiveUNet:
    """The model itself. Raises `RltokError` for anything else, such as a model's name."""
    if not isinstance(model, AutoregressiveUNet):
        name = repr(str(model)) if isinstance(model, str | Path) else "NAME"
        raise RltokError(f"a model is needed; got {type(model).__name__}. Load it from its name first: rltok.load({name})")
    return model


@contextmanager
def evaluation_mode(model: torch.nn.Module) -> Iterator[None]:
    """Put the model into evaluation mode and, whatever happens, back into the mode it was in."""
    training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(training)


def checked_draws(model: AutoregressiveUNet, draws: str, num_draws: int) -> str:
    """`name_draws`, for this model. Raises `RltokError` where its rule has no probability to compare with 1/2."""
    if draws == "threshold" and not model.rule.has_threshold:
        raise RltokError(
            f"draws='threshold' keeps the boundaries of probability above 1/2, but {type(model.rule).__name__} draws without"
            " a probability of each. Take draws='sample' or 'mean'."
        )
    return name_draws(draws, num_draws)


def require_finite(*bits: float) -> None:
    """Raise `TrainingFailed` for bits per byte that are not finite, though the model's weights are."""
    if not all(map(math.isfinite, bits)):
        raise TrainingFailed(
            f"bits per byte come out as {', '.join(f'{value:g}' for value in bits)}: the weights have grown too large. Take an"
            " earlier checkpoint, or train again with a lower train.learning_rate."
        )


class _Sums:
    """Sums over batches and draws of an evaluation, until `summary` divides by their number."""

    def __init__(self) -> None:
        self.sums: dict[str, list[Tensor]] = {"nll": [], "early": [], "scored": []}  # one entry a row
        self.counts, self.entropy, self.tokens = torch.zeros(len(CLASSES), 2, dtype=torch.long), 0.0, 0
        self.has_policy = False

    def add(self, ids: Tensor, outputs: Iterator[UNetOutput]) -> None:
        """One batch, with one output a draw."""
        rows: dict[str, Tensor | float] = dict.fromkeys(self.sums, 0.0)
        for out in outputs:
            for key, values in (("nll", out.nll), ("early", out.early_nll), ("scored", out.scored)):
                rows[key] = rows[key] + values.double().sum(dim=1).cpu()
            self.counts += boundary_counts(ids, out.boundaries, out.drawn).cpu()
            self.tokens += int(out.boundaries.sum())
            self.has_policy = out.boundary_logits is not None
            if self.has_policy:
                self.entropy += float(entropy(out.boundary_logits)[out.drawn].double().sum())
        for key, values in rows.items():
            self.sums[key].append(values)

    def summary(self, document: np.ndarray, num_draws: int) -> dict[str, Any]:
        """Fields of an `Evaluation`, from the number of each row's document."""
        nll, early, scored = (torch.cat(self.sums[key]) / num_draws for key in ("nll", "early", "scored"))
        total, per_row = int(scored.sum()), nll / scored / math.log(2)
        drawn, hits = self.counts.sum(dim=0).tolist()
        kinds = list(zip(CLASSES, self.counts.tolist(), strict=True))
        rates = {name: hit / there if there else None for name, (there, hit) in kinds}
        return _per_document(nll / math.log(2), scored, document) | {
            "bits_per_byte": float(nll.sum()) / total / math.log(2),
            "standard_error": error_of_mean(per_row.numpy()),
            "early_bits_per_byte": float(early.sum()) / total / math.log(2),
            "rate": hits / max(1, drawn),
            "tokens_per_byte": self.tokens / num_draws / total,
            "policy_entropy": self.entropy / max(1, drawn) if self.has_policy else None,
            "whitespace_share": rates["space"],
            "class_rates": rates,
            "class_counts": {name: there // num_draws for name, (there, _) in kinds},
            "rows": len(nll),
            "scored_bytes": total,
            "row_bits_per_byte": tuple(per_row.tolist()),
        }


def _per_document(bits: Tensor, scored: Tensor, document: np.ndarray) -> dict[str, Any]:
    _, inverse = np.unique(document, return_inverse=True)
    place, count = torch.from_numpy(inverse), int(inverse.max()) + 1
    sums, sizes = (values.new_zeros(count).index_add(0, place, values) for values in (bits, scored))
    return {
        "documents": count,
        "standard_error_documents": ratio_error(sums.numpy(), sizes.numpy()),
        "document_bits": tuple(sums.tolist()),
        "document_bytes": tuple(int(size) for size in sizes),
    }


@torch.no_grad()
def evaluate(
    model: AutoregressiveUNet, rows: Rows, *, seed: int, batch: int, max_rows: int | None = None, draws: str = "sample",
    num_draws: int = 1,
) -> Evaluation:  # fmt: skip
    """Score rows in evaluation mode (no softcap), boundaries drawn from uniforms of (seed, draw, row).

    Bits per byte is the mean over all scored bytes; of its two standard errors one treats rows as independent, the other
    documents.

    Args:
        model: stays in the mode it was in.
        rows: held-out rows.
        seed: of the boundary draws.
        batch: rows per forward pass; the result does not depend on it.
        max_rows: score the first so many rows only.
        draws: "sample" (one seeded draw), "threshold" (boundaries where p > 1/2) or "mean" (of seeded draws).
        num_draws: draws of "mean", the first of which is that of "sample".
    """
    name = checked_draws(model, draws, num_draws)
    if len(rows) == 0:
        raise RltokError("there are no rows to evaluate. Give text of at least one row.")
    for limit, value in (("batch", batch), ("max_rows", max_rows)):
        if value is not None and value < 1:
            raise RltokError(f"{limit} must be at least 1; got {value}. Score at least one row.")
    device = next(model.parameters()).device
    count = len(rows) if max_rows is None else min(len(rows), max_rows)
    sums = _Sums()
    with evaluation_mode(model):
        for start in range(0, count, batch):
            numbers = range(start, min(count, start + batch))
            ids = rows.ids(list(numbers)).to(device)
            uniforms = (evaluation_uniforms(draws, seed, draw, numbers, ids.shape[1] - 1) for draw in range(num_draws))
            sums.add(ids, (model(ids, uniforms=each.to(device)) for each in uniforms))
    values = sums.summary(rows.document[:count], num_draws)
    require_finite(values["bits_per_byte"], values["early_bits_per_byte"])
    return Evaluation(**values, seed=seed, draws=name)
