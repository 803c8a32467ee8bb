"""blocks and unet: the fast path computes what the plain path computes, loss and every gradient, for every rule."""

import contextlib
import copy
from functools import partial

import pytest
import torch
from helpers import ragged_ids, random_boundaries, random_uniforms, tiny_model
from kernel_help import DEVICE, NARROW, ROUNDING, poisoned
from runs import small_config

import rltok
from rltok.config import ObjectiveConfig
from rltok.errors import RltokError
from rltok.estimator import advantages
from rltok.evaluation import evaluation_mode
from rltok.fast import blocks
from rltok.fast.unet import FastUNet
from rltok.kernels import backends
from rltok.rules.learned import LearnedRule
from rltok.runs.models import new_model
from rltok.step import losses_of
from rltok.unet import AutoregressiveUNet
from rltok.vocab import PAD

LENGTHS = [(13, 1, 6), (1,), (2, 1, 1)]  # bytes of each row: one token or many, odd lengths, one row alone
# a model's own rounding in 16 bits is the yardstick; below this it is too small to be one
LEAST = {torch.float16: 4e-3, torch.bfloat16: 3e-2}[NARROW]
# One head and one layer of each kind; what several of them change is looked at where a test names them.
fast_model = partial(tiny_model, network=FastUNet, embedding_dim=32, num_heads=1, mid_layers=1)


def scrambled(model):
    """Weights of norms away from 0, where a kernel that forgets one would not be seen."""
    with torch.no_grad():
        for number, parameter in enumerate(model.parameters()):
            if parameter.ndim == 1:
                parameter += 0.3 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(number))
    return model.to(DEVICE)


def loss_and_gradients(model, ids, boundaries, backend, dtype, paid=None):
    """Everything that a step takes from one pass with prescribed boundaries, and the gradient of every parameter.

    The plain path has its residual stream in 16 bits here, too: each of its sums has the dtype of the embedded bytes.

    paid: advantages in place of its own, which are small differences of large losses: the rounding of losses, which are compared
    themselves, would be most of what is seen of the gradients of the policy.
    """
    model = copy.deepcopy(model).to(dtype)
    if dtype == torch.float32 and backend == "plain":
        model.embedding.register_forward_hook(lambda embedding, ids, embedded: embedded.to(NARROW))
    narrow = torch.autocast(DEVICE.type, NARROW) if dtype == torch.float32 else contextlib.nullcontext()
    with backends.use(backend), poisoned(), narrow:
        out = model(ids, boundaries=boundaries)
        own = advantages(out.nll, out.early_nll, out.scored, **ObjectiveConfig(gamma=0.9).reductions)
        losses = losses_of(out, own if paid is None else paid.to(own.dtype), 0.2)
        losses.total(lambda_auto=1.0, lambda_early=0.3, lambda_policy=0.1, lambda_target=0.1).backward()
    gradients = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    return own, {"nll": out.nll.detach(), "early_nll": out.early_nll.detach()} | gradients


def assert_as_good_as_plain(model, ids, boundaries):
    paid, exact = loss_and_gradients(model, ids, boundaries, "plain", torch.float64)
    plain, fast = (loss_and_gradients(model, ids, boundaries, path, torch.float32, paid)[1] for path in ("plain", "triton"))
    assert fast.keys() == plain.keys() == exact.keys()
    for name, value in exact.items():
        size = value.norm().clamp(min=1e-6)
        errors = [float((gradients[name].double() - value).norm() / size) for gradients in (fast, plain)]
        assert errors[0] < max(3 * errors[1], LEAST), (name, errors)


def batch(lengths, seed=0):
    ids = ragged_ids(lengths, seed=seed).to(DEVICE)
    return ids, (random_boundaries(len(lengths), ids.shape[1] - 1, seed=seed)).to(DEVICE)


def logits_of_both_paths(model, ids, boundaries):
    logits = []
    for backend in ("plain", "triton"):
        with backends.use(backend), torch.autocast(DEVICE.type, NARROW):
            logits.append(model(ids, boundaries=boundaries).boundary_logits)
    return logits


@pytest.mark.parametrize("lengths", LENGTHS, ids=str)
def test_loss_and_gradients_are_as_near_to_float64_as_those_of_the_plain_path(lengths):
    ids, boundaries = batch(lengths, seed=len(lengths))
    many = {"num_heads": 2, "mid_layers": 2} if lengths == LENGTHS[0] else {}
    assert_as_good_as_plain(scrambled(fast_model(window=8, attention_softcap=50.0, **many)), ids, boundaries)


@pytest.mark.parametrize("head_norm", ["rms", "none"])
@pytest.mark.usefixtures("shapes_unchecked")
def test_the_residual_stream_is_in_16_bits_and_as_near_to_float64_over_several_layers(head_norm, monkeypatch):
    ids, boundaries = batch((13, 1, 6))
    layers = {"down_layers": 2, "mid_layers": 2, "up_layers": 2}
    model = scrambled(fast_model(window=8, attention_softcap=50.0, num_heads=2, head_norm=head_norm, **layers))
    assert_as_good_as_plain(model, ids, boundaries)
    kinds, sums = [], blocks._until_the_last_sum

    def seen(*given):
        made = sums(*given)
        kinds.append(made[0].dtype)
        return made

    monkeypatch.setattr(blocks, "_until_the_last_sum", seen)
    with backends.use("triton"), torch.autocast(DEVICE.type, NARROW):
        assert model(ids, boundaries=boundaries).byte_states.dtype == NARROW
    assert kinds == [NARROW] * 3  # of both byte levels and of the tokens


@pytest.mark.parametrize(
    "settings",
    [
        {"lags": 0, "attention_softcap": None, "token_positions": "index"}, {"lags": 20, "upsample": "deviation", "window": 1},
        {"head_norm": "none", "down_layers": 2, "mid_layers": 2, "up_layers": 2}, {"head_norm": "heads"}, {"head_norm": "policy"},
        {"rotary_positions": "bf16"},
    ],
    ids=str,
)  # fmt: skip
@pytest.mark.usefixtures("shapes_unchecked")
def test_every_reading_of_the_model_has_its_fast_path(settings):
    ids, boundaries = batch((6, 2))
    assert_as_good_as_plain(scrambled(fast_model(**settings)), ids, boundaries)


@pytest.mark.parametrize(("rate", "settings"), [(0.1, {}), (0.6, {}), (0.6, {"lags": 20}), (0.1, {"head_norm": "none"})], ids=str)
@pytest.mark.usefixtures("shapes_unchecked")
def test_a_rate_that_was_chosen_has_its_fast_path(rate, settings):
    ids, boundaries = batch((13, 6))
    model = scrambled(fast_model(lowest_rate=0.1, highest_rate=0.6, **settings))
    before = logits_of_both_paths(model, ids, boundaries)
    model.rule.use_rate(rate)
    assert_as_good_as_plain(model, ids, boundaries)
    after = logits_of_both_paths(model, ids, boundaries)
    torch.testing.assert_close(*after, rtol=0, atol=40 * ROUNDING)
    assert all((one - other).abs().mean() > 0.3 for one, other in zip(before, after, strict=True))


@pytest.mark.parametrize("rule", ["even", "hnet", "dynamic_pooling", "dynamic_pooling authors"])
@pytest.mark.usefixtures("shapes_unchecked")
def test_other_rules_pool_in_their_own_way_between_the_same_kernels(rule):
    ids, boundaries = batch((13, 1, 6))  # the gradient of a gate is a sum that nearly cancels over the few bytes of a shorter one
    name, variant = [*rule.split(), "faithful"][:2]
    assert_as_good_as_plain(scrambled(fast_model(name, variant=variant)), ids, boundaries)


@pytest.mark.parametrize("norm_eps", [None, 1.0])
@pytest.mark.usefixtures("shapes_unchecked")
def test_a_policy_of_the_user_that_norms_in_another_way_makes_its_own_terms(norm_eps):
    torch.manual_seed(0)
    rule = LearnedRule(32, target_rate=0.2, lags=2, scale=4.0, softcap=6.0, norm_eps=norm_eps)
    model = scrambled(FastUNet(fast_model().config, rule))
    rule.project.weight.data *= 4
    ids, boundaries = batch((6, 2))
    logits = logits_of_both_paths(model, ids, boundaries)
    torch.testing.assert_close(*logits, rtol=0, atol=40 * ROUNDING)
    assert logits[0].std() > 0.3


@pytest.mark.usefixtures("shapes_unchecked")
def test_all_tokens_or_a_single_one():
    ids, boundaries = batch((12, 12))
    model = scrambled(fast_model())
    assert_as_good_as_plain(model, ids, torch.ones_like(boundaries))
    boundaries[:, 1:] = False
    assert_as_good_as_plain(model, ids, boundaries)


def test_drawn_boundaries_are_those_of_the_plain_path_but_for_rounding():
    ids, _ = batch((40, 30, 5))
    model, uniforms = scrambled(fast_model(lags=3)), random_uniforms(3, 40).to(DEVICE)
    with torch.autocast(DEVICE.type, NARROW), torch.no_grad():
        outs = []
        for backend in ("plain", "triton"):
            with backends.use(backend):
                outs.append(model(ids, uniforms=uniforms))
    same = (outs[0].boundaries == outs[1].boundaries)[outs[0].drawn].float().mean()
    assert same > 0.97 and 0.05 < outs[1].boundaries[outs[1].drawn].float().mean() < 0.95
    assert (outs[1].nll[ids[:, 1:] == PAD] == 0).all()


def test_given_boundaries_alone_cost_neither_head_nor_policy_and_give_the_same_loss():
    ids, boundaries = batch((6, 2))
    model = scrambled(fast_model())
    for backend in ("plain", "triton"):
        with backends.use(backend), torch.autocast(DEVICE.type, NARROW):
            nll = model.given_nll(ids, boundaries)
            torch.testing.assert_close(nll, model(ids, boundaries=boundaries).nll, rtol=1e-3, atol=1e-3)
        model.zero_grad()
        nll.sum().backward()
        assert model.early_head.weight.grad is None and model.rule.project.weight.grad is None


def test_another_draw_of_the_same_byte_states_has_the_loss_of_its_own_forward_pass():
    ids, _ = batch((6, 2))
    model, uniforms = scrambled(fast_model()), [random_uniforms(2, 6, seed=seed).to(DEVICE) for seed in (0, 1)]
    for backend in ("plain", "triton"):
        with backends.use(backend), torch.autocast(DEVICE.type, NARROW):
            out, other = (model(ids, uniforms=each) for each in uniforms)
            again = model.redraw(ids, out, uniforms[1])
            torch.testing.assert_close(again.nll, other.nll.detach(), rtol=1e-3, atol=1e-3)
            grads = [torch.autograd.grad(each.boundary_logits.sum(), model.embedding.weight)[0] for each in (again, other)]
            torch.testing.assert_close(*grads, rtol=5e-2, atol=2e-2 * grads[1].abs().max().item())
        assert not again.nll.requires_grad and not torch.equal(out.boundaries, other.boundaries)


def test_outside_16_bit_autocast_everything_is_plain():
    ids, boundaries = batch((5, 2))
    model = scrambled(fast_model())
    with backends.use("plain"):
        expected = model(ids, boundaries=boundaries)
    with backends.use("triton"), evaluation_mode(model), torch.autocast(DEVICE.type, NARROW, enabled=False):
        actual = model(ids, boundaries=boundaries)
    assert torch.equal(actual.nll, expected.nll)


@pytest.mark.parametrize("place", [0, 9])
@pytest.mark.usefixtures("shapes_unchecked")
def test_a_byte_changes_no_bit_before_it_on_the_fast_path(place):
    model, ids = scrambled(fast_model()), batch((15,))[0]
    other, uniforms = ids.clone(), random_uniforms(1, 15).to(DEVICE)
    other[0, place + 1] = (ids[0, place + 1] + 1) % 256
    with backends.use("triton"), torch.autocast(DEVICE.type, NARROW), torch.no_grad():
        before, after = (model(x, uniforms=uniforms) for x in (ids, other))
    assert torch.equal(before.boundaries[:, : place + 1], after.boundaries[:, : place + 1])
    assert torch.equal(before.nll[:, :place], after.nll[:, :place])
    assert torch.equal(before.early_nll[:, :place], after.early_nll[:, :place])
    assert not torch.equal(before.nll, after.nll)


class Shifted(LearnedRule):
    def terms(self, byte_states):
        return super().terms(byte_states) + 1


class WithoutTerms(LearnedRule):
    def prescribed(self, byte_states, boundaries):
        return super().prescribed(byte_states, boundaries)


def biased(rule):
    rule.project = torch.nn.Linear(32, 3)
    return rule


SETTINGS = {"target_rate": 0.2, "lags": 2, "scale": 1.0, "softcap": 6.0, "norm_eps": 1e-6}


@pytest.mark.parametrize(
    "make", [Shifted, WithoutTerms, lambda *a, **k: biased(LearnedRule(*a, **k))], ids=["terms", "call", "bias"]
)
@pytest.mark.usefixtures("shapes_unchecked")
def test_what_a_user_changed_in_the_learned_rule_holds_on_the_fast_path_too(make):
    torch.manual_seed(0)
    model = scrambled(FastUNet(fast_model().config, make(32, **SETTINGS)))
    with torch.no_grad():
        for parameter in model.rule.parameters():
            parameter.add_(torch.ones_like(parameter))
    ids, boundaries = batch((6, 2))
    logits = logits_of_both_paths(model, ids, boundaries)
    torch.testing.assert_close(*logits, rtol=0, atol=100 * ROUNDING)


@pytest.mark.parametrize("settings", [{"embedding_dim": 48, "num_heads": 2}, {"embedding_dim": 16, "num_heads": 2}], ids=str)
def test_heads_that_the_kernels_do_not_take_are_plain(settings):
    ids, boundaries = batch((5, 2))
    model = scrambled(fast_model(**settings))
    with torch.autocast(DEVICE.type, NARROW), torch.no_grad():
        with backends.use("plain"):
            expected = model(ids, boundaries=boundaries).nll
        assert torch.equal(model(ids, boundaries=boundaries).nll, expected)
        with backends.use("triton"), pytest.raises(RltokError, match="heads of attention are"):
            model(ids, boundaries=boundaries)


def test_a_gradient_of_a_gradient_is_refused_not_wrong():
    ids, boundaries = batch((5, 2))
    model = scrambled(fast_model())
    with backends.use("triton"), torch.autocast(DEVICE.type, NARROW):
        loss = model(ids, boundaries=boundaries).nll.sum()
    weights = list(model.up_blocks.parameters())
    slopes = torch.autograd.grad(loss, weights, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        sum(slope.square().sum() for slope in slopes).backward()


def test_weights_that_are_not_in_fp32_take_the_plain_path():
    ids, boundaries = batch((5, 2))
    model = scrambled(fast_model()).double()
    with torch.autocast(DEVICE.type, NARROW), torch.no_grad():
        outputs = []
        for backend in ("plain", "triton"):
            with backends.use(backend):
                outputs.append(model(ids, boundaries=boundaries).nll)
    assert torch.equal(*outputs)


@pytest.mark.usefixtures("shapes_unchecked")
def test_a_softcap_beyond_all_scores_costs_no_digits():
    ids, boundaries = batch((6, 2))
    for softcap in (1e4, 1e6):  # within the kernels' reach, and beyond it
        assert_as_good_as_plain(scrambled(fast_model(attention_softcap=softcap)), ids, boundaries)


def test_models_to_train_and_loaded_ones_take_the_kernels_and_a_plain_network_never_does(finished):
    ids, boundaries = batch((5, 2))
    fresh = new_model(small_config(), DEVICE)
    plain = AutoregressiveUNet(fresh.config).to(DEVICE)
    plain.load_state_dict(fresh.state_dict())
    for model in (fresh, rltok.load(finished).to(DEVICE)):
        with torch.autocast(DEVICE.type, NARROW), torch.no_grad():
            with backends.use("plain"):
                expected = model(ids, boundaries=boundaries).nll
            with backends.use("triton"):
                assert not torch.equal(model(ids, boundaries=boundaries).nll, expected)
    with backends.use("triton"), torch.autocast(DEVICE.type, NARROW), torch.no_grad():
        actual = plain(ids, boundaries=boundaries).nll
        with backends.use("plain"):
            assert torch.equal(actual, fresh(ids, boundaries=boundaries).nll)
