"""`rltok compare`: who competes, on what, what is paired with what, and what a second call does not do again."""

import json
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import jaxtyping
import pytest
from runs import SETTINGS, TEXT, as_options, digests, write_text

from rltok.cli import compare
from rltok.cli.main import main
from rltok.data import load_corpus
from rltok.data.fixed_texts import FIXED_TEXTS
from rltok.errors import RltokError
from rltok.evaluation import evaluate
from rltok.evidence import runner
from rltok.evidence.compare import RECORD
from rltok.evidence.methods import RULES, SMOKE_UPDATES, TWINS, base_config, contender, contenders
from rltok.evidence.ranking import table
from rltok.evidence.runner import SCORE, fit_flops_per_byte, mean_of_last_fifth, workers
from rltok.flops import flops_per_byte
from rltok.runs.checkpoint import checkpoints
from rltok.runs.loading import load, load_config
from rltok.runs.snapshots import boundary_view
from rltok.system.stopwatch import duration

pytestmark = pytest.mark.usefixtures("shapes_unchecked")
SMALL = SETTINGS | {"model.rule.entropy_dim": 32, "model.rule.vocabulary": 400, "train.micro_batch": 4}
NAMES = ["learned", "whitespace", "random_k_as_whitespace", "bpe"]
COLUMNS = ("bits per byte", "minus learned", "rate", "tokens/byte", "white space", "MFLOPs/byte", "seconds")


def command(folder: Path, out: Path, *more, rules=NAMES, settings=SMALL) -> list[str]:
    """A comparison of small runs."""
    text = write_text(folder, TEXT * 3)
    words = ["compare", "--rules", *rules, "--data", text, "--preset", "tiny", "--out", out, "--device", "cpu", "--jobs", 1]
    return [str(word) for word in [*words, *as_options(settings), *more]]


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    """A finished comparison of two seeds: its folder. For looking at only."""
    folder = tmp_path_factory.mktemp("compared")
    jaxtyping.config.update("jaxtyping_disable", True)
    assert main(command(folder, folder / "out", "--seeds", "0", "1", "--json")) == 0
    jaxtyping.config.update("jaxtyping_disable", False)
    return folder / "out"


def record_in(out: Path) -> dict:
    """The record, which holds no number that is not finite."""
    return json.loads((out / RECORD).read_text(), parse_constant=pytest.fail)


# What comes out.


def test_the_table_has_a_line_for_every_rule_and_a_column_for_every_number(compared):
    lines = table(record_in(compared)["standings"])
    assert [name for name in COLUMNS if name not in lines[0]] == []
    assert [line.split()[0] for line in lines[1 : len(NAMES) + 1]] == ["learned", "whitespace", "bpe", "random_k_as_whitespace"]
    assert len({len(line) for line in lines[: len(NAMES) + 1]}) == 1


def test_the_record_names_settings_data_device_versions_and_every_run(compared):
    record = record_in(compared)
    assert record.keys() >= {
        "schema",
        "what",
        "config",
        "config_hash",
        "commit",
        "device",
        "versions",
        "data",
        "runs",
        "standings",
    }
    assert (record["finished"], record["full"], record["split"]) == (True, False, "validation")
    assert [(run["name"], run["seed"]) for run in record["runs"]] == [
        (name, seed) for seed in (0, 1) for name in contenders(NAMES)
    ]
    for run in record["runs"]:
        config = load_config(compared / run["folder"])
        assert (config.digest(), config.to_dict()["model"]["rule"]) == (run["config_hash"], run["rule"])
        assert [point["step"] for point in run["curve"]] == [2, 4, 6, 8]
        assert run["evaluation"]["bits_per_byte"] > 0 and "row_bits_per_byte" not in run
        assert {name: len(text["boundaries"]) for name, text in run["texts"].items()} == {
            name: len(text.encode()) for name, text in FIXED_TEXTS.items()
        }


def test_the_texts_of_a_record_are_cut_as_the_stored_model_cuts_them(compared):
    for name in ("learned", "whitespace"):
        run = next(run for run in record_in(compared)["runs"] if run["folder"] == f"{name}-seed1")
        seen = boundary_view(load(compared / run["folder"]), FIXED_TEXTS["multilingual"], seed=1)
        text = run["texts"]["multilingual"]
        assert [int(bit) for bit in text["boundaries"]] == seen["boundaries"] and 0 < sum(seen["boundaries"])
        assert (text["probabilities"] is None) == (seen["probabilities"] is None) == (name == "whitespace")
        if name == "learned":
            assert text["probabilities"] == pytest.approx(seen["probabilities"], abs=0.0051)


def test_a_runs_folder_is_an_ordinary_one(compared, capsys):
    assert main(["show", str(compared / "bpe-seed1"), "The cat sat"]) == 0
    assert "boundaries in 11 bytes" in capsys.readouterr().out
    assert json.loads((compared / "bpe-seed1" / "record.json").read_text())["full"] is False


def test_scores_are_those_of_the_stored_models_on_the_validation_rows(compared):
    run = next(run for run in record_in(compared)["runs"] if run["folder"] == "whitespace-seed1")
    config = load_config(compared / run["folder"])
    corpus = load_corpus(compared.parent / "text.txt", config.data)
    found = evaluate(load(compared / run["folder"]), corpus.validation, seed=1, batch=4)
    assert run["evaluation"] == json.loads(json.dumps(found.to_dict()))
    lines = runner.training_lines(compared / run["folder"])
    tokens = sum(line["tokens_per_byte"] for line in lines) / len(lines)
    assert run["flops_per_byte"] == pytest.approx(flops_per_byte(config.model, tokens))


def test_a_twin_draws_as_many_tokens_as_its_rule(compared):
    tokens = {(run["name"], run["seed"]): run["evaluation"]["tokens_per_byte"] for run in record_in(compared)["runs"]}
    for seed in (0, 1):
        assert tokens["random_k_as_whitespace", seed] == pytest.approx(tokens["whitespace", seed], abs=1 / 64)


def test_the_rate_reached_is_the_mean_over_the_last_fifth():
    lines = [{"step": step, "rate": float(step)} for step in range(1, 11)]
    assert mean_of_last_fifth(lines, "rate") == 9.5
    assert mean_of_last_fifth([{"step": 1, "rate": 0.3}], "rate") == 0.3


def test_fitting_the_entropy_model_costs_flops_too():
    base = base_config("tiny", {}, budget="smoke", seed=0)
    config = contender(base, "tiny", "entropy", {})
    frozen = 2 * (4 * 64**2 + 6 * 64**2) + 257 * 64
    assert fit_flops_per_byte(config) == pytest.approx(6 * frozen / 3, rel=1e-4)
    assert fit_flops_per_byte(contender(base, "tiny", "bpe", {})) == 0


def test_what_the_user_is_told_time_first_then_runs_then_the_table(tmp_path, capsys):
    assert main(command(tmp_path, tmp_path / "out", rules=["bpe", "even"])) == 0
    out, err = capsys.readouterr()
    read, *lines = err.splitlines()
    assert read.startswith("training text: 1 text file (text.txt): ")
    assert lines[0].startswith("2 runs of 8 updates") and lines[1].startswith("expected time: about ")
    assert [line.split()[0] for line in lines[3:]] == ["1/2", "2/2"]
    assert out.lstrip().startswith("rule ") and "a smoke run" in out
    assert "bpe, seed 0: the text supports" in out and " of 400 ids" in out
    assert (tmp_path / "out" / "compare.png").read_bytes().startswith(b"\x89PNG")
    assert (duration(41), duration(130), duration(7300)) == ("41 s", "2 min", "2.0 h")


# Going on.


def test_resume_leaves_finished_runs_alone_and_goes_on_with_the_others(compared, tmp_path, capsys, monkeypatch):
    out = shutil.copytree(compared, tmp_path / "out")
    kept = out / "learned-seed0"
    (out / "bpe-seed0" / SCORE).unlink()  # as if it had been interrupted after its first checkpoint
    for late in checkpoints(out / "bpe-seed0")[1:]:
        shutil.rmtree(late)
    shutil.rmtree(out / "whitespace-seed1")
    before, wanted, trained = digests(kept), record_in(compared), []
    real = runner.train
    monkeypatch.setattr(runner, "train", lambda *given, **named: trained.append(given[2].name) or real(*given, **named))
    assert main(command(compared.parent, out, "--seeds", "0", "1", "--resume")) == 0
    assert trained == ["bpe-seed0", "whitespace-seed1"]
    assert digests(kept) == before
    assert "learned, seed 0" in (err := capsys.readouterr().err) and "was finished" in err
    for one, other in zip(record_in(out)["standings"], wanted["standings"], strict=True):
        assert {**one, "seconds": 0} == {**other, "seconds": 0}


def test_a_score_of_other_settings_or_of_another_text_or_a_damaged_one_is_none(compared):
    folder = compared / "learned-seed0"
    config = load_config(folder)
    corpus = load_corpus(compared.parent / "text.txt", config.data)
    setting = runner.Setting(corpus, corpus.validation, "cpu", False)
    assert runner.stored_result(("learned", config, folder), setting)["seed"] == 0
    other = replace(config, train=replace(config.train, seed=5))
    assert runner.stored_result(("learned", other, folder), setting) is None
    assert runner.stored_result(("learned", config, folder), replace(setting, rows=corpus.train)) is None
    fewer = replace(corpus, train=corpus.train.subset(slice(0, 20)))
    assert runner.stored_result(("learned", config, folder), replace(setting, corpus=fewer)) is None
    assert runner.stored_result(("learned", config, compared), setting) is None


def test_resume_with_other_settings_is_refused(compared, tmp_path, capsys):
    out = shutil.copytree(compared, tmp_path / "out")
    assert main(command(compared.parent, out, "--resume", settings=SMALL | {"train.learning_rate": 0.1})) == 2
    assert "learning_rate" in capsys.readouterr().err


def test_processes_give_the_same_numbers(compared, tmp_path):
    assert main([*command(tmp_path, tmp_path / "out", rules=["learned", "bpe"])[:-1], "train.micro_batch=4", "--jobs", "2"]) == 0
    one, two = (record_in(place) for place in (compared, tmp_path / "out"))
    found = {run["name"]: run["evaluation"]["bits_per_byte"] for run in two["runs"]}
    for run in one["runs"]:
        if run["seed"] == 0 and run["name"] in found:
            assert found[run["name"]] == pytest.approx(run["evaluation"]["bits_per_byte"], abs=1e-4)


def test_a_failure_in_a_worker_process_is_told_as_it_is(compared):
    config = load_config(compared / "learned-seed0")
    corpus = load_corpus(compared.parent / "text.txt", config.data)
    setting = runner.Setting(corpus, corpus.validation, "cpu", False)
    with pytest.raises(RltokError, match="is a file"), workers(2, setting) as run:
        list(run([("learned", config, compared / RECORD)]))


# Mistakes.


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (["--rules", "spaces"], "there is no rule 'spaces'"),
        (["--rules", "hnett"], "Did you mean 'hnet'? Known: all, learned, even, random_k, whitespace, entropy, bpe"),
        (["--rules", "random_k_as_bpe"], "Name bpe in --rules too"),
        (["--budget", "huge"], "there is no budget 'huge'. Use smoke or full"),
        (["--preset", "tiny_hnet"], "is no size: 147m, 90m"),
        (["--set", "model.rule.target_rate=1.5"], "target_rate must lie strictly between 0 and 1"),
        (["--set", "model.rule.name=even"], "model.rule.name is what the comparison sets itself"),
        (["--set", "train.seed=1"], "Use --rules and --seeds"),
        (["--jobs", "0"], "--jobs must be at least 1; got 0"),
        (["--split", "test"], "has no test split"),
        (["--set", "train.sequences_per_update=4096", "train.training_bytes=300000"], "less than one batch of 4096"),
    ],
)  # fmt: skip
def test_a_mistake_is_told_before_anything_is_trained_or_written(more, told, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(compare, "run_all", pytest.fail)
    assert main([*command(tmp_path, tmp_path / "out"), *more]) == 2
    assert told in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_folder_that_is_taken_needs_resume_and_a_foreign_one_is_no_place(compared, tmp_path, capsys):
    assert main(command(tmp_path, compared)) == 2
    assert "is not empty. Add --resume" in capsys.readouterr().err
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "note.txt").write_text("mine")
    assert main(command(tmp_path, tmp_path / "mine", "--resume")) == 2
    assert "holds no comparison" in capsys.readouterr().err
    assert main(command(tmp_path, tmp_path / "text.txt")) == 2
    assert "is a file; --out needs a folder" in capsys.readouterr().err
    assert main(["compare", "--resume"]) == 2
    assert "Name it with --out" in capsys.readouterr().err


def test_without_tokenizers_the_extra_is_named_before_anything_is_trained(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    monkeypatch.setattr(compare, "run_all", pytest.fail)
    assert main(command(tmp_path, tmp_path / "out")) == 2
    assert "pip install 'rltok[bpe]'" in capsys.readouterr().err


def test_without_a_preset_rows_and_budget_are_fitted_to_a_small_text(tmp_path, monkeypatch):
    given = []
    monkeypatch.setattr(compare, "run_all", lambda comparison, *_: given.append(comparison) or [])
    monkeypatch.setattr(compare, "estimated_seconds", lambda *_: 0.0)
    monkeypatch.setattr(compare, "_draw", lambda *_: None)
    text = write_text(tmp_path, TEXT)
    assert main(["compare", "--data", text, "--out", str(tmp_path / "out"), "--json"]) == 0
    assert given[0].bases[0].data.sequence_length == 128 and given[0].bases[0].num_updates == SMOKE_UPDATES
    assert len(given[0].names) == len(RULES) + len(TWINS)
