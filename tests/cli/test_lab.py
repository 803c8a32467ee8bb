"""`rltok variance`: stages are those of training, records hold plain numbers, and mistakes are told in one line."""

import json
import re
from dataclasses import asdict
from functools import partial
from pathlib import Path

import pytest
import torch
from runs import SETTINGS, as_options, digests, small_config, write_text

import rltok
from rltok.cli.main import main
from rltok.cli.variance import rows_shown, table
from rltok.data import load_corpus
from rltok.errors import RltokError
from rltok.runs.checkpoint import checkpoints
from rltok.runs.loading import load
from rltok.runs.models import new_model
from rltok.variance import stages as lab
from rltok.variance.gradients import policy_parameters
from rltok.variance.laboratory import Sizes, batches_of, default_names
from rltok.variance.ladder import ladder
from rltok.variance.stages import FULL, LAMBDAS, STAGES, at_stages, measure_ladder, measure_stage, rounded

CPU, SIZES = torch.device("cpu"), Sizes(rows=2, batches=4, draws=2, reference_draws=2)
SMALL = [*as_options(SETTINGS), "--device", "cpu"]
QUICK = ["--batches", "4", "--draws", "2", "--estimators", "naive", FULL]
MEASURES = {"signal", "variance", "draw_share", "limit", "snr", "bias", "scale", "rows_needed", "never", "resolved"}
unchecked = pytest.mark.usefixtures("shapes_unchecked")


@pytest.fixture(autouse=True)
def few_resamples(monkeypatch):
    """The bootstrap is tested elsewhere, and takes most of the time of a small measurement."""
    monkeypatch.setattr(lab, "with_intervals", partial(lab.with_intervals, resamples=40))


@pytest.fixture
def text(tmp_path):
    return write_text(tmp_path)


@pytest.fixture
def corpus(text):
    return load_corpus(text, small_config().data)


@pytest.fixture
def ok(capsys):
    """Run `rltok variance` on the text, which must succeed; what it wrote to (stdout, stderr)."""

    def run(*arguments):
        assert main(["variance", *map(str, arguments)]) == 0
        return capsys.readouterr()

    return run


@pytest.fixture
def refused(capsys):
    """Run `rltok variance`, which must be refused in one line; the message."""

    def run(*arguments):
        assert main(["variance", *map(str, arguments)]) == 2
        out, err = capsys.readouterr()
        *progress, message = err.splitlines()
        assert out == "" and message.startswith("rltok: ")
        assert all(line.startswith(("seed ", "training text: ")) for line in progress)
        return message

    return run


def equal_weights(model, other):
    return all(torch.equal(a, b) for a, b in zip(model.state_dict().values(), other.state_dict().values(), strict=True))


@unchecked
def test_at_every_stage_the_weights_are_those_of_a_training_run_after_as_many_updates(finished, corpus):
    saved = {load_step(path): load(path) for path in checkpoints(finished)}
    assert set(saved) == {6, 8}
    seen = []
    for stage, done, model in at_stages(small_config(), corpus, {"end": 1.0, "start": 0.0, "three quarters": 0.75}, CPU):
        wanted = saved[done] if done else new_model(small_config(), CPU)
        assert equal_weights(model, wanted) and model.training
        assert all(p.grad is None for p in model.parameters())
        seen.append((stage, done))
    assert seen == [("start", 0), ("three quarters", 6), ("end", 8)]


def load_step(path):
    return int(re.search(r"\d+", path.name)[0])


@unchecked
def test_measuring_between_stages_does_not_change_training(corpus):
    batches = batches_of(corpus.train, SIZES, 0, CPU)
    measured = []
    for _, _, model in at_stages(small_config(), corpus, STAGES, CPU):
        measure_stage(model, batches, ["naive"], SIZES, 0)
        measured.append({name: p.detach().clone() for name, p in model.named_parameters()})
    for (_, _, model), before in zip(at_stages(small_config(), corpus, STAGES, CPU), measured, strict=True):
        assert all(torch.equal(p, before[name]) for name, p in model.named_parameters())


def test_a_text_too_short_for_an_update_is_refused_before_a_model_is_made(monkeypatch, tmp_path):
    monkeypatch.setattr(lab, "new_model", None)
    short = load_corpus(write_text(tmp_path, b"Some text of a hundred bytes or so. " * 4), small_config().data)
    with pytest.raises(RltokError, match="less than one batch of 4"):
        next(at_stages(small_config(), short, STAGES, CPU))


def test_a_stage_holds_every_measure_as_plain_json_and_is_the_same_every_time(corpus):
    model, names = new_model(small_config(), CPU).train(), ["naive", "causal+gamma0.00001", FULL]
    batches = batches_of(corpus.train, SIZES, 0, CPU)
    stage = measure_stage(model, batches, names, SIZES, seed=0)
    assert json.loads(json.dumps(stage, allow_nan=False)) == stage == measure_stage(model, batches, names, SIZES, seed=0)
    for group in ("policy", "encoder"):
        assert set(stage[group]["estimators"]) == set(stage[group]["cosines"]) == set(names)
        assert all(set(measures) == MEASURES for measures in stage[group]["estimators"].values())
        assert all(measures["variance"][0] > 0 for measures in stage[group]["estimators"].values())
    assert [row["lambda"] for row in stage["shared"][FULL]] == LAMBDAS
    assert set(stage["advantage_rms"]) == set(names) and set(stage["return_spread"]) == {"1", "0.9", "0.00001"}
    assert len(stage["positions"]) == len(stage["mean_reward"]) == len(stage["return_spread"]["1"]) == 32
    assert stage["positions"][0] == 0.5 and stage["positions"][-1] == 62.5  # bins of 2 of 64 positions
    assert 0 < stage["means"]["rate"] < 1 and 0 < stage["means"]["policy_entropy"] <= 0.6932


def test_numbers_are_rounded_to_significant_digits_all_the_way_down():
    value = {"a": [123456.7, {"b": (0.000123456, None)}], "c": "x", "d": 1234567}
    assert rounded(value) == {"a": [123460.0, {"b": [0.00012346, None]}], "c": "x", "d": 1234567}


@unchecked
def test_a_record_names_what_was_measured_for_every_seed_and_stage(corpus):
    said = []
    record = measure_ladder(lambda seed: small_config(train__seed=seed), corpus, ["naive"], SIZES, [3, 4], CPU, said.append)
    stages = [(stage["seed"], stage["stage"], stage["step"]) for stage in record["stages"]]
    assert stages == [(seed, *stage) for seed in (3, 4) for stage in (("start", 0), ("early", 1), ("late", 8))]
    assert record["config_hash"] == small_config(train__seed=3).digest() and record["data"] == corpus.description
    assert {key: record[key] for key in asdict(SIZES)} == asdict(SIZES)
    assert len({json.dumps(stage["policy"]) for stage in record["stages"]}) == 6 == len(said)


@unchecked
def test_the_command_prints_a_table_and_writes_the_record_that_it_prints_as_json(ok, text, tmp_path):
    out, err = ok("--data", text, *SMALL, *QUICK, "--out", tmp_path / "r.json")
    record = json.loads((tmp_path / "r.json").read_text())
    assert out.endswith(f"record: {tmp_path / 'r.json'}\n") and "nan" not in out.lower()
    for stage in ("start", "early", "late"):
        for group in ("policy", "encoder"):
            assert f"seed 0, {stage}, {group} parameters, batches of 2 rows" in out
    assert [line.split()[0] for line in out.splitlines() if line.startswith("  ")].count(FULL) == 6
    assert "\n".join(line for stage in record["stages"] for line in table(stage, 2)) in out
    read, *stages = err.splitlines()
    assert read.startswith(f"training text: 1 text file ({Path(text).name}): ") and stages == [
        f"seed 0, {s}: {n} updates done, measuring 2 estimators" for s, n in [("start", 0), ("early", 1), ("late", 8)]
    ]
    printed, err = ok("--data", text, *SMALL, *QUICK, "--json")
    again = json.loads(printed)
    assert err == "" and again["stages"] == record["stages"] and again["config"] == record["config"]


@unchecked
def test_a_trained_run_is_measured_as_it_is(ok, finished, text, tmp_path):
    before = digests(finished)
    record = json.loads(ok(finished, "--data", text, *QUICK, "--device", "cpu", "--json").out)
    assert digests(finished) == before
    (stage,) = record["stages"]
    assert (stage["stage"], stage["step"], record["rows"]) == ("trained", None, 2)
    trained = json.loads(ok("--data", text, *SMALL, *QUICK, "--json").out)["stages"][-1]
    assert stage["policy"] == trained["policy"] and stage["encoder"] == trained["encoder"]  # its last stage is the run's end


@unchecked
def test_a_run_is_told_which_text_it_is_measured_on(ok, finished, text, tmp_path):
    same = ok(finished, "--data", text, *QUICK, "--device", "cpu").err
    read, measuring = same.splitlines()
    assert read.startswith(f"training text: 1 text file ({Path(text).name}): ")
    assert measuring == f"measuring 2 estimators on training rows of {Path(text).name}"
    other = tmp_path / "other.txt"
    other.write_text(Path(text).read_text()[::-1])
    output = ok(finished, "--data", other, *QUICK, "--device", "cpu").err
    assert f"rows of other.txt; it was trained on {Path(text).name}, which --data would name" in output


@unchecked
def test_stages_of_a_training_too_short_to_tell_them_apart_say_so(corpus):
    said, short = [], small_config(train__training_bytes=4 * small_config().bytes_per_update)
    measure_ladder(lambda seed: short, corpus, ["naive"], SIZES, [0], CPU, said.append)
    assert ["the same weights as start" in line for line in said] == [False, True, False]


def test_the_whole_ladder_is_measured_by_default(monkeypatch, text):
    requests = {}

    def measured(configs, corpus, names, sizes, seeds, device, say):
        requests.update(names=names, sizes=sizes, seeds=seeds)
        raise RltokError("enough")

    monkeypatch.setattr("rltok.cli.variance.measure_ladder", measured)
    assert main(["variance", "--data", text, *SMALL]) == 2
    assert requests == {"names": default_names(), "sizes": Sizes(2, 32, 4, 4), "seeds": [0]}
    assert main(["variance", "--data", text, *SMALL, "--rows", "3", "--reference-draws", "9", "--seeds", "1", "2"]) == 2
    assert (requests["sizes"], requests["seeds"]) == (Sizes(3, 32, 4, 9), [1, 2])


MISTAKES = {
    "an unknown estimator": (["--estimators", "naiv"], "no estimator 'naiv'.*Did you mean 'naive'"),
    "contradictory parts": (["--estimators", "naive", "batch+loo"], "'batch.loo' sets centring twice"),
    "a discount without causal credit": (["--estimators", "gamma0.5"], "Write causal.gamma0.5"),
    "one row with centring": (["--rows", 1], "'causal.*' compares a row with the others.*no signal is left. Take --rows 2"),
    "one row without": (["--rows", 1, "--estimators", "naive"], "rows must be at least 2, because the reference compares"),
    "no row": (["--rows", 0], "rows must be at least 2.*got 0"),
    "one draw": (["--draws", 1], "draws must be at least 2.*got 1"),
    "a negative number of draws": (["--draws", -2], "draws must be at least 2.*got -2"),
    "no batch": (["--batches", 0], "batches must be at least 4.*got 0"),
    "too few reference draws": (["--reference-draws", 1], "reference_draws must be at least 4.*got 1"),
    "more batches than text": (["--batches", 400], "400 batches of 2 rows need 800 full rows; the text has 45"),
    "a negative seed": (["--seeds", -1], "--seeds must lie between 0 and 2..63 - 1; got -1"),
    "a negative second seed": (["--seeds", 0, -1], "--seeds must lie between 0 and 2..63 - 1; got -1"),
    "a seed named twice": (["--seeds", 3, 3], "names a seed twice: 3 3"),
    "a seed among the settings": (["--set", "train.seed=5"], "Write --seeds 5"),
    "draws without end": (["--draws", 10**9], "at most 100000 each"),
    "an empty name of a run": ([""], "RUN is empty"),
    "an unknown preset": (["--preset", "tinny"], "no preset 'tinny'.*Did you mean 'tiny'"),
    "an unknown setting": (["--set", "objective.gama=1"], "no setting 'gama'. Did you mean 'gamma'"),
    "a rule without policy": (["--set", "model.rule.name=even"], "model.rule.name=.even. has no policy"),
    "a missing text": (["--data", "absent.txt"], "no such file, folder or kind of data"),
    "a device there is not": (["--device", "gpu"], "no device 'gpu'"),
}  # fmt: skip


@unchecked
@pytest.mark.parametrize("kind", MISTAKES)
def test_a_mistake_is_told_in_one_line_and_nothing_is_written(kind, refused, text, tmp_path):
    options, said = MISTAKES[kind]
    before = digests(tmp_path)
    few = [] if "--batches" in options else ["--batches", 4]
    message = refused("--data", text, *SMALL, *few, *options, "--out", tmp_path / "r.json")
    assert re.search(said, message), message
    assert digests(tmp_path) == before


def test_an_unknown_estimator_is_told_all_that_there_are(refused, text):
    message = refused("--data", text, *SMALL, "--estimators", "first")
    assert all(name in message for name in ladder())


@unchecked
@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--preset", "tiny"], "RUN brings its own settings. Leave --preset and --set out"),
        (["--set", "train.seed=1"], "RUN brings its own settings"),
        (["--seeds", 1, 2], "RUN is one model; got 2 seeds"),
        (["--seeds", -1], "--seeds must lie between 0 and .*got -1"),
    ],
)
def test_what_does_not_go_with_a_trained_run_is_refused(options, said, refused, finished, text):
    assert re.search(said, refused(finished, "--data", text, "--batches", 4, *options))


@unchecked
def test_a_run_whose_rule_has_no_policy_is_refused(refused, text, tmp_path):
    rltok.train(small_config(model__rule__name="even"), text, tmp_path / "even")
    assert "model.rule.name='even' has no policy" in refused(tmp_path / "even", "--data", text, "--batches", 4)


def test_a_record_with_no_place_to_go_is_refused_before_anything_is_measured(refused, text, tmp_path, monkeypatch):
    monkeypatch.setattr("rltok.cli.variance.load_corpus", None)
    place = tmp_path / "absent" / "r.json"
    assert f"no folder {place.parent}. Make it first" in refused("--data", text, *SMALL, "--out", place)
    assert f"{tmp_path} is a folder. Name a file in it" in refused("--data", text, *SMALL, "--out", tmp_path)


def test_the_command_explains_itself(capsys):
    with pytest.raises(SystemExit):
        main(["variance", "--help"])
    output = capsys.readouterr().out
    options = (
        "--preset --set --data --max-bytes --estimators --rows --batches --draws --reference-draws --seeds --out --device --json"
    )
    assert [name for name in options.split() if name not in output] == []


@pytest.mark.parametrize(
    ("limit", "needed", "error", "shown"),
    [
        (0.9, [12345.6, 10000.0, None], 0.3, "12,346 (10,000..-)"),
        (0.9, [12345.6, None, None], 1.0, "12,346 (-..-)"),
        (0.4, [None, None, None], 0.3, "never"),
        (0.4, [None, None, None], 1.1, "not resolved"),
        (0.9, [12345.6, None, None], None, "not resolved"),
        (None, [None, None, None], 0.3, "not resolved"),
    ],
)
def test_rows_needed_are_shown_as_a_number_as_never_or_as_not_resolved(limit, needed, error, shown):
    assert rows_shown({"limit": [limit, None, None], "rows_needed": needed}, error) == shown


def test_columns_of_the_table_stay_apart_however_wide_a_number_is():
    wide = {
        "variance": [1.23e-10, 1.11e-10, 3.33e-10],
        "limit": [-0.123, -0.456, 0.789],
        "rows_needed": [353140.0, 54332.0, 367220000.0],
        "never": 0.25,
        "resolved": 0.95,
    }
    stage = {"seed": 0, "stage": "late"} | {
        group: {"reference_error": error, "estimators": {FULL: wide}} for group, error in (("policy", 0.5), ("encoder", None))
    }
    lines = table(stage, 2)
    assert "standard error of the reference 0.50 of its length" in lines[1]
    assert "standard error of the reference not resolved" in lines[4] and lines[6].count("not resolved") == 2
    assert re.split(r" {2,}| (?=-?\d\S* \()", lines[3].strip()) == [
        FULL, "1.23e-10 (1.11e-10..3.33e-10)", "-0.123 (-0.456..0.789)", "353,140 (54,332..367,220,000)", "30%",
    ]  # fmt: skip


def test_both_groups_of_parameters_are_measured():
    model = new_model(small_config(), CPU)
    assert {name.split(".")[0] for name in policy_parameters(model)} == {"rule", "embedding", "down_blocks"}
