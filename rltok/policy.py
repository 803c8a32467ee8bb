"""Where to draw token boundaries (section 2.5, eqs. 19 to 23).

    byte_states --projection--> terms --sample_boundaries--> boundaries
                              --boundary_logits--> boundary_logits --log_prob--> log_prob

A decision depends on the byte state at its position and on the last `lags` decisions. The draw is therefore a scan over
positions; `plain` walks it, `sweeps` finds the same bits as a fixed point, many positions at a time.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from rltok.errors import RltokError


def earlier_boundaries(boundaries: Bool[Tensor, "B N"], lag: int) -> Bool[Tensor, "B N"]:
    """a_{i - lag} at position i; 0 before the start of the row."""
    return F.pad(boundaries, (lag, 0))[:, : boundaries.shape[1]]


def _scaled_logits(base: Tensor, lagged: list[Tensor], scale: float, bias: float) -> Tensor:
    """Eqs. (21) and (22) from terms already multiplied by their boundaries; one order of operations for every caller."""
    raw = base
    for term in lagged:
        raw = raw + term
    return raw / scale + bias


def boundary_logits(
    terms: Float[Tensor, "B N terms"], boundaries: Bool[Tensor, "B N"], *, bias: float, scale: float, softcap: float | None
) -> Float[Tensor, "B N"]:
    """Logit of each decision given the decisions before it, eqs. (21) to (23).

        l_i = softcap((W_0 X_i + sum_{j=1..w} a_{i-j} W_j X_i) / D + bias)

    Args:
        terms: W_0 X, W_1 X, ..., W_w X in the last dimension; w = 0 gives a memoryless policy.
        boundaries: the decisions as executed, forced ones included.
        bias: logit of the target rate.
        scale: D, greater than 0.
        softcap: c of c * tanh(l / c); None leaves the logits uncapped, as in evaluation.
    """
    lagged = [earlier_boundaries(boundaries, lag) * terms[..., lag] for lag in range(1, terms.shape[-1])]
    logits = _scaled_logits(terms[..., 0], lagged, scale, bias)
    return logits if softcap is None else softcap * torch.tanh(logits / softcap)


def _draw_thresholds(uniforms: Tensor, softcap: float | None, dtype: torch.dtype) -> Tensor:
    """The value that an uncapped logit must exceed for a boundary: u < sigmoid(softcap(z)) iff threshold < z.

    Solving for z once leaves only additions, a division and a comparison inside the scan. These round the same way in
    every layout, so the sequential and the parallel sampler agree to the bit; a sigmoid need not.
    """
    logit = torch.logit(uniforms.double())  # -inf at 0: always a boundary
    if softcap is not None:
        logit = softcap * torch.atanh((logit / softcap).clamp(-1, 1))  # out of the cap's reach: -inf or inf
    return logit.to(dtype)


def _sample_plain(terms: Tensor, thresholds: Tensor, bias: float, scale: float) -> Tensor:
    rows, length, num_terms = terms.shape
    boundaries = torch.zeros(rows, length, dtype=torch.bool, device=terms.device)
    boundaries[:, 0] = True  # forced on BOS: the first bytes need a token to read
    for i in range(1, length):
        lagged = [
            boundaries[:, i - lag] * terms[:, i, lag] if i >= lag else torch.zeros_like(terms[:, i, 0])
            for lag in range(1, num_terms)
        ]
        boundaries[:, i] = thresholds[:, i] < _scaled_logits(terms[:, i, 0], lagged, scale, bias)
    return boundaries


def _sample_sweeps(terms: Tensor, thresholds: Tensor, bias: float, scale: float) -> Tensor:
    forced = torch.zeros(terms.shape[:2], dtype=torch.bool, device=terms.device)
    forced[:, 0] = True
    boundaries = forced
    # Each sweep settles at least one more position of every row, so N sweeps are the worst case; a handful is usual.
    for _ in range(terms.shape[1]):
        logits = boundary_logits(terms, boundaries, bias=bias, scale=scale, softcap=None)
        updated = (thresholds < logits) | forced
        if torch.equal(updated, boundaries):
            break
        boundaries = updated
    return boundaries


@torch.no_grad()
def sample_boundaries(
    terms: Float[Tensor, "B N terms"],
    uniforms: Float[Tensor, "B N"],
    *,
    bias: float,
    scale: float,
    softcap: float | None,
    backend: str = "auto",
) -> Bool[Tensor, "B N"]:
    """Draw a_i = (u_i < sigmoid(l_i)) from left to right, eqs. (19) to (23); position 0 is forced.

    Args:
        terms: as in `boundary_logits`.
        uniforms: numbers in [0, 1); they alone decide the draw.
        bias, scale, softcap: as in `boundary_logits`.
        backend: "plain" (a loop over positions), "sweeps" (fixed point, the same bits), or "auto" (sweeps).
    """
    thresholds = _draw_thresholds(uniforms, softcap, terms.dtype)
    if backend == "plain":
        return _sample_plain(terms, thresholds, bias, scale)
    if backend in ("auto", "sweeps"):
        return _sample_sweeps(terms, thresholds, bias, scale)
    raise RltokError(f"sample_boundaries has backends 'auto', 'plain' and 'sweeps'; got {backend!r}.")


def log_prob(boundary_logits: Float[Tensor, "B N"], boundaries: Bool[Tensor, "B N"]) -> Float[Tensor, "B N"]:
    """log pi(a_i | x_{<=i}, a_{<i}) of each decision in nats, eq. (19): log sigmoid(l) where True, else log sigmoid(-l)."""
    return F.logsigmoid(torch.where(boundaries, boundary_logits, -boundary_logits))


def entropy(boundary_logits: Float[Tensor, "B N"]) -> Float[Tensor, "B N"]:
    """Entropy of each decision in nats, H(p) = log(1 + e^-|l|) + |l| sigmoid(-|l|); log 2 at most."""
    size = boundary_logits.abs()  # H is even in l; on this side nothing cancels
    return F.softplus(-size) + torch.sigmoid(-size) * size
