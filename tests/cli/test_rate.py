"""--rate, and `rltok.load(rate=)`: a model for a range of rates is used at the one that is chosen, from a run and from a file."""

import json
from dataclasses import replace

import pytest
from paths import BUNDLED
from runs import TEXT, small_config, write_text

import rltok
from rltok.benchmarks.sets import TASKS
from rltok.cli.main import main
from rltok.data.documents import Document
from rltok.data.rows import cut_documents
from rltok.evaluation import evaluate
from rltok.generation import generate

pytestmark = pytest.mark.usefixtures("quick")
RATES = (0.1, 0.2, 0.5)
SHOWN = TEXT[:200].decode()


@pytest.fixture(scope="module")
def ranged(quick, tmp_path_factory):
    """A finished run whose policy has a range of rates, as a folder and as a file."""
    folder = tmp_path_factory.mktemp("ranged")
    config = small_config(model__rule__lowest_rate=0.1, model__rule__highest_rate=0.5)
    rltok.train(config, write_text(folder), folder / "run")
    return folder / "run", rltok.export(folder / "run", folder / "model.safetensors")


def views(run, *arguments):
    return json.loads(run("show", *arguments, SHOWN, "--json").out)


@pytest.mark.parametrize("place", [0, 1], ids=["run", "file"])
def test_show_draws_at_the_rate_and_at_the_target_rate_without_one(place, ranged, run):
    counts = []
    for rate in RATES:
        view = views(run, ranged[place], "--rate", rate)
        assert {key: view[key] for key in ("boundaries", "probabilities")} == rltok.boundary_view(
            rltok.load(ranged[place], rate=rate), SHOWN, 0
        )
        counts.append(sum(view["boundaries"]))
    assert counts == sorted(counts) and counts[0] < 40 < 70 < counts[2]  # about 20 and 100 of 200
    assert views(run, ranged[place]) == views(run, ranged[place], "--rate", "1/5")


def test_evaluate_scores_at_the_rate_and_says_which_it_is(ranged, run, tmp_path):
    text = write_text(tmp_path, TEXT[:400])
    scores = [json.loads(run("evaluate", ranged[0], "--data", text, "--rate", rate, "--json").out) for rate in RATES]
    rates = [score["rate"] for score in scores]
    assert rates == sorted(rates) and rates[0] < 0.16 and rates[2] > 0.4
    assert [score["target_rate"] for score in scores] == list(RATES)
    said = run("evaluate", ranged[0], "--data", text, "--rate", "1/8")
    assert "rate 0.125, of a range from 0.1 to 0.5 (--rate)" in said.err.splitlines()
    assert "one draw with seed 0, target rate 0.125\n" in said.out
    rows = cut_documents([Document(TEXT[:400], "", "")], 64, "windows", name="text")
    alone = evaluate(rltok.load(ranged[0], rate=0.5), rows, seed=0, batch=16)
    assert scores[2]["bits_per_byte"] == pytest.approx(alone.bits_per_byte, rel=1e-6)


@pytest.mark.parametrize(("rule", "target"), [("even", 0.25), ("whitespace", None)])
def test_without_a_rate_evaluate_names_that_of_training_where_the_rule_has_one(rule, target, run, tmp_path, monkeypatch):
    monkeypatch.setitem(TASKS, "lambada", replace(TASKS["lambada"], count=20))
    text = write_text(tmp_path)
    rltok.train(small_config(model__rule__name=rule, model__rule__target_rate=0.25), text, tmp_path / "run")
    tasks = ("--tasks", BUNDLED, "--task", "lambada", "--max-items", 2)
    for words in (("--data", text), tasks):
        assert json.loads(run("evaluate", tmp_path / "run", *words, "--json").out)["target_rate"] == target
        assert ("target rate 0.25" in run("evaluate", tmp_path / "run", *words).out) == (target is not None)


def test_generate_goes_on_at_the_rate(ranged, run):
    written = run("generate", ranged[0], "The cat", "--bytes", 60, "--rate", 0.5, "--json")
    (sample,) = json.loads(written.out)["samples"]
    (row,) = generate(rltok.load(ranged[0], rate=0.5), ["The cat"], max_bytes=60)
    assert bytes(sample["bytes"]) == row.data and sample["boundaries"] == list(map(int, row.boundaries))
    assert sum(sample["boundaries"]) > 20


@pytest.mark.parametrize("command", ["show", "evaluate", "generate"])
def test_a_rate_that_cannot_be_had_is_refused_in_one_line(command, ranged, finished, run):
    for rate in ("0.05", "0.51", "1/20", "5", "NaN", "1" + 400 * "0"):
        assert "this model was trained for rates from 0.1 to 0.5; got" in run(command, ranged[0], "--rate", rate, code=2).err
    assert "got 0.5000000001. Choose" in run(command, ranged[0], "--rate", "0.5000000001", code=2).err
    assert "trained for one rate of boundaries, so 0.2 cannot" in run(command, finished, "--rate", 0.2, code=2).err


@pytest.mark.parametrize("word", ["x", "true", "1/0", "[1]", ""])
def test_a_word_that_is_no_rate_is_refused_in_one_line(word, ranged, capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["show", str(ranged[0]), "--rate", word])
    error = capsys.readouterr().err
    assert error.startswith("rltok: argument --rate: ") and error.count("\n") == 1
    assert f"{word!r} is no number of boundaries per byte, such as 0.125 or 1/8" in error
