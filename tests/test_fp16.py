"""fp16 with a gradient scaler, computed on the CPU: updates near those of fp32, overflows that skip an update, and resuming.

On the CPU `rltok train` refuses fp16; tests call what stands behind that check.
"""

import json
import math
from types import SimpleNamespace

import pytest
import torch
from helpers import tiny_model
from runs import UPDATES, json_lines, small_config, write_text
from test_step import batches_of, config_for

import rltok
from rltok import device
from rltok.config import with_settings
from rltok.errors import RltokError
from rltok.kernels import backends
from rltok.optim import make_optimizer
from rltok.runs import training
from rltok.runs.checkpoint import checkpoints
from rltok.step import accumulate_gradient, train_step
from rltok.system.digest import with_digest

pytestmark = pytest.mark.usefixtures("shapes_unchecked")
CPU, CUDA = torch.device("cpu"), torch.device("cuda", 0)


def fp16(config):
    return with_settings(config, {"train.precision": "fp16"})


def scaler_of(scale=65536.0, **more):
    return torch.amp.GradScaler("cpu", init_scale=scale, **more)


def everything(model, optimizer):
    """Weights and state of the optimizer, copied."""
    moments = [value for state in optimizer.state.values() for value in state.values()]
    return [tensor.detach().clone() for tensor in (*model.parameters(), *moments)]


def same(before, after):
    return len(before) == len(after) and all(torch.equal(a, b) for a, b in zip(before, after, strict=True))


# One update


@pytest.mark.parametrize("rule", ["learned", "hnet"])
def test_twenty_updates_in_fp16_lose_as_much_as_in_fp32(rule):
    losses = {}
    for precision in ("fp32", "fp16"):
        model, config = tiny_model(rule), with_settings(config_for(rule), {"train.precision": precision})
        optimizer, scaler = make_optimizer(model, config.train), device.gradient_scaler(config, CPU)
        steps = [train_step(model, optimizer, batches_of(), config, step, scaler=scaler) for step in range(1, 21)]
        losses[precision] = [step.to_dict()["nll"] for step in steps]
        assert not any(step.skipped for step in steps)
    assert losses["fp16"] != losses["fp32"]
    assert losses["fp32"][-1] < losses["fp32"][0] - 0.1
    assert losses["fp16"] == pytest.approx(losses["fp32"], abs=0.02)


def test_scaled_gradients_are_those_of_fp32_and_so_are_their_norm_and_what_clipping_leaves():
    grads = {}
    for precision in ("fp32", "fp16"):
        model, config = tiny_model(), with_settings(config_for(clip_norm=0.05), {"train.precision": precision})
        scaler = device.gradient_scaler(config, CPU)
        metrics = train_step(model, make_optimizer(model, config.train), batches_of(), config, 1, scaler=scaler)
        whole = torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])
        grads[precision] = (float(metrics.grad_norm), float(metrics.grad_norm_rule), whole)
    for ours, theirs in zip(grads["fp16"][:2], grads["fp32"][:2], strict=True):
        assert ours == pytest.approx(theirs, rel=0.01)
    assert float(grads["fp16"][2].norm()) == pytest.approx(0.05, rel=1e-3)
    assert float((grads["fp16"][2] - grads["fp32"][2]).norm()) < 0.02 * 0.05


def test_without_its_scale_fp16_loses_gradients_that_it_keeps_with_it():
    """A loss that is small because an update has many bytes: its gradients lie below the smallest number of fp16."""

    def lost(scaler):
        model, config = tiny_model("even"), fp16(config_for("even"))
        (batch,) = batches_of(LENGTHS[:1])
        accumulate_gradient(model, batch, config, scaler.scale(torch.tensor(1e-6)))
        return float((model.down_blocks[0].out.weight.grad == 0).float().mean())

    assert lost(torch.amp.GradScaler(enabled=False)) > 0.5 and lost(scaler_of()) < 0.01


LENGTHS = ((7, 12), (3, 9))


@pytest.mark.parametrize("rule", ["learned", "dynamic_pooling", "hnet"])
def test_losses_advantages_and_the_policy_stay_in_fp32(rule):
    model, config = tiny_model(rule), fp16(config_for(rule))
    seen = []
    model.down_blocks[0].out.register_forward_hook(lambda module, given, made: seen.append(made.dtype))
    out, losses, advantages = accumulate_gradient(model, batches_of()[0], config, 1.0)
    assert seen == [torch.float16]
    parts = [out.nll, out.early_nll, out.aux_loss, advantages, losses.total(**config.objective.weights), *vars(losses).values()]
    parts += [each for each in (out.boundary_logits, out.soft) if each is not None]
    assert {part.dtype for part in parts} == {torch.float32}
    assert all(p.grad.dtype == torch.float32 for p in model.parameters() if p.grad is not None)


# Overflows


def planting(model, value):
    """A hook of `train_step` that puts a value into the gradient after the first micro-batch."""
    return lambda: model.mid_blocks[1].out.weight.grad[0].fill_(value)


@pytest.mark.parametrize("value", [math.inf, math.nan])
def test_a_gradient_that_overflows_skips_one_update_and_halves_the_scale(value):
    model, config, scaler = tiny_model(), fp16(config_for()), scaler_of(1024.0)
    optimizer = make_optimizer(model, config.train)
    train_step(model, optimizer, batches_of(), config, 1, scaler=scaler)
    before = everything(model, optimizer)
    skipped = train_step(model, optimizer, batches_of(), config, 2, planting(model, value), scaler=scaler)
    assert skipped.skipped and same(before, everything(model, optimizer)) and scaler.get_scale() == 512.0
    line = skipped.to_dict()
    assert line["grad_norm"] is None and line["grad_norm_rule"] is None and math.isfinite(line["nll"])
    after = train_step(model, optimizer, batches_of(), config, 3, scaler=scaler)
    assert not after.skipped and not same(before, everything(model, optimizer)) and scaler.get_scale() == 512.0


def test_a_scale_that_is_too_large_comes_down_by_itself():
    model, config, scaler = tiny_model(), fp16(config_for()), scaler_of(2.0**30)
    optimizer = make_optimizer(model, config.train)
    skipped = [train_step(model, optimizer, batches_of(), config, step, scaler=scaler).skipped for step in range(1, 25)]
    assert skipped[0] and 5 < sum(skipped) < 20
    assert scaler.get_scale() == 2.0 ** (30 - sum(skipped))


def test_a_scale_that_fell_below_1_is_an_error_that_names_the_update_and_changes_no_weight():
    model, config, scaler = tiny_model(), fp16(config_for()), scaler_of(2.0)
    optimizer = make_optimizer(model, config.train)
    before = everything(model, optimizer)
    assert train_step(model, optimizer, batches_of(), config, 6, planting(model, math.inf), scaler=scaler).skipped
    with pytest.raises(RltokError, match=r"^update 7: gradients overflow fp16 even at a loss scale of 1\. .*precision to fp32"):
        train_step(model, optimizer, batches_of(), config, 7, planting(model, math.inf), scaler=scaler)
    assert same(before, everything(model, optimizer))


def test_a_loss_that_is_not_finite_is_an_error_whatever_the_scale():
    model, config, scaler = tiny_model(), fp16(config_for()), scaler_of()
    with torch.no_grad():
        model.output_norm.weight[0] = math.nan
    before = everything(model, optimizer := make_optimizer(model, config.train))
    with pytest.raises(RltokError, match=r"^update 7: loss nan.*not finite.*Lower train\.learning_rate"):
        train_step(model, optimizer, batches_of(), config, 7, scaler=scaler)
    assert all(torch.equal(a.nan_to_num(), b.nan_to_num()) for a, b in zip(before, everything(model, optimizer), strict=True))


# A run


@pytest.fixture
def text(tmp_path):
    return write_text(tmp_path)


@pytest.fixture
def on_the_cpu(monkeypatch):
    """`rltok.train` without its check, and a scale that overflows at first and then grows again every other update."""
    monkeypatch.setattr(training, "backend_of", lambda config, where: ("plain", "for a test"))
    scaler = {"scale": 2.0**24, "growth_interval": 2}
    monkeypatch.setattr(training, "gradient_scaler", lambda config, where: scaler_of(**scaler))


def interrupt(monkeypatch, call):
    """Stop training before the `call`-th update."""
    original, calls = training.train_step, []

    def interrupted(*args, **kwargs):
        calls.append(1)
        if len(calls) == call:
            raise KeyboardInterrupt
        return original(*args, **kwargs)

    return monkeypatch.context(), interrupted


@pytest.mark.usefixtures("short_snapshots", "on_the_cpu")
def test_a_run_counts_skipped_updates_and_goes_on_as_if_never_stopped(text, tmp_path, monkeypatch, capsys):
    config = fp16(small_config(train__keep_checkpoints=9))
    record = rltok.train(config, text, tmp_path / "whole", progress=True)
    assert "fp16 with a gradient scaler: an update whose gradient overflows is skipped" in capsys.readouterr().err
    counts = [line["skipped"] for line in json_lines(tmp_path / "whole/metrics.jsonl") if line["split"] == "train"]
    assert 0 < counts[0] <= counts[-1] == record.skipped < UPDATES and record.precision == "fp16 autocast"
    place, interrupted = interrupt(monkeypatch, 6)
    with place as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(training, "train_step", interrupted)
        rltok.train(config, text, tmp_path / "run")
    again = rltok.train(config, text, tmp_path / "run", resume=True)
    for name in ("metrics.jsonl", "snapshots.jsonl"):
        assert json_lines(tmp_path / "run" / name) == json_lines(tmp_path / "whole" / name)
    states = [[state_of(each) for each in checkpoints(tmp_path / run)] for run in ("run", "whole")]
    assert states[0] == states[1] and len({state["scaler"]["scale"] for state in states[0]}) > 1
    assert states[0][-1]["skipped"] == again.skipped == record.skipped


def test_every_process_takes_scale_and_count_of_the_first():
    scaler, first = torch.amp.GradScaler("cpu"), torch.amp.GradScaler("cpu", init_scale=8.0)
    ranks = SimpleNamespace(count=1, same=lambda state: (7, 70, 14, 1.5, 3, True, first.state_dict()))
    run = training.Run(small_config(), None, None, None, None, None, None, scaler, ranks)
    run.together()
    assert (run.step, run.skipped, run.trains, run.scaler.get_scale()) == (7, 3, True, 8.0)


def state_of(checkpoint):
    state = json.loads((checkpoint / "state.json").read_text())
    return {key: state[key] for key in ("step", "skipped", "scaler", "files")}


@pytest.mark.usefixtures("short_snapshots")
def test_other_precisions_leave_no_word_of_it(text, tmp_path):
    record = rltok.train(small_config(train__precision="bf16"), text, tmp_path / "run")
    assert record.skipped is None
    assert not any("skipped" in line for line in json_lines(tmp_path / "run/metrics.jsonl"))
    states = [json.loads((each / "state.json").read_text()) for each in checkpoints(tmp_path / "run")]
    assert states and not any({"skipped", "scaler"} & state.keys() for state in states)


@pytest.mark.usefixtures("short_snapshots", "on_the_cpu")
@pytest.mark.parametrize(
    ("damage", "said"),
    [
        ({"skipped": -1}, "skipped must lie between 0 and"), ({"skipped": 1e9}, "skipped must lie between"),
        ({"scaler": None}, "scaler must hold scale, "), ({"scaler": {"scale": 1.0}}, "scaler must hold scale, "),
    ],
)  # fmt: skip
def test_a_scaler_that_is_none_is_an_error_in_one_line(damage, said, text, tmp_path):
    config = fp16(small_config())
    rltok.train(config, text, tmp_path / "run")
    state = checkpoints(tmp_path / "run")[-1] / "state.json"
    state.write_text(json.dumps(with_digest(json.loads(state.read_text()) | damage)))
    with pytest.raises(RltokError, match=said):
        rltok.train(config, text, tmp_path / "run", resume=True)


def test_a_checkpoint_of_fp32_goes_on_in_fp16_and_one_of_fp16_in_fp32(text, tmp_path, monkeypatch, short_snapshots):
    """As where `auto` finds another card: the settings, and so their digest, stay the same."""
    for first, then in ((torch.float32, torch.float16), (torch.float16, torch.float32)):
        out, config = tmp_path / str(first), small_config()
        place, interrupted = interrupt(monkeypatch, 5)
        with place as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(device, "precision_of", lambda *_, dtype=first: dtype)
            patch.setattr(training, "backend_of", lambda *_: ("plain", "for a test"))
            patch.setattr(training, "train_step", interrupted)
            rltok.train(config, text, out)
        with monkeypatch.context() as patch:
            for module in (device, training):
                patch.setattr(module, "precision_of", lambda *_, dtype=then: dtype)
            patch.setattr(training, "backend_of", lambda *_: ("plain", "for a test"))
            record = rltok.train(config, text, out, resume=True)
        assert record.skipped == (0 if then == torch.float16 else None)


# Which precision


def test_fp16_on_a_cpu_is_one_line_before_training(text, tmp_path):
    with pytest.raises(RltokError, match=r"^train\.precision='fp16' needs a CUDA card; the device is cpu\. Set it to auto, fp32"):
        rltok.train(small_config(train__precision="fp16"), text, tmp_path / "run", device="cpu")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(("bf16", "wanted"), [(True, torch.bfloat16), (False, torch.float16)])
def test_auto_takes_bf16_on_a_card_that_has_it_and_fp16_on_one_that_has_not(bf16, wanted, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: bf16 or including_emulation)
    assert device.precision_of(small_config(), CUDA) == wanted
    assert device.precision_of(small_config(), CPU) == torch.float32
    for name, dtype in device.DTYPES.items():
        assert device.precision_of(small_config(train__precision=name), CUDA) == dtype


def test_an_older_card_and_fp16_take_the_plain_path(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: False)
    monkeypatch.setattr(backends, "_installed", lambda: True)
    monkeypatch.setattr(backends, "_card_problem", lambda index: "Tesla T4 has compute capability 7.5, and bf16 needs 8.0")
    assert device.backend_of(small_config(), CUDA)[0] == "plain"
    monkeypatch.setattr(backends, "_card_problem", lambda index: None)
    assert device.backend_of(fp16(small_config()), CUDA) == ("plain", "forward passes are not in bf16")
