"""What `rltok prepare` prints: limits, parts of documents, empty splits, names it cannot use, and progress."""

import gzip
import itertools
import json
import re
from contextlib import closing

import pytest
from preparing import write_jsonl
from runs import SETTINGS, as_options, write_text

from rltok.runs.progress import Progress
from rltok.runs.training import ON_A_CPU

OPTIONS = ["--cut", "windows", "--sequence-length", "16", "--jobs", "1", "--validation-fraction", "0", "--test-fraction", "0"]


@pytest.mark.parametrize("lengths, stored, left", [([90, 100, 9000, 50], 190, 810), ([500, 500, 20], 1000, 0)])
def test_the_table_says_where_a_limit_ended_the_reading(run, tmp_path, lengths, stored, left):
    source = write_jsonl(tmp_path / "a.jsonl", [{"text": "x" * (length - 1) + str(i)} for i, length in enumerate(lengths)])
    output = run("prepare", source, "--out", tmp_path / "out", *OPTIONS, "--max-bytes", 1000).out
    ended = (
        f"--max-bytes 1000 ended the sources: {stored} bytes stored, and the next document is longer than the {left} bytes left"
    )
    assert ended in output.splitlines()
    assert "ended the" not in run("prepare", source, "--out", tmp_path / "all", *OPTIONS, "--max-bytes", 100_000).out


def test_a_limit_that_ends_between_two_files_is_told_too(run, tmp_path):
    sources = [write_jsonl(tmp_path / f"{i}.jsonl", [{"text": f"{i}" * 60}]) for i in range(2)]
    output = run("prepare", *sources, "--out", tmp_path / "out", *OPTIONS, "--max-bytes", 100).out
    assert "ended the sources: 60 bytes stored, and the next document is longer than the 40 bytes left" in output


def test_a_first_document_beyond_the_limit_is_an_error_that_says_so(run, tmp_path):
    source = write_jsonl(tmp_path / "a.jsonl", [{"text": "x" * 900}])
    output = run("prepare", source, "--out", tmp_path / "out", *OPTIONS, "--max-bytes", 100, code=2).err
    assert "the first document is longer than --max-bytes 100. Raise it, into a new --out" in output and "--cut" not in output


def test_parts_are_counted_and_one_document_of_most_parts_is_warned_of(run, tmp_path):
    def rows(ids):
        return write_jsonl(
            tmp_path / "a.jsonl", [{"text": f"a small text {i:04d} of gulls", "id": id_} for i, id_ in enumerate(ids)]
        )

    output = run("prepare", rows([f"issue#{i}" for i in range(12)]), "--out", tmp_path / "one", *OPTIONS).out
    assert "12 documents are parts of 1 longer ones (ids such as x#3); parts of one go to the same split" in output
    assert "warning: 12 of all 12 documents are parts of one and the same" in output
    output = run("prepare", rows([f"book{i % 4}#{i}" for i in range(12)]), "--out", tmp_path / "four", *OPTIONS).out
    assert "12 documents are parts of 4 longer ones" in output and "warning" not in output
    output = run("prepare", rows([f"{i}" for i in range(12)]), "--out", tmp_path / "none", *OPTIONS).out
    assert "are parts of" not in output


def test_parts_are_counted_alike_however_many_rows_are_written_at_a_time(run, tmp_path, monkeypatch):
    ids = [f"book{i * i % 7}#{i}" for i in range(60)] + ["plain"] * 5
    source = write_jsonl(
        tmp_path / "a.jsonl", [{"text": f"a small text {i:04d} of gulls", "id": id_} for i, id_ in enumerate(ids)]
    )
    counts = []
    for most in (1, 3, 1 << 16):
        monkeypatch.setattr("rltok.data.units.BATCH_ROWS", most)
        counts.append(json.loads(run("prepare", source, "--out", tmp_path / f"{most}", *OPTIONS, "--json").out)["parts"])
    books = [i * i % 7 for i in range(60)]
    assert counts == [{"documents": 60, "wholes": len(set(books)), "most": max(map(books.count, books))}] * 3


@pytest.mark.parametrize("limit", ["0", "-5", "15"])
def test_less_than_a_row_of_a_prepared_folder_cannot_be_scored(run, tmp_path, limit):
    source = write_jsonl(tmp_path / "a.jsonl", [{"text": f"document {i} of a corpus about gulls"} for i in range(40)])
    run(
        "prepare",
        source,
        "--out",
        tmp_path / "out",
        *OPTIONS,
        "--validation",
        write_jsonl(tmp_path / "v.jsonl", [{"text": "v" * 64}]),
    )
    small = as_options({key: value for key, value in SETTINGS.items() if key.startswith("model.")})
    settings = [*small, "data.sequence_length=16", "data.cut=windows", "train.sequences_per_update=4", "train.micro_batch=4"]
    run("train", "--data", tmp_path / "out", "--out", tmp_path / "run", *settings, "train.training_bytes=64")
    output = run("evaluate", tmp_path / "run", "--data", tmp_path / "out", "--max-bytes", limit, code=2).err
    assert f"max_bytes={limit} is less than one row of data.sequence_length=16 bytes" in output


@pytest.mark.parametrize("extra", [[], ["--json"]])
def test_without_training_text_nothing_says_to_train(run, tmp_path, extra):
    source = write_jsonl(tmp_path / "a.jsonl", [{"text": "one and the same text"}])
    for _ in range(2):  # and when the folder is finished already
        output = run("prepare", source, "--validation", source, "--out", tmp_path / "out", *OPTIONS, *extra, code=2)
        assert "the training split is empty" in output.err.splitlines()[-1] and "train on it" not in output.out + output.err


@pytest.mark.parametrize("out", ["x" * 300, "x" * 300 + "/y"])
def test_a_name_that_no_folder_can_have_is_one_line(run, tmp_path, out):
    source = write_jsonl(tmp_path / "a.jsonl", [{"text": "one and the same text"}])
    for extra in ([], ["--check"]):
        output = run("prepare", source, "--out", tmp_path / out, *OPTIONS, *extra, code=2).err
        assert "cannot be a folder's name (File name too long). Name another folder." in output and "Errno" not in output


def test_a_link_to_nothing_is_one_line(run, tmp_path):
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / "a.txt").write_text("some text of many bytes")
    (tmp_path / "t" / "b.txt").symlink_to(tmp_path / "nowhere.txt")
    output = run("prepare", tmp_path / "t", "--out", tmp_path / "out", *OPTIONS, code=2).err
    assert "b.txt': it is a link to nothing. Mend the link, or remove it." in output


def test_more_text_than_was_guessed_is_no_more_than_100_percent(run, tmp_path):
    with gzip.open(tmp_path / "t.jsonl.gz", "wt") as file:
        file.writelines(json.dumps({"text": f"{'gull ' * 400}{i}"}) + "\n" for i in range(300))
    output = run("prepare", tmp_path / "t.jsonl.gz", "--out", tmp_path / "out", *OPTIONS).err
    lines = [line for line in output.splitlines() if "%" in line]
    assert all(line.endswith("part 1 of 1") for line in lines)
    assert 1 <= len(lines) <= 11 and max(int(re.match(r" *(\d+)%", line)[1]) for line in lines) == 100
    assert not any("100%" in line and "left" in line for line in lines)


def test_a_log_has_a_line_for_the_first_update_and_ten_for_all_however_the_bytes_come(capsys):
    for sizes, percents in (
        ([10] * 100, [1, *range(10, 101, 10)]), ([250] * 4, [25, 50, 75, 100]), ([5000] + [10] * 100, [100]),
        ([950] + [1] * 49, [95]), ([1] * 99, [0]),
    ):  # fmt: skip
        shown = Progress(1000, 0, shown=True)
        for size in sizes:
            shown.update(size, "")
        shown.close()
        percentages = [int(line.split("%")[0]) for line in capsys.readouterr().err.splitlines()]
        assert percentages == list(percents)


def test_before_anything_is_read_no_line_says_how_long_the_rest_takes(capsys):
    with closing(Progress(100, 0, shown=True)) as progress:
        progress.update(0, "part 1 of 2")
        assert capsys.readouterr().err == ""
        progress.update(1, "part 1 of 2")
    assert "part 1 of 2" in capsys.readouterr().err


@pytest.mark.parametrize(("size", "left", "told"), [(10**4, "9 s", 0), (10**6, "17 min", 0), (10**8, "27.8 h", 1)])
def test_a_run_of_days_is_told_once_what_takes_less_time(size, left, told, capsys, monkeypatch):
    clock = itertools.count()
    monkeypatch.setattr("rltok.runs.progress.time.perf_counter", lambda: next(clock))
    with closing(Progress(size, 0, shown=True, remedy="Take less.")) as progress:
        for _ in range(3):
            progress.update(1000, "")
    lines = capsys.readouterr().err.splitlines()
    assert f"  {left} left" in lines[0]
    assert [line.endswith(" h. Take less.") for line in lines].count(True) == told


@pytest.mark.usefixtures("shapes_unchecked", "short_snapshots")
def test_training_on_a_cpu_says_it(run, tmp_path, monkeypatch):
    train = ("train", "--preset", "tiny", *as_options(SETTINGS), "--data", write_text(tmp_path), "--device", "cpu")
    assert ON_A_CPU not in run(*train, "--out", tmp_path / "short").err
    monkeypatch.setattr("rltok.runs.progress.LONG", 0)
    assert run(*train, "--out", tmp_path / "long").err.count(ON_A_CPU) == 1
