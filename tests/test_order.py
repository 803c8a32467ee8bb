"""rltok.data.order: every pass visits every row once, and a step depends on nothing but its number."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from rltok.data.order import pass_order, row_indices

SIZES = dict(seed=st.integers(0, 2**63 - 1), rows_per_update=st.integers(1, 23), num_rows=st.integers(1, 17))


def dealt(seed, num_updates, rows_per_update, num_rows):
    return np.concatenate([row_indices(seed, step, rows_per_update, num_rows) for step in range(num_updates)])


@given(**SIZES)
def test_every_pass_visits_every_row_exactly_once(seed, rows_per_update, num_rows):
    passes = 3
    order = dealt(seed, -(-passes * num_rows // rows_per_update), rows_per_update, num_rows)[: passes * num_rows]
    for one_pass in order.reshape(passes, num_rows):
        assert sorted(one_pass.tolist()) == list(range(num_rows))


@given(**SIZES, step=st.integers(0, 10**12))
def test_an_update_has_the_asked_number_of_valid_rows_however_late(seed, rows_per_update, num_rows, step):
    rows = row_indices(seed, step, rows_per_update, num_rows)
    assert rows.dtype == np.int64 and rows.shape == (rows_per_update,)
    assert 0 <= rows.min() and rows.max() < num_rows


@given(**SIZES)
def test_the_order_does_not_depend_on_how_many_rows_an_update_takes(seed, rows_per_update, num_rows):
    one_at_a_time = dealt(seed, 3 * rows_per_update, 1, num_rows)
    np.testing.assert_array_equal(dealt(seed, 3, rows_per_update, num_rows), one_at_a_time)


def test_resuming_at_a_step_gives_the_rows_of_an_unbroken_run():
    unbroken = [row_indices(7, step, 5, 13) for step in range(9)]
    pass_order.cache_clear()
    for step in (8, 0, 3):
        np.testing.assert_array_equal(row_indices(7, step, 5, 13), unbroken[step])


def test_seeds_and_passes_have_orders_of_their_own():
    orders = {tuple(pass_order(seed, number, 50)) for seed in (0, 1, 2) for number in (0, 1, 2)}
    assert len(orders) == 9 and tuple(range(50)) not in orders


def test_every_row_comes_first_equally_often():
    firsts = np.bincount([pass_order(seed, 0, 5)[0] for seed in range(2000)], minlength=5)
    # 400 expected each, standard deviation 18: four of them around the mean
    assert (abs(firsts - 400) < 72).all()


def test_the_order_is_the_same_on_every_machine_and_version():
    draws = np.random.Philox(np.random.SeedSequence((3, 1))).random_raw(6)
    expected = sorted(range(6), key=lambda i: int(draws[i]))
    assert row_indices(3, 1, 6, 6).tolist() == expected == [5, 3, 0, 1, 2, 4]
