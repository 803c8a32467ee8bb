"""Rungs beyond the paper: expectation against the exact gradient, variance against brute force, to 1e-9; and what is biased.

The brute force draws with `model(ids, uniforms=...)` in the middle of every cell of uniforms, or goes through all strings.
"""

import itertools
from dataclasses import replace

import numpy as np
import pytest
import torch
from brute import close, reached, returns_by_hand
from helpers import ragged_ids, sigmoid, tiny_model

from rltok.baselines import value_features
from rltok.errors import RltokError
from rltok.variance.beyond import antithetic, linear_value, minus, one_draw, updates_of
from rltok.variance.beyond_exact import Table
from rltok.variance.exact import exact_gradient, joint_moments
from rltok.variance.gradients import policy_parameters, share

pytestmark = pytest.mark.usefixtures("shapes_unchecked")
EXACT = 1e-9
BATCHES = {"one row": ((4,), 2), "no memory": ((4,), 0), "full rows": ((3, 3), 2), "ragged rows": ((4, 2), 3)}
NAMES = (
    "one draw", "baseline of 1 other draw", "baseline of 3 other draws", "leave one out, 2 draws", "leave one out, 4 draws",
    "antithetic, 2 draws", "antithetic, 4 draws", "sees the past", "sees the text", "mean return of the text",
    "mean return of the text and past", "one decision in 1 flipped", "one decision in 2 flipped",
)  # fmt: skip


def name_of(gamma):
    return "causal+early" + ("" if gamma == 1 else f"+gamma{gamma}")


class Setting:
    """A batch with every string scored, and two values with weights that nobody fitted."""

    def __init__(self, lengths, lags):
        self.model = tiny_model(lags=lags, mid_layers=1, target_rate=0.4, dtype=torch.float64)
        self.ids, self.lengths, self.lags = ragged_ids(lengths, seed=3), lengths, lags
        self.table = Table.of(self.model, share(self.model, self.ids))

    def values(self, gamma):
        values, shared = {}, self.table.shared
        for name, sees in (("sees the past", "past"), ("sees the text", "text")):
            seen = value_features(
                shared.byte_states, shared.early_nll, self.table.draws.boundaries, lags=self.lags, gamma=gamma, sees=sees
            )
            weights = torch.from_numpy(np.random.default_rng(0).normal(size=seen.shape[-1]))
            values[name] = linear_value(weights, lags=self.lags, gamma=gamma, sees=sees)
        return values

    def moments(self, gamma, centring="none"):
        return {name: self.table.moments(*update) for name, *update in self.table.rungs(gamma, self.values(gamma), centring)}


@pytest.fixture(scope="module")
def settings():
    return {kind: Setting(*arguments) for kind, arguments in BATCHES.items()}


@pytest.mark.parametrize("kind", BATCHES)
def test_every_rung_expects_the_gradient_of_the_expected_loss(kind, settings):
    at = settings[kind]
    wanted = exact_gradient(at.model, at.ids).flat("policy", list(policy_parameters(at.model)))
    found = at.moments(1.0)
    assert tuple(found) == NAMES and wanted.abs().max() > 1e-2
    for name, moments in found.items():
        close(moments.mean, wanted, atol=EXACT, what=name)


@pytest.mark.parametrize("kind", BATCHES)
def test_with_a_discount_it_expects_what_the_ladders_rung_does(kind, settings):
    at = settings[kind]
    one = joint_moments(at.model, at.ids, [name_of(0.9)])[name_of(0.9)]
    found = at.moments(0.9)
    for name, moments in found.items():
        close(moments.mean, one.mean, atol=EXACT, what=name)
        assert moments.variance.max() > 1e-6, name
    close(found["one draw"].variance, one.variance, atol=EXACT)


@pytest.mark.parametrize(("centring", "factor"), [("leave_one_out", 1.0), ("batch", 1 / 2)])
def test_centring_over_full_rows_scales_every_rung_as_it_scales_the_papers(centring, factor, settings):
    """(B - 1) / B where the mean holds the row itself. Rungs that compare two values of one decision are not centred."""
    at = settings["full rows"]
    wanted = exact_gradient(at.model, at.ids).flat("policy", list(policy_parameters(at.model)))
    for name, moments in at.moments(1.0, centring).items():
        close(moments.mean, (1.0 if "flipped" in name else factor) * wanted, atol=EXACT, what=name)


def looked_at(model):
    """Numbers of the policy's parameters, and of some of the encoder's; all of them would take minutes."""
    policy = sum(parameter.numel() for parameter in model.rule.parameters())
    return np.r_[:policy, policy : sum(parameter.numel() for parameter in reached(model)) : 101]


class Brute:
    """One row at every string: chances, returns, and the gradient of each logit, from forward passes of the model."""

    def __init__(self, at, gamma):
        self.model, self.ids, self.size = at.model, at.ids, at.lengths[0]
        self.strings = [(True, *tail) for tail in itertools.product([False, True], repeat=self.size - 1)]
        self.p, self.returns, self.slopes, self.chance = {}, {}, {}, {}
        for string in self.strings:
            out = self.model(self.ids, boundaries=torch.tensor([string]))
            logits = out.boundary_logits[0]
            self.returns[string] = returns_by_hand(out.nll[0].detach().numpy(), out.early_nll[0].detach().numpy(), name_of(gamma))
            self.p[string] = sigmoid(logits.detach())
            rows = torch.autograd.grad(logits, reached(self.model), torch.eye(self.size).double(), is_grads_batched=True)
            self.slopes[string] = torch.cat([row.flatten(1) for row in rows], dim=1).numpy()[:, looked_at(at.model)]
            chosen = np.where(string, self.p[string], 1 - self.p[string])
            self.chance[string] = chosen[1:].prod()

    def gradient(self, string, coefficients):
        """- 1/bytes sum over drawn positions of c_i grad l_i."""
        return -(np.asarray(coefficients)[1:] @ self.slopes[string][1:]) / self.size

    def score(self, string, advantages):
        return self.gradient(string, advantages * (np.array(string) - self.p[string]))

    def drawn(self, uniforms):
        """The string of each row of uniforms [M, N]."""
        ids = self.ids.expand(len(uniforms), -1)
        return [tuple(row) for row in self.model(ids, uniforms=torch.from_numpy(uniforms)).boundaries.tolist()]

    def cells(self):
        """Volumes [M] and middles [M, N] of all cells of uniforms within which a draw and its twin stay what they are."""
        edges = [[0.0, 1.0]]
        for i in range(1, self.size):
            chances = {round(float(p[i]), 12) for p in self.p.values()}
            edges.append(sorted({0.0, 1.0, *chances, *(1 - chance for chance in chances)}))
        cells = np.array(list(itertools.product(*(itertools.pairwise(each) for each in edges))))
        return (cells[..., 1] - cells[..., 0]).prod(axis=1), cells.mean(axis=2)


def moments_of(weighted):
    chances, gradients = zip(*weighted, strict=True)
    chances, gradients = np.array(chances), np.array(gradients)
    assert chances.sum() == pytest.approx(1, abs=1e-10)
    mean = chances @ gradients
    return mean, chances @ (gradients - mean) ** 2


def independent(brute, number, everyone):
    for chosen in itertools.product(brute.strings, repeat=number):
        returns = np.array([brute.returns[string] for string in chosen])
        paid = [returns[k] - np.delete(returns, k, axis=0).mean(axis=0) for k in range(number)]
        grads = [brute.score(string, each) for string, each in zip(chosen, paid, strict=True)]
        yield np.prod([brute.chance[string] for string in chosen]), np.mean(grads, axis=0) if everyone else grads[0]


def pairs(brute):
    """{(draw, twin): (chance, mean of 1 - 2 u)} by the cells."""
    found, (volumes, middles) = {}, brute.cells()
    for volume, middle, *pair in zip(volumes, middles, brute.drawn(middles), brute.drawn(1 - middles), strict=True):
        seen = found.setdefault(tuple(pair), [0.0, 0.0])
        seen[0] += volume
        seen[1] = seen[1] + volume * (1 - 2 * middle)
    return {pair: (chance, sums / chance) for pair, (chance, sums) in found.items()}


def antithetic_pair(brute, pair, weight, baseline=0.0):
    one, two = (brute.gradient(string, (brute.returns[string] - baseline) * weight) for string in pair)
    return (one - two) / 2


def antithetic_pairs(brute, number):
    of_pairs = pairs(brute)
    for chosen in itertools.product(of_pairs.items(), repeat=number):
        means = [np.mean([brute.returns[string] for string in pair], axis=0) for pair, _ in chosen]
        grads = []
        for k, (pair, (_, weight)) in enumerate(chosen):
            grads.append(antithetic_pair(brute, pair, weight, means[1 - k] if number == 2 else 0.0))
        yield np.prod([chance for _, (chance, _) in chosen]), np.mean(grads, axis=0)


def flipped(brute, stride):
    volumes, middles = brute.cells()
    strings, c = brute.drawn(middles), np.zeros((brute.size, len(middles), brute.size))
    for i in range(1, brute.size):
        at = np.arange(brute.size) == i
        without, with_it = (brute.drawn(np.where(at, u, middles)) for u in (1 - 1e-12, 0.0))
        for number, (string, *ends) in enumerate(zip(strings, with_it, without, strict=True)):
            p, (gain, loss) = brute.p[string][i], [brute.returns[end][i] for end in ends]
            c[i, number, i] = stride * p * (1 - p) * (gain - loss)
    for offset in range(stride):
        for string, volume, each in zip(strings, volumes, c[offset::stride].sum(axis=0), strict=True):
            yield volume / stride, brute.gradient(string, each)


def oracle(brute, past):
    for string in brute.strings:
        values = np.zeros(brute.size)
        for i in range(brute.size):
            alike = [other for other in brute.strings if not past or other[:i] == string[:i]]
            chances = np.array([brute.chance[other] for other in alike])
            values[i] = chances @ [brute.returns[other][i] for other in alike] / chances.sum()
        yield brute.chance[string], brute.score(string, brute.returns[string] - values)


BRUTE = {
    "one draw": lambda b: ((b.chance[s], b.score(s, b.returns[s])) for s in b.strings),
    "baseline of 1 other draw": lambda b: independent(b, 2, everyone=False),
    "baseline of 3 other draws": lambda b: independent(b, 4, everyone=False),
    "leave one out, 2 draws": lambda b: independent(b, 2, everyone=True),
    "leave one out, 4 draws": lambda b: independent(b, 4, everyone=True),
    "antithetic, 2 draws": lambda b: antithetic_pairs(b, 1),
    "antithetic, 4 draws": lambda b: antithetic_pairs(b, 2),
    "mean return of the text": lambda b: oracle(b, past=False),
    "mean return of the text and past": lambda b: oracle(b, past=True),
    "one decision in 1 flipped": lambda b: flipped(b, 1),
    "one decision in 2 flipped": lambda b: flipped(b, 2),
}


@pytest.mark.parametrize("kind", ["one row", "no memory"])
def test_expectation_and_variance_of_every_rung_equal_brute_force(kind, settings):
    at, gamma = settings[kind], 0.9
    brute, found = Brute(at, gamma), at.moments(gamma)
    assert set(BRUTE) == {name for name in NAMES if not name.startswith("sees")}
    for name, draws in BRUTE.items():
        mean, variance = moments_of(draws(brute))
        close(found[name].mean[looked_at(at.model)], mean, atol=EXACT, what=name)
        close(found[name].variance[looked_at(at.model)], variance, atol=EXACT, what=name)


def test_the_published_formula_for_antithetic_pairs_is_biased_where_the_policy_remembers_and_right_where_not(settings):
    errors = {}
    for kind in ("one row", "no memory"):
        brute = Brute(settings[kind], 1.0)
        wanted = exact_gradient(brute.model, brute.ids).flat("policy", list(policy_parameters(brute.model)))
        mean = 0.0
        for (a, b), (chance, _) in pairs(brute).items():
            apart, p = brute.returns[a] - brute.returns[b], brute.p[a]
            coefficients = np.where(b, -0.5, 0.5) * (np.array(a) != b) * np.maximum(p, 1 - p) * apart
            mean = mean + chance * brute.gradient(a, coefficients)
        errors[kind] = np.abs(mean - wanted.numpy()[looked_at(brute.model)]).max()
    assert errors["no memory"] < EXACT and errors["one row"] > 1e-3


def biased(at, chances, updates, coefficients):
    wanted = exact_gradient(at.model, at.ids).flat("policy", list(policy_parameters(at.model)))
    return (at.table.moments(chances, updates, coefficients).mean - wanted).abs().max().item()


def test_a_mean_over_rows_that_holds_a_rows_own_twin_is_biased(settings):
    at = settings["full rows"]
    chances, updates = at.table.antithetic(2, 1.0)
    for kept, wrong in (((0,), False), ((0, 1), True)):
        baseline = torch.zeros_like(updates.returns)
        for k, b in np.ndindex(2, 2):
            held = [updates.returns[m, :, 1 - b] for m in (0, 1)]
            held += [updates.returns[1 - k, :, b]] if len(kept) > 1 else []
            baseline[k, :, b] = torch.stack(held).mean(dim=0)
        centred = replace(updates, returns=updates.returns - baseline)
        assert (biased(at, chances, centred, antithetic(centred)) > 1e-3) == wrong


def test_a_value_that_knows_the_decision_itself_is_biased_and_one_of_later_bytes_is_not(settings):
    at = settings["one row"]
    chances, updates = at.table.independent(1, 1.0)

    def knows(shift):
        return lambda updates: updates.boundaries.double().roll(shift, dims=-1)

    assert biased(at, chances, updates, minus(knows(0))(updates)) > 1e-3
    assert biased(at, chances, updates, minus(knows(1))(updates)) < EXACT
    assert biased(at, chances, updates, minus(lambda updates: at.table.shared.early_nll.flip(1)[None, None])(updates)) < EXACT


def test_a_value_fitted_to_the_draw_that_it_is_subtracted_from_is_biased(settings):
    at = settings["one row"]
    chances, updates = at.table.independent(1, 1.0)
    assert biased(at, chances, updates, minus(lambda updates: updates.returns.mean(dim=-1, keepdim=True))(updates)) > 1e-3


def test_too_many_ways_are_refused_before_any_is_made(settings):
    table = Table.of(settings["one row"].model, share(settings["one row"].model, ragged_ids((7,))))
    with pytest.raises(RltokError, match=r"an update of 3 draws can fall in 262144 ways; the limit is 65536"):
        table.independent(3, 1.0)
    with pytest.raises(RltokError, match="antithetic draws come in pairs.*got 3"):
        table.antithetic(3, 1.0)
    for number in (0, 5):
        with pytest.raises(RltokError, match=f"draws must be at least 1, and divide the 64 that were made; got {number}"):
            updates_of(table.shared, table.draws, number, 1.0)


def test_one_draw_is_the_rung_of_the_ladder_with_every_centring():
    at = Setting((3, 3), 2)
    for centring, ending in (("none", ""), ("batch", "+batch"), ("leave_one_out", "+loo")):
        name = f"causal+early+gamma0.9{ending}"
        wanted = joint_moments(at.model, at.ids, [name])[name]
        chances, updates = at.table.independent(1, 0.9, centring)
        found = at.table.moments(chances, updates, one_draw(updates))
        close(found.mean, wanted.mean, atol=EXACT, what=name)
        close(found.variance, wanted.variance, atol=EXACT, what=name)
