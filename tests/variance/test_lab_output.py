"""`rltok variance --out`: what is there stays unless it is an earlier record, and a record is whole or absent."""

import json
import os

import pytest
import torch
from helpers import ragged_ids, tiny_model
from runs import TEXT

from rltok.cli.main import main
from rltok.errors import RltokError
from rltok.system.files import write_record
from rltok.variance.exact import enumerate_boundaries, enumerate_row, exact_gradient, expected_loss, influence, joint_moments
from rltok.variance.gradients import share
from rltok.variance.laboratory import Sizes, measure_gradients
from rltok.vocab import BOS, PAD

pytestmark = pytest.mark.usefixtures("shapes_unchecked")


def out_refused(tmp_path, capsys, out, monkeypatch):
    """The one line about `out`; nothing may be measured."""
    monkeypatch.setattr("rltok.cli.variance.measure_ladder", lambda *_, **__: pytest.fail("measured"))
    (tmp_path / "text.txt").write_bytes(TEXT)
    assert main(["variance", "--data", str(tmp_path / "text.txt"), "--out", str(out)]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    return lines[0]


@pytest.mark.parametrize("content", ["my own text", '{"objective": {}}', '["what"]', ""])
def test_a_file_that_is_no_record_stays(content, tmp_path, capsys, monkeypatch):
    mine = tmp_path / "mine.json"
    mine.write_text(content)
    assert "is no record of this command, so it stays" in out_refused(tmp_path, capsys, mine, monkeypatch)
    assert mine.read_text() == content


def test_an_empty_name_and_a_pipe_are_refused(tmp_path, capsys, monkeypatch):
    assert "--out is empty" in out_refused(tmp_path, capsys, "", monkeypatch)
    os.mkfifo(tmp_path / "pipe")
    assert "no ordinary file" in out_refused(tmp_path, capsys, tmp_path / "pipe", monkeypatch)


def test_a_write_that_fails_leaves_the_earlier_record_and_shows_the_new_one(tmp_path, capsys, monkeypatch):
    path = tmp_path / "record.json"
    path.write_text('{"what": "variance ladder: earlier"}')

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("rltok.system.files.os.replace", full)
    with pytest.raises(RltokError, match="cannot write .*No space left.*the record stands above"):
        write_record(path, {"what": "variance ladder: new"})
    assert json.loads(path.read_text())["what"] == "variance ladder: earlier"
    assert json.loads(capsys.readouterr().out)["what"] == "variance ladder: new"


def test_weights_that_are_not_finite_are_named_before_the_work_is_done():
    model, ids = tiny_model(), ragged_ids((8, 8))
    with torch.no_grad():
        model.rule.project.weight.fill_(float("nan"))
    with pytest.raises(RltokError, match="not finite.*lower train.learning_rate"):
        measure_gradients(model, [ids] * 4, ["naive"], Sizes(2, 4, 2, 2), seed=0)


def test_batches_that_are_not_what_the_sizes_say_are_refused():
    model, ids = tiny_model(), ragged_ids((8, 8))
    for batches, sizes in (([ids] * 3, Sizes(2, 4, 2, 2)), ([ids] * 4, Sizes(3, 4, 2, 2)), ([], Sizes(2, 4, 2, 2))):
        with pytest.raises(RltokError, match="the sizes ask for 4 batches of"):
            measure_gradients(model, batches, ["naive"], sizes, seed=0)


BAD_IDS = {
    "padding inside": torch.tensor([[BOS, 65, PAD, 66]]),
    "padding first": torch.tensor([[PAD, 65, 66]]),
    "no BOS": torch.tensor([[65, 65, 66]]),
    "BOS as a byte": torch.tensor([[BOS, 65, BOS]]),
    "nothing to score": torch.tensor([[BOS, PAD, PAD]]),
    "no byte": torch.tensor([[BOS]]),
    "one dimension": torch.tensor([BOS, 65, 66]),
    "float": torch.tensor([[256.0, 65.0, 66.0]]),
    "an id that there is not": torch.tensor([[BOS, 300]]),
    "a list": [[BOS, 65]],
    "no row": torch.zeros(0, 4, dtype=torch.int64),
}


@pytest.mark.parametrize("kind", BAD_IDS)
def test_every_oracle_refuses_rows_that_the_model_refuses(kind):
    model, ids = tiny_model(dtype=torch.float64), BAD_IDS[kind]
    for oracle in (share, enumerate_row, expected_loss, exact_gradient, influence, lambda m, x: joint_moments(m, x, ["naive"])):
        with pytest.raises(RltokError):
            oracle(model, ids)


def test_oracles_differentiate_even_where_gradients_are_switched_off_and_want_a_name():
    model, ids = tiny_model(dtype=torch.float64), ragged_ids((4,))
    expected = influence(model, ids)
    with torch.no_grad():
        assert share(model, ids).terms.requires_grad
    assert expected.abs().max() > 0
    with pytest.raises(RltokError, match="names is empty"):
        joint_moments(model, ids, [])


@pytest.mark.parametrize("n", [2.5, "3", 10**9])
def test_a_length_that_is_no_number_or_endless_is_one_line(n):
    with pytest.raises(RltokError, match="free positions|at least 1 position"):
        enumerate_boundaries(n)
