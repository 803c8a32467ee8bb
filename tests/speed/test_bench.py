"""bench and its command: what a record holds, that the work repeats, and what is refused. Nothing here asserts a time."""

import json
import math
import statistics
from types import ModuleType, SimpleNamespace

import pytest
import torch
from runs import SETTINGS, small_config, write_text

from rltok.cli.bench import _split_lines
from rltok.cli.main import main
from rltok.config import with_settings
from rltok.data import load_corpus
from rltok.data.batches import micro_batches
from rltok.errors import RltokError
from rltok.flops import attention_flops_per_byte, flops_per_byte
from rltok.optim import make_optimizer
from rltok.runs.models import new_model
from rltok.speed import bench as bench_module
from rltok.speed import kernel_times
from rltok.speed.bench import Plan, bench, measure_arm, speeds
from rltok.speed.kernel_times import compilations, group_of
from rltok.speed.policy_cost import given_step, median_interval, policy_cost
from rltok.step import train_step
from rltok.system.files import write_json
from rltok.unet import AutoregressiveUNet

pytestmark = pytest.mark.usefixtures("shapes_unchecked")
CPU = torch.device("cpu")


@pytest.fixture(autouse=True, scope="module")  # of the module, or `record` below would be made without it
def small_product():
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(bench_module.PRODUCT_SIZE, "cpu", 64)
        yield


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return load_corpus(write_text(tmp_path_factory.mktemp("text")), small_config().data)


def command(tmp_path, *more):
    settings = [f"{key}={value}" for key, value in SETTINGS.items()]
    return ["bench", "--preset", "tiny", "--set", *settings, "--data", write_text(tmp_path), "--device", "cpu", *more]


@pytest.fixture(scope="module")
def record(corpus):
    return bench(small_config(), corpus, CPU, Plan(updates=4, plain_updates=2))


def test_a_record_names_the_measurement_and_everything_in_it_is_json(record):
    assert json.loads(json.dumps(record, allow_nan=False)) == record
    assert record["what"].startswith("rltok bench") and record["preset"] == "tiny"
    assert record["config_hash"] == small_config().digest()
    assert record["full"] is False  # fewer than 50 updates
    assert record["data"]["name"] == "text.txt" and record["device"].startswith("cpu")
    assert record["versions"].keys() >= {"python", "torch", "numpy", "rltok"}


def test_an_arm_keeps_every_update_and_its_median_is_of_bytes_over_seconds(record):
    for arm, updates in ((record["arm"], 4), (record["plain"], 2)):
        assert arm["updates"] == len(arm["seconds"]) == len(arm["bytes"]) == updates
        rates = [size / spent for size, spent in zip(arm["bytes"], arm["seconds"], strict=True)]
        assert arm["bytes_per_second"] == statistics.median(rates)
        low, high = arm["quartiles"]
        assert min(rates) <= low <= arm["bytes_per_second"] <= high <= max(rates)
        assert set(arm["bytes"]) <= set(range(3 * 64, 4 * 64 + 1))  # four rows, one of which may be short
        assert (arm["backend"], arm["micro_batch"], arm["peak_memory_bytes"]) == ("plain", 2, None)
        assert arm["compilations_after_warm_up"] == 0
    assert record["ratio"] == record["arm"]["bytes_per_second"] / record["plain"]["bytes_per_second"]


def test_flops_are_those_of_the_paper_at_the_tokens_counted_with_attention_beside_them(record):
    arm, config = record["arm"], small_config()
    without = flops_per_byte(config.model, arm["tokens_per_byte"])
    with_attention = without + attention_flops_per_byte(config.model, arm["tokens_per_byte"], 64)
    assert arm["flops_per_byte"] == {"without_attention": without, "with_attention": with_attention}
    assert arm["flops_per_second"]["with_attention"] == arm["bytes_per_second"] * with_attention
    assert arm["share_of_product"]["with_attention"] == pytest.approx(
        arm["bytes_per_second"] * with_attention / record["product"]["rate"]
    )
    assert arm["share_of_datasheet"] is None  # of a processor none is known


def test_on_a_known_card_the_share_is_of_its_datasheet(monkeypatch):
    monkeypatch.setattr(bench_module, "device_name", lambda device: "NVIDIA H100 80GB HBM3")
    monkeypatch.setattr(bench_module, "precision_of", lambda config, device: torch.bfloat16)
    numbers = speeds(small_config(), CPU, 0.2, [3.0, 1.0, 2.0], 1e12)
    assert numbers["share_of_datasheet"]["without_attention"] == 2.0 * flops_per_byte(small_config().model, 0.2) / 989.5e12


def test_the_time_of_an_update_is_split_into_groups_that_add_up(record):
    split = record["arm"]["time_split"]
    assert set(split["seconds"]) == {*kernel_times.GROUPS, "other"}
    assert sum(split["shares"].values()) == pytest.approx(1, abs=0.01)
    assert split["seconds"]["matrix products"] > 0 and split["seconds"]["loss heads"] > 0
    assert sum(split["other"].values()) == pytest.approx(split["seconds"]["other"], abs=1e-3)


@pytest.mark.parametrize(
    ("kernel", "group"),
    [
        ("_window_forward", "attention"), ("_row_causal_backward", "attention"), ("_norm_forward", "norms and elementwise"),
        ("_geglu_backward", "norms and elementwise"), ("_rope_forward", "norms and elementwise"),
        ("_scan_kernel", "boundary draw"), ("_nll_forward", "loss heads"), ("_segment_sum", "copies"),
        ("void cunn_SoftMaxForward<4, float, float, float, LogSoftMaxForwardEpilogue>(float*)", "loss heads"),
        ("void softmax_warp_forward<float, float, float, 8, false, false>(float*)", "attention"),
        ("nvjet_tst_128x256_64x4_2x1_v_bz_coopA_TNT", "matrix products"), ("sm90_xmma_gemm_bf16bf16_tn", "matrix products"),
        ("void cublasLt::splitKreduce_kernel<32, 16>", "matrix products"),
        ("void at::native::multi_tensor_apply_kernel<AdamFunctor>", "optimizer"),
        ("Memcpy HtoD (Pinned -> Device)", "copies"),
        ("void at::native::vectorized_elementwise_kernel<4, MulFunctor<float>>", "norms and elementwise"),
        ("void at::native::unrolled_elementwise_kernel<direct_copy_kernel_cuda>", "copies"),
        ("triton_tem_fused_flex_attention_0", "attention"), ("some_new_kernel", "other"),
    ],
)  # fmt: skip
def test_kernels_are_grouped_by_their_names(kernel, group):
    assert group_of(kernel) == group


def test_updates_leave_the_weights_alone_but_do_all_of_adamws_work(corpus):
    seen = []

    def guard(step, model, optimizer, batches, config, number):
        before = {name: value.clone() for name, value in model.named_parameters()}
        metrics = step(model, optimizer, batches, config, number)
        assert all(torch.equal(value, before[name]) for name, value in model.named_parameters())
        assert all(float(state["step"]) == len(seen) + 1 for state in optimizer.state.values())
        seen.append(float(metrics.grad_norm))
        return metrics

    still = with_settings(small_config(), {"train.warmup_fraction": 1.0, "train.warmup_start": 0.0})
    measure_arm(still, corpus, CPU, "plain", 2, guard, {"rate": 1.0})
    assert len(seen) == bench_module.WARM_UP + 2 + 1 and min(seen) > 0  # and the one that is profiled


def test_the_learning_rate_of_a_bench_is_0_whatever_the_preset_warms_up_from(corpus, monkeypatch):
    rates = []

    def step(*arguments, **more):
        metrics = train_step(*arguments, **more)
        rates.append(metrics.learning_rate)
        return metrics

    monkeypatch.setattr(bench_module, "train_step", step)
    bench(small_config(), corpus, CPU, Plan(updates=1))
    assert set(rates) == {0.0}


def test_plain_attention_takes_the_largest_micro_batch_that_gets_through(corpus, monkeypatch):
    forward = AutoregressiveUNet.forward

    def limited(self, ids, **given):
        if len(ids) > 2:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return forward(self, ids, **given)

    monkeypatch.setattr(AutoregressiveUNet, "forward", limited)
    config = small_config(train__micro_batch=4)
    arm = bench_module.plain_arm(config, corpus, CPU, 1, None, {"rate": 1.0})
    assert arm["micro_batch"] == 2
    with pytest.raises(RltokError, match="out of memory in plain PyTorch at 4 rows per forward pass.*--plain-updates 0"):
        bench_module.plain_arm(config, corpus, CPU, 1, 4, {"rate": 1.0})
    with pytest.raises(RltokError, match="out of memory at train.micro_batch=4; 2 rows fit"):
        bench(config, corpus, CPU, Plan(updates=1))


def test_the_given_arm_has_as_many_tokens_in_the_same_places_and_one_loss(corpus, monkeypatch):
    config, tokens = small_config(), {"learned": [], "given": []}
    original = AutoregressiveUNet.after_boundaries
    arm, order = [], []

    def counted(self, states, decided):
        tokens["given" if arm else "learned"].append(decided.boundaries.clone())
        return original(self, states, decided)

    monkeypatch.setattr(AutoregressiveUNet, "after_boundaries", counted)
    monkeypatch.setattr(
        "rltok.speed.policy_cost.train_step", lambda *given: (arm.clear(), order.append("learned"), train_step(*given))[-1]
    )
    monkeypatch.setattr(
        "rltok.speed.policy_cost.given_step", lambda *given: (arm.append(1), order.append("given"), given_step(*given))[-1]
    )
    still = with_settings(config, {"train.warmup_fraction": 1.0, "train.warmup_start": 0.0})
    measured = policy_cost(still, corpus, CPU, 5)
    assert len(tokens["learned"]) == len(tokens["given"]) == 2 * (2 + 5 * 4)  # two micro-batches; two pairs to warm up
    assert all(map(torch.equal, tokens["learned"], tokens["given"]))
    assert order == ["learned", "given", "given", "learned"] * 11
    assert measured["cost"] == statistics.median(repeat["cost"] for repeat in measured["repeats"])
    for repeat in measured["repeats"]:
        ratios = [learned / given for learned, given in zip(repeat["learned"], repeat["given"], strict=True)]
        assert len(ratios) == 4 and repeat["cost"] == pytest.approx(statistics.median(ratios) - 1)


def test_of_several_draws_the_given_arm_has_the_boundaries_of_the_one_that_trains(corpus, monkeypatch):
    seen = []

    def compared(model, optimizer, batches, given, config):
        ids, uniforms = batches[0]
        seen.append(torch.equal(model(ids, uniforms=uniforms[:, :64]).boundaries, given[0]))

    monkeypatch.setattr("rltok.speed.policy_cost.given_step", compared)
    policy_cost(small_config(objective__draws=2, train__warmup_fraction=1.0, train__warmup_start=0.0), corpus, CPU, 5)
    assert len(seen) == 22 and all(seen)


def test_the_given_step_is_the_mean_loss_with_given_boundaries_and_gives_the_policy_no_gradient(corpus):
    config = small_config()
    model = new_model(config, CPU).train()
    optimizer = make_optimizer(model, config.train)
    batches = micro_batches(corpus, config, 1, CPU)
    with torch.no_grad():
        outs = [model(ids, uniforms=uniforms) for ids, uniforms in batches]
    metrics = given_step(model, optimizer, batches, [out.boundaries for out in outs], config).to_dict()
    wanted = sum(float(out.nll.sum()) for out in outs) / sum(int(out.scored.sum()) for out in outs)
    assert metrics["nll"] == pytest.approx(wanted, rel=1e-5) and metrics["early_nll"] == 0 and metrics["policy_entropy"] is None
    assert all(parameter.grad is None for parameter in [*model.rule.parameters(), model.early_head.weight])


@pytest.mark.parametrize(("count", "ends"), [(5, (0, 4)), (8, (0, 7)), (20, (5, 14))])
def test_the_interval_of_a_median_is_two_of_the_values_by_their_order(count, ends):
    low, high, confidence = median_interval([float(value) for value in reversed(range(count))])
    assert (low, high) == ends
    inside = sum(math.comb(count, k) for k in range(ends[0] + 1, ends[1] + 1)) / 2**count
    assert confidence == pytest.approx(inside)


def test_compilations_count_the_variants_of_every_kernel_once_through_its_wrappers(monkeypatch):
    before = compilations()
    kernel = SimpleNamespace(device_caches={0: ({"a": 1, "b": 2}, {}), 1: ({"a": 1}, {})})
    module = ModuleType("rltok.kernels.made_up")
    module.kernel, module.tuned, module.number = kernel, SimpleNamespace(fn=SimpleNamespace(fn=kernel)), 3
    monkeypatch.setitem(kernel_times.sys.modules, "rltok.kernels.made_up", module)
    assert compilations() == before + 3


def test_the_command_prints_lines_or_json_and_writes_the_record(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("rltok.speed.policy_cost.UPDATES", 1)
    out = tmp_path / "bench.json"
    assert main(command(tmp_path, "--updates", "2", "--policy-cost", "--repeats", "5", "--out", str(out))) == 0
    output = capsys.readouterr()
    assert (
        "; a full record has 50 updates or more" in output.out and "cost of the policy" in output.out and str(out) in output.out
    )
    assert "backend plain: device cpu is no CUDA card" in output.err
    stored = json.loads(out.read_text())
    assert stored["plain"] is None and stored["ratio"] is None  # the arm is plain itself
    assert main(command(tmp_path, "--updates", "1", "--plain-updates", "1", "--json", "--out", str(out))) == 0  # takes its place
    printed = capsys.readouterr()
    assert json.loads(printed.out) == json.loads(out.read_text()) and json.loads(printed.out)["plain"]["updates"] == 1


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--updates", "0"], "--updates must be at least 1; got 0"),
        (["--updates", "-3"], "--updates must be at least 1; got -3"),
        (["--plain-updates", "-1"], "--plain-updates must be at least 0; got -1"),
        (["--policy-cost", "--repeats", "0"], "--repeats must be at least 5; got 0"),
        (["--updates", "1", "--plain-updates", "1", "--plain-micro-batch", "3"], "must be a multiple of micro_batch=3"),
        (["--plain-updates", "1", "--plain-micro-batch", "0"], "--plain-micro-batch: "),
        (["--out", "n" * 300], "cannot be a file's name"),
        (["--out", "/dev/null"], "is no ordinary file"),
        (["--updates", "1", "--policy-cost", "--repeats", "4"], "--repeats must be at least 5; got 4"),
        (["--preset", "17m"], "there is no preset '17m'"),
        (["--set", "train.sequences_per_update=4096", "train.training_bytes=1e9"], "training_bytes"),
        (["--set", "train.sequences_per_update=200", "train.training_bytes=100000"], "less than one batch of 200"),
        (["--set", "model.rule.name=even", "--updates", "1", "--policy-cost"], "'even' has no policy whose cost could be timed"),
        (["--data", "no/such/file.txt"], "no/such/file.txt"),
        (["--out", "no/such/folder/bench.json"], "there is no folder"),
    ],
)
def test_nonsense_is_refused_in_one_line_before_anything_is_measured(more, said, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(bench_module, "measure_arm", lambda *_: pytest.fail("measured"))
    assert main(command(tmp_path, "--json", *more)) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("rltok: ") and said in line


def test_a_full_record_does_not_give_way_to_a_smaller_one(tmp_path, capsys, monkeypatch):
    out = tmp_path / "bench.json"
    out.write_text(stored := json.dumps({"what": "rltok bench: whole updates", "full": True}))
    monkeypatch.setattr(bench_module, "measure_arm", lambda *_: pytest.fail("measured"))
    assert main(command(tmp_path, "--updates", "49", "--out", str(out))) == 2
    assert "holds a full record, which 49 updates would replace by a smaller one" in capsys.readouterr().err
    assert out.read_text() == stored


def test_kernels_in_the_interpreter_are_not_timed(corpus, monkeypatch):
    monkeypatch.setattr(bench_module, "backend_of", lambda *_: ("triton", "asked for"))
    monkeypatch.setattr(bench_module.backends, "interpreted", lambda: True)
    with pytest.raises(RltokError, match="TRITON_INTERPRET=1 is for tests"):
        bench(small_config(), corpus, CPU, Plan(updates=1))


def test_lines_of_a_card_tell_how_long_no_kernel_ran_and_leave_out_what_took_no_time():
    split = {
        "seconds": {"attention": 0.3, "boundary draw": 0.0, "other": 0.1}, "shares": {"attention": 0.75, "boundary draw": 0.0,
        "other": 0.25}, "other": {"large": 0.09, "small": 0.001},
    }  # fmt: skip
    arm = {"time_split": split, "seconds": [0.5, 0.4, 0.9], "peak_memory_bytes": 1e9}
    text = _split_lines(arm)
    assert [line.split()[0] for line in text] == ["attention", "other", "other:", "no"] and "large, 0.0900 s" in text[2]
    assert text[-1] == "  no kernel runs in 20.0% of a median update"
    assert len(_split_lines(arm | {"peak_memory_bytes": None})) == 3  # the CPU's operators are not its kernels


FOREIGN = (
    '{"what": "rltok compare"}',
    '{"what": "rltok benchmarks of mine"}',
    '{"what": "rltok bench: x", "schema": 99}',
    "[" * 100_000,
)


@pytest.mark.parametrize("text", FOREIGN, ids=["other", "prefix", "schema", "deep"])
def test_a_file_that_is_no_record_of_a_bench_stays(text, tmp_path, capsys):
    mine = tmp_path / "mine.json"
    mine.write_text(text)
    assert main(command(tmp_path, "--out", str(mine))) == 2
    assert "is no record of this command, so it stays" in capsys.readouterr().err
    assert mine.read_text() == text


def test_writing_a_record_touches_no_other_file(tmp_path):
    beside, target = tmp_path / "new.json.tmp", tmp_path / "new.json"
    beside.write_text("precious")
    write_json(target, {"a": 1})
    assert json.loads(target.read_text()) == {"a": 1} and beside.read_text() == "precious"
    assert target.stat().st_mode == beside.stat().st_mode
    with pytest.raises(ValueError):
        write_json(target, {"a": math.nan})
    assert json.loads(target.read_text()) == {"a": 1}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new.json", "new.json.tmp"]
