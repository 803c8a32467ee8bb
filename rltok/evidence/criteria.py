"""How a sweep is asked about a claim: each function takes it and who stands for the paper's method, and finds a verdict."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean

import numpy as np

from rltok.evidence import donors
from rltok.evidence.record_file import Record
from rltok.evidence.records import Sweep
from rltok.evidence.verdicts import (
    LEAST_SEEDS,
    NO_PAIR,
    NOTHING,
    Finding,
    alike,
    bounded,
    directed,
    in_sigmas,
    no_worse,
    together,
)
from rltok.statistics import Gap, mean_and_error

MARGIN = 0.01  # bits per byte within which two methods count as alike: twice the error of a difference in the paper's Table 1
RATE_MARGIN = 0.01  # boundaries per byte
WHITE = 0.9  # share of white-space bytes with a boundary that counts as finding white space
STABLE_AT, STABLE = 0.1, 0.9  # after a tenth of training; agreement with the final boundaries
FALLEN = 0.5  # of the first entropy
TEXT_OURS = "ours"  # the method with the gamma that the text states
NOT_ASKED = Finding("-", "-")
Judge = Callable[[Sweep, str], Finding]


@dataclass(frozen=True)
class Claim:
    """One claim: a short name, what is claimed, where, the paper's number, and how it is judged."""

    id: str
    text: str
    source: str
    paper: str
    judge: Judge
    headline: bool = False  # also in the README


def no_run(sweep: Sweep, ours: str) -> Finding:
    """For what no run of ours is about."""
    return NOTHING


def of_text(judge: Callable[..., Finding], **about: object) -> Judge:
    """A question whose runs all have the gamma of the text: it is not asked of the other one."""
    return lambda sweep, ours: judge(sweep, ours, **about) if ours == TEXT_OURS else NOT_ASKED


def named(name: str, ours: str) -> str:
    """A contender's name, with `ours` replaced by whoever stands for it."""
    return ours if name == "ours" else name


def many(count: int, what: str) -> str:
    """So many of something in words: 1 run, 3 runs."""
    return f"{count} {what}" + ("" if count == 1 else "s")


def seeds_told(count: int) -> str:
    """So many seeds in words: 1 seed, 3 seeds."""
    return many(count, "seed")


def _judged(sweep: Sweep, first: str, second: str, place: str, judge: Callable[[Gap, int], str]) -> Finding:
    """A difference in words, with what `judge` makes of it and its number of seeds; nothing where there is none."""
    found = donors.gap(sweep, first, second, place)
    if found is None:  # both may have run, with other seeds or without a score there
        return Finding(NOTHING.ours, NO_PAIR) if first in sweep.runs and second in sweep.runs else NOTHING
    return Finding(f"{in_sigmas(found[0])}, {seeds_told(found[1])}", judge(*found))


def _all(parts: dict[str, Finding]) -> Finding:
    """A claim of several parts, each by its name: as good as its worst."""
    told = "; ".join(f"{name}: {part.ours}: {part.verdict}" for name, part in parts.items() if part.ours != NOTHING.ours)
    return Finding(told or NOTHING.ours, together([part.verdict for part in parts.values()]))


def lower(sweep: Sweep, ours: str, first: str, second: str, place: str) -> Finding:
    """The first loses fewer bits per byte than the second."""
    return _judged(sweep, named(first, ours), named(second, ours), place, lambda gap, seeds: directed(gap, -1, seeds))


def lower_than_each(sweep: Sweep, ours: str, first: str, rivals: Sequence[str], place: str) -> Finding:
    """The first loses fewer bits per byte than every rival."""
    return _all({rival: lower(sweep, ours, first, rival, place) for rival in rivals})


def as_good(sweep: Sweep, ours: str, first: str, second: str, place: str) -> Finding:
    """The first loses at most MARGIN more than the second; less is as good, too."""
    return _judged(sweep, named(first, ours), named(second, ours), place, lambda gap, seeds: no_worse(gap, MARGIN, seeds))


def equal(sweep: Sweep, ours: str, first: str, second: str, place: str, margin: float) -> Finding:
    """The two do not differ by more than a margin, either way."""
    return _judged(sweep, named(first, ours), named(second, ours), place, lambda gap, seeds: alike(gap, margin, seeds))


def _number(values: Sequence[float], shown: str, low: float | None = None, high: float | None = None) -> Finding:
    if not values:
        return NOTHING
    mean, error = mean_and_error(values)
    told = f"{mean:{shown}}" + ("" if error is None else f" ± {error:{shown.removeprefix('+')}}") + f", {seeds_told(len(values))}"
    return Finding(told, bounded(mean, error, len(values), low=low, high=high))


def rate_near_target(sweep: Sweep, ours: str) -> Finding:
    """Our method draws as many boundaries as it was asked for, within RATE_MARGIN."""
    runs = sweep.runs.get(ours, {})
    target = next(iter(runs.values()))["config"]["model"]["rule"]["target_rate"] if runs else 0.0
    return _number(sweep.values(ours, "rate"), ".3f", target - RATE_MARGIN, target + RATE_MARGIN)


def rate_below(sweep: Sweep, ours: str, rivals: Sequence[str]) -> Finding:
    """Our method draws fewer boundaries than the rivals, so that a lower loss of ours is not bought by tokens."""

    def rate(run: Record) -> float:
        return run["scores"]["validation"]["rate"]

    def less(rival: str) -> Finding:
        pairs = _pairs(sweep, ours, rival)
        return _number([fmean(map(rate, a)) - fmean(map(rate, b)) for a, b in pairs], "+.4f", high=0.0)

    return _all({rival: less(rival) for rival in rivals})


def _pairs(sweep: Sweep, first: str, second: str) -> list[tuple[list[Record], list[Record]]]:
    """The runs of both contenders with each seed that both have."""
    mine, other = sweep.runs.get(first, {}), sweep.runs.get(second, {})
    return [(sweep.of_seed(first, seed), sweep.of_seed(second, seed)) for seed in mine if seed in other]


def at_equal_flops(sweep: Sweep, ours: str, rival: str, part: float = 1.0) -> Finding:
    """Held-out bits per byte minus the rival's, at this part of the largest FLOPs that all runs of the seed reached."""
    gaps = _flops_gaps(sweep, ours, rival, part)
    if not gaps:
        return NOTHING
    after = sweep.gap(ours, rival, "validation")  # curves are of fewer rows, not kept one by one: its documents' error stands in
    mean, error = mean_and_error(gaps)
    found = Gap(mean, None if after is None else after[0].rows, error)
    if len(gaps) < LEAST_SEEDS:
        lender = donors.source(sweep, "validation")  # of which curves are
        others = (_flops_gaps(lender, *pair, part) for pair in combinations(donors.full(lender), 2))
        found = donors.lend(found, len(gaps), donors.pooled(others))
    return Finding(f"{in_sigmas(found)}, {seeds_told(len(gaps))}", directed(found, -1, len(gaps)))


def _flops_gaps(sweep: Sweep, first: str, second: str, part: float) -> list[float]:
    """A difference for each seed that both have, the mean over its runs."""
    pairs = _pairs(sweep, first, second)
    ends = [part * min(run["held_out"][-1]["flops"] for side in pair for run in side) for pair in pairs]
    at = [[fmean(curve_at(run["held_out"], end) for run in side) for side in pair] for pair, end in zip(pairs, ends, strict=True)]
    return [a - b for a, b in at]


def all_along(sweep: Sweep, ours: str, rivals: Sequence[str]) -> Finding:
    """`at_equal_flops` after each quarter of training."""
    quarters = (0.25, 0.5, 0.75, 1.0)
    return _all({f"{rival} at {part:g}": at_equal_flops(sweep, ours, rival, part) for rival in rivals for part in quarters})


def curve_at(curve: Sequence[dict], at: float, over: str = "flops") -> float:
    """Bits per byte of a held-out curve at some FLOPs (or bytes), straight lines between its points."""
    return float(np.interp(at, [point[over] for point in curve], [point["bits_per_byte"] for point in curve]))


def white_space(sweep: Sweep, ours: str) -> Finding:
    """The policy draws a boundary after nearly every white-space byte of held-out text."""
    return _number(sweep.values(ours, "whitespace_share"), ".2f", low=WHITE)


def entropy_falls_early(sweep: Sweep, ours: str) -> Finding:
    """After a tenth of training the policy's entropy is less than half of what it was at first."""

    def share(run: Record) -> float:
        curve = [point for point in run["curve"] if point["policy_entropy"] is not None]
        early = [point for point in curve if point["step"] <= STABLE_AT * curve[-1]["step"]] or curve[:1]
        return early[-1]["policy_entropy"] / curve[0]["policy_entropy"]

    return _early(sweep, ours, _number(sweep.each(ours, share), ".2f", high=FALLEN))


def stable_after(sweep: Sweep, ours: str) -> Finding:
    """From a tenth of training on, boundaries of fixed texts agree with the final ones (F1)."""
    return _early(sweep, ours, _number(sweep.each(ours, lambda run: agreement_at(run, STABLE_AT)), ".2f", low=STABLE))


def _early(sweep: Sweep, ours: str, found: Finding) -> Finding:
    """The finding, with the amount of text that a tenth of training is: a share of a short run is little text."""
    if found == NOTHING:
        return found
    size = fmean(run["bytes"] for run in sweep.runs[ours].values())
    return Finding(f"{found.ours}, after {STABLE_AT * size / 1e6:.3g} MB", found.verdict)


def agreement_at(run: dict, part: float) -> float:
    """F1 of the boundaries of the fixed texts after this part of training, against those at its end."""
    shots = run["snapshots"]
    last = shots[-1]
    then = min(shots, key=lambda shot: abs(shot["step"] - part * last["step"]))  # steps are spaced by a logarithm
    return agreement(*("".join(shot[text]["boundaries"] for text in last if text != "step") for shot in (then, last)))


def agreement(first: str, second: str) -> float:
    """F1 of two strings of boundaries, "0010", of one text; 1 where neither has any."""
    both = sum(pair == ("1", "1") for pair in zip(first, second, strict=True))
    either = first.count("1") + second.count("1")
    return 2 * both / either if either else 1.0


def returns_grow(sweep: Sweep, ours: str) -> Finding:
    """Mean returns are larger in the second quarter of a row than in the first; its last quarter sees the row's end coming."""

    def growth(run: Record) -> float:
        returns = [value for value in run["positions"]["returns"] if value is not None]
        quarter = max(1, len(returns) // 4)
        return fmean(returns[quarter : 2 * quarter]) - fmean(returns[:quarter])

    return _number(sweep.each(ours, growth), ".3f", low=0.0)


def returns_positive(sweep: Sweep, ours: str) -> Finding:
    """The mean return over all positions is positive: the model is ahead of its early head."""

    def mean(run: Record) -> float:
        return fmean(value for value in run["positions"]["returns"] if value is not None)

    return _number(sweep.each(ours, mean), ".3f", low=0.0)


def ablation(sweep: Sweep, ours: str, without: str, wanted: int) -> Finding:
    """A rung of the ladder removed, against the whole method."""
    return _judged(sweep, without, ours, "validation", lambda gap, seeds: directed(gap, wanted, seeds))
