"""Documents streamed from Hugging Face datasets, asked for only after the hub has been seen to answer."""

import os
import queue
import socket
import threading
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

from rltok import vocab
from rltok.data.documents import Document, one_line
from rltok.errors import RltokError

ALIASES = {
    "fineweb": "hf:HuggingFaceFW/fineweb:sample-100BT",  # the sample that the authors' code reads
    "codeparrot": "hf:transformersbook/codeparrot-train",
}
TEXT_COLUMNS = {"transformersbook/codeparrot-train": "content"}  # every other dataset: "text"
TEXT_INSTEAD = "the bundled text, --data sample, or a local file"
PROBE_SECONDS = 3.0


def hub_reachable(timeout: float = PROBE_SECONDS) -> bool:
    """Whether the hub answers within `timeout` seconds; False when an offline switch is set. Does not go through proxies."""
    if any(os.environ.get(name, "").upper() in {"1", "TRUE", "YES", "ON"} for name in ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE")):
        return False
    try:
        address = urlsplit(os.environ.get("HF_ENDPOINT", "https://huggingface.co"))
        host, port = address.hostname or "", address.port or 443
    except ValueError:  # an address that is none answers nobody
        return False
    answers: queue.SimpleQueue[bool] = queue.SimpleQueue()

    def connect() -> None:
        try:
            socket.create_connection((host, port), timeout).close()
            answers.put(True)
        except OSError:
            answers.put(False)

    # In a thread of its own, because the time limit of create_connection does not cover the look-up of the name.
    threading.Thread(target=connect, daemon=True).start()
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


def load_dataset(name: str, *arguments: Any, **named: Any) -> Any:
    """`datasets.load_dataset`, its package imported when it is needed."""
    try:
        import datasets
    except ImportError as error:
        raise RltokError(f"{name!r} needs the package 'datasets': pip install 'rltok[data]'.") from error
    return datasets.load_dataset(name, *arguments, **named)


def hub_rows(spec: str, force: bool, *, instead: str, **where: str) -> Iterator[dict[str, Any]]:
    """Rows of `hf:OWNER/NAME[:CONFIG]`, streamed in their own order.

    Args:
        spec: which dataset.
        force: skip the test that the hub answers (it cannot see proxies).
        instead: what the error without a network tells the user to take instead.
        where: the `split`, and a `revision` where the main one does not do.
    """
    name, config = parse(spec)
    if not force and not hub_reachable():
        raise RltokError(
            f"cannot reach the Hugging Face hub for {name!r} (no network, or an offline switch is set)."
            f" Use {instead}; behind a proxy add --force (force=True in Python)."
        )
    try:
        yield from load_dataset(name, config, streaming=True, **where)
    except RltokError:
        raise
    except Exception as error:  # its HTTP and file-system libraries each have exceptions of their own
        raise RltokError(f"cannot read {spec!r} from the hub: {one_line(error)}. Check the name and the network.") from error


def hub_documents(spec: str, force: bool) -> Iterator[Document]:
    """Documents of `hf:OWNER/NAME[:CONFIG]`; `force` skips the test that the hub answers (it cannot see proxies)."""
    name, _ = parse(spec)
    column = TEXT_COLUMNS.get(name, "text")
    for number, row in enumerate(hub_rows(spec, force, instead=TEXT_INSTEAD, split="train")):
        if not isinstance(row.get(column), str):
            has = ", ".join(row)[:200]
            raise RltokError(f"{spec!r} has no strings in column {column!r}; its columns are {has}. Choose another dataset.")
        yield Document(vocab.to_utf8(row[column]), name, str(row.get("id", number)))
