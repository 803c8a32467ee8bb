"""Run records: one JSON file that says what was run, on what, and what came out."""

import contextlib
import functools
import json
import os
import platform
import subprocess
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

from rltok.config import Config
from rltok.runs.sessions import problem
from rltok.system.files import MISSING, read_file, write_json

RUN_SCHEMA = 2  # 2: tokens and FLOPs of the whole run in place of FLOPs per byte


@dataclass(frozen=True)
class RunRecord:
    """Everything that identifies a run, and its results."""

    name: str
    config: dict[str, Any]
    config_hash: str
    data: dict[str, Any]  # name, hash, how it was cut and split
    commit: str | None  # of the package's repository; "+changes" when the tree was not clean
    device: str
    precision: str
    versions: dict[str, str]
    seed: int
    updates: int
    bytes: int
    passes: float  # over the training rows
    seconds: float  # spent in updates, all sessions of the run together; without those that an interruption lost
    bytes_per_second: float
    peak_memory_bytes: int | None
    matrix_parameters: int
    tokens: int  # drawn in training, forced ones too
    flops: float  # of training by the paper's rule, which leaves attention out; fitting the rule included
    attention_flops: float  # what attention adds
    curve: list[dict[str, Any]]  # at most 200 points of the training metrics
    evaluation: dict[str, Any]
    fitted: dict[str, float] = field(default_factory=dict)  # `facts` of the rule that was fitted
    full: bool = True  # False marks a smoke run
    backend: str = "plain"  # "triton" where kernels took the place of plain operations
    note: str = ""
    skipped: int | None = None  # updates whose gradient overflowed in fp16; None of a run that never was in fp16
    sessions: list[dict[str, Any]] = field(default_factory=list)  # of `rltok.runs.sessions`; records made earlier have none
    schema: int = field(default=RUN_SCHEMA)

    def save(self, path: Path) -> None:
        """Write the record as JSON, atomically."""
        write_json(path, asdict(self))


def read_run_record(path: Path, config: Config) -> RunRecord | None:
    """The record of a finished run of these settings; None without one, and of another schema or damaged."""
    try:
        record = RunRecord(**json.loads(read_file(path)))
    except (*MISSING, ValueError, TypeError, RecursionError):
        return None
    same = (record.schema, record.config_hash, record.updates) == (RUN_SCHEMA, config.digest(), config.num_updates)
    return record if same and problem(record.sessions) is None else None


def repository_commit() -> str | None:
    """Commit of the repository that the package runs from, as of the first call in a process; None outside a repository.

    On a machine that got a copy of the files without their history, RLTOK_COMMIT names it.
    """
    if os.environ.get("RLTOK_COMMIT"):
        return os.environ["RLTOK_COMMIT"]
    return _commit_of(Path(__file__).resolve().parents[2])


def origin(config: Config, data: dict[str, Any], device: torch.device) -> dict[str, Any]:
    """What a measurement was made of and by: settings, text (`Corpus.description`), commit, device, versions."""
    return {
        "preset": config.name,
        "config": config.to_dict(),
        "config_hash": config.digest(),
        "data": data,
        "commit": repository_commit(),
        "device": device_name(device),
        "versions": versions(),
    }


def git_environment() -> dict[str, str]:
    """The environment without GIT_DIR and its like, which a git hook sets and which name another repository than a folder's."""
    own = (name for name in os.environ if not name.startswith("GIT_") or name.startswith("GIT_CONFIG"))
    return {name: os.environ[name] for name in own}


@functools.cache
def _commit_of(root: Path) -> str | None:
    """The commit, read once per process: later commits and changes are not the code that runs in it."""
    if not (root / ".git").exists():
        return None

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(root), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True, env=git_environment()).stdout.strip()

    try:
        return git("rev-parse", "HEAD") + ("+changes" if git("status", "--porcelain") else "")
    except (OSError, subprocess.CalledProcessError):
        return None


def versions() -> dict[str, str]:
    """Versions on which numbers depend, with Triton's if it is installed."""
    by_package = {"python": platform.python_version(), "torch": torch.__version__}
    for package in ("rltok", "numpy"):
        try:
            by_package[package] = version(package)
        except PackageNotFoundError:  # run from a folder, not installed
            by_package[package] = "not installed"
    with contextlib.suppress(PackageNotFoundError):
        by_package["triton"] = version("triton")
    return by_package


def device_name(device: torch.device, threads: int | None = None) -> str:
    """The card, or the processor's architecture with a number of threads, by default that in use."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"cpu {platform.machine()}, {threads or torch.get_num_threads()} threads"


def thin(points: list[dict[str, Any]], most: int) -> list[dict[str, Any]]:
    """At most `most` of the points, evenly spaced, first and last kept."""
    if len(points) <= most:
        return points
    return [points[round(i * (len(points) - 1) / (most - 1))] for i in range(most)]
