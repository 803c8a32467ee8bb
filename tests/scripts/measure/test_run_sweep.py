"""run_sweep.py and score_test.py: a plan is run, goes on, takes numbers from other runs, and is scored on test once."""

import json
import sys
from dataclasses import replace

import pytest
import run_sweep  # noqa: E402
import score_test  # noqa: E402
from paths import ROOT
from runs import SETTINGS, TEXT
from sweeps import record

from rltok.cli import main as cli
from rltok.config import ADDED_SETTINGS, with_settings
from rltok.errors import RltokError, TrainingFailed
from rltok.evidence import runner
from rltok.evidence.export import RATES
from rltok.evidence.plan import read_plan
from rltok.evidence.record_file import read_record
from rltok.evidence.records import read_sweeps
from rltok.evidence.tables import WHO
from rltok.policy_settings import OF_POLICY
from rltok.presets import preset
from rltok.speed.speeds import measured_speeds

PLAN = """
preset = "tiny"
full = false
seeds = [0, 1]
[settings]
{settings}
[[run]]
name = "ours"
settings = {{ "objective.gamma" = 0.99 }}
[[run]]
name = "even"
variant = "even"
seeds = [0]
[[run]]
name = "ours_as_even"
rate_of = "even"
seeds = [0]
"""


SMALL = SETTINGS | {"train.micro_batch": 4}  # fewer forward passes
pytestmark = pytest.mark.usefixtures("shapes_unchecked", "short_snapshots")


@pytest.fixture(scope="module")
def clean_tree():
    """Records name a clean commit, whatever state this tree is in."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RLTOK_COMMIT", "1" * 40)
        yield


@pytest.fixture
def plan(tmp_path):
    """A plan of four runs of a second, and the options to run it with."""
    path = tmp_path / "small.toml"
    lines = "\n".join(f'"{key}" = {json.dumps(value)}' for key, value in SMALL.items())
    path.write_text(PLAN.format(settings=lines))
    (tmp_path / "text.txt").write_bytes(TEXT * 2)
    return path


def call(main, plan, *more, monkeypatch):
    """Run a script as from the command line."""
    place = plan.parent
    arguments = [str(plan), "--runs", str(place / "runs"), "--records", str(place / "records" / "small")]
    monkeypatch.setattr(sys, "argv", ["script", *arguments, "--data", str(place / "text.txt"), "--device", "cpu", *more])
    main()
    return read_sweeps(place / "records")["small"]


def test_a_plan_is_run_and_scored_on_test_once(plan, monkeypatch, clean_tree, capsys):
    sweep = call(run_sweep.main, plan, monkeypatch=monkeypatch)
    assert {name: sorted(seeds) for name, seeds in sweep.runs.items()} == {"even": [0], "ours": [0, 1], "ours_as_even": [0]}
    ours = sweep.runs["ours"][0]
    assert ours["config"]["objective"]["gamma"] == 0.99 and ours["commit"] == "1" * 40
    rate = sweep.runs["even"][0]["scores"]["validation"]["rate"]
    assert sweep.runs["ours_as_even"][0]["config"]["model"]["rule"]["target_rate"] == rate
    score = ours["scores"]["validation"]
    assert score["unit"] == "rows"  # of one document
    assert sum(score["unit_bits"]) / sum(score["unit_bytes"]) == pytest.approx(score["bits_per_byte"], rel=1e-4)
    assert ours["scores"]["test"] is None
    assert [shot["step"] for shot in ours["snapshots"]][-1] == 8 and ours["held_out"][-1]["step"] == 8
    assert len(ours["samples"][0]["boundaries"]) == len(ours["samples"][0]["text"]) <= 512
    before = {path.name: path.read_bytes() for path in (plan.parent / "records" / "small").iterdir()}
    call(run_sweep.main, plan, monkeypatch=monkeypatch)  # nothing is left to do
    assert {path.name: path.read_bytes() for path in (plan.parent / "records" / "small").iterdir()} == before
    sweep = call(score_test.main, plan, monkeypatch=monkeypatch)
    assert all(run["scores"]["test"]["rows"] > 0 for run in sweep.records)
    again = call(score_test.main, plan, monkeypatch=monkeypatch)
    assert again == sweep
    assert capsys.readouterr().err.count("bits per byte on test") == 4


def test_a_seed_is_run_again_beside_the_first_time_and_scored_like_it(plan, monkeypatch, clean_tree):
    call(run_sweep.main, plan, "--only", "even", monkeypatch=monkeypatch)
    sweep = call(run_sweep.main, plan, "--only", "even", "--repeat", "2", monkeypatch=monkeypatch)
    first, again = sweep.of_seed("even", 0)
    assert first["digest"] != again["digest"] and first["config_hash"] == again["config_hash"]
    assert first["scores"]["validation"]["unit_bits"] == again["scores"]["validation"]["unit_bits"]  # a CPU gives the same digits
    place = plan.parent / "records" / "small" / "repeats"
    assert [path.name for path in place.iterdir()] == ["even-seed0-2.json"]
    sweep = call(score_test.main, plan, monkeypatch=monkeypatch)
    assert [run["scores"]["test"] is not None for run in sweep.of_seed("even", 0)] == [True, True]
    with pytest.raises(RltokError, match="--repeat is 0"):
        call(run_sweep.main, plan, "--repeat", "0", monkeypatch=monkeypatch)


def test_a_run_interrupted_goes_on(plan, monkeypatch, clean_tree):
    train = runner.train

    def interrupted(config, *rest, **more):
        if config.name.endswith("even"):
            raise KeyboardInterrupt
        return train(config, *rest, **more)

    monkeypatch.setattr(runner, "train", interrupted)
    two = ("--only", "ours", "even", "--seeds", "0")
    with pytest.raises(KeyboardInterrupt):
        call(run_sweep.main, plan, *two, monkeypatch=monkeypatch)
    assert [path.name for path in (plan.parent / "records" / "small").iterdir()] == ["ours-seed0.json"]
    monkeypatch.setattr(runner, "train", train)
    assert len(call(run_sweep.main, plan, *two, monkeypatch=monkeypatch).records) == 2


def test_a_run_that_fails_leaves_a_record_and_the_others_go_on(plan, monkeypatch, clean_tree):
    train = runner.train

    def failing(config, *rest, **more):
        if config.train.seed == 0:
            raise TrainingFailed("update 3: loss nan, not finite.")
        return train(config, *rest, **more)

    monkeypatch.setattr(runner, "train", failing)
    sweep = call(run_sweep.main, plan, "--only", "ours", monkeypatch=monkeypatch)
    assert [(run["name"], run["seed"], run["failed"]) for run in sweep.failed] == [("ours", 0, "update 3: loss nan, not finite.")]
    assert [run["seed"] for run in sweep.records] == [1]


def test_records_of_other_settings_are_not_taken_for_these(plan, monkeypatch, clean_tree):
    call(run_sweep.main, plan, "--only", "even", monkeypatch=monkeypatch)
    plan.write_text(plan.read_text().replace('"train.log_every" = 2', '"train.log_every" = 1'))
    with pytest.raises(RltokError, match="is of other settings, text or benchmarks"):
        call(run_sweep.main, plan, "--only", "even", monkeypatch=monkeypatch)


def test_benchmarks_come_from_a_folder_or_from_the_hub(monkeypatch, tmp_path):
    requests = []
    monkeypatch.setattr(run_sweep, "hub_items", lambda task, force: requests.append((task, force)) or f"{task} of the hub")
    monkeypatch.setattr(run_sweep, "read_items", lambda task, folder: f"{task} of {folder}")
    assert run_sweep.items_of(None) == {} == dict(requests)
    assert run_sweep.items_of("eval")["piqa"] == "piqa of eval" and not requests
    assert run_sweep.items_of("hub") == {task: f"{task} of the hub" for task in ("piqa", "hellaswag", "arc_easy", "lambada")}
    assert requests == [(task, False) for task in run_sweep.TASKS]


def test_a_prepared_folder_gives_training_validation_and_test_text(plan, monkeypatch, clean_tree):
    (plan.parent / "many").mkdir()
    for number in range(30):
        (plan.parent / "many" / f"{number:02}.txt").write_bytes(b"%d " % number + TEXT[: 8 * 64])
    folder = str(plan.parent / "shards")
    more = ["--validation-fraction", "0.3", "--test-fraction", "0.3", "--cut", "full_windows", "--sequence-length", "64"]
    assert cli.main(["prepare", str(plan.parent / "many"), "--out", folder, *more]) == 0
    plan.write_text(plan.read_text().replace("[settings]", '[settings]\n"data.cut" = "full_windows"'))
    call(run_sweep.main, plan, "--only", "even", "--data", folder, monkeypatch=monkeypatch)
    (run,) = call(score_test.main, plan, "--data", folder, monkeypatch=monkeypatch).records
    hashes = run["data"]["train"]["hash"], run["scores"]["validation"]["hash"], run["scores"]["test"]["hash"]
    assert len(set(hashes)) == 3


def test_an_unknown_contender_is_named(plan, monkeypatch):
    with pytest.raises(RltokError, match="the plan has no run evn. It has: ours, even, ours_as_even"):
        call(run_sweep.main, plan, "--only", "evn", monkeypatch=monkeypatch)


def test_an_unknown_seed_is_named(plan, monkeypatch):
    with pytest.raises(RltokError, match=r"the plan has no seed 7 of these runs. It has: 0"):
        call(run_sweep.main, plan, "--only", "even", "--seeds", "7", monkeypatch=monkeypatch)


def test_a_package_that_a_rule_lacks_is_missed_before_anything_is_trained(plan, monkeypatch, clean_tree):
    plan.write_text(plan.read_text() + '\n[[run]]\nname = "bpe"\nvariant = "bpe"\n')
    monkeypatch.setitem(sys.modules, "tokenizers", None)  # as if it were not installed
    with pytest.raises(RltokError, match="need the tokenizers package"):
        call(run_sweep.main, plan, monkeypatch=monkeypatch)
    assert not (plan.parent / "runs").exists()
    call(run_sweep.main, plan, "--only", "even", monkeypatch=monkeypatch)  # runs that need none are made


@pytest.mark.parametrize(
    ("text", "message"),
    [("preset = 3 = 4", "is no plan"), ("colour = 1", "unknown keys: colour"),
     ('preset = "tiny"\nfull = true\nseeds = [0]', "needs preset"),
     ('preset="tiny"\nfull=true\nseeds=[0]\n[[run]]\nname="a"\nsize=3', r"unknown keys: run\.size"),
     ('preset="tiny"\nfull="no"\nseeds=[0]\n[[run]]\nname="a"', "of another kind .full"),
     ('preset="tiny"\nfull=true\nseeds=3\n[[run]]\nname="a"', "of another kind"),
     ('preset="tiny"\nfull=true\nseeds=[-1]\n[[run]]\nname="a"', "seed -1"),
     ('preset="tiny"\nfull=true\nseeds=[0]\n[[run]]\nvariant="even"', r"run\.name"),
     ('preset="tiny"\nfull=true\nseeds=[0]\n[[run]]\nname="a"\n[[schedule]]\nname="b"', r"schedule\.settings"),
     ('preset="tiny"\nfull=true\nseeds=[0]\n[[run]]\nname="a"\n[[schedule]]\nname="b"\nsettings={}\nx=1', r"schedule\.x"),
     ('preset="tiny"\nfull=true\nseeds=[0,0]\n[[run]]\nname="a"', "names a run twice"),
     ('preset="tiny"\nfull=true\nseeds=[0]\n[[run]]\nname="a"\nless_miss_of="b"', "a has less_miss_of without rate_of")],
)  # fmt: skip
def test_a_plan_that_is_none_is_refused(tmp_path, text, message):
    (tmp_path / "plan.toml").write_text(text)
    with pytest.raises(RltokError, match=message):
        read_plan(tmp_path / "plan.toml")


@pytest.mark.parametrize("path", sorted((ROOT / "scripts" / "measure" / "sweeps").glob("*.toml")), ids=lambda path: path.stem)
def test_stored_plans_can_be_read_and_their_runs_differ(path):
    plan = read_plan(path)
    free = [run for run in plan.runs if not (run.rate_of or run.same_pull_as)]
    configs = {run.stem: plan.config(run, {}) for run in free}
    assert len({config.digest() for config in configs.values()}) == len(free)
    for config in configs.values():  # one network, one budget, one order
        first = configs[plan.runs[0].stem]
        if path.stem not in ("schedule", "tiny_late", "32m_search"):  # which are about nothing else
            own = {"seed": 0, "micro_batch": 1, **OF_POLICY}
            best = ("32m_best", "32m_ceiling", "32m_target")  # of which each method has its own schedule
            own |= {"learning_rate": 1e-3, "warmup_fraction": 0.5} if path.stem in best else {}
            own |= {"precision": "auto"} if path.stem == "32m_fp16" else {}  # which is about that
            assert replace(config.train, **own) == replace(first.train, **own)
        assert config.train.training_bytes == first.train.training_bytes
        if config.model.rule.name == "learned":  # whose estimator compares rows of a micro-batch
            assert config.train.micro_batch == first.train.micro_batch
        own = {"rule": first.model.rule}
        own |= {"head_norm": "rms", "rotary_positions": "exact"} if path.stem == "32m_norms" else {}  # what it is about
        assert replace(config.model, **own) == replace(first.model, **own)
        assert config.data == first.data


def test_the_plan_about_norms_changes_one_thing_of_the_best_plans_policies():
    sweeps = ROOT / "scripts" / "measure" / "sweeps"
    (norms, best) = (
        {run.stem: (plan, run) for run in plan.runs}
        for plan in (read_plan(sweeps / f"32m_{name}.toml") for name in ("norms", "best"))
    )
    changed = {}
    for stem, (plan, run) in norms.items():
        base = "policy_x20" if "x20" in stem else "policy"
        mine, theirs = (p.config(r, {}).to_dict() for p, r in ((plan, run), best[f"{base}-seed{run.seed}"]))
        parts = [("model", mine["model"], theirs["model"]), ("rule", mine["model"].pop("rule"), theirs["model"].pop("rule"))]
        differs = {f"{part}.{key}" for part, a, b in parts for key in a if a[key] != b[key]}
        assert all(mine[part] == theirs[part] for part in ("train", "objective", "data"))
        changed.setdefault(run.name, set()).update(differs)
    assert changed.pop("policy_a_third_of_D") == {"rule.scale"} and changed.pop("policy_rounded_positions") == {
        "model.rotary_positions"
    }
    assert len(changed) == 4 and all(keys == {"model.head_norm"} for keys in changed.values())


def test_a_second_try_at_a_rate_aims_as_much_lower_as_the_first_missed(tmp_path):
    path = tmp_path / "again.toml"
    path.write_text(
        PLAN.format(settings="")
        + """
[[run]]
name = "ours_again_as_even"
rate_of = "even"
less_miss_of = "ours_as_even"
seeds = [0]
"""
    )
    plan = read_plan(path)
    drew = {"even-seed0": 0.1792, "ours_as_even-seed0": 0.1861}
    records = {stem: {"scores": {"validation": {"rate": rate}}} for stem, rate in drew.items()}
    aims = {run.name: plan.config(run, records).model.rule.target_rate for run in plan.runs if run.rate_of}
    assert aims == {"ours_as_even": 0.1792, "ours_again_as_even": pytest.approx(0.1723, abs=1e-9)}
    del records["ours_as_even-seed0"]
    with pytest.raises(RltokError, match="takes a number from ours_as_even-seed0"):
        plan.config(plan.runs[-1], records)


def flat(values, path=""):
    """Settings by their dotted names, but for the name and the seed."""
    each = {f"{path}{key}": value for key, value in values.items()}
    nested = [flat(value, f"{key}.") for key, value in each.items() if isinstance(value, dict)]
    own = {key: value for key, value in each.items() if not isinstance(value, dict) and key not in ("name", "train.seed")}
    return own | {key: value for part in nested for key, value in part.items()}


@pytest.mark.parametrize(("what", "methods"), [("optima", 10), ("draws", 4)])
@pytest.mark.parametrize(("size", "of"), [("32m", "best"), ("tiny", "travel")])
def test_the_plans_about_what_a_policy_finds_change_the_fast_policy_of_another_plan_by_what_they_say(size, of, what, methods):
    sweeps = ROOT / "scripts" / "measure" / "sweeps"
    best, plan = (read_plan(sweeps / f"{size}_{name}.toml") for name in (of, what))
    base = flat(next(best.config(run, {}) for run in best.runs if run.name == "policy_x20").to_dict())
    seeds = {}
    for run in plan.runs:
        seeds.setdefault(run.name, []).append(run.seed)
        own = flat(plan.config(run, {}).to_dict())
        assert {key: value for key, value in own.items() if value != base[key]} == {
            key: value for key, value in run.settings.items() if value != base[key]
        }
    assert list(seeds.values()) == [list(range(8))] * methods
    assert not plan.runs[0].settings  # the one that the others are compared with


@pytest.mark.parametrize(("name", "other"), [("32m_rates", "32m_best"), ("tiny_rates", "tiny_travel")])
def test_the_plans_about_rates_have_one_policy_for_a_range_and_one_for_each_rate_that_it_is_scored_at(name, other):
    sweeps = ROOT / "scripts" / "measure" / "sweeps"
    base, plan = read_plan(sweeps / f"{other}.toml"), read_plan(sweeps / f"{name}.toml")
    usual = flat(next(base.config(run, {}) for run in base.runs if run.name == "policy_x20").to_dict())
    changed = {}
    for run in plan.runs:
        own = flat(plan.config(run, {}).to_dict())
        assert run.seed in (0, 1, 2) and run.name in WHO
        changed.setdefault(run.name, {key: value for key, value in own.items() if value != usual[key]})
    ranged, *single = changed.values()
    assert len(plan.runs) == 12 and ranged == {"model.rule.lowest_rate": 0.1, "model.rule.highest_rate": 0.5}
    assert [each.get("model.rule.target_rate", 0.2) for each in single] == list(RATES)
    assert all(each.keys() <= {"model.rule.target_rate"} for each in single)


def test_every_setting_younger_than_stored_runs_is_tried_by_a_plan():
    plans = [read_plan(path) for path in (ROOT / "scripts" / "measure" / "sweeps").glob("*.toml")]
    tried = {key for plan in plans for run in plan.runs for key in (*plan.settings, *run.settings)}
    assert ADDED_SETTINGS.keys() <= tried


def test_the_plan_of_the_authors_setting_reads_and_saves_as_the_147m_plan_does():
    sweeps = ROOT / "scripts" / "measure" / "sweeps"
    authors, large = read_plan(sweeps / "147m_authors.toml"), read_plan(sweeps / "147m.toml")
    mine, theirs = authors.config(authors.runs[0], {}), large.config(large.runs[0], {})
    assert mine.data == theirs.data and mine.train == theirs.train
    assert (mine.model.head_norm, mine.model.rule.lags, mine.objective.lambda_auto, mine.objective.gamma) == ("none", 7, 0.9, 0.9)


def test_the_plan_of_the_papers_budget_has_its_bytes_and_schedule():
    plan, paper = read_plan(ROOT / "scripts" / "measure" / "sweeps" / "32m_paper.toml"), preset("32m").train
    assert [run.name for run in plan.runs] == ["policy", "even", "bpe", "hnet_port"]
    for run in plan.runs:
        train = plan.config(run, {}).train
        assert (train.training_bytes, train.warmup_fraction, train.learning_rate) == (1_500_000_000, 0.075, 3e-3)
        assert train.policy_lr_multiplier == paper.policy_lr_multiplier == 1
        assert train.sequences_per_update == paper.sequences_per_update


def test_a_plan_with_schedules_makes_every_run_under_each_of_them(tmp_path):
    text = """preset = "tiny"\nfull = false\nseeds = [0]\n[settings]\n"train.learning_rate" = 1.0e-3
[[schedule]]\nname = "a"\nsettings = { "train.learning_rate" = 2e-3, "objective.gamma" = 0.5 }
[[schedule]]\nname = "b"\nsettings = {}
[[run]]\nname = "policy"\nsettings = { "objective.gamma" = 0.9 }
[[run]]\nname = "even"\nvariant = "even"\nseeds = [3, 4]\n"""
    (tmp_path / "plan.toml").write_text(text)
    plan = read_plan(tmp_path / "plan.toml")
    made = {run.stem: plan.config(run, {}) for run in plan.runs}
    assert list(made) == ["policy_a-seed0", "policy_b-seed0", "even_a-seed3", "even_a-seed4", "even_b-seed3", "even_b-seed4"]
    assert [config.train.learning_rate for config in made.values()] == [2e-3, 1e-3, 2e-3, 2e-3, 1e-3, 1e-3]
    assert made["policy_a-seed0"].objective.gamma == 0.9  # what a run says of itself goes before its schedule
    assert made["even_b-seed4"].model.rule.name == "even" and made["even_b-seed4"].train.seed == 4


def test_the_search_tries_three_peaks_and_two_warm_ups_for_every_method():
    plan = read_plan(ROOT / "scripts" / "measure" / "sweeps" / "32m_search.toml")
    tried = {}
    for run in plan.runs:
        train, (name, schedule) = plan.config(run, {}).train, run.name.split("_warmup")
        assert schedule == f"{train.warmup_fraction * 100:g}_peak" + f"{train.learning_rate * 1000:g}e-3"
        tried.setdefault(name, set()).add((train.warmup_fraction, train.learning_rate))
    assert all(schedules == {(w, p) for w in (0.15, 0.45) for p in (1e-3, 1.5e-3, 3e-3)} for schedules in tried.values())
    assert tried.keys() == {
        "policy", "policy_x20", "even", "random_k", "whitespace", "entropy", "bpe", "bpe_causal", "hnet_port", "hnet",
        "dynamic_pooling", "dynamic_pooling_port",
    }  # fmt: skip


def test_the_best_plan_trains_each_method_as_the_search_found_best():
    sweeps = ROOT / "scripts" / "measure" / "sweeps"
    search = read_sweeps(ROOT / "notebooks" / "results" / "search", varied=("warmup_fraction", "learning_rate"))["32m_search"]
    best = {}
    for run in search.records:
        bits, train = run["scores"]["validation"]["bits_per_byte"], run["config"]["train"]
        method = run["name"].split("_warmup")[0]
        best[method] = min(best.get(method, (9.0,)), (bits, train["warmup_fraction"], train["learning_rate"]))
    plan, seeds = read_plan(sweeps / "32m_best.toml"), {}
    for run in plan.runs:
        seeds.setdefault(run.name, []).append(run.seed)
        method = run.name if run.name in best else "policy_x20" if run.name.startswith("policy_x20") else "random_k"
        train = plan.config(replace(run, rate_of=None), {}).train
        assert (train.warmup_fraction, train.learning_rate) == best[method][1:], run.name
    assert all(of_method == [0, 1, 2] for of_method in seeds.values())
    assert best.keys() <= seeds.keys()
    matched = {run.name: run.rate_of for run in plan.runs if run.rate_of}
    again = {f"policy_x20_again_rate_{rival}": rival for rival in ("whitespace", "hnet_port")}
    assert matched == again | {f"{method}_rate_{rival}": rival for method in ("policy_x20", "random_k")
                               for rival in ("bpe", "bpe_causal", "whitespace", "hnet_port")}  # fmt: skip
    missed = {run.name: run.less_miss_of for run in plan.runs if run.less_miss_of}
    assert missed == {name: name.replace("_again", "") for name in again}


def test_the_plan_of_the_32m_sweep_holds_every_run_of_its_list():
    plan = read_plan(ROOT / "scripts" / "measure" / "sweeps" / "32m.toml")
    seeds = {}
    for run in plan.runs:
        seeds.setdefault(run.name, []).append(run.seed)
    three = {"ours", "ours_gamma0.9", "even", "bpe", "dynamic_pooling_port", "hnet_port"}
    assert {name for name, of_method in seeds.items() if of_method == [0, 1, 2]} == three
    assert {name for name, of_method in seeds.items() if of_method == [0]} == {
        "random_k", "whitespace", "entropy", "bpe_causal", "dynamic_pooling", "hnet", "ours_lags0", "ours_lags1", "ours_lags7",
        "ours_gamma0.9_rms", "ours_no_early", "ours_no_centring", "ours_gamma1", "naive", "ours_no_rate_loss", "ours_rate_bpe",
    }  # fmt: skip
    first = plan.config(plan.runs[0], {})
    assert first.model.rule.target_rate == 0.2 and first.data.cut == "full_windows" and first.train.training_bytes >= 100_000_000


def test_the_plan_of_the_147m_sweep_is_one_pass_whose_interruption_costs_two_minutes():
    plan = read_plan(ROOT / "scripts" / "measure" / "sweeps" / "147m.toml")
    assert [run.stem for run in plan.runs] == [
        "ours_gamma0.9-seed0", "even-seed0", "even-seed1", "even-seed2", "bpe-seed0", "bpe-seed1", "bpe-seed2",
        "hnet_port-seed0", "policy_x20-seed0", "policy_x20-seed1", "policy_x20-seed2", "dynamic_pooling_port-seed0",
    ]  # fmt: skip
    assert plan.preset == "147m" and plan.full
    configs = {run.name: plan.config(run, {}) for run in plan.runs}
    config, train = configs["ours_gamma0.9"], configs["ours_gamma0.9"].train
    assert config.num_updates == 151_854 // 128 == 1186 and train.training_bytes == 151_854 * 4096
    assert config.objective.gamma == 0.9 and config.data.cut == "full_windows" and train.micro_batch == 32
    assert config.model.rule.target_rate == preset("147m").model.rule.target_rate == 0.2  # as in the 32m sweep
    small = read_plan(ROOT / "scripts" / "measure" / "sweeps" / "32m.toml")
    (bpe,) = (small.config(run, {}) for run in small.runs if (run.name, run.seed) == ("bpe", 0))
    assert configs["bpe"].model.rule.fit_bytes == bpe.model.rule.fit_bytes  # one tokenizer for both sizes
    assert (configs["hnet_port"].model.rule.name, configs["hnet_port"].model.rule.variant) == ("hnet", "port")
    speed = next(each for each in measured_speeds() if (each["preset"], each["backend"]) == ("147m", "triton"))
    assert 90 < train.checkpoint_every * config.bytes_per_update / speed["bytes_per_second"] < 150
    evaluations = config.num_updates // train.evaluate_every + 2
    forward = 1 / 3  # of what an update takes for as many bytes
    assert forward * evaluations * train.evaluate_rows / (config.num_updates * train.sequences_per_update) < 0.03
    assert config.num_updates // train.log_every + 1 <= 200  # points that a record keeps


def test_the_same_pull_is_a_weight_that_makes_up_for_smaller_advantages():
    plan = read_plan(ROOT / "scripts" / "measure" / "sweeps" / "32m.toml")
    run = next(run for run in plan.runs if run.same_pull_as)
    records = {f"{name}-seed0": record(name) for name in ("ours", "ours_gamma0.9")}
    for point in records["ours_gamma0.9-seed0"]["curve"]:
        point["advantage_rms"] = 0.5 if point["step"] > 10 else 99.0  # the first half does not count
    config = plan.config(run, records)
    assert config.objective.lambda_policy == pytest.approx(0.01 * 2.0 / 0.5)
    assert config.objective.gamma == 0.9
    with pytest.raises(RltokError, match="takes a number from ours-seed0, which has no finished record"):
        plan.config(run, {})


def test_settings_of_a_failed_run_can_be_read_back(plan, monkeypatch, clean_tree):
    monkeypatch.setattr(runner, "train", lambda *_, **__: (_ for _ in ()).throw(TrainingFailed("too little memory")))
    with pytest.raises(KeyError):  # a sweep of failures alone is none
        call(run_sweep.main, plan, "--only", "even", monkeypatch=monkeypatch)
    stored = read_record(plan.parent / "records" / "small" / "even-seed0.json")
    assert stored["failed"] == "too little memory"
    assert stored["config_hash"] == with_settings(preset("tiny_even"), SMALL | {"name": "x"}).digest()


def test_trouble_that_is_not_the_runs_stops_the_sweep_and_leaves_no_record(plan, monkeypatch, clean_tree):
    monkeypatch.setattr(runner, "train", lambda *_, **__: (_ for _ in ()).throw(RltokError("another process is training")))
    with pytest.raises(RltokError, match="another process"):
        call(run_sweep.main, plan, "--only", "even", monkeypatch=monkeypatch)
    assert list((plan.parent / "records" / "small").iterdir()) == []


def test_a_run_whose_model_failed_is_left_out_and_the_others_are_run(plan, monkeypatch, clean_tree):
    train = runner.train

    def failing(config, *rest, **more):
        if config.name == "tiny_even":
            raise TrainingFailed("too little memory")
        return train(config, *rest, **more)

    monkeypatch.setattr(runner, "train", failing)
    plan.write_text(plan.read_text().replace("[[run]]", '[[run]]\nname = "last"\nvariant = "even"\nseeds = [1]\n[[run]]', 1))
    with pytest.raises(RltokError, match="not run: ours_as_even-seed0"):
        call(run_sweep.main, plan, "--only", "even", "ours_as_even", "last", monkeypatch=monkeypatch)
    names = sorted(path.name for path in (plan.parent / "records" / "small").iterdir())
    assert names == ["even-seed0.json", "last-seed1.json"]


def test_code_that_nobody_could_look_up_is_refused_before_anything_is_trained(plan, monkeypatch):
    monkeypatch.setenv("RLTOK_COMMIT", "1" * 40 + "+changes")
    with pytest.raises(RltokError, match=r"the code is at 1+\+changes, which nobody could look up again"):
        call(run_sweep.main, plan, monkeypatch=monkeypatch)
    assert not (plan.parent / "runs").exists()


def test_records_on_other_validation_text_are_not_gone_on_with(plan, monkeypatch, clean_tree):
    (plan.parent / "other.txt").write_bytes(TEXT[::-1])
    call(run_sweep.main, plan, "--only", "even", monkeypatch=monkeypatch)
    with pytest.raises(RltokError, match="is of other settings, text or benchmarks"):
        call(run_sweep.main, plan, "--only", "even", "--validation", str(plan.parent / "other.txt"), monkeypatch=monkeypatch)


@pytest.mark.parametrize("trouble", ["no run", "other test text", "training text"])
def test_scoring_says_when_it_cannot_score(plan, monkeypatch, clean_tree, trouble):
    given = plan.parent / "test.txt"
    given.write_bytes(TEXT[::-1])
    validation = ("--validation", str(plan.parent / "text2.txt"))
    (plan.parent / "text2.txt").write_bytes(TEXT[100:1500])
    if trouble != "no run":
        call(run_sweep.main, plan, "--only", "even", *validation, monkeypatch=monkeypatch)
    text = {
        "no run": "no run was scored",
        "other test text": "was scored on another test text",
        "training text": "is the training",
    }
    if trouble == "other test text":
        call(score_test.main, plan, "--data", str(given), monkeypatch=monkeypatch)
        given.write_bytes(TEXT[::-1] + b"more of it, for a while")
    data = plan.parent / "text.txt" if trouble == "training text" else given
    with pytest.raises(RltokError, match=text[trouble]):
        call(score_test.main, plan, "--data", str(data), monkeypatch=monkeypatch)


def test_the_plan_of_the_schedule_takes_its_parts_from_that_of_the_large_run():
    """Learning rate, bytes of warm-up and rows: both parts, then each alone, all else as at 32M."""
    sweeps = ROOT / "scripts" / "measure" / "sweeps"
    plan, large, small = (read_plan(sweeps / f"{name}.toml") for name in ("schedule", "147m", "32m"))

    def parts(config):
        warm = config.train.warmup_fraction * config.num_updates * config.bytes_per_update / 1e6
        return (config.train.learning_rate, round(warm)), config.train.sequences_per_update

    big, own = (parts(next(one.config(run, {}) for run in one.runs if run.name == "ours_gamma0.9")) for one in (large, small))
    low, late = (big[0][0], own[0][1]), (own[0][0], big[0][1])
    assert [parts(plan.config(run, {})) for run in plan.runs] == [
        big, (big[0], own[1]), (own[0], big[1]), (low, own[1]), (late, own[1])
    ]  # fmt: skip
    same = {"name", "train.training_bytes", "train.learning_rate", "train.warmup_fraction", "train.sequences_per_update"}
    usual = next(small.config(run, {}) for run in small.runs if run.name == "ours_gamma0.9")
    for run in plan.runs:
        config = plan.config(run, {})
        kept = {key: getattr(usual.train, key.removeprefix("train.")) for key in same if key.startswith("train.")}
        assert with_settings(config, kept | {"name": usual.name}) == usual
        assert config.num_updates * config.bytes_per_update == config.train.training_bytes  # all end after as much text


def test_the_slow_plan_is_that_of_32m_with_the_learning_rate_of_the_large_run():
    sweeps = ROOT / "scripts" / "measure" / "sweeps"
    plan, large, small = (read_plan(sweeps / f"{name}.toml") for name in ("32m_slow", "147m", "32m"))
    assert {run.name for run in plan.runs} == {"ours_gamma0.9", "even", "bpe", "hnet_port"} <= {run.name for run in large.runs}
    assert all({run.seed for run in plan.runs if run.name == name} == {0, 1, 2} for name in {run.name for run in plan.runs})
    big = large.config(large.runs[0], {})
    for run in plan.runs:
        config = plan.config(run, {})
        usual = next(small.config(one, {}) for one in small.runs if (one.name, one.seed) == (run.name, run.seed))
        kept = {f"train.{key}": getattr(usual.train, key) for key in ("learning_rate", "warmup_fraction")}
        assert with_settings(config, kept) == usual and config.train.learning_rate == big.train.learning_rate
        warm = [one.train.warmup_fraction * one.num_updates * one.bytes_per_update / 1e6 for one in (config, big)]
        assert round(warm[0]) == round(warm[1])


def test_the_plan_of_fp16_has_300_updates_of_the_usual_run_and_differs_in_precision_alone():
    sweeps = ROOT / "scripts" / "measure" / "sweeps"
    plan, small = (read_plan(sweeps / f"{name}.toml") for name in ("32m_fp16", "32m"))
    usual = next(small.config(run, {}) for run in small.runs if run.name == "ours_gamma0.9")
    for run in plan.runs:
        config = plan.config(run, {})
        assert config.num_updates == 300 and config.num_updates * config.bytes_per_update == config.train.training_bytes
        own = {f"train.{key}": getattr(usual.train, key)
               for key in ("precision", "training_bytes", "evaluate_every", "checkpoint_every", "seed")}  # fmt: skip
        assert with_settings(config, own | {"name": usual.name}) == usual
    made = {(run.name, run.seed): plan.config(run, {}).train.precision for run in plan.runs}
    both = {"ours_gamma0.9": "bf16", "ours_gamma0.9_fp16": "fp16"}
    assert made == {(name, seed): precision for name, precision in both.items() for seed in (0, 1, 2)}
