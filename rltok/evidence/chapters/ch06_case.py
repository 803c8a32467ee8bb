"""Chapter 06b: what became of our runs of 147M, in sentences and tables that follow from whichever records there are.

stored records --read--> Case     Case --finding--> sentences     --travel_table--> Markdown     --figure--> white space over text
Case --schedules--> lines: the runs that differ in their schedule, without and with what came out
"""

import json
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rltok.config import Config
from rltok.errors import RltokError
from rltok.evidence import differences, headline
from rltok.evidence.chapters.ch04_travel import MOSTLY
from rltok.evidence.chapters.ch06_runs import schedule_sweep
from rltok.evidence.chapters.ch06_starts import beside
from rltok.evidence.chapters.ch07_results import EARLY, HEADS, cell, minus, name_in, paper_cell
from rltok.evidence.headline import FAST, LARGE, NAMES, SLOW, place_of, settings, shares, span
from rltok.evidence.record_file import Record
from rltok.evidence.records import RATE_OF, SCHEDULE, Sweep, read_sweeps
from rltok.evidence.verdicts import LEAST_SEEDS
from rltok.evidence.words import NONE, many, on_one_line
from rltok.presets import preset, size_of, travel_share
from rltok.show.tables import markdown

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LONGER = "32m_paper"  # the paper's own budget at 32M, one learning rate


@dataclass(frozen=True)
class Case:
    """The runs of 147M and what they are set beside; None where it is not stored."""

    large: Sweep
    best: Sweep
    early: Sweep | None  # 32M, learning rate with an early peak
    longer: Sweep | None  # 32M, the paper's budget
    schedules: Sweep | None  # `early` with other schedules
    start: tuple[Record, Record] | None  # of a second seed, and the finished run of the first
    distances: dict[str, Any] | None  # of both paths from float64, by size

    @property
    def rows(self) -> list[tuple[str, Sweep, str]]:
        """(words, sweep, name of the run) of every paper's policy and every fast one, largest model first."""
        sweeps = (("", self.large), (", paper's budget", self.longer), ("", self.best), (", early peak", self.early))
        each = [(words, sweep, method) for words, sweep in sweeps if sweep is not None for method in (SLOW, FAST)]
        named = [(f"{size(sweep)}, {NAMES[method]}{words}", sweep, name_in(sweep, method)) for words, sweep, method in each]
        return [(words, sweep, name) for words, sweep, name in named if name is not None]


def read(results: Path) -> Case:
    """Everything that is stored of the case.

    Raises:
        RltokError: no run of 147M, or of each method at its best at 32M, has finished, or a record is damaged.
    """
    best = headline.best_sweep(results)
    sweeps = read_sweeps(results / "sweeps")
    if LARGE not in sweeps:
        raise RltokError(
            f"{results / 'sweeps'} holds no finished run of {LARGE}, which this chapter is about. Take the folder of the"
            f" repository, or make the records: scripts/measure/run_sweep.py scripts/measure/sweeps/{LARGE}.toml."
        )
    large, early = differences.borrowing(sweeps[LARGE], best), sweeps.get(EARLY)
    longer = read_sweeps(results / "best", ("learning_rate", "warmup_fraction"), LONGER).get(LONGER)
    start, run, why_not = beside(results / "start_147m.json", large)
    path = results / "fast_path.json"
    return Case(
        large, best, early, differences.borrowing(longer, best) if longer else None,
        schedule_sweep(results / "causes", "schedule", early, SCHEDULE) if early else None,
        None if why_not or start is None or run is None else (start, run),
        json.loads(path.read_text())["distances"] if path.exists() else None,
    )  # fmt: skip


def size(sweep: Sweep) -> str:
    """The model's size as prose writes it: 147M."""
    return size_of(sweep.records[0]["config"]["name"]).upper()


def megabytes(sweep: Sweep, name: str) -> str:
    """Training text of a run of a method: 622 MB."""
    return f"{statistics.fmean(run['bytes'] for run in sweep.runs[name].values()) / 1e6:.3g} MB"


def first_letters(sweep: Sweep, name: str) -> list[float]:
    """Share of the first letters of words with a boundary after it, of each seed; validation text."""
    return sweep.each(name, lambda run: (run["scores"]["validation"].get("class_rates") or {}).get("word start"))


def finding(case: Case) -> str:
    """Markdown: where the large policies ended, the fast one first if it is stored, how far weights can move, small models."""
    fast, others = _large(case, FAST), [_large(case, SLOW), _far(case), _small(case), _longer(case)]
    sentences = [fast, *others] if FAST in case.large.runs else [*others, fast]
    return on_one_line("\n".join(f"* {one}" for one in sentences if one))


def _large(case: Case, method: str) -> str:
    """How a policy of the large model ended, and how it stands to even spacing and guidance."""
    name = name_in(case.large, method)
    rate = "one learning rate for all weights, as in the paper" if method == SLOW else "a higher learning rate of its own"
    if name is None:
        return f"No policy of {size(case.large)} with {rate} is stored yet."
    values = case.large.values(name, "whitespace_share", place_of(case.large))
    found = "finds white space" if min(values) >= MOSTLY else "does not find white space"
    found = "finds white space with some seeds only" if min(values) < MOSTLY <= max(values) else found
    return (
        f"With {rate}, the policy of {size(case.large)} {found}: after {megabytes(case.large, name)} of text it has a boundary"
        f" after {shares(case.large, name)} of white space ({many(len(values), 'seed')}).{_beside(case.large, name)}"
    )


def _beside(large: Sweep, name: str) -> str:
    """How a policy of the large model predicts beside even spacing and guidance; of fewer than three seeds, each."""
    place = place_of(large)
    gaps = {other: gap for other in ("even", "bpe") if (gap := differences.gap(large, name, other, place)) is not None}
    sure = {other: gap for other, gap in gaps.items() if gap.seeds >= LEAST_SEEDS}
    few: dict[tuple[int, ...], list[str]] = {}  # what has too few seeds, by the seeds that both have
    for other in (other for other in gaps if other not in sure):
        few.setdefault(tuple(sorted(large.runs[name].keys() & large.runs[other].keys())), []).append(other)
    told = f" It predicts {headline.against(sure)}." if sure else ""
    return told + "".join(_undecided(large, name, seeds, others) for seeds, others in few.items())


def _undecided(large: Sweep, name: str, seeds: Sequence[int], others: Sequence[str]) -> str:
    """The differences of one or two seeds, which decide nothing; where the other method lacks seeds, how many it has."""
    parts = []
    for other in others:
        fewer = len(large.runs[other]) < len(large.runs[name])
        stored = f", of which {many(len(large.runs[other]), 'seed')} ran," if fewer else ""
        bits = " and ".join(f"{each:+.3f}" for each in headline.by_seed(large, name, other))
        parts.append(f"from {NAMES[other]}{stored} by {bits}")
    which = " and ".join(map(str, seeds))
    who, decide = (f"Seed {which} differs", "one seed decides") if len(seeds) == 1 else (f"Seeds {which} differ", "two decide")
    return f" {who} {', '.join(parts)} bits per byte; {decide} nothing."


def _far(case: Case) -> str:
    name = name_in(case.large, SLOW)
    if name is None:
        return ""
    travel = travel_share(settings(case.large, name))
    return f"With one rate, the policy's weights could move {travel:.0%} as far as in the paper's run of 6 GB."


def _small(case: Case) -> str:
    if FAST not in case.best.runs:
        return ""
    config, place = settings(case.best, FAST), place_of(case.best)
    times, far = config.train.policy_lr_multiplier, travel_share(config)
    equal = differences.matched_gap(case.best, f"{FAST}{RATE_OF}bpe", place)
    guidance = equal or differences.gap(case.best, FAST, "bpe", place)
    told = (
        f" It predicts {headline.against({'bpe': guidance})}{', with equally many boundaries' if equal else ''}."
        if guidance
        else ""
    )
    return (
        f"At {size(case.best)}, a policy whose weights have {times:g} times the network's learning rate, so that they could move"
        f" {far:.0%} as far as in that run, has a boundary after {shares(case.best, FAST)} of white space.{told}"
    )


def _longer(case: Case) -> str:
    name = name_in(case.longer, SLOW) if case.longer else None
    if case.longer is None or name is None:
        return ""
    travel = travel_share(settings(case.longer, name))
    return (
        f"With one learning rate, but the paper's whole budget for that size, {megabytes(case.longer, name)}, they could move"
        f" {travel:.0%} as far; it has one after {shares(case.longer, name)}."
    )


def travel_table(case: Case) -> str:
    """Markdown: how far each policy could move, where its boundaries ended, and its loss beside two references."""
    rows = []
    for told, sweep, name in case.rows:
        letters = first_letters(sweep, name)
        about = f"{told}: {megabytes(sweep, name)}, {many(len(sweep.runs[name]), 'seed')}"
        rows.append([about, f"{travel_share(settings(sweep, name)):.0%}", shares(sweep, name), span(letters) if letters else NONE,
                     *(cell(minus(sweep, name, other)) for other in ("even", "bpe"))])  # fmt: skip
    paper = [f"147M, {NAMES[SLOW]}: 6 GB, the paper", f"{travel_share(preset(LARGE)):.0%}", NONE, NONE]
    rows.append([*paper, *(paper_cell(SLOW, other) for other in ("even", "bpe"))])
    return markdown(["policy", "travel", "white space", "first letters", "bits minus even", f"bits minus {HEADS['bpe']}"], rows)


def schedules(case: Case, ended: bool) -> str:
    """Lines: the small runs that differ in their schedule, last the large run; with `ended`, where their boundaries went."""
    if case.schedules is None or case.early is None:
        return "no run with another schedule is stored"
    usual, large = name_in(case.early, SLOW), name_in(case.large, SLOW)
    runs = [(usual, case.early, usual)] if usual else []
    runs += [(name, case.schedules, name) for name in case.schedules.runs]
    runs += [(f"the {size(case.large)} run", case.large, large)] if large else []
    head = f"run of {size(case.early)}"
    lines = [f"{head:15s}peak rate  reached after  of the run  rows/update" + ("  white space" if ended else "")]
    for told, sweep, name in runs:
        config = settings(sweep, name)
        rows, after, part = config.train.sequences_per_update, warm_bytes(config) / 1e6, config.train.warmup_fraction
        end = f"{shares(sweep, name):>13s}" if ended else ""
        lines.append(f"{told:15s}{config.train.learning_rate:9g}{after:12.3g} MB{part:12.1%}{rows:13d}{end}")
    return "\n".join(lines)


def warm_bytes(config: Config) -> float:
    """Bytes of text until the learning rate peaks."""
    return config.train.warmup_fraction * config.num_updates * config.bytes_per_update


def figure(case: Case) -> "Figure":
    """Share of white space with a boundary after it, by text read: a line for each seed of the policies of the table."""
    import matplotlib.pyplot as plt

    from rltok.show.plots import PALETTE

    drawing, axes = plt.subplots(figsize=(7.4, 3.8), layout="constrained")
    for number, (told, sweep, name) in enumerate(case.rows):
        label = told
        for run in sweep.runs[name].values():
            points = [(point["bytes"] / 1e6, point["whitespace_share"]) for point in run["held_out"] if point["step"]]
            style = "-" if sweep is case.large else "--"
            axes.plot(*zip(*points, strict=True), color=PALETTE[number % len(PALETTE)], linestyle=style, label=label)
            label = None
    axes.set(
        xscale="log", xlabel="training text read (MB)", ylabel="share of white space\nwith a boundary after it", ylim=(0, 1.02)
    )
    axes.xaxis.set_major_formatter("{x:g}")
    drawing.legend(*axes.get_legend_handles_labels(), loc="outside upper center", ncols=3, fontsize=8)
    return drawing
