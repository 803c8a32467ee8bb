"""Milliseconds of single operations on a CUDA card, each way they can be done: what the fast path is made of.

    python scripts/measure/measure_kernels.py --out notebooks/results/kernels.json

Sizes are those of the preset 147m at 32 rows of 4096 bytes and a boundary at every fifth byte: medians of repeated runs, forward
and backward, on random numbers; beside them the time that the bytes which must move take at the measured copying rate.
"""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch._functorch.config
import torch.nn.functional as F
from torch import Tensor

from rltok import resample
from rltok.attention import row_causal_attention, window_attention
from rltok.errors import RltokError
from rltok.estimator import discounted_returns
from rltok.evidence.measuring import run, stored_record
from rltok.fast import blocks
from rltok.kernels import backends
from rltok.layers import RMSNorm, apply_rotary, rotary_table
from rltok.losses import next_byte_nll
from rltok.policy import sample_boundaries
from rltok.runs.results import device_name, repository_commit, versions
from rltok.system.files import write_json

WHAT = "milliseconds of single operations at the sizes of 147m"
ROWS, LENGTH, HEADS, WIDTH, WINDOW, CAP, LAGS, IDS = 32, 4096, 12, 64, 64, 50.0, 8, 264
DIM, BYTES = HEADS * WIDTH, ROWS * LENGTH
CUDA = torch.device("cuda")


def median(function: Callable[[], Any]) -> float:
    """Milliseconds of one call."""
    from triton.testing import do_bench

    return float(do_bench(function, warmup=10, rep=60, return_mode="median"))


def both_ways(function: Callable[..., Tensor | tuple[Tensor, ...]], *inputs: Tensor) -> list[float]:
    """Milliseconds forward and backward, by all inputs."""
    leaves = [x.requires_grad_() for x in inputs]
    made = function(*leaves)
    made = [made] if isinstance(made, Tensor) else list(made)
    slopes = [torch.randn_like(x) for x in made]
    return [
        median(lambda: function(*leaves)),
        median(lambda: torch.autograd.grad(made, leaves, slopes, retain_graph=True, allow_unused=True)),
    ]


def randn(*shape: int, dtype: torch.dtype = torch.bfloat16) -> Tensor:
    """Normal numbers on the card."""
    return torch.randn(*shape, device=CUDA).to(dtype)


def of_attention(add: Callable[..., None]) -> None:
    """Window and row-causal attention with rotation, from what the projection gives."""
    qkv, rotary = randn(ROWS, LENGTH, 3, HEADS, WIDTH), rotary_table(torch.arange(LENGTH, device=CUDA), WIDTH, 1e4)

    def window(qkv: Tensor, backend: str) -> Tensor:
        q, k, v = qkv.unbind(2)
        return window_attention(
            apply_rotary(q, *rotary), apply_rotary(k, *rotary), v, window=WINDOW, softcap=CAP, backend=backend
        )

    moved = (8 * DIM * BYTES, 16 * DIM * BYTES)  # q, k, v and result; these, two gradients in and three out
    add("window attention", "triton", moved, blocks.window_attend(WINDOW, CAP, 1e4), qkv)
    add("window attention", "flex", moved, lambda x: window(x, "flex"), qkv)
    add("window attention", "banded", moved, lambda x: window(x[:8], "banded"), qkv, scale=ROWS / 8)
    boundaries = torch.rand(ROWS, LENGTH, device=CUDA).lt(0.2)
    boundaries[:, 0] = True
    offsets, positions = resample.row_offsets(boundaries), boundaries.nonzero(as_tuple=True)[1]
    tokens, turns = randn(len(positions), 3, HEADS, WIDTH), rotary_table(positions, WIDTH, 1e4)

    def packed(qkv: Tensor, backend: str) -> Tensor:
        q, k, v = qkv.unbind(1)
        return row_causal_attention(apply_rotary(q, *turns), apply_rotary(k, *turns), v, offsets, softcap=CAP, backend=backend)

    moved = (8 * DIM * len(positions), 16 * DIM * len(positions))
    add("token attention", "triton", moved, blocks.row_causal_attend(offsets, turns, CAP), tokens)
    add("token attention", "flex", moved, lambda x: packed(x, "flex"), tokens)
    add("token attention", "padded", moved, lambda x: packed(x, "padded"), tokens)


def of_elementwise(add: Callable[..., None]) -> None:
    """Residual sum with both norms, gated activation, resampling, head with loss."""
    from rltok.kernels.geglu import geglu
    from rltok.kernels.norm import residual_norm

    post, pre = RMSNorm(DIM, 1e-6).to(CUDA), RMSNorm(DIM, 1e-6).to(CUDA)
    x, h = randn(BYTES, DIM, dtype=torch.float32), randn(BYTES, DIM)
    moved = (12 * DIM * BYTES, 18 * DIM * BYTES)

    def plain(x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        added = x + post(h)
        return added, pre(added).to(torch.bfloat16)

    add("residual and two norms", "triton", moved, lambda x, h: residual_norm(x, h, post.weight, pre.weight, 1e-6, h.dtype), x, h)
    add("residual and two norms", "plain", moved, plain, x, h)
    add("residual and two norms", "torch.compile", moved, torch.compile(plain), x, h)
    gate_up = randn(BYTES, 2 * DIM)

    def gated(x: Tensor) -> Tensor:
        gate, up = x.chunk(2, dim=-1)
        return F.gelu(gate, approximate="tanh") * up

    moved = (6 * DIM * BYTES, 10 * DIM * BYTES)
    add("gated activation", "triton", moved, geglu, gate_up)
    add("gated activation", "plain", moved, gated, gate_up)
    add("gated activation", "torch.compile", moved, torch.compile(gated), gate_up)


def of_ends(add: Callable[..., None]) -> None:
    """Bytes to tokens and back, and a head with its loss."""
    boundaries = torch.rand(ROWS, LENGTH, device=CUDA).lt(0.2)
    boundaries[:, 0] = True
    segments, count = blocks.Segments(boundaries), int(boundaries.sum())
    x, tokens = randn(ROWS, LENGTH, DIM, dtype=torch.float32), randn(count, DIM, dtype=torch.float32)
    moved = (8 * DIM * BYTES + 4 * DIM * count, 4 * DIM * (BYTES + count))
    add("upsample", "triton", moved, segments.add, x, tokens)
    add("upsample", "plain", moved, lambda x, t: resample.upsample(t, x, boundaries), x, tokens)
    states, head = randn(ROWS, LENGTH, DIM), torch.nn.Linear(DIM, IDS, bias=False, device=CUDA)
    never, targets = torch.zeros(IDS, device=CUDA), torch.randint(0, 256, (ROWS, LENGTH), device=CUDA)
    moved = (2 * DIM * BYTES, 4 * DIM * BYTES)

    def fast(states: Tensor) -> Tensor:
        with torch.autocast("cuda", torch.bfloat16):
            return blocks.head_nll(states, head, never, targets, IDS)

    add("head and loss", "triton", moved, fast, states)
    add("head and loss", "plain", moved, lambda s: next_byte_nll(F.linear(s.float(), head.weight), targets), states)


def of_policy() -> list[dict[str, Any]]:
    """The draw and the returns, which have no gradient; thresholds of the uniforms included."""
    terms, uniforms = 20 * randn(ROWS, LENGTH, LAGS + 1, dtype=torch.float32), torch.rand(ROWS, LENGTH, device=CUDA)
    settings, lines = {"bias": -1.4, "scale": 16.0, "softcap": 6.0}, []
    drawn = {name: sample_boundaries(terms, uniforms, **settings, backend=name) for name in ("triton", "sweeps", "plain")}
    for name in ("triton", "sweeps"):
        spent = median(lambda name=name: sample_boundaries(terms, uniforms, **settings, backend=name))
        same = bool(torch.equal(drawn[name], drawn["plain"]))
        lines.append({"operation": f"draw, {LAGS} lags", "way": name, "milliseconds": [spent], "equal_to_plain": same})
    rewards = randn(ROWS, LENGTH, dtype=torch.float32)
    lines.append(
        {"operation": "returns", "way": "matrix products", "milliseconds": [median(lambda: discounted_returns(rewards, 0.9))]}
    )
    return lines


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    stored_record(options.out, WHAT)
    if not torch.cuda.is_available() or backends.problem(CUDA) is not None:
        raise RltokError(
            f"kernels cannot be timed here: {backends.problem(CUDA) if torch.cuda.is_available() else 'there is no CUDA card'}."
        )
    torch._functorch.config.donated_buffer = False  # or compiled functions refuse a second backward pass through one forward
    source, rows = torch.empty(2**30, dtype=torch.uint8, device=CUDA), of_policy()
    copying = 2 * source.numel() / median(lambda: source.clone()) * 1e3  # bytes a second, read and written

    def add(
        operation: str, way: str, moved: tuple[int, int], function: Callable[..., Any], *inputs: Tensor, scale: float = 1
    ) -> None:
        try:
            spent = [scale * value for value in both_ways(function, *(x.detach() for x in inputs))]
        except Exception as error:  # a way that fails is a finding, and the others are still wanted
            rows.append({"operation": operation, "way": way, "failed": f"{type(error).__name__}: {error}"[:200]})
        else:
            floor = [value / copying * 1e3 for value in moved]
            rows.append({"operation": operation, "way": way, "milliseconds": spent, "floor_milliseconds": floor})
        print(rows[-1], flush=True)
        torch.cuda.empty_cache()

    for part in (of_elementwise, of_ends, of_attention):
        part(add)
    write_json(
        options.out,
        {
            "schema": 1, "what": WHAT, "commit": repository_commit(), "device": device_name(CUDA), "versions": versions(),
            "rows": ROWS, "sequence_length": LENGTH, "heads": HEADS, "head_width": WIDTH, "window": WINDOW, "softcap": CAP,
            "copy_bytes_per_second": copying, "operations": rows,
        },
    )  # fmt: skip


if __name__ == "__main__":
    run(main)
