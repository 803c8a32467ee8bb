"""low_rank: an early head of rank r starts as the best approximation and takes the full one's place on both paths."""

import numpy as np
import pytest
import torch
from helpers import ragged_ids, random_boundaries, tiny_model

from rltok.errors import RltokError
from rltok.evidence.low_rank import LowRankHead, shorten_early_head
from rltok.kernels import backends
from rltok.vocab import PREDICTED

IDS = list(PREDICTED)


def built(lines):
    return sum(parameter.numel() for parameter in lines.parameters())


@pytest.mark.parametrize("rank", [1, 3, 16])
def test_the_start_is_the_best_approximation_of_its_rank(rank):
    weight = torch.from_numpy(np.random.default_rng(rank).normal(size=(264, 16)))
    head = LowRankHead(weight, rank)
    start = head.weight.detach().numpy()[IDS]
    sizes = np.linalg.svd(weight.numpy()[IDS], compute_uv=False)
    # Eckart and Young: no matrix of this rank is nearer than the singular values left out
    assert np.linalg.norm(weight.numpy()[IDS] - start) == pytest.approx(np.sqrt((sizes[rank:] ** 2).sum()), abs=1e-10)
    assert np.linalg.matrix_rank(start) == rank
    assert built(head) == rank * (264 + 16)
    assert not head.weight[[256, 258, 263]].any()


def test_a_head_multiplies_twice_what_its_weight_multiplies_once():
    head, x = LowRankHead(torch.randn(264, 16, dtype=torch.float64), 3), torch.randn(2, 5, 16, dtype=torch.float64)
    torch.testing.assert_close(head(x), x @ head.weight.T, rtol=0, atol=1e-12)


def test_at_full_rank_the_model_is_the_one_whose_early_head_starts_as_the_output_head():
    full, low = tiny_model(dtype=torch.float64), tiny_model(dtype=torch.float64)
    with torch.no_grad():
        full.early_head.weight.copy_(full.output_head.weight)
    shorten_early_head(low, 16)
    ids, boundaries = ragged_ids((9, 5)), random_boundaries(2, 9)
    outs = [model(ids, boundaries=boundaries) for model in (full, low)]
    assert torch.equal(outs[0].nll, outs[1].nll)
    torch.testing.assert_close(outs[0].early_nll, outs[1].early_nll, rtol=0, atol=1e-12)


def test_a_short_head_learns_and_the_output_head_stays_free_of_it():
    model = tiny_model(dtype=torch.float64)
    before = model.output_head.weight.detach().clone()
    shorten_early_head(model, 3)
    out = model(ragged_ids((9, 5)), boundaries=random_boundaries(2, 9))
    out.early_nll.sum().backward()
    assert model.early_head.up.grad.any() and model.early_head.down.grad.any()
    assert not model.early_head.up.grad[[256, 258, 263]].any()
    assert model.output_head.weight.grad is None and torch.equal(model.output_head.weight, before)


def test_the_fast_path_takes_the_product_and_gives_the_same_losses_and_gradients():
    ids, boundaries = ragged_ids((17, 9)), random_boundaries(2, 17)
    losses, gradients = [], []
    for backend in ("plain", "triton"):
        model = tiny_model(embedding_dim=32)
        shorten_early_head(model, 4)
        with backends.use(backend), torch.autocast("cpu", torch.bfloat16):
            out = model(ids, boundaries=boundaries)
        out.early_nll.sum().backward()
        losses.append(out.early_nll.detach())
        gradients.append(model.early_head.down.grad)
    torch.testing.assert_close(losses[0], losses[1], rtol=0.02, atol=0.05)
    assert torch.nn.functional.cosine_similarity(*(g.flatten() for g in gradients), dim=0) > 0.999


@pytest.mark.parametrize("rank", [0, 17])
def test_a_rank_that_is_none_or_no_saving_is_named(rank):
    with pytest.raises(RltokError, match=f"between 1 and 16, the rank of a full one; got {rank}"):
        shorten_early_head(tiny_model(), rank)
