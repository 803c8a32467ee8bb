"""Exact moments of the rungs beyond the paper: all the ways in which the draws of an update can fall, for short rows."""

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from rltok.baselines import check_pairs
from rltok.errors import RltokError
from rltok.unet import AutoregressiveUNet
from rltok.variance.beyond import (
    ORACLE,
    RUNGS,
    Baseline,
    Coefficients,
    Updates,
    minus,
    returns_of,
    toggled,
    updates_of,
    weights_of,
)
from rltok.variance.exact import Moments, all_strings, policy_log_prob
from rltok.variance.gradients import Draws, SharedPass, follow, pull_back

MOST_UPDATES = 2**16


def _check_number(number: int, what: str) -> None:
    if number > MOST_UPDATES:
        raise RltokError(
            f"{what} can fall in {number} ways; the limit is {MOST_UPDATES}. Take shorter rows, fewer rows, or fewer draws."
        )


@dataclass(frozen=True)
class Table:
    """Every combination of the rows' strings, with its losses and its chance."""

    model: AutoregressiveUNet
    shared: SharedPass
    draws: Draws  # S of them
    chances: Float[Tensor, " S"]

    @staticmethod
    def of(model: AutoregressiveUNet, shared: SharedPass) -> "Table":
        """Score every string. More than 12 free positions are an error that states the cost."""
        strings = all_strings(shared.ids)
        with torch.no_grad():
            chances = policy_log_prob(model, shared, strings).sum(dim=(1, 2)).exp()
        return Table(model, shared, follow(model, shared, strings), chances)

    def chosen(self, numbers: Tensor, gamma: float, centring: str) -> Updates:
        """Updates whose draws are the strings of these numbers [K, M]."""
        fields = (self.draws.boundaries, self.draws.nll, self.draws.logits)
        return updates_of(self.shared, Draws(*(field[numbers.flatten()] for field in fields)), len(numbers), gamma, centring)

    def independent(self, number: int, gamma: float, centring: str = "none") -> tuple[Tensor, Updates]:
        """(chances [M], updates) of so many independent draws."""
        _check_number(len(self.chances) ** number, f"an update of {number} draws")
        numbers = torch.cartesian_prod(*[torch.arange(len(self.chances))] * number).view(-1, number).T
        return self.chances[numbers].prod(dim=0), self.chosen(numbers, gamma, centring)

    def antithetic(self, number: int, gamma: float, centring: str = "none") -> tuple[Tensor, Updates]:
        """(chances [M], updates) of so many draws in pairs from u and 1 - u; a pair has the volume of its uniforms."""
        pairs = check_pairs(number)
        p, bits = torch.sigmoid(self.draws.logits), self.draws.boundaries
        one = [torch.where(bits, 0.0, p), torch.where(bits, p, 1.0)]  # u lies between these for a string drawn with u,
        two = [torch.where(bits, 1 - p, 0.0), torch.where(bits, 1.0, 1 - p)]  # and between these for one drawn with 1 - u
        length = torch.minimum(one[1][:, None], two[1]) - torch.maximum(one[0][:, None], two[0])
        volume = torch.where(self.shared.drawn, length.clamp(min=0), 1.0).prod(dim=-1).prod(dim=-1)
        first, second = volume.nonzero(as_tuple=True)
        _check_number(len(first) ** pairs, f"an update of {pairs} antithetic pairs")
        of_pairs = torch.cartesian_prod(*[torch.arange(len(first))] * pairs).view(-1, pairs).T
        chances = volume[first[of_pairs], second[of_pairs]].prod(dim=0)
        return chances, self.chosen(torch.cat([first[of_pairs], second[of_pairs]]), gamma, centring)

    def mean_return(self, gamma: float) -> Float[Tensor, "B N"]:
        """E[G_i | x], the oracle of a text: what no estimate from draws can better unless it knows earlier decisions."""
        return torch.einsum("s,sbn->bn", self.chances, returns_of(self.shared, self.draws, gamma))

    def value(self, updates: Updates, gamma: float) -> Float[Tensor, "1 M B N"]:
        """E[G_i | x, a_<i] at draw 0 of each update: the oracle that also knows the decisions before i."""
        returns, bits = returns_of(self.shared, self.draws, gamma), self.draws.boundaries
        same = bits[:, None] == updates.boundaries[0][None]  # S M B N
        past = torch.cat([torch.ones_like(same[..., :1]), same[..., :-1]], dim=-1).cumprod(dim=-1).to(returns.dtype)
        weight = self.chances[:, None, None, None] * past
        return ((weight * returns[:, None]).sum(dim=0) / weight.sum(dim=0))[None]

    def toggled(self, gamma: float, stride: int) -> tuple[Tensor, Updates, Coefficients]:
        """(chances [M], updates, coefficients) of flipping one decision in `stride`: over all cells of uniforms, and offsets."""
        chances, uniforms = self._cells()
        made = [toggled(self.model, self.shared, uniforms, gamma=gamma, stride=stride, offset=offset) for offset in range(stride)]
        updates, coefficients = zip(*made, strict=True)
        fields = (torch.cat([getattr(one, name) for one in updates], dim=1) for name in ("boundaries", "logits", "returns"))
        return chances.repeat(stride) / stride, Updates(self.shared, *fields, "none"), torch.cat(coefficients, dim=1)

    def rungs(
        self, gamma: float, values: dict[str, Baseline], centring: str = "none"
    ) -> Iterator[tuple[str, Tensor, Updates, Coefficients]]:
        """(name, chances [M], updates, coefficients) of every rung, with the fitted `values` and the two oracles."""
        for name, (kind, number, rung) in RUNGS.items():
            made = (
                self.independent(number, gamma, centring) if kind == "independent" else self.antithetic(number, gamma, centring)
            )
            yield name, *made, rung(made[1])
        chances, updates = self.independent(1, gamma, centring)
        oracles = {
            ORACLE: lambda updates: self.mean_return(gamma).expand_as(updates.returns),
            f"{ORACLE} and past": lambda updates: self.value(updates, gamma),
        }
        for name, baseline in (values | oracles).items():
            yield name, chances, updates, minus(baseline)(updates)
        for stride in (1, 2):
            yield f"one decision in {stride} flipped", *self.toggled(gamma, stride)

    def _cells(self) -> tuple[Float[Tensor, " M"], Float[Tensor, "M B N"]]:
        """(volumes, midpoints): uniforms of one cell draw the same, after whatever past, because no chance lies inside a cell."""
        p, drawn = torch.sigmoid(self.draws.logits), self.shared.drawn
        edges = []
        for row, i in itertools.product(*map(range, drawn.shape)):
            inner = p[:, row, i].round(decimals=12).unique() if drawn[row, i] else p.new_zeros(0)
            edges.append(torch.cat([inner.new_zeros(1), inner, inner.new_ones(1)]))
        _check_number(math.prod(len(each) - 1 for each in edges), "the uniforms of an update")
        volumes = torch.cartesian_prod(*(each.diff() for each in edges)).prod(dim=-1)
        middles = torch.cartesian_prod(*((each[1:] + each[:-1]) / 2 for each in edges))
        return volumes, middles.view(-1, *drawn.shape)

    def moments(self, chances: Float[Tensor, " M"], updates: Updates, coefficients: Coefficients) -> Moments:
        """Expectation and variance of the gradient, each parameter by itself.

        A gradient is linear in its weights w [T] on the terms: with J = d terms / d parameters, E g = J' E w and Cov g = J' C J,
        so that a root of C, pulled back column by column, gives all variances.
        """
        weights = weights_of(self.model, updates, coefficients)
        flat = weights.flatten(1)
        mean = chances @ flat
        apart = (flat - mean) * chances.sqrt()[:, None]
        values, vectors = torch.linalg.eigh(apart.T @ apart)
        root = (vectors * values.clamp(min=0).sqrt()).T
        pulled = pull_back(self.model, self.shared, torch.cat([mean[None], root]).unflatten(1, weights.shape[1:]))
        return Moments(pulled[0], pulled[1:].square().sum(dim=0))
