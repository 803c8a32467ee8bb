"""How fast common cards train which preset: what `rltok bench` measured somewhere, and what follows from that by rule.

The measured rows are in measured_speeds.json, which scripts/book/make_speeds.py writes from the stored records.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rltok.config import Config
from rltok.errors import RltokError
from rltok.flops import parameter_counts
from rltok.presets import preset
from rltok.speed.cards import CARDS, Card, card_of

STORED = Path(__file__).with_name("measured_speeds.json")
SHOWN = ("32m", "90m", "147m")  # presets
USABLE = 0.92  # of a card's memory: the rest goes to CUDA itself and to fragments
STATE_BYTES = 16  # a parameter: weight, gradient and two moments of AdamW, fp32
FP32_FACTOR = 2  # bytes of a number in fp32 against bf16: memory of activations, and what must be moved
RULE = (
    "estimated: of a measured update, matrix products take as much longer as the datasheets' arithmetic is slower (bf16; fp32 on"
    " a card without it), all else as the memory bandwidth is, and twice that in fp32. Memory: what was measured, with"
    " activations in proportion to the rows of a pass and to the width of a number. Kernels were tuned on an H100 only"
)
LEGEND = (
    "rows: of a forward pass, the preset's number or the largest below it that should fit; fewer change the estimator, eq. (17)"
    " (train with --set train.micro_batch=ROWS). hours: for the preset's training bytes."
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


NUMBERS = ("micro_batch", "bytes_per_second", "tokens_per_byte", "peak_memory_bytes", "updates", "product_share")


def measured_speeds() -> list[Speed]:
    """The measured rows that come with the package.

    Raises:
        RltokError: the file is missing or damaged.
    """
    try:
        rows = json.loads(STORED.read_text(encoding="utf-8"))["speeds"]
        whole = all(row[key] > 0 for row in rows for key in NUMBERS)
        whole = whole and all(isinstance(row[key], str) for row in rows for key in ("preset", "device", "backend"))
    except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
        raise RltokError(f"{STORED} cannot be read ({type(error).__name__}). Install rltok again.") from error
    if not whole:
        raise RltokError(f"{STORED} holds a number that is none. Install rltok again.")
    return rows


def outlooks(speeds: list[Speed]) -> list[Outlook]:
    """Every card with every preset of `SHOWN` that was measured somewhere; with all of them if none was."""
    measured = [name for name in SHOWN if any(speed["preset"] == name for speed in speeds)]
    return [outlook(card, name, speeds) for card in CARDS for name in measured or SHOWN]


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
        return Outlook(card.name, name, precision, backend, best["micro_batch"], rate, hours / rate, f"measured {_tokens(best)}")
    if not known:
        return Outlook(card.name, name, precision, backend, None, None, None, "not measured")
    scaled = {
        ratio(card, other, speed["product_share"]): speed for speed in known if (other := card_of(speed["device"])) is not None
    }
    nearest = max(scaled, key=lambda found: min(found, 1 / found))
    base = scaled[nearest]
    rows = fitting_rows(card, preset(name), base)
    basis = f"estimated from the {card_of(base['device']).name}'s {base['bytes_per_second'] / 1e6:.3g} MB/s {_tokens(base)}"
    if rows == 0:
        return Outlook(card.name, name, precision, backend, 0, None, None, basis)
    rate = base["bytes_per_second"] * nearest
    return Outlook(card.name, name, precision, backend, rows, rate, hours / rate, basis)


def _tokens(speed: Speed) -> str:
    return f"at {speed['tokens_per_byte']:.2f} tokens a byte"


def ratio(card: Card, other: Card, products: float) -> float:
    """Speed on a card over that on the other, of whose update matrix products were this share of the time.

    1 / (products * rate' / rate + (1 - products) * width * bandwidth' / bandwidth), primes of the other card; width is 2 where
    only this one lacks bf16.
    """
    width = FP32_FACTOR if card.bf16_rate is None and other.bf16_rate is not None else 1
    return 1 / (products * other.rate / card.rate + (1 - products) * width * other.bandwidth / card.bandwidth)


def fitting_rows(card: Card, config: Config, base: Speed) -> int:
    """The largest micro-batch, up to the preset's, that should fit the card's memory; 0 for none."""
    fixed = STATE_BYTES * sum(parameter_counts(config.model).values())
    a_row = (base["peak_memory_bytes"] - fixed) / base["micro_batch"] * (1 if card.bf16_rate else FP32_FACTOR)
    train = config.train
    sizes = [rows for rows in range(train.micro_batch, 1, -1) if train.sequences_per_update % rows == 0]
    return next((rows for rows in sizes if fixed + rows * a_row <= USABLE * card.memory_bytes), 0)


def table(found: list[Outlook]) -> list[str]:
    """Lines for a terminal."""
    heads = f"{'card':11s}{'preset':8s}{'rows':>10s}  {'precision':11s}{'backend':9s}{'MB/s':>8s}{'hours':>8s}  basis"
    told = [heads]
    for each in found:
        fits = "-" if each.micro_batch is None else "no" if each.micro_batch == 0 else f"{each.micro_batch}"
        rate = "-" if each.bytes_per_second is None else f"{each.bytes_per_second / 1e6:.3g}"
        hours = "-" if each.hours is None else f"{each.hours:.2g}"
        what = f"{each.card:11s}{each.preset:8s}{fits:>10s}  {each.precision:11s}{each.backend:9s}"
        told.append(f"{what}{rate:>8s}{hours:>8s}  {each.basis}")
    return told
