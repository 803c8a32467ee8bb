"""Runs small enough for a test: 3 kB of text, a model of width 16, eight updates of two micro-batches each."""

import hashlib
import json
import signal
from pathlib import Path

import torch

from rltok.config import Config, with_settings
from rltok.presets import preset

TEXT = b"The cat sat on the mat, and then 12 dogs came by.\n" * 60
# Checkpoints come after updates 3, 6 and 8, training lines after 2, 4, 6 and 8, evaluations after 0, 5 and 8.
SETTINGS = {
    "model.embedding_dim": 16,
    "model.num_heads": 1,
    "model.mid_layers": 1,
    "model.rule.lags": 2,
    "data.sequence_length": 64,
    "train.sequences_per_update": 4,
    "train.micro_batch": 2,
    "train.training_bytes": 8 * 4 * 64,
    "train.log_every": 2,
    "train.evaluate_every": 5,
    "train.evaluate_rows": 4,
    "train.checkpoint_every": 3,
}
UPDATES = 8
TIMES = ("seconds", "bytes_per_second")


def small_config(**settings) -> Config:
    """The small run's configuration; `train__seed=1` changes `train.seed`."""
    return with_settings(preset("tiny"), SETTINGS | {key.replace("__", "."): value for key, value in settings.items()})


def as_options(settings: dict) -> list[str]:
    """Settings as they are typed after `rltok train`."""
    return ["--set", *(f"{key}={value}" for key, value in settings.items())]


def write_text(folder: Path, data: bytes = TEXT) -> str:
    """A text file in the folder; its path."""
    path = folder / "text.txt"
    path.write_bytes(data)
    return str(path)


def json_lines(path: Path) -> list[dict]:
    """The lines of a log, without the fields of time."""
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return [{key: value for key, value in line.items() if key not in TIMES} for line in lines]


def digests(folder: Path) -> dict[str, str]:
    """Every file under a folder with a digest of what it holds."""
    files = [path for path in sorted(Path(folder).rglob("*")) if path.is_file()]
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def kill_run(children, config, text, out, point, call, *, resume=False):
    """Train in a child of `killed_runs.py` until the `call`-th call of `point`, where it dies."""
    order = {"text": text, "out": str(out), "config": config.to_dict(), "threads": torch.get_num_threads()}
    children.stdin.write(json.dumps(order | {"resume": resume, "point": point, "call": call}) + "\n")
    children.stdin.flush()
    assert int(children.stdout.readline()) == signal.SIGKILL, "the child ended before it came to this point"
