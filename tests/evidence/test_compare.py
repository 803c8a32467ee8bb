"""`rltok compare`: who competes, on what, what is paired with what, and what a second call does not do again."""

import json
import shutil
import sys
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
from rltok.evidence.methods import MATCHED_RANDOM, RULES, SMOKE_UPDATES, named_methods
from rltok.evidence.packed import read_folder
from rltok.evidence.plan import Planned
from rltok.flops import flops_per_byte
from rltok.runs.checkpoint import checkpoints
from rltok.runs.loading import load, load_config
from rltok.runs.snapshots import boundary_view
from rltok.system.stopwatch import duration

pytestmark = pytest.mark.usefixtures("shapes_unchecked", "short_snapshots")
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
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("rltok.runs.snapshots.FIXED_TEXTS", {"multilingual": FIXED_TEXTS["multilingual"]})
        assert main(command(folder, folder / "out", "--seeds", "0", "1", "--json")) == 0
    jaxtyping.config.update("jaxtyping_disable", False)
    return folder / "out"


def records_in(out: Path) -> dict[str, dict]:
    """The records by name of the run, each entry checked."""
    return {Path(name).stem: record for name, record in read_folder(out / "records", any_commit=True).items()}


def standings_in(out: Path) -> list[dict]:
    """The lines of the table, without times; no number in them is not finite."""
    content = json.loads((out / "compare.json").read_text(), parse_constant=pytest.fail)["standings"]
    return [line | {"seconds": 0} for line in content]


def refused(words, capsys) -> str:
    """The one line in which a command is refused."""
    assert main([str(word) for word in words]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    return line


# What comes out.


def test_every_run_leaves_the_record_of_a_sweep(compared):
    records = records_in(compared)
    assert records.keys() == {f"{name}-seed{seed}" for name in NAMES for seed in (0, 1)}
    for stem, record in records.items():
        config = load_config(compared / stem)
        assert (config.digest(), config.to_dict()) == (record["config_hash"], record["config"])
        assert (record["sweep"], record["full"], record["scores"]["test"]) == ("out", False, None)
        assert [point["step"] for point in record["curve"]] == [2, 4, 6, 8]
        assert record.get("rate_of") == ("whitespace" if record["name"] == "random_k_as_whitespace" else None)


def test_the_last_snapshot_of_a_record_is_cut_as_the_stored_model_cuts_it(compared):
    for name in ("learned", "whitespace"):
        seen = boundary_view(load(compared / f"{name}-seed1"), FIXED_TEXTS["multilingual"], seed=1)
        last = records_in(compared)[f"{name}-seed1"]["snapshots"][-1]
        assert last["step"] == 8
        assert [int(bit) for bit in last["multilingual"]["boundaries"]] == seen["boundaries"] and 0 < sum(seen["boundaries"])


def test_a_runs_folder_is_an_ordinary_one(compared, capsys):
    assert main(["show", str(compared / "bpe-seed1"), "The cat sat"]) == 0
    assert "boundaries in 11 bytes" in capsys.readouterr().out
    assert json.loads((compared / "bpe-seed1" / "record.json").read_text())["full"] is False


def test_scores_are_those_of_the_stored_models_on_the_validation_rows_with_the_draws_of_the_runs_seed(compared):
    config, score = load_config(compared / "learned-seed1"), records_in(compared)["learned-seed1"]["scores"]["validation"]
    corpus = load_corpus(compared.parent / "text.txt", config.data)
    result = evaluate(load(compared / "learned-seed1"), corpus.validation, seed=1, batch=4)
    assert {key: score[key] for key in result.to_dict()} == json.loads(json.dumps(result.to_dict()))
    (line,) = (line for line in standings_in(compared) if line["name"] == "whitespace")
    runs = [records_in(compared)[f"whitespace-seed{seed}"] for seed in (0, 1)]
    tokens = [run["tokens"] / run["bytes"] for run in runs]
    assert line["flops_per_byte"] == pytest.approx(flops_per_byte(config.model, sum(tokens) / 2), rel=0.01)
    bits = [run["scores"]["validation"]["bits_per_byte"] for run in runs]
    assert line["bits_per_byte"]["bits"] == pytest.approx(sum(bits) / 2, rel=1e-5)


def test_rate_matched_random_places_are_as_many_as_the_rules_tokens(compared):
    records = records_in(compared)
    for seed in (0, 1):
        random, rule = (
            records[f"{name}-seed{seed}"]["scores"]["validation"]["tokens_per_byte"]
            for name in ("random_k_as_whitespace", "whitespace")
        )  # fmt: skip
        assert random == pytest.approx(rule, abs=1 / 64)
        assert records[f"random_k_as_whitespace-seed{seed}"]["config"]["model"]["rule"]["target_rate"] == rule


def test_what_the_user_reads_runs_first_then_the_table(tmp_path, capsys):
    assert main(command(tmp_path, tmp_path / "out", rules=["bpe", "learned"])) == 0
    out, err = capsys.readouterr()
    read, *lines = err.splitlines()
    assert read.startswith("training text: 1 text file (text.txt): ")
    assert lines[0].startswith("2 runs of 8 updates") and lines[0].endswith("1 at a time")
    assert [line.split()[0] for line in lines[2:]] == ["1/2", "2/2"]
    head, *table = out.lstrip().splitlines()
    assert [name for name in COLUMNS if name not in head] == [] and "a smoke run" in out
    assert [line.split()[0] for line in table[:2]] == ["bpe", "learned"] and len({len(line) for line in [head, *table[:2]]}) == 1
    assert "bpe, seed 0: the text supports" in out and " of 400 ids" in out
    assert (tmp_path / "out" / "compare.png").read_bytes().startswith(b"\x89PNG")
    assert (duration(41), duration(130), duration(7300)) == ("41 s", "2 min", "2.0 h")


# Going on.


def test_resume_leaves_finished_runs_alone_and_goes_on_with_the_others(compared, tmp_path, capsys, monkeypatch):
    out = shutil.copytree(compared, tmp_path / "out")
    (out / "records" / "bpe-seed0.json").unlink()  # as if it had been interrupted after its first checkpoint
    (out / "records" / "whitespace-seed1.json").unlink()
    (out / "bpe-seed0" / "record.json").unlink()
    for late in checkpoints(out / "bpe-seed0")[1:]:
        shutil.rmtree(late)
    shutil.rmtree(out / "whitespace-seed1")
    before, wanted, trained = digests(out / "learned-seed0"), standings_in(compared), []
    kept = (out / "records" / "learned-seed0.json").read_bytes()
    real = runner.train
    monkeypatch.setattr(runner, "train", lambda *given, **named: trained.append(given[2].name) or real(*given, **named))
    assert main(command(compared.parent, out, "--seeds", "0", "1", "--resume")) == 0
    assert trained == ["bpe-seed0", "whitespace-seed1"]
    assert (digests(out / "learned-seed0"), (out / "records" / "learned-seed0.json").read_bytes()) == (before, kept)
    assert "learned, seed 0" in (err := capsys.readouterr().err) and "was finished" in err
    assert standings_in(out) == wanted


def test_a_rule_more_is_added_and_one_less_is_left_out_of_the_table(compared, tmp_path):
    out = shutil.copytree(compared, tmp_path / "out")
    assert main(command(compared.parent, out, "--resume", rules=["even", "whitespace"])) == 0
    assert [(line["name"], line["seeds"]) for line in standings_in(out)] == [("even", [0]), ("whitespace", [0])]
    assert records_in(out).keys() == records_in(compared).keys() | {"even-seed0"}


MISTAKES = {
    "settings": (["--set", "train.learning_rate=0.1"], "train.learning_rate 0.006 -> 0.1"),
    "budget": (["--budget", "full"], "train.evaluate_rows"),
    "less_text": (["--max-bytes", "6000"], "was trained with other train text"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistaken_resume_is_refused_with_what_differs_and_changes_no_file(mistake, compared, tmp_path, capsys, monkeypatch):
    more, text = MISTAKES[mistake]
    out, settings = shutil.copytree(compared, tmp_path / "out"), SMALL
    if mistake == "budget":  # which the settings would decide
        settings = {key: value for key, value in SMALL.items() if key != "train.evaluate_rows"}
    monkeypatch.setattr(compare, "run_plan", pytest.fail)
    before = digests(out)
    assert text in refused([*command(compared.parent, out, "--resume", settings=settings), *more], capsys)
    assert digests(out) == before


def test_a_comparison_begun_with_resume_and_stopped_at_once_can_be_gone_on_with(tmp_path, capsys, monkeypatch):
    def stopped(*_):
        raise RltokError("stopped")

    monkeypatch.setattr(compare, "run_plan", stopped)
    words = command(tmp_path, tmp_path / "out", "--resume", rules=["even"])
    assert [main(words), main(words)] == [2, 2] and capsys.readouterr().err.count("rltok: stopped") == 2


@pytest.mark.parametrize(
    ("content", "message"),
    [('{"what": "my own notes"}', "is no summary of rltok compare, so it stays"), ("[1]", "is no summary of rltok compare")],
)
def test_a_foreign_file_of_that_name_stays_as_it_is(content, message, tmp_path, capsys):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "compare.json").write_text(content)
    line = refused(command(tmp_path, tmp_path / "out", "--resume"), capsys)
    assert message in line and "another --out" in line
    assert (tmp_path / "out" / "compare.json").read_text() == content


def test_a_record_that_was_changed_or_is_of_another_split_is_named(compared, tmp_path, capsys, monkeypatch):
    out = shutil.copytree(compared, tmp_path / "out")
    path = out / "records" / "learned-seed0.json"
    path.write_text(path.read_text().replace('"seed": 0', '"seed": 3', 1))
    monkeypatch.setattr(compare, "run_plan", pytest.fail)
    assert "records/learned-seed0.json: it was changed" in refused(command(compared.parent, out, "--resume"), capsys)
    path.unlink()
    path.mkdir()
    assert "learned-seed0.json is a folder. Put" in refused(command(compared.parent, out, "--resume"), capsys)


def test_processes_give_the_same_numbers(compared, tmp_path):
    assert main([*command(tmp_path, tmp_path / "out", rules=["learned", "bpe"])[:-1], "train.micro_batch=4", "--jobs", "2"]) == 0
    for stem, record in records_in(tmp_path / "out").items():
        one, two = (each["scores"]["validation"]["bits_per_byte"] for each in (record, records_in(compared)[stem]))
        assert one == pytest.approx(two, abs=1e-4)


def test_a_failure_in_a_worker_process_is_shown_as_it_is(compared, tmp_path):
    config = load_config(compared / "learned-seed0")
    corpus = load_corpus(compared.parent / "text.txt", config.data)
    (tmp_path / "learned-seed0").write_text("a file")
    setting = runner.Setting("x", corpus, {"validation": corpus.validation}, "cpu", False, tmp_path, tmp_path / "records")
    with pytest.raises(RltokError, match="is a file"), runner.workers(2, setting) as run:
        list(run([(Planned("learned", 0), config)]))


def test_there_are_no_more_processes_than_runs(tmp_path, monkeypatch, capsys):
    def no_run(plan, runs, setting, records, count):
        raise RltokError(f"{len(runs)} runs, {count} at a time")

    monkeypatch.setattr(compare, "run_plan", no_run)
    assert main(command(tmp_path, tmp_path / "out", "--jobs", 2**31 - 1, rules=["even", "learned"])) == 2
    assert "2 runs, 2 at a time\n" in capsys.readouterr().err


# Mistakes.


@pytest.mark.parametrize(
    ("more", "message"),
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
def test_a_mistake_is_named_before_anything_is_trained_or_written(more, message, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(compare, "run_plan", pytest.fail)
    assert main([*command(tmp_path, tmp_path / "new" / "out"), *more]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "new").exists()


def test_a_folder_that_is_taken_needs_resume_and_a_foreign_one_is_no_place(compared, tmp_path, capsys):
    assert "is not empty. Add --resume" in refused(command(tmp_path, compared), capsys)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "note.txt").write_text("mine")
    assert "holds no comparison" in refused(command(tmp_path, tmp_path / "mine", "--resume"), capsys)
    assert "Name it with --out" in refused(["compare", "--resume"], capsys)


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("", "--out is empty. Name a folder"),
        (" ", "--out is empty. Name a folder"),
        ("text.txt", "is a file; --out needs a folder"),
        ("text.txt/x", "/text.txt is a file; --out needs a folder"),
        ("/proc/x/y", "cannot write to /proc/x/y (No such file or directory). Choose a folder you may write to with --out"),
        ("a" * 300, "(File name too long). Name another folder"),
    ],
)
def test_a_place_where_nothing_can_be_written_is_named_before_anything_is_trained(place, message, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(compare, "run_plan", pytest.fail)
    out = tmp_path / place if place.strip() else place
    assert message in refused(command(tmp_path, out), capsys)
    assert [entry.name for entry in tmp_path.iterdir()] == ["text.txt"]


def test_without_tokenizers_the_extra_is_named_before_anything_is_trained(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    monkeypatch.setattr(compare, "run_plan", pytest.fail)
    assert main(command(tmp_path, tmp_path / "out")) == 2
    assert "pip install 'rltok[bpe]'" in capsys.readouterr().err


def test_without_a_preset_rows_and_budget_are_fitted_to_a_small_text(tmp_path, monkeypatch):
    plans = []

    def no_run(plan, *_):
        plans.append(plan)
        raise RltokError("enough")

    monkeypatch.setattr(compare, "run_plan", no_run)
    assert main(["compare", "--data", write_text(tmp_path, TEXT), "--out", str(tmp_path / "out"), "--json"]) == 2
    base = plans[0].base(plans[0].runs[0])
    assert base.data.sequence_length == 128 and base.num_updates == SMOKE_UPDATES
    assert [run.name for run in plans[0].runs] == named_methods(["all"]) == [*RULES, *MATCHED_RANDOM]
