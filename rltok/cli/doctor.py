"""`rltok doctor`: what this machine can run, and how fast measured cards are."""

import argparse
import importlib.util
import json
import os
import shutil
from typing import Any

import torch

from rltok.data.sources import documents
from rltok.device import memory_bytes, resolve_device
from rltok.errors import RltokError
from rltok.kernels import backends
from rltok.presets import preset
from rltok.runs.results import device_name, versions
from rltok.speed.speeds import Speed, measured_speeds

EXTRAS = {
    "data": "datasets", "bpe": "tokenizers", "board": "tensorboard", "lab": "jupyterlab", "notebook": "nbval", "test": "pytest",
}  # fmt: skip
LEGEND = (
    "rows: of a forward pass; fewer change the estimator, eq. (17) (train with --set train.micro_batch=ROWS)."
    " memory: at its peak. hours: for the preset's training bytes."
)


def doctor(options: argparse.Namespace) -> None:
    """`rltok doctor`."""
    report = examine(resolve_device(options.device))
    print(json.dumps(report, indent=1, allow_nan=False) if options.json else "\n".join(lines(report)))


def examine(device: torch.device) -> dict[str, Any]:
    """Everything that the command reports, as plain values."""
    bf16 = device.type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False)
    try:
        backend, why = backends.chosen(device, bf16)
    except RltokError as error:  # a diagnosis is wanted most where something does not run
        backend, why = "none", str(error)
    try:
        speeds, damage = measured_speeds(), None
    except RltokError as error:
        speeds, damage = [], str(error)
    installed = versions()
    return {
        "versions": installed,
        "device": device_name(device),
        "memory_bytes": memory_bytes(device),
        "cards": torch.cuda.device_count(),
        "bf16": bf16,
        "backend": backend,
        "why_backend": why,
        "triton": installed.get("triton"),
        "torch_compile": _can_compile(device),
        "extras": {extra: importlib.util.find_spec(module) is not None for extra, module in EXTRAS.items()},
        "sample_bytes": sum(len(document.text) for document in documents("sample")),
        "measured": speeds,
        "damage": damage,
    }


def _can_compile(device: torch.device) -> bool:
    """Whether torch.compile finds what it builds with: Triton for a card, a C++ compiler for the CPU."""
    if device.type == "cuda":
        return importlib.util.find_spec("triton") is not None
    return any(shutil.which(name) for name in (os.environ.get("CXX") or "g++", "clang++"))


def lines(report: dict[str, Any]) -> list[str]:
    """The report as lines for a terminal."""
    measured = report["device"] in {row["device"] for row in report["measured"]}
    return [
        "versions  " + ", ".join(f"{name} {number}" for name, number in report["versions"].items()),
        f"device    {report['device']}, {report['memory_bytes'] / 1e9:.0f} GB,"
        f" forward passes in {'bf16' if report['bf16'] else 'fp32'}",
        f"torchrun  {_cards(report['cards'])}",
        f"backend   {report['backend']}: {report['why_backend']}",
        f"compilers triton {report['triton'] or 'no'}, torch.compile {'yes' if report['torch_compile'] else 'no'}",
        "extras    " + ", ".join(f"{name} {'yes' if there else 'no'}" for name, there in report["extras"].items()),
        f"sample    {report['sample_bytes']} bytes of bundled text",
        "",
        *([f"no table: {report['damage']}"] if report["damage"] else _table(report["measured"])),
        *([] if measured else ["This machine was not measured: `rltok bench --updates 5` measures it."]),
    ]


def _cards(count: int) -> str:
    """How many there are, and with which options torchrun takes all of them."""
    how = f": --standalone --nproc-per-node {count} -m rltok train ..." if count > 1 else ""
    return f"{count} card{'s' * (count != 1)}{how}"


def _table(speeds: list[Speed]) -> list[str]:
    rows = [f"{'card':24s}{'preset':8s}{'backend':9s}{'rows':>5s}{'memory':>8s}{'MB/s':>7s}{'hours':>7s}  {'tokens a byte'}"]
    for row in speeds:
        rate = row["bytes_per_second"]
        hours = preset(row["preset"]).train.training_bytes / rate / 3600
        numbers = f"{row['micro_batch']:5d}{row['peak_memory_bytes'] / 1e9:5.0f} GB{rate / 1e6:7.3g}{hours:7.2g}"
        rows.append(f"{row['device']:24s}{row['preset']:8s}{row['backend']:9s}{numbers}  {row['tokens_per_byte']:.2f}")
    return [*rows, "", LEGEND]
