"""One name for every kind of text: `documents(spec)` turns it into a stream of documents.

    sample  sample:SPLIT  FILE  FOLDER  GLOB  python:FOLDER  python:stdlib  hf:OWNER/NAME[:CONFIG]  fineweb  codeparrot

Which reader a file gets depends on its suffix alone (found.py); the readers are in files.py, tables.py, sample.py and hub.py.
"""

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path

from rltok.data import files, hub, tables
from rltok.data.documents import Document, printable, require_text
from rltok.data.found import JSON_LINES, PARQUET, Found, count_files, found_files, kind_of
from rltok.data.prepared import is_prepared, open_prepared
from rltok.data.sample import SPLITS, sample_documents
from rltok.errors import RltokError

Spec = str | Path | Sequence[str | Path]
MOST_PASSED = 5  # named of what is left out


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


def file_documents(
    path: Path, allow_binary: bool, allow_null: bool = False, max_bytes: int | None = None
) -> Iterator[Document]:  # fmt: skip
    """Documents of one file, read by its suffix: Parquet, JSON Lines, or else one text."""
    kind = kind_of(path)
    if kind == PARQUET:
        yield from tables.parquet_documents(path)
    elif kind == JSON_LINES:
        yield from tables.jsonl_documents(path, allow_null)
    else:
        yield files.read_text_file(path, path.name, path.name, allow_binary, max_bytes)


def _found_documents(found: Found, allow_binary: bool, max_bytes: int | None) -> Iterator[Document]:
    if found.whole:
        return files.folder_documents(found.base, found.paths, allow_binary, max_bytes)
    each = (file_documents(path, allow_binary, max_bytes=max_bytes) for path in found.paths)
    return itertools.chain.from_iterable(each)


def told(spec: Spec) -> str:
    """What a spec's text is read from, in words: how many files of which kind, their names, and what is left out beside them."""
    if not isinstance(spec, str | Path):
        return "; ".join(map(told, spec))
    if is_prepared(spec):
        return f"the folder {printable(spec_name(spec))} of rltok prepare"
    if isinstance(spec, str) and (is_hub(spec) or spec == "sample" or spec.startswith("sample:")):
        return spec
    found, kinds = found_files(spec), {}
    for path in found.paths:
        kinds.setdefault(kind_of(path), []).append(found.name(path))
    place = "" if [found.name(path) for path in found.paths] == [spec_name(spec)] else spec_name(spec)
    passed = [*found.passed[:MOST_PASSED], *["more"] * (len(found.passed) > MOST_PASSED)]
    return " and ".join(count_files(kind, names, place) for kind, names in kinds.items()) + (
        f", without {', '.join(passed)}" if passed else ""
    )


def documents(
    spec: Spec, *, allow_binary: bool = False, force: bool = False, max_bytes: int | None = None
) -> Iterator[Document]:  # fmt: skip
    """Stream of documents that a spec names, always in the same order.

    Args:
        spec: one of the forms in the head of this file, or a list of them. A `Path` is always a file or folder; a file
            whose name is also a word such as `sample` is written `./sample`. Folders are read recursively in sorted
            order without hidden files and linked folders; they hold one kind, Parquet, JSON Lines or text.
        allow_binary: let files through that do not look like text.
        force: ask the hub without first testing that it answers (needed behind a proxy).
        max_bytes: of a longer text file only a beginning is read, a little longer than this.

    Raises:
        RltokError: at once for an unknown spec, while reading for bad content, at the end when there was no text.
    """
    if not isinstance(spec, str | Path):
        if not spec:
            raise RltokError("an empty list names no text. Give at least one file, folder or dataset.")
        options = {"allow_binary": allow_binary, "force": force, "max_bytes": max_bytes}
        return itertools.chain.from_iterable([documents(part, **options) for part in spec])
    if is_prepared(spec):
        raise RltokError(f"{str(spec)!r} was written by `rltok prepare` and is read as rows. Name it as --data, alone.")
    if spec == "sample":
        found = sample_documents()
    elif isinstance(spec, str) and spec.removeprefix("sample:") in SPLITS and spec.startswith("sample:"):
        found = sample_documents(spec.removeprefix("sample:"))
    elif is_hub(spec):
        found = hub.hub_documents(hub.ALIASES.get(str(spec), str(spec)), force)
    else:
        found = _found_documents(found_files(spec), allow_binary, max_bytes)
    return require_text(found, str(spec))


def text_bytes(spec: Spec, *, max_bytes: int | None, allow_binary: bool, force: bool) -> int:
    """How much text there is, up to `max_bytes`; of a prepared folder, text for training."""
    if max_bytes is not None and max_bytes < 1:
        raise RltokError(f"--max-bytes must be at least 1; got {max_bytes}. Leave it out to read everything.")
    if isinstance(spec, str | Path) and is_prepared(spec):
        total = open_prepared(spec).text_bytes("train")
        return total if max_bytes is None else min(total, max_bytes)
    total = 0
    for document in documents(spec, allow_binary=allow_binary, force=force, max_bytes=max_bytes):
        total += len(document.text)
        if max_bytes is not None and total >= max_bytes:
            return max_bytes
    return total
