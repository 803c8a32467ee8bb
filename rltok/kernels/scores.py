"""What both kernels of attention do to a tile of scores: softcap, and who sees whom. Exponents are in base 2.

HARDWARE takes the card's own tanh, whose result is right to 11 bits, as many as a score has whose factors had 8; it sees in one
comparison whether a distance is at least 0 and below a limit, and divides once a row. Triton's interpreter has no instructions
of a card.
"""

from typing import no_type_check

import triton
import triton.language as tl

from rltok.kernels import attempts
from rltok.kernels.backends import interpreted


@triton.jit
@no_type_check
def capped(scores, scale, cap, CAP: tl.constexpr, HARDWARE: tl.constexpr):
    """(scores as exponents of 2, capped; tanh of the score over the cap). `scale` has log2(e) in it."""
    share = scores
    if CAP:
        if HARDWARE == 2:
            share = tl.inline_asm_elementwise(
                "tanh.approx.f32 $0, $1;", "=f,f", [scores * (scale * 0.6931471805599453 / cap)], tl.float32, True, 1
            )
        else:
            share = 1.0 - 2.0 / (tl.exp2(scores * (2.0 * scale / cap)) + 1.0)
        scores = share * (cap * 1.4426950408889634)
    else:
        scores = scores * scale
    return scores, share


@triton.jit
@no_type_check
def seen(distance, limit, HARDWARE: tl.constexpr):
    """0 <= distance < limit, or, for a limit of 0 or less, nothing."""
    if HARDWARE:
        return distance.to(tl.uint32) < limit
    else:
        return (distance >= 0) & (distance < limit)


@triton.jit
@no_type_check
def mean(mixed, total, HARDWARE: tl.constexpr):
    """Weighted sums over the sums of their weights, a row each."""
    if HARDWARE:
        return mixed * (1.0 / total)[:, None]  # one division a row
    else:
        return mixed / total[:, None]


def hardware() -> int:
    """HARDWARE of the two functions: 0 without the attempt, 2 on a card, 1 where Triton interprets."""
    if not attempts.on("tanh"):
        return 0
    return 1 if interpreted() else 2
