"""rltok.evidence.export: what a record of a finished run holds, against the run itself, and that its test score comes once."""

import json
from datetime import UTC, date, datetime, timedelta

import numpy as np
import pytest
from paths import BUNDLED
from runs import TEXT, json_lines, small_config, write_text

import rltok
from rltok.benchmarks.task_items import read_items
from rltok.data import load_corpus
from rltok.data.documents import Document
from rltok.data.rows import cut_documents
from rltok.errors import RltokError
from rltok.evaluation import evaluate
from rltok.evidence.export import add_test, evidence_of, failure_of, split_score, start_of
from rltok.evidence.figures import probabilities
from rltok.evidence.packed import pack, read_folder
from rltok.evidence.record_file import check, write_record
from rltok.flops import attention_flops_per_byte, flops_per_byte
from rltok.runs.loading import load
from rltok.runs.snapshots import boundary_view
from rltok.system.digest import with_digest


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A finished run's folder, its corpus, and other text to test it on."""
    place = tmp_path_factory.mktemp("run")
    corpus = load_corpus(write_text(place), small_config().data)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RLTOK_COMMIT", "2" * 40)
        rltok.train(small_config(), corpus, place / "run", device="cpu")
    test = cut_documents([Document(TEXT[::-1][:700], "", "")], 64, "windows", name="test")
    return place / "run", corpus, test


@pytest.fixture(scope="module")
def record(run):
    folder, corpus, _ = run
    tasks = {"piqa": read_items("piqa", BUNDLED, expected=False)}
    return evidence_of(
        folder, sweep="s", name="ours", rows={"validation": corpus.validation}, tasks=tasks, device="cpu", max_items=3
    )  # fmt: skip


def test_a_record_is_whole_under_its_digest_and_the_same_after_json(record):
    assert check(json.loads(json.dumps(record)), "here") == record
    assert (record["sweep"], record["name"], record["commit"]) == ("s", "ours", "2" * 40)


def test_a_record_and_that_of_a_failure_say_on_which_day_they_were_made(record):
    named = {"commit": "3" * 40, "device": "cpu", "versions": {}, "data": {}}
    failed = failure_of(small_config(), sweep="s", name="ours", why="loss nan", **named)
    for made in (record, failed):
        then = datetime.combine(date.fromisoformat(made["date"]), datetime.min.time(), UTC)
        assert timedelta(0) <= datetime.now(UTC) - then < timedelta(days=2)  # midnight may pass in between


def test_its_score_is_that_of_evaluate(run, record):
    folder, corpus, _ = run
    result = evaluate(load(folder), corpus.validation, seed=0, batch=2)
    score = record["scores"]["validation"]
    assert score["bits_per_byte"] == pytest.approx(result.bits_per_byte, rel=1e-6)
    assert score["hash"] == corpus.validation.hash
    assert record["scores"]["piqa"]["items"] == len(record["scores"]["piqa"]["item_bits_per_byte"]) == 3


def test_curves_carry_the_flops_of_the_tokens_drawn_so_far(run, record):
    model = small_config().model
    lines = [line for line in json_lines(run[0] / "metrics.jsonl") if line["split"] == "validation"]
    assert [point["step"] for point in record["held_out"]] == [line["step"] for line in lines]
    for point in record["held_out"][1:]:
        rate = point["tokens"] / point["bytes"]
        assert point["flops"] == pytest.approx(point["bytes"] * flops_per_byte(model, rate), rel=1e-6)
        assert point["attention_flops"] == pytest.approx(point["bytes"] * attention_flops_per_byte(model, rate, 64), rel=1e-6)
    assert record["held_out"][0]["flops"] == 0


def test_samples_are_held_out_text_with_the_models_own_boundaries(run, record):
    folder, corpus, _ = run
    model = load(folder)
    for sample in record["samples"]:
        text = sample["text"].encode("latin-1")
        assert text == bytes(corpus.validation.bytes_[sample["row"]])[: len(text)]
        view = boundary_view(model, text, 0)
        assert sample["boundaries"] == "".join(map(str, view["boundaries"]))
        assert probabilities(sample, len(text)) == pytest.approx(view["probabilities"], abs=0.011)


def test_units_are_documents_where_there_are_enough_and_else_rows(run):
    model = load(run[0])
    many = cut_documents([Document(TEXT[i : i + 100], "", "") for i in range(25)], 64, "windows", name="many")
    few = cut_documents([Document(TEXT[:700], "", "")], 64, "windows", name="few")
    for rows, unit, count in ((many, "documents", 25), (few, "rows", 11)):
        result = evaluate(model, rows, seed=0, batch=4)
        score = split_score(result, rows)
        assert (score["unit"], len(score["unit_bits"]), len(score["unit_bytes"])) == (unit, count, count)
        assert sum(score["unit_bits"]) / sum(score["unit_bytes"]) == pytest.approx(result.bits_per_byte, rel=1e-5)
        assert sum(score["unit_bytes"]) == result.scored_bytes  # end marks are predicted, too


def test_a_run_is_scored_on_test_once_and_by_its_own_folder(run, record, tmp_path):
    folder, corpus, test = run
    scored = add_test(record, folder, test, device="cpu")
    check(scored, "here")
    assert record["scores"]["test"] is None  # the record given is left alone
    score = evaluate(load(folder), test, seed=0, batch=2)
    assert scored["scores"]["test"]["bits_per_byte"] == pytest.approx(score.bits_per_byte, rel=1e-6)
    with pytest.raises(RltokError, match="ours, seed 0, was scored on the test split before"):
        add_test(scored, folder, test, device="cpu")
    other = small_config(objective__gamma=0.5)
    rltok.train(other, corpus, tmp_path / "other", device="cpu")
    with pytest.raises(RltokError, match="holds another run than the record of ours, seed 0"):
        add_test(record, tmp_path / "other", test, device="cpu")


def test_a_run_with_a_range_of_rates_is_scored_at_each_of_three_and_as_usual_at_its_target_rate(run, record, tmp_path):
    _, corpus, test = run
    config = small_config(model__rule__lowest_rate=0.15, model__rule__highest_rate=0.5)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RLTOK_COMMIT", "2" * 40)
        rltok.train(config, corpus, tmp_path / "run", device="cpu")
    named = {"sweep": "s", "name": "policy_x20_any_rate", "tasks": {}, "device": "cpu"}
    made = evidence_of(tmp_path / "run", rows={"validation": corpus.validation}, **named)
    assert made["rates"]["test"] is None and "rates" not in record
    scored = add_test(made, tmp_path / "run", test, device="cpu")
    for split, rows in (("validation", corpus.validation), ("test", test)):
        each = scored["rates"][split]
        assert [one["target_rate"] for one in each] == [0.333333, 0.2]  # 1/8 is outside
        for one in each:
            result = evaluate(rltok.load(tmp_path / "run", rate=one["target_rate"]), rows, seed=0, batch=2)
            assert one["bits_per_byte"] == pytest.approx(result.bits_per_byte, rel=1e-6) and one["hash"] == rows.hash
            assert (one["rate"], one["tokens_per_byte"]) == (result.rate, result.tokens_per_byte)
        own = scored["scores"][split]
        assert each[1]["bits_per_byte"] == own["bits_per_byte"] != each[0]["bits_per_byte"]
    stored = check(json.loads(json.dumps(scored)), "here")
    assert stored == scored
    damaged = with_digest({**stored, "rates": {"validation": [{"target_rate": 0.2}], "test": None}})
    with pytest.raises(RltokError, match=r"rates\.validation"):
        check(damaged, "here")
    at_both = stored["rates"]["validation"]
    for validation, wrong in (
        (at_both[:1] * 2, "outside its range, or at one twice"),
        ([at_both[0] | {"target_rate": 0.6}], "outside its range, or at one twice"),
        ([at_both[0] | {"hash": "another"}], "validation is not the same text at all rates"),
    ):
        with pytest.raises(RltokError, match=wrong):
            check(with_digest({**stored, "rates": stored["rates"] | {"validation": validation}}), "here")
    with pytest.raises(RltokError, match="test is scored at its target rate alone"):
        check(with_digest({**stored, "rates": stored["rates"] | {"test": None}}), "here")
    for other, wrong in (
        ({key: value for key, value in stored.items() if key != "rates"}, "it has no scores at several rates, unlike"),
        ({**record, "rates": {"validation": [], "test": None}}, "it has scores at several rates, unlike its settings"),
    ):
        with pytest.raises(RltokError, match=wrong):
            check(with_digest(other), "here")
    (tmp_path / "kept").mkdir()
    write_record(tmp_path / "kept" / "policy_x20_any_rate-seed0.json", scored)
    pack(tmp_path / "kept")
    assert list(read_folder(tmp_path / "kept").values()) == [scored]


def test_snapshots_of_seed_0_keep_texts_and_probabilities(run, record):
    lines = [json.loads(line) for line in (run[0] / "snapshots.jsonl").read_text().splitlines()]
    assert [shot["step"] for shot in record["snapshots"]] == [line["step"] for line in lines]
    kept, made = record["snapshots"][-1]["code"], lines[-1]["texts"]["code"]
    assert kept["boundaries"] == "".join(map(str, made["boundaries"]))
    assert np.allclose(probabilities(kept, len(made["probabilities"])), made["probabilities"], atol=0.011)


def test_a_failed_run_leaves_a_record_with_its_settings():
    named = {"commit": "2" * 40, "device": "cpu", "versions": {}, "data": {}}
    failed = failure_of(small_config(), sweep="s", name="ours", why="loss nan", **named)
    assert check(failed, "here")["failed"] == "loss nan"


@pytest.fixture
def cut(run, tmp_path):
    """The folder of the same run as it was after four updates, without its checkpoints."""
    folder = tmp_path / "cut"
    folder.mkdir()
    for name in ("config.json", "data.json", "sessions.jsonl"):
        (folder / name).write_text((run[0] / name).read_text())
    for name in ("metrics.jsonl", "snapshots.jsonl"):
        lines = (run[0] / name).read_text().splitlines(keepends=True)
        (folder / name).write_text("".join(line for line in lines if json.loads(line)["step"] <= 4))
    return folder


def test_a_start_holds_what_the_whole_run_says_of_its_first_updates(run, record, cut):
    start = start_of(cut, sweep="s", name="ours", why="the lamp went out")
    assert start["curve"] == [point for point in record["curve"] if point["step"] <= 4] and len(start["curve"]) == 2
    assert start["held_out"] == [point for point in record["held_out"] if point["step"] <= 4]
    same = ("config", "config_hash", "data", "commit", "device", "seed", "sessions")
    assert {key: start[key] for key in same} == {key: record[key] for key in same}
    assert (start["updates"], start["note"]) == (4, "the lamp went out") and start["bytes"] == record["curve"][1]["bytes"]
    assert start["snapshots"] == [shot for shot in record["snapshots"] if shot["step"] <= 4][-1:] != []


def test_a_half_written_line_is_left_out_as_resuming_does(cut):
    whole = start_of(cut, sweep="s", name="ours", why="")
    for name in ("metrics.jsonl", "snapshots.jsonl"):
        with (cut / name).open("ab") as file:
            file.write(b'{"step": 5, "split": "train", "by\xff')
    assert start_of(cut, sweep="s", name="ours", why="") == whole


def test_a_finished_run_is_no_start_and_one_without_a_line_neither(run, cut, tmp_path):
    for folder, why in ((run[0], "finished run"), (tmp_path / "nowhere", "no run's folder"), (tmp_path, "no run's folder")):
        with pytest.raises(RltokError, match=why):
            start_of(folder, sweep="s", name="ours", why="")
    with pytest.raises(RltokError, match="those of the rule learned"):
        start_of(cut, sweep="s", name="even", why="")
    for name, text, why in (
        ("metrics.jsonl", "", "no line of training"),
        ("sessions.jsonl", "", "no session"),
        ("snapshots.jsonl", "", "no snapshot"),
        ("metrics.jsonl", "{}\n", "damaged"),
        ("metrics.jsonl", '{"split": "train"}\n', "damaged"),
        ("snapshots.jsonl", '{"step": 1}\n', "damaged"),
        ("data.json", "[]", "damaged"),
        ("data.json", "{}", "no hash"),
        ("config.json", "{", "damaged"),
        ("metrics.jsonl", None, "missing"),
        ("snapshots.jsonl", None, "missing"),
        ("data.json", None, "missing"),
    ):
        kept = (cut / name).read_bytes()
        (cut / name).unlink() if text is None else (cut / name).write_text(text)
        with pytest.raises(RltokError, match=why):
            start_of(cut, sweep="s", name="ours", why="")
        (cut / name).write_bytes(kept)
    lines = [json.loads(line) | {"commit": "2" * 40 + "+changes"} for line in (cut / "sessions.jsonl").read_text().splitlines()]
    (cut / "sessions.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    with pytest.raises(RltokError, match="not clean when the run began.*cannot be kept"):
        start_of(cut, sweep="s", name="ours", why="")
