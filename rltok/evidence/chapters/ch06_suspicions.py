"""What may have kept the policy of 147M from white space: each suspicion, what was looked at, and what came out.

Case --suspicions_table--> Markdown
"""

import statistics
from collections.abc import Callable

from rltok.config import from_dict
from rltok.evidence.chapters.ch04_travel import MOSTLY
from rltok.evidence.chapters.ch06_case import Case, size, warm_bytes
from rltok.evidence.chapters.ch06_onset import turn
from rltok.evidence.chapters.ch06_runs import interruptions
from rltok.evidence.chapters.ch07_results import name_in
from rltok.evidence.headline import FAST, LARGE, SLOW, place_of, settings
from rltok.evidence.record_file import Record
from rltok.evidence.words import ends, many_seeds
from rltok.show.tables import markdown

FEW = 2  # times the distance of plain PyTorch from float64 that the fast path may have
NO, OPEN = "no", "not ruled out"
PEAKS = {True: "a late peak", False: "an early one"}


def suspicions_table(case: Case) -> str:
    """Markdown: what may have kept the large policy from white space, what was looked at, and what came out.

    A suspicion about which too little is stored has no row.
    """
    rows = [[suspicion, *answer] for suspicion, ask in SUSPICIONS.items() if (answer := ask(case))]
    return markdown(["suspicion", "what was looked at", "what came out", "the reason?"], rows)


Answer = tuple[str, str, str] | None  # what was looked at, what came out, whether it is that


def blind(run: Record) -> float:
    """The share of white space that boundaries at random places would have: the target rate."""
    return from_dict(run["config"]).model.rule.target_rate


def _seed(case: Case) -> Answer:
    if case.start is None:
        return None
    start, run = case.start
    points = {point["step"]: point for point in run["held_out"]}
    last = [point for point in start["held_out"] if point["step"] in points][-1]
    each = [points[last["step"]]["whitespace_share"], last["whitespace_share"]]
    told = " and ".join(f"{value:.0%} with seed {one['seed']}" for value, one in zip(each, (run, start), strict=True))
    verdict = "unlikely: neither goes there" if max(each) < blind(run) else OPEN
    return "a second seed, stopped early", f"white space after {last['bytes'] / 1e6:.0f} MB: {told}", verdict


def _estimator(case: Case) -> Answer:
    if "hnet_port" not in case.large.runs:
        return None
    values = case.large.values("hnet_port", "whitespace_share", place_of(case.large))
    away = max(values) < MOSTLY
    verdict = f"not by itself: H-Net of {size(case.large)} avoids white space, too" if away else OPEN
    return "H-Net, which has no policy", f"white space: {ends(values, '.0%')}", verdict


def _interruption(case: Case) -> Answer:
    runs = case.large.runs.get(name_in(case.large, SLOW) or "", {}).values()
    cut = [(run, one["after"]) for run in runs for one in interruptions(run) or []]
    before = [point["whitespace_share"] for point in cut[0][0]["held_out"] if point["step"] <= cut[0][1]] if cut else []
    if not before:
        return None
    run, step = cut[0]
    told = f"was falling: {max(before):.0%} to {before[-1]:.0%}"
    return f"white space until the run was cut (update {step})", told, NO if before[-1] < blind(run) else OPEN


def _code(case: Case) -> Answer:
    at = (case.distances or {}).get(LARGE)
    if at is None:
        return None
    fast, plain = (at[path]["gradient"] for path in ("triton", "plain"))
    return (
        "relative error of our kernels' gradient, against float64",
        f"{fast:.1e}; of plain PyTorch {plain:.1e}",
        NO if fast <= FEW * plain else OPEN,
    )


def _moment(case: Case) -> Answer:
    mine, theirs = name_in(case.large, SLOW), name_in(case.early, SLOW) if case.early else None
    if mine is None or theirs is None or case.early is None:
        return None
    turned = turn(next(iter(case.large.runs[mine].values())))
    went = [at.lead for run in case.early.runs[theirs].values() if (at := turn(run)).passes]
    if not went or turned.passes:
        return None
    told = (
        f"{turned.lead:+.3f} nats per byte when the large policy left white space; {min(went):+.3f} to {max(went):+.3f}"
        " when small ones went there"
    )
    return "the early head's loss minus the model's", told, NO if turned.lead >= min(went) else OPEN


def _schedule(case: Case) -> Answer:
    name = name_in(case.large, SLOW)
    usual = name_in(case.early, SLOW) if case.early else None
    if case.schedules is None or name is None:
        return None
    runs = [(case.schedules, one) for one in case.schedules.runs] + ([(case.early, usual)] if case.early and usual else [])
    sides: dict[bool, list[float]] = {True: [], False: []}
    seeds: dict[bool, list[int]] = {True: [], False: []}
    for sweep, one in runs:
        late = warm_bytes(settings(sweep, one)) > warm_bytes(settings(case.large, name)) / 2
        values = sweep.values(one, "whitespace_share", place_of(sweep))
        sides[late].append(statistics.fmean(values))
        seeds[late].append(len(values))
    if not all(sides.values()):
        return None
    late, early = (f"{ends(sides[side], '.0%')} with {peak} ({many_seeds(seeds[side])} each)" for side, peak in PEAKS.items())
    what = f"{size(case.schedules)} with the schedule of {size(case.large)}, and with parts of it"
    return what, f"white space: {late}, {early}", "in part" if max(sides[True]) < min(sides[False]) else NO


def _distance(case: Case) -> Answer:
    if not {FAST, SLOW} <= case.best.runs.keys():
        return None
    slow, fast = (case.best.values(name, "whitespace_share", place_of(case.best)) for name in (SLOW, FAST))
    seeds = many_seeds(map(len, (slow, fast)))
    told = f"white space: {ends(slow, '.0%')} without it, {ends(fast, '.0%')} with it ({seeds} of `{case.best.name}`)"
    verdict = "yes, at 32M" if min(fast) >= MOSTLY > min(slow) else NO
    large = case.large.values(FAST, "whitespace_share", place_of(case.large))
    if large:
        told += f"; {ends(large, '.0%')} with it at {size(case.large)}"
        verdict = {(True, True): "yes", (True, False): "at 32M, not at 147M", (False, True): "at 147M, not at 32M"}.get(
            (verdict != NO, min(large) >= MOSTLY), NO)  # fmt: skip
    return "a higher learning rate of the policy's own, late peak", told, verdict


SUSPICIONS: dict[str, Callable[[Case], Answer]] = {
    "the seed": _seed,
    "the estimator": _estimator,
    "the interruption": _interruption,
    "the code": _code,
    "tokens that help too late": _moment,
    "a learning rate that peaks late": _schedule,
    "weights that move too little": _distance,
}
