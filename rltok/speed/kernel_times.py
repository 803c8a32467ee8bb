"""Where the time of an update goes, by kind of kernel, and how often something was compiled."""

import re
import sys
from collections.abc import Callable
from typing import Any

import torch
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile

# First match counts. Names are those of CUDA kernels and, on the CPU, of ATen operators; `^_window_` and the like are ours.
GROUPS = {
    "loss heads": r"^_nll_|nll_loss|log_?softmax",
    "attention": r"^_window_|^_row_causal_|flash|fmha|flex|triton_tem|scaled_dot_product|softmax",
    "boundary draw": r"^_scan_",
    "optimizer": r"multi_tensor|adam|_foreach|addcdiv|addcmul|lerp",
    "matrix products": r"gemm|gemv|nvjet|cutlass|xmma|cublas|splitk|::(?:add)?mm\b|::bmm|::linear|mkldnn",
    "copies": r"^_segment_|memcpy|memset|copy|index|gather|scatter|::cat\b|catarray|fill|zero_|embedding"
    r"|sort|scan|cumsum|nonzero",
    "norms and elementwise": r"^_norm_|^_geglu_|^_rope_|elementwise|reduce|triton_(?:poi|red|per)_|norm|gelu"
    r"|::(?:mul|add|sub|div|sum|mean|neg|pow|rsqrt|where|tanh|sigmoid|exp|log|cos|sin|masked_fill|clamp)",
}
OTHER = "other"


def group_of(name: str) -> str:
    """The group that a kernel belongs to by its name, "other" for an unknown one."""
    return next((group for group, pattern in GROUPS.items() if re.search(pattern, name, re.IGNORECASE)), OTHER)


def time_split(update: Callable[[], Any], device: torch.device) -> dict[str, Any]:
    """Seconds of one update by group of kernels, and the names that no group knows; the profiler itself costs time, too.

    On a card the times of its kernels; on the CPU those of operators, without what they call.
    """
    cuda = device.type == "cuda"
    with profile(activities=[ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if cuda else [])]) as profiled:
        update()
    wanted = DeviceType.CUDA if cuda else DeviceType.CPU
    seconds: dict[str, float] = dict.fromkeys([*GROUPS, OTHER], 0.0)
    unknown: dict[str, float] = {}
    for event in profiled.key_averages():
        if event.device_type != wanted or getattr(event, "is_user_annotation", False):
            continue
        spent = (event.self_device_time_total if cuda else event.self_cpu_time_total) / 1e6
        group = group_of(event.key)
        seconds[group] += spent
        if group == OTHER:
            unknown[event.key] = unknown.get(event.key, 0.0) + spent
    total = sum(seconds.values())
    return {
        "seconds": {group: round(spent, 6) for group, spent in seconds.items()},
        "shares": {group: round(spent / total, 4) if total else 0.0 for group, spent in seconds.items()},
        "other": {name[:120]: round(spent, 6) for name, spent in sorted(unknown.items(), key=lambda item: -item[1])},
    }


def compilations() -> int:
    """How many kernels torch.compile and Triton have built in this process so far: a difference counts what came between."""
    dynamo = sys.modules.get("torch._dynamo.utils")
    graphs = dynamo.counters["stats"]["unique_graphs"] if dynamo is not None else 0
    return graphs + sum(_variants(kernel) for kernel in _triton_kernels())


def _triton_kernels() -> list[Any]:
    """Every Triton function of `rltok.kernels` once, out of what it may be wrapped in."""
    kernels = {}
    for name, module in list(sys.modules.items()):
        for value in list(vars(module).values()) if name.startswith("rltok.kernels.") else ():
            while not hasattr(value, "device_caches") and hasattr(value, "fn"):  # an autotuner, or heuristics
                value = value.fn
            if hasattr(value, "device_caches"):
                kernels[id(value)] = value
    return list(kernels.values())


def _variants(kernel: Any) -> int:
    return sum(len(caches[0]) for caches in kernel.device_caches.values())
