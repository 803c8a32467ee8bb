"""Documents from files with one document per row: JSON Lines and Parquet, streamed so that memory stays small."""

import contextlib
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rltok import vocab
from rltok.data.documents import NULL_TEXT, Document, one_line
from rltok.data.files import require_file
from rltok.errors import RltokError

JSONL_SUFFIXES = (".jsonl", ".jsonl.gz", ".jsonl.zst")
PARQUET_SUFFIXES = (".parquet",)
BATCH_ROWS = 256  # Parquet rows held as Python objects at a time


def _label(value: Any, otherwise: str) -> str:
    """A source or id as text, or the other when a row has none."""
    return otherwise if value is None else str(value)


def _whole(label: Any) -> str:
    """Of an id that a table states, such as `book#3`, the name of the whole document, `book`; empty for any other id."""
    name, mark, number = str(label).rpartition("#")
    return name if mark and number.isdecimal() else ""


def _json_document(line: bytes, name: str, number: int, allow_null: bool) -> Document:
    """One line of JSON as a document; errors name the line."""
    place = f"{name!r}, line {number}"
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise RltokError(f"{place} is not valid JSON: {one_line(error)}. Write one JSON object per line.") from error
    if not isinstance(row, dict):
        raise RltokError(f"{place} is {type(row).__name__}, not an object. Write one JSON object with a 'text' field per line.")
    is_null = allow_null and row.get("text", "") is None
    if not (is_null or isinstance(row.get("text"), str)):
        names = ", ".join(map(repr, row))[:200] or "nothing"
        has = f"a 'text' of type {type(row['text']).__name__}" if "text" in row else f"no 'text', only {names}"
        raise RltokError(f"{place} has {has}; the text must be a string in the field 'text'. Rename or convert it.")
    try:
        text = NULL_TEXT if is_null else vocab.to_utf8(row["text"])
    except RltokError as error:
        raise RltokError(f"{place}: {error}") from error
    return Document(text, _label(row.get("source"), name), _label(row.get("id"), str(number)), _whole(row.get("id")))


def numbered_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """(number, line) of a file's lines that are not blank, counted from 1; `.gz` and `.zst` are unpacked."""
    import pyarrow as pa

    require_file(path)
    try:
        with pa.input_stream(str(path), compression="detect") as stream:
            for number, line in enumerate(io.BufferedReader(stream), start=1):
                if line.strip():
                    yield number, line
    except MemoryError:  # Arrow's own is an ArrowException, too
        raise
    except (OSError, pa.ArrowException) as error:
        raise RltokError(f"cannot read {str(path)!r}: {one_line(error)}. Check its permissions and that it is whole.") from error


def jsonl_documents(path: Path, allow_null: bool = False) -> Iterator[Document]:
    """One document per line from the field `text`, with `source` and `id` if present; `.gz` and `.zst` are unpacked.

    A text that is null is an error, or with `allow_null` the document `NULL_TEXT`.
    """
    for number, line in numbered_lines(path):
        yield _json_document(line, path.name, number, allow_null)


def _check_text_column(schema: Any, name: str) -> None:
    """Raise `RltokError` unless an Arrow schema has one column `text` of strings or bytes, and no name that is read twice."""
    import pyarrow.types as kinds

    for column in ("text", "source", "id"):
        if (count := schema.names.count(column)) > 1:
            raise RltokError(f"{name!r} has {count} columns named {column!r}. Rename all but one, and write the file again.")
    if "text" not in schema.names:
        has = ", ".join(map(repr, schema.names))[:200]
        raise RltokError(f"{name!r} has no column 'text', only {has}. Rename the one that holds the text.")
    kind = schema.field("text").type
    if not any(test(kind) for test in (kinds.is_string, kinds.is_large_string, kinds.is_binary, kinds.is_large_binary)):
        raise RltokError(f"column 'text' of {name!r} holds {kind}, not strings or bytes. Convert it to strings.")


def parquet_documents(path: Path) -> Iterator[Document]:
    """One document per row from the column `text`, with `source` and `id` if present; a null text is the empty `NULL_TEXT`."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    require_file(path)
    try:
        with pq.ParquetFile(str(path)) as file:
            _check_text_column(file.schema_arrow, path.name)
            columns = [name for name in ("text", "source", "id") if name in file.schema_arrow.names]
            number = 0
            for batch in file.iter_batches(batch_size=BATCH_ROWS, columns=columns):
                # bytes straight from Arrow: decoding 667 MB to str and encoding it again would double the time
                texts = batch.column("text").cast(pa.large_binary()).to_pylist()
                none = [None] * len(texts)
                sources, ids = (batch.column(name).to_pylist() if name in columns else none for name in ("source", "id"))
                for text, source, label in zip(texts, sources, ids, strict=True):
                    label_or_number = _label(label, f"{path.name}#{number}")
                    yield Document(NULL_TEXT if text is None else text, _label(source, path.name), label_or_number, _whole(label))
                    number += 1
    except (RltokError, MemoryError):  # Arrow's own MemoryError is an ArrowException, too
        raise
    except (OSError, pa.ArrowException, ValueError, KeyError, OverflowError) as error:  # odd values or names in a column
        raise RltokError(f"cannot read {str(path)!r} as Parquet: {one_line(error)}. Check that the download is whole.") from error


def parquet_text_bytes(path: Path) -> int:
    """Bytes that the text of a Parquet file takes unpacked, from its footer; 0 where that can't be read."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    total = 0
    with contextlib.suppress(OSError, pa.ArrowException, ValueError), pq.ParquetFile(str(path)) as file:
        for group in range(file.metadata.num_row_groups):
            columns = (file.metadata.row_group(group).column(i) for i in range(file.metadata.num_columns))
            total += sum(column.total_uncompressed_size for column in columns if column.path_in_schema == "text")
    return total
