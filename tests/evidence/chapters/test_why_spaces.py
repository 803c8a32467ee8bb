"""rltok.evidence.chapters.ch00_spaces: edits of one boundary against a loop over forward passes, enrichment against a sum."""

import json
import math

import matplotlib
import pytest
import torch
from paths import ROOT

matplotlib.use("agg")

import rltok  # noqa: E402
from rltok.config import from_dict, with_settings  # noqa: E402
from rltok.evidence.chapters import ch00_spaces  # noqa: E402
from rltok.presets import preset  # noqa: E402
from rltok.vocab import BOS, encode  # noqa: E402

RESULTS = ROOT / "notebooks" / "results"
TEXTS = ("to be or not to be, that is it", "a cat sat on the mat by the sea")


@pytest.fixture(scope="module")
def small():
    """A fresh network in float64, two rows and boundaries for them."""
    torch.manual_seed(0)
    sizes = {"model.embedding_dim": 16, "model.num_heads": 2, "model.mid_layers": 1}
    model = rltok.AutoregressiveUNet(with_settings(preset("tiny"), sizes).model).double()
    with torch.no_grad():
        for weights in model.parameters():
            weights.add_(torch.randn_like(weights), alpha=0.2)
    ids = torch.stack([torch.cat([torch.tensor([BOS]), torch.from_numpy(encode(text[:30]))]) for text in TEXTS])
    boundaries = torch.rand(2, 30, generator=torch.Generator().manual_seed(1)) < 0.3
    boundaries[:, 0] = True
    return model.eval(), ids, boundaries


@pytest.fixture(scope="module")
def record():
    """What scripts/measure/measure_spaces.py wrote."""
    return json.loads((RESULTS / "spaces.json").read_text())


@pytest.mark.parametrize("kind", ["space", "letter"])
def test_places_are_bytes_of_the_class_before_a_letter_with_room_after_them(small, kind):
    _, ids, _ = small
    found = ch00_spaces.places_after(ids, kind, 4, most=1000)
    expected = []
    for row, text in enumerate(TEXTS):
        for i in range(2, 27):  # position i holds text[i - 1]; 4 predictions, at i to i + 3, fit into 30
            byte, following, before = text[i - 1], text[i], text[i - 2]
            fits = byte == " " if kind == "space" else byte.isalpha() and before != " "
            if fits and following.isalpha():
                expected.append([row, i])
    assert found.tolist() == expected


@pytest.mark.parametrize("shift", [0, -1, 1])
def test_the_change_of_loss_is_that_of_two_forward_passes_with_one_boundary_edited(small, shift):
    model, ids, boundaries = small
    places = ch00_spaces.places_after(ids, "space", 4, most=5)
    found = ch00_spaces.change_of_loss(model, ids, boundaries, places, 4, shift, batch=2)
    for (row, place), changes in zip(places.tolist(), found, strict=True):
        bits = boundaries[row].tolist()
        kept = [bit or i == place for i, bit in enumerate(bits)]
        edited = [bit and i != place for i, bit in enumerate(bits)]
        if shift:
            kept[place + shift], edited[place + shift] = False, True
        with torch.no_grad():
            one, other = (model(ids[row][None], boundaries=torch.tensor([string])).nll[0] for string in (kept, edited))
        assert torch.allclose(changes, (other - one)[place : place + 4], atol=1e-12)
        assert torch.equal(one[: place + min(shift, 0)], other[: place + min(shift, 0)])


def test_intervals_take_rows_as_units():
    changes = torch.tensor([[1.0], [3.0], [8.0]])
    mean, half = ch00_spaces.by_distance(changes, torch.tensor([[0, 5], [0, 9], [4, 2]]))
    assert mean.item() == 4.0
    error = math.sqrt(2 / 1 * ((4 - 2 * 4) ** 2 + (8 - 4) ** 2)) / 3  # rows with sums 4 and 8, of 2 places and 1
    assert half.item() == pytest.approx(12.7062 * error, rel=1e-4)  # Student's t with one degree of freedom


def test_enrichment_is_the_ratio_of_two_means():
    surprise = torch.tensor([[9.0, 1.0, 4.0, 1.0]])
    counted = torch.tensor([[False, True, True, True]])  # the first, with 9 nats, is not
    assert ch00_spaces.enrichment(surprise, torch.tensor([[True, False, True, False]]), counted) == pytest.approx(4 / 2)
    assert ch00_spaces.enrichment(surprise, counted, counted) == 1.0


def test_the_stored_record_is_of_the_present_preset_and_of_both_networks(record):
    assert [one["rule"] for one in record["runs"]] == ["learned", "random_k"]
    for one in record["runs"]:
        sizes = ("data.sequence_length", "train.training_bytes", "train.sequences_per_update", "train.micro_batch")
        config = from_dict(one["config"])
        values = {name: getattr(getattr(config, name.split(".")[0]), name.split(".")[1]) for name in sizes}
        assert with_settings(preset("tiny"), values | {"model.rule.name": one["rule"]}).digest() == one["config_hash"]
        assert set(one["effects"]) == set(ch00_spaces.EDITS)


def test_the_figure_shows_every_edit_of_both_networks_with_its_interval(record):
    figure = ch00_spaces.effects_figure(record)
    for panel, one in zip(figure.axes, record["runs"], strict=True):
        drawn = {container.get_label(): container[0].get_ydata().tolist() for container in panel.containers}
        assert drawn == {name: curve["mean"] for name, curve in one["effects"].items()}
