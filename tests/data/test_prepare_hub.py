"""`rltok prepare` from the hub: real `datasets` streams over local files of the hub's schema, without a network."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from preparing import documents_of, request, write_jsonl, write_parquet

from rltok.data import documents, hub, units
from rltok.data.prepare import prepare_folder
from rltok.errors import RltokError

datasets = pytest.importorskip("datasets")
pytestmark = pytest.mark.filterwarnings("ignore")
ROWS = 40


@pytest.fixture(autouse=True)
def offline(monkeypatch, tmp_path):
    """No hub, and no dataset left open."""
    monkeypatch.setattr(hub, "hub_reachable", lambda: True)
    units.opened.cache_clear()
    yield
    units.opened.cache_clear()


def fineweb(number):
    text = f"page {number} of the web, with a sentence or two"
    return {
        "text": text, "id": f"<urn:uuid:{number}>", "dump": "CC-MAIN-2024-10", "url": f"https://example.com/{number}#2",
        "date": "2024-02-21T00:00:00Z", "file_path": "s3://commoncrawl/x.warc.gz", "language": "en",
        "language_score": 0.97, "token_count": 11,
    }  # fmt: skip


def codeparrot(number):
    return {
        "repo_name": "a/b", "path": f"m{number}.py", "copies": "1", "size": "30", "license": "mit",
        "content": f"def number_{number}():\n    return {number}\n",
    }  # fmt: skip


KINDS = {
    "fineweb": ("fineweb", fineweb, "text"), "hf:HuggingFaceFW/fineweb:sample-10BT": ("fineweb", fineweb, "text"),
    "codeparrot": ("codeparrot", codeparrot, "content"),
}  # fmt: skip


def put_local_files(monkeypatch, tmp_path, row, format="parquet"):
    """Three files of a dataset, streamed by the real `datasets` in place of the hub's."""
    paths = []
    for part in range(3):
        rows = [row(number) for number in range(part, ROWS, 3)]
        path = tmp_path / f"train-{part:05d}.{format}"
        if format == "parquet":
            write_parquet(path, rows)
        else:
            path.write_text("".join(json.dumps(each) + "\n" for each in rows))
        paths.append(str(path))
    kind = "parquet" if format == "parquet" else "json"

    def load_dataset(name, config, *, split, **options):
        where = {"data_files": paths, "cache_dir": str(tmp_path / "cache"), **options}
        return datasets.load_dataset(kind, split="train", streaming=True, **where)

    monkeypatch.setattr(hub, "load_dataset", load_dataset)
    return [row(number) for part in range(3) for number in range(part, ROWS, 3)]


@pytest.mark.parametrize("format", ["parquet", "jsonl"])
@pytest.mark.parametrize("spec", KINDS)
def test_a_dataset_of_the_hubs_schema_is_one_unit_a_file_and_its_text_column_is_stored(monkeypatch, tmp_path, spec, format):
    _, row, column = KINDS[spec]
    rows = put_local_files(monkeypatch, tmp_path, row, format)
    record = prepare_folder(request([spec], cut="windows", sequence_length=16), tmp_path / "out")
    assert documents_of(tmp_path / "out")["train"] == [each[column].encode() for each in rows]
    names = [unit["name"] for unit in record["units"]]
    assert names[2].endswith("file 3 of 3") and names[0].startswith("hf:") and len(names) == 3
    units.opened.cache_clear()
    assert [document.text.decode() for document in documents(spec)] == [each[column] for each in rows]


def test_a_file_of_a_split_is_a_dataset(tmp_path):
    path = write_jsonl(tmp_path / "a.jsonl", [{"text": f"né {i} and more", "source": "s", "id": f"b#{i}"} for i in range(9)])
    prepare_folder(request([path], cut="windows", sequence_length=8), tmp_path / "out")
    opened = datasets.load_dataset(
        "arrow", data_files=str(tmp_path / "out" / "train.arrow"), split="train", cache_dir=str(tmp_path / "cache")
    )
    assert opened["text"][:] == [f"né {i} and more".encode() for i in range(9)] and set(opened["source"]) == {"s"}


class Flaky:
    """A stream that breaks after every few rows, as often as told; it remembers where it was opened."""

    def __init__(self, dataset, breaks, every):
        self.dataset, self.breaks, self.every, self.skipped, self.opened = dataset, breaks, every, 0, []

    num_shards = property(lambda self: self.dataset.num_shards)

    def shard(self, num_shards, index):
        self.part = self.dataset.shard(num_shards=num_shards, index=index)
        return self

    def skip(self, count):
        self.skipped = count
        return self

    def __iter__(self):
        self.opened.append(self.skipped)
        for number, row in enumerate(self.part.skip(self.skipped)):
            if self.breaks and number == self.every:
                self.breaks.pop()
                raise ConnectionResetError("the network\nwent away")
            yield row
        self.skipped = 0


@pytest.mark.parametrize("every, breaks", [(4, 6), (0, 4)])
def test_a_broken_connection_is_waited_for_and_no_row_is_lost_or_read_twice(monkeypatch, tmp_path, every, breaks):
    rows = put_local_files(monkeypatch, tmp_path, fineweb)
    flaky, waited = Flaky(hub.load_dataset("x", None, split="train"), [None] * breaks, every), []
    monkeypatch.setattr(hub, "load_dataset", lambda *_, **__: flaky)
    prepare_folder(request(["fineweb"], cut="windows", sequence_length=16), tmp_path / "out", sleep=waited.append)
    assert documents_of(tmp_path / "out")["train"] == [each["text"].encode() for each in rows]
    assert waited == ([1.0] * 6 if every else [1.0, 2.0, 4.0, 8.0])
    assert flaky.opened[: 1 + min(breaks, 3)] == ([0, 4, 8, 12] if every else [0, 0, 0, 0])


def test_after_five_failures_in_a_row_it_gives_up_and_the_same_command_reads_only_what_is_missing(monkeypatch, tmp_path):
    rows = put_local_files(monkeypatch, tmp_path, fineweb)
    plain = hub.load_dataset("x", None, split="train")
    flaky, made, waited = Flaky(plain, [], 3), request(["fineweb"], cut="windows", sequence_length=16), []
    monkeypatch.setattr(hub, "load_dataset", lambda *_, **__: flaky)
    whole = flaky.shard

    def shard(num_shards, index):
        flaky.breaks = [None] * 9 * (index == 1)  # the network goes while the second file is read
        return whole(num_shards, index)

    def sleep(seconds):
        flaky.every = 0  # from the first failure on no row comes through
        waited.append(seconds)

    monkeypatch.setattr(flaky, "shard", shard)
    with pytest.raises(RltokError, match="the network went away; row 3 failed 5 times in a row.*the same command again"):
        prepare_folder(made, tmp_path / "out", sleep=sleep)
    assert waited == [1.0, 2.0, 4.0, 8.0]
    units.opened.cache_clear()
    monkeypatch.setattr(hub, "load_dataset", lambda *_, **__: plain)
    record = prepare_folder(made, tmp_path / "out")
    assert documents_of(tmp_path / "out")["train"] == [each["text"].encode() for each in rows]
    assert record["timing"]["bytes"] == sum(len(fineweb(number)["text"]) for number in range(ROWS) if number % 3)


def test_null_texts_of_a_dataset_are_counted_and_a_missing_column_stops(monkeypatch, tmp_path):
    put_local_files(monkeypatch, tmp_path, lambda n: fineweb(n) | {"text": None if n == 4 else fineweb(n)["text"]})
    record = prepare_folder(request(["fineweb"], cut="windows", sequence_length=16), tmp_path / "out")
    assert (record["read"]["null"], record["read"]["stored"]) == (1, ROWS - 1)
    assert record["read"]["named"]["null"][0].endswith("file 2 of 3: 1")
    units.opened.cache_clear()
    put_local_files(monkeypatch, tmp_path, codeparrot)
    with pytest.raises(RltokError, match="no strings in column 'text'; its columns are repo_name"):
        prepare_folder(request(["fineweb"]), tmp_path / "other")


def put_differing_files(monkeypatch, tmp_path, format):
    """Two files of a dataset whose columns differ in name and kind, but for that of the text."""
    rows = [[{"text": "the first", "id": 1, "n": 1}], [{"text": "the second", "id": "x", "m": [1]}]]
    write = write_parquet if format == "parquet" else write_jsonl
    paths = [write(tmp_path / f"{number}.{format}", each) for number, each in enumerate(rows)]
    kind = "parquet" if format == "parquet" else "json"

    def load_dataset(name, config, *, split, **options):
        where = {"data_files": paths, "cache_dir": str(tmp_path / "cache"), **options}
        return datasets.load_dataset(kind, split="train", streaming=True, **where)

    monkeypatch.setattr(hub, "load_dataset", load_dataset)


def never(seconds):
    raise AssertionError("waited for the network, which is not at fault")


def test_files_whose_other_columns_differ_are_read_for_their_text(monkeypatch, tmp_path):
    put_differing_files(monkeypatch, tmp_path, "parquet")
    assert [document.text for document in documents("hf:a/b")] == [b"the first", b"the second"]
    prepare_folder(request(["hf:a/b"], cut="windows", sequence_length=8), tmp_path / "out", sleep=never)


def test_files_that_cannot_be_read_together_stop_at_once_and_no_network_is_blamed(monkeypatch, tmp_path):
    put_differing_files(monkeypatch, tmp_path, "jsonl")
    for read in (
        lambda: list(documents("hf:a/b")),
        lambda: prepare_folder(request(["hf:a/b"], cut="windows", sequence_length=8), tmp_path / "out", sleep=never),
    ):
        with pytest.raises(RltokError, match="cannot read 'hf:a/b' at row [01]: .*Its files are damaged or differ") as caught:
            read()
        assert "network" not in str(caught.value) and "\n" not in str(caught.value)


def test_bytes_that_are_no_utf8_in_a_dataset_stop_at_once_with_the_row(monkeypatch, tmp_path):
    bad = pa.Array.from_buffers(pa.string(), 2, pa.array([b"fine", b"\xff\xfe"], pa.binary()).buffers())
    pq.write_table(pa.table({"text": bad}), tmp_path / "bad.parquet")
    local = datasets.load_dataset(
        "parquet", data_files=str(tmp_path / "bad.parquet"), split="train", streaming=True, cache_dir=str(tmp_path / "cache")
    )
    monkeypatch.setattr(hub, "load_dataset", lambda *_, **__: local)

    def sleep(seconds):
        raise AssertionError("no further try mends this")

    with pytest.raises(RltokError, match="row 1 is no valid UTF-8"):
        prepare_folder(request(["fineweb"]), tmp_path / "out", sleep=sleep)


def test_a_limit_opens_no_more_files_than_it_needs(monkeypatch, tmp_path):
    rows = put_local_files(monkeypatch, tmp_path, fineweb)
    made = request(["fineweb"], cut="windows", sequence_length=16, max_bytes=300)
    record = prepare_folder(made, tmp_path / "out")
    assert record["read"]["read"] < ROWS / 3 and len(list(tmp_path.glob("out/*.arrow"))) == 3
    docs = documents_of(tmp_path / "out")["train"]
    assert docs == [each["text"].encode() for each in rows][: len(docs)] and 250 < sum(map(len, docs)) <= 300


def test_without_a_network_it_fails_before_anything_is_asked_or_written(monkeypatch, tmp_path):
    monkeypatch.setattr(hub, "hub_reachable", lambda: False)

    def never(*_, **__):
        raise AssertionError("asked the hub")

    monkeypatch.setattr(hub, "load_dataset", never)
    with pytest.raises(RltokError, match="cannot reach the Hugging Face hub.*--data sample"):
        prepare_folder(request(["fineweb"]), tmp_path / "out")
    assert not [path.name for path in (tmp_path / "out").iterdir() if path.name != ".lock"]
