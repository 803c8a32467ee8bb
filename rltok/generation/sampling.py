"""How text goes on, as a user chooses; `rltok.generation.draws` does so."""

import math
from dataclasses import dataclass

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
