"""Rows that grow byte by byte, as generation has them: what is known when the decision at the newest position falls due."""

from collections.abc import Sequence
from dataclasses import dataclass, fields

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from rltok.vocab import BOS, PAD

ANY_BYTE = 0  # stands where a byte will come; no decision and no prediction before it can see which


def entries(values: Tensor, start: Int[Tensor, " R"], width: int, rows: Int[Tensor, " R"] | None = None) -> Tensor:
    """values[b, start : start + width] of the rows b given, or of all, [R, width, ...]; beyond the end its last entry again."""
    rows = torch.arange(len(start), device=start.device) if rows is None else rows
    places = (start[:, None] + torch.arange(width, device=start.device)).clamp(max=values.shape[1] - 1)
    return values[rows[:, None], places]


@dataclass
class GrowingRows:
    """Rows of input positions, each known up to its own newest one. Entry i of a row belongs to its position i; 0 is BOS.

    Room for L positions is made at the start; `put` moves every row on by one.
    """

    ids: Int[Tensor, "B L_plus_1"]  # PAD after the newest position, or any byte as far as the row may grow
    uniforms: Float[Tensor, "B L"]  # of the boundary draws
    boundaries: Bool[Tensor, "B L"]
    gates: Float[Tensor, "B L"]  # soft ones, of rules that have them
    byte_states: Float[Tensor, "B L d"]
    newest: Int[Tensor, " B"]  # position of the newest byte
    longest: int  # the largest of these, and one

    @classmethod
    def begin(
        cls, prompts: Sequence[Int[Tensor, " _"]], uniforms: Float[Tensor, "B L"], lengths: Sequence[int], embedding_dim: int,
        dtype: torch.dtype, *, filled: bool,
    ) -> "GrowingRows":  # fmt: skip
        """BOS and a prompt in each row.

        Args:
            prompts: ids of the bytes, none for an empty prompt.
            uniforms: of the boundary draws, for as many positions as any row may come to; they say on which device to be.
            lengths: positions of each row when it is whole.
            embedding_dim, dtype: of the byte states.
            filled: whether the rule reads how long a row is, so that `ids` must say it from the start.
        """
        device, (rows, length) = uniforms.device, uniforms.shape
        ids = torch.full((rows, length + 1), PAD, device=device)
        ids[:, 0] = BOS
        for row, (prompt, whole) in enumerate(zip(prompts, lengths, strict=True)):
            if filled:
                ids[row, 1:whole] = ANY_BYTE
            ids[row, 1 : len(prompt) + 1] = prompt.to(device)
        newest = torch.tensor([len(prompt) for prompt in prompts], device=device)
        boundaries = torch.zeros(rows, length, dtype=torch.bool, device=device)
        wide = torch.promote_types(dtype, torch.float32)
        states = torch.zeros(rows, length, embedding_dim, dtype=dtype, device=device)
        return cls(ids, uniforms, boundaries, boundaries.to(wide), states, newest, int(newest.max()) + 1)

    def __len__(self) -> int:
        """How many rows there are."""
        return len(self.newest)

    @property
    def here(self) -> tuple[Tensor, Tensor]:
        """Index of the newest position of each row."""
        return torch.arange(len(self), device=self.newest.device), self.newest

    def now(self, values: Tensor) -> Tensor:
        """The entry of each row's newest position, [B, ...]."""
        return values[self.here]

    def put(self, ids: Int[Tensor, " B"]) -> None:
        """One more byte in every row."""
        self.newest, self.longest = self.newest + 1, self.longest + 1
        self.ids[self.here] = ids

    def decisions_before(self, count: int) -> Bool[Tensor, "B count"]:
        """The `count` decisions before the newest position, latest first; none before the start of the row."""
        places = self.newest[:, None] - torch.arange(1, count + 1, device=self.newest.device)
        return self.boundaries.gather(1, places.clamp(min=0)) & (places >= 0)

    def keep(self, rows: Int[Tensor, " kept"]) -> None:
        """Drop all other rows."""
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, Tensor):
                setattr(self, field.name, value[rows])
