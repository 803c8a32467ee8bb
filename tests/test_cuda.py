"""The same numbers on a CUDA card. Skipped without one; the logic itself is tested on the CPU everywhere else."""

import warnings

import pytest
import torch
from kernel_help import waits

from rltok import train
from rltok.config import with_settings
from rltok.device import gradient_scaler
from rltok.fast import graphs
from rltok.kernels import backends
from rltok.optim import make_optimizer
from rltok.policy import sample_boundaries
from rltok.presets import preset
from rltok.rng import row_uniforms
from rltok.runs import training
from rltok.runs.models import new_model
from rltok.speed.kernel_times import compilations
from rltok.step import train_step
from rltok.vocab import BOS, PAD

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA card")

TINY = {"model.embedding_dim": 32, "model.window": 8, "data.sequence_length": 200, "train.training_bytes": 10_000}


def ragged_ids(rows: int, length: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(3)
    ids = torch.randint(0, 256, (rows, length + 1), generator=generator)
    ids[:, 0] = BOS
    for row, end in enumerate(torch.randint(1, length + 1, (rows,), generator=generator).tolist()):
        ids[row, end + 1 :] = PAD
    return ids


@pytest.mark.parametrize("softcap", [None, 50.0])
def test_cuda_gives_the_nll_and_boundaries_of_the_cpu(softcap):
    config = with_settings(preset("tiny"), TINY | {"model.attention_softcap": softcap})
    ids, model = ragged_ids(6, 200), new_model(config, torch.device("cpu"))
    uniforms = row_uniforms(0, 1, range(6), 200)
    here = model(ids, uniforms=uniforms)
    there = model.cuda()(ids.cuda(), uniforms=uniforms.cuda())
    # fp32 sums in another order; with 1,200 draws none lands within rounding of its threshold at this seed
    assert torch.equal(here.boundaries, there.boundaries.cpu())
    torch.testing.assert_close(there.nll.cpu(), here.nll, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("lags", [0, 1, 7, 8])
def test_both_samplers_draw_the_same_bits_on_cuda(lags):
    generator = torch.Generator("cuda").manual_seed(lags)
    terms = 20 * torch.randn(4, 1000, lags + 1, generator=generator, device="cuda")
    uniforms = torch.rand(4, 1000, generator=generator, device="cuda")
    settings = {"bias": -1.4, "scale": 16.0, "softcap": 6.0}
    plain, sweeps = (sample_boundaries(terms, uniforms, **settings, backend=backend) for backend in ("plain", "sweeps"))
    assert torch.equal(plain, sweeps)
    assert 0.02 < float(plain.float().mean()) < 0.98


@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
def test_a_cuda_training_step_lowers_the_loss_on_its_own_batch(precision):
    config = with_settings(preset("tiny"), TINY | {"train.precision": precision, "train.warmup_fraction": 0.0})
    device = torch.device("cuda")
    model = new_model(config, device)
    optimizer, scaler = make_optimizer(model, config.train), gradient_scaler(config, device)
    batch = [(ragged_ids(6, 200).cuda(), row_uniforms(0, 1, range(6), 200).cuda())]
    losses = [train_step(model, optimizer, batch, config, step=1, scaler=scaler).to_dict()["nll"] for _ in range(20)]
    assert losses[-1] < losses[0] - 0.5
    assert all(parameter.dtype == torch.float32 for parameter in model.parameters())


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_step_waits_for_the_card_once_a_micro_batch_and_twice_an_update(precision):
    config = with_settings(preset("tiny"), TINY | {"train.precision": precision})
    device = torch.device("cuda")
    model = new_model(config, device)
    optimizer = make_optimizer(model, config.train)
    batch = (ragged_ids(6, 200).cuda(), row_uniforms(0, 1, range(6), 200).cuda())
    train_step(model, optimizer, [batch], config, step=1)
    for count in (1, 2, 3):
        with waits() as waiting:
            train_step(model, optimizer, [batch] * count, config, step=1)
        assert len(waiting) == 2 + count * (
            1 if precision == "bf16" else 1 + config.model.mid_layers
        )  # plain attention waits, too


def test_updates_through_graphs_are_those_without_and_wait_for_no_other_stream():
    config = with_settings(
        preset("tiny"), TINY | {"train.precision": "bf16", "train.micro_batch": 6, "train.sequences_per_update": 18}
    )
    device, batches = torch.device("cuda"), []
    for number, rows in enumerate((6, 6, 3)):
        batches.append((ragged_ids(rows, 200).cuda(), row_uniforms(0, number, range(rows), 200).cuda()))
    made, told = [], torch.is_warn_always_enabled()
    torch.set_warn_always(True)
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for allowed in (True, False):
                torch.manual_seed(0)
                model = new_model(config, device)
                optimizer = make_optimizer(model, config.train)
                with backends.graphs(allowed):
                    losses = [train_step(model, optimizer, batches, config, step=1).to_dict()["nll"] for _ in range(3)]
                made.append((losses, {name: weight.grad.clone() for name, weight in model.named_parameters()}))
                assert graphs.has(model) == allowed
    finally:
        torch.set_warn_always(told)
    assert [
        str(each.message) for each in caught if "AccumulateGrad" in str(each.message) or "CUDA graphs" in str(each.message)
    ] == []
    assert made[0][0] == pytest.approx(made[1][0], abs=1e-3)
    for name, gradient in made[0][1].items():
        assert (made[1][1][name] - gradient).norm() < 0.02 * gradient.norm() + 1e-6, name


def test_a_new_variant_of_a_kernel_is_counted_as_a_compilation():
    def draw(lags):
        terms = torch.zeros(1, 5, lags + 1, device="cuda")
        sample_boundaries(terms, torch.full((1, 5), 0.5, device="cuda"), bias=0.0, scale=1.0, softcap=None, backend="triton")

    draw(4)
    before = compilations()
    draw(4)
    assert compilations() == before
    draw(6)
    assert compilations() > before


def test_training_goes_on_from_a_checkpoint_on_a_card(tmp_path, monkeypatch):
    settings = {"train.checkpoint_every": 2, "train.evaluate_every": 2, "train.log_every": 1, "data.sequence_length": 64}
    config = with_settings(preset("tiny"), TINY | settings | {"train.training_bytes": 6 * 16 * 64})
    once = train(config, "sample", tmp_path / "once", device="cuda")
    assert once.updates == 6 and once.backend == "triton"
    original = training.train_step

    def interrupted(*arguments, **more):
        if arguments[4] == 4:
            raise KeyboardInterrupt
        return original(*arguments, **more)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(training, "train_step", interrupted)
        train(config, "sample", tmp_path / "twice", device="cuda")
    twice = train(config, "sample", tmp_path / "twice", resume=True, device="cuda")
    assert [point["step"] for point in twice.curve] == [1, 2, 3, 4, 5, 6]
    losses = [[point["nll"] for point in record.curve] for record in (once, twice)]
    assert losses[0] == pytest.approx(losses[1], abs=1e-3)  # a card adds up in another order from run to run
