"""Documents streamed from Hugging Face datasets, opened only once the hub is known to answer."""

import os
import queue
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from rltok import vocab
from rltok.data.documents import NULL_TEXT, Document, label_of, one_line
from rltok.errors import RltokError

ALIASES = {
    "fineweb": "hf:HuggingFaceFW/fineweb:sample-100BT",  # the sample that the authors' code reads
    "codeparrot": "hf:transformersbook/codeparrot-train",
}
TEXT_COLUMNS = {"transformersbook/codeparrot-train": "content"}  # every other dataset: "text"
TEXT_INSTEAD = "the bundled text, --data sample, or a local file"
PROBE_SECONDS = 3.0
TRIES = 5  # failures in a row, without a row between them, after which a stream is given up


def hub_reachable(timeout: float = PROBE_SECONDS) -> bool:
    """Whether the hub answers a request within `timeout` seconds; False when an offline switch is set.

    It is asked as for a download, through the same proxies and with the same certificates. An open connection alone would not
    do: networks that ask for a login first, and firewalls, accept it and then say nothing, or something of their own.
    """
    if any(os.environ.get(name, "").upper() in {"1", "TRUE", "YES", "ON"} for name in ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE")):
        return False
    try:
        from huggingface_hub import get_session
    except ImportError:  # what asks next names the package that is missing
        return True
    except ValueError:  # HF_ENDPOINT is no address, which the package finds as it is imported
        return False
    answers: queue.SimpleQueue[bool] = queue.SimpleQueue()

    def ask() -> None:
        try:
            get_session().head(os.environ.get("HF_ENDPOINT", "https://huggingface.co"), timeout=timeout)
            answers.put(True)
        except Exception:  # of whichever HTTP library its version uses
            answers.put(False)

    # In a thread of its own, because the time limit covers neither the look-up of the name nor all of its phases together.
    threading.Thread(target=ask, daemon=True).start()
    try:
        return answers.get(timeout=timeout)
    except queue.Empty:
        return False


def parse(spec: str) -> tuple[str, str | None]:
    """`hf:OWNER/NAME[:CONFIG]` as (OWNER/NAME, CONFIG or None). Raises `RltokError` for any other form."""
    name, _, config = spec.removeprefix("hf:").partition(":")
    owner, _, rest = name.partition("/")
    if not owner or not rest or "/" in rest:
        raise RltokError(f"data {spec!r} must read hf:OWNER/NAME or hf:OWNER/NAME:CONFIG, as does {ALIASES['fineweb']}.")
    return name, config or None


def load_dataset(name: str, config: str | None, **where: Any) -> Any:
    """A dataset as the package `datasets` streams it; tests replace this function."""
    import datasets

    return datasets.load_dataset(name, config, streaming=True, **where)


def open_dataset(spec: str, force: bool, *, instead: str = TEXT_INSTEAD, **where: str) -> Any:
    """A dataset `hf:OWNER/NAME[:CONFIG]` ready to stream.

    Args:
        spec: which dataset.
        force: skip the test that the hub answers.
        instead: what the error without a network recommends.
        where: the `split`, and a `revision` other than the main one.

    Raises:
        RltokError: at once: no network, no package `datasets`, no such dataset.
    """
    name, config = parse(spec)
    if not force and not hub_reachable():
        raise RltokError(
            f"cannot reach the Hugging Face hub for {name!r} (no network, or an offline switch is set)."
            f" Use {instead}; if the network is slow, add --force (force=True in Python)."
        )
    try:
        return load_dataset(name, config, **where)
    except ImportError as error:
        raise RltokError(f"{spec!r} needs the package 'datasets': pip install 'rltok[data]'.") from error
    except Exception as error:  # its HTTP and file-system libraries each have exceptions of their own
        raise RltokError(f"cannot read {spec!r} from the hub: {one_line(error)}. Check the name and the network.") from error


def open_texts(spec: str, force: bool) -> Any:
    """The training split of a dataset; of Parquet files only the column of text, so that the others may differ.

    Raises:
        RltokError: as `open_dataset`.
    """
    name, config = parse(spec)
    dataset, column = open_dataset(spec, force, split="train"), text_column(name)
    columns = getattr(dataset, "column_names", None) or []
    if column not in columns or len(columns) == 1:
        return dataset
    try:
        return load_dataset(name, config, split="train", columns=[column])
    except (ValueError, TypeError):  # files of another kind, of which all columns are read
        return dataset


def text_column(name: str) -> str:
    """Which column of a dataset holds the text."""
    return TEXT_COLUMNS.get(name, "text")


def retried(
    spec: str, open_at: Callable[[int], Iterator[Any]], sleep: Callable[[float], None]
) -> Iterator[tuple[int, Any]]:  # fmt: skip
    """Number and row of a stream, across broken connections.

    Args:
        spec: what is read, for the error.
        open_at: opens the stream at a row.
        sleep: waits so many seconds: 1 after a failure, then 2, 4, 8; every row that arrives resets this.

    Raises:
        RltokError: TRIES failures in a row, or rows that no further try would mend.
    """
    number, failures = 0, 0
    while True:
        try:
            for row in open_at(number):
                failures = 0
                yield number, row
                number += 1
            return
        except RltokError:
            raise
        except UnicodeDecodeError as error:
            raise RltokError(f"{spec!r}, row {number} is no valid UTF-8: {one_line(error)}. Choose another dataset.") from error
        except Exception as error:  # see open_dataset
            if isinstance(error, ValueError | TypeError | LookupError | NotImplementedError) and not isinstance(error, OSError):
                raise RltokError(
                    f"cannot read {spec!r} at row {number}: {one_line(error)}. Its files are damaged or differ from each other:"
                    " choose another dataset."
                ) from error  # no network's fault: another try would end the same way
            failures += 1
            if failures >= TRIES:
                raise RltokError(
                    f"cannot read {spec!r} from the hub: {one_line(error)}; row {number} failed {failures} times in a row."
                    " Check the network, then give the same command again; `rltok prepare` keeps the files it has read."
                ) from error
            sleep(2.0 ** (failures - 1))


def dataset_rows(spec: str, dataset: Any, sleep: Callable[[float], None] = time.sleep) -> Iterator[tuple[int, Any]]:
    """`retried` for an open dataset."""
    return retried(spec, lambda taken: iter(dataset.skip(taken) if taken else dataset), sleep)


def shard_documents(
    spec: str, dataset: Any, part: tuple[int, int] | None = None, *,
    allow_null: bool = False, sleep: Callable[[float], None] = time.sleep,
) -> Iterator[Document]:  # fmt: skip
    """Documents of an open dataset.

    Args:
        part: (i, n) for the i-th of its n files; None for all.
        allow_null: a null text is the document `NULL_TEXT` instead of an error.
        sleep: as in `retried`.
    """
    name, _ = parse(spec)
    column = text_column(name)
    chosen = dataset if part is None else dataset.shard(num_shards=part[1], index=part[0])
    for number, row in dataset_rows(spec, chosen, sleep):
        is_null = allow_null and row.get(column, "") is None
        if not (is_null or isinstance(row.get(column), str | bytes)):
            has = ", ".join(row)[:200]
            raise RltokError(f"{spec!r} has no strings in column {column!r}; its columns are {has}. Choose another dataset.")
        text = NULL_TEXT if is_null else vocab.to_utf8(row[column])
        yield Document(text, name, label_of(row.get("id"), str(number)))


def hub_documents(spec: str, force: bool) -> Iterator[Document]:
    """Documents of `hf:OWNER/NAME[:CONFIG]`; `force` skips the test that the hub answers."""
    yield from shard_documents(spec, open_texts(spec, force))
