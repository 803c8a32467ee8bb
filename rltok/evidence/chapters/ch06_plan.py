"""Before a run at scale: what it takes on measured cards and on the disk, and the commands that make it.

config --plan_table, cost_table, train_command, prepare_command--> what to expect, what to type
"""

import json
import math
import shlex
from collections.abc import Callable, Mapping
from typing import Any

from rltok.config import Config
from rltok.flops import flops_per_byte, parameter_counts, training_flops
from rltok.presets import preset
from rltok.show.tables import markdown
from rltok.speed.speeds import Speed
from rltok.system.stopwatch import duration

LARGE = 120  # of a unit of time, from which on the next larger one is printed
OPTIMIZER_COPIES = 3  # of every weight in a checkpoint: itself and two moments of AdamW
BYTES = 4  # of a number in fp32
WATCHING = ("log_every", "evaluate_every", "evaluate_rows", "checkpoint_every", "keep_checkpoints")  # changes no weight
SPARE = 0.02  # of prepared text: duplicates, and splits that chance makes smaller
STORED = {"documents": 1, "windows": 1, "full_windows": 2}  # bytes for one that is trained on: an end may be as long as a window
MILLION = 1_000_000


def settings_of(values: Mapping[str, Any], path: str = "") -> dict[str, Any]:
    """Nested settings as {"objective.gamma": 0.9, ...}, the name left out."""
    settings: dict[str, Any] = {}
    for key, value in values.items():
        here = f"{path}{key}"
        settings |= settings_of(value, here + ".") if isinstance(value, Mapping) else {here: value}
    return {key: value for key, value in settings.items() if key != "name"}


def changes(config: Config, base: Config) -> dict[str, Any]:
    """The settings in which a configuration differs from another one."""
    before = settings_of(base.to_dict())
    return {key: value for key, value in settings_of(config.to_dict()).items() if value != before[key]}


def train_command(config: Config, base: str, *, data: str, out: str, validation: str | None = None) -> str:
    """The `rltok train` that makes a run of this configuration: a preset, and each setting that differs from it."""
    words = ["rltok train", f"--preset {shlex.quote(base)}", f"--data {shlex.quote(data)}"]
    words += [] if validation is None else [f"--validation {shlex.quote(validation)}"]
    words += [f"--out {shlex.quote(out)}"]
    changed = [shlex.quote(f"{key}={json.dumps(value)}") for key, value in changes(config, preset(base)).items()]
    return " \\\n  ".join(words + (["--set " + " \\\n    ".join(changed)] if changed else []))


def plan_table(plans: Mapping[str, Config]) -> str:
    """Markdown: budgets beside each other, counted from settings, and every setting that changes a weight and differs."""
    configs = list(plans.values())
    rows = [[name, *(setting(config) for config in configs)] for name, setting in PLANNED.items()]
    each = [settings_of(config.to_dict()) for config in configs]
    different = [key for key in each[0] if any(one[key] != each[0][key] for one in each) and key.split(".")[-1] not in WATCHING]
    rows += [[f"`{key}`", *(_plain(one[key]) for one in each)] for key in different]
    return markdown(["", *plans], rows)


def _plain(value: Any) -> str:
    return f"{value:,}" if type(value) is int else str(value)


def _flops(config: Config, attention: bool) -> float:
    """FLOPs of all updates, at the target rate."""
    size = config.num_updates * config.bytes_per_update
    rate = config.model.rule.target_rate
    matrices, more = training_flops(config, size, round(size * rate))
    return matrices + more if attention else matrices


PLANNED: dict[str, Callable[[Config], str]] = {
    "parameters in matrices": lambda config: f"{sum(parameter_counts(config.model).values()):,}",
    "updates": lambda config: f"{config.num_updates:,}",
    "bytes read in them": lambda config: f"{config.num_updates * config.bytes_per_update:,}",
    "rows": lambda config: f"{config.num_updates * config.train.sequences_per_update:,}",
    "updates of rising learning rate": lambda config: f"{round(config.num_updates * config.train.warmup_fraction):,}",
    "FLOPs a byte": lambda config: f"{flops_per_byte(config.model, config.model.rule.target_rate):.3g}",
    "FLOPs": lambda config: f"{_flops(config, attention=False):.3g}",
    "FLOPs with attention": lambda config: f"{_flops(config, attention=True):.3g}",
}


def checkpoint_bytes(config: Config) -> int:
    """Bytes of a checkpoint's tensors, about: every weight and two moments of AdamW in fp32."""
    return OPTIMIZER_COPIES * BYTES * sum(parameter_counts(config.model).values())


def disk_bytes(config: Config, runs: int) -> int:
    """Bytes of the checkpoints of so many runs, one after the other, with the one that is being written."""
    return (config.train.keep_checkpoints * runs + 1) * checkpoint_bytes(config)


def pass_bytes(config: Config) -> int:
    """Bytes of text that a run reads in all its updates."""
    return config.num_updates * config.bytes_per_update


def prepared_bytes(config: Config, held_out: float) -> int:
    """`--max-bytes` of `rltok prepare` for one pass: it counts what is stored for all splits.

    Args:
        config: how documents are cut, and how many bytes its updates read.
        held_out: share of the documents that go to validation and test.
    """
    wanted = pass_bytes(config) * STORED[config.data.cut] * (1 + SPARE) / (1 - held_out)
    return math.ceil(wanted / MILLION) * MILLION


def prepare_command(config: Config, source: str, *, out: str, held_out: float) -> str:
    """The `rltok prepare` that stores enough text of a source for one pass, cut as this configuration reads it."""
    words = [f"rltok prepare {shlex.quote(source)}", f"--out {shlex.quote(out)}", f"--cut {config.data.cut}"]
    words += [f"--sequence-length {config.data.sequence_length}", f"--max-bytes {prepared_bytes(config, held_out)}"]
    return " \\\n  ".join(words)


def lasting(seconds: float) -> str:
    """A time in words: seconds, minutes or hours."""
    return duration(seconds, LARGE)


def cost_table(name: str, budgets: Mapping[str, int], speeds: list[Speed]) -> str:
    """Markdown: how long a preset takes on each card and backend where it was measured, updates alone.

    Args:
        name: of the preset.
        budgets: training bytes by what they are called.
        speeds: `rltok.speed.speeds.measured_speeds()`.
    """
    rows = []
    for speed in (speed for speed in speeds if speed["preset"] == name):
        rate = speed["bytes_per_second"]
        cells = [speed["device"], speed["backend"], f"{speed['micro_batch']}", f"{rate / 1e6:.3g}"]
        rows.append([*cells, *(lasting(size / rate) for size in budgets.values())])
    return markdown(["card", "backend", "rows a pass", "MB/s", *budgets], rows)
