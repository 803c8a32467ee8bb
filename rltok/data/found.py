"""Which files a spec names: a file, the matches of a pattern, the one kind of text in a folder. Never guessed in silence."""

import glob
import itertools
import os
import re
import shlex
import sysconfig
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from rltok.data import files, hub, tables
from rltok.data.documents import printable
from rltok.errors import RltokError

ALLOWED = (
    "sample, sample:train, sample:validation, sample:test, a file, a folder, a pattern such as 'folder/*.parquet',"
    " python:FOLDER, python:stdlib, hf:OWNER/NAME, hf:OWNER/NAME:CONFIG, " + ", ".join(hub.ALIASES)
)

PARQUET, JSON_LINES, TEXT, PYTHON = "Parquet", "JSON Lines", "text", "Python"
NAMED = 3  # files named of each kind
_ABOUT = ("readme", "license", "licence", "notice", "citation", "changelog")  # beside tables: about them, not of them
_TABLE = "Write its texts as JSON Lines or Parquet with a column 'text'; to train on the file as it stands, name a copy .txt"
_REFUSED = {
    (".csv", ".tsv", ".xlsx", ".xls", ".ods", ".arrow", ".feather", ".orc", ".avro"): ("a table", _TABLE),
    (".gz", ".zst", ".bz2", ".xz", ".lz4", ".zip", ".tar", ".tgz", ".7z", ".rar"): ("packed", "Unpack it first"),
    (".pdf", ".doc", ".docx", ".odt", ".rtf", ".epub"): ("no plain text", "Convert it to .txt"),
}


@dataclass(frozen=True)
class Found:
    """The files of a spec, in the order in which they are read.

    Attributes:
        base: the folder below which they have their names.
        paths: the files.
        whole: text files of a folder, which is one source.
        passed: what else stands in the folder and is not read, in words.
    """

    base: Path
    paths: list[Path]
    whole: bool = False
    passed: tuple[str, ...] = ()

    def name(self, path: Path) -> str:
        """Of one of the files, without folders of this machine."""
        return path.relative_to(self.base).as_posix() if path.is_relative_to(self.base) else path.name


def kind_of(path: Path) -> str:
    """What a file holds, by its suffix alone. Raises `RltokError` for tables that are not read, and for packed files."""
    name = path.name.lower()
    if name.endswith(tables.PARQUET_SUFFIXES):
        return PARQUET
    if name.endswith((*tables.JSONL_SUFFIXES, *tables.JSON_SUFFIXES)):
        return JSON_LINES
    for suffixes, (what, remedy) in _REFUSED.items():
        if name.endswith(suffixes):
            raise RltokError(f"{str(path)!r} is {what} by its name, which is not read. {remedy}.")
    return PYTHON if name.endswith(files.PYTHON_SUFFIXES) else TEXT


def _suffix(path: Path) -> str:
    """From the last dot of a name on, or from the one before where the file is packed."""
    last = path.suffix
    return Path(path.stem).suffix + last if last.lower() in (".gz", ".zst") else last or path.name


def _counted(paths: list[Path]) -> list[str]:
    return [f"{count} {printable(suffix)}" for suffix, count in sorted(Counter(map(_suffix, paths)).items())]


def count_files(kind: str, names: list[str], place: str = "") -> str:
    """Such as `3 text files of corpus (a.txt, b.txt, c.txt)`."""
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    of = f" of {printable(place)}" if place else ""
    return f"{len(names)} {kind} file{'s' * (len(names) != 1)}{of} ({', '.join(map(printable, names[:NAMED]))}{more})"


def _folder_files(folder: Path) -> Found:
    """Files of the one kind that a folder holds. Raises `RltokError` for one with several kinds, with none, or of a run."""
    if files.is_run(folder):
        raise RltokError(f"{str(folder)!r} is the folder of a training run, not text. Name the text.")
    paths, passed = files.list_files(folder)
    kinds = {
        PARQUET: files.with_suffix(paths, tables.PARQUET_SUFFIXES),
        JSON_LINES: files.with_suffix(paths, tables.JSONL_SUFFIXES),
        TEXT: files.with_suffix(paths, files.TEXT_SUFFIXES),
    }
    if kinds[PARQUET] or kinds[JSON_LINES]:
        kinds[TEXT] = [path for path in kinds[TEXT] if re.split("[^a-z]", path.stem.lower())[0] not in _ABOUT]
    there = {kind: found for kind, found in kinds.items() if found}
    if len(there) > 1:
        has = " and ".join(count_files(kind, [str(path.relative_to(folder)) for path in found]) for kind, found in there.items())
        patterns = (Path(glob.escape(str(folder)), "**", f"*{_suffix(found[0])}") for found in there.values())
        say = " or ".join(shlex.quote(str(pattern)) for pattern in patterns)
        raise RltokError(f"folder {str(folder)!r} has {has}. Say which: {say}.")
    if not there:
        wanted = ", ".join((*files.TEXT_SUFFIXES, *tables.JSONL_SUFFIXES, *tables.PARQUET_SUFFIXES))
        has = ", ".join((*_counted(paths)[:5], *passed[:5])) or "nothing"
        raise RltokError(
            f"folder {str(folder)!r} has no text: no file ends in {wanted}; it has {has}. For Python sources write python:FOLDER,"
            " for other names a pattern such as 'folder/*.log'."
        )
    ((kind, found),) = there.items()
    others = _counted([path for path in paths if path not in set(found)])
    return Found(folder, found, kind == TEXT, (*others, *passed))


def _python_files(place: str) -> Found:
    """The Python sources of a folder; `stdlib` is the interpreter's own library without installed packages."""
    is_stdlib = place == "stdlib"
    folder = os.path.expanduser(sysconfig.get_paths()["stdlib"] if is_stdlib else place)
    if not os.path.isdir(folder):
        raise RltokError(f"python:{place} needs an existing folder of Python sources, or the word stdlib.")
    # Some systems keep installed packages inside the library's folder, so that another machine would read other text;
    # the last two hold tests in other encodings than UTF-8.
    leave_out = ("site-packages", "dist-packages", "encoded_modules", "tokenizedata") if is_stdlib else ()
    listed, passed = files.list_files(Path(folder), leave_out)
    paths = files.with_suffix(listed, files.PYTHON_SUFFIXES)
    if not paths:
        raise RltokError(f"python:{place} has no text: no file in the folder ends in .py. Name a folder with Python sources.")
    return Found(Path(folder), paths, True, () if is_stdlib else tuple(passed))


def _hidden(parts: tuple[str, ...]) -> bool:
    return any(part.startswith(".") for part in parts)


def _matching_files(spec: str | Path) -> Found:
    """The file, or the files that a pattern matches, by their names below the part without wild cards."""
    if os.path.exists(spec):
        return Found(Path(spec).parent, [Path(spec)])
    parts = Path(spec).parts if glob.has_magic(str(spec)) else ()
    base = Path(*itertools.takewhile(lambda part: not glob.has_magic(part), parts))
    pattern = parts[len(base.parts) :]
    try:  # unlike glob.glob, pathlib does not go round in circles of links
        matches = sorted(base.glob(str(Path(*pattern))), key=str) if pattern else []
    except (ValueError, NotImplementedError, OSError) as error:
        raise RltokError(f"{str(spec)!r} is no pattern for files: {error}. Write one such as 'folder/**/*.txt'.") from error
    found = []
    for path in matches:
        name = path.relative_to(base)
        hidden = _hidden(name.parts) and not _hidden(pattern)
        if not hidden and not any(files.is_run(base / parent) for parent in name.parents if parent.parts):
            found.append(path)
    if not found:
        raise RltokError(f"no such file, folder or kind of data: {str(spec)!r}. Allowed: {ALLOWED}.")
    return Found(base, files.distinct(found))


def found_files(spec: str | Path) -> Found:
    """The files that a spec names which is neither a word nor a dataset on the hub.

    Raises:
        RltokError: there are none, or of kinds that are not read, or of several kinds in one folder.
    """
    if isinstance(spec, str) and spec.startswith("python:"):
        return _python_files(spec.removeprefix("python:"))
    if os.path.isdir(spec):  # unlike Path.is_dir, os.path answers False for names that no system accepts
        return _folder_files(Path(spec))
    found = _matching_files(spec)
    for path in found.paths:
        kind_of(path)
    return found
