"""rltok.runs.memory: an update that does not fit names the micro-batch that would, and leaves everything as it was."""

import gc

import pytest
import torch
from runs import SETTINGS, as_options, small_config, write_text

from rltok.cli.main import main
from rltok.data import load_corpus
from rltok.data.batches import micro_batches
from rltok.errors import RltokError
from rltok.optim import make_optimizer
from rltok.ranks import Ranks
from rltok.runs import memory
from rltok.runs.memory import smaller_sizes, with_oom_advice
from rltok.runs.models import new_model
from rltok.step import train_step
from rltok.unet import AutoregressiveUNet

pytestmark = pytest.mark.usefixtures("shapes_unchecked")
CPU = torch.device("cpu")
WHOLE = {"train__sequences_per_update": 12, "train__micro_batch": 12, "train__training_bytes": 12 * 64}


def out_of_memory_above(rows, monkeypatch):
    """Forward passes of more rows raise torch's error. Returns the sizes that were tried."""
    tried, forward = [], AutoregressiveUNet.forward

    def limited(self, ids, **given):
        tried.append(len(ids))
        if len(ids) > rows:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return forward(self, ids, **given)

    monkeypatch.setattr(AutoregressiveUNet, "forward", limited)
    return tried


def update(config, tmp_path, steps_before=0):
    """(what the update does, model, optimizer), after some updates that went well."""
    corpus = load_corpus(write_text(tmp_path), config.data)
    model = new_model(config, CPU).train()
    optimizer = make_optimizer(model, config.train)
    for step in range(1, steps_before + 1):
        train_step(model, optimizer, micro_batches(corpus, config, step, CPU), config, step)
    batches = micro_batches(corpus, config, steps_before + 1, CPU)
    return lambda: with_oom_advice(train_step, model, optimizer, batches, config, steps_before + 1), model, optimizer


def test_one_of_several_processes_names_its_rows_and_tries_no_others(monkeypatch, tmp_path):
    """Its forward and backward passes are not its own alone: others would wait for exchanges that never come."""
    config = small_config(**WHOLE)
    model, ranks = new_model(config, CPU).train(), Ranks(1, 4)
    batches = micro_batches(load_corpus(write_text(tmp_path), config.data), config, 1, CPU, ranks)
    tried = out_of_memory_above(0, monkeypatch)
    with pytest.raises(RltokError) as error:
        with_oom_advice(train_step, model, make_optimizer(model, config.train), batches, config, 1, ranks)
    assert tried == [3] and str(error.value) == (
        "out of memory in process 1 of 4 at train.micro_batch=12, 3 rows of it here. Start more processes, or lower it (eq. (17)"
        " has the mean of fewer), data.sequence_length=64 or the size of the model."
    )


def test_of_a_policy_with_a_range_what_fits_at_its_highest_rate_is_named(monkeypatch, tmp_path):
    config = small_config(model__rule__lowest_rate=0.1, model__rule__highest_rate=0.5, train__seed=2, **WHOLE)
    go, model, _ = update(config, tmp_path)
    rates, forward = [], AutoregressiveUNet.forward

    def limited(self, ids, **given):
        rates.append(self.rule.rate)
        if len(ids) * self.rule.rate > 2.1:  # tokens
            raise torch.OutOfMemoryError("CUDA out of memory")
        return forward(self, ids, **given)

    monkeypatch.setattr(AutoregressiveUNet, "forward", limited)
    with pytest.raises(RltokError, match="; 4 rows fit, as tried. Set train.micro_batch=4;"):
        go()
    assert rates[0] not in (0.2, 0.5) and set(rates[1:]) == {0.5} and model.rule.rate == 0.2


@pytest.mark.parametrize(("limit", "named"), [(11, 6), (6, 6), (5, 4), (3, 3), (2, 2)])
def test_the_largest_micro_batch_that_fits_and_divides_the_update_is_named(limit, named, monkeypatch, tmp_path):
    go, *_ = update(small_config(**WHOLE), tmp_path)
    out_of_memory_above(limit, monkeypatch)
    with pytest.raises(RltokError) as error:
        go()
    assert str(error.value) == (
        f"out of memory at train.micro_batch=12; {named} rows fit, as tried. Set train.micro_batch={named};"
        " it changes the mean of eq. (17), so compare only runs of one size."
    )


def test_where_nothing_is_centred_one_row_may_be_left_and_the_update_is_the_same(monkeypatch, tmp_path):
    config = small_config(**WHOLE, objective__centring="none")
    go, *_ = update(config, tmp_path)
    out_of_memory_above(1, monkeypatch)
    with pytest.raises(RltokError, match="1 row fits, as tried. Set train.micro_batch=1; the update stays the same mean"):
        go()


def test_if_nothing_fits_the_error_says_what_else_to_lower(monkeypatch, tmp_path):
    go, *_ = update(small_config(**WHOLE), tmp_path)
    out_of_memory_above(1, monkeypatch)
    with pytest.raises(
        RltokError, match=r"smaller one \(6, 4, 3, 2 tried\). Lower data.sequence_length=64, or .*embedding_dim=16"
    ):
        go()


def test_of_several_draws_it_says_that_one_takes_the_least_memory(monkeypatch, tmp_path):
    go, *_ = update(small_config(**WHOLE, objective__draws=3), tmp_path)
    out_of_memory_above(4, monkeypatch)
    with pytest.raises(RltokError, match=r"micro_batch=12 with objective.draws=3, of which 1 takes the least memory; 4 rows fit"):
        go()


def test_sizes_are_divisors_largest_first_and_leave_two_rows_to_centre():
    assert smaller_sizes(small_config(**WHOLE)) == [6, 4, 3, 2]
    assert smaller_sizes(small_config(**WHOLE, model__rule__name="even")) == [6, 4, 3, 2, 1]


@pytest.mark.parametrize("steps_before", [0, 2])
def test_weights_optimizer_and_random_state_stay_and_gradients_go(steps_before, monkeypatch, tmp_path):
    go, model, optimizer = update(small_config(**WHOLE), tmp_path, steps_before)
    weights = {name: value.clone() for name, value in model.state_dict().items()}
    state = [value.clone() for entry in optimizer.state.values() for value in entry.values()]
    draws = torch.random.get_rng_state()
    tried = out_of_memory_above(4, monkeypatch)
    with pytest.raises(RltokError):
        go()
    assert tried == [12, 6, 4, 4]  # the size that fits is tried twice: from the second micro-batch on there are gradients
    assert all(torch.equal(value, weights[name]) for name, value in model.state_dict().items())
    after = [value for entry in optimizer.state.values() for value in entry.values()]
    assert len(after) == len(state) and all(map(torch.equal, after, state))
    assert torch.equal(torch.random.get_rng_state(), draws)
    assert all(parameter.grad is None for parameter in model.parameters())


def test_what_the_failed_update_held_is_free_before_anything_is_tried(monkeypatch, tmp_path):
    _, model, _ = update(small_config(**WHOLE), tmp_path)
    alive, largest = [], memory.largest_fitting

    class Held(torch.Tensor):
        pass

    def failing(*_):
        held = torch.zeros(1).as_subclass(Held)
        raise torch.OutOfMemoryError(f"out of memory beside {held.shape}")

    def watched(*given):
        alive.extend(thing for thing in gc.get_objects() if type(thing) is Held)
        return largest(*given)

    monkeypatch.setattr(memory, "largest_fitting", watched)
    config = small_config(**WHOLE)
    batches = micro_batches(load_corpus(write_text(tmp_path), config.data), config, 1, CPU)
    with pytest.raises(RltokError):
        with_oom_advice(failing, model, make_optimizer(model, config.train), batches, config, 1)
    assert alive == []


def test_the_command_says_it_in_one_line_with_exit_code_2(monkeypatch, tmp_path, capsys):
    text = write_text(tmp_path)
    settings = SETTINGS | {"train.micro_batch": 4, "train.sequences_per_update": 4}
    forward = AutoregressiveUNet.forward

    def limited(self, ids, **given):
        if self.training and len(ids) > 2:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return forward(self, ids, **given)

    monkeypatch.setattr(AutoregressiveUNet, "forward", limited)
    command = ["train", "--preset", "tiny", *as_options(settings), "--data", text, "--out", str(tmp_path / "run"), "--json"]
    assert main(command) == 2
    output = capsys.readouterr().err.splitlines()
    assert len(output) == 1 and output[0].startswith("rltok: out of memory at train.micro_batch=4; 2 rows fit, as tried.")
