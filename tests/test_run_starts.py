"""rltok.run_starts: the start of a run beside a finished one, and what is refused."""

import json
from pathlib import Path

import pytest
from sweeps import record

from rltok.errors import RltokError
from rltok.evidence_format import SCHEMA, START
from rltok.run_starts import agreement_table, apart, read_start, starts_html, starts_table
from rltok.seal import sealed

STORED = Path(__file__).resolve().parents[1] / "notebooks" / "results"


def start(seed=1, **other):
    """What a run of another seed has logged after 6 of 20 updates."""
    like = record("ours", seed, white=0.25)
    points = {"curve": like["curve"][:6], "held_out": like["held_out"][:2], "snapshots": like["snapshots"][2:3]}
    kept = {key: like[key] for key in ("sweep", "name", "seed", "config", "config_hash", "commit", "device", "data")}
    return sealed({"schema": SCHEMA, "what": START, "note": "", "bytes": 6000, "updates": 6, **kept, **points} | other)


def test_both_are_told_at_the_evaluations_that_they_share(tmp_path):
    run = record("ours", 0, white=0.75) | {"updates": 20}
    run["held_out"] = [point for point in run["held_out"] if point["step"] != 1]
    rows = [row.strip("| ").split(" | ") for row in starts_table(start(), run).splitlines()]
    assert rows[0] == ["MB read", *(f"{what}, seed {seed}" for what in ("white space", "entropy, nats", "bits per byte")
                                    for seed in (0, 1))]  # fmt: skip
    assert len(rows) == 3 and rows[2][1:] == ["0.75", "0.25", "0.100", "0.100", "2.700", "2.700"]


def test_boundaries_stand_beside_each_other_after_the_same_updates():
    run = record("ours", 0) | {"updates": 20}
    shown = starts_html(start(), run, characters=20)
    names = ("seed 0, after update 5 (0 MB)", "seed 1, after update 5 (0 MB)", "seed 0, after update 20 (0 MB)")
    assert all(shown.count(f"<strong>{name}</strong>") == 1 for name in names)
    run["snapshots"] = [shot for shot in run["snapshots"] if shot["step"] != 5]
    with pytest.raises(RltokError, match="no snapshot at the update"):
        starts_html(start(), run)


def test_agreement_is_counted_text_by_text():
    run, other = record("ours", 0) | {"updates": 20}, start()
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
        for made in (starts_table, starts_html):
            with pytest.raises(RltokError, match="other settings or text"):
                made(start(), record("ours", 0, **other) | {"updates": 20})
    with pytest.raises(RltokError, match="other settings or text"):
        starts_table(start(data={"name": "text", "train": {"hash": "else"}}), record("ours"))


def test_what_cannot_be_compared_is_told_in_words():
    assert apart(start(), record("ours", 0)) == ""
    assert apart(start(), None) == "There is no finished run to set beside the start of ours, seed 1, sweep 32m."
    assert apart(start(), record("ours", 0, **{"objective.gamma": 0.5})).startswith(
        "The run of ours, seed 0, is of other settings"
    )


def test_a_file_that_is_no_start_of_a_run_is_refused(tmp_path):
    path = tmp_path / "start.json"
    path.write_text(json.dumps(start()))
    assert read_start(path) == start()
    for text, why in (
        (json.dumps(start() | {"bytes": 7}), "digest differs"),
        (json.dumps(start(commit="0" * 40 + "+changes")), "cannot be looked up"),
        (json.dumps(start(what="rltok evidence")), "no rltok start"),
        (json.dumps(start(schema=2)), "schema 1"),
        ("[]", "no rltok start"),
        ("{", "no JSON"),
    ):
        path.write_text(text)
        with pytest.raises(RltokError, match=why):
            read_start(path)
    with pytest.raises(RltokError, match="missing"):
        read_start(tmp_path / "nothing.json")


@pytest.mark.parametrize("path", sorted(STORED.glob("start_*.json")), ids=lambda path: path.stem)
def test_a_stored_start_is_whole(path):
    found = read_start(path)
    assert found["curve"][-1]["bytes"] == found["bytes"] and found["curve"][-1]["step"] == found["updates"]
