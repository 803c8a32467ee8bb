"""How text goes on: one id out of logits by temperature, top-k and top-p, and when to stop."""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from rltok.errors import RltokError
from rltok.vocab import PREDICTED, Texts


@dataclass(frozen=True)
class Sampling:
    """How text goes on. The end of the text is one of the 257 ids that may come.

    Raises:
        RltokError: a value that means nothing.
    """

    max_bytes: int = 200  # of what follows a prompt
    temperature: float = 1.0  # logits are divided by it; 0: always the most probable id
    top_k: int | None = None  # only the k most probable ids; None: all
    top_p: float = 1.0  # only the most probable ids that together reach this probability
    seed: int = 0  # with the number of its row it decides what is drawn, boundaries and bytes
    stop: Texts = ()  # a text, or several, before the first of which a row ends

    def __post_init__(self) -> None:
        if self.max_bytes < 1:
            raise RltokError(f"the number of bytes to generate must be at least 1; got {self.max_bytes}.")
        if not 0 <= self.temperature < math.inf:
            raise RltokError(
                f"temperature must be at least 0 and finite; got {self.temperature!r}. 0 always takes the most probable byte, 1"
                " draws as the model says."
            )
        if self.top_k is not None and not 1 <= self.top_k <= len(PREDICTED):
            raise RltokError(
                f"top-k must lie between 1 and {len(PREDICTED)}, the ids that can come; got {self.top_k}. Leave it out for all."
            )
        if not 0 < self.top_p <= 1:
            raise RltokError(f"top-p must be greater than 0 and at most 1; got {self.top_p!r}. 1 leaves all bytes in.")

    def draw(self, logits: Float[Tensor, "B ids"], uniforms: Float[Tensor, " B"]) -> Int[Tensor, " B"]:
        """An id of each row; -1 where logits are not finite. Equal probabilities go to the lower id first.

        Args:
            logits: of the next id, -inf for those that never come.
            uniforms: numbers in [0, 1): where in the sum of probabilities, from the most probable id down, the draw falls.
        """
        best, order = logits.double().sort(dim=-1, descending=True, stable=True)
        temperature, top_k = (self.temperature, self.top_k) if self.temperature else (1.0, 1)
        chances = ((best - best[:, :1]) / temperature).softmax(dim=-1)[:, :top_k]
        if self.top_p < 1:
            shares = chances / chances.sum(dim=-1, keepdim=True)
            chances = torch.where(shares.cumsum(dim=-1) - shares < self.top_p, chances, 0.0)  # the id that reaches it stays in
        total = chances.cumsum(dim=-1)
        whole = total[:, -1:]  # nan where logits are, or where one is infinite
        place = (total <= uniforms[:, None] * whole).sum(dim=-1, keepdim=True)  # ids before the one that is drawn
        return torch.where(whole > 0, order.gather(1, place), -1)[:, 0]
