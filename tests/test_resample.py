"""rltok.resample: select and distribute-then-add, eqs. (3), (5), (7) to (9)."""

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from rltok.resample import downsample, latest_token, upsample

ROWS = st.integers(1, 12).flatmap(
    lambda n: st.lists(
        st.lists(st.booleans(), min_size=n - 1, max_size=n - 1).map(lambda tail: [True, *tail]), min_size=1, max_size=5
    )
)


def states_of(boundaries, d=2):
    """Byte states that all differ, [B, N, d]."""
    return torch.arange(boundaries.numel() * d, dtype=torch.float64).view(*boundaries.shape, d)


def offsets_of(rows):
    return torch.tensor(np.cumsum([0, *(sum(row) for row in rows)]))


def test_the_papers_example_selects_positions_0_1_4_6_and_repeats_each_token_to_the_next():
    boundaries = torch.tensor([[bool(int(a)) for a in "11001010"]])
    states = torch.arange(10.0, 18.0).view(1, 8, 1)
    packed = downsample(states, boundaries)
    assert packed.states.flatten().tolist() == [10, 11, 14, 16]
    assert packed.positions.tolist() == [0, 1, 4, 6] and packed.offsets.tolist() == [0, 4]
    added = upsample(torch.tensor([[100.0], [200.0], [300.0], [400.0]]), states, boundaries) - states
    assert added.flatten().tolist() == [100, 200, 200, 200, 300, 300, 400, 400]


@given(ROWS)
def test_downsampling_keeps_the_boundary_positions_of_every_row_in_order(rows):
    boundaries = torch.tensor(rows)
    states = states_of(boundaries)
    packed = downsample(states, boundaries)
    chosen = [(b, i) for b, row in enumerate(rows) for i, a in enumerate(row) if a]
    assert packed.states.tolist() == [states[b, i].tolist() for b, i in chosen]
    assert packed.positions.tolist() == [i for _, i in chosen]
    assert packed.offsets.tolist() == offsets_of(rows).tolist()


@given(ROWS)
def test_every_byte_gets_the_latest_token_at_or_before_it_in_its_own_row(rows):
    boundaries = torch.tensor(rows)
    states, offsets = states_of(boundaries), offsets_of(rows)
    tokens = -1000.0 * torch.arange(int(offsets[-1]), dtype=torch.float64)[:, None].expand(-1, 2) - 7
    added, index = upsample(tokens, states, boundaries) - states, latest_token(boundaries, offsets)
    for b, row in enumerate(rows):
        for j in range(len(row)):
            latest = max(i for i in range(j + 1) if row[i])
            number = int(offsets[b]) + sum(row[:latest])  # tokens of earlier rows, then those before it in this one
            assert index[b, j] == number and added[b, j].tolist() == tokens[number].tolist()


@given(ROWS)
def test_with_unchanged_tokens_each_byte_gets_the_state_of_its_latest_boundary(rows):
    boundaries = torch.tensor(rows)
    states = states_of(boundaries)
    added = upsample(downsample(states, boundaries).states, states, boundaries) - states
    for b, row in enumerate(rows):
        for j in range(len(row)):
            assert added[b, j].tolist() == states[b, max(i for i in range(j + 1) if row[i])].tolist()


def test_the_gradient_of_a_token_is_the_sum_over_the_bytes_that_got_it():
    boundaries = torch.tensor([[True, False, False, True], [True, True, False, False]])
    tokens = torch.zeros(4, 1, dtype=torch.float64, requires_grad=True)
    weights = torch.tensor([[1.0, 2, 4, 8], [16, 32, 64, 128]], dtype=torch.float64)[..., None]
    (upsample(tokens, torch.zeros(2, 4, 1, dtype=torch.float64), boundaries) * weights).sum().backward()
    assert tokens.grad.flatten().tolist() == [7, 8, 16, 224]
