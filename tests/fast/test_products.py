"""products: weights narrowed beforehand are those of this moment, and are narrowed no more often than they change."""

import copy

import pytest
import torch
from helpers import ragged_ids, random_boundaries, tiny_model
from kernel_help import DEVICE, NARROW

from rltok.fast import products
from rltok.fast.unet import FastUNet
from rltok.kernels import attempts, backends

pytestmark = pytest.mark.usefixtures("shapes_unchecked")


def small_model():
    return tiny_model(network=FastUNet, embedding_dim=32, num_heads=1, mid_layers=1).to(DEVICE)


def losses(model, names):
    ids = ragged_ids((13, 5)).to(DEVICE)
    boundaries = random_boundaries(2, ids.shape[1] - 1, seed=0).to(DEVICE)
    with attempts.trying(*names), backends.use("triton"), torch.autocast(DEVICE.type, NARROW):
        return model(ids, boundaries=boundaries).nll


def change(model):
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1.5)


def load(model):
    model.load_state_dict({name: -value for name, value in model.state_dict().items()}, strict=False)


def replace(model):
    for parameter in model.parameters():
        parameter.data = 2 * parameter.data


@pytest.mark.parametrize("how", [change, load, replace])
def test_a_weight_that_changed_is_narrowed_anew(how):
    model = small_model()
    before = losses(model, ["weights"])
    how(model)
    after = losses(model, ["weights"])
    assert not torch.equal(before, after)
    torch.testing.assert_close(after, losses(copy.deepcopy(model), []), rtol=1e-3, atol=1e-3)


def test_weights_that_stay_are_narrowed_once_and_each_model_has_its_own(monkeypatch):
    model, other, copied = small_model(), small_model(), []
    plain = torch._foreach_copy_
    monkeypatch.setattr(torch, "_foreach_copy_", lambda to, given: (copied.append(len(to)), plain(to, given))[1])
    first = losses(model, ["weights"])
    assert torch.equal(losses(model, ["weights"]), first)
    assert copied == [4 * len(model.down_blocks), 4, 4 * len(model.up_blocks)]
    change(other)
    torch.testing.assert_close(losses(other, ["weights"]), losses(other, []), rtol=1e-3, atol=1e-3)
    assert torch.equal(losses(model, ["weights"]), first)


def test_the_gradient_of_a_weight_was_never_rounded_to_16_bits():
    model = small_model()
    for names, rounded in (([], True), (["weights"], False)):
        model.zero_grad()
        losses(model, names).sum().backward()
        gradient = model.up_blocks[0].mlp.down.weight.grad
        assert torch.equal(gradient, gradient.to(NARROW).float()) == rounded


def test_what_was_narrowed_goes_with_its_model():
    model = small_model()
    losses(model, ["weights"])
    kept = [model.down_blocks, model.mid_blocks, model.up_blocks]
    assert all(parts in products._kept for parts in kept)
    before = len(products._kept)
    del model, kept
    assert len(products._kept) == before - 3
