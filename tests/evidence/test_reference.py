"""The packed token level equals the plain one, and on the plain one causality holds to the last bit, in fp32."""

import pytest
import torch
from helpers import RULES, STRAIGHT_THROUGH, ragged_ids, random_uniforms, tiny_model

from rltok.evidence.reference import log_probs_in_place, nll_in_place

LENGTHS = (13, 7, 1, 0, 12)
CLOSE = {torch.float64: 1e-11, torch.float32: 5e-5}  # the same sums in another order


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("softcap", [None, 5.0])
@pytest.mark.parametrize("token_positions", ["byte", "index"])
@pytest.mark.parametrize("upsample", ["value", "deviation"])
def test_packed_tokens_predict_what_tokens_in_place_predict(upsample, token_positions, softcap, dtype):
    model = tiny_model(upsample=upsample, token_positions=token_positions, attention_softcap=softcap, dtype=dtype)
    ids, uniforms = ragged_ids(LENGTHS), random_uniforms(5, 13)
    with torch.no_grad():
        packed = model(ids, uniforms=uniforms)
        plain = nll_in_place(model, ids, packed.boundaries)
    torch.testing.assert_close(packed.nll, plain, rtol=0, atol=CLOSE[dtype])
    assert (plain[~packed.scored] == 0).all()


@pytest.mark.parametrize("rule", RULES)
def test_packed_gradients_equal_gradients_in_place(rule):
    model = tiny_model(rule, dtype=torch.float64)
    ids, uniforms = ragged_ids(LENGTHS), random_uniforms(5, 13)
    out = model(ids, boundaries=model(ids, uniforms=uniforms).boundaries)
    packed = torch.autograd.grad(out.nll.sum(), list(model.parameters()), allow_unused=True)
    plain = torch.autograd.grad(nll_in_place(model, ids, out.boundaries).sum(), list(model.parameters()), allow_unused=True)
    assert any(p is not None for p in packed)
    for p, q in zip(packed, plain, strict=True):
        assert (p is None) == (q is None)
        if p is not None:
            torch.testing.assert_close(p, q, rtol=1e-9, atol=1e-10)


def check_earlier_predictions(model, lengths):
    """A changed byte leaves every prediction before it equal to the bit, also where it changes the number of tokens."""
    counts_differed = 0
    for seed in range(4):
        ids, uniforms = ragged_ids(lengths, seed=seed), random_uniforms(len(lengths), 13, seed=seed)
        with torch.no_grad():
            one = model(ids, uniforms=uniforms)
            before = log_probs_in_place(model, ids, one.boundaries)
        for j in (1, 5, 9, 12):
            rows = ids[:, j] < 256
            other = ids.clone()
            other[rows, j] = (ids[rows, j] + 91) % 256
            with torch.no_grad():
                two = model(other, uniforms=uniforms)
                after = log_probs_in_place(model, other, two.boundaries)
            counts_differed += int(one.boundaries.sum() != two.boundaries.sum())
            assert torch.equal(before[:, :j], after[:, :j])  # predictions at positions <= j - 1
            assert (before[rows, j] != after[rows, j]).any(dim=-1).all()
    assert counts_differed > 0  # the case in which packed shapes differ was among them


@pytest.mark.parametrize(
    ("lags", "lengths", "training"),  # every two of the three in every combination
    [(0, (13,), True), (0, LENGTHS, False), (1, LENGTHS, True), (1, (13,), False),
     (7, (13,), True), (7, LENGTHS, False), (8, LENGTHS, True), (8, (13,), False)],
    ids=str,
)  # fmt: skip
@pytest.mark.usefixtures("shapes_unchecked")
def test_with_sampled_boundaries_a_byte_changes_no_bit_of_any_earlier_prediction_in_fp32(lags, lengths, training):
    check_earlier_predictions(tiny_model(lags=lags).train(training), lengths)


@pytest.mark.parametrize("lengths", [(13,), LENGTHS], ids=len)
@pytest.mark.parametrize(("rule", "variant"), STRAIGHT_THROUGH)
@pytest.mark.usefixtures("shapes_unchecked")
def test_with_straight_through_gates_a_byte_changes_no_bit_of_any_earlier_prediction_in_fp32(rule, variant, lengths):
    check_earlier_predictions(tiny_model(rule, variant=variant), lengths)


@pytest.mark.parametrize("upsample", ["value", "deviation"])
@pytest.mark.parametrize(("rule", "variant"), STRAIGHT_THROUGH)
def test_rules_that_average_or_smooth_predict_the_same_in_both_layouts(rule, variant, upsample):
    model = tiny_model(rule, variant=variant, upsample=upsample, dtype=torch.float64)
    ids, uniforms = ragged_ids(LENGTHS), random_uniforms(5, 13)
    with torch.no_grad():
        packed = model(ids, uniforms=uniforms)
        torch.testing.assert_close(packed.nll, nll_in_place(model, ids, packed.boundaries), rtol=0, atol=CLOSE[torch.float64])
