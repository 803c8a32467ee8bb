"""Where a model runs, with how much memory, in which precision, and on which backend."""

import contextlib
import os

import torch

from rltok.config import Config
from rltok.errors import RltokError
from rltok.kernels import backends

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}  # by `train.precision`
PRECISIONS = {torch.float32: "fp32", torch.bfloat16: "bf16 autocast", torch.float16: "fp16 autocast"}  # as records name them


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


def precision_of(config: Config, device: torch.device) -> torch.dtype:
    """dtype of matrix products: `train.precision`; "auto" is bf16 on cards that have it, fp16 on others, fp32 on a CPU."""
    if config.train.precision != "auto":
        return DTYPES[config.train.precision]
    if device.type != "cuda":
        return torch.float32
    return torch.bfloat16 if torch.cuda.is_bf16_supported(including_emulation=False) else torch.float16


def autocast(config: Config, device: torch.device) -> contextlib.AbstractContextManager:
    """Autocast to `precision_of`; nothing in fp32."""
    dtype = precision_of(config, device)
    return contextlib.nullcontext() if dtype == torch.float32 else torch.autocast(device.type, dtype)


def gradient_scaler(config: Config, device: torch.device) -> torch.amp.GradScaler:
    """What keeps small gradients from becoming 0 in fp16: the loss times a scale, which it adapts. Idle in other precisions."""
    return torch.amp.GradScaler(device.type, enabled=precision_of(config, device) == torch.float16)


def backend_of(config: Config, device: torch.device) -> tuple[str, str]:
    """`backends.chosen` for training with a configuration: ("plain" or "triton", why).

    Raises:
        RltokError: a precision or a backend that cannot be had on the device.
    """
    dtype = precision_of(config, device)
    if dtype == torch.float16 and device.type != "cuda":
        raise RltokError(f"train.precision='fp16' needs a CUDA card; the device is {device.type}. Set it to auto, fp32 or bf16.")
    return backends.chosen(device, dtype, config.model.head_dim)
