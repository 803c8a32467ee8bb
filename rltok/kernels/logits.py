"""Logits of decisions that are made already, eqs. (21) to (23), in one pass over the terms, forward and backward.

One program handles a stretch of positions of one row: each looks up the decisions before it, so nothing waits for anything.
"""

from typing import no_type_check

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

BLOCK = 128


@triton.jit
@no_type_check
def _scan_logits_forward(
    terms_ptr, decisions_ptr, logits_ptr, length, bias, inverse, cap, CAP: tl.constexpr, LAGS: tl.constexpr, BLOCK: tl.constexpr
):
    row = tl.program_id(1).to(tl.int64)
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside, place = i < length, row * length + i
    raw = tl.load(terms_ptr + place * (LAGS + 1), mask=inside, other=0.0)
    for lag in tl.static_range(1, LAGS + 1):
        decided = tl.load(decisions_ptr + place - lag, mask=inside & (i >= lag), other=0)
        term = tl.load(terms_ptr + place * (LAGS + 1) + lag, mask=inside, other=0.0)
        raw += tl.where(decided != 0, term, 0.0)
    logit = raw * inverse + bias
    if CAP:
        logit = cap * (1.0 - 2.0 / (tl.exp(logit * (2.0 / cap)) + 1.0))
    tl.store(logits_ptr + place, logit, mask=inside)


@triton.jit
@no_type_check
def _scan_logits_backward(
    logits_ptr, decisions_ptr, dlogits_ptr, dterms_ptr, length, inverse, cap, CAP: tl.constexpr, LAGS: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(1).to(tl.int64)
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside, place = i < length, row * length + i
    slope = tl.load(dlogits_ptr + place, mask=inside, other=0.0) * inverse
    if CAP:
        share = tl.load(logits_ptr + place, mask=inside, other=0.0) / cap
        slope = slope * (1.0 - share * share)
    tl.store(dterms_ptr + place * (LAGS + 1), slope, mask=inside)
    for lag in tl.static_range(1, LAGS + 1):
        decided = tl.load(decisions_ptr + place - lag, mask=inside & (i >= lag), other=0)
        tl.store(dterms_ptr + place * (LAGS + 1) + lag, tl.where(decided != 0, slope, 0.0), mask=inside)


class _Logits(torch.autograd.Function):
    @staticmethod
    def forward(ctx, terms, boundaries, bias, scale, softcap):
        terms, decisions = terms.contiguous(), boundaries.contiguous().view(torch.uint8)
        rows, length, count = terms.shape
        ctx.settings = {"CAP": softcap is not None, "LAGS": count - 1, "BLOCK": BLOCK}
        ctx.numbers, logits = (1 / scale, softcap or 1.0), terms.new_empty(rows, length)
        grid = (triton.cdiv(length, BLOCK), rows)
        _scan_logits_forward[grid](terms, decisions, logits, length, bias, *ctx.numbers, **ctx.settings)
        ctx.save_for_backward(logits, decisions)
        return logits

    @staticmethod
    @once_differentiable
    def backward(ctx, dlogits):
        logits, decisions = ctx.saved_tensors
        rows, length = logits.shape
        dterms = logits.new_empty(rows, length, ctx.settings["LAGS"] + 1)
        _scan_logits_backward[(triton.cdiv(length, BLOCK), rows)](
            logits, decisions, dlogits.contiguous(), dterms, length, *ctx.numbers, **ctx.settings
        )
        return dterms, None, None, None, None


def boundary_logits(terms: Tensor, boundaries: Tensor, *, bias: float, scale: float, softcap: float | None) -> Tensor:
    """`policy.boundary_logits`: terms [B, N, lags + 1] in fp32, boundaries [B, N] bool -> [B, N]."""
    return _Logits.apply(terms, boundaries, float(bias), float(scale), softcap)
