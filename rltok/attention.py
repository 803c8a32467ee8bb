"""Who sees whom: byte positions see a window of their own row, tokens see all earlier tokens of their own row.

    window_attention       q, k, v [B, N, H, D]   position i sees j with i - window < j <= i (itself included)
    row_causal_attention   q, k, v [M, H, D]      packed rows; token m sees tokens up to m of the same row

Each has a `reference` (dense mask, plain maths) and a fast form that a test holds to it. `softcap` (Gemma 2) bounds the
scores: c * tanh(score / c).
"""

import math

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from rltok.errors import RltokError
from rltok.kernels.flex import row_causal_flex, window_flex


def masked_attention(
    q: Float[Tensor, "... Q D"],
    k: Float[Tensor, "... K D"],
    v: Float[Tensor, "... K D"],
    mask: Bool[Tensor, "... Q K"],
    softcap: float | None,
) -> Float[Tensor, "... Q D"]:
    """softmax(softcap(q k^T / sqrt(D)) where mask) v: what everything here is held to. Softmax in fp32 or wider."""
    scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
    scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
    if softcap is not None:
        scores = softcap * torch.tanh(scores / softcap)
    weights = scores.masked_fill(~mask, float("-inf")).softmax(dim=-1)
    return weights.to(v.dtype) @ v


def window_mask(length: int, window: int, device: torch.device | None = None) -> Bool[Tensor, "N N"]:
    """True where position i (row) may see position j (column): i - window < j <= i."""
    i = torch.arange(length, device=device)
    distance = i[:, None] - i[None, :]
    return (distance >= 0) & (distance < window)


def _window_reference(q: Tensor, k: Tensor, v: Tensor, window: int, softcap: float | None) -> Tensor:
    heads_first = (x.transpose(1, 2) for x in (q, k, v))  # [B, H, N, D]
    return masked_attention(*heads_first, window_mask(q.shape[1], window, q.device), softcap).transpose(1, 2)


def _window_sdpa(q: Tensor, k: Tensor, v: Tensor, window: int) -> Tensor:
    mask = window_mask(q.shape[1], window, q.device)
    return F.scaled_dot_product_attention(*(x.transpose(1, 2) for x in (q, k, v)), attn_mask=mask).transpose(1, 2)


def _window_banded(q: Tensor, k: Tensor, v: Tensor, window: int, softcap: float | None) -> Tensor:
    """Blocks of `window` queries against their own and the previous block of keys: work in N * 2 window, not N * N."""
    rows, length, heads, dim = q.shape
    blocks = -(-length // window)
    pad = blocks * window - length
    # [B, H, blocks, window, D]; padding stands at the end, where causality hides it
    q, k, v = (F.pad(x, (0, 0, 0, 0, 0, pad)).unflatten(1, (blocks, window)).permute(0, 3, 1, 2, 4) for x in (q, k, v))
    k, v = (torch.cat([F.pad(x, (0, 0, 0, 0, 1, 0))[:, :, :-1], x], dim=3) for x in (k, v))
    i = torch.arange(window, device=q.device)[:, None] + window  # place of a query among its 2 * window keys
    j = torch.arange(2 * window, device=q.device)[None, :]
    mask = (j <= i) & (j > i - window)
    first = mask & (j >= window)  # the first block has no predecessor
    masks = torch.stack([first] + [mask] * (blocks - 1)) if blocks > 1 else first[None]
    mixed = masked_attention(q, k, v, masks, softcap)
    return mixed.permute(0, 2, 3, 1, 4).reshape(rows, blocks * window, heads, dim)[:, :length]


def window_attention(
    q: Float[Tensor, "B N H D"], k: Float[Tensor, "B N H D"], v: Float[Tensor, "B N H D"],
    *, window: int, softcap: float | None, backend: str = "auto",
) -> Float[Tensor, "B N H D"]:  # fmt: skip
    """Causal attention over the last `window` positions, the position itself included.

    backend: "reference", "banded" (linear in N), "sdpa" (torch's own, no softcap), "flex" (FlexAttention, for comparison on a
    CUDA card with Triton; forward only on the CPU; never taken by "auto"), or "auto".
    """
    if backend == "auto":
        whole = window >= q.shape[1]  # nothing to skip
        backend = "banded" if not whole else "reference" if softcap is not None else "sdpa"
    if backend == "banded":
        return _window_banded(q, k, v, window, softcap)
    if backend == "sdpa" and softcap is None:
        return _window_sdpa(q, k, v, window)
    if backend == "reference":
        return _window_reference(q, k, v, window, softcap)
    if backend == "flex":
        return window_flex(q, k, v, window, softcap)
    raise RltokError(
        "window_attention has backends 'auto', 'reference', 'banded', 'flex' and, without a softcap, 'sdpa';"
        f" got {backend!r} with softcap={softcap}."
    )


def row_numbers(offsets: Int[Tensor, " rows_plus_one"], total: int) -> Int[Tensor, " M"]:
    """Row of each packed entry: [0, 0, 1, 2, 2, 2, ...]."""
    return torch.repeat_interleave(torch.arange(len(offsets) - 1, device=offsets.device), offsets.diff(), output_size=total)


def _row_causal_reference(q: Tensor, k: Tensor, v: Tensor, offsets: Tensor, softcap: float | None) -> Tensor:
    rows = row_numbers(offsets, len(q))
    order = torch.arange(len(q), device=q.device)
    mask = (rows[:, None] == rows[None, :]) & (order[None, :] <= order[:, None])
    return masked_attention(*(x.transpose(0, 1) for x in (q, k, v)), mask, softcap).transpose(0, 1)


def _row_causal_padded(q: Tensor, k: Tensor, v: Tensor, offsets: Tensor, softcap: float | None) -> Tensor:
    """Rows padded to the longest and run as one dense batch; padding stands at the end, where causality hides it."""
    rows = row_numbers(offsets, len(q))
    place = torch.arange(len(q), device=q.device) - offsets[rows]
    shape = (len(offsets) - 1, int(offsets.diff().max()), *q.shape[1:])
    q, k, v = (x.new_zeros(shape).index_put((rows, place), x).transpose(1, 2) for x in (q, k, v))  # [B, H, longest, D]
    if softcap is None:
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    else:
        mixed = masked_attention(q, k, v, window_mask(shape[1], shape[1], q.device), softcap)
    return mixed.transpose(1, 2)[rows, place]


def row_causal_attention(
    q: Float[Tensor, "M H D"], k: Float[Tensor, "M H D"], v: Float[Tensor, "M H D"],
    offsets: Int[Tensor, " rows_plus_one"], *, softcap: float | None, backend: str = "auto",
) -> Float[Tensor, "M H D"]:  # fmt: skip
    """Causal attention inside each packed row; row b holds entries offsets[b] .. offsets[b + 1] - 1.

    backend: "reference" (one [M, M] mask), "padded" (rows as a dense batch), "flex" (as in `window_attention`), or "auto"
    (padded).
    """
    if backend == "reference":
        return _row_causal_reference(q, k, v, offsets, softcap)
    if backend == "flex":
        return row_causal_flex(q, k, v, row_numbers(offsets, len(q)), softcap)
    if backend in ("auto", "padded"):
        return _row_causal_padded(q, k, v, offsets, softcap)
    raise RltokError(f"row_causal_attention has backends 'auto', 'reference', 'padded' and 'flex'; got {backend!r}.")
