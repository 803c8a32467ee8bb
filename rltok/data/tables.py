"""Documents from files with one document per row: JSON Lines and Parquet, streamed so that memory stays small."""

import contextlib
import io
import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rltok import vocab
from rltok.data.documents import NULL_TEXT, Document, label_of, one_line, require_file
from rltok.errors import RltokError

_PACKED = ("", ".gz", ".zst")
JSONL_SUFFIXES = tuple(name + packed for name in (".jsonl", ".ndjson", ".jsonlines") for packed in _PACKED)
# Read as JSON Lines where they are named; in a folder such files hold settings, and the sources of Julia.
JSON_SUFFIXES = tuple(name + packed for name in (".json", ".jl") for packed in _PACKED)
PARQUET_SUFFIXES = (".parquet", ".pq")
BATCH_ROWS = 256  # Parquet rows held as Python objects at a time
_MULTILINE = {b"[": ", as `jq -c '.[]'` does", b"{": ", as `jq -c .` does"}  # the first line of JSON printed over many lines
MAX_LINE = 1 << 26  # bytes of a line of JSON: a small packed file may hold one of any length


def _document(text: bytes, source: Any, label: Any, file: str, place: str) -> Document:
    """A row as a document, with its own source and id, or else its file's name and its place there.

    An id such as `book#3` names a part of the document `book`; that of a web address has a fragment and names no part.
    """
    name, mark, number = (stated := label_of(label, place)).rpartition("#")
    is_part = stated != place and mark and number.isdecimal() and "://" not in name
    return Document(text, label_of(source, file), stated, name if is_part else "")


def _json_document(line: bytes, name: str, number: int, allow_null: bool) -> Document:
    """One line of JSON as a document. Raises `RltokError`, which names the line, for any other line."""
    place = f"{name!r}, line {number}"
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        how = _MULTILINE.get(line.strip(), "")
        how += ". To train on a Julia source as it stands, name a copy .txt" if name.lower().endswith(".jl") else ""
        raise RltokError(f"{place} is not valid JSON: {one_line(error)}. Write one JSON object per line{how}.") from error
    if not isinstance(row, dict):
        how = ", as `jq -c '.[]'` does" if isinstance(row, list) else ""
        raise RltokError(
            f"{place} is {type(row).__name__}, not an object. Write one JSON object with a 'text' field per line{how}."
        )
    is_null = allow_null and row.get("text", "") is None
    if not (is_null or isinstance(row.get("text"), str)):
        names = ", ".join(map(repr, row))[:200] or "nothing"
        has = f"a 'text' of type {type(row['text']).__name__}" if "text" in row else f"no 'text', only {names}"
        raise RltokError(f"{place} has {has}; the text must be a string in the field 'text'. Rename or convert it.")
    try:
        text = NULL_TEXT if is_null else vocab.to_utf8(row["text"])
    except RltokError as error:
        raise RltokError(f"{place}: {error}") from error
    return _document(text, row.get("source"), row.get("id"), name, str(number))


def numbered_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """(number, line) of a file's lines that are not blank, counted from 1; `.gz` and `.zst` are unpacked.

    Raises:
        RltokError: a file that cannot be read, or a line longer than MAX_LINE.
    """
    import pyarrow as pa

    require_file(path)
    try:
        with pa.input_stream(str(path), compression="detect") as stream:
            lines = io.BufferedReader(stream)
            for number in itertools.count(start=1):
                line = lines.readline(MAX_LINE + 1)
                if len(line) > MAX_LINE:
                    raise RltokError(
                        f"{path.name!r}, line {number} is longer than {MAX_LINE} bytes. Split its document in several, or write"
                        " the texts as Parquet."
                    )
                if not line:
                    return
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


def _is_text(kind: Any) -> bool:
    """Whether an Arrow type holds strings or bytes, in any layout."""
    import pyarrow as pa
    import pyarrow.types as kinds

    if isinstance(kind, pa.DictionaryType):
        return _is_text(kind.value_type)
    if isinstance(kind, pa.BaseExtensionType):
        return _is_text(kind.storage_type)
    views = (getattr(kinds, name, None) for name in ("is_string_view", "is_binary_view"))  # from pyarrow 16 on
    tests = (kinds.is_string, kinds.is_large_string, kinds.is_binary, kinds.is_large_binary, *views)
    return any(test is not None and test(kind) for test in tests)


def _texts(column: Any) -> list[bytes | None]:
    """The bytes of an Arrow column of strings, without decoding them: that would double the time."""
    import pyarrow as pa

    if isinstance(column, pa.ExtensionArray):
        column = column.storage
    if isinstance(column, pa.DictionaryArray):
        column = column.dictionary_decode()
    return column.cast(pa.large_binary()).to_pylist()


def _labels(column: Any) -> list[Any]:
    """The values of a column of sources or ids; where strings are not valid UTF-8, their bytes."""
    try:
        return column.to_pylist()
    except UnicodeDecodeError:
        return _texts(column)


def _check_text_column(schema: Any, name: str) -> None:
    """Raise `RltokError` unless an Arrow schema has one column `text` of strings or bytes, and no name that is read twice."""
    for column in ("text", "source", "id"):
        if (count := schema.names.count(column)) > 1:
            raise RltokError(f"{name!r} has {count} columns named {column!r}. Rename all but one, and write the file again.")
    if "text" not in schema.names:
        has = ", ".join(map(repr, schema.names))[:200]
        raise RltokError(f"{name!r} has no column 'text', only {has}. Rename the one that holds the text.")
    kind = schema.field("text").type
    if not _is_text(kind):
        raise RltokError(f"column 'text' of {name!r} holds {kind}, not strings or bytes. Convert it to strings.")


def parquet_documents(path: Path) -> Iterator[Document]:
    """One document per row from the column `text`, with `source` and `id` if present; a null text is the empty `NULL_TEXT`.

    Raises:
        RltokError: a file that cannot be read, or no column of strings called `text`.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    require_file(path)
    try:
        with pq.ParquetFile(str(path)) as file:
            _check_text_column(file.schema_arrow, path.name)
            columns = [name for name in ("text", "source", "id") if name in file.schema_arrow.names]
            number = 0
            for batch in file.iter_batches(batch_size=BATCH_ROWS, columns=columns):
                texts, none = _texts(batch.column("text")), [None] * len(batch)
                sources, ids = (_labels(batch.column(name)) if name in columns else none for name in ("source", "id"))
                for text, source, label in zip(texts, sources, ids, strict=True):
                    filled = NULL_TEXT if text is None else text
                    yield _document(filled, source, label, path.name, f"{path.name}#{number}")
                    number += 1
    except (RltokError, MemoryError):  # Arrow's own MemoryError is an ArrowException, too
        raise
    except (OSError, pa.ArrowException, ValueError, KeyError, OverflowError) as error:  # odd values or names in a column
        raise RltokError(f"cannot read {str(path)!r} as Parquet: {one_line(error)}. Check that the download is whole.") from error


def parquet_text_bytes(path: Path) -> int:
    """The unpacked bytes of a Parquet file's text, from its footer; 0 where that cannot be read."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    total = 0
    with contextlib.suppress(OSError, pa.ArrowException, ValueError), pq.ParquetFile(str(path)) as file:
        for group in range(file.metadata.num_row_groups):
            columns = (file.metadata.row_group(group).column(i) for i in range(file.metadata.num_columns))
            total += sum(column.total_uncompressed_size for column in columns if column.path_in_schema == "text")
    return total
