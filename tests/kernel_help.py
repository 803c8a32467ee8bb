"""What the tests of kernels share: where they run, in which dtype, and gradients of a function beside those of its reference."""

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
# Triton's interpreter multiplies no bf16 matrices. Errors below are relative to the length of the reference.
NARROW, ROUNDING = (torch.bfloat16, 2**-8) if DEVICE.type == "cuda" else (torch.float16, 2**-11)


@contextmanager
def poisoned() -> Iterator[None]:
    """Memory that a function asks for and does not write is NaN."""
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # some operations of the plain path have no deterministic form on a card
            yield
    finally:
        torch.use_deterministic_algorithms(False)


def outputs_and_gradients(
    function: Callable[..., tuple[Tensor, ...]], inputs: list[Tensor], weights: list[Tensor]
) -> list[Tensor]:
    """What the function returns, and the gradient of the weighted sum of it by every input."""
    leaves = [x.detach().clone().requires_grad_() for x in inputs]
    made = function(*leaves)
    sum((x.to(w.dtype) * w).sum() for x, w in zip(made, weights, strict=True)).backward()
    return [x.detach() for x in made] + [x.grad for x in leaves]


def relative_errors(
    kernel: Callable[..., tuple[Tensor, ...]], reference: Callable[..., tuple[Tensor, ...]], inputs: list[Tensor]
) -> list[float]:
    """||actual - expected|| / ||expected|| of outputs and gradients; the reference works on the inputs in float64."""
    with torch.no_grad():
        shapes = [x.shape for x in reference(*(x.double() for x in inputs))]
    weights = [randn(*shape, seed=100 + number, dtype=torch.float64) for number, shape in enumerate(shapes)]
    expected = outputs_and_gradients(reference, [x.double() for x in inputs], weights)
    with poisoned():
        actual = outputs_and_gradients(kernel, inputs, weights)
    return [float((f.double() - e).norm() / e.norm().clamp(min=1e-12)) for f, e in zip(actual, expected, strict=True)]


def randn(*shape: int, seed: int, dtype: torch.dtype = torch.float32, scale: float = 1.0) -> Tensor:
    """Normal numbers on the device, the same everywhere."""
    generator = torch.Generator().manual_seed(seed)
    return (scale * torch.randn(*shape, generator=generator)).to(DEVICE, dtype)


@contextmanager
def waits() -> Iterator[list[str]]:
    """Collects one entry for every time that the processor waits for the card, as far as torch notices."""
    warned: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        torch.cuda.set_sync_debug_mode("warn")
        try:
            yield warned
        finally:
            torch.cuda.set_sync_debug_mode("default")
    warned += [str(warning.message) for warning in caught if "called a synchronizing" in str(warning.message)]
