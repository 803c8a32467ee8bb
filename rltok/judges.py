"""How a sweep is asked about a claim: each function takes it and who stands for the paper's method, and finds a verdict."""

from collections.abc import Callable, Sequence

from rltok.paper_numbers import TABLE_3
from rltok.records import Sweep, mean_and_error
from rltok.verdicts import NOTHING, UNDECIDED, Finding, alike, bounded, directed, together

MARGIN = 0.01  # bits per byte within which two methods count as alike: twice the error of a difference in the paper's Table 1
RATE_MARGIN = 0.01  # boundaries per byte
WHITE = 0.9  # share of white-space bytes with a boundary that counts as finding white space
STABLE_AT, STABLE = 0.1, 0.9  # after a tenth of training; agreement with the final boundaries
FALLEN = 0.5  # of the first entropy
TEXT_OURS = "ours"  # the method with the gamma that the text states
NOT_ASKED = Finding("-", "-")


def no_run(sweep: Sweep, ours: str) -> Finding:
    """For what no run of ours is about."""
    return NOTHING


def of_text(sweep: Sweep, ours: str, judge: Callable[[Sweep, str], Finding]) -> Finding:
    """A question whose runs all have the gamma of the text: it is not asked of the other one."""
    return judge(sweep, ours) if ours == TEXT_OURS else NOT_ASKED


def named(name: str, ours: str) -> str:
    """A contender's name, with `ours` replaced by whoever stands for it."""
    return ours if name == "ours" else name


def lower(sweep: Sweep, ours: str, first: str, second: str, place: str) -> Finding:
    """The first loses fewer bits per byte than the second."""
    found = sweep.gap(named(first, ours), named(second, ours), place)
    return NOTHING if found is None else Finding(f"{found[0]}, {found[1]} seeds", directed(found[0], -1, found[1]))


def lower_than_each(sweep: Sweep, ours: str, rivals: Sequence[str], place: str) -> Finding:
    """Ours loses fewer bits per byte than every rival: as good as the worst of the parts."""
    parts = [lower(sweep, ours, "ours", rival, place) for rival in rivals]
    told = "; ".join(f"{rival}: {part.ours}" for rival, part in zip(rivals, parts, strict=True) if part is not NOTHING)
    return Finding(told or "-", together([part.verdict for part in parts]))


def equal(sweep: Sweep, ours: str, first: str, second: str, place: str) -> Finding:
    """The two lose as many bits per byte, within MARGIN."""
    found = sweep.gap(named(first, ours), named(second, ours), place)
    return NOTHING if found is None else Finding(f"{found[0]}, {found[1]} seeds", alike(found[0], MARGIN, found[1]))


def _number(values: Sequence[float], shown: str, low: float | None = None, high: float | None = None) -> Finding:
    if not values:
        return NOTHING
    mean, error = mean_and_error(values)
    told = f"{mean:{shown}}" + ("" if error is None else f" ± {error:{shown}}") + f", {len(values)} seeds"
    return Finding(told, bounded(mean, error, len(values), low=low, high=high))


def rates_near_target(sweep: Sweep, ours: str) -> Finding:
    """Every contender of Table 3 draws as many boundaries as it was asked for, within RATE_MARGIN."""
    parts, told = [], []
    for name in TABLE_3:
        runs = sweep.runs.get(named(name, ours), {})
        if runs and name != "bpe":  # whose rate is its text's
            target = next(iter(runs.values()))["config"]["model"]["rule"]["target_rate"]
            found = _number(sweep.values(named(name, ours), "rate"), ".3f", target - RATE_MARGIN, target + RATE_MARGIN)
            parts.append(found.verdict)
            told.append(f"{name}: {found.ours}")
    return Finding("; ".join(told), together(parts)) if parts else NOTHING


def at_equal_flops(sweep: Sweep, ours: str, rival: str) -> Finding:
    """Held-out bits per byte minus the rival's at the largest FLOPs that both reached, over seeds."""
    pairs = [
        (run["held_out"], sweep.runs[rival][seed]["held_out"])
        for seed, run in sweep.runs.get(ours, {}).items() if seed in sweep.runs.get(rival, {})
    ]  # fmt: skip
    if not pairs:
        return NOTHING
    gaps = [curve_at(a, end) - curve_at(b, end) for a, b in pairs for end in (min(a[-1]["flops"], b[-1]["flops"]),)]
    found, error = mean_and_error(gaps)
    sign = directed_number(found, error, len(gaps))
    return Finding(f"{found:+.4f}" + ("" if error is None else f" ± {error:.4f}") + f", {len(gaps)} seeds", sign)


def directed_number(value: float, error: float | None, seeds: int) -> str:
    """Verdict on a number that the paper says is negative; without an error over seeds it stays undecided."""
    return bounded(value, error, seeds, high=0.0) if error is not None else UNDECIDED


def curve_at(curve: Sequence[dict], flops: float) -> float:
    """Bits per byte of a held-out curve at some FLOPs, straight lines between its points."""
    for before, after in zip(curve, curve[1:], strict=False):
        if before["flops"] <= flops <= after["flops"]:
            part = (flops - before["flops"]) / max(after["flops"] - before["flops"], 1.0)
            return before["bits_per_byte"] + part * (after["bits_per_byte"] - before["bits_per_byte"])
    return curve[-1]["bits_per_byte"]


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


def ablation(sweep: Sweep, ours: str, without: str, wanted: int) -> Finding:
    """A rung of the ladder removed, against the whole method."""
    found = sweep.gap(without, ours, "validation")
    return NOTHING if found is None else Finding(f"{found[0]}, {found[1]} seeds", directed(found[0], wanted, found[1]))
