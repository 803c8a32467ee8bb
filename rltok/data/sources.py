"""One name for every kind of text: `documents(spec)` turns it into a stream of documents.

    sample  sample:SPLIT  FILE  FOLDER  GLOB  python:FOLDER  python:stdlib  hf:OWNER/NAME[:CONFIG]  fineweb  codeparrot

Which reader a file gets depends on its suffix alone (files.py); the readers are in documents.py, tables.py and hub.py.
"""

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path

from rltok.data import hub, tables
from rltok.data.documents import SPLITS, Document, printable, read_text_file, require_text
from rltok.data.files import JSON_LINES, PARQUET, Selection, count_files, kind_of, select_files
from rltok.data.prepared import is_prepared, open_prepared
from rltok.errors import RltokError

Spec = str | Path | Sequence[str | Path]
SAMPLE_FILE = Path(__file__).with_name("sample.parquet")  # about 2 MB of public-domain English; SOURCES.md names each text
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


def sample_documents(split: str | None = None) -> Iterator[Document]:
    """Documents of one split of the bundled sample, or of all three. Raises `RltokError` for another split."""
    import pyarrow.parquet as pq

    if split is not None and split not in SPLITS:
        raise RltokError(f"the sample has no split {split!r}. Choose one of: {', '.join(SPLITS)}.")
    for row in pq.read_table(SAMPLE_FILE).to_pylist():
        if split in (None, row["split"]):
            yield Document(row["text"].encode("utf-8"), row["source"], row["id"])


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
        yield read_text_file(path, path.name, path.name, allow_binary, max_bytes)


def folder_documents(folder: Path, paths: Sequence[Path], allow_binary: bool, max_bytes: int | None = None) -> Iterator[Document]:
    """One document for each text file, named by its path inside the folder; empty files give empty documents."""
    for path in paths:
        yield read_text_file(path, folder.resolve().name, path.relative_to(folder).as_posix(), allow_binary, max_bytes)


def _selected_documents(selection: Selection, allow_binary: bool, max_bytes: int | None) -> Iterator[Document]:
    if selection.whole:
        return folder_documents(selection.base, selection.paths, allow_binary, max_bytes)
    each = (file_documents(path, allow_binary, max_bytes=max_bytes) for path in selection.paths)
    return itertools.chain.from_iterable(each)


def summary(spec: Spec) -> str:
    """The source of a spec's text in words: how many files of which kind, their names, and what is left out."""
    if not isinstance(spec, str | Path):
        return "; ".join(map(summary, spec))
    if is_prepared(spec):
        return f"the folder {printable(spec_name(spec))} of rltok prepare"
    if isinstance(spec, str) and (is_hub(spec) or spec == "sample" or spec.startswith("sample:")):
        return spec
    selection, names = select_files(spec), {}
    for path in selection.paths:
        names.setdefault(kind_of(path), []).append(selection.name(path))
    place = "" if list(itertools.chain(*names.values())) == [spec_name(spec)] else spec_name(spec)
    passed = [*map(printable, selection.passed[:MOST_PASSED]), *["more"] * (len(selection.passed) > MOST_PASSED)]
    return " and ".join(count_files(kind, each, place) for kind, each in names.items()) + (
        f", without {', '.join(passed)}" if passed else ""
    )


def documents(
    spec: Spec, *, allow_binary: bool = False, force: bool = False, max_bytes: int | None = None
) -> Iterator[Document]:  # fmt: skip
    """The documents of a spec, always in the same order.

    Args:
        spec: one of the forms in the head of this file, or a list of them. A `Path` is always a file or folder; a file
            whose name is also a word such as `sample` is written `./sample`. Folders are read recursively in sorted
            order without hidden files and linked folders; they hold one kind, Parquet, JSON Lines or text.
        allow_binary: let files through that do not look like text.
        force: ask the hub without first testing that it answers (on a slow network).
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
        stream = sample_documents()
    elif isinstance(spec, str) and spec.removeprefix("sample:") in SPLITS and spec.startswith("sample:"):
        stream = sample_documents(spec.removeprefix("sample:"))
    elif is_hub(spec):
        stream = hub.hub_documents(hub.ALIASES.get(str(spec), str(spec)), force)
    else:
        stream = _selected_documents(select_files(spec), allow_binary, max_bytes)
    return require_text(stream, str(spec))


def text_bytes(spec: Spec, *, max_bytes: int | None, allow_binary: bool, force: bool) -> int:
    """Bytes of text, at most `max_bytes`; for a prepared folder, of its training split. Raises `RltokError` as `documents`."""
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
