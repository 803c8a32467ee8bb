"""One name for every kind of text: `documents(spec)` turns it into a stream of documents.

    sample  sample:SPLIT  FILE  FOLDER  GLOB  python:FOLDER  python:stdlib  hf:OWNER/NAME[:CONFIG]  fineweb  codeparrot

Which reader a file gets depends on its suffix alone; the readers are in files.py, tables.py, sample.py and hub.py.
"""

import glob
import itertools
import os
import sysconfig
from collections.abc import Iterator, Sequence
from pathlib import Path

from rltok.data import files, hub, tables
from rltok.data.documents import Document, require_text
from rltok.data.prepared import is_prepared, open_prepared
from rltok.data.sample import SPLITS, sample_documents
from rltok.errors import RltokError

Spec = str | Path | Sequence[str | Path]

ALLOWED = (
    "sample, sample:train, sample:validation, sample:test, a file, a folder, a pattern such as 'folder/*.parquet',"
    " python:FOLDER, python:stdlib, hf:OWNER/NAME, hf:OWNER/NAME:CONFIG, " + ", ".join(hub.ALIASES)
)


def is_hub(spec: Spec) -> bool:
    """Whether a spec names a dataset on the hub, which streams without a known end."""
    return isinstance(spec, str) and (spec in hub.ALIASES or spec.startswith("hf:"))


def spec_name(spec: Spec) -> str:
    """A spec without the folders of this machine, for records: `python:src`, `train-*.parquet`, `a.txt and 2 more`."""
    if isinstance(spec, str) and (is_hub(spec) or spec.partition(":")[0] == "sample" or spec == "python:stdlib"):
        return spec
    if isinstance(spec, str) and spec.startswith("python:"):
        return "python:" + spec_name(Path(spec.removeprefix("python:")))
    if isinstance(spec, str | Path):
        return Path(spec).name if Path(spec).name not in ("", "..") else Path(spec).resolve().name
    first, *rest = map(spec_name, spec)
    return f"{first} and {len(rest)} more" if rest else first


def file_documents(path: Path, allow_binary: bool, allow_null: bool = False) -> Iterator[Document]:
    """Documents of one file, read by its suffix: Parquet, JSON Lines, or else one text."""
    name = path.name.lower()
    if name.endswith(tables.PARQUET_SUFFIXES):
        yield from tables.parquet_documents(path)
    elif name.endswith(tables.JSONL_SUFFIXES):
        yield from tables.jsonl_documents(path, allow_null)
    else:
        yield files.read_text_file(path, path.name, path.name, allow_binary)


def folder_tables_or_texts(folder: Path) -> tuple[list[Path], list[Path]]:
    """Parquet files of a folder if it has any, or else its JSON Lines; without either its text files."""
    paths = files.list_files(folder)
    parquet = files.with_suffix(paths, tables.PARQUET_SUFFIXES)
    jsonl = files.with_suffix(paths, tables.JSONL_SUFFIXES)
    texts = files.with_suffix(paths, files.TEXT_SUFFIXES)
    if parquet and jsonl:
        raise RltokError(f"folder {str(folder)!r} has both Parquet and JSON Lines files. Say which, as in 'folder/*.parquet'.")
    if not (parquet or jsonl or texts):
        wanted = ", ".join((*files.TEXT_SUFFIXES, *tables.JSONL_SUFFIXES, *tables.PARQUET_SUFFIXES))
        raise RltokError(f"folder {str(folder)!r} has no text: no file ends in {wanted}. For Python sources write python:FOLDER.")
    return parquet or jsonl, [] if parquet or jsonl else texts  # a README beside a dataset's tables is no part of it


def python_files(place: str) -> tuple[Path, list[Path]]:
    """A folder and the Python sources under it; `stdlib` is the interpreter's own library without installed packages."""
    is_stdlib = place == "stdlib"
    folder = os.path.expanduser(sysconfig.get_paths()["stdlib"] if is_stdlib else place)
    if not os.path.isdir(folder):
        raise RltokError(f"python:{place} needs an existing folder of Python sources, or the word stdlib.")
    # Some systems keep installed packages inside the library's folder, so that another machine would read other text;
    # the last two hold tests in other encodings than UTF-8.
    leave_out = ("site-packages", "dist-packages", "encoded_modules", "tokenizedata") if is_stdlib else ()
    paths = files.with_suffix(files.list_files(Path(folder), leave_out), files.PYTHON_SUFFIXES)
    if not paths:
        raise RltokError(f"python:{place} has no text: no file in the folder ends in .py. Name a folder with Python sources.")
    return Path(folder), paths


def matching_files(spec: str | Path) -> list[Path]:
    """The file, or the files that a pattern matches."""
    if os.path.exists(spec):
        return [Path(spec)]
    matches = sorted(glob.glob(str(spec), recursive=True)) if glob.has_magic(str(spec)) else []
    if not matches:
        raise RltokError(f"no such file, folder or kind of data: {str(spec)!r}. Allowed: {ALLOWED}.")
    return [Path(match) for match in matches]


def _path_documents(spec: str | Path, allow_binary: bool) -> Iterator[Document]:
    """Documents of a file, a folder or a pattern."""
    if not os.path.isdir(spec):  # unlike Path.is_dir, os.path answers False for names that no system accepts
        return itertools.chain.from_iterable(file_documents(path, allow_binary) for path in matching_files(spec))
    found, texts = folder_tables_or_texts(Path(spec))
    if texts:
        return files.folder_documents(Path(spec), texts, allow_binary)
    return itertools.chain.from_iterable(file_documents(path, allow_binary) for path in found)


def documents(spec: Spec, *, allow_binary: bool = False, force: bool = False) -> Iterator[Document]:
    """Stream of documents that a spec names, always in the same order.

    Args:
        spec: one of the forms in the head of this file, or a list of them. A `Path` is always a file or folder; a file
            whose name is also a word such as `sample` is written `./sample`. Folders are read recursively in sorted
            order without hidden files, by suffix: `.parquet` if there are any, else `.jsonl`, else text.
        allow_binary: let files through that do not look like text.
        force: ask the hub without first testing that it answers (needed behind a proxy).

    Raises:
        RltokError: at once for an unknown spec, while reading for bad content, at the end when there was no text.
    """
    if not isinstance(spec, str | Path):
        if not spec:
            raise RltokError("an empty list names no text. Give at least one file, folder or dataset.")
        return itertools.chain.from_iterable([documents(part, allow_binary=allow_binary, force=force) for part in spec])
    if is_prepared(spec):
        raise RltokError(f"{str(spec)!r} was written by `rltok prepare` and is read as rows. Name it as --data, alone.")
    if spec == "sample":
        found = sample_documents()
    elif isinstance(spec, str) and spec.removeprefix("sample:") in SPLITS and spec.startswith("sample:"):
        found = sample_documents(spec.removeprefix("sample:"))
    elif is_hub(spec):
        found = hub.hub_documents(hub.ALIASES.get(str(spec), str(spec)), force)
    elif isinstance(spec, str) and spec.startswith("python:"):
        found = files.folder_documents(*python_files(spec.removeprefix("python:")), allow_binary)
    else:
        found = _path_documents(spec, allow_binary)
    return require_text(found, str(spec))


def text_bytes(spec: Spec, *, max_bytes: int | None, allow_binary: bool, force: bool) -> int:
    """How much text there is, up to `max_bytes`; of a prepared folder, text for training."""
    if max_bytes is not None and max_bytes < 1:
        raise RltokError(f"--max-bytes must be at least 1; got {max_bytes}. Leave it out to read everything.")
    if isinstance(spec, str | Path) and is_prepared(spec):
        total = open_prepared(spec).text_bytes("train")
        return total if max_bytes is None else min(total, max_bytes)
    total = 0
    for document in documents(spec, allow_binary=allow_binary, force=force):
        total += len(document.text)
        if max_bytes is not None and total >= max_bytes:
            return max_bytes
    return total
