"""rltok.evidence.packed: what a packed sweep says is what the records of its runs said, to the bit."""

import hashlib
import json
import shutil
import subprocess

import pyarrow.parquet as pq
import pytest
from sweeps import UNITS, record, seeds_of, write

from rltok.errors import RltokError
from rltok.evidence import differences, packed
from rltok.evidence.export import failure_of
from rltok.evidence.packed import SUMS, pack, read_folder
from rltok.evidence.records import read_sweeps
from rltok.presets import preset
from rltok.system.digest import with_digest
from rltok.system.files import write_json


def odd_record():
    """A record with what tables could lose: ints among floats, None among numbers, low bits, odd letters."""
    stored = record("ours", 1)
    stored["curve"] = [dict(reversed(point.items())) for point in stored["curve"]]
    stored["held_out"][0] |= {"flops": 0, "whitespace_share": None}
    stored["curve"][3] |= {"policy_entropy": None, "nll": 0.1 + 0.2, "rate": -0.0}
    stored["positions"]["returns"][1] = None
    stored["samples"][0] = {"row": 3, "text": "\u0000\r\n\u00ffé", "boundaries": "01100", "percent": None}
    for shot in stored["snapshots"]:
        for name in ("prose", "code", "multilingual"):
            shot[name] = {"boundaries": shot[name]["boundaries"]}  # as records of later seeds have it
    stored["scores"]["lambada"] = None
    return with_digest(stored)


@pytest.fixture
def folder(tmp_path):
    """A sweep of a few runs in files of their own."""
    failed = failure_of(preset("tiny"), sweep="32m", name="naive", why="loss nan", commit="0" * 40, device="cpu", versions={},
                        data={})  # fmt: skip
    write(tmp_path, record("ours", 0), odd_record(), record("even", 0), failed)
    write(tmp_path, record("ours", 0, bits=2.1), repeat=2)
    return tmp_path / "32m"


def contents(folder):
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("name", ["ours-seed5.json", "other-seed0.json", "repeats/ours-seed1-2.json", "ours-seed0-2.json"])
def test_a_record_under_the_name_of_another_run_is_not_packed(folder, name):
    (folder / "repeats").mkdir(exist_ok=True)
    shutil.copy(folder / "ours-seed0.json", folder / name)
    before = contents(folder)
    with pytest.raises(
        RltokError, match=f"^32m/{name} holds a record of ours-seed0, so it is not packed. Call it ours-seed0.json"
    ):
        pack(folder)
    assert contents(folder) == before


def test_records_come_out_of_a_packed_sweep_to_the_bit_and_in_order(folder):
    before = {name: json.loads(content) for name, content in contents(folder).items()}
    assert sorted(pack(folder)) == sorted(before)
    after = read_folder(folder)
    assert list(after) == [
        "even-seed0.json",
        "naive-seed0.json",
        "ours-seed0.json",
        "ours-seed1.json",
        "repeats/ours-seed0-2.json",
    ]
    for name, was in before.items():
        assert json.dumps(after[name]) == json.dumps(was)  # floats, ints, None, and the order of keys
    assert type(after["ours-seed1.json"]["held_out"][0]["flops"]) is int


def test_packing_again_changes_nothing_and_more_records_join(folder):
    pack(folder)
    packed = contents(folder)
    assert pack(folder) == [] and contents(folder) == packed
    write(folder.parent, record("even", 1))
    assert set(read_sweeps(folder.parent)["32m"].runs["even"]) == {0, 1}  # packed and not yet, side by side
    assert pack(folder) == ["even-seed1.json"]
    assert len(read_sweeps(folder.parent)["32m"].everything) == 5
    assert packed["ours-seed1.json"] == (folder / "ours-seed1.json").read_bytes()
    alone = folder.parent / "at_once" / "32m"
    write(alone.parent, record("ours", 0), odd_record(), record("even", 0), record("even", 1))
    write(alone.parent, record("ours", 0, bits=2.1), repeat=2)
    (folder / "naive-seed0.json").unlink()
    pack(folder), pack(alone)
    assert contents(folder) == contents(alone)  # however they were added


def test_a_packed_record_that_is_put_there_once_more_is_packed_again_and_another_one_refused(folder):
    pack(folder)
    packed = contents(folder)
    write(folder.parent, record("even", 0))
    assert pack(folder) == ["even-seed0.json"] and contents(folder) == packed
    write(folder.parent, record("even", 0, bits=1.5))
    spoiled = contents(folder)
    with pytest.raises(RltokError, match="32m/even-seed0.json is packed already, and this is another record of it"):
        pack(folder)
    assert contents(folder) == spoiled
    (folder / "even-seed0.json").unlink()
    assert pack(folder) == [] and "even-seed0.json" not in read_folder(folder)
    write(folder.parent, record("even", 0, bits=1.5))
    pack(folder)
    assert read_folder(folder)["even-seed0.json"] == record("even", 0, bits=1.5)


@pytest.mark.parametrize("name", ["ours-seed0.json", "naive-seed0.json", "scores.parquet", "curves.parquet", "texts.parquet"])
def test_a_packed_file_that_was_changed_or_lost_is_named(folder, name):
    pack(folder)
    content = (folder / name).read_bytes()
    (folder / name).write_bytes(content[:-9] + b"\n" + content[-8:])
    with pytest.raises(RltokError, match=f"32m/{name}: it was changed after it was packed"):
        read_sweeps(folder.parent)
    with pytest.raises(RltokError, match=f"32m/{name}"):
        pack(folder)
    (folder / name).unlink()
    with pytest.raises(RltokError, match=f"32m/{name} is missing. Restore it"):
        read_sweeps(folder.parent)


def test_a_packed_file_of_another_run_is_noticed(folder):
    pack(folder)
    shutil.copy(folder / "even-seed0.json", folder / "even-seed1.json")
    with pytest.raises(RltokError, match="32m/even-seed1.json"):
        read_sweeps(folder.parent)


def test_a_folder_without_a_run_is_refused(tmp_path):
    for place in (tmp_path, tmp_path / "missing"):
        with pytest.raises(RltokError, match="has no record of a run"):
            pack(place)


def test_tables_go_with_the_last_run_that_has_rows(folder):
    pack(folder)
    for path in [*folder.glob("*.json"), *folder.glob("repeats/*.json")]:
        if path.name != "naive-seed0.json":  # it failed, and has none
            path.unlink()
    assert pack(folder) == []
    assert sorted(contents(folder)) == [SUMS, "naive-seed0.json"]
    assert list(read_folder(folder)) == ["naive-seed0.json"]


@pytest.mark.parametrize("written", range(1, 9))
def test_a_first_packing_that_was_interrupted_can_be_repeated(folder, monkeypatch, written):
    before = {name: json.loads(content) for name, content in contents(folder).items()}
    write_json(folder / "naive-seed0.json", before["naive-seed0.json"])  # as rltok does: of a failed run this is what is packed
    calls = iter(range(written))

    def write_some(path, content):
        if next(calls, None) is None:
            raise KeyboardInterrupt
        path.write_bytes(content)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(packed, "write_bytes", write_some)
        pack(folder)
    pack(folder)
    assert read_folder(folder) == before


def test_a_lost_list_of_digests_is_named(folder):
    pack(folder)
    (folder / SUMS).unlink()
    for use in (read_folder, pack):
        with pytest.raises(RltokError, match="32m/SHA256SUMS is missing. Restore it"):
            use(folder)


def test_a_damaged_list_of_digests_is_named(folder):
    pack(folder)
    (folder / SUMS).write_text("no list\n")
    with pytest.raises(RltokError, match=f"32m/{SUMS} is damaged"):
        read_folder(folder)


@pytest.mark.parametrize(
    ("spoil", "what"),
    [
        (lambda actual: actual["curve"][5].update(more=1.0), "even-seed1.json: tables cannot hold all that it says"),
        (lambda actual: actual["curve"][5].pop("tokens"), "even-seed1.json: tables cannot hold all that it says"),
        (lambda actual: actual["curve"][5].update(tokens="many"), "these records do not fit into tables"),
        (lambda actual: actual["curve"][5].update(tokens=10**30), "these records do not fit into tables"),
    ],
)
def test_a_record_that_no_table_holds_is_refused_and_stays(folder, spoil, what):
    odd = record("even", 1)
    odd["curve"] = [point | {"tokens": 7} for point in odd["curve"]]
    spoil(odd)
    write(folder.parent, with_digest(odd))
    before = contents(folder)
    with pytest.raises(RltokError, match=what):
        pack(folder)
    assert contents(folder) == before


def test_tables_are_plain_parquet_and_the_list_is_that_of_sha256sum(folder):
    pack(folder)
    scores = pq.read_table(folder / "scores.parquet").to_pandas()
    mine = scores[(scores.run == "ours-seed0.json") & (scores.entry == "test")]
    assert len(mine) == UNITS and mine.bits.tolist() == record("ours", 0)["scores"]["test"]["unit_bits"]
    for line in (folder / SUMS).read_text().splitlines():
        digest, name = line.split("  ")
        assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == digest
    if shutil.which("sha256sum"):
        subprocess.run(["sha256sum", "--check", "--quiet", SUMS], cwd=folder, check=True)


def test_tables_and_scores_follow_packed_records_as_they_follow_others(tmp_path):
    for place in ("alone", "packed"):
        write(tmp_path / place, *seeds_of("ours", 2.0), *seeds_of("even", 2.1))
    pack(tmp_path / "packed" / "32m")
    one, other = (read_sweeps(tmp_path / place)["32m"] for place in ("alone", "packed"))
    assert one == other and differences.gap(one, "ours", "even", "test") == differences.gap(other, "ours", "even", "test")
