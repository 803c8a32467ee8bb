"""`rltok compare`, handled wrongly: a mistaken `--resume`, damaged scores, places that are none, odd texts."""

import json
import shutil
from dataclasses import replace

import jaxtyping
import pytest
from runs import SETTINGS, TEXT, digests
from test_compare import SMALL, command

from rltok.cli import compare
from rltok.cli.main import main
from rltok.data import load_corpus
from rltok.errors import RltokError
from rltok.evidence import runner
from rltok.evidence.compare import RECORD
from rltok.evidence.methods import base_config, contender
from rltok.evidence.ranking import evaluation_of
from rltok.evidence.runner import SCORE, Setting, stored_result
from rltok.runs.loading import load_config

pytestmark = pytest.mark.usefixtures("shapes_unchecked")
RULES = ["even", "whitespace"]


@pytest.fixture(scope="module")
def finished_one(tmp_path_factory):
    """A finished comparison of two rules, seed 0: its folder. For looking at only."""
    folder = tmp_path_factory.mktemp("faults")
    jaxtyping.config.update("jaxtyping_disable", True)
    assert main(command(folder, folder / "out", "--json", rules=RULES)) == 0
    jaxtyping.config.update("jaxtyping_disable", False)
    return folder / "out"


@pytest.fixture
def out(finished_one, tmp_path):
    """A copy of the finished comparison."""
    return shutil.copytree(finished_one, tmp_path / "out")


def setting_of(finished_one) -> Setting:
    """What the runs of the finished comparison share."""
    corpus = load_corpus(finished_one.parent / "text.txt", load_config(finished_one / "even-seed0").data)
    return Setting(corpus, corpus.validation, "cpu", False)


def edit(path, **values):
    """Change entries of a JSON file."""
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


def refused(words, capsys) -> str:
    """The one line in which a command is refused."""
    assert main([str(word) for word in words]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    return line


# A mistaken --resume.

MISTAKES = {
    "settings": (["--set", "train.learning_rate=0.1"], "train.learning_rate 0.006 -> 0.1"),
    "budget": (["--budget", "full"], "--budget 'smoke' -> 'full'"),
    "less_text": (["--max-bytes", "6000"], "--data, train text '"),
    "a_rule_less": (["--rules", "even"], "finished runs that this call leaves out. Name them as well: --rules whitespace, or"),
    "another_seed": (["--seeds", "1"], "Name them as well: --seeds 0, or"),
}


@pytest.mark.parametrize(
    ("mistake", "finished"), [*((name, True) for name in MISTAKES), ("settings", False), ("less_text", False)]
)
def test_a_mistaken_resume_is_told_what_differs_and_changes_no_file(mistake, finished, out, capsys, monkeypatch):
    more, told = MISTAKES[mistake]
    monkeypatch.setattr(compare, "run_all", pytest.fail)
    edit(out / RECORD, finished=finished)
    before = digests(out)
    line = refused([*command(out.parent, out, "--resume", rules=RULES), *more], capsys)
    assert told in line and "choose another --out" in line
    assert digests(out) == before


def test_another_split_is_another_comparison(out, capsys):
    edit(out / RECORD, split="test")
    line = refused(command(out.parent, out, "--resume", rules=RULES), capsys)
    assert "--split 'test' -> 'validation'" in line


def test_a_rule_more_is_added_and_the_finished_record_stays_until_then(out, monkeypatch):
    before, seen = (out / RECORD).read_bytes(), []
    real = compare.run_all
    monkeypatch.setattr(compare, "run_all", lambda *given: seen.append((out / RECORD).read_bytes()) or real(*given))
    assert main(command(out.parent, out, "--resume", "--json", rules=[*RULES, "learned"])) == 0
    record = json.loads((out / RECORD).read_text())
    assert seen == [before]
    assert (record["finished"], record["rules"], record["seeds"]) == (True, [*RULES, "learned"], [0])
    assert len(record["runs"]) == 3


def test_the_stub_of_a_comparison_under_way_says_who_was_asked_for(tmp_path, monkeypatch):
    seen = []
    monkeypatch.setattr(
        compare, "run_all", lambda comparison, *_: seen.append((comparison.out / RECORD).read_text()) or []
    )  # fmt: skip
    monkeypatch.setattr(compare, "_draw", lambda *_: None)
    monkeypatch.setattr(compare, "estimated_seconds", lambda *_: 0.0)
    assert main(command(tmp_path, tmp_path / "out", "--seeds", "3", "1", "--json", rules=RULES)) == 0
    stub = json.loads(seen[0])
    assert (stub["finished"], stub["rules"], stub["seeds"]) == (False, RULES, [3, 1])


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ('{"what": "my own notes"}', "is no record of rltok compare, so it stays"),
        ("[1, 2]", "is no record of rltok compare, so it stays"),
        ('{"what": "rltok compare: x", "schema": 2}', "has schema 2; this version reads 1"),
        ('{"what": "rltok compare: x", "schema": 1}', "is damaged (KeyError('config')). Restore it"),
        ('{"what": "rlt', "is damaged, and no run of a comparison stands beside it"),
    ],
)
def test_a_foreign_record_stays_as_it_is(content, told, tmp_path, capsys):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / RECORD).write_text(content)
    line = refused(command(tmp_path, tmp_path / "out", "--resume", rules=RULES), capsys)
    assert told in line and "another --out" in line
    assert (tmp_path / "out" / RECORD).read_text() == content


def test_a_half_written_record_beside_runs_is_written_again(out):
    wanted = json.loads((out / RECORD).read_text())
    (out / RECORD).write_text('{"what": "rlt')
    assert main(command(out.parent, out, "--resume", "--json", rules=RULES)) == 0
    assert json.loads((out / RECORD).read_text())["standings"] == wanted["standings"]


# Damaged scores.


def damaged(found: dict, path: str, value) -> dict:
    """A score with the entry at a dotted path changed, or, with `...`, left out."""
    *sections, last = path.split(".")
    place = found = json.loads(json.dumps(found))
    for section in sections:
        place = place[section]
    place[last] = value
    if value is ...:
        del place[last]
    return found


SCORED = [
    "name", "seed", "folder", "rule", "micro_batch", "config_hash", "evaluation", "last_fifth_rate", "flops_per_byte", "seconds",
    "updates", "bytes", "fitted", "curve", "texts", "row_bits_per_byte", "evaluation.rate", "evaluation.rows",
    "evaluation.bits_per_byte", "evaluation.class_rates", "evaluation.tokens_per_byte", "rule.vocabulary",
]  # fmt: skip


def test_a_score_that_lacks_a_part_or_has_one_of_another_type_counts_as_none(finished_one, out):
    folder, config = out / "whitespace-seed0", load_config(out / "whitespace-seed0")
    setting = setting_of(finished_one)
    job, whole = ("whitespace", config, folder), json.loads((folder / SCORE).read_text())
    assert stored_result(job, setting) == whole
    changes = [(path, value) for path in SCORED for value in (..., None, "x", [1], {"a": {}})]
    changes += [("row_bits_per_byte", ["1"] * len(setting.rows)), ("seconds", 10**400), ("seconds", float("nan")), ("seed", 1)]
    changes += [
        ("evaluation.tokens_per_byte", 0),
        ("evaluation.foreign", 1),
        ("fitted", {"x": "y"}),
        ("rule.scale", float("inf")),
    ]
    changes += [("evaluation." + key, value) for key in ("class_counts", "documents") for value in (None, "x", [1], {"a": {}})]
    changes += [("evaluation.standard_error_documents", "x"), ("evaluation.document_bits", [1.0])]
    changes += [("name", "even"), ("folder", "even-seed0"), ("curve", [{"step": 1}]), ("curve", [1])]
    for path, value in changes:
        (folder / SCORE).write_text(json.dumps(damaged(whole, path, value)))
        assert stored_result(job, setting) is None, (path, value)


def test_a_score_from_before_documents_were_counted_still_counts(finished_one, out):
    folder, config = out / "whitespace-seed0", load_config(out / "whitespace-seed0")
    older = json.loads((folder / SCORE).read_text())
    for key in ("documents", "standard_error_documents", "class_counts"):
        del older["evaluation"][key]
    (folder / SCORE).write_text(json.dumps(older))
    assert stored_result(("whitespace", config, folder), setting_of(finished_one)) == older
    assert evaluation_of(older).documents == 0


def test_a_damaged_score_is_scored_again(out):
    wanted = json.loads((out / "even-seed0" / SCORE).read_text())
    edit(out / "even-seed0" / SCORE, evaluation={})
    assert main(command(out.parent, out, "--resume", "--json", rules=RULES)) == 0
    assert json.loads((out / "even-seed0" / SCORE).read_text()) == wanted


@pytest.mark.parametrize("name", [f"even-seed0/{SCORE}", compare.FIGURE, RECORD])
def test_a_folder_in_the_place_of_a_file_is_named(name, out, capsys, monkeypatch):
    monkeypatch.setattr(compare, "run_all", pytest.fail)
    (out / name).unlink()
    (out / name).mkdir()
    assert f"{out / name} is a folder. Put" in refused(command(out.parent, out, "--resume", rules=RULES), capsys)


# Places.


@pytest.mark.parametrize(
    ("place", "told"),
    [
        ("", "--out is empty. Name a folder"),
        (" ", "--out is empty. Name a folder"),
        ("text.txt/x", "/text.txt is a file; --out needs a folder"),
        ("/proc/x/y", "cannot write to /proc/x/y (No such file or directory). Choose a folder you may write to with --out"),
        ("a" * 300, "(File name too long). Name another folder"),
    ],
)
def test_a_place_where_nothing_can_be_written_is_told_before_anything_is_timed(place, told, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(compare, "estimated_seconds", pytest.fail)
    out = tmp_path / place if place.strip() else place
    assert told in refused(command(tmp_path, out, rules=RULES), capsys)
    assert [entry.name for entry in tmp_path.iterdir()] == ["text.txt"]


def test_a_mistake_found_later_leaves_no_empty_folder(tmp_path, capsys):
    assert main([*command(tmp_path, tmp_path / "new" / "out", rules=RULES), "--split", "test"]) == 2
    assert not (tmp_path / "new").exists()


# Numbers and rules.


def test_there_are_no_more_processes_than_runs(tmp_path, monkeypatch):
    counts = []
    monkeypatch.setattr(compare, "run_all", lambda comparison, setting, count, say: counts.append(count) or [])
    monkeypatch.setattr(compare, "_draw", lambda *_: None)
    monkeypatch.setattr(compare, "estimated_seconds", lambda *_: 0.0)
    assert main(command(tmp_path, tmp_path / "out", "--json", "--jobs", 2**31 - 1, rules=RULES)) == 0
    assert counts == [2]


@pytest.mark.parametrize("settings", [{"model.rule.target_rate": 0.999}, {"train.micro_batch": 1}])
def test_limits_of_the_learned_rule_hold_only_where_it_competes(settings):
    for names in (["even"], ["hnet", "bpe"]):
        base = base_config("tiny", settings, budget="smoke", seed=0, names=names)
        assert contender(base, "tiny", names[0], settings).model.rule.name == names[0]
    with pytest.raises(RltokError):
        base_config("tiny", settings, budget="smoke", seed=0, names=["even", "learned"])


def test_the_base_of_the_same_contender_is_the_same_whoever_competes():
    one, other = (base_config("tiny", SETTINGS, budget="smoke", seed=0, names=names) for names in (["even"], ["learned", "even"]))
    assert contender(one, "tiny", "even", {}) == contender(other, "tiny", "even", {})


def test_time_is_told_of_a_text_that_starts_with_bytes_that_are_no_characters(tmp_path):
    settings = SMALL | {"model.rule.fit_bytes": 1_000_000}
    config = contender(base_config("tiny", settings, budget="smoke", seed=0), "tiny", "bpe", settings)
    text = tmp_path / "odd.txt"
    text.write_bytes(b"\xff\xfe" * 32 * runner.PROBE_ROWS + TEXT)
    corpus = load_corpus(text, replace(config.data, held_out_fraction=0.01), allow_binary=True)
    setting = Setting(corpus, corpus.validation, "cpu", False)
    assert runner.estimated_seconds([("bpe", config, tmp_path / "run")], setting, 1) > 0
