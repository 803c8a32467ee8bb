"""An early head of low rank (eq. 14), which costs less than a full one: d -> r -> ids."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from rltok.errors import RltokError
from rltok.vocab import PREDICTED


class LowRankHead(nn.Module):
    """Two maps in place of one, started as the best approximation of a head's weights by a matrix of rank r.

    The truncated singular value decomposition, of the rows of ids that are predicted: W = U S V' gives
    up = U_r sqrt(S_r) and down = sqrt(S_r) V_r'. Rows of other ids are 0; their logits count for nothing.

    Args:
        weight: of the head that it starts from.
        rank: r, at most the lesser of ids predicted and d.
    """

    def __init__(self, weight: Float[Tensor, "ids d"], rank: int) -> None:
        super().__init__()
        most = min(len(PREDICTED), weight.shape[1])
        if not 1 <= rank <= most:
            raise RltokError(
                f"rank of a low-rank head must lie between 1 and {most}, the rank of a full one; got {rank}. Take one of these."
            )
        chosen = list(PREDICTED)
        left, sizes, right = torch.linalg.svd(weight.detach()[chosen].double(), full_matrices=False)
        root = sizes[:rank].sqrt()
        up = torch.zeros(len(weight), rank, dtype=torch.float64, device=weight.device)
        up[chosen] = left[:, :rank] * root
        self.up = nn.Parameter(up.to(weight.dtype))
        self.down = nn.Parameter((root[:, None] * right[:rank]).to(weight.dtype))

    @property
    def weight(self) -> Float[Tensor, "ids d"]:
        """up @ down, for the fast path, whose kernel takes one matrix: the same logits there, but nothing saved."""
        with torch.autocast(self.up.device.type, enabled=False):
            return self.up @ self.down

    def forward(self, x: Float[Tensor, "... d"]) -> Float[Tensor, "... ids"]:
        """x @ down' @ up'."""
        return nn.functional.linear(nn.functional.linear(x, self.down), self.up)


def shorten_early_head(model: nn.Module, rank: int) -> None:
    """Replace `model.early_head` by a `LowRankHead` from the output head's weights, where a full early head starts, too.

    Records and checkpoints do not know it: they name the configuration, which has a full one.
    """
    model.early_head = LowRankHead(model.output_head.weight, rank)
