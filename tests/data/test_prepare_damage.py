"""`rltok prepare` among full disks, damaged files and records, folders of older versions, and sources that changed."""

import errno
import json
import resource

import pytest
from preparing import documents_of, request, write_jsonl

from rltok.config import DataConfig
from rltok.data import load_corpus
from rltok.data.prepare import prepare_folder
from rltok.data.prepared import open_prepared
from rltok.errors import RltokError
from rltok.system import files
from rltok.system.digest import with_digest

RULES = {"cut": "windows", "sequence_length": 16}
CONFIG = DataConfig(sequence_length=16, cut="windows")


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


@pytest.mark.parametrize("sources, count", [(3, 450), (1, 1200)], ids=["while a split is written", "while a unit is read"])
def test_a_full_disk_is_one_line_and_leaves_nothing_half(tmp_path, small_files, sources, count):
    paths = [write_jsonl(tmp_path / f"{number}.jsonl", rows(f"gull {number}", count)) for number in range(sources)]
    with pytest.raises(RltokError, match="no room left on the disk of .*Make room, then go on with the same command"):
        prepare_folder(request(paths, **RULES), tmp_path / "out")
    whole = list((tmp_path / "out").rglob("*.arrow"))
    assert not list((tmp_path / "out").rglob("*.tmp")) and not (tmp_path / "out" / "prepared.json").exists()
    assert [path.parent.name for path in whole] == {3: [".unfinished"] * 3, 1: []}[sources]  # those of the units


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_no_room_is_told_of_whatever_the_system_calls_it(tmp_path, number):
    with pytest.raises(RltokError, match="no room left"), files.room(tmp_path):
        raise OSError(number, "no room")


@pytest.mark.parametrize("number", [errno.EIO, errno.EROFS, errno.ESTALE])
def test_a_disk_that_fails_under_an_open_file_is_told_with_its_folder_and_one_that_names_a_file_as_it_is(tmp_path, number):
    with pytest.raises(RltokError, match=rf"cannot write to {tmp_path} \(gone\)\. Check its disk, then go on with --resume\."):
        with files.room(tmp_path):
            raise OSError(number, "gone")
    with pytest.raises(OSError, match="somewhere"), files.room(tmp_path):
        raise OSError(number, "gone", "somewhere")


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


# Records and files that are damaged


CHANGES = {
    "a file missing": lambda record: record["files"].popitem(),
    "other counts": lambda record: record["splits"]["train"].update(rows=9),
    "no splits": lambda record: record.pop("splits"),
    "no settings": lambda record: record.update(settings=None),
    "no digest": lambda record: record.pop("digest"),
    "no timing": lambda record: record.pop("timing"),
    "timing in words": lambda record: record.update(timing="long"),
    "another kind": lambda record: record.update(what="another"),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_an_edited_record_is_one_line_with_a_remedy_wherever_it_is_read(made, change):
    again, out = made
    record = json.loads((out / "prepared.json").read_text())
    change(record)
    (out / "prepared.json").write_text(json.dumps(record))
    for use in (open_prepared, lambda folder: load_corpus(folder, CONFIG), lambda folder: prepare_folder(again, folder)):
        with pytest.raises(
            RltokError, match="prepared.json is damaged.*Delete the folder and give the same `rltok prepare` again"
        ):
            use(out)


@pytest.mark.parametrize("content", [b"no arrow", b"", None], ids=["other bytes", "empty", "missing"])
def test_a_file_that_changes_after_it_was_checked_is_one_line(made, content):
    _, out = made
    prepared = open_prepared(out)
    (out / "train.arrow").write_bytes(content) if content is not None else (out / "train.arrow").unlink()
    with pytest.raises(RltokError, match="train.arrow is damaged .*Delete the folder and give the same"):
        prepared.rows("train", CONFIG)


@pytest.mark.parametrize("is_finished", [True, False])
@pytest.mark.parametrize("kind", ["file", "link"])
def test_where_work_is_kept_a_file_or_a_link_is_named_with_a_remedy(made, tmp_path, kind, is_finished):
    again, out = made
    if not is_finished:
        out = tmp_path / "new"
        out.mkdir()
    place, elsewhere = out / ".unfinished", tmp_path / "elsewhere"
    elsewhere.mkdir()
    place.write_text("") if kind == "file" else place.symlink_to(elsewhere)
    with pytest.raises(RltokError, match=f"^{place} is a file or a link, where rltok prepare keeps a folder. Remove it, and try"):
        prepare_folder(again, out)
    place.unlink()
    prepare_folder(again, out)
    assert not place.exists() and list(elsewhere.iterdir()) == []


def test_the_same_command_sees_files_of_another_size_in_a_finished_folder(made):
    again, out = made
    whole = (out / "train.arrow").read_bytes()
    (out / "train.arrow").write_bytes(whole[:-1])
    (out / "test.arrow").unlink()
    with pytest.raises(RltokError) as error:
        prepare_folder(again, out)
    assert f"train.arrow of {out} is damaged: expected {len(whole)} bytes, found {len(whole) - 1}" in str(error.value)
    assert f"test.arrow of {out} cannot be read" in str(error.value) and "Delete the folder and give the same" in str(error.value)


def test_a_check_lists_all_files_whatever_stands_in_their_places(made):
    _, out = made
    (out / "train.arrow").unlink()
    (out / "train.arrow").mkdir()
    (out / "validation.arrow").unlink()
    (out / "test.arrow").write_bytes(b"")
    first, second, third = open_prepared(out).damaged()
    assert first.startswith(f"train.arrow of {out} is no ordinary file. Delete the folder")
    assert second.startswith(f"validation.arrow of {out} cannot be read") and "test.arrow" in third and "found 0" in third


def test_a_prepared_folder_is_not_prepared_again(made, tmp_path):
    _, out = made
    remedy = f"Name the text that it was made of, or train on it: rltok train --data {out}$"
    with pytest.raises(RltokError, match=f"out' was written by rltok prepare: its text is prepared. {remedy}"):
        prepare_folder(request([out], **RULES), tmp_path / "new")


def test_a_digest_is_of_everything_but_itself_and_the_time():
    assert (
        with_digest({"a": 1, "timing": 3}, ("timing",))["digest"]
        == with_digest({"a": 1, "digest": "x"})["digest"]
        != with_digest({"a": 2})["digest"]
    )


# Folders of older versions, whose documents lie in files of another format


@pytest.mark.parametrize("is_finished", [True, False])
def test_a_folder_of_an_older_version_says_what_it_is_and_how_to_go_on(tmp_path, is_finished):
    out = tmp_path / "out"
    out.mkdir()
    (out / "00000-000.bin").write_bytes(b"text of many bytes")
    (out / "request.json").write_text(
        json.dumps(with_digest({"schema": 3, "what": "rltok prepare", "settings": {}, "pieces": []}))
    )
    if is_finished:
        (out / "prepared.json").write_text(json.dumps(with_digest({"schema": 2, "what": "rltok prepare", "finished": True})))
    made = request([write_jsonl(tmp_path / "a.jsonl", rows("gull"))], **RULES)
    for use in (open_prepared, lambda folder: load_corpus(folder, CONFIG), lambda folder: prepare_folder(made, folder)):
        with pytest.raises(RltokError, match="written by another version of rltok prepare.*Prepare its text again, with another"):
            use(out)
    assert (out / "00000-000.bin").exists()
    prepare_folder(made, tmp_path / "new")
    assert len(documents_of(tmp_path / "new")["train"]) == 30
