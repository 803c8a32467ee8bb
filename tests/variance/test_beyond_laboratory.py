"""The rungs beyond the paper on real rows: gradients from training's own forward passes, statistics of known ones."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from brute import close, returns_by_hand
from helpers import ragged_ids, tiny_config, tiny_model

from rltok.baselines import antithetic_coefficients, local_expectation, value_features
from rltok.flops import flops_per_byte
from rltok.rng import row_uniforms
from rltok.step import losses_of
from rltok.variance import beyond_laboratory as laboratory
from rltok.variance.beyond import linear_value
from rltok.variance.beyond_laboratory import BASE, FLIPPED, ORACLE, Sampled, costs, measures, sample, value_weights
from rltok.variance.gradients import share
from rltok.variance.laboratory import Sizes

pytestmark = pytest.mark.usefixtures("shapes_unchecked")
SEED, GAMMA, LENGTH, ROWS = 11, 0.9, 5, 2
SIZES = Sizes(rows=ROWS, batches=4, draws=3, reference_draws=5)


class Laboratory:
    """What `sample` finds on four batches of two rows, and the forward passes of the second of them, update by update."""

    def __init__(self):
        self.model = tiny_model(lags=2, mid_layers=1, head_norm="rms", dtype=torch.float64)
        self.batches = [ragged_ids((LENGTH,) * ROWS, seed=seed) for seed in range(4)]
        self.weights = value_weights(self.model, self.batches[2:], 5, gamma=GAMMA, sees="text")
        value = linear_value(self.weights, lags=2, gamma=GAMMA, sees="text")
        self.found = sample(self.model, self.batches, {"value": value}, SIZES, SEED, GAMMA)
        self.ids = self.batches[1]
        self.uniforms = [self.of_draw(number) for number in range(12 + 5)]

    def of_draw(self, number):
        return row_uniforms(SEED, number, range(ROWS, 2 * ROWS), LENGTH)

    def out(self, uniforms):
        return self.model(self.ids, uniforms=uniforms)

    def returns(self, out, gamma=GAMMA):
        pairs = zip(out.nll.detach().numpy(), out.early_nll.detach().numpy(), strict=True)
        return np.stack([returns_by_hand(*pair, f"causal+early+gamma{gamma}") for pair in pairs])

    def flat(self, loss):
        grads = torch.autograd.grad(loss, list(self.model.rule.parameters()), retain_graph=True)
        return torch.cat([grad.flatten() for grad in grads]).numpy()

    def score(self, out, paid):
        return self.flat(losses_of(out, torch.from_numpy(paid), 0.3).policy)

    def of_update(self, m):
        """{rung: gradient} of one update of the second batch; draw k of update m is number 3 k + m."""
        outs = [self.out(self.uniforms[3 * k + m]) for k in range(4)]
        returns = [self.returns(out) for out in outs]
        apart = returns[0] - returns[0][::-1]  # of two rows, the other one
        references = np.mean([self.returns(self.out(u)) for u in self.uniforms[12:]], axis=0)
        shared = share(self.model, self.ids)
        seen = value_features(shared.byte_states, shared.early_nll, outs[0].boundaries[None], lags=2, gamma=GAMMA, sees="text")[0]
        two = [returns[0] - returns[1], returns[1] - returns[0]]
        return {
            "one draw": self.score(outs[0], returns[0]),
            BASE: self.score(outs[0], apart),
            "baseline of 1 other draw": self.score(outs[0], two[0]),
            "baseline of 1 other draw+loo": self.score(outs[0], two[0] - two[0][::-1]),
            "baseline of 3 other draws": self.score(outs[0], returns[0] - np.mean(returns[1:], axis=0)),
            "leave one out, 2 draws": (self.score(outs[0], two[0]) + self.score(outs[1], two[1])) / 2,
            "antithetic, 2 draws": self.pair(m),
            "value": self.score(outs[0], returns[0] - (seen @ self.weights).detach().numpy()),
            ORACLE: self.score(outs[0], returns[0] - references),
        }

    def pair(self, m):
        pair = [self.out(u) for u in (self.uniforms[m], 1 - self.uniforms[m])]
        logits, boundaries = (torch.stack([getattr(out, name) for out in pair]) for name in ("boundary_logits", "boundaries"))
        c = antithetic_coefficients(logits.detach(), boundaries, torch.from_numpy(np.stack([self.returns(out) for out in pair])))
        return self.flat(-(c * logits)[..., 1:].sum() / (ROWS * LENGTH))

    def flipped(self, offset):
        """Of the first update: every second decision, from this offset on."""
        out = self.out(self.uniforms[0])
        a, returns, c = out.boundaries, torch.from_numpy(self.returns(out)), torch.zeros(ROWS, LENGTH).double()
        for i in range(offset or 2, LENGTH, 2):
            other = self.uniforms[0].clone()
            other[:, i] = a[:, i].float() * (1 - 2**-24)  # none, or a boundary, whatever the chance
            tried = torch.from_numpy(self.returns(self.out(other)))
            c[:, i] = 2 * local_expectation(out.boundary_logits.detach()[:, i], a[:, i], returns[:, i], tried[:, i])
        return self.flat(-(c * out.boundary_logits).sum() / (ROWS * LENGTH))


@pytest.fixture(scope="module")
def lab():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(laboratory, "STRIDE", 2)
        return Laboratory()


def test_means_and_squares_are_those_of_trainings_gradients_for_uniforms_of_seed_draw_and_row(lab):
    updates = [lab.of_update(m) for m in range(3)]
    for name in updates[0]:
        grads = np.stack([update[name] for update in updates])
        close(lab.found.mean[name][1], grads.mean(axis=0), atol=1e-11, what=name)
        assert lab.found.square[name][1].item() == pytest.approx((grads**2).sum(axis=1).mean(), rel=1e-10), name
        assert np.abs(grads).max() > 1e-4, name


def test_one_decision_in_so_many_is_flipped_from_an_offset_that_seed_and_batch_choose(lab):
    offset = int(np.random.default_rng([SEED, 1]).integers(2))
    close(lab.found.mean[FLIPPED][1], lab.flipped(offset), atol=1e-11)
    assert np.abs(lab.flipped(offset) - lab.flipped(1 - offset)).max() > 1e-3


def test_both_references_leave_one_of_the_reference_draws_out(lab):
    outs = [lab.out(u) for u in lab.uniforms[12:]]
    for values, gamma in ((lab.found.at_gamma, GAMMA), (lab.found.at_1, 1)):
        returns = np.stack([lab.returns(out, gamma) for out in outs])
        paid = [each - np.delete(returns, k, axis=0).mean(axis=0) for k, each in enumerate(returns)]
        close(values[1], np.mean([lab.score(*pair) for pair in zip(outs, paid, strict=True)], axis=0), atol=1e-11)


def test_every_rung_is_there_alone_and_centred(lab):
    alone = [name for name in lab.found.mean if not name.endswith("+loo") and name != FLIPPED]
    assert list(lab.found.mean) == [each for name in alone for each in (name, f"{name}+loo")] + [FLIPPED]
    assert len(alone) == 9


# Statistics


def made_up(batches, seed=0):
    """Two rungs in 8 dimensions: shared mean of length 1, scatter between batches 1 and within 2; the second has half of both."""
    generator, draws = np.random.default_rng(seed), 3
    mean, sizes = np.eye(8)[0], Sizes(4, batches, draws, draws)
    means, squares = {}, {}
    for name, scale, shift in ((BASE, 1.0, 0.0), ("quiet", 0.5, 0.0), ("biased", 0.5, 0.5), (FLIPPED, 1.0, 0.0)):
        grads = mean * (1 + shift) + scale * generator.normal(size=(batches, 1, 8))
        grads = grads + scale * 2 * generator.normal(size=(batches, 1 if name == FLIPPED else draws, 8))
        means[name] = torch.from_numpy(grads.mean(axis=1))
        squares[name] = torch.from_numpy((grads**2).sum(axis=2).mean(axis=1))
    references = [
        torch.from_numpy(each + 0.3 * generator.normal(size=(batches, 8))) for each in (mean, np.eye(8)[:2].sum(axis=0))
    ]
    return Sampled(means, squares, *references, sizes, {})


@pytest.fixture(scope="module")
def measured():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(laboratory, "RESAMPLES", 50)
        return measures(made_up(batches=1500))


def test_signal_and_cosine_are_those_of_the_references(measured):
    assert measured["signal"][0] == pytest.approx(1, abs=0.05)
    assert measured["limit"][0] == pytest.approx(1 / math.sqrt(2), abs=0.05)


def test_variance_share_of_the_draws_and_ratio_are_those_that_were_made_up(measured):
    base, quiet = (measured["rungs"][name] for name in (BASE, "quiet"))
    assert base["variance"][0] == pytest.approx(8 * (1 + 4), rel=0.05)
    assert quiet["variance"][0] == pytest.approx(8 * (1 + 4) / 4, rel=0.05)
    assert base["draw_share"][0] == pytest.approx(4 / 5, rel=0.05)
    assert base["ratio"] == [1.0, 1.0, 1.0] and quiet["ratio"][0] == pytest.approx(4, rel=0.08)
    low, high = quiet["ratio"][1:]
    assert low < quiet["ratio"][0] < high and high - low < 1
    assert base["rows_needed"][0] == pytest.approx(4 * 40 / ((2 / math.sqrt(2)) ** 2 - 1), rel=0.2)


def test_the_variance_of_a_few_updates_is_that_of_a_sample():
    few = made_up(batches=5)
    wanted = few.mean[FLIPPED].var(dim=0, correction=1).sum().item()
    assert measures(few)["rungs"][FLIPPED]["variance"][0] == pytest.approx(wanted, rel=1e-10)


def test_a_bias_of_half_the_gradient_is_a_quarter_of_its_square_and_none_is_none(measured):
    assert measured["rungs"]["biased"]["bias"][0] == pytest.approx(0.25, abs=0.08)
    for name in (BASE, "quiet"):
        value, low, high = measured["rungs"][name]["bias"]
        assert abs(value) < 0.08 and low < 0 < high


def test_of_one_update_a_batch_the_share_of_the_draws_is_not_known(measured):
    found = measured["rungs"][FLIPPED]
    assert found["draw_share"] == [None, None, None] and found["variance"][0] == pytest.approx(40, rel=0.1)


# Costs


def test_what_one_more_draw_costs_is_its_share_of_the_layers_after_the_encoder():
    config, rate = replace(tiny_config(), down_layers=3), 0.25
    model = tiny_model(down_layers=3)

    def matrices(part):
        return sum(p.numel() for p in part.parameters() if p.ndim == 2)

    policy = model.rule.project.weight.numel()
    extra = 2 * (policy + rate * matrices(model.mid_blocks) + matrices(model.up_blocks) + 257 * 16)
    whole, found = flops_per_byte(config, rate), costs(config, 320, rate, SIZES)
    wanted = {
        "one draw": (1, 0), "baseline of 1 other draw": (2, extra), "baseline of 3 other draws": (4, 3 * extra),
        "leave one out, 4 draws": (4, 3 * (extra + 4 * policy)), "antithetic, 2 draws": (2, extra + 4 * policy),
        "linear value, later states": (1, 6 * (1 + 2 * 16 + 3)), ORACLE: (6, 5 * extra), FLIPPED: (21, 20 * extra),
    }  # fmt: skip
    for name, (passes, more) in wanted.items():
        assert found[name] == {"passes": passes, "flops": pytest.approx(1 + more / whole)}, name
