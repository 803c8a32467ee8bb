"""The exact oracle: every boundary string of short rows, so that expectations are sums and nothing is left to chance.

enumerate_boundaries -> enumerate_row -> expected and marginal log-likelihood, eq. (10)
                     -> exact_gradient, split into eqs. (12) and (13)
                     -> influence of each reward on each decision
joint_moments: expectation and variance of every estimator over all strings of several rows together
"""

from dataclasses import dataclass
from itertools import product

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from rltok.errors import RltokError
from rltok.policy import log_prob
from rltok.unet import AutoregressiveUNet
from rltok.variance.gradients import SharedPass, check_rows, follow, policy_gradients, policy_parameters, share, stack
from rltok.vocab import PAD

MOST_FREE = 12  # free positions, of all rows together: 4096 strings
CHUNK = 512  # strings scored at a time


def _check_free(free: int, what: str) -> None:
    if free > MOST_FREE:
        count = f"2**{free} = {2**free}" if free < 64 else f"2**{free}"
        raise RltokError(
            f"{what} has {free} free positions, so enumerating means {count} strings, each with a forward pass;"
            f" the limit is {MOST_FREE} ({2**MOST_FREE} strings). Take shorter rows, or draw: rltok.variance.laboratory."
        )


def enumerate_boundaries(n: int) -> Bool[Tensor, "S n"]:
    """All 2**(n - 1) boundary strings of a row of n positions; position 0 is always True.

    In counting order, the last position changing fastest. More than 12 free positions are an error that states the cost.

    Example:
        >>> enumerate_boundaries(3).int().tolist()
        [[1, 0, 0], [1, 0, 1], [1, 1, 0], [1, 1, 1]]
    """
    if not isinstance(n, int) or n < 1:
        raise RltokError(f"a row has at least 1 position, the one on BOS; got n = {n}.")
    _check_free(n - 1, f"a row of {n} positions")
    numbers = torch.arange(2 ** (n - 1))
    digits = (numbers[:, None] >> torch.arange(n - 2, -1, -1)) & 1 if n > 1 else numbers.new_zeros(1, 0)
    return torch.cat([torch.ones(len(numbers), 1, dtype=torch.bool), digits.bool()], dim=1)


def all_strings(ids: Int[Tensor, "B N_plus_1"]) -> Bool[Tensor, "S B N"]:
    """Every combination of the rows' strings; False on padding."""
    width = ids.shape[1] - 1
    lengths = (ids[:, 1:] != PAD).sum(dim=1).tolist()
    free = sum(max(0, length - 1) for length in lengths)
    _check_free(free, "the row" if len(lengths) == 1 else f"the batch of {len(lengths)} rows")
    strings = [torch.nn.functional.pad(enumerate_boundaries(max(1, n)), (0, width - max(1, n))) for n in lengths]
    combinations = list(product(*(range(len(row)) for row in strings)))
    return torch.stack([torch.stack([row[c] for row, c in zip(strings, chosen, strict=True)]) for chosen in combinations])


def policy_log_prob(model: AutoregressiveUNet, shared: SharedPass, strings: Bool[Tensor, "S B N"]) -> Float[Tensor, "S B N"]:
    """log pi of each decision, 0 where nothing was drawn; with graph."""
    many, decisions = len(strings), strings.flatten(0, 1)
    each = log_prob(model.rule.logits(stack(shared.terms, many), decisions), decisions).unflatten(0, (many, -1))
    return torch.where(shared.drawn, each, 0.0)


@dataclass(frozen=True)
class EnumeratedRow:
    """Every string of one row, with its chance and its losses."""

    boundaries: Bool[Tensor, "S N"]
    log_policy: Float[Tensor, " S"]  # log pi(a | x), nats
    nll: Float[Tensor, "S N"]  # nats, entry i predicts byte i + 1
    early_nll: Float[Tensor, " N"]  # the same for every string

    @property
    def log_likelihood(self) -> Float[Tensor, " S"]:
        """log p(y | a, x) of the whole row at each string, nats."""
        return -self.nll.sum(dim=1)

    @property
    def expected(self) -> Float[Tensor, ""]:
        """E_a log p(y | a, x), the right side of eq. (10)."""
        return (self.log_policy.exp() * self.log_likelihood).sum()

    @property
    def marginal(self) -> Float[Tensor, ""]:
        """log p(y | x) = log sum_a pi(a | x) p(y | a, x), the left side of eq. (10)."""
        return torch.logsumexp(self.log_policy + self.log_likelihood, dim=0)

    @property
    def jensen_gap(self) -> Float[Tensor, ""]:
        """marginal - expected, nats; never negative, and 0 only if all strings that can be drawn serve equally well."""
        return self.marginal - self.expected


@torch.no_grad()
def enumerate_row(model: AutoregressiveUNet, ids: Int[Tensor, "1 N_plus_1"]) -> EnumeratedRow:
    """Score one row at every boundary string. More than 12 free positions are an error that states the cost."""
    check_rows(ids)
    if len(ids) != 1:
        raise RltokError(f"enumerate_row takes one row; got {len(ids)}. Several rows together: joint_moments.")
    strings = all_strings(ids)
    shared = share(model, ids)
    nll = torch.cat([follow(model, shared, part).nll for part in strings.split(CHUNK)])
    policy = policy_log_prob(model, shared, strings)
    return EnumeratedRow(strings[:, 0], policy.sum(dim=(1, 2)), nll[:, 0], shared.early_nll[0])


def expected_loss(model: AutoregressiveUNet, ids: Int[Tensor, "B N_plus_1"]) -> Float[Tensor, ""]:
    """E_a of the mean NLL per scored byte, nats: minus the right side of eq. (10), per byte. With graph."""
    return _expected(model, ids)[0]


def _expected(model: AutoregressiveUNet, ids: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Expected loss; the same with the chances held fixed; the same with the losses held fixed."""
    check_rows(ids)
    total = conditional = policy = 0.0
    of_rows = [(row[None], all_strings(row[None])) for row in ids if row[1] != PAD]  # too many are refused before one is scored
    for alone, strings in of_rows:  # rows do not influence each other, so the expectation of their sum takes a row at a time
        chances = policy_log_prob(model, share(model, alone), strings).sum(dim=(1, 2)).exp()
        for part, chance in zip(strings.split(CHUNK), chances.split(CHUNK), strict=True):
            many = alone.expand(len(part), -1)
            nll = model(many, boundaries=part[:, 0]).nll.sum(dim=1)
            total = total + (chance * nll).sum()
            conditional = conditional + (chance.detach() * nll).sum()
            policy = policy + (chance * nll.detach()).sum()
    count = (ids[:, 1:] != PAD).sum()
    return total / count, conditional / count, policy / count


@dataclass(frozen=True)
class ExactGradient:
    """Gradient of the expected loss, by parameter name. total = conditional + policy."""

    conditional: dict[str, Tensor]  # eq. (12): through the losses, at every string
    policy: dict[str, Tensor]  # eq. (13): through the chances of the strings
    total: dict[str, Tensor]  # eq. (11), differentiated as a whole

    def flat(self, term: str, names: list[str]) -> Float[Tensor, " P"]:
        """One term as a vector, parameters in the order of `names`."""
        return torch.cat([getattr(self, term)[name].flatten() for name in names])


def exact_gradient(model: AutoregressiveUNet, ids: Int[Tensor, "B N_plus_1"]) -> ExactGradient:
    """Gradient of `expected_loss` for every parameter, eq. (11), and its two terms, eqs. (12) and (13), with the sign of a loss.

    grad sum_a pi(a) l(a) = sum_a pi(a) grad l(a) + sum_a l(a) grad pi(a)
    """
    named = dict(model.named_parameters())

    def by_name(loss: Tensor) -> dict[str, Tensor]:
        grads = torch.autograd.grad(loss, named.values(), retain_graph=True, materialize_grads=True, allow_unused=True)
        return dict(zip(named, grads, strict=True))

    total, conditional, policy = _expected(model, ids)
    return ExactGradient(by_name(conditional), by_name(policy), by_name(total))


def influence(model: AutoregressiveUNet, ids: Int[Tensor, "1 N_plus_1"]) -> Float[Tensor, "N N P"]:
    """The exact contribution of the reward at j to the gradient of the decision at i.

        I_ij = - E[ R_j grad log pi(a_i) ] / N,   R_j = log p(x_{j+1} | ...)

    Zero for j < i: no decision changes what came before it, which is why causal credit costs no bias. The expected gradient of
    an estimator is a weighted sum: all ones for naive and causal, gamma^(j - i) with a discount.

    Returns:
        Flat gradients in the order of `gradients.policy_parameters`; rows for decisions, columns for rewards.
    """
    row = enumerate_row(model, ids)
    parameters = list(policy_parameters(model).values())
    each = policy_log_prob(model, share(model, ids), row.boundaries[:, None])[:, 0]  # S N
    weights = row.log_policy.exp()[:, None] * row.nll  # pi(a) * -R_j(a)
    count = (ids[:, 1:] != PAD).sum()
    cells = []
    for i in range(each.shape[1]):
        loss = (each[:, i, None] * weights).sum(dim=0) / count  # N losses, one for each reward
        eye = torch.eye(len(loss), dtype=loss.dtype)
        grads = torch.autograd.grad(loss, parameters, eye, retain_graph=True, is_grads_batched=True, materialize_grads=True)
        cells.append(torch.cat([grad.flatten(1) for grad in grads], dim=1))
    return torch.stack(cells)


@dataclass(frozen=True)
class Moments:
    """Exact expectation and variance of one estimator's gradient, each parameter by itself."""

    mean: Float[Tensor, " P"]
    variance: Float[Tensor, " P"]


def joint_moments(model: AutoregressiveUNet, ids: Int[Tensor, "B N_plus_1"], names: list[str]) -> dict[str, Moments]:
    """Expectation and variance of estimators over every combination of the rows' strings, centring included.

    Args:
        ids: a batch; its free positions, of all rows together, are at most 12.
        names: estimators of `rltok.variance.ladder`.
    """
    if not names:
        raise RltokError(
            "names is empty. Name at least one estimator, such as 'naive'; rltok.variance.ladder.ladder() lists them."
        )
    check_rows(ids)
    strings = all_strings(ids)
    shared = share(model, ids)
    chances = policy_log_prob(model, shared, strings).sum(dim=(1, 2)).exp().detach()
    sums = {name: [0.0, 0.0] for name in names}
    for part, chance in zip(strings.split(CHUNK), chances.split(CHUNK), strict=True):
        for name, grads in policy_gradients(model, shared, follow(model, shared, part), names).items():
            sums[name][0] = sums[name][0] + chance @ grads
            sums[name][1] = sums[name][1] + chance @ grads.square()
    return {name: Moments(mean, square - mean.square()) for name, (mean, square) in sums.items()}
