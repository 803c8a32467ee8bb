"""`rltok doctor`: what this machine can run, and how fast measured cards are."""

import argparse
import importlib.util
import json
import os
import shutil
from pathlib import Path
from typing import Any

import torch

from rltok.config import Config
from rltok.data.sources import documents
from rltok.device import PRECISIONS, memory_bytes, precision_of, resolve_device
from rltok.errors import RltokError
from rltok.kernels import backends
from rltok.presets import preset
from rltok.runs.results import device_name, versions
from rltok.speed.fitting import that_fits
from rltok.speed.speeds import Speed, measured_speeds

EXTRAS = {
    "data": "datasets", "bpe": "tokenizers", "board": "tensorboard", "lab": "jupyterlab", "notebook": "nbval", "test": "pytest",
}  # fmt: skip
WORDS = {"bf16 autocast": "bf16", "fp16 autocast": "fp16 with a gradient scaler"}  # for a reader
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
    dtype = precision_of(Config(), device)
    try:
        backend, why = backends.chosen(device, dtype)
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
        "precision": PRECISIONS[dtype],
        "backend": backend,
        "why_backend": why,
        "triton": installed.get("triton"),
        "torch_compile": _can_compile(device),
        "kernel_cache": _kernel_cache() if installed.get("triton") else None,
        "extras": {extra: importlib.util.find_spec(module) is not None for extra, module in EXTRAS.items()},
        "sample_bytes": sum(len(document.text) for document in documents("sample")),
        "measured": speeds,
        "damage": damage,
        "fits": _fitting(memory_bytes(device), dtype, speeds) if device.type == "cuda" else None,
    }


def _fitting(memory: int, dtype: torch.dtype, speeds: list[Speed]) -> dict[str, int | None]:
    """Rows of a forward pass that should fit a card, by preset that was measured; None where too few do."""
    chosen = {name: that_fits(preset(name), memory, dtype == torch.bfloat16, speeds) for name in _presets(speeds)}
    return {name: None if config is None else config.train.micro_batch for name, config in chosen.items()}


def _presets(speeds: list[Speed]) -> list[str]:
    return sorted({row["preset"] for row in speeds}, key=lambda name: preset(name).model.embedding_dim)


def _kernel_cache() -> dict[str, Any]:
    """The folder where Triton keeps compiled kernels, and how many bytes it holds."""
    from triton import knobs  # here, because it takes a while

    folder = Path(knobs.cache.dir)
    return {"folder": str(folder), "bytes": sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())}


def _can_compile(device: torch.device) -> bool:
    """Whether torch.compile finds what it builds with: Triton for a card, a C++ compiler for the CPU."""
    if device.type == "cuda":
        return importlib.util.find_spec("triton") is not None
    return any(shutil.which(name) for name in (os.environ.get("CXX") or "g++", "clang++"))


def lines(report: dict[str, Any]) -> list[str]:
    """The report as lines for a terminal."""
    cache = report["kernel_cache"]
    measured = report["device"] in {row["device"] for row in report["measured"]}
    return [
        "versions  " + ", ".join(f"{name} {number}" for name, number in report["versions"].items()),
        f"device    {report['device']}, {report['memory_bytes'] / 1e9:.0f} GB,"
        f" forward passes in {WORDS.get(report['precision'], report['precision'])}",
        f"torchrun  {_cards(report['cards'])}",
        f"backend   {report['backend']}: {report['why_backend']}",
        *([] if report["fits"] is None else [f"fits      {_fits(report['fits'])}"]),
        f"compilers triton {report['triton'] or 'no'}, torch.compile {'yes' if report['torch_compile'] else 'no'}",
        *([] if cache is None else [f"kernels   {cache['folder']}, {cache['bytes'] / 1e6:.0f} MB (TRITON_CACHE_DIR)"]),
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


def _fits(rows: dict[str, int | None]) -> str:
    each = (f"{name} {'does not' if count is None else f'at {count} rows a pass'}" for name, count in rows.items())
    return f"{', '.join(each)}, by the memory measured below"


def _table(speeds: list[Speed]) -> list[str]:
    rows = [f"{'card':24s}{'preset':8s}{'backend':9s}{'rows':>5s}{'memory':>8s}{'MB/s':>7s}{'hours':>7s}  {'tokens a byte'}"]
    for row in speeds:
        rate = row["bytes_per_second"]
        hours = preset(row["preset"]).train.training_bytes / rate / 3600
        numbers = f"{row['micro_batch']:5d}{row['peak_memory_bytes'] / 1e9:5.0f} GB{rate / 1e6:7.3g}{hours:7.2g}"
        rows.append(f"{row['device']:24s}{row['preset']:8s}{row['backend']:9s}{numbers}  {row['tokens_per_byte']:.2f}")
    return [*rows, "", LEGEND]
