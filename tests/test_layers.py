"""rltok.layers: norm, rotary positions, feed-forward layer, block, initialisation."""

import math

import numpy as np
import pytest
import torch
from helpers import random
from torch import nn

from rltok.layers import Block, GeGLU, RMSNorm, apply_rotary, initialise, rotary_table

LONG = torch.arange(4096)


def distinct(table):
    """Number of different rows."""
    return len({row.tobytes() for row in np.ascontiguousarray(table)})


# Norm


@pytest.mark.parametrize("shape", [(1, 4), (3, 5, 8), (2, 1, 1, 6)])
def test_rms_norm_divides_by_the_root_mean_square_and_multiplies_by_one_plus_weight(shape):
    norm, x = RMSNorm(shape[-1], eps=0.1).double(), random(*shape)
    with torch.no_grad():
        norm.weight.copy_(random(shape[-1], seed=1))
    expected = x.numpy() / np.sqrt((x.numpy() ** 2).mean(-1, keepdims=True) + 0.1) * (1 + norm.weight.detach().numpy())
    np.testing.assert_allclose(norm(x).detach(), expected, rtol=1e-14)


def test_rms_norm_starts_as_the_plain_norm_and_computes_bf16_in_fp32():
    norm, x = RMSNorm(300, eps=1e-6), random(4, 300).bfloat16()
    actual = norm(x)
    assert actual.dtype == torch.bfloat16
    expected = x.double() / x.double().square().mean(-1, keepdim=True).sqrt()
    # one rounding to bf16 at the end (2^-9 relative); a sum of 300 squares in bf16 would be off by several of them
    torch.testing.assert_close(actual.double(), expected, rtol=2**-8, atol=0)


# Rotary positions


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("head_dim", [2, 16, 64])
def test_the_table_holds_cosines_and_sines_of_position_times_frequency(head_dim, dtype):
    cos, sin = rotary_table(torch.tensor([0, 1, 77, 4095]), head_dim, 10000.0, dtype)
    angles = np.outer([0, 1, 77, 4095], [10000.0 ** (-2 * k / head_dim) for k in range(head_dim // 2)])
    assert cos.dtype == sin.dtype == dtype
    bound = 1e-12 if dtype == torch.float64 else 6e-8  # half an ulp at 1: angles are exact to float64 even at 4095
    np.testing.assert_allclose(cos, np.cos(angles), rtol=0, atol=bound)
    np.testing.assert_allclose(sin, np.sin(angles), rtol=0, atol=bound)


@pytest.mark.parametrize("head_dim", [32, 64])
def test_all_4096_positions_stay_distinct_in_every_precision(head_dim):
    for dtype in (torch.float32, torch.float64):
        assert distinct(torch.cat(rotary_table(LONG, head_dim, 10000.0, dtype), dim=1)) == 4096
    query = random(1, head_dim).bfloat16().expand(4096, 1, head_dim)
    rotated = apply_rotary(query, *rotary_table(LONG, head_dim, 10000.0))
    assert rotated.dtype == torch.bfloat16
    assert distinct(rotated[:, 0].view(torch.int16)) == 4096


def test_in_bf16_only_769_of_4096_positions_would_be_distinct():
    assert len(LONG.bfloat16().unique()) == 769


def test_rotation_of_two_positions_by_hand():
    x = torch.tensor([[[1.0, 0.0]], [[0.0, 1.0]]], dtype=torch.float64)
    actual = apply_rotary(x, *rotary_table(torch.tensor([1, 2]), 2, 10000.0, torch.float64))
    expected = [[[math.cos(1), math.sin(1)]], [[-math.sin(2), math.cos(2)]]]
    np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-15)


def test_scores_depend_on_the_distance_of_positions_only_and_lengths_stay():
    q, k = random(1, 2, 16), random(1, 2, 16, seed=1)

    def turned(x, position):
        return apply_rotary(x, *rotary_table(torch.tensor([position]), 16, 10000.0, torch.float64))

    near, far = ((turned(q, p) * turned(k, p - 9)).sum(-1) for p in (9, 4000))
    other = (turned(q, 9) * turned(k, 1)).sum(-1)
    torch.testing.assert_close(near, far, rtol=0, atol=1e-10)  # angles of 4000 rad hold 12 digits
    assert (near - other).abs().min() > 1e-3
    torch.testing.assert_close(turned(q, 4000).norm(dim=-1), q.norm(dim=-1))


# Feed-forward layer, block


def test_geglu_gates_with_the_tanh_form_of_gelu():
    layer, x = GeGLU(4, 6).double(), random(2, 3, 4)
    w_gate, w_up = np.split(layer.gate_up.weight.detach().numpy(), 2)
    gate = x.numpy() @ w_gate.T
    gelu = 0.5 * gate * (1 + np.tanh(math.sqrt(2 / math.pi) * (gate + 0.044715 * gate**3)))
    expected = (gelu * (x.numpy() @ w_up.T)) @ layer.down.weight.detach().numpy().T
    np.testing.assert_allclose(layer(x).detach(), expected, rtol=0, atol=1e-13)


def test_a_block_serves_rows_and_packed_tokens_alike():
    block = Block(8, 2, 12, 1e-6).double()
    rotary = rotary_table(torch.arange(5), 4, 100.0, torch.float64)
    x = random(3, 5, 8)

    def own_value(q, k, v):
        return v

    packed = block(x.flatten(0, 1), tuple(table.repeat(3, 1) for table in rotary), own_value)
    torch.testing.assert_close(block(x, rotary, own_value).flatten(0, 1), packed, rtol=0, atol=1e-13)


def test_each_sublayer_adds_a_vector_of_root_mean_square_one_at_the_start():
    block, x = Block(64, 4, 64, 1e-6), random(10, 64).float()
    initialise(block)
    with torch.no_grad():
        block.post_mlp.weight.fill_(-1)  # 1 + weight = 0: only attention adds
        added = block(x, rotary_table(torch.arange(10), 16, 100.0), lambda q, k, v: v) - x
    torch.testing.assert_close(added.square().mean(-1).sqrt(), torch.ones(10), rtol=0, atol=1e-3)


def test_initial_linear_weights_have_variance_one_over_three_fan_in_and_embeddings_one():
    module = nn.ModuleList([nn.Linear(300, 400), nn.Embedding(300, 400)])
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        initialise(module)
    linear, embedding = module[0].weight, module[1].weight
    # 120 000 numbers: the standard deviation is known to 0.2 %, the mean to 0.3 % of it; five of each
    for weights, std in ((linear, 1 / 30), (embedding, 1.0)):
        assert weights.std().item() == pytest.approx(std, rel=0.01)
        assert abs(weights.mean().item()) < 0.015 * std
