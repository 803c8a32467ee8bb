"""No position sees what comes after it, whatever the rule, and no row sees another or the padding.

Byte states, decisions and the early head are compared bit for bit. What passes through the token level is compared bit for
bit where both runs pack equally many tokens into each row; else matrix products have other shapes and may add in another
order, so that float64 results differ by about 1e-15 (two ulps), far below TOLERANCE, which is far below any leak.
"""

import pytest
import torch
from helpers import RULES, STRAIGHT_THROUGH, ragged_ids, random_boundaries, random_uniforms, ranged_model, tiny_model

pytestmark = pytest.mark.usefixtures("shapes_unchecked")

LENGTHS = {1: (13,), 5: (9, 13, 1, 0, 12)}
TOLERANCE = 1e-12
PLACES = (1, 6, 12, 13)


def outputs(model, ids, **draw):
    """Everything that a position may not learn from its future, by name."""
    with torch.no_grad():
        out = model(ids, **draw)
        named = {"byte_states": model.encode(ids[:, :-1]), "boundaries": out.boundaries, "early_nll": out.early_nll}
        named |= {} if out.boundary_logits is None else {"boundary_logits": out.boundary_logits}
        named |= {} if out.soft is None else {"soft": out.soft}
        return named | {"nll": out.nll, "log_probs": model.log_probs(ids, **draw)}


def changed_at(ids, j):
    """Another byte at position j of every row that has one there; also says which rows those are."""
    rows = ids[:, j] < 256
    other = ids.clone()
    other[rows, j] = (ids[rows, j] + 97) % 256
    return other, rows


def assert_past_is_untouched(before, after, j):
    """Entries that the id at j may not reach: positions < j, and targets < j. Returns whether all were held to the bit."""
    same_shapes = torch.equal(before["boundaries"].sum(1), after["boundaries"].sum(1))
    for name, value in before.items():
        stop = j - 1 if name.endswith("nll") else j
        old, new = value[:, :stop], after[name][:, :stop]
        if same_shapes or name not in ("nll", "log_probs"):
            assert torch.equal(old, new), name
        else:
            torch.testing.assert_close(new, old, rtol=0, atol=TOLERANCE)
    return same_shapes


def assert_id_matters(before, after, j, rows):
    """The id at j reaches the byte state at j and the NLL of predicting it, in each row where it changed."""
    assert (before["nll"] != after["nll"])[rows, j - 1].all()
    if j < before["nll"].shape[1]:
        assert (before["byte_states"] != after["byte_states"])[rows, j].any(-1).all()


def check_every_place(model, batch, seed):
    ids, uniforms = ragged_ids(LENGTHS[batch], seed=seed), random_uniforms(batch, 13, seed=seed)
    before = outputs(model, ids, uniforms=uniforms)
    held = []
    for j in PLACES:
        other, rows = changed_at(ids, j)
        after = outputs(model, other, uniforms=uniforms)
        held.append(assert_past_is_untouched(before, after, j))
        assert_id_matters(before, after, j, rows)
        for name, value in before.items():  # rows without a byte at j are other rows' business only
            if held[-1] or name not in ("nll", "log_probs"):
                assert torch.equal(value[~rows], after[name][~rows]), name
    return held


@pytest.mark.parametrize(("rate", "training"), [(0.15, True), (0.6, False)])
def test_with_a_rate_that_was_chosen_a_byte_changes_nothing_before_it(rate, training):
    model = ranged_model(rate, dtype=torch.float64).train(training)
    held = [bits for batch in LENGTHS for bits in check_every_place(model, batch, seed=batch)]
    assert any(held) and not all(held)


@pytest.mark.parametrize(
    ("lags", "token_positions", "training"),  # every two of the three in every combination
    [(0, "byte", True), (0, "index", False), (1, "index", True), (1, "byte", False),
     (7, "byte", True), (7, "index", False), (8, "index", True), (8, "byte", False)],
)  # fmt: skip
def test_with_learned_boundaries_a_byte_changes_nothing_before_it(lags, token_positions, training):
    model = tiny_model(lags=lags, token_positions=token_positions, dtype=torch.float64).train(training)
    held = [bits for batch in LENGTHS for bits in check_every_place(model, batch, seed=lags + batch)]
    assert any(held) and not all(held)  # the byte also changed later draws


@pytest.mark.parametrize(
    ("rule", "upsample", "dtype"),  # every two of the three in every combination
    [("even", "value", torch.float32), ("even", "deviation", torch.float64),
     ("random_k", "value", torch.float64), ("random_k", "deviation", torch.float32)],
)  # fmt: skip
def test_with_fixed_rules_a_byte_changes_no_bit_before_it(rule, upsample, dtype):
    model = tiny_model(rule, upsample=upsample, dtype=dtype)
    assert all(bits for batch in LENGTHS for bits in check_every_place(model, batch, seed=batch))


@pytest.mark.parametrize(
    ("rule", "variant", "smooth"),  # which hnet alone reads
    [*((*each, "ema") for each in STRAIGHT_THROUGH), *((*each, "none") for each in STRAIGHT_THROUGH if each[0] == "hnet")],
)
def test_with_straight_through_gates_a_byte_changes_nothing_before_it(rule, variant, smooth):
    model = tiny_model(rule, variant=variant, smooth=smooth, dtype=torch.float64)
    held = [bits for batch in LENGTHS for seed in range(3) for bits in check_every_place(model, batch, seed=batch + seed)]
    assert any(held) and not all(held)  # the byte also changed later boundaries


@pytest.mark.parametrize("batch", LENGTHS)
def test_with_prescribed_boundaries_a_byte_changes_no_bit_before_it_in_fp32(batch):
    model, ids = tiny_model(), ragged_ids(LENGTHS[batch])
    boundaries = random_boundaries(batch, 13)
    before = outputs(model, ids, boundaries=boundaries)
    for j in PLACES:
        other, rows = changed_at(ids, j)
        after = outputs(model, other, boundaries=boundaries)
        assert assert_past_is_untouched(before, after, j)
        assert_id_matters(before, after, j, rows)


@pytest.mark.parametrize("j", [1, 4, 9, 12])
def test_a_boundary_changes_the_prediction_made_at_it_and_none_before(j):
    model, ids = tiny_model(dtype=torch.float64), ragged_ids((13, 13))
    boundaries = random_boundaries(2, 13)
    other = boundaries.clone()
    other[:, j] = ~other[:, j]
    before, after = (outputs(model, ids, boundaries=a) for a in (boundaries, other))
    assert_past_is_untouched(before, after, j)
    assert (before["nll"] != after["nll"])[:, j].all()  # a_j is visible when id j + 1 is predicted


def test_boundaries_elsewhere_but_as_many_change_no_bit_before_them_in_fp32():
    model, ids = tiny_model(), ragged_ids((13, 13))
    boundaries = random_boundaries(2, 13)
    before = outputs(model, ids, boundaries=boundaries)
    for j in range(1, 12):
        other = torch.cat([boundaries[:, :j], boundaries[:, j:].flip(1)], dim=1)
        assert assert_past_is_untouched(before, outputs(model, ids, boundaries=other), j)


def test_a_uniform_changes_no_decision_before_it_and_can_change_its_own():
    model, ids = tiny_model(dtype=torch.float64), ragged_ids((13, 13))
    uniforms = random_uniforms(2, 13)
    before = outputs(model, ids, uniforms=uniforms)
    for j in range(1, 13):
        other = uniforms.clone()
        other[:, j] = torch.where(before["boundaries"][:, j], 0.9999, 0.0)  # beyond the softcap's reach: a sure flip
        after = outputs(model, ids, uniforms=other)
        assert_past_is_untouched(before, after, j)
        assert (before["boundaries"][:, j] != after["boundaries"][:, j]).all()


@pytest.mark.parametrize("token_positions", ["byte", "index"])
@pytest.mark.parametrize("rule", RULES)
def test_a_short_row_in_a_batch_equals_the_row_alone(rule, token_positions):
    model = tiny_model(rule, token_positions=token_positions, dtype=torch.float64)
    lengths = LENGTHS[5]
    ids, uniforms = ragged_ids(lengths), random_uniforms(5, 13)
    together = outputs(model, ids, uniforms=uniforms)
    for row, length in enumerate(lengths):
        n = max(1, length)  # a row of BOS alone still needs a target, which is PAD
        alone = outputs(model, ids[row : row + 1, : n + 1], uniforms=uniforms[row : row + 1, :n])
        assert torch.equal(alone["boundaries"][0], together["boundaries"][row, :n])
        for name, value in alone.items():  # products of other shapes: see the top of the file
            torch.testing.assert_close(value[0], together[name][row, :n], rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize(("rule", "variant"), [*((rule, "faithful") for rule in RULES), *STRAIGHT_THROUGH[1::2]])
def test_more_padding_and_other_uniforms_on_it_change_nothing(rule, variant):
    model, lengths = tiny_model(rule, variant=variant, dtype=torch.float64), LENGTHS[5]
    narrow, wide = ragged_ids(lengths, 13), ragged_ids(lengths, 29)
    uniforms = random_uniforms(5, 29)
    before, after = outputs(model, narrow, uniforms=uniforms[:, :13]), outputs(model, wide, uniforms=uniforms)
    assert torch.equal(before["boundaries"], after["boundaries"][:, :13])
    assert not after["boundaries"][:, 13:].any() and not after["nll"][:, 13:].any()
    dead = narrow[:, 1:] == 258
    aux = [model(ids, uniforms=uniforms[:, : ids.shape[1] - 1]).aux_loss for ids in (narrow, wide)]
    torch.testing.assert_close(aux[0], aux[1], rtol=0, atol=TOLERANCE)
    for name, value in before.items():
        torch.testing.assert_close(after[name][:, :13][~dead], value[~dead], rtol=0, atol=TOLERANCE)
    for filler in (0.0, 0.9999):
        other = outputs(model, narrow, uniforms=torch.where(dead, filler, uniforms[:, :13]))
        for name in ("boundaries", "nll", "early_nll"):
            assert torch.equal(other[name], before[name]), name
