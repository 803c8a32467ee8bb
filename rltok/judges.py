"""How a sweep is asked about a claim: each function takes it and who stands for the paper's method, and finds a verdict."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from rltok.records import Sweep, mean_and_error
from rltok.rule_views import Gap
from rltok.verdicts import NOTHING, Finding, alike, bounded, directed, no_worse, together

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


def seeds_told(count: int) -> str:
    """So many seeds in words: 1 seed, 3 seeds."""
    return f"{count} seed" + ("" if count == 1 else "s")


def _judged(found: tuple[Gap, int] | None, judge: Callable[[Gap, int], str]) -> Finding:
    """A difference in words, with what `judge` makes of it and its number of seeds; nothing where there is none."""
    return NOTHING if found is None else Finding(f"{found[0]}, {seeds_told(found[1])}", judge(*found))


def _all(parts: dict[str, Finding]) -> Finding:
    """A claim of several parts, each by its name: as good as its worst."""
    told = "; ".join(f"{name}: {part.ours}" for name, part in parts.items() if part != NOTHING)
    return Finding(told or NOTHING.ours, together([part.verdict for part in parts.values()]))


def _gap(sweep: Sweep, ours: str, first: str, second: str, place: str) -> tuple[Gap, int] | None:
    return sweep.gap(named(first, ours), named(second, ours), place)


def lower(sweep: Sweep, ours: str, first: str, second: str, place: str) -> Finding:
    """The first loses fewer bits per byte than the second."""
    return _judged(_gap(sweep, ours, first, second, place), lambda gap, seeds: directed(gap, -1, seeds))


def lower_than_each(sweep: Sweep, ours: str, first: str, rivals: Sequence[str], place: str) -> Finding:
    """The first loses fewer bits per byte than every rival."""
    return _all({rival: lower(sweep, ours, first, rival, place) for rival in rivals})


def as_good(sweep: Sweep, ours: str, first: str, second: str, place: str) -> Finding:
    """The first loses at most MARGIN more than the second; less is as good, too."""
    return _judged(_gap(sweep, ours, first, second, place), lambda gap, seeds: no_worse(gap, MARGIN, seeds))


def equal(sweep: Sweep, ours: str, first: str, second: str, place: str, margin: float) -> Finding:
    """The two do not differ by more than a margin, either way."""
    return _judged(_gap(sweep, ours, first, second, place), lambda gap, seeds: alike(gap, margin, seeds))


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

    def less(rival: str) -> Finding:
        mine, other = sweep.runs.get(ours, {}), sweep.runs.get(rival, {})
        rates = [[side[seed]["scores"]["validation"]["rate"] for seed in mine if seed in other] for side in (mine, other)]
        return _number([a - b for a, b in zip(*rates, strict=True)], "+.4f", high=0.0)

    return _all({rival: less(rival) for rival in rivals})


def at_equal_flops(sweep: Sweep, ours: str, rival: str, part: float = 1.0) -> Finding:
    """Held-out bits per byte minus the rival's, at this part of the largest FLOPs that both reached."""
    mine, other = sweep.runs.get(ours, {}), sweep.runs.get(rival, {})
    pairs = [(mine[seed]["held_out"], other[seed]["held_out"]) for seed in mine if seed in other]
    if not pairs:
        return NOTHING
    ends = [part * min(a[-1]["flops"], b[-1]["flops"]) for a, b in pairs]
    gaps = [curve_at(a, end) - curve_at(b, end) for (a, b), end in zip(pairs, ends, strict=True)]
    after = sweep.gap(ours, rival, "validation")  # curves are of fewer rows, not kept one by one: its documents' error stands in
    mean, error = mean_and_error(gaps)
    gap = Gap(mean, None if after is None else after[0].rows, error)
    return Finding(f"{gap}, {seeds_told(len(gaps))}", directed(gap, -1, len(gaps)))


def all_along(sweep: Sweep, ours: str, rivals: Sequence[str]) -> Finding:
    """`at_equal_flops` after each quarter of training."""
    quarters = (0.25, 0.5, 0.75, 1.0)
    return _all({f"{rival} at {part:g}": at_equal_flops(sweep, ours, rival, part) for rival in rivals for part in quarters})


def curve_at(curve: Sequence[dict], flops: float) -> float:
    """Bits per byte of a held-out curve at some FLOPs, straight lines between its points."""
    return float(np.interp(flops, [point["flops"] for point in curve], [point["bits_per_byte"] for point in curve]))


def white_space(sweep: Sweep, ours: str) -> Finding:
    """The policy draws a boundary after nearly every white-space byte of held-out text."""
    return _number(sweep.values(ours, "whitespace_share"), ".2f", low=WHITE)


def entropy_falls_early(sweep: Sweep, ours: str) -> Finding:
    """After a tenth of training the policy's entropy is less than half of what it was at first."""
    shares = []
    for run in sweep.runs.get(ours, {}).values():
        curve = [point for point in run["curve"] if point["policy_entropy"] is not None]
        early = [point for point in curve if point["step"] <= STABLE_AT * curve[-1]["step"]] or curve[:1]
        shares.append(early[-1]["policy_entropy"] / curve[0]["policy_entropy"])
    return _number(shares, ".2f", high=FALLEN)


def stable_after(sweep: Sweep, ours: str) -> Finding:
    """From a tenth of training on, boundaries of fixed texts agree with the final ones (F1)."""
    return _number([agreement_at(run, STABLE_AT) for run in sweep.runs.get(ours, {}).values()], ".2f", low=STABLE)


def agreement_at(run: dict, part: float) -> float:
    """F1 of the boundaries of the fixed texts after this part of training, against those at its end."""
    shots = run["snapshots"]
    last = shots[-1]
    then = next(shot for shot in shots if shot["step"] >= part * last["step"])
    pairs = [
        (a, b) for text in last if text != "step" for a, b in zip(*(s[text]["boundaries"] for s in (then, last)), strict=True)
    ]
    both = sum(pair == ("1", "1") for pair in pairs)
    either = sum(pair[0] == "1" for pair in pairs) + sum(pair[1] == "1" for pair in pairs)
    return 2 * both / either if either else 1.0


def returns_grow(sweep: Sweep, ours: str) -> Finding:
    """Mean returns are larger in the second quarter of a row than in the first; its last quarter sees the row's end coming."""
    gaps = []
    for run in sweep.runs.get(ours, {}).values():
        returns = [value for value in run["positions"]["returns"] if value is not None]
        quarter = max(1, len(returns) // 4)
        gaps.append(sum(returns[quarter : 2 * quarter]) / quarter - sum(returns[:quarter]) / quarter)
    return _number(gaps, ".3f", low=0.0)


def returns_positive(sweep: Sweep, ours: str) -> Finding:
    """The mean return over all positions is positive: the model is ahead of its early head."""
    runs = sweep.runs.get(ours, {}).values()
    each = [[value for value in run["positions"]["returns"] if value is not None] for run in runs]
    return _number([sum(values) / len(values) for values in each], ".3f", low=0.0)


def ablation(sweep: Sweep, ours: str, without: str, wanted: int) -> Finding:
    """A rung of the ladder removed, against the whole method."""
    return _judged(sweep.gap(without, ours, "validation"), lambda gap, seeds: directed(gap, wanted, seeds))
