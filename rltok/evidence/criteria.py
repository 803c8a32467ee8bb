"""How claims are judged: each function takes a sweep and the method that stands for the paper's policy, and returns a finding."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations
from statistics import fmean

import numpy as np

from rltok.evidence import differences, verdicts
from rltok.evidence.record_file import Record
from rltok.evidence.records import Sweep
from rltok.evidence.verdicts import LEAST_SEEDS, NO_PAIR, NO_RUN, Finding, Number, finding
from rltok.statistics import Difference, difference_of_seeds, mean_and_error

MARGIN = 0.01  # bits per byte within which two methods count as alike: twice the error of a difference in the paper's Table 1
RATE_MARGIN = 0.01  # boundaries per byte
WHITE = 0.9  # share of white-space bytes with a boundary that counts as finding white space
STABLE_AT, STABLE = 0.1, 0.9  # after a tenth of training; agreement with the final boundaries
FALLEN = 0.5  # of the first entropy
TEXT_POLICY = "ours"  # the policy with the gamma that the text states
NOT_RUN = finding(None, NO_RUN)
Criterion = Callable[[Sweep, str], Finding | None]  # None: the question is not asked of this policy


@dataclass(frozen=True)
class Claim:
    """One claim: a short name, what is claimed, where, the paper's numbers, a line for each, and how it is judged."""

    id: str
    text: str
    source: str
    paper: str
    criterion: Criterion
    headline: bool = False  # one of those that matter most, which summaries name


def no_run(sweep: Sweep, policy: str) -> Finding:
    """For a claim that none of our runs is about."""
    return NOT_RUN


def of_text(criterion: Callable[..., Finding], **about: object) -> Criterion:
    """A question whose runs all have the gamma of the text: it is not asked of the other policy."""
    return lambda sweep, policy: criterion(sweep, policy, **about) if policy == TEXT_POLICY else None


def _compared(
    sweep: Sweep, policy: str, first: str, second: str, place: str, criterion: Callable[[Difference], str]
) -> Finding:  # fmt: skip
    """Two methods at a place, judged by their difference; in their names TEXT_POLICY stands for the policy."""
    first, second = (policy if name == TEXT_POLICY else name for name in (first, second))
    difference = differences.gap(sweep, first, second, place)
    if difference is None:  # both may have run, with other seeds or without a score there
        return finding(None, NO_PAIR if first in sweep.runs and second in sweep.runs else NO_RUN)
    scored = sweep.bits_per_byte[place]
    seeds = set(scored[first].index) & set(scored[second].index)
    return finding(difference, criterion(difference), ((name, seed) for seed in seeds for name in (first, second)), place)


def _several(findings: dict[str, Finding]) -> Finding:
    """A claim of several parts, each by its name."""
    return Finding(tuple(replace(part, name=name) for name, one in findings.items() for part in one.parts))


def lower(sweep: Sweep, policy: str, first: str, second: str, place: str) -> Finding:
    """The first has fewer bits per byte than the second."""
    return _compared(sweep, policy, first, second, place, partial(verdicts.one_sided, wanted=-1))


def lower_than_each(sweep: Sweep, policy: str, first: str, rivals: Sequence[str], place: str) -> Finding:
    """The first has fewer bits per byte than every rival."""
    return _several({rival: lower(sweep, policy, first, rival, place) for rival in rivals})


def as_good(sweep: Sweep, policy: str, first: str, second: str, place: str) -> Finding:
    """The first has at most MARGIN more bits per byte than the second; fewer is as good, too."""
    return _compared(sweep, policy, first, second, place, partial(verdicts.non_inferior, margin=MARGIN))


def equal(sweep: Sweep, policy: str, first: str, second: str, place: str, margin: float) -> Finding:
    """The two do not differ by more than a margin, either way."""
    return _compared(sweep, policy, first, second, place, partial(verdicts.equivalent, margin=margin))


def ablation(sweep: Sweep, policy: str, without: str, wanted: int) -> Finding:
    """The method without one of its parts, against the whole method."""
    return _compared(sweep, policy, without, policy, "validation", partial(verdicts.one_sided, wanted=wanted))


def _number(sweep: Sweep, names: Sequence[str], values: Sequence[float], shown: str, **limits: float) -> Finding:
    """A number of each seed that these methods share, judged by its limits, low and high."""
    if not values:
        return NOT_RUN
    mean, error = mean_and_error(values)
    verdict = verdicts.bounded(mean, error, len(values), **limits)
    seeds = set.intersection(*(set(sweep.runs[name]) for name in names))
    return finding(Number(mean, error, len(values), shown), verdict, ((name, seed) for seed in seeds for name in names))


def rate_near_target(sweep: Sweep, policy: str) -> Finding:
    """The policy draws as many boundaries as its target rate says, within RATE_MARGIN."""
    runs = sweep.runs.get(policy, {})
    target = next(iter(runs.values()))["config"]["model"]["rule"]["target_rate"] if runs else 0.0
    limits = {"low": target - RATE_MARGIN, "high": target + RATE_MARGIN}
    return _number(sweep, [policy], sweep.values(policy, "rate"), ".3f", **limits)


def rate_below(sweep: Sweep, policy: str, rivals: Sequence[str]) -> Finding:
    """The policy draws fewer boundaries than the rivals, so that a lower loss is not bought by tokens."""

    def rate(run: Record) -> float:
        return run["scores"]["validation"]["rate"]

    def less(rival: str) -> Finding:
        pairs = _pairs(sweep, policy, rival)
        gaps = [fmean(map(rate, a)) - fmean(map(rate, b)) for a, b in pairs]
        return _number(sweep, [policy, rival], gaps, "+.4f", high=0.0)

    return _several({rival: less(rival) for rival in rivals})


def _pairs(sweep: Sweep, first: str, second: str) -> list[tuple[list[Record], list[Record]]]:
    """The runs of both methods with each seed that both have."""
    mine, other = sweep.runs.get(first, {}), sweep.runs.get(second, {})
    return [(sweep.of_seed(first, seed), sweep.of_seed(second, seed)) for seed in mine if seed in other]


def at_equal_flops(sweep: Sweep, policy: str, rival: str, part: float = 1.0) -> Finding:
    """Held-out bits per byte minus the rival's, at this part of the largest FLOPs that all runs of the seed reached."""
    by_seed = _at_flops(sweep, policy, rival, part)
    if not by_seed:
        return NOT_RUN
    scored = differences.gap(sweep, policy, rival, "validation")  # curves keep no units: the error of these scores stands in
    difference = replace(difference_of_seeds(by_seed), error_units=None if scored is None else scored.error_units)
    if difference.seeds < LEAST_SEEDS:
        donor = differences.source(sweep, "validation")  # of which curves are
        pairs = combinations(differences.repeated(donor), 2)
        difference = differences.borrow(difference, {pair: _at_flops(donor, *pair, part) for pair in pairs})
    seeds = set(sweep.runs[policy]) & set(sweep.runs[rival])
    runs = ((name, seed) for seed in seeds for name in (policy, rival))
    return finding(difference, verdicts.one_sided(difference, -1), runs)


def _at_flops(sweep: Sweep, first: str, second: str, part: float) -> list[float]:
    """A difference for each seed that both have, the mean over its runs."""
    pairs = _pairs(sweep, first, second)
    ends = [part * min(run["held_out"][-1]["flops"] for side in pair for run in side) for pair in pairs]
    at = [[fmean(curve_at(run["held_out"], end) for run in side) for side in pair] for pair, end in zip(pairs, ends, strict=True)]
    return [a - b for a, b in at]


def all_along(sweep: Sweep, policy: str, rivals: Sequence[str]) -> Finding:
    """`at_equal_flops` after each quarter of training."""
    quarters = (0.25, 0.5, 0.75, 1.0)
    return _several({f"{rival} at {part:g}": at_equal_flops(sweep, policy, rival, part) for rival in rivals for part in quarters})


def curve_at(curve: Sequence[dict], at: float, over: str = "flops") -> float:
    """Bits per byte of a held-out curve at some FLOPs (or bytes), straight lines between its points."""
    return float(np.interp(at, [point[over] for point in curve], [point["bits_per_byte"] for point in curve]))


def white_space(sweep: Sweep, policy: str) -> Finding:
    """The policy draws a boundary after nearly every white-space byte of held-out text."""
    return _number(sweep, [policy], sweep.values(policy, "whitespace_share"), ".2f", low=WHITE)


def entropy_falls_early(sweep: Sweep, policy: str) -> Finding:
    """After a tenth of training the policy's entropy is less than half of what it was at first."""

    def share(run: Record) -> float:
        curve = [point for point in run["curve"] if point["policy_entropy"] is not None]
        early = [point for point in curve if point["step"] <= STABLE_AT * curve[-1]["step"]] or curve[:1]
        return early[-1]["policy_entropy"] / curve[0]["policy_entropy"]

    return _early(sweep, policy, _number(sweep, [policy], sweep.each(policy, share), ".2f", high=FALLEN))


def stable_after(sweep: Sweep, policy: str) -> Finding:
    """From a tenth of training on, boundaries of fixed texts agree with the final ones (F1)."""
    agreements = sweep.each(policy, lambda run: agreement_at(run, STABLE_AT))
    return _early(sweep, policy, _number(sweep, [policy], agreements, ".2f", low=STABLE))


def _early(sweep: Sweep, policy: str, whole: Finding) -> Finding:
    """The finding, with the amount of text that a tenth of training is: a share of a short run is little text."""
    if whole == NOT_RUN:
        return whole
    read = STABLE_AT * fmean(run["bytes"] for run in sweep.runs[policy].values())
    return Finding(tuple(replace(part, measured=replace(part.measured, after_bytes=read)) for part in whole.parts))


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


def returns_grow(sweep: Sweep, policy: str) -> Finding:
    """Mean returns are larger in the second quarter of a row than in the first; its last quarter sees the row's end coming."""

    def growth(run: Record) -> float:
        returns = [value for value in run["positions"]["returns"] if value is not None]
        quarter = max(1, len(returns) // 4)
        return fmean(returns[quarter : 2 * quarter]) - fmean(returns[:quarter])

    return _number(sweep, [policy], sweep.each(policy, growth), ".3f", low=0.0)


def returns_positive(sweep: Sweep, policy: str) -> Finding:
    """The mean return over all positions is positive: the model is ahead of its early head."""

    def mean(run: Record) -> float:
        return fmean(value for value in run["positions"]["returns"] if value is not None)

    return _number(sweep, [policy], sweep.each(policy, mean), ".3f", low=0.0)
