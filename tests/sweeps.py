"""Evidence records with numbers of our choice, for tests of what is made of them."""

import json
import random

from rltok.config import with_settings
from rltok.data.fixed_texts import FIXED_TEXTS
from rltok.evidence.records import Sweep
from rltok.evidence.schema import SCHEMA, WHAT
from rltok.presets import preset
from rltok.system.digest import with_digest

PLACES = ("validation", "test", "piqa", "hellaswag", "arc_easy", "lambada")
UNITS = 30


def noise(*key, scale=0.3):
    """Numbers that belong to a document, the same for every method."""
    maker = random.Random(str(key))
    return [maker.gauss(0, scale) for _ in range(UNITS)]


def record(
    name="ours", seed=0, *, bits=2.0, wiggle=0.01, full=True, white=0.95, rate=0.2, entropy=(0.5, 0.1), sweep="32m", **other
):
    """A finished run that loses `bits` per byte everywhere, give or take `wiggle` on each document in its own way.

    `bits` may be a dictionary of places. Entropies are those of the first and the second half of the curve.
    """
    rule = other.pop("rule", "learned" if name.startswith("ours") else "even")
    config = with_settings(preset("tiny"), {"train.seed": seed, "model.rule.name": rule, "name": f"32m_{name}"} | other)
    scores = {}
    for place in PLACES:
        level = bits[place] if isinstance(bits, dict) else bits
        shared, own = noise(place), noise(place, name, seed, scale=wiggle)
        per_byte = [level + a + b for a, b in zip(shared, own, strict=True)]
        if place in ("validation", "test"):
            sizes = [100 + 10 * unit for unit in range(UNITS)]
            level = sum(b * n for b, n in zip(per_byte, sizes, strict=True)) / sum(sizes)
            scores[place] = {
                "bits_per_byte": level, "rate": rate, "tokens_per_byte": rate, "whitespace_share": white,
                "policy_entropy": entropy[1], "unit": "documents", "hash": place, "unit_bytes": sizes,
                "unit_bits": [b * n for b, n in zip(per_byte, sizes, strict=True)],
            }  # fmt: skip
        else:
            scores[place] = {
                "bits_per_byte": sum(per_byte) / UNITS,
                "accuracy": 0.5,
                "chance": 0.25,
                "items": UNITS,
                "fingerprint": place,
            }
            scores[place]["item_bits_per_byte"] = per_byte
    curve = [
        {"step": step, "bytes": 1000 * step, "flops": 1e9 * step, "attention_flops": 1e7 * step,
         "policy_entropy": entropy[step > 5], "whitespace_share": white, "advantage_rms": 2.0, "rate": rate,
         "nll": 1.0, "early_nll": 1.0 + 0.01 * step}
        for step in range(1, 21)
    ]  # fmt: skip
    last = bits["validation"] if isinstance(bits, dict) else bits
    held_out = [{**point, "bits_per_byte": last + 1 - point["step"] / 20} for point in curve[::5]] + [
        {**curve[-1], "bits_per_byte": last}
    ]
    drawn = {text: "01" * (len(words.encode()) // 2 + 1) for text, words in FIXED_TEXTS.items()}
    view = {
        text: {"text": words.encode().decode("latin-1"), "boundaries": drawn[text][: len(words.encode())], "percent": None}
        for text, words in FIXED_TEXTS.items()
    }
    entries = {
        "schema": SCHEMA, "what": WHAT, "sweep": sweep, "name": name, "seed": seed, "full": full, "config": config.to_dict(),
        "config_hash": config.digest(), "commit": "0" * 40, "device": "cpu", "versions": {},
        "data": {"name": "text", "train": {}}, "bytes": 20_000, "seconds": 5.0, "flops": 2e10,
        "attention_flops": 2e8, "matrix_parameters": 31_900_000, "scores": scores,
        "curve": curve, "held_out": held_out, "samples": [view["prose"] | {"row": 0}],
        "positions": {"start": [0, 8, 16, 24], "rewards": [0.0, 0.1, 0.1, 0.1], "returns": [0.5, 1.0, 0.9, 0.2], "gamma": 0.99},
        "snapshots": [{"step": step, **view} for step in (0, 1, 5, 20)],
    }  # fmt: skip
    return with_digest(json.loads(json.dumps(entries)))


def sweep_of(*records):
    """The sweep of these records."""
    runs = {}
    for one in records:
        runs.setdefault(one["name"], {})[one["seed"]] = one
    return Sweep(records[0]["sweep"], runs, [])


def with_repeats(sweep, *records):
    """The sweep with runs of seeds that it has already."""
    repeats = {}
    for one in records:
        repeats.setdefault(one["name"], {}).setdefault(one["seed"], []).append(one)
    return Sweep(sweep.name, sweep.runs, sweep.failed, repeats)


def seeds_of(name, bits, seeds=3, **more):
    """Runs of a method with so many seeds, whose losses differ a little."""
    return [record(name, seed, bits=bits + 0.002 * (seed - 1), **more) for seed in range(seeds)]


def write(folder, *records, repeat=1):
    """Each record in its file."""
    for one in records:
        place = folder / one["sweep"] / ("repeats" if repeat > 1 else "")
        place.mkdir(parents=True, exist_ok=True)
        number = f"-{repeat}" if repeat > 1 else ""
        (place / f"{one['name']}-seed{one['seed']}{number}.json").write_text(json.dumps(one))


def rows_of(table):
    """Cells of a Markdown table, head first."""
    lines = [line.strip("| ").split(" | ") for line in table.splitlines()]
    return [lines[0], *lines[2:]]
