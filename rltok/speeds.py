"""How fast common cards train which preset: what `rltok bench` measured somewhere, and what follows from that by rule.

The measured rows are in measured_speeds.json, which scripts/make_speeds.py writes from the stored records.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rltok.cards import CARDS, Card, card_of
from rltok.config import Config
from rltok.flops import parameter_counts
from rltok.presets import preset

STORED = Path(__file__).with_name("measured_speeds.json")
SHOWN = ("32m", "90m", "147m")  # presets
USABLE = 0.92  # of a card's memory: the rest goes to CUDA itself and to fragments
STATE_BYTES = 16  # a parameter: weight, gradient and two moments of AdamW, fp32
FP32_FACTOR = 2  # memory of activations in fp32 against bf16
RULE = (
    "estimated: measured bytes/s, scaled by the smaller of the ratios of datasheet arithmetic (bf16; fp32 on a card without it)"
    " and of datasheet memory bandwidth; memory: what was measured, with activations in proportion to the rows of a micro-batch"
    " and to the width of a number"
)

Speed = dict[str, Any]


@dataclass(frozen=True)
class Outlook:
    """What is known of a preset on a card; None where nothing was measured that it could follow from."""

    card: str
    preset: str
    precision: str
    backend: str
    micro_batch: int | None  # 0: not even the smallest fits
    bytes_per_second: float | None
    hours: float | None  # for the preset's training bytes
    basis: str  # measured, estimated from a card, or not measured


def measured_speeds() -> list[Speed]:
    """The measured rows that come with the package."""
    return json.loads(STORED.read_text(encoding="utf-8"))["speeds"]


def outlooks(speeds: list[Speed]) -> list[Outlook]:
    """Every card with every shown preset."""
    return [outlook(card, name, speeds) for card in CARDS for name in SHOWN]


def outlook(card: Card, name: str, speeds: list[Speed]) -> Outlook:
    """One card with one preset: as measured on it, else scaled from the nearest card, else unknown."""
    kernels = card.bf16_rate is not None
    backend, precision = ("triton", "bf16") if kernels else ("plain", "fp32")
    known = [speed for speed in speeds if speed["preset"] == name and speed["backend"] == backend]
    known = [speed for speed in known if card_of(speed["device"]) is not None]
    same = [speed for speed in known if card_of(speed["device"]) == card]
    hours = preset(name).train.training_bytes / 3600
    if same:
        best = max(same, key=lambda speed: speed["bytes_per_second"])
        rate = best["bytes_per_second"]
        return Outlook(card.name, name, precision, backend, best["micro_batch"], rate, hours / rate, _measured(best))
    if not known:
        return Outlook(card.name, name, precision, backend, None, None, None, "not measured")
    scaled = {ratio(card, other): speed for speed in known if (other := card_of(speed["device"])) is not None}
    nearest = max(scaled, key=lambda found: min(found, 1 / found))
    base = scaled[nearest]
    rows = fitting_rows(card, preset(name), base)
    basis = f"estimated from {card_of(base['device']).name}, {_measured(base)}"
    if rows == 0:
        return Outlook(card.name, name, precision, backend, 0, None, None, basis)
    rate = base["bytes_per_second"] * nearest
    return Outlook(card.name, name, precision, backend, rows, rate, hours / rate, basis)


def _measured(speed: Speed) -> str:
    return f"measured at {speed['tokens_per_byte']:.2f} tokens a byte"


def ratio(card: Card, other: Card) -> float:
    """Of the binding ceiling: arithmetic or bandwidth, whichever grows less from the other card to this one."""
    return min(card.rate / other.rate, card.bandwidth / other.bandwidth)


def fitting_rows(card: Card, config: Config, base: Speed) -> int:
    """The largest micro-batch, up to the preset's, that should fit the card's memory; 0 for none."""
    fixed = STATE_BYTES * sum(parameter_counts(config.model).values())
    a_row = (base["peak_memory_bytes"] - fixed) / base["micro_batch"] * (1 if card.bf16_rate else FP32_FACTOR)
    train = config.train
    sizes = [rows for rows in range(train.micro_batch, 1, -1) if train.sequences_per_update % rows == 0]
    return next((rows for rows in sizes if fixed + rows * a_row <= USABLE * card.memory_bytes), 0)


def table(found: list[Outlook]) -> list[str]:
    """Lines for a terminal."""
    heads = f"{'card':11s}{'preset':8s}{'fits':>10s}  {'precision':11s}{'backend':9s}{'MB/s':>8s}{'hours':>8s}  basis"
    told = [heads]
    for each in found:
        fits = "-" if each.micro_batch is None else "no" if each.micro_batch == 0 else f"{each.micro_batch} rows"
        rate = "-" if each.bytes_per_second is None else f"{each.bytes_per_second / 1e6:.3g}"
        hours = "-" if each.hours is None else f"{each.hours:.1f}"
        what = f"{each.card:11s}{each.preset:8s}{fits:>10s}  {each.precision:11s}{each.backend:9s}"
        told.append(f"{what}{rate:>8s}{hours:>8s}  {each.basis}")
    return told
