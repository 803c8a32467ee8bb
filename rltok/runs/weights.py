"""One safetensors file that holds a whole model: its weights and, in the file's metadata, the settings and the text of its run.

    metadata = {"rltok": JSON of {format, config, config_hash, data}}

Nothing in it is pickled. What a rule was fitted to, such as the merges of BPE, is among the tensors.
"""

import json
from math import prod
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from safetensors import SafetensorError, safe_open

from rltok.config import Config, from_dict
from rltok.errors import RltokError
from rltok.flops import parameter_counts
from rltok.system.files import require_regular

KEY, FORMAT = "rltok", 1
AGAIN = "Write it again with rltok export, or get it again."


def weights_bytes(tensors: dict[str, torch.Tensor], config: Config, data: dict[str, Any] | None, bf16: bool) -> bytes:
    """The content of a file of weights.

    Args:
        tensors: the model's `state_dict`.
        config: of the run.
        data: description of the text that the run was trained on (`Corpus.description`); None where it is not known.
        bf16: round fp32 to bf16, half the size.
    """
    facts = {"format": FORMAT, "config": config.to_dict(), "config_hash": config.digest(), "data": data}
    rounded = torch.bfloat16 if bf16 else torch.float32
    kept = {name: (each.to(rounded) if each.is_floating_point() else each).contiguous() for name, each in tensors.items()}
    return safetensors.torch.save(kept, {KEY: json.dumps(facts, allow_nan=False)})


def _open(path: Path) -> Any:
    require_regular(path)
    try:
        return safe_open(path, framework="pt")
    except (OSError, SafetensorError) as error:
        raise RltokError(f"{path} is truncated, damaged or no safetensors file ({error}). {AGAIN}") from error


def _damaged(path: Path, why: object) -> RltokError:
    return RltokError(f"{path}: its metadata is damaged ({why}). {AGAIN}")


def no_constant(name: str) -> None:
    """NaN and infinities are no JSON, so `rltok export` writes none."""
    raise ValueError(f"{name} is no number")


def _facts(path: Path) -> tuple[dict[str, Any], int]:
    """The metadata that `weights_bytes` wrote, in the format of today, and how many numbers the file holds."""
    with _open(path) as file:
        stored = (file.metadata() or {}).get(KEY)
        size = sum(prod(file.get_slice(name).get_shape()) for name in file.keys())
    if stored is None:
        raise RltokError(
            f"{path} holds weights without settings: rltok export did not write it. Name the run's folder, or export the run."
        )
    try:
        facts = json.loads(stored, parse_constant=no_constant)
        written = facts["format"]
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise _damaged(path, error) from error
    if written != FORMAT:
        raise RltokError(
            f"{path} has format {written!r}; this version of rltok reads format {FORMAT}. Use the version that wrote it."
        )
    return facts, size


def read_facts(path: Path) -> tuple[Config, dict[str, Any] | None]:
    """Settings of the run in a file of weights, and the description of its text, None where the file has none.

    Raises:
        RltokError: a truncated or foreign file, another format, settings that this version does not have.
    """
    facts, size = _facts(path)
    data = facts.get("data")
    if not isinstance(facts.get("config"), dict) or not isinstance(data, dict | None):
        raise _damaged(path, "config or data is no table")
    try:
        config = from_dict(facts["config"])
    except (RltokError, TypeError, OverflowError, RecursionError) as error:
        raise RltokError(f"{path}: this version does not take its settings ({error}) Use the version that wrote it.") from error
    if facts.get("config_hash") != config.digest():
        raise _damaged(path, "config_hash is not that of its config")
    needed = sum(parameter_counts(config.model).values())
    if size < needed:  # found before a model of that size is made
        raise RltokError(f"{path} holds {size} numbers, and its settings name a model of at least {needed}. {AGAIN}")
    return config, data


def read_tensors(path: Path) -> dict[str, torch.Tensor]:
    """The tensors of a file of weights, bf16 widened to fp32."""
    with _open(path) as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}
    return {name: each.float() if each.dtype == torch.bfloat16 else each for name, each in tensors.items()}
