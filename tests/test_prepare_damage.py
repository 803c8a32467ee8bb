"""`rltok prepare` among full disks, damaged records and shards, sources that changed, and files of other people."""

import errno
import json
import os
import resource

import numpy as np
import pytest
from preparing import documents_of, request, write_jsonl

from rltok.config import DataConfig
from rltok.data import duplicates, load_corpus
from rltok.data.prepare import prepare_folder
from rltok.data.prepared import open_prepared
from rltok.data.shards import ShardWriter
from rltok.errors import RltokError
from rltok.system import files
from rltok.system.digest import sealed

RULES = {"cut": "windows", "sequence_length": 16, "shard_bytes": 300}
CONFIG = DataConfig(sequence_length=16, cut="windows")


@pytest.fixture(autouse=True)
def quick_disk(monkeypatch):
    """No waiting for the disk."""
    monkeypatch.setattr(os, "fsync", lambda file: None)


def rows(word, count=30):
    return [{"text": f"{word} number {i} of a small corpus"} for i in range(count)]


@pytest.fixture
def made(tmp_path):
    """A request and its finished folder."""
    made = request([write_jsonl(tmp_path / "a.jsonl", rows("gull")), write_jsonl(tmp_path / "b.jsonl", rows("tide"))], **RULES)
    prepare_folder(made, tmp_path / "out")
    return made, tmp_path / "out"


# A full disk


@pytest.fixture
def small_files():
    """Files of this process end at 64 KiB, as they would on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk_while_an_index_is_written_is_one_line(tmp_path, small_files):
    many = [{"text": "a text of 16 b."[:8] + f"{i:08d}"} for i in range(2000)]  # 32 kB of text, 96 kB of index
    made = request([write_jsonl(tmp_path / "a.jsonl", many)], **RULES | {"shard_bytes": 1 << 20})
    with pytest.raises(RltokError, match="no room left on the disk of .*Make room, then go on with the same command"):
        prepare_folder(made, tmp_path / "out")
    assert not list((tmp_path / "out").glob("*.tmp"))


def test_numpy_tells_why_an_index_could_not_be_written(tmp_path, small_files):
    writer = ShardWriter(tmp_path, 0, 0)
    for number in range(2000):
        writer.add(b"x", (0, 0), 0, number, 0, True)
    with pytest.raises(OSError) as caught:
        writer.seal({})
    assert caught.value.errno == errno.EFBIG


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_no_room_is_told_of_whatever_the_system_calls_it(tmp_path, number):
    with pytest.raises(RltokError, match="no room left"), files.room(tmp_path):
        raise OSError(number, "no room")


def test_what_is_kept_has_its_place_on_the_disk_before_it_is_mapped(tmp_path, monkeypatch):
    found = []

    def spill(folder, shards, groups, max_bytes, bits, kept, place):
        (temporary,) = folder.glob("kept.npy.*.tmp")
        found.append(temporary.stat())
        for bucket in range(1 << bits):
            (place / str(bucket)).write_bytes(b"")
        return {}

    monkeypatch.setattr(duplicates, "_spill", spill)
    duplicates.mark_kept(tmp_path, [{"documents": 5_000_000}], [0], None, tmp_path / "kept.npy")
    assert found[0].st_blocks * 512 >= 5_000_000
    kept = np.load(tmp_path / "kept.npy")
    assert kept.shape == (5_000_000,) and kept.dtype == np.uint8 and not kept.any()


def test_what_is_kept_and_not_finished_is_removed_when_there_is_no_room(tmp_path, small_files):
    with pytest.raises(OSError) as caught:
        duplicates.mark_kept(tmp_path, [{"documents": 200_000}], [0], None, tmp_path / "kept.npy")
    assert caught.value.errno == errno.EFBIG and not list(tmp_path.iterdir())


# Sources that are not what they were


def test_another_text_of_the_same_name_is_another_request(tmp_path):
    for version, word in (("v1", "gull"), ("v2", "tide")):
        (tmp_path / version).mkdir()
        (tmp_path / version / "x.txt").write_text(f"{word} and {word} in the harbour")
    prepare_folder(request([tmp_path / "v1" / "x.txt"], **RULES), tmp_path / "out")
    with pytest.raises(RltokError, match="x.txt is not the text that .*out was made of.*Put back the old text, or .*new --out"):
        prepare_folder(request([tmp_path / "v2" / "x.txt"], **RULES), tmp_path / "out")
    (tmp_path / "v1" / "x.txt").replace(tmp_path / "x.txt")
    prepare_folder(request([tmp_path / "x.txt"], **RULES), tmp_path / "out")  # the same text elsewhere
    (tmp_path / "x.txt").unlink()
    with pytest.raises(RltokError, match="no such file.*out itself is finished: rltok train --data .*out needs no source"):
        prepare_folder(request([tmp_path / "x.txt"], **RULES), tmp_path / "out")


def test_a_source_that_changed_after_it_was_stored_is_noticed_when_one_goes_on(made, tmp_path):
    again, out = made
    (out / "prepared.json").unlink()
    for path in out.glob("00001-*"):
        path.unlink()
    write_jsonl(tmp_path / "b.jsonl", rows("ferry"))  # nothing of it is stored: it may be mended
    write_jsonl(tmp_path / "a.jsonl", rows("GULL"))
    with pytest.raises(RltokError, match="a.jsonl is not the text that .*out was made of"):
        prepare_folder(again, out)
    write_jsonl(tmp_path / "a.jsonl", rows("gull"))
    prepare_folder(again, out)
    assert documents_of(out)["train"][-1] == b"ferry number 29 of a small corpus"
    prepare_folder(again, out)
    write_jsonl(tmp_path / "b.jsonl", rows("tide"))
    with pytest.raises(RltokError, match="b.jsonl is not the text"):
        prepare_folder(again, out)


def test_a_finished_folder_says_that_files_came_or_went(tmp_path):
    (tmp_path / "t").mkdir()
    for name in ("a.txt", "b.txt", "c.txt"):
        (tmp_path / "t" / name).write_text(f"text of {name} in a small corpus")
    made = request([tmp_path / "t"], **RULES)
    prepare_folder(made, tmp_path / "out")
    (tmp_path / "t" / "b.txt").rename(tmp_path / "b.txt")
    with pytest.raises(RltokError, match="files were added to or removed from .*began with 3 in all, now there are 2. Put back"):
        prepare_folder(made, tmp_path / "out")
    (tmp_path / "t" / "a.txt").rename(tmp_path / "t" / "z.txt")
    with pytest.raises(RltokError, match="now there are 2; gone: t/a.txt; new: t/c.txt. Put back"):
        prepare_folder(made, tmp_path / "out")


def test_a_finished_folder_does_not_ask_the_hub(tmp_path, monkeypatch):
    source = write_jsonl(tmp_path / "a.jsonl", rows("gull"))
    made = request(["hf:a/b", source], **RULES)
    piece = {"name": "hf:a/b, file 1 of 9", "source": 0, "files": 0, "fingerprint": None}
    monkeypatch.setattr("rltok.data.request.units_of", lambda spec, *_: {}[spec] if spec != source else [])
    assert made.pieces(False, [piece, piece | {"source": 1}]) == [piece]


# Records and shards that are damaged


CHANGES = {
    "a shard missing": lambda record: record["shards"].pop(),
    "shards swapped": lambda record: record["shards"].reverse(),
    "another first document": lambda record: record["shards"][-1].update(first_document=7),
    "other counts": lambda record: record["splits"]["train"].update(rows=9),
    "no splits": lambda record: record.pop("splits"),
    "no settings": lambda record: record.update(settings=None),
    "no digest": lambda record: record.pop("digest"),
    "no timing": lambda record: record.pop("timing"),
    "timing in words": lambda record: record.update(timing="long"),
    "nulls for shards": lambda record: record.update(shards=[None]),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_an_edited_record_is_one_line_with_a_remedy_wherever_it_is_read(made, change):
    again, out = made
    whole = (out / "prepared.json").read_bytes()
    record = json.loads(whole)
    change(record)
    (out / "prepared.json").write_text(json.dumps(record))
    for use in (open_prepared, lambda folder: load_corpus(folder, CONFIG), lambda folder: prepare_folder(again, folder)):
        with pytest.raises(RltokError, match="prepared.json is damaged.*Delete prepared.json there and give the same"):
            use(out)
    (out / "prepared.json").unlink()
    prepare_folder(again, out)
    assert open_prepared(out).record["digest"] == json.loads(whole)["digest"]


def test_the_list_of_kept_documents_has_one_entry_for_each(made):
    _, out = made
    np.save(out / "kept.npy", np.ones(59, dtype=np.uint8))
    with pytest.raises(RltokError, match="kept.npy is damaged: it does not hold one entry for each of 60 documents. Delete"):
        open_prepared(out).rows("train", CONFIG)
    (out / "kept.npy").write_bytes(b"no array")
    with pytest.raises(RltokError, match="kept.npy is damaged .*Delete"):
        open_prepared(out).rows("train", CONFIG)


@pytest.mark.parametrize("content", ["[]", "{}", "{", '{"schema": 3, "settings": {}}'])
def test_a_damaged_request_is_one_line(made, content):
    again, out = made
    (out / "request.json").write_text(content)
    with pytest.raises(RltokError, match="request.json is .*Delete .*out and prepare again"):
        prepare_folder(again, out)


def test_a_folder_of_another_version_is_not_gone_on_with_and_still_read(made):
    again, out = made
    (out / "request.json").write_text(json.dumps(sealed({"schema": 2, "settings": {}})))
    with pytest.raises(
        RltokError, match="another version of rltok.*Choose another --out; .*rltok train --data .*out still reads"
    ):
        prepare_folder(again, out)
    assert len(load_corpus(out, CONFIG).train) > 1


def flip(path, place):
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize(
    "name, place", [("00000-001.idx", 8), ("00000-001.idx", -5), ("00000-001.bin", 3), ("00000-001.json", 60)]
)
def test_shards_sealed_earlier_are_read_again_and_a_damaged_one_is_made_anew(made, name, place):
    again, out = made
    whole = {path.name: path.read_bytes() for path in out.glob("0*")} | {"kept.npy": (out / "kept.npy").read_bytes()}
    (out / "prepared.json").unlink()
    flip(out / name, place)
    untouched = {path: path.stat().st_mtime_ns for path in [*out.glob("00000-000.*"), *out.glob("00001-*")]}
    notes = []
    prepare_folder(again, out, note=notes.append)
    assert notes == [f"{out}: shard 00000-001 is damaged; it and the later ones of its source are made again"]
    assert {name: (out / name).read_bytes() for name in whole} == whole
    assert {path: path.stat().st_mtime_ns for path in untouched} == untouched


def test_a_seal_without_an_entry_does_not_count(made):
    again, out = made
    (out / "prepared.json").unlink()
    seal = json.loads((out / "00000-000.json").read_text())
    del seal["tally"]
    (out / "00000-000.json").write_text(json.dumps(seal))
    notes = []
    prepare_folder(again, out, note=notes.append)
    assert len(notes) == 1 and len(documents_of(out)["train"]) == 60


def test_a_digest_is_of_everything_but_itself_and_the_time():
    assert (
        sealed({"a": 1, "timing": 3}, ("timing",))["digest"]
        == sealed({"a": 1, "digest": "x"})["digest"]
        != sealed({"a": 2})["digest"]
    )


# Files of other people


def test_what_is_not_ours_stays(made):
    again, out = made
    (out / "prepared.json").unlink()
    mine = ["20240101.json", "notes.tmp", "12345.bin", "00000-000.txt", "00007-000.json.bak"]
    for name in mine:
        (out / name).write_text("mine")
    (out / "drafts.tmp").mkdir()
    ours = ["00000-000.bin.17.tmp", "00000-000.idx.17.tmp", "kept.npy.17.tmp", ".rltok-0123456789abcdef.tmp", "00009-000.bin"]
    for name in ours:
        (out / name).write_text("left by a killed process")
    (out / ".buckets-a_b1.tmp").mkdir()
    prepare_folder(again, out)
    assert all((out / name).read_text() == "mine" for name in mine) and (out / "drafts.tmp").is_dir()
    assert not any((out / name).exists() for name in [*ours, ".buckets-a_b1.tmp"])
