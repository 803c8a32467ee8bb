"""rltok.rng: a row's uniforms depend on seed, step and row number, and on nothing else."""

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from rltok.rng import row_uniforms

SEED, STEP, ROW = st.integers(0, 2**63 - 1), st.integers(0, 10**9), st.integers(0, 2**40)


@given(SEED, STEP, st.lists(ROW, min_size=1, max_size=5), st.integers(1, 40))
def test_a_row_gets_the_same_uniforms_in_any_batch_and_at_any_length(seed, step, rows, length):
    together = row_uniforms(seed, step, rows, length)
    assert together.shape == (len(rows), length) and together.dtype == torch.float32
    for place, row in enumerate(rows):
        assert torch.equal(row_uniforms(seed, step, [row], length + 9)[0, :length], together[place])


def test_seeds_steps_and_rows_have_uniforms_of_their_own():
    keys = [(seed, step, row) for seed in (0, 1, 2**62) for step in (0, 1, 7) for row in (0, 1, 2**33)]
    drawn = [row_uniforms(seed, step, [row], 50)[0] for seed, step, row in keys]
    for i in range(len(keys)):
        for j in range(i):
            assert not (drawn[i] == drawn[j]).any() and not np.isin(drawn[i], drawn[j]).any(), (keys[i], keys[j])


def test_neighbouring_rows_do_not_overlap_however_long_they_are():
    first, second = row_uniforms(3, 5, [10, 11], 5000)
    places = {tuple(first[i : i + 3].tolist()) for i in range(4998)}
    assert not any(tuple(second[i : i + 3].tolist()) in places for i in range(4998))


def test_uniforms_are_uniform_in_0_to_1_and_uncorrelated_between_rows_and_steps():
    draws = torch.stack([row_uniforms(1, step, range(50), 400) for step in range(10)]).double()
    assert 0 <= draws.min() and draws.max() < 1
    counts = torch.histc(draws, bins=20, min=0, max=1)
    # 10 000 expected in each bin, standard deviation 97
    assert (counts - 10_000).abs().max() < 400
    centred = draws - 0.5
    # the mean of 190 000 products of independent uniforms has standard deviation 1 / 12 / 436
    for product in (centred[1:] * centred[:-1], centred[:, 1:] * centred[:, :-1], centred[..., 1:] * centred[..., :-1]):
        assert abs(product.mean()) < 4 / 12 / product.numel() ** 0.5


def test_no_rows_give_an_empty_batch_and_the_global_generators_stay_untouched():
    before = torch.random.get_rng_state(), np.random.get_state()[1].copy()
    assert row_uniforms(0, 0, [], 7).shape == (0, 7)
    row_uniforms(0, 0, [1], 7)
    assert torch.equal(before[0], torch.random.get_rng_state()) and (before[1] == np.random.get_state()[1]).all()


def test_the_numbers_are_those_of_philox_on_every_machine():
    bits = np.random.Philox(key=[7, 3], counter=[0, 0, 0, 5]).random_raw(2)
    halves = [int(bits[0]) & 0xFFFFFFFF, int(bits[0]) >> 32, int(bits[1]) & 0xFFFFFFFF, int(bits[1]) >> 32]
    expected = [(half >> 8) / 2**24 for half in halves]
    assert row_uniforms(7, 3, [5], 4)[0].tolist() == expected
