"""Where to draw token boundaries (section 2.5, eqs. 19 to 23).

    byte_states --projection--> terms --sample_boundaries--> boundaries
                              --boundary_logits--> boundary_logits --log_prob--> log_prob

A decision depends on the byte state at its position and on the last `lags` decisions. The draw is therefore a scan over
positions. Three samplers draw the same bits: `plain` walks the positions, `sweeps` finds the decisions as a fixed point, many
positions at a time, and `triton` (`rltok.kernels.scan`) runs chunks from every possible past and then picks the runs that
happened.
"""

import math
from collections.abc import Iterable

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from rltok.errors import RltokError
from rltok.kernels import backends

_MOST_LAGS = 10  # of the kernel, which runs each chunk from 2^lags states
_MOST_SWEEPS = 256  # then decisions are taken one by one


def earlier_boundaries(boundaries: Bool[Tensor, "B N"], lag: int) -> Bool[Tensor, "B N"]:
    """a_{i - lag} at position i; 0 before the start of the row."""
    return F.pad(boundaries, (lag, 0))[:, : boundaries.shape[1]]


def _scaled_logits(base: Tensor, lagged: Iterable[Tensor], scale: float, bias: float) -> Tensor:
    """Eqs. (21) and (22) from terms already multiplied by their boundaries; one order of operations for every caller."""
    raw = base
    for term in lagged:
        raw = raw + term
    # Times 1 / D, spelt out: dividing by D, torch multiplies so on CUDA but divides on the CPU, and the kernel must round alike.
    return raw * (1 / scale) + bias


def boundary_logits(
    terms: Float[Tensor, "B N terms"], boundaries: Bool[Tensor, "B N"], *, bias: float, scale: float, softcap: float | None,
    backend: str = "plain",
) -> Float[Tensor, "B N"]:  # fmt: skip
    """Logit of each decision given the decisions before it, eqs. (21) to (23).

        l_i = softcap((W_0 X_i + sum_{j=1..w} a_{i-j} W_j X_i) / D + bias)

    Args:
        terms: W_0 X, W_1 X, ..., W_w X in the last dimension; w = 0 gives a memoryless policy.
        boundaries: the decisions as executed, forced ones included.
        bias: logit of the target rate.
        scale: D, greater than 0.
        softcap: c of c * tanh(l / c); None leaves the logits uncapped, as in evaluation.
        backend: "plain", or "triton" (one kernel instead of a few for each lag; fp32).
    """
    if backend == "triton":
        from rltok.kernels.logits import boundary_logits as kernel  # here, because it imports Triton

        return kernel(terms, boundaries, bias=bias, scale=scale, softcap=softcap)
    lagged = [torch.where(earlier_boundaries(boundaries, lag), terms[..., lag], 0.0) for lag in range(1, terms.shape[-1])]
    logits = _scaled_logits(terms[..., 0], lagged, scale, bias)
    return logits if softcap is None else softcap * torch.tanh(logits / softcap)


def _draw_thresholds(uniforms: Tensor, softcap: float | None, dtype: torch.dtype) -> Tensor:
    """The value that an uncapped logit must exceed for a boundary: u < sigmoid(softcap(z)) iff threshold < z.

    Solving for z once leaves only additions, one product and a comparison inside the scan. These round the same way in
    every layout, so the sequential and the parallel samplers agree to the bit; a sigmoid need not.
    """
    logit = torch.logit(uniforms.double())  # -inf at 0: always a boundary
    if softcap is not None:
        logit = softcap * torch.atanh((logit / softcap).clamp(-1, 1))  # out of the cap's reach: -inf or inf
    return logit.to(dtype)


def _decision(terms: Tensor, earlier: Tensor, thresholds: Tensor, bias: float, scale: float) -> Tensor:
    """One decision of every row from the `lags` before it, latest first."""
    lagged = torch.where(earlier, terms[:, 1:], 0.0).unbind(dim=1)
    return thresholds < _scaled_logits(terms[:, 0], lagged, scale, bias)


def _sample_plain(terms: Tensor, thresholds: Tensor, bias: float, scale: float) -> Tensor:
    rows, length, num_terms = terms.shape
    lags = num_terms - 1
    drawn = torch.zeros(rows, lags + length, dtype=torch.bool, device=terms.device)  # none before the start of the row
    drawn[:, lags] = True  # forced on BOS: the first bytes need a token to read
    for i in range(1, length):
        drawn[:, lags + i] = _decision(terms[:, i], drawn[:, i : i + lags].flip(1), thresholds[:, i], bias, scale)
    return drawn[:, lags:]


def _sample_sweeps(terms: Tensor, thresholds: Tensor, bias: float, scale: float) -> Tensor:
    forced = torch.zeros(terms.shape[:2], dtype=torch.bool, device=terms.device)
    forced[:, 0] = True
    boundaries = forced
    # A handful is usual. But a sweep is sure to settle only one more position, so in text that repeats itself, or in the padding
    # behind a short row, decisions may hang together over the whole row: N sweeps over N positions. A walk is then sooner there.
    for _ in range(_MOST_SWEEPS):
        logits = boundary_logits(terms, boundaries, bias=bias, scale=scale, softcap=None)
        updated = (thresholds < logits) | forced
        if terms.shape[-1] == 1:  # no memory, nothing to settle, and no device to wait for
            return updated
        if torch.equal(updated, boundaries):
            return boundaries
        boundaries = updated
    return _sample_plain(terms, thresholds, bias, scale)


def _sample_triton(terms: Tensor, thresholds: Tensor, bias: float, scale: float) -> Tensor:
    from rltok.kernels.scan import scan_boundaries  # here, because it imports Triton

    return scan_boundaries(terms, thresholds, bias, 1 / scale)


def _problem_of_triton(terms: Tensor) -> str | None:
    """Why the kernel cannot draw from these terms, or None."""
    if terms.dtype != torch.float32:
        return f"works in torch.float32; these terms are {terms.dtype}"
    if terms.shape[-1] - 1 > _MOST_LAGS:
        return f"keeps one state for each string of the last decisions, at most {_MOST_LAGS} lags; got {terms.shape[-1] - 1}"
    if terms.device.type != "cuda" and not backends.interpreted():
        return f"needs a CUDA card; these tensors are on {terms.device}"
    problem = backends.problem(terms.device)
    return None if problem is None else f"cannot run here: {problem}"


def _chosen(terms: Tensor) -> str:
    """The sampler of "auto": the kernel for a policy with memory on a CUDA card, unless plain operations were asked for."""
    fits = terms.device.type == "cuda" and terms.shape[-1] > 1 and not backends.interpreted()
    return "triton" if fits and backends.requested() != "plain" and _problem_of_triton(terms) is None else "sweeps"


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
        backend: "plain" (a loop over positions), "sweeps" (fixed point, the same bits), "triton" (a kernel, the same bits,
            fp32 and at most 10 lags), or "auto" (triton on a CUDA card where it can run and `rltok.kernels.backends` does not
            ask for plain; else sweeps). Only "sweeps" waits for the device, once a sweep, and not for a policy without memory.

    Raises:
        RltokError: an unknown backend, or "triton" where it cannot run.
    """
    samplers = {"plain": _sample_plain, "sweeps": _sample_sweeps, "triton": _sample_triton}
    name = _chosen(terms) if backend == "auto" else backend
    if name not in samplers:
        raise RltokError(f"sample_boundaries has backends 'auto', 'plain', 'sweeps' and 'triton'; got {backend!r}.")
    problem = _problem_of_triton(terms) if backend == "triton" else None
    if problem is not None:
        raise RltokError(f"backend='triton' {problem}. backend='auto' draws the same boundaries.")
    return samplers[name](terms, _draw_thresholds(uniforms, softcap, terms.dtype), bias, scale)


@torch.no_grad()
def next_boundary(
    terms: Float[Tensor, "B terms"], earlier: Bool[Tensor, "B lags"], uniforms: Float[Tensor, " B"], *, bias: float, scale: float,
    softcap: float | None,
) -> Bool[Tensor, " B"]:  # fmt: skip
    """One decision of `sample_boundaries` in every row, at a position after BOS.

    Args:
        terms: those of the position.
        earlier: the decisions before it, latest first; False before the start of the row.
        uniforms: those of the position.
        bias, scale, softcap: as in `boundary_logits`.
    """
    return _decision(terms, earlier, _draw_thresholds(uniforms, softcap, terms.dtype), bias, scale)


def log_prob(boundary_logits: Float[Tensor, "B N"], boundaries: Bool[Tensor, "B N"]) -> Float[Tensor, "B N"]:
    """log pi(a_i | x_{<=i}, a_{<i}) of each decision in nats, eq. (19): log sigmoid(l) where True, else log sigmoid(-l)."""
    return F.logsigmoid(torch.where(boundaries, boundary_logits, -boundary_logits))


def entropy(boundary_logits: Float[Tensor, "B N"]) -> Float[Tensor, "B N"]:
    """Entropy of each decision in nats, H(p) = log(1 + e^-|l|) + |l| sigmoid(-|l|); log 2 at most."""
    size = boundary_logits.abs()  # H is even in l; on this side nothing cancels
    return F.softplus(-size) + torch.sigmoid(-size) * size


def check_rate(rate: float) -> None:
    """Raise `RltokError` unless a rate has a logit."""
    if not 0 < rate < 1:
        raise RltokError(
            f"a rate whose logit is taken must lie strictly between 0 and 1; got {rate!r}. Give boundaries per byte."
        )


def _check_softcap(softcap: float) -> None:
    if not 0 < softcap < math.inf:
        raise RltokError(f"softcap must be greater than 0 and finite; got {softcap!r}. Without a cap a rate stays what it is.")


def capped_rate(rate: float, softcap: float) -> float:
    """What eq. (23) makes of a probability: sigmoid(c tanh(logit(rate) / c)). At 0.2 and c = 6 that is 0.204.

    A policy without weights starts there in training: its logit is the bias of eq. (22), and nothing but the cap acts on it.
    """
    check_rate(rate)
    _check_softcap(softcap)
    return 1 / (1 + math.exp(-softcap * math.tanh(math.log(rate / (1 - rate)) / softcap)))


def uncapped_rate(rate: float, softcap: float) -> float:
    """What becomes of a probability drawn under the cap when evaluation drops it; the inverse of `capped_rate`.

    Its logit is also the bias with which a fresh policy draws at exactly this rate in training.

    Raises:
        RltokError: a rate that the cap cannot let through: sigmoid(c) or more, sigmoid(-c) or less.
    """
    check_rate(rate)
    _check_softcap(softcap)
    logit = math.log(rate / (1 - rate))
    if abs(logit) >= softcap:
        raise RltokError(
            f"under softcap={softcap:g} no probability is {rate:g}: its logit is {logit:.2f}, and eq. (23) keeps logits inside"
            f" ±{softcap:g}. Raise softcap above {math.ceil(10 * abs(logit)) / 10:g}, or take a rate nearer to 1/2."
        )
    return 1 / (1 + math.exp(-softcap * math.atanh(logit / softcap)))
