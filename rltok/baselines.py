"""Estimators of the policy gradient that the paper does not have. They differ in one number for each decision, its coefficient c:

    g = - 1/count sum_i c_i grad l_i,    eq. (18): c_i = A_i (a_i - p_i)

    returns of K draws of a row --against_other_draws--> A            value_features --fit_value--> V;  A = G - V
    u, 1 - u -> two draws --antithetic_coefficients--> c              a_i drawn and a_i flipped --local_expectation--> c

Why any of this may be subtracted: given the text x, the draws alone are random. For a V_i of the whole text, bytes after i
included, and of the draws before i,

    E[V_i grad log pi(a_i)] = E[V_i sum_a pi(a | x, a_<i) grad log pi(a | x, a_<i)] = E[V_i grad 1] = 0

The policy may not see later bytes, for it has to draw where there are none yet; what is subtracted from its pay may.
"""

from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from rltok.errors import RltokError
from rltok.estimator import discounted_returns
from rltok.policy import earlier_boundaries


def score_coefficients(
    boundary_logits: Float[Tensor, "*rows N"], boundaries: Bool[Tensor, "*rows N"], advantages: Float[Tensor, "*rows N"]
) -> Float[Tensor, "*rows N"]:
    """Coefficients of the score function, eq. (18): c_i = A_i (a_i - p_i), for d log pi(a_i) / d l_i = a_i - p_i."""
    return advantages * (boundaries.to(boundary_logits.dtype) - torch.sigmoid(boundary_logits))


def against_other_draws(returns: Float[Tensor, "K *rows N"]) -> Float[Tensor, "K *rows N"]:
    """Returns minus the mean over the other draws of the same row at the same position (Kool et al. 2019, "RLOO").

        A_k,i = G_k,i - 1/(K - 1) sum_{m != k} G_m,i

    Unbiased for every K, because draws of a row are independent. The mean over k of all K gradients is one estimator; entry 0
    alone is another, for which the other draws run forward only. Causal credit stays: G is that of eq. (16).

    Raises:
        RltokError: fewer than 2 draws.
    """
    draws = len(returns)
    if draws < 2:
        raise RltokError(f"a draw is compared with other draws of its row, so at least 2 are needed; got {draws}.")
    return (draws * returns - returns.sum(dim=0)) / (draws - 1)


def check_pairs(draws: int) -> int:
    """The number of pairs that so many antithetic draws make; `RltokError` for an odd number, or none."""
    if draws < 2 or draws % 2:
        raise RltokError(f"antithetic draws come in pairs, so their number is even and at least 2; got {draws}.")
    return draws // 2


def antithetic_coefficients(
    boundary_logits: Float[Tensor, "K *rows N"], boundaries: Bool[Tensor, "K *rows N"], advantages: Float[Tensor, "K *rows N"]
) -> Float[Tensor, "K *rows N"]:
    """Coefficients of both draws of antithetic pairs (Dong et al. 2020, "DisARM"; Yin et al. 2020), for a policy with memory.

    A draw a_i = (u_i < p_i) is (z_i > 0) with z_i = l_i - logit(u_i), whose log-density has the derivative 1 - 2 u_i in l_i. So
    A_i (1 - 2 u_i) is an unbiased coefficient, and so is that of the twin b_i = (1 - u_i < q_i), which has -(1 - 2 u_i). The mean
    of 1 - 2 u_i over all u_i with which both draws are what they are leaves the expectation and takes variance away:

        c_i = A_i w_i / 2,  c'_i = -A'_i w_i / 2,  w_i = 1 - low - high,  low < u_i < high:
        p_i bounds u_i from above where a_i = 1, else from below; 1 - q_i from below where b_i = 1, else from above

    Without memory (lags = 0) q_i = p_i: w_i is 0 where the two agree and +-max(p_i, 1 - p_i) where not, as published; what both
    returns share cancels. With memory the pasts part, q_i is not p_i, and the published formula is biased. This one is not,
    but what the returns share cancels no longer where q_i is not p_i. A mean over rows may not hold a row's own twin.

    Args:
        boundary_logits, boundaries, advantages: of draws with uniforms u, then of their twins with 1 - u, in the same order.

    Raises:
        RltokError: an odd number of draws.
    """
    check_pairs(len(boundaries))
    p, q = torch.sigmoid(boundary_logits).chunk(2)
    a, b = boundaries.chunk(2)
    low = torch.maximum(torch.where(a, 0.0, p), torch.where(b, 1 - q, 0.0))
    high = torch.minimum(torch.where(a, p, 1.0), torch.where(b, 1.0, 1 - q))
    half = (1 - low - high) / 2
    return torch.cat([half, -half]) * advantages


def local_expectation(
    boundary_logits: Float[Tensor, "*rows"], boundaries: Bool[Tensor, "*rows"], drawn: Float[Tensor, "*rows"],
    flipped: Float[Tensor, "*rows"],
) -> Float[Tensor, "*rows"]:  # fmt: skip
    """Coefficients of decisions that were tried both ways (Titsias and Lazaro-Gredilla 2015): c_i = p_i (1 - p_i) (G(1) - G(0)).

    Each of the two returns goes on with draws from the policy that follows that value; they may share their uniforms.

    Args:
        boundary_logits, boundaries: of decision i.
        drawn, flipped: G_i of the draw, and of the one in which a_i is the other value.
    """
    p = torch.sigmoid(boundary_logits)
    return p * (1 - p) * torch.where(boundaries, drawn - flipped, flipped - drawn)


def flipped_uniforms(
    uniforms: Float[Tensor, "*rows N"], boundaries: Bool[Tensor, "*rows N"], position: int
) -> Float[Tensor, "*rows N"]:
    """Uniforms that give the decision at `position` its other value; later ones follow from it with the uniforms they had."""
    other = uniforms.clone()
    other[..., position] = boundaries[..., position].to(uniforms.dtype)  # u = 1 never draws a boundary, u = 0 always does
    return other


def value_features(
    byte_states: Float[Tensor, "B N d"], early_nll: Float[Tensor, "B N"], boundaries: Bool[Tensor, "K B N"], *, lags: int,
    gamma: float, sees: Literal["past", "later states", "text"],
) -> Float[Tensor, "K B N features"]:  # fmt: skip
    """What a linear value of decision i sees of the text, and a_{i-1} ... a_{i-lags}.

    "past": 1, X_i; "later states": also the sum over j >= i of gamma^(j-i) X_j; "text": also that of the early head's nats on
    byte j + 1, because a return is such a sum. None of these depends on a_i or on a later draw.
    """
    of_text = [torch.ones_like(byte_states[..., :1]), byte_states]
    if sees != "past":
        states = discounted_returns(byte_states.transpose(1, 2).flatten(0, 1), gamma)
        of_text.append(states.unflatten(0, (len(byte_states), -1)).transpose(1, 2))
    if sees == "text":
        of_text.append(discounted_returns(early_nll, gamma)[..., None])
    known = torch.cat(of_text, dim=-1).expand(len(boundaries), -1, -1, -1)
    flat = boundaries.flatten(0, 1)
    past = [earlier_boundaries(flat, lag).view_as(boundaries)[..., None].to(known.dtype) for lag in range(1, lags + 1)]
    return torch.cat([known, *past], dim=-1)


def fit_value(features: Float[Tensor, "M features"], returns: Float[Tensor, " M"], ridge: float) -> Float[Tensor, " features"]:
    """Weights w that minimise |features w - returns|^2 + ridge M |w|^2, in float64.

    Fit on other draws than those that the value is subtracted from, or it depends on the decision that it is to judge.
    """
    x = features.double()
    gram = x.T @ x + ridge * len(x) * torch.eye(x.shape[1], dtype=x.dtype, device=x.device)
    return torch.linalg.solve(gram, x.T @ returns.double())
