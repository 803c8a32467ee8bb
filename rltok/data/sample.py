"""The bundled sample: about 2 MB of public-domain English that works without a network. SOURCES.md names each text."""

from collections.abc import Iterator
from pathlib import Path

from rltok.data.documents import Document
from rltok.errors import RltokError

SAMPLE_FILE = Path(__file__).with_name("sample.parquet")
SPLITS = ("train", "validation", "test")


def sample_documents(split: str | None = None) -> Iterator[Document]:
    """Documents of one split (train, validation, test), or of all three. Raises `RltokError` for another split."""
    import pyarrow.parquet as pq

    if split is not None and split not in SPLITS:
        raise RltokError(f"the sample has no split {split!r}. Choose one of: {', '.join(SPLITS)}.")
    for row in pq.read_table(SAMPLE_FILE).to_pylist():
        if split in (None, row["split"]):
            yield Document(row["text"].encode("utf-8"), row["source"], row["id"])
