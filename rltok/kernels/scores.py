"""What both kernels of attention do to a tile of scores: softcap, and who sees whom. Exponents are in base 2.

The card's own tanh is right to 11 bits; a score has no more, whose factors have 8. Triton's interpreter has no instructions of a
card, so there the function is written with e^x: HARDWARE says which.
"""

from typing import no_type_check

import triton
import triton.language as tl

from rltok.kernels.backends import interpreted


@triton.jit
@no_type_check
def capped(scores, scale, cap, CAP: tl.constexpr, HARDWARE: tl.constexpr):
    """(scores as exponents of 2, capped; tanh of the score over the cap). `scale` has log2(e) in it."""
    share = scores
    if CAP:
        if HARDWARE:
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
def seen(distance, limit):
    """0 <= distance < limit in one comparison, since a negative distance is a large one without its sign."""
    return distance.to(tl.uint32) < limit


def hardware() -> bool:
    """HARDWARE of `capped`."""
    return not interpreted()
