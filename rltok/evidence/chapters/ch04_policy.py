"""What a policy's chapter shows: the same draw at many target rates, and rates under the rate losses that were tried."""

import math
import statistics
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from rltok.errors import RltokError
from rltok.policy import check_rate, sample_boundaries, uncapped_rate
from rltok.show.plots import PALETTE
from rltok.show.tables import markdown

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RATES = (0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5)


def draws_at_rates(
    terms: Float[Tensor, "N terms"], uniforms: Float[Tensor, " N"], *, scale: float, softcap: float | None,
    rates: Sequence[float] = RATES,
) -> Bool[Tensor, "rates N"]:  # fmt: skip
    """One string drawn at every target rate: terms (21) and uniforms stay, the bias of eq. (22) is the logit of the rate.

    Raises:
        RltokError: no rate, or one that no policy can have, under this cap.
    """
    if not rates or not scale > 0:
        raise RltokError(f"rates must hold at least one, and scale be greater than 0; got {tuple(rates)} and scale={scale}.")
    for rate in rates:
        check_rate(rate) if softcap is None else uncapped_rate(rate, softcap)  # the latter refuses what the cap does
    drawn = [
        sample_boundaries(terms[None], uniforms[None], bias=math.log(rate / (1 - rate)), scale=scale, softcap=softcap)[0]
        for rate in rates
    ]
    return torch.stack(drawn)


def marked(text: bytes, boundaries: Bool[Tensor, " N_plus_1"]) -> str:
    """The text with a bar after every byte that ends a token; the boundary on BOS is left out, line ends are shown as /."""
    shown = text.decode("ascii").replace("\n", "/")
    return "".join(letter + ("|" if mark else "") for letter, mark in zip(shown, boundaries[1:].tolist(), strict=True))


def rates_figure(text: bytes, drawn: Bool[Tensor, "rates N"], rates: Sequence[float] = RATES) -> "Figure":
    """A row for every target rate, a column for every byte, dark where a token ends."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(8.4, 0.5 + 0.3 * len(rates)))
    axes.imshow(drawn[:, 1:].numpy(), aspect="auto", cmap="Greys", vmin=0, vmax=1, interpolation="nearest")
    axes.set_xticks(range(len(text)), list(text.decode("ascii").replace("\n", "/")), fontsize=7)
    axes.set_yticks(range(len(rates)), [f"{rate:g}" for rate in rates])
    axes.set(ylabel="target rate")
    axes.grid(visible=False)
    return figure


LOSSES = {"none": "no rate loss", "logits": "on logits, eq. (24)", "probabilities": "on probabilities"}
RATE_LOSS_HEAD = ("rate loss", "start", "rate at the end", "policy entropy (nats)", "after white space", "bits per byte")


def rate_loss_runs(record: dict[str, Any], loss: str, start: float) -> list[dict[str, Any]]:
    """Runs of a rate loss from a start, one for each seed."""
    return [run for run in record["runs"] if (run["loss"], run["start"]) == (loss, start)]


def rate_loss_table(record: dict[str, Any]) -> str:
    """Markdown: a row of `RATE_LOSS_HEAD` for each rate loss and start, in the record's order.

    The rate over the last fifth of training, least to most over seeds; of held-out rows the policy's entropy and the share of
    white space with a boundary, least to most, and the mean loss.
    """

    def span(runs: list[dict[str, Any]], key: str, digits: int) -> str:
        values = [run[key] for run in runs]
        return f"{min(values):.{digits}f} to {max(values):.{digits}f}"

    rows = []
    for loss, start in dict.fromkeys((run["loss"], run["start"]) for run in record["runs"]):
        runs = rate_loss_runs(record, loss, start)
        measures = [span(runs, "rate", 3), span(runs, "policy_entropy", 2), span(runs, "whitespace_share", 2)]
        rows.append([LOSSES[loss], f"{start:g}", *measures, f"{statistics.fmean(run['bits_per_byte'] for run in runs):.3f}"])
    return markdown(RATE_LOSS_HEAD, rows)


def rate_loss_figure(record: dict[str, Any]) -> "Figure":
    """Boundaries per byte over training, one panel for each start, one line for each run."""
    import matplotlib.pyplot as plt

    if not record["runs"]:
        raise RltokError("the record holds no run to draw. Make some first: scripts/measure/measure_rate_loss.py.")
    starts = list(dict.fromkeys(run["start"] for run in record["runs"]))
    losses = list(dict.fromkeys(run["loss"] for run in record["runs"]))
    figure, panels = plt.subplots(1, len(starts), figsize=(8.4, 3.0), sharey=True, squeeze=False)
    lines: dict[str, Any] = {}
    for panel, start in zip(panels[0], starts, strict=True):
        for run in (run for run in record["runs"] if run["start"] == start):
            steps, rates = zip(*((point["step"], point["rate"]) for point in run["curve"]), strict=True)
            number = losses.index(run["loss"])
            lines[run["loss"]] = panel.plot(steps, rates, color=PALETTE[number % len(PALETTE)], linewidth=1.0)[0]
        panel.axhline(record["target"], color="k", linewidth=0.8)
        panel.set(xlabel="update", title=f"start at {start:g}", ylim=(0, 1))
    panels[0][0].set_ylabel("boundaries per byte")
    panels[0][-1].legend([lines[loss] for loss in losses], [LOSSES[loss] for loss in losses], fontsize=7.5)
    return figure
