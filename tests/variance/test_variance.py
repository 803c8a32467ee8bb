"""The laboratory against enumeration: the same numbers, a planted bias noticed, and every sum that it keeps."""

import numpy as np
import pytest
import torch
from brute import NAMES, advantages_by_hand, close, flat_gradient, gamma_of, reached, returns_by_hand, training_gradients
from helpers import ragged_ids, random_uniforms, sigmoid, tiny_model

from rltok.data import cut_documents
from rltok.data.documents import Document
from rltok.errors import RltokError
from rltok.rng import row_uniforms
from rltok.step import losses_of
from rltok.variance import gradients, laboratory
from rltok.variance.exact import joint_moments
from rltok.variance.laboratory import LOSS, Sizes, batches_of, counterpart, default_names, factor, measure_gradients
from rltok.variance.ladder import REFERENCE, gamma_sweep, ladder

pytestmark = pytest.mark.usefixtures("shapes_unchecked")
LARGEST = 4.5  # |z|: once in 150 000 comparisons of normal numbers
FULL = "causal+early+gamma0.9+batch"


def two_rows(lengths=(4, 3)):
    """A model that draws half of its boundaries, and two rows."""
    return tiny_model(lags=2, mid_layers=1, target_rate=0.5, dtype=torch.float64), ragged_ids(lengths)


def directions(mean):
    """[4, P] of length 1: along the expected gradient, and three at random."""
    chosen = np.stack([mean, *np.random.default_rng(5).normal(size=(3, len(mean)))])
    return chosen / np.linalg.norm(chosen, axis=1, keepdims=True)


def z_of_mean(sample, exact):
    """Standard errors between the mean of the sample [K, ...] and its expectation."""
    return (sample.mean(axis=0) - exact) / (sample.std(axis=0, ddof=1) / np.sqrt(len(sample)))


def z_of_draws(grads, moments):
    """Means along 4 directions, the variances of 3 parameters, and the trace: 8 comparisons of K gradients [K, P]."""
    mean, exact = moments.mean.numpy(), moments.variance.numpy()
    along = directions(mean)
    noisiest = np.argsort(exact)[-3:]
    squares = (grads - mean) ** 2
    return np.concatenate(
        [
            z_of_mean(grads @ along.T, along @ mean),
            z_of_mean(squares[:, noisiest], exact[noisiest]),
            z_of_mean(squares.sum(axis=1, keepdims=True), exact.sum()),
        ]
    )


def test_sampled_draws_agree_with_enumeration_and_a_bias_of_5_percent_is_noticed(monkeypatch):
    monkeypatch.setattr(gradients, "GROUPS", {"policy": gradients.GROUPS["policy"]})  # the encoder's come below, with fewer draws
    model, ids = two_rows()
    exact = joint_moments(model, ids, list(NAMES))
    shared = gradients.share(model, ids)
    draws = gradients.draw(model, shared, random_uniforms(2 * 10_000, 4, seed=7).view(-1, 2, 4))
    estimates = {name: grads.numpy() for name, grads in gradients.policy_gradients(model, shared, draws, list(NAMES)).items()}
    compared = np.concatenate([z_of_draws(estimates[name], exact[name]) for name in NAMES])
    assert len(compared) == 168
    assert np.abs(compared).max() < LARGEST
    assert np.abs(compared).max() > 1.5  # and they scatter as they should
    planted = z_of_draws(1.05 * estimates["causal+early"], exact["causal+early"])
    assert abs(planted[0]) > LARGEST and abs(planted[-1]) > LARGEST  # seen in the mean, and in the variance


def test_the_laboratorys_means_and_squares_agree_with_enumeration_for_both_groups_of_parameters():
    names, sizes = ["naive", "causal+early", "batch", FULL, REFERENCE], Sizes(2, 40, 4, 8)
    model, ids = two_rows()
    exact, estimates = joint_moments(model, ids, names), measure_gradients(model, [ids] * sizes.batches, names, sizes, seed=3)
    compared = []
    for number, part in enumerate(estimates.slices.values()):
        for name in names:
            mean, scatter = exact[name].mean[part].numpy(), exact[name].variance[part].sum().item()
            along = directions(mean)
            compared += [*z_of_mean(estimates.mean[name][:, part].numpy() @ along.T, along @ mean)]
            compared += [z_of_mean(estimates.square[name][:, number].numpy(), scatter + mean @ mean)]
            if name in estimates.long:
                compared += [*z_of_mean(estimates.long[name][:, part].numpy() @ along.T, along @ mean)]
    assert len(compared) == 2 * (len(names) * 5 + 4)  # the reference alone is its own counterpart
    assert 1 < np.abs(compared).max() < LARGEST


@pytest.mark.parametrize("name", [*NAMES, "causal+gamma0.00001", "causal+gamma0.12345678"])
def test_a_counterpart_has_the_same_expectation_but_for_the_factor(name):
    model, ids = two_rows((3, 3))
    moments = joint_moments(model, ids, [name, counterpart(name)])
    close(moments[name].mean, factor(name, 2) * moments[counterpart(name)].mean, atol=1e-10)
    assert counterpart(counterpart(name)) == counterpart(name) and gamma_of(counterpart(name)) == gamma_of(name)


def test_the_factor_is_that_of_a_mean_which_holds_the_row_itself():
    assert [factor(name, 4) for name in ("naive", "batch", FULL, REFERENCE)] == [1, 3 / 4, 3 / 4, 1]


class Laboratory:
    """Three draws, and three more of the reference, on four batches of two full rows, by the laboratory and one by one."""

    names, sizes, seed = ["naive", "batch", FULL, "causal+gamma0.5"], Sizes(rows=2, batches=4, draws=3, reference_draws=6), 11

    def __init__(self):
        self.model = tiny_model(lags=2, mid_layers=1, head_norm="rms", dtype=torch.float64)
        self.batches = [ragged_ids((5, 5), seed=seed) for seed in range(4)]
        self.found = measure_gradients(self.model, self.batches, self.names, self.sizes, self.seed)
        self.all_names = [*self.names, REFERENCE, "causal+early+gamma0.9+loo", "causal+early+gamma0.5+loo"]
        uniforms = [
            [row_uniforms(self.seed, draw, range(2 * number, 2 * number + 2), 5) for draw in range(6)] for number in range(4)
        ]
        self.outs = [
            [self.model(ids, uniforms=u) for u in of_batch] for ids, of_batch in zip(self.batches, uniforms, strict=True)
        ]
        self.each = [
            training_gradients(self.model, ids, [out.boundaries for out in outs], self.all_names)
            for ids, outs in zip(self.batches, self.outs, strict=True)
        ]

    def first_draws(self, what):
        """[4, 3, 2, 5]: a field of the outputs of the draws in which every estimator takes part."""
        return np.array([[getattr(out, what).detach().numpy() for out in outs[:3]] for outs in self.outs])


@pytest.fixture(scope="module")
def lab():
    laboratory.AT_ONCE, before = 2, laboratory.AT_ONCE  # reference draws in portions of 3, 2 and 1
    yield Laboratory()
    laboratory.AT_ONCE = before


def test_means_squares_and_long_runs_are_those_of_trainings_gradients_for_uniforms_of_seed_draw_and_row(lab):
    estimates = lab.found
    assert set(estimates.mean) == set(lab.all_names)
    assert set(estimates.long) == {REFERENCE, "causal+early+gamma0.9+loo", "causal+early+gamma0.5+loo"}
    for number, each in enumerate(lab.each):
        for name, grads in each.items():
            close(estimates.mean[name][number], grads[:3].mean(dim=0), atol=1e-11, what=name)
            close(estimates.first[name][number], grads[0], atol=1e-11, what=name)
            squares = [grads[:3, part].square().sum(dim=1).mean() for part in estimates.slices.values()]
            close(estimates.square[name][number], torch.stack(squares), atol=1e-9, what=name)
            if name in estimates.long:
                close(estimates.long[name][number], grads.mean(dim=0), atol=1e-11, what=name)


def test_the_first_term_is_that_of_the_first_draw(lab):
    for number, outs in enumerate(lab.outs):
        loss = losses_of(outs[0], torch.zeros_like(outs[0].nll), 0.3).auto
        close(lab.found.first[LOSS][number], flat_gradient(loss, reached(lab.model)), atol=1e-11)


def test_rate_entropy_and_losses_are_means_over_rows_and_draws(lab):
    boundaries, logits = (lab.first_draws(what)[..., 1:] for what in ("boundaries", "boundary_logits"))
    p = sigmoid(logits)
    assert lab.found.means == {
        "rate": pytest.approx(boundaries.mean()),
        "policy_entropy": pytest.approx(-(p * np.log(p) + (1 - p) * np.log(1 - p)).mean()),
        "nll": pytest.approx(lab.first_draws("nll").mean()),
        "early_nll": pytest.approx(lab.first_draws("early_nll").mean()),
    }


def test_rewards_and_spread_of_returns_stand_at_their_positions(lab):
    nll, early = lab.first_draws("nll"), lab.first_draws("early_nll")
    close(lab.found.rewards, (early - nll).mean(axis=(0, 1, 2)), atol=1e-12)
    assert set(lab.found.return_spread) == {"1", "0.9", "0.5"}
    for gamma, spread in lab.found.return_spread.items():
        pairs = zip(nll.reshape(-1, 5), early.reshape(-1, 5), strict=True)
        returns = [returns_by_hand(*pair, f"causal+early+gamma{gamma}") for pair in pairs]
        close(spread, np.std(returns, axis=0), atol=1e-10, what=gamma)


def test_the_size_of_the_advantages_is_that_of_decisions_that_were_drawn(lab):
    nll, early = lab.first_draws("nll"), lab.first_draws("early_nll")
    for name in lab.names:
        batches = zip(nll.reshape(-1, 2, 5), early.reshape(-1, 2, 5), strict=True)
        paid = np.array([advantages_by_hand(*pair, (5, 5), name) for pair in batches])[..., 1:]
        assert lab.found.advantage_rms[name] == pytest.approx(np.sqrt((paid**2).mean())), name


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ((1, 4, 2, 2), "rows must be at least 2, because.*every advantage is 0; got 1"),
        ((-3, 4, 2, 2), "rows must be at least 2.*got -3"),
        ((2, 3, 2, 2), "batches must be at least 4, because.*got 3"),
        ((2, 0, 2, 2), "batches must be at least 4, because.*got 0"),
        ((2, 4, 1, 1), "draws must be at least 2, because.*comparing draws on the same rows; got 1"),
        ((2, 4, 5, 4), "reference_draws must be at least 5, because.*got 4"),
    ],
)
def test_too_little_to_measure_says_what_and_why(sizes, message):
    with pytest.raises(RltokError, match=message):
        Sizes(*sizes)


def text_rows(size=8 * 25 + 20):
    """Windows of 8 bytes, all different, the last of them short."""
    text = bytes(range(256))[:size]
    return cut_documents([Document(text, "s", "0")], 8, "windows", name="t")


def test_batches_hold_full_rows_each_once_and_the_seed_chooses_them():
    rows, sizes = text_rows(), Sizes(3, 4, 2, 2)
    batches = batches_of(rows, sizes, 0, torch.device("cpu"))
    assert [batch.shape for batch in batches] == [(3, 9)] * 4
    chosen = {tuple(row) for batch in batches for row in batch.tolist()}
    assert len(chosen) == 12 and all(max(row[1:]) < 256 for row in chosen)
    assert torch.equal(torch.stack(batches), torch.stack(batches_of(rows, sizes, 0, torch.device("cpu"))))
    assert not torch.equal(torch.stack(batches), torch.stack(batches_of(rows, sizes, 1, torch.device("cpu"))))


def test_more_batches_than_the_text_fills_says_how_many_it_does():
    with pytest.raises(
        RltokError,
        match=r"10 batches of 3 rows need 30 full rows; the text has 27.*Give more text, or ask for less: at most 27 rows in all",
    ):
        batches_of(text_rows(), Sizes(3, 10, 2, 2), 0, torch.device("cpu"))
    assert len(batches_of(text_rows(), Sizes(3, 9, 2, 2), 0, torch.device("cpu"))) == 9


@pytest.mark.parametrize("seed", [-1, 2**63])
def test_a_seed_out_of_range_is_refused(seed):
    with pytest.raises(RltokError, match=f"seed must lie between 0 and .*got {seed}"):
        batches_of(text_rows(), Sizes(3, 4, 2, 2), seed, torch.device("cpu"))


def test_what_is_measured_by_default_is_the_ladder_and_the_sweep():
    assert default_names() == list(dict.fromkeys([*ladder(), *gamma_sweep()])) and set(default_names()) == set(NAMES)
