"""Documents from plain files: one text file, a folder of text files, a folder of Python sources."""

import codecs
import os
from collections.abc import Iterator
from pathlib import Path

from rltok.data.documents import Document, check_text, label_of, one_line
from rltok.errors import RltokError

TEXT_SUFFIXES = (".txt", ".text", ".md", ".markdown", ".rst", ".org", ".tex")
PYTHON_SUFFIXES = (".py",)
CHARACTER = 4  # most bytes of one in UTF-8


def is_run(folder: Path) -> bool:
    """Whether a folder is that of a training run: its logs look like JSON Lines of text and are none."""
    logs = ("metrics.jsonl", "snapshots.jsonl", "sessions.jsonl")
    return all((folder / name).is_file() for name in ("config.json", "data.json")) and any((folder / n).is_file() for n in logs)


def list_files(folder: Path, leave_out: tuple[str, ...] = ()) -> tuple[list[Path], list[str]]:
    """All files under a folder in sorted order, each once, and which folders were passed over: links, and runs of rltok.

    Hidden files and folders, and folders named in `leave_out`, do not count at all.
    """

    def unreadable(error: OSError) -> None:
        raise RltokError(f"cannot read folder {str(error.filename)!r}: {error.strerror}. Change its permissions or leave it out.")

    found, passed = [], []
    for place, folders, names in os.walk(folder, onerror=unreadable):
        inside = [Path(place, name) for name in folders if not name.startswith(".") and name not in leave_out]
        kinds = [(path, "linked folder" if path.is_symlink() else "run" if is_run(path) else "") for path in inside]
        folders[:] = [path.name for path, kind in kinds if not kind]
        passed.extend(f"{kind} {path.relative_to(folder).as_posix()}" for path, kind in kinds if kind)
        found.extend(Path(place, name) for name in names if not name.startswith("."))
    return distinct(sorted(found, key=lambda path: path.relative_to(folder).parts)), sorted(passed)


def distinct(paths: list[Path]) -> list[Path]:
    """The same files, each under the shortest of its names alone: links may lead to one file by several ways."""
    shortest: dict[str, Path] = {}
    for path in sorted(paths, key=lambda path: len(path.parts)):
        shortest.setdefault(os.path.realpath(path), path)
    kept = set(shortest.values())
    return [path for path in paths if path in kept]


def with_suffix(paths: list[Path], suffixes: tuple[str, ...]) -> list[Path]:
    """Those paths whose name ends in one of the suffixes, whatever the case."""
    return [path for path in paths if path.name.lower().endswith(suffixes)]


def require_file(path: Path) -> None:
    """Raise `RltokError` unless the path is an ordinary file: a pipe or device would block or never end."""
    if not os.path.isfile(path):
        if os.path.islink(path) and not os.path.exists(path):
            raise RltokError(f"cannot read {str(path)!r}: it is a link to nothing. Mend the link, or remove it.")
        kind = "a folder" if os.path.isdir(path) else "not an ordinary file" if os.path.exists(path) else "missing"
        raise RltokError(f"cannot read {str(path)!r}: it is {kind}. Name an existing file.")


def read_text_file(path: Path, source: str, name: str, allow_binary: bool, max_bytes: int | None = None) -> Document:
    """A whole file as one document, or, of one of more than `max_bytes`, a beginning that is longer than that.

    Such a beginning ends with a whole character, so that it is valid UTF-8 where the file is.

    Raises:
        RltokError: the file cannot be read or does not look like text.
    """
    require_file(path)
    try:
        if max_bytes is None or os.path.getsize(path) <= (most := max(0, max_bytes) + CHARACTER):
            data = path.read_bytes()
        else:
            with path.open("rb") as file:
                data = _whole_characters(file.read(most))
    except OSError as error:
        raise RltokError(f"cannot read {str(path)!r}: {one_line(error)}. Check its permissions, or leave it out.") from error
    return Document(check_text(data, str(path), allow_binary), label_of(source, ""), label_of(name, ""))


def _whole_characters(data: bytes) -> bytes:
    """The bytes without the first ones of a character whose last ones are missing."""
    decoder = codecs.getincrementaldecoder("utf-8")(errors="ignore")
    decoder.decode(data[-CHARACTER:])
    waiting, _ = decoder.getstate()
    return data[: len(data) - len(waiting)]


def folder_documents(folder: Path, paths: list[Path], allow_binary: bool, max_bytes: int | None = None) -> Iterator[Document]:
    """One document per file, named by its path inside the folder; empty files count as empty documents."""
    for path in paths:
        yield read_text_file(path, folder.resolve().name, path.relative_to(folder).as_posix(), allow_binary, max_bytes)
