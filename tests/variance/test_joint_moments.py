"""Expectation and variance of every estimator over all strings of several rows: theory, brute force and algebra, to 1e-9."""

import itertools

import numpy as np
import pytest
import torch
from brute import (
    NAMES,
    all_strings,
    close,
    gamma_of,
    joint_chances,
    lengths_of,
    numpy_rows,
    returns_by_hand,
    scores,
    training_gradients,
)
from helpers import ragged_ids, tiny_model

from rltok.variance.exact import exact_gradient, joint_moments
from rltok.variance.gradients import policy_parameters
from rltok.variance.ladder import gamma_sweep, ladder

pytestmark = pytest.mark.usefixtures("shapes_unchecked")
EXACT = 1e-9
BATCHES = {"two full rows": (3, 3), "two ragged rows": (4, 2), "three short rows": (3, 3, 3), "three ragged rows": (4, 3, 1)}


class Setting:
    """A batch, the moments that the oracle finds for it, and single rows at every string."""

    def __init__(self, lengths):
        self.model, self.ids = tiny_model(lags=2, mid_layers=1, dtype=torch.float64), ragged_ids(lengths, seed=len(lengths))
        self.lengths, self.bytes = lengths, sum(lengths)
        self.found = joint_moments(self.model, self.ids, list(NAMES))
        self.rows = numpy_rows(self.model, self.ids)
        self.scores = [scores(self.model, ids, row.strings) for ids, row in zip(self.ids, self.rows, strict=True)]
        self.policy_term = exact_gradient(self.model, self.ids).flat("policy", list(policy_parameters(self.model))).numpy()

    def scored_at(self, i):
        return sum(length > i for length in self.lengths)

    def expected(self, factor, weight):
        """- sum of factor(i) weight(i, j) E[R_j grad log pi(a_i)] / bytes, with R_j = -nll; [P]."""
        total = 0.0
        for row, score in zip(self.rows, self.scores, strict=True):
            size = len(row.early_nll)
            weights = [[factor(i) * weight(i, j) for j in range(size)] for i in range(size)]
            total = total + np.einsum("s,sj,sip,ij->p", row.chances, row.nll, score, np.array(weights)) / self.bytes
        return total


@pytest.fixture(scope="module")
def settings():
    return {kind: Setting(lengths) for kind, lengths in BATCHES.items()}


@pytest.fixture(params=BATCHES)
def at(request, settings):
    return settings[request.param]


def test_every_rung_is_looked_at():
    assert set(NAMES) == {*ladder(), *gamma_sweep()} and len(NAMES) == 21


@pytest.mark.parametrize("name", NAMES)
def test_the_expectation_is_the_policy_term_but_for_the_factor_of_centring_and_the_bias_of_gamma(name, at):
    def factor(i):
        scored = at.scored_at(i)
        if "loo" in name:
            return scored > 1  # nobody to compare with: no signal
        return (scored - 1) / scored if "batch" in name else 1

    gamma = gamma_of(name)
    close(at.found[name].mean, at.expected(factor, lambda i, j: gamma ** (j - i) if j >= i else 0.0), atol=EXACT, what=name)
    bias = at.expected(factor, lambda i, j: 1 - gamma ** (j - i) if j >= i else 0.0)
    assert (np.abs(bias).max() > 1e-5) == (gamma < 1)
    if at.lengths in ((3, 3), (3, 3, 3)):  # the same number of rows everywhere
        share = 1 - 1 / len(at.lengths) if "batch" in name else 1
        close(at.found[name].mean, share * at.policy_term - bias, atol=EXACT, what=name)
    assert np.abs(at.policy_term).max() > 1e-3


@pytest.mark.parametrize("kind", BATCHES)
def test_expectation_and_variance_equal_those_of_trainings_gradients_string_by_string(kind, settings):
    at = settings[kind]
    names = NAMES if len(at.lengths) == 2 else ("naive", "batch", "causal+early+gamma0.9+batch", "causal+early+loo")
    chances = joint_chances(at.rows)
    assert chances.sum() == pytest.approx(1, abs=1e-12)
    for name, grads in training_gradients(at.model, at.ids, all_strings(at.ids), names).items():
        mean = chances @ grads.numpy()
        close(at.found[name].mean, mean, atol=EXACT, what=name)
        close(at.found[name].variance, chances @ (grads.numpy() - mean) ** 2, atol=EXACT, what=name)
        assert at.found[name].variance.max() > 1e-3, name


@pytest.mark.parametrize("name", [name for name in NAMES if "batch" not in name and "loo" not in name])
def test_without_centring_the_variance_of_a_batch_is_the_sum_of_its_rows(name, at):
    alone = [joint_moments(at.model, row[None], [name])[name].variance * (n / at.bytes) ** 2 for row, n in by_row(at)]
    close(at.found[name].variance, sum(alone), atol=EXACT, what=name)


def by_row(at):
    return zip(at.ids, lengths_of(at.ids), strict=True)


@pytest.mark.parametrize("kind", ["two full rows", "three short rows"])
def test_leaving_the_row_out_stretches_the_gradient_of_full_rows_by_b_over_b_minus_1(kind, settings):
    at = settings[kind]
    pairs = [("batch", "loo"), ("causal+early+gamma0.9+batch", "causal+early+gamma0.9+loo")]
    stretch = len(at.lengths) / (len(at.lengths) - 1)
    for batch, loo in pairs:
        close(at.found[loo].mean, stretch * at.found[batch].mean, atol=EXACT)
        close(at.found[loo].variance, stretch**2 * at.found[batch].variance, atol=EXACT)


SYMBOLS = ("G_i", "G_j", "s_i", "s_j")
INDICES = {"G_i": "zi", "G_j": "zj", "s_i": "zip", "s_j": "zjp"}


def single_row_moment(chances, returns, score, symbols):
    """E of a product such as s_i s_j G_i over one row's strings, for all i and j; [i, j, p], 1 where nothing depends on it."""
    operands = [returns if symbol[0] == "G" else score for symbol in symbols]
    present = [index for index in "ijp" if any(index in INDICES[symbol] for symbol in symbols)]
    inputs = ",".join(["z", *(INDICES[symbol] for symbol in symbols)])
    moment = np.einsum(f"{inputs}->{''.join(present)}", chances, *operands, optimize=True)
    return np.expand_dims(moment, [axis for axis, index in enumerate("ijp") if index not in present])


@pytest.mark.parametrize(
    ("name", "c"), [("batch", 1 / 2), ("loo", 1), ("causal+early+gamma0.9+batch", 1 / 2), ("causal+early+loo", 1)]
)
def test_the_variance_of_two_centred_rows_is_made_of_single_row_moments(name, c, settings):
    # g = -c/bytes sum_i (G_1i - G_2i)(s_1i - s_2i), so E[g^2] = c^2/bytes^2 sum_ij E[(G_1i - G_2i)(G_1j - G_2j) ...];
    # each of the 16 products of symbols splits into a moment of row 1 and one of row 2, because the rows are independent.
    at = settings["two full rows"]
    returns = [np.array([returns_by_hand(nll, row.early_nll, name) for nll in row.nll]) for row in at.rows]
    square = 0.0
    for owners in itertools.product((0, 1), repeat=4):
        term = (-1.0) ** sum(owners)
        for number in (0, 1):
            symbols = [symbol for symbol, owner in zip(SYMBOLS, owners, strict=True) if owner == number]
            term = term * single_row_moment(at.rows[number].chances, returns[number], at.scores[number], symbols)
        square = square + np.broadcast_to(term, (3, 3, term.shape[2])).sum(axis=(0, 1))
    mean = 0.0
    for number in (0, 1):  # E[s] = 0, so only a row's own return is left
        mean = mean - np.einsum("z,zi,zip->p", at.rows[number].chances, returns[number], at.scores[number])
    scale = c / at.bytes
    close(at.found[name].mean, scale * mean, atol=EXACT)
    close(at.found[name].variance, scale**2 * (square - mean**2), atol=EXACT)


def test_where_only_one_row_reaches_centring_leaves_no_signal():
    model, ids = (
        tiny_model(lags=2, mid_layers=1, dtype=torch.float64),
        ragged_ids((4, 1)),
    )  # the second row ends on its forced one
    moments = joint_moments(model, ids, ["causal", "batch", "loo"])
    assert moments["causal"].variance.max() > 1e-3
    assert not any(values.any() for name in ("batch", "loo") for values in (moments[name].mean, moments[name].variance))


def test_each_rung_of_the_cumulative_ladder_up_to_the_discount_has_less_variance_than_the_one_before(settings):
    moments = settings["two full rows"].found
    traces = [moments[name].variance.sum().item() for name in ("naive", "causal", "causal+early", "causal+early+gamma0.9")]
    assert traces == sorted(traces, reverse=True)


def test_more_combinations_than_are_scored_at_a_time_give_the_same_moments(monkeypatch, settings):
    at, names = settings["two ragged rows"], ["causal+early+gamma0.9+batch", "naive"]
    monkeypatch.setattr("rltok.variance.exact.CHUNK", 3)
    for name, moments in joint_moments(at.model, at.ids, names).items():
        close(moments.mean, at.found[name].mean, atol=1e-12)
        close(moments.variance, at.found[name].variance, atol=1e-11)
