"""Where a model runs, with how much memory, in which precision, and on which backend."""

import contextlib
import os

import torch

from rltok.config import Config
from rltok.errors import RltokError
from rltok.kernels import backends


def resolve_device(name: str) -> torch.device:
    """The device called `name`; "auto" takes a CUDA card when there is one.

    Raises:
        RltokError: no such device, none that rltok runs on, or no card.
    """
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise RltokError(f"there is no device {name!r}. Use auto, cpu or cuda.") from error
    if device.type not in ("cpu", "cuda"):
        raise RltokError(f"rltok does not run on {name!r}. Use auto, cpu or cuda.")
    if device.type == "cuda" and not torch.cuda.is_available():
        raise RltokError(f"device {name!r} was asked for, but torch {torch.__version__} sees no CUDA card. Use --device cpu.")
    return device


def memory_bytes(device: torch.device) -> int:
    """Memory of a card, or of the machine; 0 where the system does not say."""
    if device.type == "cuda":
        return torch.cuda.get_device_properties(device).total_memory
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else 0


def uses_bf16(config: Config, device: torch.device) -> bool:
    """Whether forward passes run under bf16 autocast: by setting, or "auto" on a card that has it."""
    if config.train.precision == "auto":
        return device.type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False)
    return config.train.precision == "bf16"


def autocast(config: Config, device: torch.device) -> contextlib.AbstractContextManager:
    """bf16 autocast where `uses_bf16` says so, else nothing."""
    return torch.autocast(device.type, torch.bfloat16) if uses_bf16(config, device) else contextlib.nullcontext()


def backend_of(config: Config, device: torch.device) -> tuple[str, str]:
    """`backends.chosen` for training with a configuration: ("plain" or "triton", why)."""
    return backends.chosen(device, uses_bf16(config, device), config.model.head_dim)
