"""A run's folder on disk: its lock, its files, and how its logs are rewound to a checkpoint.

config.json  data.json  metrics.jsonl  snapshots.jsonl  sessions.jsonl  checkpoints/  record.json
"""

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import zip_longest
from pathlib import Path
from typing import Any, TextIO

from filelock import BaseFileLock

from rltok.config import Config, from_dict
from rltok.errors import RltokError, not_finite
from rltok.runs.checkpoint import checkpoints, differences
from rltok.system.files import MISSING, cannot_write, check_name, locked, read_file, require_own, require_regular, room

LOGS = ("metrics.jsonl", "snapshots.jsonl")
OWN = (".lock", "config.json", "data.json", "sessions.jsonl", "sessions.tmp", "record.json", *LOGS)
Entry = tuple[int, str | None]  # what a logged line is about: step and split
SPLITS = ("train", "validation")
# All that a run leaves behind when it is killed while it sets up its folder; config.json is written last.
BEFORE_CONFIG = (".lock", ".data.json.tmp", "data.json", ".config.json.tmp")
RESTORE = "Restore the file, or train again in a new folder."


def check_folder(path: str | Path, resume: bool) -> None:
    """Raise `RltokError` unless a run may start, or with `resume` continue, in the folder. Changes nothing."""
    check_name(path, "folder")
    path = Path(path)
    if path.exists() and not path.is_dir():
        raise RltokError(f"{path} is a file; --out needs a folder.")
    holds_run = (path / "config.json").exists()
    if holds_run and not resume:
        raise RltokError(
            f"{path} already holds a run. Add --resume (resume=True in Python) to go on with it, or choose another --out."
        )
    for name in OWN:
        require_own(path / name)
    remains = [name for name in (*LOGS, "checkpoints", "record.json") if (path / name).exists()]
    if not holds_run and remains:
        raise RltokError(f"{path} holds {remains[0]} but no config.json. Restore that file, or choose another --out.")
    if not holds_run and path.exists() and any(entry.name not in BEFORE_CONFIG for entry in path.iterdir()):
        raise RltokError(f"{path} is not empty and holds no run. Choose a new folder with --out.")


def check_begun(path: Path, config: Config, data: dict[str, Any]) -> None:
    """Raise `RltokError` where a run that was begun in the folder is of other settings or text; nothing without one.

    Args:
        path: of the folder.
        config, data: settings, and the description of the corpus, with which it would be gone on with.
    """
    if not (path / "config.json").exists():
        return
    stored, stored_data = _table(path, "config.json"), _table(path, "data.json")
    try:
        as_read = from_dict(stored).to_dict()  # settings that came later have their defaults
        before = {split: stored_data[split]["hash"] for split in SPLITS}
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise _damaged(path, error) from error
    if changed := differences(as_read, config.to_dict()):
        raise RltokError(f"{path} belongs to another configuration: {'; '.join(changed[:3])}. Resume with the same settings.")
    for split in SPLITS:
        now = data[split]["hash"]
        if before[split] != now:
            raise RltokError(
                f"{path} was trained with other {split} text (hash {before[split]}, now {now}). Resume with the same text."
            )


def _table(path: Path, name: str) -> dict[str, Any]:
    """A file of a run's folder that holds a table."""
    try:
        values = json.loads(read_file(path / name))
    except (*MISSING, ValueError, RecursionError) as error:
        raise _damaged(path, error) from error
    if not isinstance(values, dict):
        raise _damaged(path, f"{name} holds no table")
    return values


def _damaged(path: Path, reason: object) -> RltokError:
    return RltokError(f"{path} holds a damaged config.json or data.json ({reason}). Restore that file, or choose another --out.")


class RunFolder:
    """The folder of one run, locked for the life of this object.

    Args:
        path: created if it does not exist.
        config: must equal the stored one on resume.
        data: description of the corpus; its hashes must equal the stored ones, too.
        resume: continue from the newest checkpoint, or from the start if there is none yet.

    Raises:
        RltokError: the folder already holds a run and resume is off, belongs to other settings or data, is in use,
            or cannot be written.
    """

    def __init__(self, path: str | Path, config: Config, data: dict[str, Any], resume: bool) -> None:
        self.path = Path(path)
        self._lock: BaseFileLock | None = None
        self._logs: dict[str, TextIO] = {}
        self._made: list[str] = []  # files that were not there before
        try:
            with room(self.path):
                self._claim(config, data, resume)
        except RltokError:
            self.close()
            raise
        except OSError as error:
            self.close()
            raise cannot_write(self.path, error) from error

    def _claim(self, config: Config, data: dict[str, Any], resume: bool) -> None:
        check_folder(self.path, resume)
        self._made_folder, made_lock = not self.path.exists(), not (self.path / ".lock").exists()
        self.path.mkdir(parents=True, exist_ok=True)
        in_use = f"another process is training in {self.path}. Wait for it, or choose another --out."
        self._lock = locked(self.path / ".lock", in_use)
        check_folder(self.path, resume)  # again: another process may have used it in between
        check_begun(self.path, config, data)
        self._made = [name for name in ("config.json", "data.json") if not (self.path / name).exists()]
        self._made += [".lock"] if made_lock else []
        self._write("data.json", data)
        self._write("config.json", config.to_dict())

    def _write(self, name: str, values: dict[str, Any]) -> None:
        temporary = self.path / f".{name}.tmp"
        temporary.unlink(missing_ok=True)  # a link would be written through
        temporary.write_text(json.dumps(values, indent=1) + "\n")
        os.replace(temporary, self.path / name)

    @contextmanager
    def tentative(self) -> Iterator[None]:
        """Around work before the logs are opened: if it fails in a folder that held no run, remove what was created there."""
        try:
            yield
        except Exception:  # not an interruption, after which --resume starts over
            if "config.json" in self._made:
                for name in self._made:
                    with suppress(OSError):
                        (self.path / name).unlink()
                with suppress(OSError):  # where it is not empty, something else was there
                    if self._made_folder:
                        self.path.rmdir()
            raise

    def newest_checkpoint(self) -> Path | None:
        """The checkpoint to continue from, or None."""
        saved = checkpoints(self.path)
        return saved[-1] if saved else None

    def rewind(
        self, step: int | None, expected: dict[str, list[Entry]], first: Callable[[], object] = lambda: None
    ) -> None:  # fmt: skip
        """Delete all logged lines after `step` (None: all lines), incomplete ones included, and open the logs for appending.

        Args:
            step: of the checkpoint to continue from.
            expected: the lines that each log must hold up to `step`.
            first: called after the lines were checked and before any is deleted.

        Raises:
            RltokError: a line is missing, duplicated, unexpected or damaged; nothing was changed.
        """
        kept = {}
        for name in LOGS:
            require_regular(self.path / name)
            kept[name] = [] if step is None else _lines_up_to(self.path / name, step, expected[name])
        first()
        with room(self.path):
            for name, lines in kept.items():
                path = self.path / name
                temporary = path.with_suffix(".tmp")
                temporary.unlink(missing_ok=True)
                temporary.write_bytes(b"".join(lines))
                os.replace(temporary, path)
                self._logs[name] = path.open("a")

    def log(self, name: str, values: dict[str, Any]) -> None:
        """Append one JSON line and flush it."""
        try:
            line = json.dumps(values, allow_nan=False)
        except ValueError as error:
            raise not_finite(values["step"], f"a number for {name}", done=values["step"]) from error
        with room(self.path):
            self._logs[name].write(line + "\n")
            self._logs[name].flush()

    def sync(self) -> None:
        """Force the logs to the disk; called before a checkpoint, so that no checkpoint is ahead of its log."""
        with room(self.path):
            for log in self._logs.values():
                os.fsync(log.fileno())

    def metrics(self) -> list[dict[str, Any]]:
        """All lines of metrics.jsonl."""
        return metrics_of(self.path)

    def close(self) -> None:
        """Close the logs and release the lock."""
        for log in self._logs.values():
            with suppress(OSError):  # on a full disk, which `log` has reported
                log.close()
        if self._lock is not None:
            self._lock.release()


def metrics_of(folder: Path) -> list[dict[str, Any]]:
    """All lines of a run's metrics.jsonl. Raises `RltokError` when it is missing or damaged."""
    path = folder / "metrics.jsonl"
    try:
        return [json.loads(line) for line in read_file(path).splitlines()]
    except RltokError:
        raise
    except (*MISSING, ValueError, RecursionError) as error:
        raise RltokError(f"{path} is missing or damaged ({error}). {RESTORE}") from error


def _entry(line: bytes) -> Entry:
    values = json.loads(line)
    json.dumps(values, allow_nan=False)  # raises ValueError for numbers that are not finite
    step, split = values["step"], values.get("split")
    if type(step) is not int or not isinstance(split, str | None):
        raise ValueError(f"step {step!r}, split {split!r}")
    return step, split


def _lines_up_to(path: Path, step: int, expected: list[Entry]) -> list[bytes]:
    """Complete lines of a log up to `step`, after comparing them with the expected ones."""
    lines = read_file(path).splitlines(keepends=True) if path.exists() else []
    kept, entries = [], []
    for number, line in enumerate(lines, start=1):
        try:
            if line.endswith(b"\n") and (entry := _entry(line))[0] <= step:
                kept.append(line)
                entries.append(entry)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            if len(entries) == len(expected):  # later than the checkpoint, so it goes anyway
                break
            raise RltokError(f"{path}, line {number} is damaged ({error}). {RESTORE}") from error
    for place, (there, wanted) in enumerate(zip_longest(entries, expected)):
        if there != wanted:
            lacks = wanted is not None and wanted not in entries[place:]
            step, split = wanted if lacks else there
            line = f"line of step {step}" + (f" ({split})" if split else "")
            raise RltokError(f"{path} {f'lacks the {line}' if lacks else f'has a foreign or double {line}'}. {RESTORE}")
    return kept
