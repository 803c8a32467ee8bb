"""rltok.policy: eqs. (19) to (23), the draw, and its probabilities."""

import math

import numpy as np
import pytest
import torch
from helpers import random_boundaries, random_uniforms, sigmoid
from kernel_help import waits
from torch._subclasses.fake_tensor import FakeTensorMode

from rltok import policy
from rltok.errors import RltokError
from rltok.kernels import backends
from rltok.policy import (
    boundary_logits,
    capped_rate,
    earlier_boundaries,
    entropy,
    log_prob,
    next_boundary,
    sample_boundaries,
    uncapped_rate,
)
from rltok.rules.learned import LearnedRule

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"  # on the CPU Triton's interpreter runs the kernel
SETTINGS = {"bias": math.log(0.2 / 0.8), "scale": 16.0, "softcap": 6.0}


def random_terms(rows, length, lags, std=1.0, seed=0, dtype=torch.float64):
    return torch.from_numpy(np.random.default_rng(seed).normal(0, std, (rows, length, lags + 1))).to(dtype)


def one_logit(terms, decisions, i, *, bias, scale, softcap):
    """Eqs. (21) to (23) at position i of one row; terms [N, w + 1]."""
    raw = terms[i, 0] + sum(float(decisions[i - j]) * terms[i, j] for j in range(1, terms.shape[1]) if i - j >= 0)
    logit = raw / scale + bias
    return logit if softcap is None else softcap * math.tanh(logit / softcap)


def all_logits(terms, boundaries, **settings):
    return np.array(
        [
            [one_logit(t, a, i, **settings) for i in range(len(t))]
            for t, a in zip(np.asarray(terms), np.asarray(boundaries), strict=True)
        ]
    )


def draw_one_row(terms, uniforms, margin, **settings):
    """Left to right; uniforms closer than `margin` to a probability are moved away from it (in place)."""
    decisions = [True]
    for i in range(1, len(terms)):
        p = sigmoid(one_logit(terms, decisions, i, **settings))
        if abs(uniforms[i] - p) < margin:
            uniforms[i] = p + margin if p < 0.5 else p - margin
        decisions.append(bool(uniforms[i] < p))
    return decisions


# Logits


def test_logits_of_four_bytes_by_hand():
    terms = torch.tensor([[[1.0, 10.0, 100.0]] * 4])
    boundaries = torch.tensor([[True, False, True, False]])
    logits = boundary_logits(terms, boundaries, bias=0.5, scale=2.0, softcap=None)
    # lag 1 weighs 10 and sees a = 1, 0, 1; lag 2 weighs 100 and sees a = 1, 0
    assert logits.tolist() == [[1 / 2 + 0.5, 11 / 2 + 0.5, 101 / 2 + 0.5, 11 / 2 + 0.5]]


@pytest.mark.parametrize("softcap", [6.0, None])
@pytest.mark.parametrize(("lags", "length"), [(0, 5), (1, 1), (1, 9), (3, 2), (8, 23), (9, 4)])
def test_logits_equal_a_loop_over_positions_and_lags(lags, length, softcap):
    terms, boundaries = random_terms(3, length, lags, std=30), random_boundaries(3, length)
    settings = {**SETTINGS, "softcap": softcap}
    actual = boundary_logits(terms, boundaries, **settings)
    # float64, at most ten terms of size 100
    np.testing.assert_allclose(actual, all_logits(terms, boundaries, **settings), rtol=0, atol=1e-12)


def test_the_logits_start_at_the_target_rate_and_the_cap_moves_it_from_200_to_204_thousandths():
    nothing, boundaries = torch.zeros(1, 3, 9), random_boundaries(1, 3)
    free, capped = (boundary_logits(nothing, boundaries, **{**SETTINGS, "softcap": c}).sigmoid() for c in (None, 6.0))
    assert free[0].tolist() == pytest.approx([0.2] * 3, abs=1e-7)
    assert capped[0].tolist() == pytest.approx([0.204] * 3, abs=5e-4)


def test_decisions_before_the_start_of_a_row_are_zero():
    ones = torch.ones(2, 4, dtype=torch.bool)
    assert earlier_boundaries(ones, 3).tolist() == [[False, False, False, True]] * 2
    assert not earlier_boundaries(ones, 9).any()


# Draws


def settings_grid():
    for number, std in enumerate((0.1, 1.0, 5.0, 20.0, 60.0)):
        for softcap in (None, 6.0):
            for dtype in (torch.float32, torch.float64):
                yield pytest.param(std, softcap, dtype, number, id=f"{std}-{softcap}-{str(dtype)[6:]}")


@pytest.mark.usefixtures("shapes_unchecked")
@pytest.mark.parametrize(("std", "softcap", "dtype", "seed"), list(settings_grid()))
def test_both_samplers_and_a_scalar_loop_draw_the_same_bits(std, softcap, dtype, seed):
    generator = np.random.default_rng(seed)
    # fp32 logits err by about 1e-6, and p by a quarter of that: uniforms stay further away
    margin = 1e-6 if dtype == torch.float64 else 1e-5
    settings = {"bias": math.log(0.3 / 0.7), "scale": 4.0, "softcap": softcap}
    for lags in range(10):
        rows, length = int(generator.integers(1, 6)), int(generator.integers(2, 40))
        terms = random_terms(rows, length, lags, std, seed=100 * seed + lags, dtype=dtype)
        uniforms = generator.random((rows, length))
        expected = [draw_one_row(t, u, margin, **settings) for t, u in zip(terms.double().numpy(), uniforms, strict=True)]
        for backend in ("plain", "sweeps", "auto"):
            boundaries = sample_boundaries(terms, torch.from_numpy(uniforms).to(dtype), **settings, backend=backend)
            assert boundaries.tolist() == expected, (lags, backend)


@pytest.mark.parametrize("lags", [0, 1, 8])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_decisions_drawn_one_at_a_time_are_the_same_bits(lags, dtype):
    terms, uniforms = random_terms(3, 40, lags, std=20.0, dtype=dtype), random_uniforms(3, 40)
    drawn = [torch.zeros(3, dtype=torch.bool)] * lags + [torch.ones(3, dtype=torch.bool)]
    for i in range(1, 40):
        earlier = torch.stack([drawn[lags + i - lag] for lag in range(1, lags + 1)], 1) if lags else torch.zeros(3, 0).bool()
        drawn.append(next_boundary(terms[:, i], earlier, uniforms[:, i], **SETTINGS))
    assert torch.equal(torch.stack(drawn[lags:], 1), sample_boundaries(terms, uniforms, **SETTINGS, backend="sweeps"))


@pytest.mark.usefixtures("shapes_unchecked")
@pytest.mark.parametrize("length", [1, 2, 9, 64, 257])
@pytest.mark.parametrize("std", [0.1, 5.0, 60.0])
def test_both_samplers_draw_the_same_bits_at_every_length(std, length):
    for lags in (0, 1, 4, 9):
        for softcap, dtype in ((None, torch.float32), (6.0, torch.float64), (6.0, torch.float32)):
            terms = random_terms(1 + lags % 5, length, lags, std, seed=length, dtype=dtype)
            uniforms = random_uniforms(len(terms), length, seed=lags)
            settings = {"bias": 0.0, "scale": 1.0, "softcap": softcap}
            plain, sweeps = (sample_boundaries(terms, uniforms, **settings, backend=name) for name in ("plain", "sweeps"))
            assert torch.equal(plain, sweeps)


@pytest.mark.parametrize("length", [40, 2000])
def test_a_chain_in_which_every_decision_hangs_on_the_one_before_is_drawn_in_few_sweeps(length, monkeypatch):
    swept = []
    monkeypatch.setattr(policy, "boundary_logits", lambda *args, **named: swept.append(1) or boundary_logits(*args, **named))
    terms = torch.tensor([-50.0, 100.0]).expand(1, length, 2)  # a boundary exactly after a boundary
    ones = sample_boundaries(terms, torch.full((1, length), 0.5), bias=0.0, scale=1.0, softcap=None, backend="sweeps")
    alternating = sample_boundaries(-terms, torch.full((1, length), 0.5), bias=0.0, scale=1.0, softcap=None, backend="sweeps")
    assert ones.all() and alternating[0].tolist() == [True, False] * (length // 2)
    assert 0 < len(swept) <= 2 * min(length, 256)


@pytest.mark.parametrize("backend", ["plain", "sweeps"])
def test_position_0_is_forced_a_uniform_of_0_always_draws_and_a_large_one_never_where_p_is_small(backend):
    terms = torch.full((1, 6, 3), -1000.0)
    uniforms = torch.tensor([[0.9, 0.0, 0.003, 0.9, 0.0, 0.9]])
    free, capped = (sample_boundaries(terms, uniforms, bias=0.0, scale=1.0, softcap=c, backend=backend) for c in (None, 6.0))
    assert free.tolist() == [[True, True, False, False, True, False]]
    # the cap keeps p above sigmoid(-6) = 0.00247: below 0.003, so nothing else changes; at 0.0024 it does
    assert capped.tolist() == free.tolist()
    uniforms[0, 2] = 0.0024
    assert sample_boundaries(terms, uniforms, bias=0.0, scale=1.0, softcap=6.0, backend=backend)[0, 2]
    assert not sample_boundaries(-terms, torch.full((1, 6), 0.998), bias=0.0, scale=1.0, softcap=6.0, backend=backend)[
        0, 1:
    ].any()


@pytest.mark.parametrize("softcap", [None, 2.0])
@pytest.mark.parametrize("lags", [0, 2])
def test_boundaries_come_as_often_as_their_probabilities_say(lags, softcap):
    terms = random_terms(400, 200, lags, std=2.0, seed=5)
    settings = {"bias": -1.0, "scale": 1.0, "softcap": softcap}
    boundaries = sample_boundaries(terms, random_uniforms(400, 200, seed=6), **settings)
    raw = terms.numpy()[..., 0].copy()
    for lag in range(1, lags + 1):
        raw[:, lag:] += boundaries.numpy()[:, :-lag] * terms.numpy()[:, lag:, lag]
    logits = raw - 1.0 if softcap is None else softcap * np.tanh((raw - 1.0) / softcap)
    p, a = sigmoid(logits)[:, 1:], boundaries.numpy()[:, 1:]
    for chosen in (p < 0.2, (0.2 <= p) & (p < 0.6), p >= 0.6):
        # given the past, each a_i is Bernoulli(p_i): the summed surprise has this variance; four deviations
        assert abs((a - p)[chosen].sum()) < 4 * math.sqrt((p * (1 - p))[chosen].sum())


def test_drawing_is_outside_the_gradient_and_an_unknown_backend_is_an_error():
    terms = random_terms(1, 5, 1).requires_grad_()
    assert not sample_boundaries(terms, random_uniforms(1, 5), **SETTINGS).requires_grad
    with pytest.raises(RltokError, match="'auto', 'plain', 'sweeps' and 'triton'; got 'fast'"):
        sample_boundaries(terms, random_uniforms(1, 5), **SETTINGS, backend="fast")


def test_a_policy_without_memory_is_drawn_without_waiting_for_the_device(nothing_read):
    sample_boundaries(random_terms(2, 90, 0), random_uniforms(2, 90), **SETTINGS)


def test_dividing_by_d_is_a_product_with_its_reciprocal_wherever_it_is_computed():
    terms = random_terms(2, 500, 0, std=30, dtype=torch.float32)
    logits = boundary_logits(terms, random_boundaries(2, 500), bias=0.0, scale=7.0, softcap=None)
    assert np.array_equal(logits, terms.numpy()[..., 0] * np.float32(1 / 7))  # about one in five differs from terms / 7


# The kernel


def extreme_uniforms(rows, length, seed):
    """A third each: anywhere, near 0 or exactly 0, near 1 or the last number before it."""
    generator = np.random.default_rng(seed)
    kind, size = generator.integers(0, 3, (rows, length)), generator.integers(0, 25, (rows, length))
    low, high = np.where(size == 24, 0.0, 2.0 ** -(size + 1.0)), 1 - 2.0 ** -np.minimum(size + 1.0, 24)
    values = np.select([kind == 0, kind == 1], [generator.random((rows, length)), low], high)
    return torch.from_numpy(values.astype(np.float32))


def on_device(terms, uniforms, backend, **settings):
    return sample_boundaries(terms.to(DEVICE), uniforms.to(DEVICE), **settings, backend=backend).tolist()


# (lags, length, rows): lengths around a chunk of 64 and over several; more on a card, where a draw takes no time
SIZES = [(0, 70, 1), (1, 1, 2), (1, 130, 2), (2, 2, 5), (2, 257, 1), (4, 64, 2), (7, 63, 3), (8, 65, 2), (10, 65, 1)]
SIZES += [(lags, n, 5) for lags in (1, 2, 7, 8, 10) for n in (1, 2, 63, 64, 65, 130, 257, 4096)] if DEVICE == "cuda" else []


@pytest.mark.usefixtures("shapes_unchecked")
@pytest.mark.parametrize(("lags", "length", "rows"), SIZES, ids=str)
def test_the_kernel_draws_the_bits_of_the_loop_and_of_the_sweeps(lags, length, rows):
    for number, std in enumerate((1.0, 5.0, 20.0, 60.0) if DEVICE == "cuda" else [(1.0, 5.0, 20.0, 60.0)[(lags + length) % 4]]):
        scale = (1.0, 16.0, 7.0)[(lags + length + number) % 3]
        terms = random_terms(rows, length, lags, std * scale, seed=10 * length + lags, dtype=torch.float32)
        uniforms, softcap = extreme_uniforms(rows, length, seed=lags), None if length % 2 else 6.0
        settings = {"bias": -0.8, "scale": scale, "softcap": softcap}
        plain, sweeps, kernel = (on_device(terms, uniforms, name, **settings) for name in ("plain", "sweeps", "triton"))
        assert plain == sweeps == kernel


@pytest.mark.usefixtures("shapes_unchecked")
def test_the_kernel_follows_chains_across_chunks_and_skips_terms_of_decisions_that_are_0():
    alternating = torch.tensor([50.0, -100.0]).expand(1, 150, 2)  # a boundary exactly where there was none before
    half = torch.full((1, 150), 0.5)
    settings = {"bias": 0.0, "scale": 1.0, "softcap": None}
    assert on_device(alternating, half, "triton", **settings) == [[True, False] * 75]
    # a boundary exactly three positions after one: positions 64 to 66 look into the chunk before them
    echo = torch.tensor([-50.0, 0.0, 0.0, 100.0]).expand(1, 150, 4)
    assert on_device(echo, half, "triton", **settings) == [[i % 3 == 0 for i in range(150)]]
    terms = random_terms(2, 70, 2, 3.0, dtype=torch.float32)
    terms[0, 5, 0] = terms[0, 0, 1] = terms[0, 1, 2] = terms[:, 20:60:2, 1] = float("nan")
    drawn = [on_device(terms, random_uniforms(2, 70), name, **settings) for name in ("plain", "sweeps", "triton")]
    assert drawn[0] == drawn[1] == drawn[2] and not drawn[2][0][5]


def test_a_uniform_equal_to_its_probability_draws_nothing():
    terms, half = torch.tensor([0.0, 0.0]).expand(1, 70, 2), torch.full((1, 70), 0.5)
    for backend in ("plain", "sweeps", "triton"):  # u < p is false where both are exactly 1/2
        drawn = on_device(terms, half, backend, bias=0.0, scale=1.0, softcap=None)
        assert drawn == [[True] + [False] * 69]


@pytest.mark.skipif(DEVICE == "cpu", reason="needs a CUDA card")
def test_the_kernel_does_not_make_the_processor_wait_for_the_card():
    terms, uniforms = random_terms(3, 200, 8, dtype=torch.float32).to(DEVICE), random_uniforms(3, 200).to(DEVICE)
    sample_boundaries(terms, uniforms, **SETTINGS, backend="triton")  # compiles
    with waits() as waiting:
        sample_boundaries(terms, uniforms, **SETTINGS)
    assert not waiting


def test_the_kernel_says_what_it_cannot_draw(monkeypatch):
    def draw(lags, dtype=torch.float32):
        sample_boundaries(random_terms(1, 5, lags, dtype=dtype), random_uniforms(1, 5), **SETTINGS, backend="triton")

    with pytest.raises(RltokError, match=r"at most 10 lags; got 11\. backend='auto' draws the same boundaries"):
        draw(11)
    with pytest.raises(RltokError, match=r"works in torch\.float32; these terms are torch\.float64"):
        draw(2, torch.float64)
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    with pytest.raises(RltokError, match=r"'triton' needs a CUDA card; these tensors are on cpu\. backend='auto' draws the same"):
        draw(2)


def test_auto_takes_the_kernel_on_a_card_only_and_not_where_plain_is_asked_for(monkeypatch):
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    monkeypatch.setattr(backends, "problem", lambda device: None)

    def pretend(name, thresholds):
        taken.append(name)
        return torch.zeros(thresholds.shape, dtype=torch.bool)

    for name in ("sweeps", "triton"):
        monkeypatch.setattr(policy, f"_sample_{name}", lambda terms, thresholds, *rest, name=name: pretend(name, thresholds))

    def draw(lags, device="cuda:0", dtype=torch.float32):
        with FakeTensorMode():  # tensors without numbers, on a card that need not be there
            terms, uniforms = torch.empty(2, 9, lags + 1, dtype=dtype, device=device), torch.empty(2, 9, device=device)
            sample_boundaries(terms, uniforms, **SETTINGS)

    taken = []
    for lags in (1, 10, 0, 11):
        draw(lags)
    draw(8, device="cpu")
    draw(8, dtype=torch.float64)
    with backends.use("plain"):
        draw(8)
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    draw(8)
    assert taken == ["triton", "triton"] + ["sweeps"] * 6


# Probabilities


def test_log_prob_and_entropy_equal_their_formulas_and_stay_finite():
    logits = torch.linspace(-30, 30, 25, dtype=torch.float64).expand(2, 25)
    boundaries = random_boundaries(2, 25)
    p = sigmoid(logits)
    np.testing.assert_allclose(log_prob(logits, boundaries), np.log(np.where(boundaries, p, sigmoid(-logits))), atol=1e-12)
    expected = -p * np.log(p) - sigmoid(-logits) * np.log(sigmoid(-logits))
    np.testing.assert_allclose(entropy(logits), expected, rtol=0, atol=1e-12)
    assert entropy(torch.zeros(1, 1)).item() == pytest.approx(math.log(2))
    extreme = torch.tensor([[1e4, -1e4]])
    assert log_prob(extreme, torch.tensor([[True, True]])).tolist() == [[0.0, -1e4]]
    assert entropy(extreme).tolist() == [[0.0, 0.0]]


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("lags", [0, 1, 3])
def test_the_gradient_of_log_pi_reaches_weights_and_states_as_derived_by_hand(lags, training):
    rows, length, d = 3, 11, 4
    rule = LearnedRule(d, target_rate=0.3, lags=lags, scale=2.0, softcap=3.0, norm_eps=None).double().train(training)
    states = random_terms(rows, length, d - 1, std=2, seed=1).requires_grad_()
    boundaries, advantages = random_boundaries(rows, length), random_terms(rows, length, 0, seed=2)[..., 0]
    logits = rule.prescribed(states, boundaries).logits
    (log_prob(logits, boundaries) * advantages).sum().backward()

    w, x, a = rule.project.weight.detach().numpy(), states.detach().numpy(), boundaries.numpy().astype(float)
    settings = {"bias": math.log(0.3 / 0.7), "scale": 2.0, "softcap": 3.0 if training else None}
    logit = all_logits(x @ w.T, a, **settings)
    np.testing.assert_allclose(logits.detach(), logit, rtol=0, atol=1e-12)
    dlogit = advantages.numpy() * (a - sigmoid(logit))  # d/dl of a log s(l) + (1 - a) log s(-l)
    draw = dlogit * (1 - (logit / 3.0) ** 2 if training else 1) / 2.0  # d tanh = 1 - tanh^2, then 1 / D
    dw, dx = np.zeros_like(w), np.zeros_like(x)
    for b, i, k in np.ndindex(rows, length, lags + 1):
        seen = 1.0 if k == 0 else a[b, i - k] if i >= k else 0.0
        dw[k] += draw[b, i] * seen * x[b, i]
        dx[b, i] += draw[b, i] * seen * w[k]
    np.testing.assert_allclose(rule.project.weight.grad, dw, rtol=0, atol=1e-11)
    np.testing.assert_allclose(states.grad, dx, rtol=0, atol=1e-11)


# The cap and the rate


def test_200_becomes_204_thousandths_by_the_cap_alone():
    logit = math.log(0.2 / 0.8)  # the bias of eq. (22); 6 tanh(-1.3863 / 6) = -1.3621, a little nearer to 0
    assert capped_rate(0.2, 6.0) == pytest.approx(1 / (1 + math.exp(6 * math.tanh(-logit / 6))), rel=1e-14)
    assert capped_rate(0.2, 6.0) == pytest.approx(0.20389, abs=5e-6)
    assert capped_rate(0.5, 6.0) == 0.5 and capped_rate(0.2, 1e6) == pytest.approx(0.2, rel=1e-9)


@pytest.mark.parametrize("softcap", [6.0, 2.0])
def test_dropping_the_cap_undoes_it_away_from_one_half(softcap):
    for rate in (0.15, 0.204, 0.5, 0.7):
        free = uncapped_rate(rate, softcap)
        assert capped_rate(free, softcap) == pytest.approx(rate, rel=1e-12)
        assert abs(free - 0.5) >= abs(rate - 0.5)
    assert uncapped_rate(capped_rate(0.2, 6.0), 6.0) == pytest.approx(0.2, rel=1e-12)


def test_a_fresh_policy_draws_204_thousandths_in_training_and_200_in_evaluation():
    """The size 147m's D = 16 and bias: random weights of variance 1 / 3d move logits by a few hundredths, rates by less."""
    rule = LearnedRule(64, target_rate=0.2, lags=8, scale=16.0, softcap=6.0, norm_eps=1e-6)
    torch.nn.init.normal_(rule.project.weight, std=1 / math.sqrt(3 * 64), generator=torch.Generator().manual_seed(0))
    rows, length = 200, 500
    states = torch.randn(rows, length, 64, generator=torch.Generator().manual_seed(1))
    deviation = math.sqrt(0.2 * 0.8 / (rows * length))
    for training, rate in ((True, capped_rate(0.2, 6.0)), (False, 0.2)):
        boundaries = rule.train(training).decide(
            states, torch.zeros(rows, length, dtype=torch.long), random_uniforms(rows, length)
        )
        assert abs(boundaries.boundaries[:, 1:].float().mean().item() - rate) < 4 * deviation
        # the mean of p, without the noise of the draw: beyond the cap only curvature is left, p (1 - p) (1 - 2p) s^2 / 2
        spread = boundaries.logits[:, 1:].var().item()
        expected = rate + rate * (1 - rate) * (1 - 2 * rate) * spread / 2
        assert abs(boundaries.logits[:, 1:].sigmoid().mean().item() - expected) < 2e-4


def test_rates_without_a_logit_and_beyond_the_cap_are_named():
    for function in (capped_rate, uncapped_rate):
        with pytest.raises(RltokError, match="strictly between 0 and 1; got 1"):
            function(1, 6.0)
    with pytest.raises(RltokError, match=r"under softcap=2 no probability is 0\.1: its logit is -2\.20, .* above 2\.2"):
        uncapped_rate(0.1, 2.0)
