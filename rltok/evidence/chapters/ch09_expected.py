"""Chapter 09: what was written down before the runs beside what came out, each expectation decided by the records alone.

three sweeps --expectations--> each: in words, where it was written, what came out, whether it held --table--> Markdown
"""

from collections.abc import Iterator
from dataclasses import dataclass

from rltok.evidence.chapters.ch09_ceiling import Point, best, points
from rltok.evidence.chapters.ch09_courses import PLACE, at_spaces, cell, later, moved
from rltok.evidence.chapters.ch09_optima import optima
from rltok.evidence.differences import gap
from rltok.evidence.headline import FAST
from rltok.evidence.records import Sweep
from rltok.show.tables import markdown

ONE, EARLY, LATE, DENSE = "policy_one_draw", "policy_early", "policy_late", "policy_dense"  # methods of the plans
APART = 0.015  # bits per byte within which the means of all places were expected
BOTH = ("tiny", "32m")


@dataclass(frozen=True)
class Expected:
    """An expectation of an entry of book/decisions.yml."""

    words: str
    written_for: tuple[str, ...]  # presets
    outcome: str
    held: bool


def of_ceiling(sweep: Sweep) -> Iterator[Expected]:
    """What rules at several rates were expected to give, of those whose runs are there."""
    every = {point.name: point for point in points(sweep)}
    if "even_every_1" in every:
        dense, lowest = every["even_every_1"], best(list(every.values()))
        dearest = max(every.values(), key=lambda point: point.flops)
        outcome = f"the dearest is `{dearest.name}`, the best `{lowest.name}`"
        held = dearest is dense and lowest is not dense
        yield Expected("A token for every byte costs the most and is not the best.", ("tiny",), outcome, held)
    if {"even_every_1", "even_every_2"} <= every.keys():
        step = gap(sweep, "even_every_1", "even_every_2", PLACE)
        good = best([point for point in every.values() if _about_a_fifth(point)]).gap
        outcome = f"{cell(step)} against {cell(good)}"
        words = "From one for every second byte to one for each, the loss moves by less than good boundaries move it at 1/5."
        yield Expected(words, ("32m",), outcome, abs(step.bits) < abs(good.bits))
    ends = [(f"{FAST}_every_{bytes_}", f"even_every_{bytes_}") for bytes_ in (3, 8)]
    if {name for pair in ends for name in pair} <= every.keys():
        often, seldom = (gap(sweep, *pair, PLACE) for pair in ends)
        outcome = f"policy minus even: {cell(seldom)} at 1/8, {cell(often)} at 1/3"
        yield Expected("Good boundaries are worth more at 1/8 than at 1/3.", ("32m",), outcome, seldom.bits < often.bits)


def _about_a_fifth(point: Point) -> bool:
    """Rates of methods that take theirs from the text: white space is at one in six, BPE at one in four."""
    return 1 / 6.5 < point.rate < 1 / 3.5


def of_draws(sweep: Sweep) -> Iterator[Expected]:
    """What less noise was expected to change."""
    changed = [name for name, verdict in moved(sweep, ONE).items() if verdict != "undecided"]
    gaps = {name: gap(sweep, name, ONE, PLACE) for name in sweep.runs if name != ONE}
    largest = max(gaps.values(), key=lambda one: abs(one.bits))
    outcome = f"beyond its interval in {len(changed)} of {len(gaps)}; the largest is {cell(largest)}"
    yield Expected("Less variance moves no mean loss by more than seeds do.", BOTH, outcome, not changed)
    times = {name: one for name in gaps if (one := later(sweep, name, ONE)) is not None}
    sooner = [name for name, one in times.items() if one.sign() < 0]
    outcome = f"sooner beyond its interval in {len(sooner)} of {len(times)}"
    yield Expected("If it shows anywhere, then in the bytes to a decided policy.", ("32m",), outcome, bool(sooner))


def of_optima(sweep: Sweep) -> Iterator[Expected]:
    """Where policies were expected to end, and what that was expected to cost."""
    early, late = (list(sweep.runs[name].values()) for name in (EARLY, LATE))
    there = [at_spaces(runs) for runs in (early, late)]
    half, fewer = there[0] > len(early) / 2, there[1] / len(late) < there[0] / len(early)
    yield Expected("Most seeds that move early end after spaces.", BOTH, f"{there[0]} of {len(early)}", half)
    yield Expected("Of those that start late fewer do.", BOTH, f"{there[1]} of {len(late)}", fewer)
    means = [one.apart for one in optima(sweep.records)]
    spread = max(means) - min(means)
    words = f"The mean losses of the places lie within {APART} bits per byte."
    yield Expected(words, ("32m",), f"within {spread:.3f}", spread <= APART)
    if DENSE in sweep.runs:
        ahead = gap(sweep, DENSE, EARLY, PLACE)
        flops = [run["flops"] / sweep.runs[EARLY][seed]["flops"] for seed, run in sweep.runs[DENSE].items()]
        more = sum(flops) / len(flops)
        words = "A rate that goes from dense to sparse costs more and is not ahead."
        outcome = f"{more:.2f} times the FLOPs, {cell(ahead)}"
        yield Expected(words, ("32m",), outcome, more > 1 and ahead.verdict != "lower")


def table(ceiling: Sweep, draws: Sweep, optima: Sweep) -> str:
    """Markdown: a row for each expectation."""
    every = [*of_ceiling(ceiling), *of_draws(draws), *of_optima(optima)]
    rows = [[one.words, " and ".join(f"`{size}`" for size in one.written_for), one.outcome, "yes" if one.held else "**no**"]
            for one in every]  # fmt: skip
    return markdown(["expected", "written for", "came out", "as expected?"], rows)
