"""Draws boundaries from left to right, eqs. (19) to (22), although a decision waits for the decisions before it.

A program of `_scan_chunks` runs 64 positions from every state that the memory can be in, one lane a state; a program of
`_scan_rows` then walks one row from chunk to chunk by looking up the run that begins where the last one ended.
"""

from typing import no_type_check

import torch
import triton
import triton.language as tl
from torch import Tensor

CHUNK = 64  # decisions of one run: the bits of an int64


@triton.jit(do_not_specialize=["length", "chunks"])
@no_type_check
def _scan_chunks(
    terms, thresholds, words, length, chunks, bias, inverse, LAGS: tl.constexpr, LANES: tl.constexpr, CHUNK: tl.constexpr
):
    """One chunk of one row from all 2^LAGS states: the last decision of a run is bit 0 of its word, the first bit 63."""
    program = tl.program_id(0).to(tl.int64)
    row, chunk = program // chunks, program % chunks
    lane = tl.arange(0, LANES)
    state = lane  # bit k is the decision k + 1 positions back; what shifts out above the lags is never looked at
    word = tl.zeros([LANES], dtype=tl.int64)
    for step in range(CHUNK):
        # a ragged last chunk repeats the last position; nobody reads what comes of it
        position = tl.minimum(chunk * CHUNK + step, length - 1)
        place = row * length + position
        raw = tl.load(terms + place * (LAGS + 1)) + tl.zeros([LANES], dtype=tl.float32)
        for lag in tl.static_range(1, LAGS + 1):
            term = tl.load(terms + place * (LAGS + 1) + lag)
            raw = raw + tl.where(((state >> (lag - 1)) & 1) != 0, term, 0.0)
        taken = (tl.load(thresholds + place) < raw * inverse + bias) | (position == 0)
        state = (state << 1) | taken.to(tl.int32)
        word = (word << 1) | taken.to(tl.int64)
    tl.store(words + (program << LAGS) + lane, word, mask=lane < (1 << LAGS))  # fewer than 32 states leave lanes idle


@triton.jit(do_not_specialize=["length", "chunks"])
@no_type_check
def _scan_rows(words, boundaries, length, chunks, LAGS: tl.constexpr, CHUNK: tl.constexpr):
    """One row: the last LAGS bits of a chunk's word are the state in which the next chunk starts."""
    row = tl.program_id(0).to(tl.int64)
    step = tl.arange(0, CHUNK)
    state = row * 0  # no boundaries before the row
    for chunk in range(chunks):
        word = tl.load(words + ((row * chunks + chunk) << LAGS) + state)
        state = word & ((1 << LAGS) - 1)
        position = chunk * CHUNK + step
        bits = (word >> (CHUNK - 1 - step).to(tl.int64)) & 1
        tl.store(boundaries + row * length + position, bits.to(tl.uint8), mask=position < length)


def scan_boundaries(terms: Tensor, thresholds: Tensor, bias: float, inverse: float) -> Tensor:
    """Boundaries [B, N] where threshold < raw * inverse + bias, raw = term 0 + the terms of lags whose decision was 1.

    Args:
        terms: fp32 [B, N, lags + 1].
        thresholds: fp32 [B, N].
        bias, inverse: 1 / D and bias of eq. (22).
    """
    rows, length, num_terms = terms.shape
    lags, chunks = num_terms - 1, triton.cdiv(length, CHUNK)
    words = torch.empty(rows, chunks, 2**lags, dtype=torch.int64, device=terms.device)
    boundaries = torch.empty(rows, length, dtype=torch.bool, device=terms.device)
    lanes = max(32, 2**lags)
    with torch.cuda.device_of(terms):
        # Sums rounded one by one, as in plain PyTorch: a fused product and sum would round once and draw other bits.
        _scan_chunks[(rows * chunks,)](
            terms.contiguous(), thresholds.contiguous(), words, length, chunks, float(bias), float(inverse),
            LAGS=lags, LANES=lanes, CHUNK=CHUNK, num_warps=min(8, max(1, lanes // 64)), enable_fp_fusion=False,
        )  # fmt: skip
        _scan_rows[(rows,)](words, boundaries.view(torch.uint8), length, chunks, LAGS=lags, CHUNK=CHUNK, num_warps=1)
    return boundaries
