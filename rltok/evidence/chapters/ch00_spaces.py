"""What one boundary is worth to the bytes after it, and whether boundaries stand before surprising bytes.

places --change_of_loss--> one line a place --by_distance--> mean and 95 % interval at +1, +2, ... bytes
"""

from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from rltok.byte_classes import CLASSES, byte_classes
from rltok.evaluation import evaluation_mode
from rltok.show.plots import PALETTE
from rltok.statistics import SURE, ratio_error, t_limit
from rltok.unet import AutoregressiveUNet

if TYPE_CHECKING:
    from matplotlib.figure import Figure

REACH = 8  # bytes after the place that are followed
# What is done to one boundary: the class of the byte it stands after, and where it goes (0: nowhere).
EDITS = {
    "removed": ("space", 0),
    "one byte earlier": ("space", -1),
    "one byte later": ("space", 1),
    "added in a word": ("letter", 0),
}


def places_after(ids: Int[Tensor, "B N_plus_1"], kind: str, reach: int, most: int) -> Int[Tensor, "places 2"]:
    """(row, position) of bytes of a class that a letter follows; at most `most`, evenly spread over all there are.

    Positions 0 and 1 and those whose `reach` next bytes do not fit into the row are left out.
    """
    kinds = byte_classes(ids)
    letters = (kinds == CLASSES.index("letter")) | (kinds == CLASSES.index("word start"))
    found = (kinds[:, :-1] == CLASSES.index(kind)) & letters[:, 1:]
    found[:, :2] = False
    found[:, found.shape[1] - reach + 1 :] = False
    places = found.nonzero()
    return places[torch.linspace(0, len(places) - 1, min(most, len(places))).round().long()]


@torch.no_grad()
def change_of_loss(
    model: AutoregressiveUNet, ids: Int[Tensor, "B N_plus_1"], boundaries: Bool[Tensor, "B N"], places: Int[Tensor, "places 2"],
    reach: int, shift: int = 0, batch: int = 256,
) -> Float[Tensor, "places reach"]:  # fmt: skip
    """Nats by which the loss of the next `reach` bytes grows without the boundary at each place; other boundaries stay.

    Args:
        boundaries: of the rows; the place is edited in a copy.
        shift: 0 removes the boundary, 1 moves it one byte later, -1 one earlier.
    """
    changes = []
    with evaluation_mode(model):
        for row, place in (part.T for part in places.split(batch)):
            here = torch.arange(len(row), device=ids.device)
            with_it = boundaries[row].clone()
            with_it[here, place + shift] = False
            without = with_it.clone()
            without[here, place + shift] = shift != 0
            without[here, place] = False
            with_it[here, place] = True
            losses = [model(ids[row], boundaries=edited).nll for edited in (without, with_it)]
            after = place[:, None] + torch.arange(reach, device=ids.device)
            changes.append((losses[0] - losses[1]).gather(1, after))
    return torch.cat(changes)


def by_distance(
    changes: Float[Tensor, "places reach"], places: Int[Tensor, "places 2"]
) -> tuple[Float[Tensor, " reach"], Float[Tensor, " reach"]]:
    """Mean over places at each distance, and half the width of its 95 % interval; rows of text are the independent units."""
    _, unit = places[:, 0].unique(return_inverse=True)
    sizes = unit.bincount().double()
    sums = sizes.new_zeros(len(sizes), changes.shape[1]).index_add(0, unit, changes.double())
    errors = [ratio_error(column.numpy(), sizes.numpy()) for column in sums.T]
    half = t_limit(SURE, len(sizes) - 1) * torch.tensor(errors, dtype=torch.float64)
    return sums.sum(dim=0) / len(places), half


def effects(
    model: AutoregressiveUNet, ids: Int[Tensor, "B N_plus_1"], boundaries: Bool[Tensor, "B N"], most: int
) -> dict[str, tuple[Float[Tensor, " reach"], Float[Tensor, " reach"]]]:  # fmt: skip
    """What each of `EDITS`, one place at a time, does to the loss of the next bytes: mean and half its interval, in nats."""
    found = {}
    for name, (kind, shift) in EDITS.items():
        places = places_after(ids, kind, REACH, most)
        changes = change_of_loss(model, ids, boundaries, places, REACH, shift)
        found[name] = by_distance(-changes if kind == "letter" else changes, places)
    return found


def enrichment(
    surprise: Float[Tensor, "B N"], boundaries: Bool[Tensor, "B N"], counted: Bool[Tensor, "B N"]
) -> float:  # fmt: skip
    """Boundary enrichment: mean surprise of the bytes right after a boundary over the mean surprise of all counted bytes.

    Args:
        surprise: entry i is -log p of byte i + 1, by a predictor that sees no boundaries.
        boundaries: of any rule.
        counted: where a boundary could have been drawn.
    """
    return float(surprise[boundaries & counted].mean() / surprise[counted].mean())


def effects_figure(record: dict[str, Any]) -> "Figure":
    """A panel for each network of a record of scripts/measure/measure_spaces.py: change of the loss at +1, +2, ... bytes."""
    import matplotlib.pyplot as plt

    titles = {"learned": "trained with its own boundaries", "random_k": "trained with random boundaries"}
    figure, panels = plt.subplots(1, len(record["runs"]), figsize=(8.4, 3.4), sharey=True)
    for panel, network in zip(panels, record["runs"], strict=True):
        for number, (name, curve) in enumerate(network["effects"].items()):
            distance = [1 + step + 0.08 * (number - 1.5) for step in range(len(curve["mean"]))]
            panel.errorbar(
                distance, curve["mean"], curve["half"], color=PALETTE[number], label=name, marker="o", markersize=3, linewidth=1.2
            )
        panel.axhline(0, color="0.5", linewidth=0.8)
        panel.set(title=titles[network["rule"]], xlabel="bytes after the place of the boundary")
    panels[0].set_ylabel("change of loss (nats), 95 % interval")
    panels[0].legend(fontsize=8)
    return figure
