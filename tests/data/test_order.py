"""rltok.data.order: every pass visits every row once, and a step depends on nothing but its number."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from preparing import request, write_jsonl

from rltok.config import DataConfig
from rltok.data.order import pass_order, rank_rows, row_indices, sharing
from rltok.data.prepare import prepare_folder
from rltok.data.prepared import open_prepared
from rltok.errors import RltokError

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


@given(ranks=st.integers(1, 8), micro_batch=st.integers(1, 6), times=st.integers(1, 8))
def test_ranks_share_out_the_rows_of_an_update_and_every_micro_batch_keeps_its_rows(ranks, micro_batch, times):
    """The reference deals row by row: which ranks have rows of a micro-batch, in which of their forward passes."""
    rows = math.lcm(ranks, micro_batch) * times
    parts = [rank_rows(np.arange(rows), rank, ranks, micro_batch) for rank in range(ranks)]
    assert {part.shape for part in parts} == {(len(parts[0]), rows // ranks // len(parts[0]))}
    assert sorted(np.concatenate(parts, axis=None).tolist()) == list(range(rows))
    together = sharing(rows, micro_batch, ranks)
    for number in range(rows // micro_batch):
        its_rows = set(range(number * micro_batch, (number + 1) * micro_batch))
        holders = {
            (rank, index) for rank, part in enumerate(parts) for index, own in enumerate(part) if its_rows & set(own.tolist())
        }
        assert len(holders) == together and len({index for _, index in holders}) == 1
        first = min(rank for rank, _ in holders)
        assert first % together == 0 and {rank for rank, _ in holders} == set(range(first, first + together))
        assert sorted(row for rank, index in holders for row in parts[rank][index].tolist()) == sorted(its_rows)


@pytest.mark.parametrize(
    ("rows", "micro_batch", "ranks", "together"),
    [(128, 32, 4, 1), (128, 32, 8, 2), (6, 2, 2, 2), (6, 2, 3, 1), (6, 6, 3, 3), (12, 4, 6, 2)],
)
def test_micro_batches_are_whole_wherever_there_are_enough(rows, micro_batch, ranks, together):
    assert sharing(rows, micro_batch, ranks) == together


@pytest.mark.parametrize("ranks", [2, 3])
def test_over_one_pass_of_a_prepared_corpus_ranks_share_it_out_and_resume_where_they_were(tmp_path, ranks):
    path = write_jsonl(tmp_path / "a.jsonl", [{"text": f"row number {i:04d}" * 2} for i in range(101)])
    prepare_folder(request([path], cut="full_windows", sequence_length=30), tmp_path / "out")
    rows = open_prepared(tmp_path / "out").rows("train", DataConfig(sequence_length=30, cut="full_windows"))
    updates, each = len(rows) // (4 * ranks), 4

    def texts(rank, step):
        indices = rank_rows(row_indices(1, step, each * ranks, len(rows)), rank, ranks, each)
        return [bytes(row[1:].tolist()) for row in rows.ids(indices[0])]

    unbroken = [[text for step in range(updates) for text in texts(rank, step)] for rank in range(ranks)]
    left = row_indices(1, updates, each * ranks, len(rows))[: len(rows) - updates * each * ranks]  # the pass ends in an update
    assert 0 < len(left) < each * ranks
    together = [text for of_rank in unbroken for text in of_rank] + [bytes(row[1:].tolist()) for row in rows.ids(left)]
    assert sorted(together) == [f"row number {i:04d}".encode() * 2 for i in range(101)]
    pass_order.cache_clear()
    for rank in range(ranks):  # a process that starts at update 5 knows nothing of those before
        assert [text for step in range(5, updates) for text in texts(rank, step)] == unbroken[rank][5 * each :]


def test_an_update_that_cannot_be_dealt_out_equally_says_what_to_set():
    with pytest.raises(
        RltokError, match="train.sequences_per_update=5 is no multiple of 2 processes. .* 10. Or start 1 process."
    ):
        rank_rows(np.arange(5), 0, 2, 5)
    with pytest.raises(RltokError, match="rank must lie between 0 and 1, for 2 processes; got 2"):
        rank_rows(np.arange(4), 2, 2, 4)
