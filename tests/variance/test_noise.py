"""rltok.variance.statistics on gradients whose mean and covariance are known, because they were made up (Gaussian)."""

import itertools
import json
import math

import numpy as np
import pytest
import torch

from rltok.variance.laboratory import LOSS, Gradients, Sizes
from rltok.variance.ladder import REFERENCE
from rltok.variance.statistics import (
    Products,
    _percentiles,
    measure,
    measured_cosines,
    pairs,
    products_of,
    reference_error,
    rows_needed,
    shared_parameters,
    with_intervals,
)

NAME, COUNTERPART = "causal+early+gamma0.9+batch", "causal+early+gamma0.9+loo"
ROWS, SIZE, DRAWS, REFERENCE_DRAWS = 4, 40, 4, 16
FACTOR = (ROWS - 1) / ROWS  # of an estimator that centres by its own batch
OF_ROWS, OF_DRAW, OF_LOSS = 0.3, 0.5, 0.2  # standard deviations of each coordinate: between batches, between draws, of the loss
MEASURES = ["signal", "variance", "draw_share", "limit", "snr", "bias", "scale", "rows_needed"]


def at_angle(cosine, length):
    """Two vectors: the true gradient, of length 1, and one of another length at an angle."""
    true, other = np.zeros(SIZE), np.zeros(SIZE)
    true[0], other[0], other[1] = 1, length * cosine, length * math.sqrt(1 - cosine**2)
    return true, other


def made_up(cosine=0.8, length=0.7, batches=400, seed=0, true_length=1.0):
    """Gradients whose true expectation has length 1, and an estimator that is FACTOR times a counterpart at an angle to it.

    Half of the coordinates count as the policy's, with twice the noise; the first terms are the encoder's alone.
    """
    generator = np.random.default_rng(seed)
    true, other = at_angle(cosine, length)
    scale = np.concatenate([np.ones(SIZE), 2 * np.ones(SIZE)])
    spread = generator.normal(size=(batches, 1, 2 * SIZE)) * OF_ROWS * scale
    draw = generator.normal(size=(batches, REFERENCE_DRAWS, 2 * SIZE)) * OF_DRAW * scale
    samples = {
        REFERENCE: true_length * np.tile(true, 2) + spread + draw,
        COUNTERPART: true_length * np.tile(other, 2) + spread + draw,
    }
    samples[NAME] = FACTOR * samples[COUNTERPART]
    slices = {"encoder": slice(0, SIZE), "policy": slice(SIZE, 2 * SIZE)}
    first = {name: torch.from_numpy(grads[:, 0]) for name, grads in samples.items()}
    first[LOSS] = torch.from_numpy(loss_mean() + OF_LOSS * generator.normal(size=(batches, 2 * SIZE)) + spread[:, 0])
    squares = {
        name: np.stack([(grads[:, :DRAWS, part] ** 2).sum(2).mean(1) for part in slices.values()], axis=1)
        for name, grads in samples.items()
    }
    return Gradients(
        mean={name: torch.from_numpy(grads[:, :DRAWS].mean(1)) for name, grads in samples.items()},
        first=first,
        square={name: torch.from_numpy(square) for name, square in squares.items()},
        long={name: torch.from_numpy(samples[name].mean(1)) for name in (REFERENCE, COUNTERPART)},
        slices=slices,
        sizes=Sizes(ROWS, batches, DRAWS, REFERENCE_DRAWS),
        full=True,
        means={}, advantage_rms={}, rewards=torch.zeros(1), return_spread={},
    )  # fmt: skip


def loss_mean():
    return np.tile(np.eye(SIZE)[2] * 2.0 + np.eye(SIZE)[0], 2)


def truth(cosine=0.8, length=0.7, scale=1.0):
    """What `measure` must find for NAME, worked out from the numbers above."""
    trace = FACTOR**2 * SIZE * scale**2 * (OF_ROWS**2 + OF_DRAW**2)
    true, other = at_angle(cosine, length)
    mean = FACTOR * other
    return {
        "signal": FACTOR * length,
        "variance": trace,
        "draw_share": OF_DRAW**2 / (OF_ROWS**2 + OF_DRAW**2),
        "limit": cosine,
        "snr": (FACTOR * length) ** 2 / trace,
        "bias": float(np.linalg.norm(mean - true)),
        "scale": float(mean @ true),
        "rows_needed": ROWS * trace / (FACTOR * length) ** 2 / ((cosine / 0.5) ** 2 - 1),
    }


def test_pairs_are_the_mean_over_pairs_of_different_batches_each_as_often_as_it_was_drawn():
    generator = np.random.default_rng(0)
    products = generator.normal(size=(5, 5))
    wanted = [products[i, j] for i, j in itertools.permutations(range(5), 2)]
    assert pairs(products, np.ones(5)) == pytest.approx(np.mean(wanted), abs=1e-14)
    copies = [0, 0, 2, 3, 3]  # as a bootstrap draws them: two copies of one batch are no pair
    wanted = [products[i, j] for i in copies for j in copies if i != j]
    assert pairs(products, np.bincount(copies, minlength=5).astype(float)) == pytest.approx(np.mean(wanted), abs=1e-14)


def test_of_one_batch_alone_there_are_no_pairs():
    assert math.isnan(pairs(np.ones((3, 3)), np.array([0.0, 3.0, 0.0])))


def test_pairs_are_unbiased_where_the_square_of_the_mean_is_not():
    generator, mean, trials, batches = np.random.default_rng(1), np.array([0.3, 0.4]), 4000, 5
    drawn = mean + generator.normal(size=(trials, batches, 2))
    products = drawn @ drawn.transpose(0, 2, 1)
    estimates = np.array([pairs(one, np.ones(batches)) for one in products])
    assert abs(estimates.mean() - mean @ mean) < 4.5 * estimates.std() / math.sqrt(trials)
    naive = products.mean(axis=(1, 2))
    assert naive.mean() - mean @ mean == pytest.approx(2 / batches, abs=4.5 * naive.std() / math.sqrt(trials))


@pytest.mark.parametrize("limit", [1.0, 0.8, 0.51])
def test_after_the_rows_needed_the_formula_gives_the_cosine_that_was_wanted(limit):
    for noise, wanted in ((30.0, 0.5), (0.2, 0.3)):
        batches = rows_needed(limit, noise, ROWS, wanted) / ROWS
        assert limit / math.sqrt(1 + noise / batches) == pytest.approx(wanted, abs=1e-12)
    assert rows_needed(1.0, 30.0, ROWS) == pytest.approx(ROWS * 30 / 3)


@pytest.mark.parametrize("limit", [0.5, 0.2, -0.9, math.nan])
def test_a_bias_that_keeps_the_cosine_at_or_below_one_half_means_never(limit):
    assert rows_needed(limit, 3.0, ROWS) == math.inf


@pytest.mark.parametrize(("group", "scale"), [("encoder", 1.0), ("policy", 2.0)])
def test_every_measure_of_each_group_is_found(group, scale):
    measured = measure(products_of(made_up(batches=1500), NAME, group), np.ones(1500))
    assert list(measured) == MEASURES
    for key, value in truth(scale=scale).items():
        assert measured[key] == pytest.approx(value, rel=0.06 * scale), key


def test_an_unbiased_estimator_has_limit_1_and_no_bias():
    measured = measure(products_of(made_up(batches=1500), REFERENCE, "encoder"), np.ones(1500))
    assert (measured["limit"], measured["bias"]) == (1.0, 0.0)
    assert measured["scale"] == pytest.approx(1, abs=0.03)


def test_an_estimator_that_halves_the_true_gradient_and_has_no_noise_is_measured_exactly():
    ones = np.ones((4, 4))
    measured = measure(Products(ones, ones, ones, ones / 4, ones / 2, np.full(4, 0.25), 0.5, 2, 3), np.ones(4))
    for key, value in {"signal": 0.5, "variance": 0, "limit": 1, "bias": 0.5, "scale": 0.5, "rows_needed": 0}.items():
        assert measured[key] == pytest.approx(value, abs=1e-12), key
    assert math.isnan(measured["draw_share"]) and math.isnan(measured["snr"])  # no scatter to share, none to divide by


@pytest.mark.parametrize("cosine", [1.0, 0.7])
def test_the_formula_for_the_cosine_agrees_with_cosines_that_are_seen(cosine):
    generator, (true, other) = np.random.default_rng(2), at_angle(cosine, 1.0)
    for batches in (1, 4, 16, 64):
        drawn = other + generator.normal(size=(4000, SIZE)) / math.sqrt(batches)  # means of so many batches: noise = SIZE
        seen = (drawn @ true / np.linalg.norm(drawn, axis=1)).mean()
        assert seen == pytest.approx(cosine / math.sqrt(1 + SIZE / batches), abs=0.01), batches


def test_measured_cosines_follow_the_formula_up_to_half_of_the_batches():
    gradients, wanted = made_up(batches=200), truth()
    seen = measured_cosines(gradients, NAME, "encoder")
    assert [rows for rows, _ in seen] == [ROWS * 2**k for k in range(7)]  # 1 to 64 of 200 batches
    noise = 1 / wanted["snr"]
    for rows, cosine in seen:
        assert cosine == pytest.approx(wanted["limit"] / math.sqrt(1 + noise / (rows / ROWS)), abs=0.05), rows


def test_intervals_hold_the_truth_about_as_often_as_they_say():
    keys, trials = ("signal", "variance", "limit", "scale", "draw_share"), 60
    hits = dict.fromkeys(keys, 0)
    for seed in range(trials):
        result = with_intervals(products_of(made_up(batches=40, seed=seed), NAME, "encoder"), resamples=200)
        for key in keys:
            value, low, high = result[key]
            assert low <= high and value is not None
            hits[key] += low <= truth()[key] <= high
    for key in keys:  # 95 % of 60 is 57; a bootstrap of 40 batches is a little narrow
        assert hits[key] >= 50, hits


def test_intervals_hold_the_value_and_are_the_same_every_time():
    products = products_of(made_up(batches=60), NAME, "encoder")
    result = with_intervals(products, resamples=300)
    assert list(result) == [*MEASURES, "never", "resolved"]
    assert result == with_intervals(products, resamples=300) != with_intervals(products, seed=1, resamples=300)
    point = measure(products, np.ones(60))
    for key in MEASURES:
        value, low, high = result[key]
        assert value == point[key] and low <= value <= high, key
    assert (result["never"], result["resolved"]) == (0.0, 1.0)


def test_a_biased_direction_never_reaches_the_cosine_and_says_so():
    result = with_intervals(products_of(made_up(cosine=0.2, length=2.0), NAME, "encoder"), resamples=100)
    assert result["rows_needed"] == [None, None, None] and (result["never"], result["resolved"]) == (1.0, 1.0)
    assert result["limit"][2] < 0.5


def unresolved(actual):
    """Whether the squared length of an expectation comes out at or below nothing."""
    return math.isnan(measure(products_of(actual, NAME, "encoder"), np.ones(20))["limit"])


def test_no_signal_is_not_resolved_and_fits_into_json():
    seeds = [seed for seed in range(10) if unresolved(made_up(true_length=0.0, batches=20, seed=seed))]
    assert seeds
    gradients = made_up(true_length=0.0, batches=20, seed=seeds[0])
    result = with_intervals(products_of(gradients, NAME, "encoder"), resamples=100)
    for key in ("signal", "limit", "snr", "bias", "scale", "rows_needed"):
        assert result[key][0] is None, key
    assert result["variance"][0] == pytest.approx(truth()["variance"], rel=0.1) and result["resolved"] < 0.9
    rest = [reference_error(made_up(true_length=0.0, batches=20, seed=seed), "encoder") for seed in range(10)]
    assert None in rest
    json.dumps(
        [result, rest, shared_parameters(gradients, NAME, [0.01, 1.0]), measured_cosines(gradients, NAME, "encoder")],
        allow_nan=False,
    )


def test_resamples_without_a_signal_widen_an_interval():
    batches = [made_up(true_length=0.2, length=0.2, batches=12, seed=seed) for seed in range(12)]
    results = [with_intervals(products_of(one, NAME, "encoder"), resamples=200) for one in batches]
    weak = [one for one in results if 0.1 < one["resolved"] < 0.9]
    assert weak
    for one in weak:
        assert one["signal"][1] == one["snr"][1] == 0.0 and one["limit"][1:] == [-1.0, 1.0]
        assert one["rows_needed"][2] is None and one["bias"][2] is None and one["scale"][1:] == [None, None]


@pytest.mark.parametrize(
    ("missing", "ends"),
    [(0, [2.0, 97.0]), (1, [3.0, 98.0]), (3, [5.0, math.inf]), (100, [math.inf, math.inf])],
)
def test_ends_of_an_interval_count_what_is_not_resolved(missing, ends):
    sample = np.arange(100.0)
    sample[:missing] = math.nan
    assert _percentiles(sample, (math.inf, math.inf)) == ends


def test_gradients_that_are_all_nothing_are_not_resolved():
    nothing = np.zeros((4, 4))
    result = with_intervals(Products(nothing, nothing, nothing, nothing, nothing, np.zeros(4), 1.0, 2, 3), resamples=20)
    assert result["variance"] == [0, 0, 0] and result["resolved"] == 0
    assert all(result[key] == [None] * 3 for key in ("draw_share", "rows_needed", "scale"))
    assert (
        result["signal"] == result["snr"] == [None, 0, 0]
        and result["limit"] == [None, -1, 1]
        and result["bias"] == [None, 0, None]
    )


@pytest.mark.parametrize("weight", [0.0, 0.01, 1.0, 5.0])
def test_the_whole_gradient_on_shared_parameters_equals_the_sum_of_its_terms(weight):
    gradients, (true, other) = made_up(batches=1500), at_angle(0.8, 0.7)
    result = shared_parameters(gradients, NAME, [weight])[0]
    loss = loss_mean()[:SIZE]
    whole, wanted = loss + weight * FACTOR * other, loss + true
    limit = whole @ wanted / np.linalg.norm(whole) / np.linalg.norm(wanted)
    # rows scatter both terms alike, so their noise adds up before it is squared
    trace = SIZE * (OF_LOSS**2 + (OF_ROWS * (1 + weight * FACTOR)) ** 2 + (weight * FACTOR * OF_DRAW) ** 2)
    assert result["lambda"] == weight
    assert result["limit"] == pytest.approx(limit, abs=0.01)
    assert result["variance"] == pytest.approx(trace, rel=0.05)
    assert result["share"] == pytest.approx(1 / np.linalg.norm(loss), rel=0.05)
    assert result["rows_needed"] == pytest.approx(ROWS * trace / (whole @ whole) / ((limit / 0.5) ** 2 - 1), rel=0.1)


def test_the_references_standard_error_is_that_of_its_mean():
    errors = [reference_error(made_up(batches=50, seed=seed), "encoder") for seed in range(20)]
    trace = SIZE * (OF_ROWS**2 + OF_DRAW**2 / REFERENCE_DRAWS)
    assert np.mean(errors) == pytest.approx(math.sqrt(trace / 50), rel=0.05)
