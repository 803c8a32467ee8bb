"""A run's folder on disk: who may write it, what stands in it, and how it is wound back to a checkpoint.

config.json  data.json  metrics.jsonl  snapshots.jsonl  checkpoints/  record.json
"""

import json
import os
from pathlib import Path
from typing import Any, TextIO

try:
    import fcntl
except ImportError:  # Windows has no such locks: there, two trainings in one folder are for the user to avoid
    fcntl = None

from rltok.checkpoint import checkpoints, differences
from rltok.config import Config
from rltok.errors import RltokError

LOGS = ("metrics.jsonl", "snapshots.jsonl")
# All that a run leaves that is killed while it takes possession of its folder; config.json comes last.
BEFORE_CONFIG = (".lock", ".data.json.tmp", "data.json", ".config.json.tmp")


def check_folder(path: str | Path, resume: bool) -> None:
    """Raise `RltokError` when the folder is no place for the run: taken, foreign, or no folder. Changes nothing."""
    path = Path(path)
    if path.exists() and not path.is_dir():
        raise RltokError(f"{path} is a file; --out needs a folder.")
    holds_run = (path / "config.json").exists()
    if holds_run and not resume:
        raise RltokError(
            f"{path} already holds a run. Add --resume (resume=True in Python) to go on with it, or choose another --out."
        )
    if not holds_run and path.exists() and any(entry.name not in BEFORE_CONFIG for entry in path.iterdir()):
        raise RltokError(f"{path} is not empty and holds no run. Choose a new folder with --out.")


class RunFolder:
    """The folder of one run, locked for the life of this object.

    Args:
        path: made when it does not exist.
        config: compared with the stored one on resume.
        data: description of the corpus; its hash is compared too.
        resume: go on from the newest checkpoint, or from the start when there is none yet.

    Raises:
        RltokError: the folder already holds a run and resume is off, belongs to other settings or data, is in use,
            or cannot be written.
    """

    def __init__(self, path: str | Path, config: Config, data: dict[str, Any], resume: bool) -> None:
        self.path = Path(path)
        self._lock: TextIO | None = None
        self._logs: dict[str, TextIO] = {}
        try:
            self._claim(config, data, resume)
        except RltokError:
            self.close()
            raise
        except OSError as error:
            self.close()
            raise RltokError(
                f"cannot write to {self.path} ({error.strerror}). Choose a folder you may write to with --out."
            ) from error

    def _claim(self, config: Config, data: dict[str, Any], resume: bool) -> None:
        check_folder(self.path, resume)
        self.path.mkdir(parents=True, exist_ok=True)
        self._lock = (self.path / ".lock").open("w")
        try:
            if fcntl is not None:  # the system frees the lock when the process ends, however it ends
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RltokError(f"another process is training in {self.path}. Wait for it, or choose another --out.") from None
        check_folder(self.path, resume)  # again: another process may have used it in between
        if (self.path / "config.json").exists():
            self._compare(config, data)
        self._write("data.json", data)
        self._write("config.json", config.to_dict())

    def _compare(self, config: Config, data: dict[str, Any]) -> None:
        try:
            stored = json.loads((self.path / "config.json").read_text())
            stored_data = json.loads((self.path / "data.json").read_text())
        except (OSError, ValueError) as error:
            raise RltokError(f"{self.path} holds a damaged config.json or data.json ({error}). Choose another --out.") from error
        changed = differences(stored, config.to_dict())
        if changed:
            raise RltokError(
                f"{self.path} belongs to another configuration: {'; '.join(changed[:3])}. Resume with the same settings."
            )
        for split in ("train", "validation"):
            before, now = (description.get(split, {}).get("hash") for description in (stored_data, data))
            if before != now:
                raise RltokError(
                    f"{self.path} was trained with other {split} text (hash {before}, now {now}). Resume with the same text."
                )

    def _write(self, name: str, values: dict[str, Any]) -> None:
        temporary = self.path / f".{name}.tmp"
        temporary.write_text(json.dumps(values, indent=1) + "\n")
        os.replace(temporary, self.path / name)

    def newest_checkpoint(self) -> Path | None:
        """The checkpoint to go on from, if there is one."""
        found = checkpoints(self.path)
        return found[-1] if found else None

    def rewind(self, step: int | None) -> None:
        """Drop every logged line after `step` (None: all lines), half-written ones included, and open the logs."""
        for name in LOGS:
            path = self.path / name
            kept = _lines_up_to(path, step) if path.exists() and step is not None else []
            temporary = path.with_suffix(".tmp")
            temporary.write_text("".join(kept))
            os.replace(temporary, path)
            self._logs[name] = path.open("a")

    def log(self, name: str, values: dict[str, Any]) -> None:
        """Append one JSON line and hand it to the system at once."""
        self._logs[name].write(json.dumps(values) + "\n")
        self._logs[name].flush()

    def sync(self) -> None:
        """Put the logs on the disk; before a checkpoint, so that no checkpoint is ahead of its log."""
        for log in self._logs.values():
            os.fsync(log.fileno())

    def metrics(self) -> list[dict[str, Any]]:
        """All lines of metrics.jsonl."""
        return [json.loads(line) for line in (self.path / "metrics.jsonl").read_text().splitlines()]

    def close(self) -> None:
        """Close the logs and free the lock."""
        for log in self._logs.values():
            log.close()
        if self._lock is not None:
            self._lock.close()


def _lines_up_to(path: Path, step: int) -> list[str]:
    """Finished lines of a log that belong to no later step."""
    kept = []
    for number, line in enumerate(path.read_text(errors="replace").splitlines(keepends=True), start=1):
        try:
            if line.endswith("\n") and json.loads(line)["step"] <= step:
                kept.append(line)
        except (ValueError, KeyError, TypeError) as error:
            raise RltokError(f"{path}, line {number} is damaged ({error}). Remove that line, then resume.") from error
    return kept
