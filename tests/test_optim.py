"""rltok.optim: what decays, and the learning rate from its first step to its last."""

import math

import pytest
import torch
from helpers import ragged_ids, random_uniforms, tiny_model

from rltok.config import Config, DataConfig, ModelConfig, RuleConfig, TrainConfig, with_settings
from rltok.optim import annealed, gradient_norm, learning_rate, make_optimizer, policy_travel, restarts, set_learning_rate
from rltok.step import train_step

TRAIN = TrainConfig(learning_rate=2.0, warmup_fraction=0.1, warmup_start=0.1, final_fraction=0.05)


def test_the_rate_climbs_in_a_line_to_its_peak_and_falls_by_a_cosine_to_its_end():
    rates = [learning_rate(step, 200, TRAIN) for step in range(201)]
    assert rates[0] == pytest.approx(0.2) and rates[20] == pytest.approx(2.0) and rates[200] == pytest.approx(0.1)
    assert rates[10] == pytest.approx(2.0 * (0.1 + 0.9 * 0.5)) and max(rates) == rates[20]
    assert rates[110] == pytest.approx((2.0 + 0.1) / 2)  # half way down
    assert rates[65] == pytest.approx(0.1 + 1.9 * 0.5 * (1 + math.cos(math.pi / 4)))
    assert all(a < b for a, b in zip(rates[:20], rates[1:21], strict=True))
    assert all(a > b for a, b in zip(rates[20:200], rates[21:], strict=True))


@pytest.mark.parametrize("num_updates", [1, 2, 7, 1000])
@pytest.mark.parametrize("fraction", [0.0, 0.001, 0.5, 1.0])
def test_every_length_of_run_and_warm_up_gives_rates_between_start_and_peak(fraction, num_updates):
    train = TrainConfig(learning_rate=1.0, warmup_fraction=fraction, warmup_start=0.25, final_fraction=0.125)
    rates = [learning_rate(step, num_updates, train) for step in range(num_updates)]
    assert rates[0] == pytest.approx(0.25 if fraction > 0 else 1.0)
    assert all(0.125 <= rate <= 1.0 for rate in rates)


def test_without_a_warm_up_the_rate_starts_at_its_peak():
    train = TrainConfig(learning_rate=3.0, warmup_fraction=0.0)
    assert [learning_rate(step, 4, train) for step in (0, 2, 4)] == pytest.approx([3.0, 1.5, 0.0])


def test_matrices_of_blocks_and_heads_decay_and_norms_embedding_and_policy_do_not():
    model = tiny_model()
    optimizer = make_optimizer(model, TrainConfig(weight_decay=0.3, beta1=0.8, beta2=0.95, adam_eps=1e-7))
    names = {id(p): name for name, p in model.named_parameters()}
    decay = {names[id(p)]: group["weight_decay"] for group in optimizer.param_groups for p in group["params"]}
    assert set(decay) == set(names.values())
    decayed = {name for name, value in decay.items() if value == 0.3}
    assert {value for value in decay.values()} == {0.3, 0.0}
    kinds = ("qkv.weight", "out.weight", "gate_up.weight", "down.weight", "head.weight")
    assert decayed == {name for name in decay if name.endswith(kinds)}
    assert {"embedding.weight", "rule.project.weight", "rule.norm.weight", "output_norm.weight"}.isdisjoint(decayed)
    for group in optimizer.param_groups:
        assert (group["betas"], group["eps"]) == ((0.8, 0.95), 1e-7)


def test_the_gradient_norm_is_that_of_all_gradients_in_one_vector():
    first, second, unused = (torch.nn.Parameter(torch.zeros(shape)) for shape in ((2, 2), (1,), (3,)))
    first.grad, second.grad = torch.tensor([[1.0, 2.0], [4.0, 2.0]]), torch.tensor([12.0])
    assert gradient_norm([first, second, unused]).item() == pytest.approx(13.0)
    assert gradient_norm([unused]).item() == 0.0


@pytest.mark.parametrize("multiplier", [0.5, 20.0])
def test_a_multiplier_makes_the_learned_rules_parameters_a_group_whose_rate_is_so_many_times_the_others(multiplier):
    model = tiny_model()
    optimizer = make_optimizer(model, TrainConfig(policy_lr_multiplier=multiplier))
    set_learning_rate(optimizer, 0.125)
    names = {id(p): name for name, p in model.named_parameters()}
    rates = {names[id(p)]: group["lr"] for group in optimizer.param_groups for p in group["params"]}
    assert set(rates) == set(names.values())
    assert {name for name, rate in rates.items() if rate == 0.125 * multiplier} == {"rule.project.weight", "rule.norm.weight"}
    assert set(rates.values()) == {0.125, 0.125 * multiplier}
    assert [group["weight_decay"] for group in optimizer.param_groups if group["lr"] != 0.125] == [0.0]


def test_one_update_moves_the_policy_so_many_times_as_far_and_the_rest_as_before():
    moved = {}
    for multiplier in (1.0, 20.0):
        model = tiny_model()
        before = {name: p.detach().clone() for name, p in model.named_parameters()}
        optimizer = make_optimizer(model, TrainConfig(policy_lr_multiplier=multiplier, weight_decay=0.0))
        set_learning_rate(optimizer, 1e-3)
        for number, p in enumerate(model.parameters()):
            p.grad = torch.randn(p.shape, generator=torch.Generator().manual_seed(number), dtype=p.dtype)
        optimizer.step()
        moved[multiplier] = {name: p.detach() - before[name] for name, p in model.named_parameters()}
    for name, step in moved[1.0].items():
        times = 20.0 if name.startswith("rule.") else 1.0
        torch.testing.assert_close(moved[20.0][name], times * step, rtol=1e-3, atol=1e-8)


def test_without_a_multiplier_the_groups_are_those_that_old_checkpoints_number_their_parameters_by():
    model = tiny_model()
    names = {id(p): name for name, p in model.named_parameters()}
    groups = [[names[id(p)] for p in group["params"]] for group in make_optimizer(model, TrainConfig()).param_groups]
    decayed = [name for name, p in model.named_parameters() if p.ndim == 2 and not name.startswith(("embedding.", "rule."))]
    assert groups == [decayed, [name for name in names.values() if name not in decayed]]


def test_a_policy_that_starts_late_stays_put_until_then_and_moves_from_then_on_while_the_rest_moves_all_along():
    batches = [(ragged_ids([16, 12]), random_uniforms(2, 16))]
    train = TrainConfig(training_bytes=5 * 32, sequences_per_update=2, micro_batch=2, policy_start_fraction=0.4)
    model = tiny_model()
    config = Config(model=model.config, data=DataConfig(sequence_length=16), train=train)
    optimizer, moved = make_optimizer(model, train), []
    for step in range(1, 6):
        before = {name: p.detach().clone() for name, p in model.named_parameters()}
        train_step(model, optimizer, batches, config, step)
        moved.append({name for name, p in model.named_parameters() if not torch.equal(p, before[name])})
    policy = {"rule.project.weight", "rule.norm.weight"}
    assert [names & policy for names in moved] == [set(), set(), policy, policy, policy]
    assert all("embedding.weight" in names and "output_norm.weight" in names for names in moved)


def small(updates, **train):
    sizes = {"training_bytes": updates * 32, "sequences_per_update": 2, "micro_batch": 2}
    return Config(model=tiny_model().config, data=DataConfig(sequence_length=16), train=TrainConfig(**sizes, **train))


def trained(config, updates, **given):
    """A model, and after each update: the learning rate of the policy's group, and a copy of its matrix."""
    model, seen = tiny_model(), []
    optimizer = make_optimizer(model, config.train)
    for step in range(1, updates + 1):
        train_step(model, optimizer, [(ragged_ids([16, 12]), random_uniforms(2, 16))], config, step, **given)
        seen.append((optimizer.param_groups[-1]["lr"], model.rule.project.weight.detach().clone()))
    return model, seen


def test_the_policys_first_multiplier_holds_until_its_start_and_then_its_own():
    config = small(10, policy_lr_multiplier=20.0, policy_first_multiplier=3.0, policy_start_fraction=0.4)
    _, seen = trained(config, 10)
    for step, (rate, _) in enumerate(seen):
        assert rate == pytest.approx((3.0 if step < 4 else 20.0) * learning_rate(step, 10, config.train), rel=1e-12)


def test_the_policys_beta2_is_that_of_its_own_group_alone():
    groups = make_optimizer(tiny_model(), TrainConfig(policy_beta2=0.95, beta1=0.8, beta2=0.99)).param_groups
    assert [group["betas"] for group in groups] == [(0.8, 0.99), (0.8, 0.99), (0.8, 0.95)]
    assert len(groups[-1]["params"]) == 2


@pytest.mark.parametrize(("times", "wanted"), [(0, []), (1, [50]), (2, [25, 50]), (4, [12, 25, 38, 50])])
def test_restarts_are_spread_evenly_over_the_first_half_of_training(times, wanted):
    assert restarts(100, TrainConfig(policy_restarts=times)) == wanted


def test_a_restart_gives_the_policy_the_first_step_of_new_weights_and_leaves_the_rest_as_it_was():
    config = small(8, policy_restarts=1, policy_lr_multiplier=10.0)
    model, seen = trained(config, 5)
    before, restarted, (rate, after) = seen[2][1], seen[3][1], seen[4]
    assert not restarted.any() and not config.train.policy_start_fraction
    moved = model.rule.project.weight.grad.abs() > 1e-4
    assert before.abs().max() > 3 * rate and moved.any()
    # Adam's first step is as long as the learning rate, from 0; with averages of four updates it would be of any length
    torch.testing.assert_close(after[moved].abs(), torch.full_like(after[moved], rate), rtol=1e-3, atol=0)
    same, _ = trained(small(8, policy_lr_multiplier=10.0), 3)
    other, _ = trained(config, 3)
    assert all(torch.equal(a, b) for a, b in zip(same.parameters(), other.parameters(), strict=True))
    assert model.embedding.weight.abs().max() > 1


def test_what_anneals_goes_in_a_line_to_its_own_value_and_keeps_it():
    settings = {"train.policy_anneal_fraction": 0.4, "train.policy_first_rate": 0.5, "train.policy_first_temperature": 3.0,
                "objective.lambda_entropy": 1.0, "objective.least_entropy": 0.6}  # fmt: skip
    config = with_settings(small(10), settings)  # rate 0.3, D = 1
    now = [annealed(config, step) for step in range(1, 11)]
    share = [1, 0.75, 0.5, 0.25] + [0] * 6
    assert [each.model.rule.target_rate for each in now] == pytest.approx([0.3 + 0.2 * left for left in share])
    assert [each.model.rule.scale for each in now] == pytest.approx([1 + 2 * left for left in share])
    assert [each.objective.least_entropy for each in now] == pytest.approx([0.6 * left for left in share])
    assert now[4].model == config.model and annealed(now[0], 3) == now[0]
    assert annealed(small(10), 1) == small(10)


@pytest.mark.parametrize("updates", [1, 2, 3, 10])
def test_the_last_update_never_anneals(updates):
    config = with_settings(small(updates), {"train.policy_anneal_fraction": 0.99, "train.policy_first_rate": 0.9})
    assert annealed(config, updates).model == config.model


def test_training_draws_and_pays_at_the_rate_of_the_update():
    def noted(logits, target_rate, mask):
        wanted.append(target_rate)
        return 0 * logits.sum()

    wanted, rates = [], []
    config = with_settings(small(6), {"train.policy_anneal_fraction": 0.5, "train.policy_first_rate": 0.9})
    model = tiny_model()
    torch.nn.init.zeros_(model.rule.project.weight)
    optimizer = make_optimizer(model, config.train)
    for step in range(1, 7):
        model.rule.project.weight.data.zero_()
        train_step(model, optimizer, [(ragged_ids([16, 12]), random_uniforms(2, 16))], config, step, rate_loss=noted)
        rates.append(model.eval()(ragged_ids([16])).boundary_logits.detach())
        model.train()
    assert wanted == pytest.approx([0.9, 0.7, 0.5, 0.3, 0.3, 0.3])
    assert rates[5][0, 3].sigmoid().item() == pytest.approx(0.3, abs=0.02)  # a step after its weights were 0


@pytest.mark.parametrize("first, times", [(0.0, 0), (3.0, 0), (3.0, 1), (0.0, 3)])
@pytest.mark.parametrize("start", [0.0, 0.1, 0.3, 0.999])
@pytest.mark.parametrize("fraction", [0.0, 0.003, 0.075, 0.45, 1.0])
@pytest.mark.parametrize("updates", [1, 2, 3, 29, 381])
def test_the_policys_travel_is_the_sum_of_its_learning_rates_over_the_scale(updates, fraction, start, first, times):
    train = TrainConfig(
        learning_rate=2e-3, warmup_fraction=fraction, warmup_start=0.1, final_fraction=0.05, policy_lr_multiplier=7.0,
        policy_start_fraction=start, sequences_per_update=2, micro_batch=2, training_bytes=updates * 2 * 4096,
        policy_first_multiplier=first if start else 0.0, policy_restarts=times,
    )  # fmt: skip
    config = Config(train=train, model=ModelConfig(rule=RuleConfig(scale=8.0)))
    begin = max((round(updates * each / 2 / times) for each in range(1, times + 1)), default=0)
    summed = sum(
        (7.0 if step >= round(start * updates) else first) * learning_rate(step, updates, train) / 8.0
        for step in range(begin, updates)
    )
    assert policy_travel(config) == pytest.approx(summed, rel=1e-12, abs=1e-15)


def test_the_travel_of_a_budget_of_any_length_is_found_at_once():
    assert policy_travel(Config(train=TrainConfig(training_bytes=10**15))) > 1e3
