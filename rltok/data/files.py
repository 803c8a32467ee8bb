"""Which files a spec names: a file, the matches of a pattern, the one kind of text in a folder. An ambiguous spec is an error."""

import glob
import itertools
import os
import re
import shlex
import sysconfig
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from rltok.data import hub, tables
from rltok.data.documents import printable
from rltok.data.prepared import is_prepared
from rltok.errors import RltokError
from rltok.system.files import quoted

TEXT_SUFFIXES = (".txt", ".text", ".md", ".markdown", ".rst", ".org", ".tex")
PYTHON_SUFFIXES = (".py",)
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
class Selection:
    """The files of a spec, in the order in which they are read.

    Attributes:
        base: the folder below which they have their names.
        paths: the files.
        whole: whether they are the text files of a folder, which is one source.
        passed: what stands there and is not read, in words.
    """

    base: Path
    paths: list[Path]
    whole: bool = False
    passed: tuple[str, ...] = ()

    def name(self, path: Path) -> str:
        """The name of one of the files, without folders of this machine."""
        return path.relative_to(self.base).as_posix() if path.is_relative_to(self.base) else path.name


def is_run(folder: Path) -> bool:
    """Whether a folder is that of a training run, whose logs look like JSON Lines of text."""
    logs = ("metrics.jsonl", "snapshots.jsonl", "sessions.jsonl")
    return all((folder / name).is_file() for name in ("config.json", "data.json")) and any((folder / n).is_file() for n in logs)


def list_files(folder: Path, leave_out: tuple[str, ...] = (), base: Path | None = None) -> tuple[list[Path], list[str]]:
    """All files under a folder in sorted order, each once, and the folders that are not searched: links, and runs of rltok.

    Hidden files and folders, and folders named in `leave_out`, are ignored. Folders that are not searched are named below `base`,
    which is `folder` where it is None.

    Raises:
        RltokError: a folder that cannot be read.
    """

    def unreadable(error: OSError) -> None:
        raise RltokError(f"cannot read folder {str(error.filename)!r}: {error.strerror}. Change its permissions or leave it out.")

    listed, passed = [], []
    for place, folders, names in os.walk(folder, onerror=unreadable):
        inside = [Path(place, name) for name in folders if not name.startswith(".") and name not in leave_out]
        kinds = [(path, "linked folder" if path.is_symlink() else "run" if is_run(path) else "") for path in inside]
        folders[:] = [path.name for path, kind in kinds if not kind]
        passed.extend(f"{kind} {path.relative_to(base or folder).as_posix()}" for path, kind in kinds if kind)
        listed.extend(Path(place, name) for name in names if not name.startswith("."))
    return distinct(sorted(listed, key=lambda path: path.relative_to(folder).parts)), sorted(passed)


def distinct(paths: list[Path]) -> list[Path]:
    """The files, each once, under the shortest of its names: links may lead to one file in several ways."""
    shortest: dict[str, Path] = {}
    for path in sorted(paths, key=lambda path: len(path.parts)):
        shortest.setdefault(os.path.realpath(path), path)
    kept = set(shortest.values())
    return [path for path in paths if path in kept]


def with_suffix(paths: list[Path], suffixes: tuple[str, ...]) -> list[Path]:
    """The paths whose name ends in one of the suffixes, in upper or lower case."""
    return [path for path in paths if path.name.lower().endswith(suffixes)]


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
    return PYTHON if name.endswith(PYTHON_SUFFIXES) else TEXT


def _suffix(path: Path) -> str:
    """The suffix of a name: from its last dot on, or from the one before where the file is packed."""
    last = path.suffix
    return Path(path.stem).suffix + last if last.lower() in (".gz", ".zst") else last or path.name


def _count_suffixes(paths: list[Path]) -> list[str]:
    """How many files have each suffix, such as `3 .csv`."""
    return [f"{count} {printable(suffix)}" for suffix, count in sorted(Counter(map(_suffix, paths)).items())]


def count_files(kind: str, names: list[str], place: str = "") -> str:
    """How many files there are, with the first names: `3 text files of corpus (a.txt, b.txt, c.txt)`."""
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    of = f" of {printable(place)}" if place else ""
    return f"{len(names)} {kind} file{'s' * (len(names) != 1)}{of} ({', '.join(map(printable, names[:NAMED]))}{more})"


def _folder_files(folder: Path) -> Selection:
    """Files of the one kind that a folder holds. Raises `RltokError` for a folder with several kinds, with none, or of a run."""
    if is_run(folder):
        raise RltokError(f"{str(folder)!r} is the folder of a training run, not text. Name the text.")
    if is_prepared(folder):
        raise RltokError(
            f"{str(folder)!r} was written by rltok prepare: its text is prepared. Name the text that it was made of, or train on"
            f" it: rltok train --data {quoted(folder)}"
        )
    paths, passed = list_files(folder)
    kinds = {
        PARQUET: with_suffix(paths, tables.PARQUET_SUFFIXES),
        JSON_LINES: with_suffix(paths, tables.JSONL_SUFFIXES),
        TEXT: with_suffix(paths, TEXT_SUFFIXES),
    }
    if kinds[PARQUET] or kinds[JSON_LINES]:
        kinds[TEXT] = [path for path in kinds[TEXT] if re.split("[^a-z]", path.stem.lower())[0] not in _ABOUT]
    there = {kind: chosen for kind, chosen in kinds.items() if chosen}
    if len(there) > 1:
        has = " and ".join(
            count_files(kind, [str(path.relative_to(folder)) for path in chosen]) for kind, chosen in there.items()
        )
        patterns = (Path(glob.escape(str(folder)), "**", f"*{_suffix(chosen[0])}") for chosen in there.values())
        say = " or ".join(shlex.quote(str(pattern)) for pattern in patterns)
        raise RltokError(f"folder {str(folder)!r} has {has}. Say which: {say}.")
    if not there:
        wanted = ", ".join((*TEXT_SUFFIXES, *tables.JSONL_SUFFIXES, *tables.PARQUET_SUFFIXES))
        has = ", ".join((*_count_suffixes(paths)[:5], *passed[:5])) or "nothing"
        raise RltokError(
            f"folder {str(folder)!r} has no text: no file ends in {wanted}; it has {has}. For Python sources write python:FOLDER,"
            " for other names a pattern such as 'folder/*.log'."
        )
    ((kind, chosen),) = there.items()
    others = _count_suffixes(sorted(set(paths) - set(chosen)))
    return Selection(folder, chosen, kind == TEXT, (*others, *passed))


def _python_files(place: str) -> Selection:
    """The Python sources of a folder; `stdlib` is the interpreter's own library without installed packages."""
    is_stdlib = place == "stdlib"
    folder = os.path.expanduser(sysconfig.get_paths()["stdlib"] if is_stdlib else place)
    if not os.path.isdir(folder):
        raise RltokError(f"python:{place} needs an existing folder of Python sources, or the word stdlib.")
    # Some systems keep installed packages inside the library's folder, so that another machine would read other text;
    # the last two hold tests in other encodings than UTF-8.
    leave_out = ("site-packages", "dist-packages", "encoded_modules", "tokenizedata") if is_stdlib else ()
    listed, passed = list_files(Path(folder), leave_out)
    paths = with_suffix(listed, PYTHON_SUFFIXES)
    if not paths:
        raise RltokError(f"python:{place} has no text: no file in the folder ends in .py. Name a folder with Python sources.")
    return Selection(Path(folder), paths, True, () if is_stdlib else tuple(passed))


def _hidden(parts: tuple[str, ...]) -> bool:
    return any(part.startswith(".") for part in parts)


def _unsearched(base: Path, pattern: tuple[str, ...]) -> set[str]:
    """The folders that `**` of a pattern does not search, in words: links, and runs of rltok."""
    if "**" not in pattern:
        return set()
    before = pattern[: pattern.index("**")]
    starts = [path for path in base.glob(str(Path(*before))) if path.is_dir()] if before else [base]
    return {words for start in starts for words in list_files(start, base=base)[1]}


def _matching_files(spec: str | Path) -> Selection:
    """The file, or the files that a pattern matches, by their names below the part without wild cards."""
    if os.path.exists(spec):
        return Selection(Path(spec).parent, [Path(spec)])
    parts = Path(spec).parts if glob.has_magic(str(spec)) else ()
    base = Path(*itertools.takewhile(lambda part: not glob.has_magic(part), parts))
    pattern = parts[len(base.parts) :]
    try:  # unlike glob.glob, pathlib does not go round in circles of links
        matches = sorted(base.glob(str(Path(*pattern))), key=str) if pattern else []
        passed = _unsearched(base, pattern)
    except (ValueError, NotImplementedError, OSError) as error:
        raise RltokError(f"{str(spec)!r} is no pattern for files: {error}. Write one such as 'folder/**/*.txt'.") from error
    chosen = []
    for path in matches:
        name = path.relative_to(base)
        runs = {f"run {parent.as_posix()}" for parent in name.parents if parent.parts and is_run(base / parent)}
        passed |= runs
        if not runs and (_hidden(pattern) or not _hidden(name.parts)):
            chosen.append(path)
    if not chosen:
        raise RltokError(f"no such file, folder or kind of data: {str(spec)!r}. Allowed: {ALLOWED}.")
    return Selection(base, distinct(chosen), passed=tuple(sorted(passed)))


def select_files(spec: str | Path) -> Selection:
    """The files of a spec that is neither the sample nor a dataset on the hub.

    Raises:
        RltokError: there are none, or of kinds that are not read, or of several kinds in one folder.
    """
    if isinstance(spec, str) and spec.startswith("python:"):
        return _python_files(spec.removeprefix("python:"))
    if os.path.isdir(spec):  # unlike Path.is_dir, os.path answers False for names that no system accepts
        return _folder_files(Path(spec))
    selection = _matching_files(spec)
    for path in selection.paths:
        kind_of(path)
    return selection
