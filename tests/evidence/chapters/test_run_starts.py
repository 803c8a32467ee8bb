"""rltok.evidence.chapters.ch06_starts: the start of a run beside a finished one, and what is refused."""

import json

import pytest
from paths import ROOT
from sweeps import record, sweep_of

from rltok.errors import RltokError
from rltok.evidence.chapters.ch06_starts import agreement_table, apart, beside, starts_table, views
from rltok.evidence.partial_runs import NEEDED, read_start
from rltok.evidence.schema import SCHEMA, START
from rltok.system.digest import with_digest

DATA = {"name": "text", "train": {"hash": "ab"}}
STORED = ROOT / "notebooks" / "results"


def start(seed=1, **other):
    """What a run of another seed has logged after 6 of 20 updates."""
    like = record("ours", seed, white=0.25)
    points = {"curve": like["curve"][:6], "held_out": like["held_out"][:2], "snapshots": like["snapshots"][2:3]}
    kept = {key: like[key] for key in ("sweep", "name", "seed", "config", "config_hash", "commit", "device")}
    named = {"bytes": 6000, "updates": 6, "sessions": [{"commit": like["commit"]}], "data": DATA}
    return with_digest({"schema": SCHEMA, "what": START, "note": "", **named, **kept, **points} | other)


def finished(seed=0, **other):
    """A finished run of another seed, on the same text."""
    return record("ours", seed, **other) | {"updates": 20, "data": DATA}


def test_both_are_told_at_the_evaluations_that_they_share(tmp_path):
    run = finished(white=0.75)
    run["held_out"] = [point for point in run["held_out"] if point["step"] != 1]
    rows = [row.strip("| ").split(" | ") for row in starts_table(start(), run).splitlines()]
    assert rows[0] == ["MB read", *(f"{what}, seed {seed}" for what in ("white space", "entropy, nats", "bits per byte")
                                    for seed in (0, 1))]  # fmt: skip
    assert len(rows) == 3 and rows[2][1:] == ["0.75", "0.25", "0.100", "0.100", "2.700", "2.700"]


def test_boundaries_stand_beside_each_other_after_the_same_updates():
    run = finished()
    names = ["seed 0, after update 5 (0 MB)", "seed 1, after update 5 (0 MB)", "seed 0, after update 20 (0 MB)"]
    assert list(views(start(), run)) == names
    run["snapshots"] = [shot for shot in run["snapshots"] if shot["step"] != 5]
    with pytest.raises(RltokError, match="no snapshot at the update"):
        views(start(), run)


def test_agreement_is_counted_text_by_text():
    run, other = finished(), start()
    size = len(other["snapshots"][0]["prose"]["boundaries"])
    first, second = run["snapshots"][2]["prose"], run["snapshots"][3]["prose"]
    run["snapshots"] = [{"step": 5, "prose": first | {"boundaries": "1100" + "0" * (size - 4)}},
                        {"step": 20, "prose": second | {"boundaries": "1110" + "0" * (size - 4)}}]  # fmt: skip
    other["snapshots"] = [{"step": 5, "prose": first | {"boundaries": "0110" + "0" * (size - 4)}}]
    rows = [row.strip("| ").split(" | ") for row in agreement_table(other, run).splitlines()]
    assert rows[0][1:] == ["seed 0 and seed 1, both then", "seed 0 then and at its end"]
    assert rows[2:] == [["prose", "0.50", "0.80"]]  # 2 * 1 / (2 + 2), 2 * 2 / (2 + 3)


def test_settings_or_text_that_differ_in_more_than_the_seed_are_refused():
    for other in ({"model.rule.lags": 3}, {"objective.gamma": 0.5}):
        for made in (starts_table, views):
            with pytest.raises(RltokError, match="other settings or text"):
                made(start(), finished(**other))
    with pytest.raises(RltokError, match="other settings or text"):
        starts_table(start(data={"name": "text", "train": {"hash": "else"}}), finished())


def test_what_cannot_be_compared_is_told_in_words():
    assert apart(start(), finished()) == ""
    assert apart(start(), None) == "There is no finished run to set beside the start of ours, seed 1, sweep 32m."
    other = finished(**{"objective.gamma": 0.5})
    assert apart(start(), other).startswith("The run of ours, seed 0, is of other settings")
    assert "has the seed of the start" in apart(start(seed=0), finished())
    bare = finished()
    bare["snapshots"] = [
        {text: {"boundaries": "1"} if text != "step" else shot[text] for text in shot} for shot in bare["snapshots"]
    ]
    assert "keeps no texts" in apart(start(), bare)
    early = start(held_out=[point | {"step": 0} for point in record("ours")["held_out"][:1]])
    assert "no evaluation at the same update" in apart(early, finished())


def test_the_run_set_beside_is_the_first_that_fits(tmp_path):
    path = tmp_path / "start_32m.json"
    assert beside(path, None) == (None, None, "There is no start of a second run: start_32m.json is not stored.")
    path.write_text(json.dumps(start()))
    odd, good = finished(**{"objective.gamma": 0.5}), finished(seed=2)
    assert beside(path, sweep_of(odd, good))[1:] == (good, "")
    assert beside(path, sweep_of(odd))[1] == odd and "other settings" in beside(path, sweep_of(odd))[2]
    assert beside(path, sweep_of(record("even")))[1:] == (None, apart(start(), None))
    assert beside(path, None)[1:] == (None, apart(start(), None))


def test_a_rule_without_a_policy_has_no_entropy():
    mine, other = finished(), start()
    for one in (mine, other):
        one["held_out"] = [point | {"policy_entropy": None} for point in one["held_out"]]
    rows = [row.strip("| ").split(" | ") for row in starts_table(other, mine).splitlines()[2:]]
    assert rows and all(row[3:5] == ["-", "-"] for row in rows)


def test_a_file_that_is_no_start_of_a_run_is_refused(tmp_path):
    path = tmp_path / "start.json"
    path.write_text(json.dumps(start()))
    assert read_start(path) == start()
    even = record("even", 1)
    dirty = "0" * 40 + "+changes"
    for content, why in (
        (start() | {"bytes": 7}, "digest differs"),
        (start(commit=dirty), "none that can be looked up"),
        (start(sessions=[{"commit": dirty}, {"commit": "0" * 40}]), "none that can be looked up"),
        (start(commit=7), "none that can be looked up"),
        (start(what="rltok evidence"), "no record of rltok start"),
        (start(schema=2), "this version reads 1"),
        (start(config=even["config"], config_hash=even["config_hash"]), "those of the rule even"),
        (start(config={key: value for key, value in start()["config"].items() if key != "name"}), "not whole"),
        (start(config_hash="0"), "its configuration has"),
        (with_digest(start() | {"seed": 7}), "seed is 7, its configuration has another"),
        (start(data={}), "no hash"),
        (start(snapshots=[]), "no snapshot"),
        (start(config=None), "configuration cannot be read|of another kind"),
        *((with_digest({key: value for key, value in start().items() if key != lost}), f"lacks {lost}") for lost in NEEDED),
    ):
        path.write_text(json.dumps(content))
        with pytest.raises(RltokError, match=why):
            read_start(path)
    for text, why in (("[]", "no record of rltok start"), ("{", "no JSON"), ('{"a": NaN}', "no JSON")):
        path.write_text(text)
        with pytest.raises(RltokError, match=why):
            read_start(path)
    with pytest.raises(RltokError, match="missing"):
        read_start(tmp_path / "nothing.json")


@pytest.mark.parametrize("path", sorted(STORED.glob("start_*.json")), ids=lambda path: path.stem)
def test_a_stored_start_is_whole(path):
    stored = read_start(path)
    assert stored["curve"][-1]["bytes"] == stored["bytes"] and stored["curve"][-1]["step"] == stored["updates"]
