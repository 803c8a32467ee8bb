"""rltok.step: one update against a gradient written out by hand, accumulation, clipping, draws, devices."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from helpers import ragged_ids, random_uniforms, tiny_config, tiny_model
from runs import small_config

from rltok.config import Config, ObjectiveConfig, TrainConfig
from rltok.data import cut_documents
from rltok.data.batches import Prefetcher, micro_batches
from rltok.data.corpus import Corpus
from rltok.data.documents import Document
from rltok.device import precision_of, resolve_device
from rltok.errors import RltokError
from rltok.estimator import advantages
from rltok.losses import target_rate_loss
from rltok.optim import learning_rate, make_optimizer
from rltok.rng import row_uniforms
from rltok.rules.whitespace import WhitespaceRule
from rltok.runs.models import new_model
from rltok.step import train_step
from rltok.unet import UNetOutput

WEIGHTS = {"lambda_auto": 0.9, "lambda_policy": 0.4, "lambda_target": 0.2, "lambda_early": 0.3}
LENGTHS = ((7, 12), (3, 9), (12, 1))  # ragged, and the micro-batches hold different numbers of bytes


def config_for(rule="learned", *, clip_norm=1e9, gamma=0.8, centring="batch", updates=50, train=None, **objective):
    sizes = {"training_bytes": updates * 6 * 12, "sequences_per_update": 6, "micro_batch": 2}
    train = TrainConfig(**sizes, clip_norm=clip_norm, learning_rate=0.01, **(train or {}))
    objective = ObjectiveConfig(gamma=gamma, centring=centring, **WEIGHTS, **objective)
    return Config(model=tiny_config(rule), objective=objective, data=small_config(data__sequence_length=12).data, train=train)


def batches_of(lengths=LENGTHS, draws=1):
    return [(ragged_ids(pair, 12, seed=i), random_uniforms(len(pair), 12 * draws, seed=i)) for i, pair in enumerate(lengths)]


def advantages_by_hand(out, gamma, others=()):
    """Eqs. (15) to (17) in numpy, one decision at a time; rows that have ended take no part in a mean.

    With other draws of the same rows, their mean return is subtracted from that of eq. (16).
    """
    rewards = (out.early_nll - out.nll).detach().double().numpy()
    if others:
        rewards = rewards - np.mean([(other.early_nll - other.nll).detach().double().numpy() for other in others], axis=0)
    scored = out.scored.numpy()
    rows, length = rewards.shape
    returns = np.array([[sum(gamma**j * r[i + j] for j in range(length - i)) for i in range(length)] for r in rewards])
    actual = np.zeros_like(returns)
    for i in range(length):
        there = [b for b in range(rows) if scored[b, i]]
        if len(there) > 1:
            for b in there:
                actual[b, i] = returns[b, i] - np.mean([returns[other, i] for other in there])
    return actual


def gradient_by_hand(model, batches, gamma, rate, all_train=False):
    """Gradient of eq. (27) over the whole update, with every denominator written out.

    The first of several draws trains the policy, or all of them, each against the others.
    """
    total_scored = sum(int((ids[:, 1:] != 258).sum()) for ids, _ in batches)
    loss = 0.0
    for ids, uniforms in batches:
        out, *others = (model(ids, uniforms=each) for each in uniforms.split(12, dim=1))
        part = 0.9 * out.nll.sum() + 0.3 * out.early_nll.sum()
        if out.boundary_logits is not None:
            p, draws = out.boundary_logits.sigmoid(), [out, *others]
            for k, draw in enumerate(draws if all_train else [out]):
                q = draw.boundary_logits.sigmoid()
                chosen = torch.where(draw.boundaries, q, 1 - q).log()
                paid = torch.from_numpy(advantages_by_hand(draw, gamma, draws[:k] + draws[k + 1 :])).float()
                part = part - 0.4 * (chosen * paid)[out.drawn].sum() / (len(draws) if all_train else 1)
            pressure = out.boundary_logits[out.drawn].mean() * (p[out.drawn].mean().item() - rate)
            part = part + 0.2 * pressure * out.scored.sum()
        loss = loss + part / total_scored
    names, parameters = zip(*model.named_parameters(), strict=True)
    grads = torch.autograd.grad(loss, parameters, allow_unused=True)
    return {name: grad for name, grad in zip(names, grads, strict=True) if grad is not None}


def norm_of(grads):
    return math.sqrt(sum(float(grad.double().square().sum()) for grad in grads))


@pytest.mark.parametrize("rule", ["learned", "even"])
def test_the_gradient_of_ragged_micro_batches_is_that_of_the_mean_over_all_bytes_of_the_update(rule):
    model, config, batches = tiny_model(rule), config_for(rule), batches_of()
    wanted = gradient_by_hand(model, batches, 0.8, config.model.rule.target_rate)
    metrics = train_step(model, make_optimizer(model, config.train), batches, config, 1)
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(parameter.grad, wanted[name], rtol=1e-3, atol=1e-6)  # fp32 sums in another order
    own = [grad for name, grad in wanted.items() if name.startswith("rule.")]
    assert float(metrics.grad_norm) == pytest.approx(norm_of(wanted.values()), rel=1e-4)
    assert float(metrics.grad_norm_rule) == pytest.approx(norm_of(own), rel=1e-4)
    assert (norm_of(own) > 0) == (rule == "learned")


@pytest.mark.parametrize("draws", [2, 4])
def test_with_several_draws_the_first_trains_alone_and_against_the_mean_return_of_the_others(draws):
    batches = batches_of(draws=draws)
    wanted = gradient_by_hand(tiny_model(), batches, 0.8, 0.3)
    alone = gradient_by_hand(tiny_model(), [(ids, uniforms[:, :12]) for ids, uniforms in batches], 0.8, 0.3)
    model, config = tiny_model(), config_for(draws=draws)
    metrics = train_step(model, make_optimizer(model, config.train), batches, config, 1)
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(parameter.grad, wanted[name], rtol=1e-3, atol=1e-6)
    policy = "rule.project.weight"
    assert (wanted[policy] - alone[policy]).abs().max() > 1e-3
    assert torch.equal(wanted["output_head.weight"], alone["output_head.weight"])  # the loss is that of the first draw
    assert metrics.scored_bytes == 44


@pytest.mark.parametrize("draws", [2, 3])
def test_draws_that_all_train_give_the_policy_the_mean_of_their_gradients_and_the_network_that_of_the_first(draws):
    batches = batches_of(draws=draws)
    first, wanted = (gradient_by_hand(tiny_model(), batches, 0.8, 0.3, every) for every in (False, True))
    model, config = tiny_model(), config_for(draws=draws, further_draws="train")
    train_step(model, make_optimizer(model, config.train), batches, config, 1)
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(parameter.grad, wanted[name], rtol=1e-3, atol=1e-6)
    for reached, name in ((True, "rule.project.weight"), (True, "down_blocks.0.qkv.weight"), (False, "output_head.weight")):
        assert (not torch.equal(wanted[name], first[name])) == reached, name


def test_an_entropy_below_its_floor_adds_its_weighted_pressure_to_the_loss_and_one_above_adds_nothing():
    model, config = tiny_model(), config_for(lambda_entropy=3.0, least_entropy=0.65)
    wanted = gradient_by_hand(model, batches_of(), 0.8, 0.3)
    for ids, uniforms in batches_of():
        out = model(ids, uniforms=uniforms)
        p = out.boundary_logits.double()[out.drawn].sigmoid()
        mean = -(p * p.log() + (1 - p) * (1 - p).log()).mean()
        assert 0.3 < mean.item() < 0.65
        pressure = -3.0 * mean * (0.65 - mean.item()) * out.scored.sum() / 44
        wanted["rule.project.weight"] = (
            wanted["rule.project.weight"] + torch.autograd.grad(pressure, model.rule.project.weight)[0]
        )
    train_step(model, make_optimizer(model, config.train), batches_of(), config, 1)
    torch.testing.assert_close(model.rule.project.weight.grad, wanted["rule.project.weight"], rtol=1e-3, atol=1e-6)
    grads = []
    for settings in ({}, {"lambda_entropy": 3.0, "least_entropy": 0.3}):
        model, config = tiny_model(), config_for(**settings)
        train_step(model, make_optimizer(model, config.train), batches_of(), config, 1)
        grads.append(model.rule.project.weight.grad)
    assert torch.equal(*grads)


def test_a_row_drawn_several_times_is_first_drawn_as_a_row_drawn_once():
    rows = cut_documents([Document(bytes(range(200)), "s", "0")], 12, "windows", name="t")
    corpus = Corpus(rows, rows, None, {})
    once, thrice = (micro_batches(corpus, config_for(draws=draws), 3, torch.device("cpu")) for draws in (1, 3))
    for (ids, uniforms), (same_ids, more) in zip(once, thrice, strict=True):
        assert torch.equal(ids, same_ids) and torch.equal(more[:, :12], uniforms) and more.shape == (2, 36)
        assert len({tuple(row) for row in more.view(6, 12).tolist()}) == 6


def test_a_redraw_is_a_forward_pass_with_its_uniforms_whose_logits_alone_have_a_gradient():
    model, (ids, uniforms) = tiny_model(), batches_of(draws=2)[0]
    out, other = (model(ids, uniforms=each) for each in uniforms.split(12, dim=1))
    again = model.redraw(ids, out, uniforms[:, 12:])
    torch.testing.assert_close(again.nll, other.nll, rtol=1e-5, atol=1e-6)
    assert torch.equal(again.boundaries, other.boundaries) and not torch.equal(out.boundaries, other.boundaries)
    assert not again.nll.requires_grad
    grads = [torch.autograd.grad(each.boundary_logits.sum(), model.embedding.weight)[0] for each in (again, other)]
    torch.testing.assert_close(*grads, rtol=1e-5, atol=1e-6)


def test_clipping_happens_once_on_the_summed_gradient_and_the_norms_told_are_from_before():
    model, config, batches = tiny_model(), config_for(clip_norm=0.05), batches_of()
    wanted = gradient_by_hand(model, batches, 0.8, config.model.rule.target_rate)
    norm = norm_of(wanted.values())
    assert norm > 1  # else nothing would be clipped
    metrics = train_step(model, make_optimizer(model, config.train), batches, config, 1)
    assert float(metrics.grad_norm) == pytest.approx(norm, rel=1e-4)
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(parameter.grad, wanted[name] * (0.05 / norm), rtol=1e-3, atol=1e-7)


def test_metrics_are_means_over_the_whole_update_not_over_its_last_micro_batch():
    model, config, batches = tiny_model(), config_for(), batches_of()
    with torch.no_grad():  # before the weights move
        outs = [model(ids, uniforms=uniforms) for ids, uniforms in batches]
    metrics = train_step(model, make_optimizer(model, config.train), batches, config, 1).to_dict()
    scored = sum(int(out.scored.sum()) for out in outs)
    drawn = sum(int(out.drawn.sum()) for out in outs)
    assert (scored, drawn) == (44, 38)  # the boundary on BOS of each of the 6 rows is forced
    p = torch.cat([out.boundary_logits[out.drawn].double().sigmoid() for out in outs])
    squares = sum(float((advantages_by_hand(out, 0.8) ** 2)[out.drawn.numpy()].sum()) for out in outs)
    wanted = {
        "nll": sum(float(out.nll.sum()) for out in outs) / scored,
        "early_nll": sum(float(out.early_nll.sum()) for out in outs) / scored,
        "rate": sum(int(out.boundaries[out.drawn].sum()) for out in outs) / drawn,
        "tokens_per_byte": sum(int(out.boundaries.sum()) for out in outs) / scored,
        "policy_entropy": float(-(p * p.log() + (1 - p) * (1 - p).log()).mean()),
        "advantage_rms": math.sqrt(squares / drawn),
    }
    assert {key: metrics[key] for key in wanted} == pytest.approx(wanted, rel=1e-4)


def test_another_rate_loss_takes_the_place_of_eq_24_with_its_weight_and_its_mask():
    def gradients(config, **given):
        model = tiny_model(dtype=torch.float64)
        train_step(model, make_optimizer(model, config.train), batches_of(), config, 1, **given)
        return torch.cat([parameter.grad.flatten() for parameter in model.parameters() if parameter.grad is not None])

    def doubled(logits, target_rate, mask):
        seen.append((target_rate, int(mask.sum())))
        return 2 * target_rate_loss(logits, target_rate, mask)

    config, seen = config_for(), []
    twice = replace(config, objective=replace(config.objective, lambda_target=2 * WEIGHTS["lambda_target"]))
    torch.testing.assert_close(gradients(config, rate_loss=doubled), gradients(twice), rtol=0, atol=1e-12)
    assert seen == [(0.3, 17), (0.3, 10), (0.3, 11)]  # 19, 12 and 13 scored bytes, 2 of each forced
    assert (gradients(config) - gradients(twice)).abs().max() > 1e-6


def test_a_rule_without_a_policy_has_no_entropy_and_no_gradient_of_its_own():
    model, config = tiny_model("random_k"), config_for("random_k")
    metrics = train_step(model, make_optimizer(model, config.train), batches_of(), config, 1).to_dict()
    assert metrics["policy_entropy"] is None
    assert metrics["grad_norm_rule"] == 0.0


@pytest.mark.parametrize("step", [1, 3, 40])
def test_update_number_one_uses_the_learning_rate_of_step_zero(step):
    model, config = tiny_model(), config_for()
    optimizer = make_optimizer(model, config.train)
    metrics = train_step(model, optimizer, batches_of(), config, step)
    wanted = learning_rate(step - 1, 50, config.train)
    assert [group["lr"] for group in optimizer.param_groups] == [wanted, wanted]
    assert metrics.to_dict()["learning_rate"] == wanted


def test_without_centring_the_split_into_micro_batches_changes_nothing_but_rounding():
    whole = [tuple(torch.cat(parts) for parts in zip(*batches_of(), strict=True))]
    grads = []
    for batches in (batches_of(), whole):
        model, config = tiny_model(), config_for(centring="none")
        config_without_target = ObjectiveConfig(gamma=0.8, centring="none", **(WEIGHTS | {"lambda_target": 0.0}))
        config = Config(model=config.model, objective=config_without_target, data=config.data, train=config.train)
        train_step(model, make_optimizer(model, config.train), batches, config, 1)
        grads.append([parameter.grad for parameter in model.parameters()])
    for ours, theirs in zip(*grads, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("centring", ["batch", "leave_one_out"])
def test_centring_looks_at_the_rows_of_its_own_micro_batch_only(centring):
    model, config = tiny_model(), config_for(centring=centring)
    split = train_step(model, make_optimizer(model, config.train), batches_of(), config, 1).to_dict()
    model, whole = tiny_model(), [tuple(torch.cat(parts) for parts in zip(*batches_of(), strict=True))]
    joined = train_step(model, make_optimizer(model, config.train), whole, config, 1).to_dict()
    assert joined["nll"] == pytest.approx(split["nll"], rel=1e-5)
    assert abs(joined["advantage_rms"] - split["advantage_rms"]) > 1e-3


def hand_made_output():
    nll = torch.tensor([[1.0, 2.0, 4.0], [0.0, 3.0, 1.0]])
    early = torch.tensor([[2.0, 2.0, 5.0], [1.0, 7.0, 0.0]])
    everything = torch.ones(2, 3, dtype=torch.bool)
    return UNetOutput(nll, early, everything, torch.zeros(2, 3), everything, everything, torch.zeros(()))


@pytest.mark.parametrize(
    ("settings", "wanted"),
    [  # rewards are [1, 0, 1] and [1, 4, -1]
        ({"gamma": 0.5, "centring": "none"}, [[1.25, 0.5, 1.0], [2.75, 3.5, -1.0]]),
        ({"gamma": 0.0, "centring": "none", "relative_rewards": False}, [[-1.0, -2.0, -4.0], [0.0, -3.0, -1.0]]),
        ({"gamma": 1.0, "centring": "none", "credit": "total"}, [[2.0, 2.0, 2.0], [4.0, 4.0, 4.0]]),
        ({"gamma": 0.5}, [[-0.75, -1.5, 1.0], [0.75, 1.5, -1.0]]),
        ({"gamma": 0.5, "centring": "leave_one_out"}, [[-1.5, -3.0, 2.0], [1.5, 3.0, -2.0]]),
    ],
)
def test_every_variance_reduction_can_be_switched_off_by_itself(settings, wanted):
    out = hand_made_output()
    paid = advantages(out.nll, out.early_nll, out.scored, **ObjectiveConfig(**settings).reductions)
    assert paid.tolist() == wanted


@pytest.mark.parametrize("poison", [float("nan"), float("inf")])
def test_a_loss_that_is_not_finite_names_the_update_and_changes_no_weight(poison):
    model, config = tiny_model(), config_for()
    optimizer = make_optimizer(model, config.train)
    train_step(model, optimizer, batches_of(), config, 1)
    with torch.no_grad():
        model.mid_blocks[1].out.weight[0, 0] = poison

    def everything():
        moments = [value for state in optimizer.state.values() for value in state.values()]
        return [tensor.detach().nan_to_num().clone() for tensor in (*model.parameters(), *moments)]

    before = everything()
    with pytest.raises(RltokError, match=r"^update 7: .*not finite.*last checkpoint.*Lower train\.learning_rate"):
        train_step(model, optimizer, batches_of(), config, 7)
    assert all(torch.equal(a, b) for a, b in zip(before, everything(), strict=True))


def corpus_of(num_rows=10, length=16):
    text = bytes(np.random.default_rng(0).integers(97, 123, num_rows * length).astype(np.uint8))
    rows = cut_documents([Document(text, "s", "0")], length, "windows", name="t")
    return Corpus(rows, rows, None, {})


def stacked(config, step):
    parts = micro_batches(corpus_of(), config, step, torch.device("cpu"))
    return [torch.cat(tensors) for tensors in zip(*parts, strict=True)]


def small_rows(**settings):
    return small_config(data__sequence_length=16, train__training_bytes=100 * 64, **settings)


@pytest.mark.parametrize("number", [1, 2])
def test_a_weight_that_no_loss_depends_on_is_an_error_that_names_it(number):
    """Left alone, a checkpoint would hold nothing of it to resume with, and several processes would wait for its gradient."""
    model, config = tiny_model("whitespace"), config_for("whitespace")
    for name in ("first", "second")[:number]:
        setattr(model.rule, name, torch.nn.Parameter(torch.zeros(3)))
    optimizer = make_optimizer(model, config.train)
    names = ", ".join(("rule.first", "rule.second")[:number])
    with pytest.raises(RltokError, match=rf"^update 1: no loss depends on {names}\. Use it .*requires_grad_\(False\)"):
        train_step(model, optimizer, batches_of(), config, 1)
    model.rule.requires_grad_(False)
    train_step(model, optimizer, batches_of(), config, 1)


def test_rows_and_draws_of_an_update_do_not_depend_on_the_split_into_micro_batches():
    for step in (1, 2, 5):
        halves, whole = stacked(small_rows(), step), stacked(small_rows(train__micro_batch=4), step)
        assert all(torch.equal(a, b) for a, b in zip(halves, whole, strict=True))
    assert len(micro_batches(corpus_of(), small_rows(), 1, torch.device("cpu"))) == 2


def test_draws_belong_to_seed_update_and_global_row_number():
    _, uniforms = stacked(small_rows(train__seed=9), 3)
    assert torch.equal(uniforms, row_uniforms(9, 3, [8, 9, 10, 11], 16))


def test_every_pass_visits_each_row_once_in_an_order_that_the_seed_decides():
    def rows_seen(seed):
        return torch.cat([stacked(small_rows(train__seed=seed), step)[0] for step in range(1, 6)])

    seen = rows_seen(0)
    everything = corpus_of().train.ids(range(10))
    first, second = seen[:10], seen[10:]
    assert not torch.equal(first, second)
    for part in (first, second):
        assert sorted(part.tolist()) == sorted(everything.tolist())
    assert torch.equal(seen, rows_seen(0))
    assert not torch.equal(seen, rows_seen(1))


def test_a_new_model_depends_on_the_seed_alone_and_leaves_the_global_generator_alone():
    torch.manual_seed(1)
    state = torch.get_rng_state()
    first = new_model(small_config(train__seed=3), torch.device("cpu"))
    assert torch.equal(torch.get_rng_state(), state)
    torch.rand(5)
    again = new_model(small_config(train__seed=3), torch.device("cpu"))
    other = new_model(small_config(train__seed=4), torch.device("cpu"))
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), again.parameters(), strict=True))
    assert not torch.equal(first.embedding.weight, other.embedding.weight)


def test_a_rule_that_is_given_to_a_new_model_stands_in_for_the_one_that_is_named():
    rule = WhitespaceRule()
    model = new_model(small_config(), torch.device("cpu"), rule)
    assert model.rule is rule and not list(model.rule.parameters())


@pytest.mark.parametrize(("name", "said"), [("gpu", "no device 'gpu'"), ("meta", "does not run on 'meta'")])
def test_a_device_that_rltok_cannot_use_is_refused_by_name(name, said):
    with pytest.raises(RltokError, match=f"{said}.* Use auto, cpu or cuda"):
        resolve_device(name)


def test_cuda_without_a_card_says_so_and_auto_falls_to_the_cpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(RltokError, match="sees no CUDA card. Use --device cpu"):
        resolve_device("cuda")
    assert resolve_device("auto").type == "cpu"


def test_forward_passes_are_fp32_on_the_cpu_unless_bf16_is_asked_for():
    cpu = torch.device("cpu")
    dtypes = [precision_of(small_config(train__precision=name), cpu) for name in ("auto", "fp32", "bf16")]
    assert dtypes == [torch.float32, torch.float32, torch.bfloat16]


@pytest.mark.parametrize("prepared", [0, 1, 2, 5])
def test_micro_batches_made_ahead_are_those_of_their_update(prepared):
    config, corpus, cpu = small_rows(), corpus_of(), torch.device("cpu")
    ahead = Prefetcher(corpus, config, cpu, last=3)
    ahead._last = 3  # as on a card
    for step in (1, 2, 3):
        actual, expected = ahead(step), micro_batches(corpus, config, step, cpu)
        assert len(actual) == 2
        assert all(torch.equal(x, y) for a, b in zip(actual, expected, strict=True) for x, y in zip(a, b, strict=True))
        for _ in range(prepared):
            ahead.prepare()
    assert ahead._ready == []  # nothing is made for an update after the last
    assert torch.equal(ahead(2)[0][0], micro_batches(corpus, config, 2, cpu)[0][0])  # out of order, as after a resume


def test_a_step_asks_for_the_next_rows_after_each_micro_batch():
    config, calls = config_for(), []
    model = new_model(config, torch.device("cpu"))
    train_step(model, make_optimizer(model, config.train), batches_of(), config, 1, lambda: calls.append(1))
    assert len(calls) == len(LENGTHS)
