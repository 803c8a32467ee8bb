"""rltok.optim: what decays, and the learning rate from its first step to its last."""

import math

import pytest
import torch
from helpers import tiny_model

from rltok.config import TrainConfig
from rltok.optim import gradient_norm, learning_rate, make_optimizer

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
