"""rltok.evidence.records: a record is what it was when it was made, and differences are paired by seed and document."""

import json
import math

import numpy as np
import pytest
from sweeps import UNITS, record, seeds_of, sweep_of, write

from rltok.errors import RltokError
from rltok.evidence.differences import gap
from rltok.evidence.export import failure_of
from rltok.evidence.record_file import check, read_record
from rltok.evidence.records import SCHEDULE, read_sweeps
from rltok.presets import preset
from rltok.system.digest import with_digest


def changed(actual, **entries):
    """The record with entries changed and a digest to match."""
    return with_digest({key: value for key, value in (actual | entries).items() if value is not ...})


def test_a_whole_record_passes():
    assert check(record(), "here")["name"] == "ours"


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"schema": 2}, "schema 2 is unknown; this version reads 1"),
        ({"schema": ...}, "schema None is unknown"),
        ({"what": "something"}, "no record of rltok evidence"),
        ({"commit": "0" * 40 + "+changes"}, "its tree was not clean"),
        ({"commit": None}, "commit 'None' is none"),
        ({"config_hash": "abc"}, "config_hash is 'abc', its configuration has"),
        ({"config": {"model": {"colour": 1}}}, "its configuration cannot be read"),
        ({"curve": ..., "positions": ...}, "it must contain ['curve', 'positions'] properties"),
    ],
)
def test_a_record_that_is_not_whole_is_named_with_what_is_wrong(entries, message):
    with pytest.raises(RltokError, match="file.json: .*") as error:
        check(changed(record(), **entries), "file.json")
    assert message in str(error.value) and "Make the record again" in str(error.value)


def scored(**entries):
    stored = record()
    return stored["scores"] | {"validation": stored["scores"]["validation"] | entries}


def points(name, number, **entries):
    stored = record()[name]
    return [point | entries if at == number % len(stored) else point for at, point in enumerate(stored)]


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"scores": scored(rate="0.2")}, "scores.validation.rate must be number, and is '0.2'"),
        ({"scores": scored(rate=None)}, "scores.validation.rate must be number, and is None"),
        ({"scores": scored(rate=5)}, "scores.validation.rate must be smaller than or equal to 1, and is 5"),
        ({"scores": scored(whitespace_share=7)}, "whitespace_share must be smaller than or equal to 1, and is 7"),
        ({"scores": scored(unit_bits=[0.0] * 30)}, "its units have 0.0"),
        ({"seconds": -5.0}, "seconds must be bigger than 0, and is -5.0"),
        ({"flops": 0}, "flops must be bigger than 0, and is 0"),
        ({"flops": True}, "flops must be number, and is True"),
        ({"attention_flops": ...}, "it must contain ['attention_flops']"),
        ({"device": None}, "device must be string, and is None"),
        ({"data": None}, "data must be object, and is None"),
        ({"curve": points("curve", 3, rate="x")}, "curve[3].rate must be number or null, and is 'x'"),
        ({"curve": points("curve", 3, step=1)}, "the points of curve are not in the order of step"),
        ({"held_out": points("held_out", 1, flops=1e12)}, "the points of held_out are not in the order of flops"),
        ({"curve": points("curve", 3, flops=1e999)}, "curve[3].flops must be smaller than or equal to 1e+300, and is inf"),
        ({"positions": {"start": [0], "rewards": [0.1], "returns": [None]}}, "positions hold no return"),
        ({"positions": {"start": [0], "rewards": [], "returns": [1.0]}}, "positions hold not as many of each"),
        ({"snapshots": points("snapshots", 1, step=0)}, "the points of snapshots are not in the order of step"),
        ({"samples": points("samples", 0, boundaries="01")}, "boundaries are not as many as its bytes"),
        ({"name": "even"}, "it is called even, its boundaries are those of the rule learned"),
        ({"sessions": [{"after": 0, "seconds": 0.0, "redone": 0, "lost_seconds": 0.0, "device": "cpu", "commit": "1" * 40}]},
         "its last session was of commit 1111"),
    ],
)  # fmt: skip
def test_an_entry_that_no_run_can_have_is_named(entries, message):
    with pytest.raises(RltokError, match="file.json: .*") as error:
        check(changed(record(), **entries), "file.json")
    assert message in str(error.value)


@pytest.mark.parametrize(
    "entries",
    [
        {"curve": [{}]},
        {"positions": {}},
        {"samples": ["x"]},
        {"scores": {"validation": 3, "test": None}},
        {"scores": scored(unit_bits=[[1.0], [1.0, 2.0]])},
        {"scores": scored(unit_bytes=[0] * UNITS)},
        {"bytes": 10**400},
    ],
)
def test_entries_of_quite_another_kind_are_told_in_a_line(tmp_path, entries):
    (tmp_path / "a.json").write_text(json.dumps(changed(record(), **entries)))
    with pytest.raises(RltokError, match=f"{tmp_path.name}/a.json"):
        read_record(tmp_path / "a.json", whole=True)


def test_a_number_beyond_all_is_no_number(tmp_path):
    text = json.dumps(changed(record(), seconds=5.0)).replace('"seconds": 5.0', '"seconds": 1e999')
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(RltokError):
        read_record(tmp_path / "a.json", whole=True)


def test_a_run_is_counted_once(tmp_path):
    write(tmp_path, record("ours", 0))
    write(tmp_path, record("ours", 0), repeat=2)
    with pytest.raises(RltokError, match=r"32m/repeats/ours-seed0-2.json is the same run as 32m/ours-seed0.json"):
        read_sweeps(tmp_path)


@pytest.mark.parametrize("number", ["0", "1", "x"])
def test_a_run_of_a_seed_that_was_run_before_has_a_number_from_2_on(tmp_path, number):
    write(tmp_path, record("ours", 0))
    write(tmp_path, record("ours", 0, bits=2.1), repeat=2)
    (tmp_path / "32m/repeats/ours-seed0-2.json").rename(tmp_path / f"32m/repeats/ours-seed0-{number}.json")
    with pytest.raises(RltokError, match="its number is 2 or more"):
        read_sweeps(tmp_path)


def test_a_number_changed_by_hand_is_noticed():
    stored = record()
    stored["scores"]["test"]["bits_per_byte"] -= 0.01
    with pytest.raises(RltokError, match="changed after it was made"):
        check(stored, "file.json")


def test_every_entry_is_under_the_digest():
    stored = record()
    for key in stored.keys() - {"digest"}:
        with pytest.raises(RltokError):
            check(stored | {key: "other"}, "file.json")


def test_a_file_that_is_no_json_is_named(tmp_path):
    (tmp_path / "a.json").write_text("{")
    with pytest.raises(RltokError, match=r"a\.json is missing or no JSON"):
        read_record(tmp_path / "a.json")
    with pytest.raises(RltokError, match=r"b\.json is missing"):
        read_record(tmp_path / "b.json")


def test_sweeps_are_read_by_contender_and_seed_and_failed_runs_stand_apart(tmp_path):
    failed = failure_of(
        preset("tiny"), sweep="32m", name="naive", why="loss nan", commit="0" * 40, device="cpu", versions={}, data={}
    )
    write(tmp_path, *seeds_of("ours", 2.0), record("even", 1), failed)
    sweep = read_sweeps(tmp_path)["32m"]
    assert {name: sorted(seeds) for name, seeds in sweep.runs.items()} == {"ours": [0, 1, 2], "even": [1]}
    assert [run["failed"] for run in sweep.failed] == ["loss nan"]
    assert sweep.full


def test_runs_at_full_size_take_the_place_of_smoke_runs(tmp_path):
    write(tmp_path, record(sweep="smoke", full=False))
    assert list(read_sweeps(tmp_path)) == ["smoke"] and not read_sweeps(tmp_path)["smoke"].full
    write(tmp_path, record(sweep="32m"))
    assert list(read_sweeps(tmp_path)) == ["32m"]


def test_a_record_lies_where_its_name_says(tmp_path):
    write(tmp_path, record())
    (tmp_path / "32m" / "copy.json").write_text(json.dumps(record()))
    with pytest.raises(
        RltokError, match=r"32m/copy.json holds ours, seed 0, of sweep 32m. A record lies at SWEEP/NAME-seedK.json"
    ):
        read_sweeps(tmp_path)
    (tmp_path / "32m" / "copy.json").rename(tmp_path / "32m" / "ours-seed1.json")
    with pytest.raises(RltokError, match="ours-seed1.json holds ours, seed 0"):
        read_sweeps(tmp_path)


@pytest.mark.parametrize(
    ("settings", "message"),
    [({"train.training_bytes": 8192}, "training_bytes 2400000 -> 8192"), ({"model.mid_layers": 3}, "mid_layers 2 -> 3"),
     ({"objective.gamma": 0.5}, "gamma 0.9 -> 0.5")],
)  # fmt: skip
def test_runs_that_are_not_alike_are_not_compared(tmp_path, settings, message):
    write(tmp_path, record("even", 0), record("ours", 0), record("ours", 1, **settings))
    with pytest.raises(RltokError, match=f"sweep 32m: ours, seed 1, differs from its neighbours: .*{message}"):
        read_sweeps(tmp_path)


@pytest.mark.parametrize(
    ("setting", "moved"),
    [("train.policy_start_fraction", 0.25), ("model.rotary_positions", "bf16"), ("objective.draws", 2)],
    ids=lambda value: str(value),
)
def test_a_run_older_than_a_setting_compares_with_runs_at_its_old_value_alone(tmp_path, setting, moved):
    old, (section, key) = record("ours", 0), setting.split(".")
    del old["config"][section][key]
    write(tmp_path, with_digest(old), record("ours", 1))
    assert len(read_sweeps(tmp_path)["32m"].runs["ours"]) == 2
    write(tmp_path, record("ours", 1, **{setting: moved}))
    with pytest.raises(RltokError, match=f"differs from its neighbours: {setting}"):
        read_sweeps(tmp_path)


def test_a_sweep_about_a_setting_may_vary_it_between_contenders_but_neither_within_one_nor_the_budget(tmp_path):
    rate, rows = {"train.learning_rate": 0.5}, {"train.sequences_per_update": 32}
    write(tmp_path, record("ours", 0), record("slow", 0, **rate), record("rows", 0, **rate, **rows))
    with pytest.raises(RltokError, match="differs from its neighbours: train.learning_rate"):
        read_sweeps(tmp_path, ("sequences_per_update",))
    with pytest.raises(RltokError, match=r"are to differ in learning_rate, read them with varied=\['learning_rate'\]"):
        read_sweeps(tmp_path)
    for odd in (["train.learning_rate"], "learning_rate", ["lerning_rate"]):
        with pytest.raises(RltokError, match="is no setting of training.*Name some of training_bytes"):
            read_sweeps(tmp_path, odd)
    assert set(read_sweeps(tmp_path, SCHEDULE)["32m"].runs) == {"ours", "slow", "rows"}
    write(tmp_path, record("slow", 1))
    with pytest.raises(RltokError, match="slow, seed 1, differs from its neighbours: train.learning_rate 0.5 -> "):
        read_sweeps(tmp_path, SCHEDULE)
    (tmp_path / "32m" / "slow-seed1.json").unlink()
    write(tmp_path, record("more", 0, **{"train.training_bytes": 8192}))
    with pytest.raises(RltokError, match="differs from its neighbours: train.training_bytes"):
        read_sweeps(tmp_path, SCHEDULE)
    (tmp_path / "32m" / "more-seed0.json").unlink()
    other = record("text", 0)
    for odd in (
        other | {"data": other["data"] | {"train": {"hash": "of another text"}}},
        record("size", **{"model.mid_layers": 3}),
    ):
        write(tmp_path, with_digest({key: value for key, value in odd.items() if key != "digest"}))
        with pytest.raises(RltokError, match="differs from its neighbours: (training text|model.mid_layers)"):
            read_sweeps(tmp_path, SCHEDULE)
        (tmp_path / "32m" / f"{odd['name']}-seed0.json").unlink()
    assert set(read_sweeps(tmp_path, SCHEDULE)["32m"].runs) == {"ours", "slow", "rows"}


def test_seeds_of_a_contender_may_differ_in_a_rate_that_they_take_from_another_one(tmp_path):
    pair = [record("random", seed, **{"model.rule.target_rate": rate}) for seed, rate in ((0, 0.2), (1, 0.21))]
    write(tmp_path / "own", *pair)
    with pytest.raises(RltokError, match=r"random, seed 1, differs from its neighbours: model.rule.target_rate 0.2 -> 0.21"):
        read_sweeps(tmp_path / "own")
    write(tmp_path / "taken", *(with_digest(run | {"rate_of": "bpe"}) for run in pair))
    assert list(read_sweeps(tmp_path / "taken")["32m"].runs["random"]) == [0, 1]


def test_contenders_scored_on_other_text_are_refused_and_unscored_ones_not(tmp_path):
    other, without = record("even", 0), record("bpe", 0)
    other["scores"]["test"]["hash"] = "of another text"
    without["scores"]["test"] = None
    write(tmp_path, record("ours", 0), with_digest(without))
    assert len(read_sweeps(tmp_path)["32m"].records) == 2
    write(tmp_path, with_digest(other))
    with pytest.raises(RltokError, match="differs from its neighbours: test text"):
        read_sweeps(tmp_path)


def test_a_seed_that_was_run_again_counts_once_with_the_mean_of_its_runs(tmp_path):
    ours, even = seeds_of("ours", 2.0), seeds_of("even", 2.1)
    again = record("ours", 1, bits=2.3, rate=0.4)
    write(tmp_path, *ours, *even)
    write(tmp_path, again, repeat=2)
    sweep = read_sweeps(tmp_path)["32m"]
    assert len(sweep.records) == 6 and len(sweep.everything) == 7
    bits = [np.array(run["scores"]["test"]["unit_bits"]) for run in (*ours, again)]
    sizes = np.array(ours[0]["scores"]["test"]["unit_bytes"])
    seeds = [one.sum() / sizes.sum() for one in (bits[0], (bits[1] + bits[3]) / 2, bits[2])]
    sweeps = sweep.mean("ours", "test")
    assert sweeps.bits == pytest.approx(np.mean(seeds)) and sweeps.error_seeds == pytest.approx(
        np.std(seeds, ddof=1) / math.sqrt(3)
    )
    assert sweep.values("ours", "rate") == pytest.approx([0.2, 0.3, 0.2])
    minus_even = gap(sweep, "ours", "even", "test")
    theirs = [run["scores"]["test"]["bits_per_byte"] for run in even]
    assert minus_even.seeds == 3 and minus_even.bits == pytest.approx(np.mean(seeds) - np.mean(theirs))


def test_a_repeat_without_a_score_leaves_that_of_the_other_run_alone(tmp_path):
    again = record("ours", 0, bits=3.0)
    again["scores"]["test"] = None
    write(tmp_path, record("ours", 0, bits=2.0))
    write(tmp_path, with_digest(again), repeat=2)
    sweep = read_sweeps(tmp_path)["32m"]
    assert sweep.mean("ours", "test").bits == pytest.approx(record("ours", 0)["scores"]["test"]["bits_per_byte"])
    assert sweep.mean("ours", "validation").bits == pytest.approx(2.5, abs=0.1)


def test_runs_of_one_device_stand_alone(tmp_path):
    first, again = record("ours", 0), with_digest(record("ours", 0, bits=2.5) | {"device": "H100"})
    write(tmp_path, first, record("even", 0))
    write(tmp_path, again, repeat=2)
    sweep = read_sweeps(tmp_path)["32m"]
    assert sweep.on("H100").runs == {"ours": {0: again}} and sweep.on("H100").everything == [again]
    assert sweep.on("cpu").runs["ours"] == {0: first}


def test_a_repeat_lies_beside_the_run_that_it_repeats(tmp_path):
    write(tmp_path, record("ours", 0))
    write(tmp_path, record("ours", 1), repeat=2)
    with pytest.raises(RltokError, match="repeats a run that is not there. Move it to 32m/ours-seed1.json"):
        read_sweeps(tmp_path)
    (tmp_path / "32m" / "repeats" / "ours-seed1-2.json").rename(tmp_path / "32m" / "repeats" / "ours-seed0-2.json")
    with pytest.raises(RltokError, match="32m/repeats/ours-seed0-2.json holds ours, seed 1"):
        read_sweeps(tmp_path)


def test_repeats_of_other_settings_are_refused(tmp_path):
    write(tmp_path, record("ours", 0))
    write(tmp_path, record("ours", 0, **{"objective.gamma": 0.5}), repeat=2)
    with pytest.raises(RltokError, match="ours, seed 0, differs from its neighbours: .*gamma"):
        read_sweeps(tmp_path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda actual: actual["scores"]["validation"].update(bits_per_byte=1.0),
            "validation is 1.0 bits per byte, its units",
        ),
        (lambda actual: actual["scores"]["piqa"].update(bits_per_byte=1.0), "piqa is 1.0 bits per byte, its units have"),
        (lambda actual: actual.update(bytes=7), "it read 7 bytes, its curve ends at"),
    ],
)
def test_numbers_that_do_not_belong_together_are_noticed_under_a_new_digest(change, message):
    actual = record()
    change(actual)
    with pytest.raises(RltokError, match=message):
        check(with_digest(actual), "file.json")


def by_hand(first, second, place):
    """Delta and both errors, from the records, without the package: the ratio estimator, documents as units."""
    deltas, each = [], []
    for a, b in zip(first, second, strict=True):
        mine, other = a["scores"][place], b["scores"][place]
        if place == "test":
            sizes = np.array(mine["unit_bytes"], float)
            d = np.array(mine["unit_bits"]) - np.array(other["unit_bits"])
        else:
            d = np.array(mine["item_bits_per_byte"]) - np.array(other["item_bits_per_byte"])
            sizes = np.ones(len(d))
        each.append(d)
        deltas.append(d.sum() / sizes.sum())
    mean = sum(each) / len(each)
    left_out = [(mean.sum() - mean[u]) / (sizes.sum() - sizes[u]) for u in range(len(sizes))]  # the jackknife
    spread = math.sqrt((len(sizes) - 1) / len(sizes) * sum((x - np.mean(left_out)) ** 2 for x in left_out))
    return np.mean(deltas), spread, np.std(deltas, ddof=1) / math.sqrt(len(deltas))


@pytest.mark.parametrize("place", ["test", "hellaswag"])
def test_a_difference_is_paired_by_document_and_seed(place):
    ours, even = seeds_of("ours", 2.0, wiggle=0.05), seeds_of("even", 2.1, wiggle=0.05)
    difference = gap(sweep_of(*ours, *even), "ours", "even", place)
    delta, documents, spread = by_hand(ours, even, place)
    assert difference.seeds == 3
    assert difference.bits == pytest.approx(delta, rel=1e-9)
    assert difference.error_units == pytest.approx(documents, rel=0.02)  # jackknife and ratio estimator agree to first order
    assert difference.error_seeds == pytest.approx(spread, rel=1e-9)
    unpaired = sweep_of(*ours).mean("ours", place)
    assert difference.error_units < unpaired.error_units / 3  # what documents share has cancelled


def test_only_seeds_that_both_have_are_compared():
    sweep = sweep_of(*seeds_of("ours", 2.0), record("even", 1, bits=2.1), record("even", 7, bits=5.0))
    difference = gap(sweep, "ours", "even", "test")
    assert difference.seeds == 1 and difference.error_seeds is None and difference.bits == pytest.approx(-0.1, abs=0.02)
    assert gap(sweep, "ours", "nobody", "test") is None


def test_scores_on_other_text_are_not_compared():
    other = record("even", 0)
    other["scores"]["test"]["unit_bytes"][3] += 1
    with pytest.raises(RltokError, match="scored on other text"):
        gap(sweep_of(record(), with_digest(other)), "ours", "even", "test")


def test_a_run_without_a_test_score_has_none():
    stored = record()
    stored["scores"]["test"] = None
    sweep = sweep_of(with_digest(stored))
    assert sweep.mean("ours", "test") is None
    assert sweep.mean("ours", "validation") is not None
    assert sweep.values("ours", "rate", "test") == []
