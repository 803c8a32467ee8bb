"""One id out of logits by temperature, top-k and top-p."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from rltok.generation.sampling import Sampling


def draw(sampling: Sampling, logits: Float[Tensor, "B ids"], uniforms: Float[Tensor, " B"]) -> Int[Tensor, " B"]:
    """An id of each row; -1 where logits are not finite. Equal probabilities go to the lower id first.

    Args:
        sampling: which ids may come, and how the probable is preferred.
        logits: of the next id, -inf for those that never come.
        uniforms: numbers in [0, 1): where in the sum of probabilities, from the most probable id down, the draw falls.
    """
    best, order = logits.double().sort(dim=-1, descending=True, stable=True)
    temperature, top_k = (sampling.temperature, sampling.top_k) if sampling.temperature else (1.0, 1)
    chances = ((best - best[:, :1]) / temperature).softmax(dim=-1)[:, :top_k]
    if sampling.top_p < 1:
        shares = chances / chances.sum(dim=-1, keepdim=True)
        chances = torch.where(shares.cumsum(dim=-1) - shares < sampling.top_p, chances, 0.0)  # the id that reaches it stays in
    total = chances.cumsum(dim=-1)
    whole = total[:, -1:]  # nan where logits are, or where one is infinite
    place = (total <= uniforms[:, None] * whole).sum(dim=-1, keepdim=True)  # ids before the one that is drawn
    return torch.where(whole > 0, order.gather(1, place), -1)[:, 0]
