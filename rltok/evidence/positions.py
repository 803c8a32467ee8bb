"""Mean rewards and returns at each place of a row: what the batch-relative mean of eq. (17) is there to remove."""

import torch
from torch import Tensor

from rltok.data.rows import Rows
from rltok.errors import RltokError
from rltok.estimator import discounted_returns, relative_rewards
from rltok.evaluation import evaluation_mode
from rltok.rng import row_uniforms
from rltok.unet import AutoregressiveUNet

BINS = 64  # places of a row that are told apart


def _binned(values: Tensor, scored: Tensor, bins: int) -> tuple[Tensor, Tensor]:
    """Sum and count of the scored values [B, N] in each of `bins` equal parts of the row."""
    length = values.shape[1]
    part = torch.arange(length, device=values.device) * bins // length
    at = [torch.zeros(bins, dtype=torch.float64, device=values.device) for _ in range(2)]
    for total, entry in zip(at, (torch.where(scored, values, 0.0), scored), strict=True):
        total.index_add_(0, part, entry.double().sum(dim=0))
    return at[0].cpu(), at[1].cpu()


@torch.no_grad()
def by_position(
    model: AutoregressiveUNet, rows: Rows, *, gamma: float, seed: int, batch: int, max_rows: int, bins: int = BINS
) -> dict[str, list[float | None]]:  # fmt: skip
    """Mean R_i of eq. (15) and G_i of eq. (16) over rows, by part of the row, in nats; one seeded draw of boundaries a row.

    Args:
        gamma: discount of the returns.
        seed: of the draws, those of `evaluate`.
        batch: rows per forward pass; the result does not depend on it.
        max_rows: the first so many rows are taken.
        bins: parts of equal length; a row shorter than that has one part for each byte.

    Returns:
        `start`: first position of each part; `rewards`, `returns`: means, None where no row is scored.
    """
    count = min(len(rows), max_rows)
    if count < 1:
        raise RltokError("there are no rows to average over. Give text of at least one row.")
    bins, device = min(bins, rows.sequence_length), next(model.parameters()).device
    sums = {name: torch.zeros(bins, dtype=torch.float64) for name in ("rewards", "returns", "scored")}
    with evaluation_mode(model):
        for start in range(0, count, batch):
            numbers = list(range(start, min(count, start + batch)))
            ids = rows.ids(numbers).to(device)
            out = model(ids, uniforms=row_uniforms(seed, 0, numbers, ids.shape[1] - 1).to(device))
            rewards = torch.where(out.scored, relative_rewards(out.nll, out.early_nll), 0.0)
            for name, values in (("rewards", rewards), ("returns", discounted_returns(rewards, gamma))):
                total, scored = _binned(values, out.scored, bins)
                sums[name] += total
            sums["scored"] += scored
    counts = sums["scored"].tolist()
    means = {name: [s / n if n else None for s, n in zip(sums[name].tolist(), counts, strict=True)] for name in sums}
    starts = [-(-part * rows.sequence_length // bins) for part in range(bins)]
    return {"start": starts, "rewards": means["rewards"], "returns": means["returns"]}
