"""`rltok doctor`: what this machine can run, and what common cards could."""

import argparse
import importlib.util
import json
import os
import shutil
from dataclasses import asdict
from typing import Any

import torch

from rltok.data.sources import documents
from rltok.device import memory_bytes, resolve_device
from rltok.errors import RltokError
from rltok.kernels import backends
from rltok.runs.results import device_name, versions
from rltok.speed.cards import CARDS, card_of
from rltok.speed.speeds import LEGEND, RULE, SHOWN, Outlook, measured_speeds, outlooks, table

EXTRAS = {
    "data": "datasets", "bpe": "tokenizers", "board": "tensorboard", "lab": "jupyterlab", "notebook": "nbval", "test": "pytest",
}  # fmt: skip
NEVER_TRIED = "A T4 was never available: what stands here of it follows from its datasheet, and nobody has run rltok on one."


def doctor(options: argparse.Namespace) -> None:
    """`rltok doctor`."""
    report = examine(resolve_device(options.device))
    print(json.dumps(report, indent=1, allow_nan=False) if options.json else "\n".join(lines(report)))


def examine(device: torch.device) -> dict[str, Any]:
    """Everything the command tells, as plain values."""
    bf16 = device.type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False)
    try:
        backend, why = backends.chosen(device, bf16)
    except RltokError as error:  # a diagnosis is wanted most where something does not run
        backend, why = "none", str(error)
    found = versions()
    card = card_of(device_name(device))
    try:
        speeds, damage = measured_speeds(), None
    except RltokError as error:
        speeds, damage = [], str(error)
    return {
        "versions": found,
        "device": device_name(device),
        "memory_bytes": memory_bytes(device),
        "bf16": bf16,
        "backend": backend,
        "why_backend": why,
        "triton": found.get("triton"),
        "torch_compile": _can_compile(device),
        "known_card": None if card is None else card.name,
        "extras": {extra: importlib.util.find_spec(module) is not None for extra, module in EXTRAS.items()},
        "sample_bytes": sum(len(document.text) for document in documents("sample")),
        "cards": [asdict(card) for card in CARDS],
        "outlooks": [asdict(each) for each in outlooks(speeds)],
        "measured": speeds,
        "damage": damage,
        "rule": RULE,
        "never_tried": NEVER_TRIED,
    }


def _can_compile(device: torch.device) -> bool:
    """Whether torch.compile finds what it builds with: Triton for a card, a C++ compiler for the CPU."""
    if device.type == "cuda":
        return importlib.util.find_spec("triton") is not None
    return any(shutil.which(name) for name in (os.environ.get("CXX") or "g++", "clang++"))


def lines(report: dict[str, Any]) -> list[str]:
    """What a person reads."""
    card = "" if report["known_card"] is None else f", {report['known_card']} in the table below"
    measured = [f"{each['preset']} on {each['device']}, {each['backend']}" for each in report["measured"]]
    missing = [name for name in SHOWN if name not in {each["preset"] for each in report["outlooks"]}]
    unseen = "" if report["known_card"] else "This machine is not in the table: `rltok bench --updates 5` measures it."
    return [
        "versions  " + ", ".join(f"{name} {number}" for name, number in report["versions"].items()),
        f"device    {report['device']}, {report['memory_bytes'] / 1e9:.0f} GB,"
        f" forward passes in {'bf16' if report['bf16'] else 'fp32'}{card}",
        f"backend   {report['backend']}: {report['why_backend']}",
        f"compilers triton {report['triton'] or 'no'}, torch.compile {'yes' if report['torch_compile'] else 'no'}",
        "extras    " + ", ".join(f"{name} {'yes' if there else 'no'}" for name, there in report["extras"].items()),
        f"sample    {report['sample_bytes']} bytes of bundled text",
        "",
        *table([Outlook(**each) for each in report["outlooks"]]),
        "",
        *([f"no table: {report['damage']}"] if report["damage"] else []),
        "measured: " + ("; ".join(measured) + "." if measured else "nothing yet, so there is nothing to estimate from."),
        LEGEND,
        report["rule"] + ".",
        report["never_tried"],
        *([f"{' and '.join(missing)} was not measured on any card yet."] if missing else []),
        *([unseen] if unseen else []),
    ]
