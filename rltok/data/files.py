"""Documents from plain files: one text file, a folder of text files, a folder of Python sources."""

import os
from collections.abc import Iterator
from pathlib import Path

from rltok.data.documents import Document, check_text, one_line
from rltok.errors import RltokError

TEXT_SUFFIXES = (".txt", ".text", ".md", ".markdown", ".rst", ".org", ".tex")
PYTHON_SUFFIXES = (".py",)


def list_files(folder: Path, leave_out: tuple[str, ...] = ()) -> list[Path]:
    """All files under a folder in sorted order, without hidden ones, linked folders, and folders named in `leave_out`."""

    def unreadable(error: OSError) -> None:
        raise RltokError(f"cannot read folder {str(error.filename)!r}: {error.strerror}. Change its permissions or leave it out.")

    found = []
    for place, folders, names in os.walk(folder, onerror=unreadable):
        folders[:] = [name for name in folders if not name.startswith(".") and name not in leave_out]
        found.extend(Path(place, name) for name in names if not name.startswith("."))
    return sorted(found, key=lambda path: path.relative_to(folder).parts)


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


def read_text_file(path: Path, source: str, name: str, allow_binary: bool) -> Document:
    """A whole file as one document. Raises `RltokError` when it cannot be read or does not look like text."""
    require_file(path)
    try:
        data = path.read_bytes()
    except OSError as error:
        raise RltokError(f"cannot read {str(path)!r}: {one_line(error)}. Check its permissions, or leave it out.") from error
    return Document(check_text(data, str(path), allow_binary), source, name)


def folder_documents(folder: Path, paths: list[Path], allow_binary: bool) -> Iterator[Document]:
    """One document per file, named by its path inside the folder; empty files count as empty documents."""
    for path in paths:
        yield read_text_file(path, folder.resolve().name, path.relative_to(folder).as_posix(), allow_binary)
