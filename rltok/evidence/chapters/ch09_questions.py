"""Chapter 09: its questions, the largest model whose stored runs answer each, and what was expected of them.

results --largest--> Sweep     results --questions_table--> each question, the size that answers it, what has not run
sweeps --expectations--> each: in words, what came out, whether it held --expected_table--> Markdown
"""

import statistics
from collections.abc import Iterable, Iterator
from math import comb
from pathlib import Path
from typing import NamedTuple

from rltok.errors import RltokError
from rltok.evidence.chapters.ch09_ceiling import KINDS, best, points
from rltok.evidence.chapters.ch09_courses import FIRST, PLACE, cell, ended, moved
from rltok.evidence.chapters.ch09_rates import rate_curve
from rltok.evidence.differences import gap
from rltok.evidence.records import SCHEDULE, Sweep, read_sweeps
from rltok.evidence.words import NONE, many_seeds
from rltok.presets import size_of
from rltok.show.tables import markdown
from rltok.statistics import SURE

SIZES = ("32m", "tiny")  # that have plans for these questions, the largest model first
QUESTIONS = {
    "ceiling": ("beyond", "What can boundaries give?"),
    "draws": ("causes", "Does less noise lower the loss?"),
    "optima": ("causes", "Where do boundaries end up?"),
    "rates": ("beyond", "Can one model serve many rates?"),
}  # the folder of its runs, and its words


def _plans(results: Path, question: str) -> dict[str, bool]:
    """The plans about a question, that of the largest model first, and whether runs of each are stored."""
    names = [f"{size}_{question}" for size in SIZES]
    return {name: (results / QUESTIONS[question][0] / name).is_dir() for name in names}


def largest(results: Path, question: str) -> Sweep:
    """The sweep about a question with the largest model that has finished runs.

    Raises:
        RltokError: no run is stored, or one is damaged.
    """
    folder, words = QUESTIONS[question]
    for plan, stored in _plans(results, question).items():
        if stored:
            return read_sweeps(results / folder, varied=SCHEDULE, only=plan)[plan]
    raise RltokError(
        f"{results / folder} holds no run about the question: {words} Take the folder of the repository, or make them:"
        f" scripts/measure/run_sweep.py scripts/measure/sweeps/{SIZES[-1]}_{question}.toml."
    )


def questions_table(results: Path, sweeps: Iterable[Sweep]) -> str:
    """Markdown: each question with the size and the number of runs that answer it, and the plans without a stored run.

    sweeps: of each question, from `largest`, in their order.
    """
    rows = []
    for (question, (_, words)), sweep in zip(QUESTIONS.items(), sweeps, strict=True):
        first, seeds = sweep.records[0], many_seeds(len(own) for own in sweep.runs.values())
        missing = [f"`{plan}`" for plan, stored in _plans(results, question).items() if not stored]
        rows.append(
            [
                words,
                f"`{size_of(first['config']['name'])}`",
                f"{len(sweep.records)}: {seeds} each, {first['bytes'] / 1e6:.2g} MB",
                ", ".join(missing) or NONE,
            ]
        )
    return markdown(["question", "network", "runs", "planned, not run yet"], rows)


class Expected(NamedTuple):
    """An expectation for the preset tiny from an entry of book/decisions.yml."""

    words: str
    outcome: str
    held: str  # "yes", "no", or "undecided" where what came out may be luck


def expectations(ceiling: Sweep, draws: Sweep, optima: Sweep, rates: Sweep) -> list[Expected]:
    """Every expectation, decided by the records alone."""
    return [_of_every_byte(ceiling), _of_variance(draws), *_of_places(optima), _of_many_rates(rates)]


def _of_every_byte(sweep: Sweep) -> Expected:
    dense, lowest = "even_every_1", best(points(sweep))
    apart = gap(sweep, lowest.name, dense, PLACE)
    dearest = max(points(sweep), key=lambda point: point.flops).name == dense
    held = "no" if lowest.name == dense or not dearest else "yes" if apart.verdict == "lower" else "undecided"
    price = "costs the most" if dearest else "does not cost the most"
    outcome = f"it {price}; {KINDS[lowest.kind]}, the lowest, minus it: {cell(apart)}"
    return Expected("A token for every byte costs the most and is not the best.", outcome, held)


def _of_variance(sweep: Sweep) -> Expected:
    one = "policy_one_draw"
    beyond = [name for name, verdict in moved(sweep, one).items() if verdict != "undecided"]
    gaps = [gap(sweep, name, one, PLACE) for name in sweep.runs if name != one]
    furthest = max(gaps, key=lambda found: abs(found.bits))
    spread = statistics.stdev(sweep.bits_per_byte[PLACE][one].dropna())
    counted = f"beyond their intervals in {len(beyond)} of {len(gaps)} ways"
    outcome = f"at most by {cell(furthest)}, {counted}; seeds deviate by {spread:.3f}"
    held = "yes" if abs(furthest.bits) <= spread else "no"
    return Expected("Less variance moves no mean loss by more than seeds differ.", outcome, held)


def _of_places(sweep: Sweep) -> Iterator[Expected]:
    early, late = (list(sweep.runs[name].values()) for name in ("policy_early", "policy_late"))
    first, second = (sum(ended(run) == FIRST for run in runs) for runs in (early, late))
    most, fewer = first > len(early) / 2, second / len(late) < first / len(early)
    words = "Most policies that move from the start end after spaces."
    yield Expected(words, f"{first} of {len(early)}", "yes" if most else "no")
    luck = so_few_by_luck(second, len(late), first, len(early)) > 1 - SURE
    held = "no" if not fewer else "undecided" if luck else "yes"
    yield Expected("Fewer do of those that start late.", f"{second} of {len(late)}", held)


def so_few_by_luck(few: int, runs: int, others: int, other_runs: int) -> float:
    """Probability that `few` or less fall to these runs where all that counted are spread at random over all runs (Fisher)."""
    counted, everything = few + others, runs + other_runs
    ways = sum(comb(counted, some) * comb(everything - counted, runs - some) for some in range(few + 1))
    return ways / comb(everything, runs)


def _of_many_rates(sweep: Sweep) -> Expected:
    apart = {f"1/{1 / at.target:.0f}": at.difference for at in rate_curve(sweep) if at.difference}
    beyond = [f"{cell(found)} at {rate}" for rate, found in apart.items() if found.sign()]
    outcome = "; ".join(beyond) or f"within the intervals at {len(apart)} rates"
    return Expected("One model for many rates predicts as well as one for each.", outcome, "no" if beyond else "yes")


def expected_table(ceiling: Sweep, draws: Sweep, optima: Sweep, rates: Sweep) -> str:
    """Markdown: a row for each expectation."""
    every = expectations(ceiling, draws, optima, rates)
    return markdown(["expected", "came out", "held?"], [[one.words, one.outcome, f"**{one.held}**"] for one in every])
