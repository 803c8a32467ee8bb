"""rltok.evidence.positions: means by place against loops over every row and byte."""

import numpy as np
import pytest
import torch
from helpers import tiny_model
from runs import TEXT

from rltok.data.documents import Document
from rltok.data.rows import cut_documents
from rltok.errors import RltokError
from rltok.evidence.positions import by_position
from rltok.rng import row_uniforms

GAMMA = 0.9


@pytest.fixture(scope="module")
def rows():
    """Three full rows and one that ends early."""
    return cut_documents([Document(TEXT[:150], "", "")], 40, "windows", name="text")


@pytest.mark.parametrize("bins", [5, 7, 40, 64])
def test_means_are_those_of_loops(rows, bins):
    model = tiny_model(dtype=torch.float64)
    actual = by_position(model, rows, gamma=GAMMA, seed=3, batch=3, max_rows=99, bins=bins)
    bins = min(bins, 40)
    sums, returns, counts = np.zeros(bins), np.zeros(bins), np.zeros(bins)
    model.eval()
    for number in range(len(rows)):
        out = model(rows.ids([number]), uniforms=row_uniforms(3, 0, [number], 40))
        reward = (out.early_nll - out.nll)[0].tolist()
        scored = out.scored[0].tolist()
        for i in range(40):
            if scored[i]:
                part = i * bins // 40
                counts[part] += 1
                sums[part] += reward[i]
                returns[part] += sum(GAMMA ** (j - i) * reward[j] for j in range(i, 40) if scored[j])
    assert actual["rewards"] == pytest.approx(sums / counts, rel=1e-5)
    assert actual["returns"] == pytest.approx(returns / counts, rel=1e-5)
    assert actual["start"][0] == 0 and all((start * bins) // 40 == part for part, start in enumerate(actual["start"]))
    assert all(part == 0 or ((start - 1) * bins) // 40 == part - 1 for part, start in enumerate(actual["start"]))


def test_the_batch_does_not_matter_and_fewer_rows_may_be_taken(rows):
    model = tiny_model()
    one = by_position(model, rows, gamma=GAMMA, seed=0, batch=1, max_rows=2, bins=4)
    two = by_position(model, rows, gamma=GAMMA, seed=0, batch=2, max_rows=2, bins=4)
    assert one["returns"] == pytest.approx(two["returns"], rel=1e-4)
    assert model.training


def test_no_rows_are_an_error(rows):
    with pytest.raises(RltokError, match="no rows to average over"):
        by_position(tiny_model(), rows.subset(slice(0, 0)), gamma=GAMMA, seed=0, batch=1, max_rows=4)
