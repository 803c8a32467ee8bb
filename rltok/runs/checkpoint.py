"""Checkpoints: one folder a step, complete or absent, without pickled code.

    step-00000123/ model.safetensors  optimizer.safetensors  state.json

A folder is written under another name, flushed to disk and renamed, so a kill at any moment leaves either the old set
of checkpoints or the new one. `state.json` holds a digest of each file and of itself, so damage is noticed before anything
is loaded.
"""

import hashlib
import json
import math
import os
import re
import shutil
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import nn

from rltok.config import Config, from_dict
from rltok.errors import RltokError
from rltok.system.digest import digest_matches, with_digest
from rltok.system.files import MISSING, cannot_read, quoted, read_file, room

NAME = re.compile(r"step-(\d{8,})")
FORMAT = 2  # 2: counts tokens
SCALER = torch.amp.GradScaler("cpu").state_dict()  # keys and kinds of its state
WEIGHTS, OPTIMIZER = FILES = ("model.safetensors", "optimizer.safetensors")


def _digest(path: Path) -> str:
    return hashlib.sha256(read_file(path)).hexdigest()


def _flush(path: Path) -> None:
    """Force a file, or a folder's list of names, to the disk."""
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
    place = folder / "checkpoints"
    try:
        names = [name for name in os.listdir(place) if NAME.fullmatch(name)]
    except FileNotFoundError:
        return []
    except NotADirectoryError as error:
        raise RltokError(f"{place} is a file; checkpoints belong in a folder of that name. Move the file away.") from error
    except OSError as error:
        raise cannot_read(place, error) from error
    return sorted((place / name for name in names), key=update_of)


def update_of(checkpoint: Path) -> int:
    """The update after which a checkpoint was saved, from its name."""
    return int(checkpoint.name.removeprefix("step-"))


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


def _drop(checkpoint: Path) -> None:
    """Delete a checkpoint; renamed first, so that a kill half-way leaves no incomplete one under a proper name."""
    doomed = checkpoint.with_suffix(".old.tmp")
    checkpoint.rename(doomed)
    _remove(doomed)


def _write_tensors(path: Path, tensors: dict[str, torch.Tensor]) -> None:
    try:
        safetensors.torch.save_file({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}, path)
    except SafetensorError as error:  # a full disk, for one
        raise RltokError(f"cannot write {path} ({error}). Make room, then go on with --resume.") from error


def save_checkpoint(
    folder: Path, progress: dict[str, Any], model: nn.Module, optimizer: torch.optim.Optimizer, config: Config
) -> Path:
    """Write a checkpoint atomically, then drop the oldest beyond `keep_checkpoints`.

    `progress` says how far the run has come and must hold `step`, the number of finished updates; in fp16 also `skipped`, how
    many of them, and `scaler`, the state of the gradient scaler.
    """
    final = folder / "checkpoints" / f"step-{progress['step']:08d}"
    temporary = final.with_suffix(".tmp")
    with room(folder):
        for leftover in (folder / "checkpoints").glob("*.tmp"):
            _remove(leftover)
        temporary.mkdir(parents=True)
        _write_tensors(temporary / WEIGHTS, model.state_dict())
        _write_tensors(temporary / OPTIMIZER, _optimizer_tensors(optimizer))
        files = {name: _digest(temporary / name) for name in FILES}
        state = {"format": FORMAT, **progress, "config_hash": config.digest(), "config": config.to_dict(), "files": files}
        (temporary / "state.json").write_text(json.dumps(with_digest(state), indent=1, allow_nan=False) + "\n")
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


def _check_state(state: Any, name: str) -> None:
    """Raise `ValueError` unless the state is what `save_checkpoint` writes into a folder of this name."""

    def demand(ok: bool, what: str) -> None:
        if not ok:
            raise ValueError(what)

    demand(isinstance(state, dict), "it is no table")
    demand(digest_matches(state), "it was changed: its digest differs")
    demand(isinstance(state.get("config"), dict), "config is no table")
    config, step, number = from_dict(state["config"]), state.get("step"), NAME.fullmatch(name)
    demand(state.get("config_hash") == config.digest(), "config_hash is not that of its config")
    demand(type(step) is int and 0 <= step <= config.num_updates, f"step must lie between 0 and {config.num_updates}")
    demand(number is None or step == int(number[1]), f"step is {step!r}")
    for name in ("bytes", "tokens"):
        demand(type(state.get(name)) is int and 0 <= state[name] < 2**63, f"{name} must be a whole number, at least 0")
    seconds = state.get("seconds")
    demand(type(seconds) in (int, float) and math.isfinite(seconds) and seconds >= 0, "seconds must be finite and at least 0")
    skipped, scaler = state.get("skipped", 0), state.get("scaler", SCALER)
    demand(type(skipped) is int and 0 <= skipped <= step, f"skipped must lie between 0 and {step}")
    whole = isinstance(scaler, dict) and scaler.keys() == SCALER.keys()
    whole = whole and all(type(value) in (int, float) and 0 <= value < math.inf for value in scaler.values())
    demand(whole, f"scaler must hold {', '.join(SCALER)}, each finite and at least 0")
    files = state.get("files")
    demand(isinstance(files, dict) and files.keys() == set(FILES), f"files must name {' and '.join(FILES)}")


def _read_checked_state(checkpoint: Path) -> dict[str, Any]:
    data = read_file(checkpoint / "state.json")
    try:
        state = json.loads(data)
        written = state.get("format") if isinstance(state, dict) else None
        if written == FORMAT or type(written) is not int:
            _check_state(state, checkpoint.name)
    except RltokError as error:  # a whole state, of settings that today's limits leave out
        raise RltokError(
            f"{checkpoint}: this version does not take its settings ({error}) Use the version that wrote it."
        ) from error
    except (ValueError, TypeError, OverflowError, RecursionError) as error:
        raise RltokError(
            f"{checkpoint} is not a complete checkpoint: state.json is damaged ({error}). {_remedy(checkpoint)}"
        ) from error
    if written != FORMAT:
        raise RltokError(
            f"{checkpoint} has format {written}; this version of rltok reads format {FORMAT}. Use the version that wrote it."
        )
    return state


def _remedy(checkpoint: Path) -> str:
    return f"Delete {checkpoint.name} to go on from the one before it, or train again."


def read_state(checkpoint: Path, files: tuple[str, ...] = FILES) -> dict[str, Any]:
    """The checkpoint's `state.json`, after checking it and comparing files, by default all, with their digests."""
    try:
        state = _read_checked_state(checkpoint)
        damaged = [name for name in files if _digest(checkpoint / name) != state["files"][name]]
    except MISSING as error:
        if not os.path.isdir(checkpoint):
            raise RltokError(f"there is no checkpoint {checkpoint}. Name a run's folder to take its newest one.") from error
        missing = Path(error.filename).name
        raise RltokError(f"{checkpoint} is not a complete checkpoint: {missing} is missing. {_remedy(checkpoint)}") from error
    if damaged:
        raise RltokError(
            f"{checkpoint}: {', '.join(damaged)} is truncated or changed (its digest differs). {_remedy(checkpoint)}"
        )
    return state


def _tensors(checkpoint: Path, name: str) -> dict[str, torch.Tensor]:
    try:
        return safetensors.torch.load_file(checkpoint / name)
    except (OSError, SafetensorError) as error:
        raise RltokError(f"{checkpoint / name} cannot be read ({error}).") from error


def _check_tensors(path: Path, stored: dict[str, torch.Tensor], wanted: dict[str, torch.Tensor]) -> None:
    """Raise `RltokError`, which names the first of them, for tensors of other names, shapes or dtypes, or not finite."""
    for name in sorted(stored.keys() ^ wanted.keys()):
        raise RltokError(f"{path} does not fit this model: {name!r} stands on one side only. Use the settings it was saved with.")
    for name, tensor in stored.items():
        own = wanted[name]
        for got, needed in ((tuple(tensor.shape), tuple(own.shape)), (tensor.dtype, own.dtype)):
            if got != needed:
                raise RltokError(
                    f"{path} does not fit this model: {name} is {got}, wanted {needed}. Use the settings it was saved with."
                )
        if not tensor.isfinite().all():
            raise RltokError(f"{path}: {name} holds a number that is not finite. Use an earlier checkpoint, or train again.")


def fill(model: nn.Module, tensors: dict[str, torch.Tensor], path: Path) -> None:
    """Fill the model with tensors of a file; those that do not fit, or are not finite, are an error that names the first."""
    _check_tensors(path, tensors, model.state_dict())
    model.load_state_dict(tensors)


def load_weights(checkpoint: Path, model: nn.Module) -> None:
    """`fill` from a checkpoint."""
    fill(model, _tensors(checkpoint, WEIGHTS), checkpoint / WEIGHTS)


def _load_optimizer(checkpoint: Path, optimizer: torch.optim.Optimizer, steps: int) -> None:
    """Fill the optimizer; after its first step it must hold AdamW's three values of every parameter."""
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]] if steps else []
    wanted = {}
    for number, parameter in enumerate(parameters):
        wanted |= {f"{number}.exp_avg": parameter, f"{number}.exp_avg_sq": parameter, f"{number}.step": torch.zeros(())}
    stored = _tensors(checkpoint, OPTIMIZER)
    _check_tensors(checkpoint / OPTIMIZER, stored, wanted)
    whole = optimizer.state_dict()
    whole["state"] = {}
    for key, tensor in stored.items():
        number, name = key.split(".", 1)
        whole["state"].setdefault(int(number), {})[name] = tensor
    optimizer.load_state_dict(whole)


def restore(checkpoint: Path, model: nn.Module, optimizer: torch.optim.Optimizer, config: Config) -> dict[str, Any]:
    """Fill model and optimizer from a checkpoint of the same configuration; returns its state: step, bytes, tokens, ..."""
    state = read_state(checkpoint)
    if state["config_hash"] != config.digest():
        changed = differences(state["config"], config.to_dict()) or ["their hashes differ"]
        raise RltokError(
            f"{checkpoint} belongs to another configuration: {'; '.join(changed[:3])}. Use the same settings or another folder."
        )
    load_weights(checkpoint, model)
    _load_optimizer(checkpoint, optimizer, state["step"] - state.get("skipped", 0))
    return state


def differences(old: dict[str, Any], new: dict[str, Any], path: str = "") -> list[str]:
    """Settings that differ, as 'objective.gamma 0.99 -> 0.9'; the name is not a setting."""
    changes = []
    for key in sorted(old.keys() | new.keys()):
        here = f"{path}{key}"
        before, after = old.get(key), new.get(key)
        if isinstance(before, dict) and isinstance(after, dict):
            changes += differences(before, after, here + ".")
        elif before != after and here != "name":
            changes.append(f"{here} {before!r} -> {after!r}")
    return changes


def find_checkpoint(path: str | Path) -> Path:
    """The checkpoint that a path names: the path itself, or the newest checkpoint of a run's folder."""
    path = Path(path)
    if os.path.isfile(path / "state.json") or (NAME.fullmatch(path.name) and path.parent.name == "checkpoints"):
        return path
    if not os.path.isdir(path):
        train = f"Train one: rltok train --preset tiny --data sample --out {quoted(path)}"
        remedy = "Name a folder." if os.path.lexists(path) else train
        raise RltokError(f"{path} is neither a run's folder nor a checkpoint. {remedy}")
    stored = checkpoints(path)
    runs = sorted(entry.name for entry in path.iterdir() if os.path.isfile(entry / "config.json"))
    if not stored and runs:
        raise RltokError(f"{path} holds several runs: {', '.join(runs)}. Name one of them, such as {path / runs[0]}.")
    if not stored:
        raise RltokError(
            f"{path} holds no finished checkpoint. Let training reach its first one: the command that began it, with --resume."
        )
    return stored[-1]
