"""Policy gradients of many draws that share one encoder pass.

    ids -> share -> byte_states, terms (once, with graph) -> draw -> boundaries, nll (many) -> policy_gradients [K, P]

The gradient of one draw is that of training, eq. (18), at a lower cost. Rewards need the layers after the
boundaries, but no gradient through them; and logits are linear in `terms`, so one draw's gradient is one product of its
weights with the Jacobian of `terms`, which all draws share.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from rltok.errors import RltokError
from rltok.estimator import advantages, policy_loss
from rltok.losses import mean_over, next_byte_nll
from rltok.rules import Boundaries
from rltok.rules.base import first_position
from rltok.rules.learned import LearnedRule
from rltok.unet import AutoregressiveUNet, check_ids
from rltok.variance.ladder import estimator
from rltok.vocab import PAD

GROUPS = {"policy": ("rule.",), "encoder": ("embedding.", "down_blocks.")}  # by the start of a parameter's name


def policy_parameters(model: AutoregressiveUNet, groups: Iterable[str] | None = None) -> dict[str, torch.nn.Parameter]:
    """Parameters that the policy gradient reaches, by name: the rule's own, then those of the encoder; or of these groups."""
    starts = [start for group in groups or GROUPS for start in GROUPS[group]]
    return {name: p for start in starts for name, p in model.named_parameters() if name.startswith(start)}


def group_slices(model: AutoregressiveUNet) -> dict[str, slice]:
    """Where each group of `GROUPS` stands in a flat gradient."""
    slices, start = {}, 0
    sizes = {name: p.numel() for name, p in policy_parameters(model).items()}
    for group, starts in GROUPS.items():
        size = sum(size for name, size in sizes.items() if name.startswith(starts))
        slices[group] = slice(start, start + size)
        start += size
    return slices


@dataclass(frozen=True)
class SharedPass:
    """Everything that all draws on the same rows share."""

    ids: Int[Tensor, "B N_plus_1"]
    byte_states: Float[Tensor, "B N d"]
    terms: Float[Tensor, "B N terms"]  # of eq. (21), with the graph back to the parameters
    early_nll: Float[Tensor, "B N"]
    scored: Bool[Tensor, "B N"]
    drawn: Bool[Tensor, "B N"]


@dataclass(frozen=True)
class Draws:
    """K strings of boundaries for each row, and the loss at each."""

    boundaries: Bool[Tensor, "K B N"]
    nll: Float[Tensor, "K B N"]
    logits: Float[Tensor, "K B N"]  # of eq. (23)


def check_rows(ids: Int[Tensor, "B N_plus_1"]) -> None:
    """Raise `RltokError` unless the model takes the rows and at least one has something to score."""
    check_ids(ids)
    if not bool((ids[:, 1:] != PAD).any()):
        raise RltokError("the rows hold no byte to score, only PAD. Give at least one row with text.")


def share(model: AutoregressiveUNet, ids: Int[Tensor, "B N_plus_1"]) -> SharedPass:
    """Run the encoder once on rows. The rule must have a policy, else `RltokError`."""
    if not isinstance(model.rule, LearnedRule):
        raise RltokError(
            f"rule {model.config.rule.name!r} has no policy, so there is no policy gradient. Take a model with rule 'learned'."
        )
    check_rows(ids)
    scored = ids[:, 1:] != PAD
    with torch.enable_grad():
        byte_states = model.encode(ids[:, :-1])
        terms = model.rule.terms(byte_states)
    with torch.no_grad():
        early_nll = next_byte_nll(model.early_logits(byte_states), ids[:, 1:])
    return SharedPass(ids, byte_states.detach(), terms, early_nll, scored, scored & ~first_position(scored))


def stack(values: Tensor, draws: int) -> Tensor:
    """The same rows `draws` times, as one long batch."""
    return values.expand(draws, *values.shape).flatten(0, 1)


@torch.no_grad()
def _losses(model: AutoregressiveUNet, shared: SharedPass, draws: int, decided: Boundaries) -> Draws:
    decoded = model.after_boundaries(stack(shared.byte_states, draws), decided)
    nll = next_byte_nll(model.output_logits(decoded), stack(shared.ids[:, 1:], draws))
    return Draws(*(values.unflatten(0, (draws, -1)) for values in (decided.boundaries, nll, decided.logits)))


@torch.no_grad()
def draw(model: AutoregressiveUNet, shared: SharedPass, uniforms: Float[Tensor, "K B N"]) -> Draws:
    """Draw boundaries K times for the same rows and score each."""
    many = len(uniforms)
    decided = model.decide(stack(shared.byte_states, many), stack(shared.ids, many), uniforms=uniforms.flatten(0, 1))
    return _losses(model, shared, many, decided)


@torch.no_grad()
def follow(model: AutoregressiveUNet, shared: SharedPass, boundaries: Bool[Tensor, "K B N"]) -> Draws:
    """Score K given strings for each row."""
    many = len(boundaries)
    decided = model.decide(stack(shared.byte_states, many), stack(shared.ids, many), boundaries=boundaries.flatten(0, 1))
    return _losses(model, shared, many, decided)


def advantages_of_draws(shared: SharedPass, draws: Draws, name: str) -> Float[Tensor, "K B N"]:
    """Advantages that the estimator called `name` pays in every draw; centring is over the rows of a draw."""
    objective, rows = estimator(name), len(shared.ids)
    if objective.centring != "none" and rows < 2:
        raise RltokError(
            f"estimator {name!r} subtracts a mean over the rows of a batch (eq. 17). With B = {rows} row there is no other row to"
            " compare with: the row is its own mean, every advantage is 0, and no signal is left. Take at least 2 rows."
        )
    reductions = objective.reductions
    return torch.vmap(lambda nll: advantages(nll, shared.early_nll, shared.scored, **reductions))(draws.nll)


def policy_weights(
    model: AutoregressiveUNet, shared: SharedPass, draws: Draws, names: list[str]
) -> dict[str, Float[Tensor, "K B N terms"]]:
    """Gradient of each draw's policy loss (18) with respect to `terms`; all draws share what lies behind them."""
    many, count = len(draws.boundaries), shared.scored.sum()
    leaf = stack(shared.terms.detach(), many).requires_grad_()
    boundaries, drawn = draws.boundaries.flatten(0, 1), stack(shared.drawn, many)
    logits, weights = model.rule.logits(leaf, boundaries), {}
    for name in names:
        paid = advantages_of_draws(shared, draws, name).flatten(0, 1)
        loss = policy_loss(logits, boundaries, paid, drawn, count)  # a sum over draws, each on its own copy of the terms
        weights[name] = torch.autograd.grad(loss, leaf, retain_graph=True)[0].unflatten(0, (many, -1))
    return weights


def pull_back(
    model: AutoregressiveUNet, shared: SharedPass, weights: Float[Tensor, "K B N terms"], chunk: int = 64,
    groups: Iterable[str] | None = None,
) -> Float[Tensor, "K P"]:  # fmt: skip
    """weights . d terms / d parameters for each of K weights, flat, in the order of `policy_parameters`; `chunk` at a time."""
    parameters, parts = list(policy_parameters(model, groups).values()), []
    for part in weights.split(chunk):
        grads = torch.autograd.grad(shared.terms, parameters, part, retain_graph=True, is_grads_batched=True)
        parts.append(torch.cat([grad.flatten(1) for grad in grads], dim=1))
    return torch.cat(parts)


def pull_back_each(
    model: AutoregressiveUNet, shared: SharedPass, weights: dict[str, Float[Tensor, "K B N terms"]]
) -> dict[str, Float[Tensor, "K P"]]:
    """`pull_back` of every estimator's weights, all in one go."""
    many = len(next(iter(weights.values())))
    pulled = pull_back(model, shared, torch.cat(list(weights.values())))
    return dict(zip(weights, pulled.split(many), strict=True))


def policy_gradients(
    model: AutoregressiveUNet, shared: SharedPass, draws: Draws, names: list[str]
) -> dict[str, Float[Tensor, "K P"]]:
    """Gradient of the policy loss (18) for each draw alone; all estimators from the same draws.

        g = - 1/count sum_{b,i} A_{b,i} grad log pi(a_{b,i})

    Args:
        names: estimators, see `rltok.variance.ladder`.
    """
    return pull_back_each(model, shared, policy_weights(model, shared, draws, names))


def loss_gradients(
    model: AutoregressiveUNet, ids: Int[Tensor, "B N_plus_1"], boundaries: Bool[Tensor, "K B N"]
) -> Float[Tensor, "K P"]:
    """Gradient of the mean NLL (25) at each given string, flat like `policy_gradients`: the first term, eq. (12)."""
    parameters, gradients = list(policy_parameters(model).values()), []
    for string in boundaries:
        out = model(ids, boundaries=string)
        grads = torch.autograd.grad(mean_over(out.nll, out.scored), parameters, allow_unused=True)
        pieces = [torch.zeros_like(p) if grad is None else grad for p, grad in zip(parameters, grads, strict=True)]
        gradients.append(torch.cat([piece.flatten() for piece in pieces]))
    return torch.stack(gradients)
