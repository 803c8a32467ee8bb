"""When policies go to white space, or away from it, and what else was the case then: the lead over the early exit, the schedule.

sweeps --lead_table--> what tokens take off the loss      --turns_table--> when white space has most boundaries, or half of them
sweeps --ahead_table--> when a method gets ahead of another, size by size
sweeps --schedules_table--> what each schedule led to
"""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from rltok.config import from_dict
from rltok.evidence.record_file import Record
from rltok.evidence.records import Sweep, is_learned
from rltok.evidence.tables import BASELINE, by_size, label, on_the_way, over_seeds
from rltok.show.tables import markdown

NO_RUNS = "None of these contenders has a finished run."
RATE, BITS = ("peak learning rate", "after MB", "rows of an update"), ("bits per byte, validation", "of the early exit alone")
HALF, NEAR = 0.5, 3  # share of white space; lines of the log on either side that a mean is taken over


def lead_table(sweeps: Sequence[Sweep], names: Sequence[str], parts: Sequence[float] = (0.25, 0.5, 1.0)) -> str:
    """Markdown: how many nats per byte the tokens take off the loss of the early exit, which sees bytes alone.

    L_early - L of training rows: the mean over the tenth of training text before a mark. Marks are the same bytes for every
    size, parts of what the one that reads least reads; the last column is each one's own end. ± over seeds.
    """
    if not any(name in sweep.runs for sweep in sweeps for name in names):
        return NO_RUNS
    least = min(run["bytes"] for sweep in sweeps for run in sweep.records)
    marks = [part * least for part in parts]
    rows = []
    for sweep in by_size(sweeps):
        for name in (name for name in names if name in sweep.runs):
            cells = [over_seeds(sweep.each(name, partial(_lead, mark=mark)), "+.3f") for mark in marks]
            last = over_seeds(sweep.each(name, lambda run: _lead(run, run["bytes"])), "+.3f")
            rows.append([f"`{name}`", label(sweep), *cells, last])
    return markdown(["contender", "size", *(f"after {mark / 1e6:.3g} MB" for mark in marks), "at its end"], rows)


def _lead(run: Record, mark: float) -> float:
    """Mean lead over the early exit in the tenth of the text before `mark` bytes; of the nearest point where none lies there."""
    points = [point for point in run["curve"] if 0.9 * mark <= point["bytes"] <= mark]
    points = points or [min(run["curve"], key=lambda point: abs(point["bytes"] - mark))]
    return _mean_lead(points)


def _mean_lead(points: Sequence[dict[str, Any]]) -> float:
    """L_early - L, nats per byte: the mean over lines of the log."""
    return statistics.fmean(point["early_nll"] - point["nll"] for point in points)


def ahead_table(sweeps: Sequence[Sweep], names: Sequence[str], megabytes: Sequence[float], reference: str = BASELINE) -> str:
    """Markdown: held-out bits per byte minus the reference's, of its size and seeds, after the same text of every size.

    Straight lines between evaluations, which are of fewer rows than scores after training; ± over seeds. "-" before the first
    evaluation of a size, after its end, and where no seed is in common.

    Args:
        megabytes: of training text, 1e6 bytes each.
    """
    rows, marks = [], [mark * 1e6 for mark in megabytes]
    for name in (name for name in names if name != reference):
        for sweep in (sweep for sweep in by_size(sweeps) if name in sweep.runs):
            begin = max(min(point["bytes"] for point in run["held_out"] if point["step"]) for run in sweep.records)
            end = min(run["bytes"] for run in sweep.records)
            columns = [on_the_way(sweep, name, reference, mark) if begin <= mark <= end else [] for mark in marks]
            rows.append([f"`{name}`", label(sweep), *(over_seeds(gaps, "+.3f") for gaps in columns)])
    head = [f"held-out text, minus `{reference}`", "size", *(f"after {mark:g} MB" for mark in megabytes)]
    return markdown(head, rows) if rows else NO_RUNS


def turns_table(sweeps: Sequence[Sweep], names: Sequence[str]) -> str:
    """Markdown: when each policy first has a boundary at half of white space, or, if it never does, when it has most there.

    A row for each seed, of its first run. Shares are of training rows; the lead L_early - L is a mean over 2 * NEAR + 1 lines of
    the log, in nats per byte.
    """
    rows = []
    for sweep in by_size(sweeps):
        for name in (name for name in names if name in sweep.runs):
            for seed, run in sorted(sweep.runs[name].items()):
                if is_learned(run):
                    rows.append([f"`{name}`", label(sweep), str(seed), *_turn(run)])
    head = ["contender", "size", "seed", "white space", "MB read", "update", "lead over the early exit", "peak rate at update"]
    return markdown(head, rows) if rows else NO_RUNS


@dataclass(frozen=True)
class Turn:
    """The line of the log at which a policy has a boundary at half of white space, or most of them if it never does."""

    share: float
    passes: bool
    bytes: int
    step: int
    lead: float  # L_early - L around it, nats per byte


def turn(run: Record) -> Turn:
    """When a run first has a boundary at half of white space; when it has most there if it never does."""
    curve = run["curve"]
    shares = [point["whitespace_share"] for point in curve]
    there = next((number for number, share in enumerate(shares) if share >= HALF), None)
    at = int(np.argmax(shares)) if there is None else there
    lead = _mean_lead(curve[max(0, at - NEAR) : at + NEAR + 1])
    return Turn(shares[at], there is not None, curve[at]["bytes"], curve[at]["step"], lead)


def _turn(run: Record) -> list[str]:
    config, at = from_dict(run["config"]), turn(run)
    words = f"passes {HALF:g}" if at.passes else f"at most {at.share:.2f}"
    warm = config.train.warmup_fraction * config.num_updates
    return [words, f"{at.bytes / 1e6:.3g}", str(at.step), f"{at.lead:+.3f}", f"{warm:.0f}"]


def schedules_table(sweeps: Sequence[Sweep], names: Sequence[str]) -> str:
    """Markdown: how the learning rate went in the runs of each method and what came out, on validation text; ± over seeds.

    Entropy is that of the policy, nats per decision; a boundary at one byte in five, drawn blindly, has 0.50.
    """
    rows = []
    for sweep in by_size(sweeps):
        for name in (name for name in names if name in sweep.runs):
            facts = _facts(sweep, name)
            ends = [over_seeds(sweep.values(name, key), ".2f") for key in ("whitespace_share", "policy_entropy")]
            rows.append([f"`{name}`", label(sweep), str(len(sweep.runs[name])), *(facts[what] for what in RATE), *ends,
                         *(facts[what] for what in BITS)])  # fmt: skip
    head = ["contender", "size", "seeds", *RATE, "white space", "entropy", *BITS]
    return markdown(head, rows) if rows else NO_RUNS


def _facts(sweep: Sweep, name: str) -> dict[str, str]:
    config = from_dict(sweep.runs[name][min(sweep.runs[name])]["config"])
    train = config.train
    warm = train.warmup_fraction * config.num_updates
    alone = sweep.each(name, lambda run: run["scores"]["validation"].get("early_bits_per_byte"))
    return {
        "peak learning rate": f"{train.learning_rate:g}",
        "after MB": f"{warm * config.bytes_per_update / 1e6:.3g}",
        "rows of an update": str(train.sequences_per_update),
        "bits per byte, validation": over_seeds(sweep.values(name, "bits_per_byte"), ".3f"),
        "of the early exit alone": over_seeds(alone, ".3f"),
    }
