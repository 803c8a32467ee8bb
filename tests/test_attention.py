"""rltok.attention: every backend equals a loop over positions, and the window is exactly `window` positions."""

import math

import numpy as np
import pytest
import torch

from rltok.attention import masked_attention, row_causal_attention, window_attention, window_mask
from rltok.errors import RltokError

SOFTCAPS = [None, 50.0, 1.0]
WINDOW_BACKENDS = ["reference", "banded", "sdpa", "auto"]


def random_qkv(*shape, seed=0, dtype=torch.float64):
    return [torch.from_numpy(x).to(dtype) for x in 2 * np.random.default_rng(seed).normal(size=(3, *shape))]


def brute_force(q, k, v, window, softcap):
    """One row [N, H, D] in numpy: position i mixes the values at i - window + 1 .. i."""
    q, k, v = (x.detach().numpy() for x in (q, k, v))
    mixed = np.zeros_like(v)
    for i, head in np.ndindex(*q.shape[:2]):
        seen = range(max(0, i - window + 1), i + 1)
        scores = np.array([q[i, head] @ k[j, head] for j in seen]) / math.sqrt(q.shape[-1])
        scores = scores if softcap is None else softcap * np.tanh(scores / softcap)
        chances = np.exp(scores - scores.max())
        mixed[i, head] = sum(c * v[j, head] for c, j in zip(chances / chances.sum(), seen, strict=True))
    return mixed


def backends(softcap):
    return [name for name in WINDOW_BACKENDS if softcap is None or name != "sdpa"]


@pytest.mark.parametrize("softcap", SOFTCAPS)
@pytest.mark.parametrize(("length", "window"), [(1, 1), (1, 4), (7, 1), (12, 4), (13, 4), (5, 5), (5, 64), (23, 7)])
def test_every_window_backend_equals_a_loop_over_positions(length, window, softcap):
    q, k, v = random_qkv(2, length, 3, 4, seed=length)
    expected = np.stack([brute_force(q[b], k[b], v[b], window, softcap) for b in range(2)])
    for name in backends(softcap):  # float64, softmax in another order
        actual = window_attention(q, k, v, window=window, softcap=softcap, backend=name)
        np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-12, err_msg=name)


@pytest.mark.parametrize("softcap", SOFTCAPS)
@pytest.mark.parametrize("offsets", [[0, 1], [0, 1, 2], [0, 5, 6, 13], [0, 9, 11]], ids=str)
def test_packed_rows_equal_a_loop_over_each_row_alone(offsets, softcap):
    q, k, v = random_qkv(offsets[-1], 2, 4, seed=len(offsets))
    rows = [slice(*ends) for ends in zip(offsets, offsets[1:], strict=False)]
    expected = np.concatenate([brute_force(q[row], k[row], v[row], 99, softcap) for row in rows])
    for name in ("reference", "padded", "auto"):
        actual = row_causal_attention(q, k, v, torch.tensor(offsets), softcap=softcap, backend=name)
        np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-12, err_msg=name)


@pytest.mark.parametrize("softcap", [None, 1.0])
@pytest.mark.parametrize(("length", "window"), [(1, 4), (13, 4), (200, 64)])  # blocks of its mask have 128 positions
def test_flex_attention_equals_the_references_in_windows_and_in_packed_rows(length, window, softcap):
    q, k, v = random_qkv(2, length, 2, 4, seed=length)
    actual, expected = (window_attention(q, k, v, window=window, softcap=softcap, backend=name) for name in ("flex", "reference"))
    np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-12)
    offsets = torch.tensor(sorted({0, length // 3, length - 1, length}))
    actual, expected = (
        row_causal_attention(q[0], k[0], v[0], offsets, softcap=softcap, backend=name) for name in ("flex", "reference")
    )
    np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("softcap", [None, 1.0])
def test_gradients_of_the_fast_forms_equal_those_of_the_references(softcap):
    offsets, weights = torch.tensor([0, 4, 5, 13]), random_qkv(13, 2, 4, seed=9)[0]

    def gradients(attend):
        inputs = [x.requires_grad_() for x in random_qkv(13, 2, 4)]
        return torch.autograd.grad((attend(*inputs) * weights).sum(), inputs)

    def window(name):
        return gradients(lambda *qkv: window_attention(*(x[None] for x in qkv), window=5, softcap=softcap, backend=name)[0])

    def packed(name):
        return gradients(lambda *qkv: row_causal_attention(*qkv, offsets, softcap=softcap, backend=name))

    for name in backends(softcap):
        torch.testing.assert_close(window(name), window("reference"), rtol=0, atol=1e-12)
    torch.testing.assert_close(packed("padded"), packed("reference"), rtol=0, atol=1e-12)


@pytest.mark.parametrize("backend", WINDOW_BACKENDS)
@pytest.mark.parametrize("window", [63, 64, 65])
def test_position_i_sees_window_minus_1_positions_back_and_none_further(window, backend):
    q, k, v = random_qkv(1, 200, 1, 2)
    for place in (0, 70, 135):
        value = v.clone()
        value[0, place] += 1.0
        before, after = (window_attention(q, k, x, window=window, softcap=None, backend=backend) for x in (v, value))
        changed = (before != after)[0].any(-1).any(-1).nonzero().flatten().tolist()
        assert changed == list(range(place, min(200, place + window)))


def test_the_mask_of_a_small_window_by_hand():
    assert window_mask(4, 2).int().tolist() == [[1, 0, 0, 0], [1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1]]


def test_the_softcap_bounds_scores_before_the_softmax():
    q, k = torch.tensor([[100.0]]), torch.tensor([[100.0], [-100.0]])
    v, mask = torch.tensor([[1.0], [0.0]]), torch.ones(1, 2, dtype=torch.bool)
    # scores +-10^4 become +-2: the weight of the first is 1 / (1 + e^-4)
    assert masked_attention(q, k, v, mask, 2.0).item() == pytest.approx(1 / (1 + math.exp(-4)), abs=1e-6)
    assert masked_attention(q, k, v, mask, None).item() == 1.0


@pytest.mark.parametrize("softcap", SOFTCAPS)
def test_bf16_stays_bf16_and_close_to_float64(softcap):
    exact, narrow = random_qkv(1, 30, 2, 8), random_qkv(1, 30, 2, 8, dtype=torch.bfloat16)
    for name in backends(softcap):
        actual = window_attention(*narrow, window=8, softcap=softcap, backend=name)
        assert actual.dtype == torch.bfloat16
        expected = window_attention(*exact, window=8, softcap=softcap, backend="reference")
        torch.testing.assert_close(actual.double(), expected, rtol=0.1, atol=0.2)  # scores of size 10 in three digits


def test_unknown_backends_are_errors():
    q, k, v = random_qkv(1, 4, 1, 2)
    for name, softcap in (("flash", None), ("sdpa", 50.0)):
        with pytest.raises(RltokError, match=f"'banded', 'flex' and.* got '{name}' .*{softcap}"):
            window_attention(q, k, v, window=2, softcap=softcap, backend=name)
    with pytest.raises(RltokError, match="'padded' and 'flex'; got 'flash'"):
        row_causal_attention(q[0], k[0], v[0], torch.tensor([0, 4]), softcap=None, backend="flash")
