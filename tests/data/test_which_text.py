"""Which text is read: what is trained on is said, and what could be meant in two ways is refused, never guessed in silence."""

import gzip
import json
import os
import shlex
import socket

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from preparing import documents_of, write_jsonl
from runs import SETTINGS, as_options

from rltok.config import DataConfig
from rltok.data import cut_documents, documents, load_corpus
from rltok.errors import RltokError

SMALL = as_options(
    {key: value for key, value in SETTINGS.items() if key.startswith("model.")}
    | {"data.sequence_length": 16, "data.cut": "windows", "train.sequences_per_update": 4, "train.micro_batch": 4}
    | {"train.training_bytes": 64}
)
PREPARE = ["--cut", "windows", "--sequence-length", "16", "--jobs", "1", "--validation-fraction", "0", "--test-fraction", "0"]
SENTENCE = "a sentence about gulls, ferries and tides"
CONFIG = DataConfig(sequence_length=16, cut="windows")


@pytest.fixture
def corpus(tmp_path):
    """Three texts in a folder."""
    folder = tmp_path / "corpus"
    folder.mkdir()
    for name in "abc":
        (folder / f"{name}.txt").write_text(f"{SENTENCE} {name} " * 4)
    return folder


def names(spec):
    return [document.id for document in documents(spec)]


def error_of(spec):
    with pytest.raises(RltokError) as caught:
        list(documents(spec))
    assert "\n" not in str(caught.value)
    return str(caught.value)


# What was read is said


def test_training_says_in_one_line_what_it_read_and_what_it_left_out(run, corpus, tmp_path):
    for name in ("table.csv", "x.png", "y.png"):
        (corpus / name).write_bytes(b"x")
    (corpus / "more").symlink_to(tmp_path, target_is_directory=True)
    output = run("train", "--data", corpus, "--out", tmp_path / "run", *SMALL)
    (line,) = [line for line in output.err.splitlines() if line.startswith("training text: ")]
    read = "3 text files of corpus (a.txt, b.txt, c.txt), without 1 .csv, 2 .png, linked folder more"
    facts = json.loads((tmp_path / "run" / "data.json").read_text())
    counts = "{bytes} bytes, {documents} documents, {rows} rows".format(**facts["train"])
    assert line == f"training text: {read}: {counts}; held out: {facts['held_out']}"
    output = run("train", "--data", corpus, "--out", tmp_path / "run", *SMALL, "--resume", "--json")
    assert output.err == "" and json.loads(output.out)["text"] == line


def test_every_kind_of_text_has_words(corpus, tmp_path):
    table = [{"text": f"{SENTENCE} {i}"} for i in range(20)]
    (tmp_path / "t").mkdir()
    for i in range(4):
        write_jsonl(tmp_path / "t" / f"{i}.jsonl", table)
    (tmp_path / "t" / "README.md").write_text("about the tables")
    pq.write_table(pa.table({"text": [row["text"] for row in table]}), tmp_path / "p.parquet")
    (corpus / "bad\nname \udce9.txt").write_text(SENTENCE)
    (tmp_path / "m.py").write_text("x = 1\n" * 20)
    for spec, text in (
        (tmp_path / "t", "4 JSON Lines files of t (0.jsonl, 1.jsonl, 2.jsonl and 1 more), without 1 .md"),
        (tmp_path / "p.parquet", "1 Parquet file (p.parquet)"),
        (f"{tmp_path}/*.p*", "1 Python file of *.p* (m.py) and 1 Parquet file of *.p* (p.parquet)"),
        (f"python:{tmp_path}", f"1 Python file of python:{tmp_path.name} (m.py)"),
        ([corpus / "a.txt", corpus / "b.txt"], "1 text file (a.txt); 1 text file (b.txt)"),
        (corpus, "4 text files of corpus (a.txt, b.txt, bad\\nname \\udce9.txt and 1 more)"),
        ("sample", "sample"),
    ):
        config = CONFIG if spec != "sample" else DataConfig(sequence_length=512, cut="windows")
        assert load_corpus(spec, config).summary.startswith(f"training text: {text}: ")


def test_preparing_and_scoring_say_it_too(run, corpus, tmp_path):
    (corpus / "table.csv").write_bytes(b"x")
    output = run("prepare", corpus, "--validation", corpus / "a.txt", "--out", tmp_path / "out", *PREPARE).err
    assert "source: 3 text files of corpus (a.txt, b.txt, c.txt), without 1 .csv" in output.splitlines()
    assert "validation: 1 text file (a.txt)" in output.splitlines()
    output = run("train", "--data", tmp_path / "out", "--out", tmp_path / "run", *SMALL).err
    assert "training text: the folder out of rltok prepare: " in output
    assert (
        "text: 3 text files of corpus (a.txt, b.txt, c.txt), without 1 .csv"
        in run("evaluate", tmp_path / "run", "--data", corpus).err
    )


# Files whose names say what they are


@pytest.mark.parametrize(
    "suffix", [".ndjson", ".json", ".NDJSON", ".ndjson.gz", ".json.gz", ".ndjson.zst", ".jsonlines", ".jl", ".jl.gz"]
)
def test_an_object_a_line_is_json_lines_whatever_the_file_is_called(tmp_path, suffix):
    data = b'{"text": "one"}\n{"text": "two"}\n'
    packed = {".gz": gzip.compress(data), ".zst": pa.compress(data, codec="zstd", asbytes=True)}
    path = tmp_path / f"a{suffix}"
    path.write_bytes(packed.get(path.suffix, data))
    assert [document.text for document in documents(path)] == [b"one", b"two"]


@pytest.mark.parametrize("content, complaint", [
    ('[{"text": "one"}]', "line 1 is list, not an object. Write one JSON object with a 'text' field per line, as `jq -c '.[]'`"),
    (json.dumps({"text": "one"}, indent=1), "Write one JSON object per line, as `jq -c .` does"),
    (json.dumps([{"text": "one"}], indent=1), "Write one JSON object per line, as `jq -c '.[]'` does"),
    ('{"text": "one"', "Write one JSON object per line."),
    ('{"body": "one"}', "line 1 has no 'text', only 'body'"),
])  # fmt: skip
def test_other_json_is_refused_and_never_trained_on_as_text(run, tmp_path, content, complaint):
    (tmp_path / "a.json").write_text(content)
    assert complaint in run("train", "--data", tmp_path / "a.json", "--out", tmp_path / "run", code=2).err
    assert complaint in error_of(tmp_path / "a.json")


def test_a_julia_source_says_how_to_train_on_it(tmp_path):
    (tmp_path / "a.jl").write_text("println(1)\n")
    assert "To train on a Julia source as it stands, name a copy .txt." in error_of(tmp_path / "a.jl")


def test_a_folder_of_julia_sources_is_no_json_lines(tmp_path):
    (tmp_path / "a.jl").write_text("println(1)\n")
    assert "it has 1 .jl" in error_of(tmp_path)
    (tmp_path / "b.txt").write_text("some text")
    assert [document.text for document in documents(tmp_path)] == [b"some text"]


def test_pq_is_parquet_wherever_it_stands(tmp_path):
    pq.write_table(pa.table({"text": ["one", "two"]}), tmp_path / "a.pq")
    for spec in (tmp_path, tmp_path / "a.pq", f"{tmp_path}/*.pq"):
        assert [document.text for document in documents(spec)] == [b"one", b"two"]


@pytest.mark.parametrize("name, complaint", [
    ("a.csv", "is a table by its name, which is not read. Write its texts as JSON Lines or Parquet with a column 'text'"),
    ("a.TSV", "is a table"), ("a.arrow", "is a table"), ("a.csv.gz", "is packed by its name, which is not read. Unpack it first"),
    ("a.txt.gz", "is packed"), ("a.jsonl.bz2", "is packed"), ("a.parquet.zst", "is packed"), ("a.zip", "is packed"),
    ("a.pdf", "is no plain text by its name, which is not read. Convert it to .txt"),
])  # fmt: skip
def test_tables_and_packed_files_are_refused_with_a_remedy_before_anything_is_read(run, tmp_path, name, complaint):
    (tmp_path / "0.txt").write_text(SENTENCE)
    (tmp_path / name).write_text("text\n" + SENTENCE)
    for spec in (str(tmp_path / name), tmp_path / name, f"{tmp_path}/*"):
        with pytest.raises(RltokError, match=complaint):
            documents(spec, allow_binary=True)
    for command in ("train", "prepare"):
        given = ["--data", tmp_path / name] if command == "train" else [tmp_path / name]
        assert complaint in run(command, *given, "--any-bytes", "--out", tmp_path / "out", code=2).err
    assert not (tmp_path / "out" / "prepared.json").exists()


# Several kinds in one folder


@pytest.mark.parametrize("stray, counted", [
    ("stray.jsonl", "has 1 JSON Lines file (stray.jsonl) and 3 text files (a.txt, b.txt, c.txt)"),
    ("deep/stray.ndjson.gz", "has 1 JSON Lines file (deep/stray.ndjson.gz) and 3 text files"),
    ("stray.parquet", "has 1 Parquet file (stray.parquet) and 3 text files"),
])  # fmt: skip
def test_texts_beside_a_table_are_not_dropped_and_what_the_message_says_works(run, tmp_path, stray, counted):
    folder = tmp_path / "my [1] corpus"
    (folder / "deep").mkdir(parents=True)
    for name in "abc":
        (folder / f"{name}.txt").write_text(SENTENCE)
    path = folder / stray
    if stray.endswith(".parquet"):
        pq.write_table(pa.table({"text": ["of a table"]}), path)
    else:
        line = b'{"text": "of a table"}\n'
        path.write_bytes(gzip.compress(line) if stray.endswith(".gz") else line)
    for command in (["train", "--data"], ["prepare"]):
        message = run(*command, folder, "--out", tmp_path / "out", code=2).err
        assert counted in message
    patterns = shlex.split(message.partition("Say which: ")[2].strip().removesuffix("."))
    assert [[document.text.decode() for document in documents(spec)] for spec in patterns if spec != "or"] == [
        ["of a table"], [SENTENCE] * 3,
    ]  # fmt: skip


def test_a_readme_and_a_licence_beside_tables_are_about_them_and_left_out_in_words(tmp_path):
    write_jsonl(tmp_path / "a.jsonl", [{"text": f"{SENTENCE} {i}"} for i in range(9)])
    for name in ("README.md", "readme_fr.md", "LICENSE.txt"):
        (tmp_path / name).write_text("about the table")
    assert "1 JSON Lines file of " in (output := load_corpus(tmp_path, CONFIG).summary) and ", without 2 .md, 1 .txt: " in output
    (tmp_path / "notices of births.txt").write_text(SENTENCE)
    assert "1 text file (notices of births.txt)" in error_of(tmp_path)


def test_a_folder_without_text_says_what_it_holds(tmp_path):
    for name in ("a.json", "b.json", "c.csv"):
        (tmp_path / name).write_text('{"text": "x"}')
    assert "it has 1 .csv, 2 .json. For Python sources" in error_of(tmp_path)


# Runs inside the data


def test_a_run_inside_the_folder_of_its_text_can_be_resumed_and_its_logs_are_no_text(run, corpus, monkeypatch):
    monkeypatch.chdir(corpus)
    command = ["train", "--data", ".", "--out", "runs/one", *SMALL]
    run(*command)
    before = json.loads((corpus / "runs" / "one" / "data.json").read_text())
    assert "without run runs/one" in run(*command, "--resume").err
    assert json.loads((corpus / "runs" / "one" / "data.json").read_text()) == before
    for name in "abc":
        (corpus / f"{name}.txt").unlink()
    write_jsonl(corpus / "a.jsonl", [{"text": f"{SENTENCE} {i}"} for i in range(20)])
    assert len(names(".")) == len(names("**/*.jsonl")) == 20
    assert "is the folder of a training run, not text" in run("train", "--data", "runs/one", "--out", "x", code=2).err


# Links, pipes and sockets


def test_links_that_go_in_circles_do_not_repeat_a_file(tmp_path):
    loop = tmp_path / "loop"
    (loop / "deep").mkdir(parents=True)
    for name in ("a.txt", "deep/b.txt", "deep/m.py"):
        (loop / name).write_text(SENTENCE)
    (loop / "self").symlink_to(".")
    (loop / "deep" / "up").symlink_to("..")
    (loop / "0.txt").symlink_to("deep/b.txt")
    for spec in (loop, f"{loop}/**/*.txt", f"{loop}/*.txt"):
        assert names(spec) == (["0.txt", "a.txt"])
    assert names(f"{loop}/*/*.txt") == ["b.txt", "a.txt"] and names(f"python:{loop}") == ["deep/m.py"]


def test_folders_that_a_pattern_does_not_search_are_named(run, corpus, tmp_path):
    (corpus / "deep").mkdir()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "d.txt").write_text(SENTENCE)
    (corpus / "my link").symlink_to(tmp_path / "other", target_is_directory=True)
    (corpus / "deep" / "er").symlink_to(tmp_path / "other", target_is_directory=True)
    run("train", "--data", corpus / "a.txt", "--out", corpus / "run", *SMALL)
    base = corpus.parent
    for pattern, passed in (
        (f"{base}/corpus/**/*.txt", "linked folder deep/er, linked folder my link, run run"),
        (f"{base}/corp*/**/*.txt", "linked folder corpus/deep/er, linked folder corpus/my link, run corpus/run"),
        (f"{base}/corpus/*/**/*.txt", "linked folder deep/er"),  # `*` goes through links
        (f"{base}/corpus/*.txt", None),
    ):
        words = load_corpus(pattern, CONFIG).summary
        assert words.partition(", without ")[2].partition(": ")[0] == (passed or ""), pattern


@pytest.mark.parametrize("suffix", ["txt", "jsonl", "json", "ndjson.gz", "parquet", "py"])
def test_a_pipe_or_a_socket_is_refused_wherever_it_stands(run, tmp_path, suffix):
    folder = tmp_path / "d"
    folder.mkdir()
    os.mkfifo(folder / f"pipe.{suffix}")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(os.path.relpath(folder / f"socket.{suffix}"))
    whole = {"py": [f"python:{folder}"], "json": []}.get(suffix, [folder])
    for place in (folder / f"pipe.{suffix}", folder / f"socket.{suffix}", f"{folder}/*", *whole):
        assert "it is not an ordinary file" in run("train", "--data", place, "--out", tmp_path / "run", code=2).err
        assert "it is not an ordinary file" in run("prepare", place, "--out", tmp_path / "out", code=2).err


# Sources that changed


@pytest.mark.parametrize("place", [-1, 1 << 17])
def test_a_source_that_changed_anywhere_at_equal_size_is_noticed(run, tmp_path, place):
    text = bytearray(f"{SENTENCE}\n".encode() * 10_000)
    (tmp_path / "a.txt").write_bytes(text)
    command = ["prepare", tmp_path / "a.txt", "--out", tmp_path / "out", *PREPARE]
    run(*command)
    run(*command)
    text[place] ^= 1
    (tmp_path / "a.txt").write_bytes(text)
    assert "a.txt is not the text that" in run(*command, code=2).err


# Ids and strings of every writer


def test_an_id_that_says_nothing_is_the_place_of_the_row(tmp_path):
    nulls = {"null": pa.nulls(2), "text": pa.array([None, None], pa.string()), "nan": pa.array([float("nan")] * 2)}
    for name, ids in nulls.items():
        pq.write_table(pa.table({"text": ["a", "b"], "id": ids, "source": ids}), tmp_path / f"{name}.parquet")
        assert [document[1:] for document in documents(tmp_path / f"{name}.parquet")] == [
            (f"{name}.parquet", f"{name}.parquet#{row}", "") for row in range(2)
        ]
    (tmp_path / "a.jsonl").write_text('{"text": "a", "id": null, "source": NaN}\n{"text": "b", "id": NaN}\n')
    assert [document[1:] for document in documents(tmp_path / "a.jsonl")] == [("a.jsonl", "1", ""), ("a.jsonl", "2", "")]


def test_addresses_with_a_number_at_the_end_are_documents_of_their_own(run, tmp_path):
    ids = [f"https://example.com/thread#{i}" for i in range(12)] + ["book#1", "book#2"]
    rows = [{"text": f"{SENTENCE} {i}", "id": name} for i, name in enumerate(ids)]
    path = write_jsonl(tmp_path / "a.jsonl", rows)
    assert cut_documents(documents(path), 16, "full_windows", name="t").num_documents == 13
    output = run("prepare", path, "--out", tmp_path / "out", *PREPARE).out
    assert "2 documents are parts of 1 longer ones" in output and len(documents_of(tmp_path / "out")["train"]) == 14


def array_of(kind, values):
    if isinstance(kind, pa.DictionaryType):
        return pa.array(values, kind.value_type).dictionary_encode()
    return pa.array(values, kind)


STRINGS = [pa.string(), pa.large_string(), pa.binary(), pa.large_binary(), pa.dictionary(pa.int32(), pa.string())]
STRINGS += [pa.dictionary(pa.int32(), pa.binary())]
STRINGS += [getattr(pa, name)() for name in ("string_view", "binary_view") if hasattr(pa, name)]


@pytest.mark.parametrize("kind", STRINGS, ids=str)
def test_strings_of_every_writer_are_strings(tmp_path, kind):
    values = ["tëxt", None, "", "tëxt", "more"]
    columns = {
        "text": array_of(kind, values),
        "id": array_of(kind, ["é#1", "é#2", None, "x", "y"]),
        "source": array_of(kind, ["s"] * 5),
    }
    pq.write_table(pa.table(columns), tmp_path / "a.parquet")
    docs = list(documents(tmp_path / "a.parquet"))
    assert [document.text for document in docs] == [(value or "").encode() for value in values]
    assert [document[1:] for document in docs[:3]] == [("s", "é#1", "é"), ("s", "é#2", "é"), ("s", "a.parquet#2", "")]


def test_columns_of_other_things_are_still_refused(tmp_path):
    for column in (pa.array([1]), pa.array([1]).dictionary_encode(), pa.array([["a"]]), pa.array([b"ab"], pa.binary(2))):
        pq.write_table(pa.table({"text": column}), tmp_path / "a.parquet")
        assert "not strings or bytes" in error_of(tmp_path / "a.parquet")


# Advice


@pytest.mark.parametrize("cut", ["windows", "documents"])
def test_text_in_latin_1_is_named_with_advice_that_helps(run, tmp_path, cut):
    (tmp_path / "old.txt").write_bytes("Un été à Besançon, où l'on mange des crêpes.".encode("latin-1"))
    (tmp_path / "short.txt").write_bytes(b"short")
    options = [*PREPARE[2:], "--cut", cut]
    for sources, text in ((["old.txt"], "1 invalid utf8"), (["old.txt", "old.txt", "short.txt"], "1 too short, 2 invalid utf8")):
        paths = [tmp_path / name for name in sources]
        message = run("prepare", *paths, "--out", tmp_path / f"out{len(sources)}", *options, code=2).err
        assert (
            f"{text} (first: old.txt: old.txt). Convert the text to UTF-8, or let any bytes through with --any-bytes" in message
        )
        assert "--cut" not in message
    run("prepare", tmp_path / "old.txt", "--any-bytes", "--out", tmp_path / "any", *options)
    message = run("prepare", tmp_path / "short.txt", "--out", tmp_path / "short", *options, code=2).err
    assert (
        f"1 too short. Give longer texts, or {'a smaller --sequence-length' if cut == 'windows' else '--cut windows'}" in message
    )
