"""rltok.kernels: each kernel equals plain maths in float64, values and gradients, at ragged sizes, on memory full of NaN."""

import importlib
import inspect
import pkgutil

import pytest
import torch
import torch.nn.functional as F
from kernel_help import DEVICE, NARROW, ROUNDING, randn, relative_errors

from rltok import kernels, policy
from rltok.attention import row_causal_attention, window_attention
from rltok.fast.blocks import Segments
from rltok.kernels import geglu, nll, norm, row_causal, segment, window
from rltok.layers import apply_rotary, rotary_table
from rltok.resample import latest_token, row_offsets

EPS = 1e-6
WIDTHS = [(3, 7, 24), (1, 1, 16), (5, 64), (2, 3, 96)]


def rms(x):
    return x / (x.square().mean(dim=-1, keepdim=True) + EPS).sqrt()


@pytest.mark.parametrize("shape", WIDTHS, ids=str)
def test_a_norm_is_that_of_layers_in_sixteen_bits(shape):
    x, weight = 3 * randn(*shape, seed=1), randn(shape[-1], seed=2, scale=0.3)
    errors = relative_errors(lambda x, w: (norm.norm(x, w, EPS, NARROW),), lambda x, w: (rms(x) * (1 + w),), [x, weight])
    assert max(errors) < ROUNDING


@pytest.mark.parametrize("shape", WIDTHS, ids=str)
def test_the_sum_keeps_fp32_and_both_norms_pass_their_gradients(shape):
    x, h = randn(*shape, seed=1), 4 * randn(*shape, seed=2, dtype=NARROW)
    post, pre = randn(shape[-1], seed=3, scale=0.3), randn(shape[-1], seed=4, scale=0.3)

    def reference(x, h, post, pre):
        added = x + rms(h) * (1 + post)
        return added, rms(added) * (1 + pre)

    errors = relative_errors(lambda *given: norm.residual_norm(*given, EPS, NARROW), reference, [x, h, post, pre])
    assert errors[0] < 1e-6 and max(errors) < ROUNDING

    def alone(x, h, post):
        added, normed = norm.residual_norm(x, h, post, None, EPS, NARROW)
        assert normed is None
        return (added,)

    errors = relative_errors(alone, lambda x, h, post: reference(x, h, post, pre.double())[:1], [x, h, post])
    assert errors[0] < 1e-6 and max(errors) < ROUNDING


@pytest.mark.parametrize("shape", [(3, 5, 40), (1, 6), (2, 2058)], ids=str)
def test_the_gated_activation_is_gelu_times_up(shape):
    half = shape[-1] // 2

    def reference(x):
        return (F.gelu(x[..., :half], approximate="tanh") * x[..., half:],)

    inputs = [2 * randn(*shape, seed=1, dtype=NARROW)]
    assert max(relative_errors(lambda x: (geglu.geglu(x),), reference, inputs)) < ROUNDING


@pytest.mark.parametrize(("rows", "ids"), [((2, 5), 11), ((1, 1), 4), ((3, 4), 264)])
def test_the_loss_of_a_head_is_cross_entropy_over_what_may_be_predicted(rows, ids):
    states, weight = randn(*rows, 16, seed=1, dtype=NARROW), randn(ids, 16, seed=2)
    never = torch.zeros(ids, device=DEVICE)
    never[1] = float("-inf")
    targets = torch.randint(2, ids, rows, generator=torch.Generator().manual_seed(3)).to(DEVICE)
    targets[-1, rows[1] // 2 + 1 :] = ids  # not scored

    def reference(states, weight):
        logits = states @ weight.to(NARROW).double().t() + never.double()  # the kernel rounds the weight, as autocast does
        losses = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=ids, reduction="none")
        return (losses.view(rows),)

    actual = relative_errors(lambda s, w: (nll.head_nll(s, w, never, targets, ids),), reference, [states, weight])
    assert actual[0] < 1e-6 and max(actual) < 2 * ROUNDING  # the gradient by the logits is kept in 16 bits
    assert (nll.head_nll(states, weight, never, targets, ids)[targets == ids] == 0).all()


def random_boundaries(rows, length, seed):
    boundaries = torch.rand(rows, length, generator=torch.Generator().manual_seed(seed)).lt(0.3)
    boundaries[:, 0] = True
    boundaries[-1, 1:] = False  # a row of one token
    return boundaries.to(DEVICE)


@pytest.mark.parametrize(("rows", "length"), [(3, 9), (1, 1), (2, 70)])
def test_bytes_become_tokens_and_tokens_are_added_to_their_bytes(rows, length):
    boundaries = random_boundaries(rows, length, seed=rows)
    segments = Segments(boundaries)
    assert torch.equal(segments.index.long(), latest_token(boundaries, row_offsets(boundaries)))
    x, scale = randn(rows, length, 12, seed=1), randn(int(boundaries.sum()), 12, seed=2)

    def kernel(x, scale):
        passed, tokens = segment.select_tokens(x, segments.index, segments.first)
        return passed, tokens, segment.add_tokens(passed, tokens * scale, segments.index, segments.first)

    def reference(x, scale):
        return x, x[boundaries], x + (x[boundaries] * scale)[segments.index.long()]

    assert max(relative_errors(kernel, reference, [x, scale])) < 1e-6


@pytest.mark.parametrize("terms", [0, 1, 9, 17])
@pytest.mark.parametrize("shape", WIDTHS, ids=str)
def test_head_and_policy_read_byte_states_while_their_last_sum_is_made(shape, terms):
    x, h = 2 * randn(*shape, seed=1), 4 * randn(*shape, seed=2, dtype=NARROW)
    post, vectors = randn(shape[-1], seed=3, scale=0.3), randn(terms, shape[-1], seed=4)

    def reference(x, h, post):
        added = x + rms(h) * (1 + post)
        return added, rms(added)

    errors = relative_errors(
        lambda x, h, post: norm.residual_readout(x, h, post, vectors, EPS, NARROW)[:2], reference, [x, h, post]
    )
    assert errors[0] < 1e-6 and max(errors) < ROUNDING
    actual, expected = norm.residual_readout(x, h, post, vectors, EPS, NARROW)[2], reference(x, h.float(), post)[1] @ vectors.t()
    torch.testing.assert_close(actual, expected, rtol=1e-5, atol=1e-5)
    assert actual.dtype == torch.float32 and actual.shape == (*shape[:-1], terms)


@pytest.mark.parametrize("terms", [1, 9, 17])
def test_gradients_of_the_policys_terms_travel_with_those_of_the_early_head(terms):
    rows, ids, width = (3, 4), 264, 24
    states, weight = randn(*rows, width, seed=1, dtype=NARROW), randn(ids, width, seed=2)
    vectors, mask = randn(terms, width, seed=3), torch.zeros(ids, device=DEVICE)
    targets = torch.randint(0, 256, rows, generator=torch.Generator().manual_seed(4)).to(DEVICE)

    def kernel(states, weight, vectors):
        given = (states.float() @ vectors.t()).detach()  # as `residual_readout` gives them
        return nll.head_nll_and_terms(states, weight, mask, targets, 263, given, vectors)

    def reference(states, weight, vectors):
        loss = F.cross_entropy((states @ weight.t()).flatten(0, 1), targets.flatten(), reduction="none")
        return loss.view(rows), states @ vectors.t()

    errors = relative_errors(kernel, reference, [states, weight, vectors])
    assert errors[1] < 1e-6 and max(errors) < 2 * ROUNDING, errors


@pytest.mark.parametrize("softcap", [6.0, None])
@pytest.mark.parametrize(("lags", "length"), [(0, 5), (1, 1), (3, 130), (8, 4), (20, 40)])
def test_logits_of_decisions_are_those_of_the_policy(lags, length, softcap):
    terms, boundaries = 10 * randn(2, length, lags + 1, seed=lags), random_boundaries(2, length, seed=lags)
    settings = {"bias": -1.4, "scale": 4.0, "softcap": softcap}
    for backend in ("plain", "triton"):

        def kernel(terms, backend=backend):
            return (policy.boundary_logits(terms, boundaries, **settings, backend=backend),)

        def reference(terms):
            past = F.pad(boundaries.double(), (lags, 0)).unfold(1, lags + 1, 1).flip(-1)  # [B, N, lags + 1]: a_i, a_{i-1}, ...
            past[..., 0] = 1
            logits = (past * terms).sum(dim=-1) / 4 - 1.4
            return (logits if softcap is None else softcap * (logits / softcap).tanh(),)

        assert max(relative_errors(kernel, reference, [terms])) < 2e-6


def turned(qkv, positions, dim):
    """Rotated queries and keys, and values, of [..., 3, H, D]."""
    q, k, v = qkv.unbind(dim)
    rotary = rotary_table(positions, q.shape[-1], 10000.0, torch.float64)
    return apply_rotary(q, *rotary), apply_rotary(k, *rotary), v


@pytest.mark.parametrize(
    ("rows", "heads", "length", "window_", "softcap"),
    [(2, 2, 130, 64, 50.0), (2, 1, 70, 64, None), (1, 2, 1, 64, 2.0), (1, 1, 64, 5, 2.0), (1, 1, 150, 65, 3.0),
     (1, 2, 90, 1, None), (1, 1, 140, 129, 2.0)],
)  # fmt: skip
def test_window_attention_turns_and_mixes_as_the_reference(rows, heads, length, window_, softcap):
    qkv = randn(rows, length, 3, heads, 16, seed=length, dtype=NARROW, scale=1.5)

    def reference(qkv):
        q, k, v = turned(qkv, torch.arange(length, device=DEVICE), 2)
        return (window_attention(q, k, v, window=window_, softcap=softcap, backend="reference"),)

    def kernel(qkv):
        return (window.window_attention(qkv, window=window_, softcap=softcap, theta=10000.0),)

    assert max(relative_errors(kernel, reference, [qkv])) < 2 * ROUNDING


WALK = {"num_warps": 4, "STAGES": 1}


@pytest.mark.parametrize("launch", [{"STRIP": 1, "TMA": True}, {"STRIP": 2, "TMA": False}, {"STRIP": 16, "TMA": True}], ids=str)
@pytest.mark.parametrize(
    ("rows", "heads", "length", "window_", "softcap"),
    [(2, 2, 256, 64, 50.0), (2, 2, 130, 64, 2.0), (2, 1, 70, 64, None), (1, 2, 1, 64, 2.0), (1, 1, 64, 5, 2.0),
     (1, 2, 90, 1, None), (1, 1, 129, 63, 100.0), (1, 1, 90, 65, 2.0)],
)  # fmt: skip
def test_window_attention_that_walks_along_rows_is_the_same(monkeypatch, launch, rows, heads, length, window_, softcap):
    monkeypatch.setattr(window, "FORWARD", WALK | launch)
    monkeypatch.setattr(window, "BACKWARD", WALK | launch)
    test_window_attention_turns_and_mixes_as_the_reference(rows, heads, length, window_, softcap)


@pytest.mark.parametrize("launch", [window.LAUNCH, WALK | {"STRIP": 2, "TMA": True}], ids=["blocks", "walk"])
@pytest.mark.parametrize("place", [0, 70, 135])
def test_the_window_kernel_sees_window_minus_1_positions_back_and_none_further(monkeypatch, place, launch):
    monkeypatch.setattr(window, "FORWARD", launch)
    qkv = randn(1, 140, 3, 1, 16, seed=1, dtype=NARROW)
    other = qkv.clone()
    other[0, place, 2] += 1.0
    for size in (63, 64, 65):
        before, after = (window.window_attention(x, window=size, softcap=50.0, theta=10000.0) for x in (qkv, other))
        changed = (before != after)[0].any(-1).any(-1).nonzero().flatten().tolist()
        assert changed == list(range(place, min(140, place + size)))


@pytest.mark.parametrize(
    ("rows", "heads", "softcap"),
    [([5, 1, 100, 30], 2, 50.0), ([1], 2, None), ([130], 1, 2.0), ([64, 64, 1, 1, 64], 1, 1.0)],
    ids=str,
)
def test_row_causal_attention_mixes_inside_rows_only(rows, heads, softcap):
    offsets = torch.tensor([0, *rows], device=DEVICE).cumsum(0)
    row = torch.repeat_interleave(torch.arange(len(rows), device=DEVICE), torch.tensor(rows, device=DEVICE))
    positions = torch.randint(0, 4000, (sum(rows),), generator=torch.Generator().manual_seed(1)).to(DEVICE)
    qkv = randn(sum(rows), 3, heads, 16, seed=2, dtype=NARROW, scale=1.5)

    def reference(qkv):
        return (row_causal_attention(*turned(qkv, positions, 1), offsets, softcap=softcap, backend="reference"),)

    def kernel(qkv):
        rotary = rotary_table(positions, 16, 10000.0)
        start, end = offsets[row].int(), offsets[row + 1].int()
        return (row_causal.row_causal_attention(qkv, start, end, rotary, softcap=softcap),)

    assert max(relative_errors(kernel, reference, [qkv])) < 2 * ROUNDING


@pytest.mark.parametrize(
    "launch", [{"SKIP": True}, {"QUERIES": 64, "KEYS": 32}, {"QUERIES": 32, "KEYS": 16, "SKIP": True}], ids=str
)
@pytest.mark.parametrize(
    ("rows", "heads", "softcap"),
    [([5, 1, 100, 30], 2, 50.0), ([200], 1, None), ([64, 64, 1, 1, 64], 1, 1.0), ([31, 128, 97], 1, 50.0), ([1], 2, None)],
    ids=str,
)
def test_row_causal_attention_is_the_same_in_other_blocks_and_without_needless_masks(monkeypatch, launch, rows, heads, softcap):
    for name in ("FORWARD", "BACK_QUERIES", "BACK_KEYS"):
        monkeypatch.setattr(row_causal, name, row_causal.LAUNCH | launch)
    test_row_causal_attention_mixes_inside_rows_only(rows, heads, softcap)


@pytest.mark.filterwarnings("ignore:overflow")  # of the interpreter: tanh is written with e^x, infinity included
def test_large_scores_do_not_overflow_under_the_largest_cap_that_needs_no_maximum():
    for softcap in (window.FIXED_CAP[NARROW], None):
        qkv = randn(1, 70, 3, 1, 16, seed=3, dtype=NARROW, scale=12.0)
        actual = window.window_attention(qkv, window=64, softcap=softcap, theta=10000.0)
        assert actual.isfinite().all()


def test_no_kernel_gives_a_gradient_of_its_gradient():
    modules = [importlib.import_module(f"rltok.kernels.{functions.name}") for functions in pkgutil.iter_modules(kernels.__path__)]
    functions = [v for m in modules for v in vars(m).values() if isinstance(v, type) and issubclass(v, torch.autograd.Function)]
    assert len(functions) >= 8
    # read, not run: what a backward pass that is taken twice does depends on what stands beside it
    assert [each for each in functions if "@once_differentiable\n    def backward" not in inspect.getsource(each)] == []
