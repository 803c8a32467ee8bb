"""Numbers of one update, summed over its micro-batches on the device and read once."""

import math
from typing import Any

import torch
from torch import Tensor

from rltok.byte_classes import CLASSES, boundary_counts
from rltok.errors import not_finite
from rltok.losses import Losses
from rltok.policy import entropy
from rltok.ranks import Ranks
from rltok.unet import UNetOutput

SPACE = CLASSES.index("space")


class StepMetrics:
    """Sums over the micro-batches of update `step`; means are taken over the whole update, not over its last part."""

    def __init__(self, step: int) -> None:
        self.step = step
        self.learning_rate = 0.0
        self.grad_norm: Tensor | float = 0.0  # of all parameters, before clipping
        self.grad_norm_rule: Tensor | float = 0.0  # of the boundary rule's own parameters, before clipping
        self.skipped = False  # in fp16, whether the gradient overflowed, so that the weights stayed
        self._sums: dict[str, Tensor] = {}  # scalars in float64
        self._loss: Tensor | float = 0.0
        self._classes: Tensor | int = 0

    def add(self, ids: Tensor, out: UNetOutput, losses: Losses, advantages: Tensor) -> None:
        """Add one micro-batch. All sums are taken at once: on a card, many small operations cost more than the work in them."""
        values = {
            "nll": out.nll, "early_nll": out.early_nll, "scored": out.scored, "drawn": out.drawn, "tokens": out.boundaries,
            "square": torch.where(out.drawn, advantages, 0.0).square(),
        }  # fmt: skip
        if out.boundary_logits is not None:
            values["entropy"] = torch.where(out.drawn, entropy(out.boundary_logits), 0.0)
        sums = torch.stack([x.detach().to(out.nll.dtype) for x in values.values()]).sum(dim=(1, 2), dtype=torch.float64)
        self._sums = {name: self._sums.get(name, 0.0) + value for name, value in zip(values, sums, strict=True)}
        parts = losses.auto + losses.early + losses.policy + losses.target + losses.aux
        self._loss = self._loss + parts.detach()  # watched for NaN only: every part enters with weight 1
        self._classes = self._classes + boundary_counts(ids, out.boundaries, out.drawn)

    def gather(self, ranks: Ranks) -> None:
        """Take all sums over all processes, at once. The loss of a micro-batch is known to each that has rows of it."""
        if ranks.count == 1:
            return
        own = torch.cat([torch.stack([*self._sums.values(), self._loss / ranks.sharing]), self._classes.flatten()])
        *sums, loss, classes = ranks.sum(own).split([1] * len(self._sums) + [1, self._classes.numel()])
        self._sums = {name: value[0] for name, value in zip(self._sums, sums, strict=True)}
        self._loss, self._classes = loss[0], classes.view_as(self._classes).long()

    def check_finite(self, scaled: bool = False) -> None:
        """Raise `RltokError` that names the step when a loss or the gradient is not finite.

        Where the loss was scaled, such a gradient is an overflow: it is noted in `skipped` and is no error.
        """
        overflowed = not math.isfinite(float(self.grad_norm))
        self.skipped = scaled and overflowed
        if not math.isfinite(float(self._loss)) or (overflowed and not scaled):
            what = f"loss {float(self._loss):g}, gradient norm {float(self.grad_norm):g}"
            raise not_finite(self.step, what, done=self.step - 1)

    @property
    def scored_bytes(self) -> int:
        """Bytes scored in this update."""
        return int(self._sums["scored"])

    @property
    def tokens(self) -> int:
        """Tokens of this update, forced ones too."""
        return int(self._sums["tokens"])

    def to_dict(self) -> dict[str, Any]:
        """Means over the update: NLL in nats per byte, entropy in nats per decision, rates per drawn position.

        Norms of a gradient that overflowed are None.
        """
        sums = dict(zip(self._sums, torch.stack(list(self._sums.values())).tolist(), strict=True))
        drawn, scored = max(1.0, sums["drawn"]), sums["scored"]
        totals, hits = self._classes.T.tolist()
        return {
            "nll": sums["nll"] / scored,
            "early_nll": sums["early_nll"] / scored,
            "rate": sum(hits) / drawn,
            "tokens_per_byte": sums["tokens"] / scored,
            "policy_entropy": sums["entropy"] / drawn if "entropy" in sums else None,
            "whitespace_share": hits[SPACE] / totals[SPACE] if totals[SPACE] else None,
            "advantage_rms": math.sqrt(sums["square"] / drawn),
            "grad_norm": None if self.skipped else float(self.grad_norm),
            "grad_norm_rule": None if self.skipped else float(self.grad_norm_rule),
            "learning_rate": self.learning_rate,
        }
