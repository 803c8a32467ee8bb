"""rltok.rules.hnet: router, ratio loss, moving average and straight-through factor, each against another way of computing it."""

import math

import numpy as np
import pytest
import torch
from helpers import ragged_ids, random, random_boundaries, random_uniforms, tiny_config, tiny_model

from rltok.rules.hnet import HNetRule, confidence, dissimilarity, ratio_loss, smooth_tokens
from rltok.unet import AutoregressiveUNet
from rltok.vocab import PAD

DIM = 6


def offsets_of(lengths):
    return torch.tensor([0, *np.cumsum(lengths)])


def make_rule(variant="faithful", smooth="ema", **settings):
    settings = {"target_rate": 0.2, "ratio_weight": 0.03} | settings
    torch.manual_seed(0)
    return HNetRule(DIM, variant=variant, smooth=smooth, **settings).double()


# Router


def cosine_gates(x, query, key):
    gates = [1.0]
    for before, here in zip(x[:-1], x[1:], strict=True):
        q, k = query @ before, key @ here
        gates.append((1 - q @ k / math.sqrt((q @ q) * (k @ k))) / 2)
    return gates


def test_gates_are_half_of_one_minus_the_cosine_of_neighbours_and_1_on_bos():
    states, query, key = random(2, 20, DIM), random(DIM, DIM, seed=1), random(DIM, DIM, seed=2)
    expected = [cosine_gates(row.numpy(), query.numpy(), key.numpy()) for row in states]
    actual = dissimilarity(states, query, key)
    np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-12)
    assert dissimilarity(states[:, :1], query, key).tolist() == [[1.0], [1.0]]


def test_gates_stay_between_0_and_1_and_finite_where_states_are_equal_opposite_or_0():
    states = torch.tensor([[[1.0, 2.0], [1.0, 2.0], [-1.0, -2.0], [0.0, 0.0], [3.0, 1.0]]]).requires_grad_()
    gates = dissimilarity(states, torch.eye(2), torch.eye(2))
    torch.testing.assert_close(gates, torch.tensor([[1.0, 0.0, 1.0, 0.5, 0.5]]), rtol=0, atol=1e-6)
    gates.sum().backward()
    assert states.grad.isfinite().all() and 0 <= gates.min() and gates.max() <= 1


def test_a_boundary_needs_a_gate_above_one_half_and_uniforms_do_not_matter():
    rule = make_rule()
    states = torch.zeros(1, 4, DIM, dtype=torch.float64)
    states[0, 0, 0] = states[0, 1, 1] = states[0, 2, 1] = 1.0  # orthogonal (a tie), equal, opposite
    states[0, 3, 1] = -1.0
    boundaries = [rule.decide(states, ragged_ids((4,))[:, :-1], random_uniforms(1, 4, seed=seed)) for seed in (0, 1)]
    assert boundaries[0].boundaries.int().tolist() == [[1, 0, 0, 1]] and boundaries[0].logits is None
    assert torch.equal(boundaries[0].soft, boundaries[1].soft)


def test_equal_states_give_one_token_a_row_and_alternating_ones_a_token_a_byte():
    rule, ids = make_rule("port"), ragged_ids((7, 7))[:, :-1]
    same = torch.ones(2, 7, DIM, dtype=torch.float64)
    turning = same * torch.tensor([1.0, -1, 1, -1, 1, -1, 1])[None, :, None]
    for states, tokens in ((same, 2), (turning, 14)):
        decided = rule.decide(states, ids, random_uniforms(2, 7))
        packed = rule.downsample(states, decided)
        assert len(packed.states) == tokens
        assert rule.upsample(packed.states, states, decided).isfinite().all() and decided.aux_loss.isfinite()


def test_the_router_starts_as_the_identity_and_the_residual_at_0_inside_the_network():
    torch.manual_seed(0)
    for variant in ("faithful", "port"):
        rule = AutoregressiveUNet(tiny_config("hnet", variant=variant)).rule
        assert torch.equal(rule.query, torch.eye(16)) and torch.equal(rule.key, torch.eye(16))
        assert rule.query is not rule.key
    rule = AutoregressiveUNet(tiny_config("hnet")).rule
    assert not rule.residual.any() and 0 < rule.residual_bias.abs().max() <= 1 / 4


# Ratio loss


@pytest.mark.parametrize("rate", [0.5, 0.2, 1 / 6])
def test_the_ratio_loss_and_its_gradient_equal_the_formula_with_the_share_held_fixed(rate):
    gates, boundaries = torch.rand(3, 8, dtype=torch.float64).requires_grad_(), random_boundaries(3, 8)
    mask = (torch.arange(8) > 0) & (torch.arange(8) < torch.tensor([8, 5, 1])[:, None])
    loss = ratio_loss(gates, boundaries, rate, mask)
    loss.backward()
    keep, n = mask.numpy(), 1 / rate
    share, mean = boundaries.numpy()[keep].mean(), gates.detach().numpy()[keep].mean()
    assert loss.item() == pytest.approx(n / (n - 1) * ((n - 1) * share * mean + (1 - share) * (1 - mean)), abs=1e-13)
    np.testing.assert_allclose(gates.grad, np.where(keep, n / (n - 1) * (n * share - 1) / keep.sum(), 0), rtol=0, atol=1e-13)


def test_the_ratio_loss_is_1_at_the_target():
    boundaries = torch.arange(20)[None] % 5 == 0
    gates = torch.full((1, 20), 0.2)
    assert ratio_loss(gates, boundaries, 0.2, torch.ones(1, 20, dtype=torch.bool)).item() == pytest.approx(1, abs=1e-6)


def test_the_rules_own_loss_is_weighted_and_counts_drawn_positions_only():
    rule, states = make_rule(ratio_weight=0.5), random(2, 9, DIM)
    ids = ragged_ids((9, 4))[:, :-1].masked_fill(torch.arange(9) >= torch.tensor([9, 4])[:, None], PAD)
    decided = rule.decide(states, ids, random_uniforms(2, 9))
    drawn = torch.tensor([[0 < i < n for i in range(9)] for n in (9, 4)])
    assert decided.aux_loss == 0.5 * ratio_loss(decided.soft, decided.boundaries, 0.2, drawn)


# Moving average


def sequential(h, p, lengths):
    """z_k = p_k h_k + (1 - p_k) z_{k-1}, one token after the other; the first of a row is h."""
    rows, start = [], 0
    for length in lengths:
        z = h[start]
        rows.append(z)
        for k in range(start + 1, start + length):
            gate = p[k].clamp(1e-4, 1 - 1e-4)
            z = gate * h[k] + (1 - gate) * z
            rows.append(z)
        start += length
    return torch.stack(rows)


@pytest.mark.parametrize(
    ("lengths", "low"),
    [((1,), 0.5), ((2,), 0.5), ((400, 1, 37, 2, 800), 0.5), ((400, 1, 37, 2, 800), 0.0), ((1, 1, 1), 0.5)],
    ids=["one", "two", "router", "prescribed", "ones"],
)
def test_smoothing_and_its_gradients_equal_a_sequential_loop_in_float64(lengths, low):
    total = sum(lengths)
    h = random(total, DIM)
    p = low + (1 - low) * torch.rand(total, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    p[::50] = low  # gates at the clamp, too
    push = random(total, DIM, seed=2)

    def gradients(make):
        x, gates = h.clone().requires_grad_(), p.clone().requires_grad_()
        z = make(x, gates)
        return z, *torch.autograd.grad((z * push).sum(), (x, gates), allow_unused=True)

    estimates = gradients(lambda x, gates: smooth_tokens(x, gates, offsets_of(lengths), max(lengths)))
    expected = gradients(lambda x, gates: sequential(x, gates, lengths))
    for one, other in zip(estimates, expected, strict=True):
        other = torch.zeros_like(one) if other is None else other
        torch.testing.assert_close(one, other, rtol=0, atol=1e-10)


def test_the_slopes_of_smoothing_equal_finite_differences():
    h, p = random(9, 2).requires_grad_(), (0.1 + 0.8 * torch.rand(9, dtype=torch.float64)).requires_grad_()
    assert torch.autograd.gradcheck(lambda x, gates: smooth_tokens(x, gates, offsets_of((4, 1, 4)), 4), (h, p))


def test_smoothing_keeps_fp32_under_bf16_tokens_and_memory_linear_in_the_tokens():
    kept = []
    h, p = random(3000, DIM).float().requires_grad_(), torch.full((3000,), 0.6, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(lambda x: kept.append(x.numel()) or x, lambda x: x):
        assert smooth_tokens(h, p, offsets_of((1500, 1500)), 1500).dtype == torch.float32
    assert sum(kept) <= 3 * 3000 * (DIM + 4)  # not times log2(3000)
    assert smooth_tokens(h.detach().bfloat16(), p.detach(), offsets_of((3000,)), 3000).dtype == torch.float32


# Straight-through factor and residual


def test_the_factor_is_1_to_the_bit_and_its_gradient_is_that_of_the_chosen_side():
    gates = torch.rand(2, 500, generator=torch.Generator().manual_seed(0)).requires_grad_()
    boundaries = gates.detach() > 0.5
    factor = confidence(gates, boundaries)
    assert (factor == 1).all()
    weight = torch.arange(1000.0).view(2, 500)
    (factor * weight).sum().backward()
    assert torch.equal(gates.grad, torch.where(boundaries, weight, -weight))


def test_the_gradient_of_a_gate_is_the_sum_of_its_two_paths():
    rule, states, boundaries = make_rule("port"), random(1, 10, DIM), random_boundaries(1, 10, seed=4)
    boundaries[0, 9] = False
    gates = (0.2 + 0.6 * torch.rand(1, 10, dtype=torch.float64)).requires_grad_()
    decided = rule.prescribed(states, boundaries)
    decided = type(decided)(boundaries, soft=gates)
    starts = boundaries[0].nonzero().flatten().tolist()
    tokens, push = random(len(starts), DIM, seed=5), random(1, 10, DIM, seed=6)
    (rule.upsample(tokens, states, decided) * push).sum().backward()

    h, p, g = tokens.numpy(), gates.detach().numpy()[0], push.numpy()[0]
    z = [h[0]]
    for k in range(1, len(starts)):
        z.append(p[starts[k]] * h[k] + (1 - p[starts[k]]) * z[-1])
    owner = np.cumsum(boundaries[0].numpy()) - 1
    expected = np.array([(1 if boundaries[0, j] else -1) * g[j] @ z[owner[j]] for j in range(10)])  # the factor
    above = np.zeros(DIM)
    for k in reversed(range(1, len(starts))):  # the moving average
        following = 1 - p[starts[k + 1]] if k + 1 < len(starts) else 0
        above = g[owner == k].sum(0) + following * above
        expected[starts[k]] += above @ (h[k] - z[k - 1])
    np.testing.assert_allclose(gates.grad[0], expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("smooth", ["ema", "none"])
@pytest.mark.parametrize("variant", ["faithful", "port"])
def test_bytes_receive_the_latest_smoothed_token_and_their_own_state(variant, smooth):
    rule, states, boundaries = make_rule(variant, smooth), random(2, 8, DIM), random_boundaries(2, 8)
    decided = rule.prescribed(states, boundaries)
    tokens = random(int(boundaries.sum()), DIM, seed=3)
    counts = boundaries.sum(1).tolist()
    z = sequential(tokens, decided.soft[boundaries], counts) if smooth == "ema" else tokens
    own = rule.residual_bias.expand(2, 8, DIM) if variant == "faithful" else states  # the residual starts at 0
    latest = boundaries.long().cumsum(1) - 1 + torch.tensor([[0], [counts[0]]])
    torch.testing.assert_close(rule.upsample(tokens, states, decided), own + z[latest], rtol=0, atol=1e-12)


def test_the_residual_projection_stays_in_fp32_under_autocast():
    rule = HNetRule(DIM, target_rate=0.2, variant="faithful", smooth="ema", ratio_weight=0.03)
    with torch.no_grad():
        rule.residual.normal_()
    states = random(1, 5, DIM).float()
    marks = torch.tensor([[1, 0, 0, 0, 0]]).bool()
    nothing = torch.zeros(1, DIM)
    exact = rule.upsample(nothing, states, rule.prescribed(states, marks))
    with torch.autocast("cpu", torch.bfloat16):
        decided = rule.prescribed(states, marks)
        assert decided.soft.dtype == torch.float32
        assert torch.equal(rule.upsample(nothing, states, decided), exact)


def test_prescribing_the_routers_own_boundaries_predicts_the_same():
    model, ids = tiny_model("hnet", dtype=torch.float64), ragged_ids((13, 7, 1, 0))
    drawn = model(ids, uniforms=random_uniforms(4, 13))
    given = model(ids, boundaries=drawn.boundaries)
    assert torch.equal(given.nll, drawn.nll) and torch.equal(given.soft, drawn.soft) and given.aux_loss == 0


@pytest.mark.usefixtures("shapes_unchecked")
def test_a_long_batch_with_a_boundary_at_every_second_byte_fits_and_trains():
    model = tiny_model("hnet", embedding_dim=32, window=16)
    ids = ragged_ids((2048, 2048))
    every_second = (torch.arange(2048) % 2 == 0).expand(2, 2048)
    out = model(ids, boundaries=every_second)
    out.nll.mean().backward()
    assert out.boundaries.sum() == 2048 and model.rule.query.grad.any() and model.rule.query.grad.isfinite().all()
