"""Plain PyTorch or Triton kernels: which twin of an operation runs.

Both compute the same function. `auto` takes the kernels of `rltok.kernels` on a CUDA card with bf16 where Triton is
installed, and only inside bf16 autocast, for which they are written; everything else is plain, fp16 too: the cards that
need it are older than what Triton compiles for. RLTOK_BACKEND and `use` override it.
"""

import contextlib
import functools
import importlib.util
import os
from collections.abc import Iterator

import torch
from torch import Tensor

from rltok.errors import RltokError

CHOICES = ("auto", "plain", "triton")
OLDEST_TORCH = (2, 8)  # the first that multiplies 16-bit matrices into fp32 ones; its Triton is 3.4
_NO_CARD = "device {} is no CUDA card"
HEAD_DIMS = (16, 32, 64, 128, 256)  # what the tiles of attention can be
_stack: list[str] = []
_graphs: list[bool] = []


def _checked(name: str, source: str) -> str:
    if name not in CHOICES:
        raise RltokError(f"{source} must be one of {', '.join(CHOICES)}; got {name!r}.")
    return name


def requested() -> str:
    """The backend of the innermost `use`, else of RLTOK_BACKEND, else "auto"."""
    return _stack[-1] if _stack else _checked(os.environ.get("RLTOK_BACKEND") or "auto", "RLTOK_BACKEND")


@contextlib.contextmanager
def use(name: str) -> Iterator[None]:
    """Take a backend for everything inside: `with rltok.kernels.backends.use("plain"): ...`."""
    _stack.append(_checked(name, "backend"))
    try:
        yield
    finally:
        _stack.pop()


@contextlib.contextmanager
def graphs(allowed: bool) -> Iterator[None]:
    """Whether CUDA graphs may run inside, where they save time. True says that each forward pass is followed by one backward pass
    before the next; training does. False is never overruled inside."""
    _graphs.append(allowed)
    try:
        yield
    finally:
        _graphs.pop()


def graphs_allowed() -> bool:
    """Whether `graphs` allows them here; outside of it they are not."""
    return bool(_graphs) and all(_graphs)


def interpreted() -> bool:
    """Whether Triton interprets its kernels, which then run on the CPU."""
    return os.environ.get("TRITON_INTERPRET") == "1"


def _torch_release() -> tuple[int, ...]:
    return tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2])


@functools.cache
def _installed() -> bool:
    return importlib.util.find_spec("triton") is not None


@functools.cache
def _card_problem(index: int | None) -> str | None:
    if not torch.cuda.is_available():
        return "there is no CUDA card"
    index = torch.cuda.current_device() if index is None else index
    major, minor = torch.cuda.get_device_capability(index)
    if major < 8:
        return f"{torch.cuda.get_device_name(index)} has compute capability {major}.{minor}, and bf16 needs 8.0"
    return None


def problem(device: torch.device) -> str | None:
    """Why the kernels cannot run on a device, or None."""
    if not _installed():
        return "Triton is not installed"
    if _torch_release() < OLDEST_TORCH:
        return f"torch {torch.__version__} is older than {'.'.join(map(str, OLDEST_TORCH))}"
    if interpreted():
        return None
    if device.type != "cuda":
        return _NO_CARD.format(device.type)
    if torch.version.hip is not None:
        return "they were never tried on AMD cards"
    return _card_problem(device.index)


def chosen(device: torch.device, dtype: torch.dtype, head_dim: int | None = None) -> tuple[str, str]:
    """("plain" or "triton", why) for forward passes on a device.

    Args:
        dtype: of the products in them (`rltok.device.precision_of`).
        head_dim: width of a head of attention, where there is one.

    Raises:
        RltokError: "triton" was asked for and cannot be had.
    """
    name, why, narrow = requested(), problem(device), None if dtype == torch.bfloat16 else "forward passes are not in bf16"
    if head_dim is not None and head_dim not in HEAD_DIMS:
        widths = f"{', '.join(map(str, HEAD_DIMS[:-1]))} or {HEAD_DIMS[-1]}"
        narrow = narrow or f"heads of attention are {head_dim} wide, and kernels take {widths} (see model.num_heads)"
    if name == "plain":
        return "plain", "asked for"
    if name == "triton":
        if why or narrow:
            raise RltokError(
                f"backend 'triton' cannot run here: {why or narrow}. Take 'auto' or 'plain': they compute the same function."
            )
        return "triton", "asked for"
    if device.type != "cuda":  # also where Triton interprets: that is for tests, which ask for it
        why = why or _NO_CARD.format(device.type)
    return ("plain", why or narrow) if why or narrow else ("triton", "bf16 on a CUDA card")


def fused(x: Tensor, head_dim: int | None = None) -> bool:
    """Whether an operation on this tensor takes its Triton twin: inside bf16 autocast, where `chosen` says so."""
    kind = x.device.type
    if not torch.is_autocast_enabled(kind):
        return False
    # the interpreter multiplies no bf16 matrices, so that tests on the CPU take fp16
    if torch.get_autocast_dtype(kind) != (torch.float16 if interpreted() and kind == "cpu" else torch.bfloat16):
        return False
    return chosen(x.device, torch.bfloat16, head_dim)[0] == "triton"
