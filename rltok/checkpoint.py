"""Checkpoints: one folder a step, complete or absent, without pickled code.

    step-00000123/ model.safetensors  optimizer.safetensors  state.json

A folder is written under another name, flushed to disk and renamed, so a kill at any moment leaves either the old set
of checkpoints or the new one. `state.json` holds a digest of each file, so damage is noticed before anything is loaded.
"""

import hashlib
import json
import os
import shutil
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import nn

from rltok.config import Config
from rltok.errors import RltokError

PREFIX = "step-"
FORMAT = 1


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _flush(path: Path) -> None:
    """Ask the system to put a file, or a folder's list of names, on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _optimizer_tensors(optimizer: torch.optim.Optimizer) -> dict[str, torch.Tensor]:
    states = optimizer.state_dict()["state"]
    return {f"{number}.{key}": torch.as_tensor(value) for number, state in states.items() for key, value in state.items()}


def checkpoints(folder: Path) -> list[Path]:
    """Complete checkpoints of a run, oldest first."""
    return sorted(path for path in (folder / "checkpoints").glob(PREFIX + "*") if path.suffix != ".tmp")


def _drop(checkpoint: Path) -> None:
    """Delete a checkpoint; renamed first, so that a kill half-way leaves no incomplete one under a proper name."""
    doomed = checkpoint.with_suffix(".old.tmp")
    checkpoint.rename(doomed)
    shutil.rmtree(doomed)


def _write_tensors(path: Path, tensors: dict[str, torch.Tensor]) -> None:
    try:
        safetensors.torch.save_file({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}, path)
    except SafetensorError as error:  # a full disk, for one
        raise RltokError(f"cannot write {path} ({error}). Make room, then go on with --resume.") from error


def save_checkpoint(
    folder: Path, progress: dict[str, int | float], model: nn.Module, optimizer: torch.optim.Optimizer, config: Config
) -> Path:
    """Write a checkpoint atomically, then drop the oldest beyond `keep_checkpoints`.

    `progress` says how far the run has come and must hold `step`, the number of finished updates.
    """
    final = folder / "checkpoints" / f"{PREFIX}{progress['step']:08d}"
    temporary = final.with_suffix(".tmp")
    for leftover in (folder / "checkpoints").glob("*.tmp"):
        shutil.rmtree(leftover)
    temporary.mkdir(parents=True)
    _write_tensors(temporary / "model.safetensors", model.state_dict())
    _write_tensors(temporary / "optimizer.safetensors", _optimizer_tensors(optimizer))
    files = {path.name: _digest(path) for path in sorted(temporary.glob("*.safetensors"))}
    state = {"format": FORMAT, **progress, "config_hash": config.digest(), "config": config.to_dict(), "files": files}
    (temporary / "state.json").write_text(json.dumps(state, indent=1) + "\n")
    for path in (*temporary.iterdir(), temporary):
        if path.is_file():  # safetensors makes files that only their owner can read; others may look at a run, too
            shutil.copymode(temporary / "state.json", path)
        _flush(path)
    if final.exists():
        _drop(final)
    temporary.rename(final)
    _flush(final.parent)
    for old in checkpoints(folder)[: -config.train.keep_checkpoints]:
        _drop(old)
    return final


def read_state(checkpoint: Path) -> dict[str, Any]:
    """The checkpoint's `state.json`, after comparing every file with its digest."""
    remedy = f"Delete {checkpoint.name} to go on from the one before it, or train again."
    try:
        state = json.loads((checkpoint / "state.json").read_text())
        damaged = [name for name, digest in state["files"].items() if _digest(checkpoint / name) != digest]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise RltokError(f"{checkpoint} is not a complete checkpoint ({error}). {remedy}") from error
    if damaged:
        raise RltokError(f"{checkpoint}: {', '.join(damaged)} is truncated or changed (its digest differs). {remedy}")
    if state.get("format") != FORMAT:
        raise RltokError(f"{checkpoint} has format {state.get('format')}; this version of rltok reads format {FORMAT}.")
    return state


def _tensors(checkpoint: Path, name: str) -> dict[str, torch.Tensor]:
    try:
        return safetensors.torch.load_file(checkpoint / name)
    except (OSError, SafetensorError) as error:
        raise RltokError(f"{checkpoint / name} cannot be read ({error}).") from error


def load_weights(checkpoint: Path, model: nn.Module) -> None:
    """Fill the model from a checkpoint; shapes that do not fit are an error that names the first of them."""
    loaded, own = _tensors(checkpoint, "model.safetensors"), model.state_dict()
    for name in sorted(loaded.keys() ^ own.keys()):
        raise RltokError(f"{checkpoint} does not fit this model: {name!r} stands on one side only.")
    for name, tensor in loaded.items():
        if tensor.shape != own[name].shape:
            raise RltokError(
                f"{checkpoint} does not fit this model: {name} is {tuple(tensor.shape)}, wanted {tuple(own[name].shape)}."
            )
    model.load_state_dict(loaded)


def restore(checkpoint: Path, model: nn.Module, optimizer: torch.optim.Optimizer, config: Config) -> dict[str, Any]:
    """Fill model and optimizer from a checkpoint of the same configuration; returns its state: step, bytes, seconds."""
    state = read_state(checkpoint)
    if state["config_hash"] != config.digest():
        changed = differences(state["config"], config.to_dict())
        raise RltokError(
            f"{checkpoint} belongs to another configuration: {'; '.join(changed[:3])}. Use the same settings or another folder."
        )
    load_weights(checkpoint, model)
    whole = optimizer.state_dict()
    whole["state"] = {}
    for key, tensor in _tensors(checkpoint, "optimizer.safetensors").items():
        number, name = key.split(".", 1)
        whole["state"].setdefault(int(number), {})[name] = tensor
    optimizer.load_state_dict(whole)
    return state


def differences(old: dict[str, Any], new: dict[str, Any], path: str = "") -> list[str]:
    """Settings that differ, as 'objective.gamma 0.99 -> 0.9'; the name is not a setting."""
    found = []
    for key in sorted(old.keys() | new.keys()):
        here = f"{path}{key}"
        before, after = old.get(key), new.get(key)
        if isinstance(before, dict) and isinstance(after, dict):
            found += differences(before, after, here + ".")
        elif before != after and here != "name":
            found.append(f"{here} {before!r} -> {after!r}")
    return found


def find_checkpoint(path: str | Path) -> Path:
    """The checkpoint meant by a path: itself, or the newest of a run's folder."""
    path = Path(path)
    if (path / "state.json").is_file() or (path.name.startswith(PREFIX) and path.parent.name == "checkpoints"):
        return path
    if not path.is_dir():
        raise RltokError(
            f"{path} is neither a run's folder nor a checkpoint. Train one: rltok train --preset tiny --data sample --out {path}"
        )
    found = checkpoints(path)
    runs = sorted(entry.name for entry in path.iterdir() if (entry / "config.json").is_file())
    if not found and runs:
        raise RltokError(f"{path} holds several runs: {', '.join(runs)}. Name one of them, such as {path / runs[0]}.")
    if not found:
        raise RltokError(
            f"{path} holds no finished checkpoint. Let training reach its first one: rltok train ... --out {path} --resume"
        )
    return found[-1]
