"""Whether the paper was reproduced, in a few sentences, a table and a picture: what README and pages open with.

stored records --verdict--> Markdown      --figure--> share of white space with a boundary, over the text read

Every word that a record could overturn follows from the record: which method is better, whether one counts as better at all.
"""

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rltok.config import Config, from_dict
from rltok.errors import RltokError
from rltok.evidence.differences import gap, matched_gap
from rltok.evidence.records import RATE_OF, Sweep, read_sweeps
from rltok.evidence.verdicts import LEAST_SEEDS
from rltok.evidence.words import many, number, on_one_line
from rltok.presets import travel_share
from rltok.show.tables import markdown
from rltok.statistics import Difference

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BEST, LARGE = "32m_best", "147m"  # each method under its best schedule; the paper's size, under one schedule for all
FAST, SLOW = "policy_x20", "policy"  # with a learning rate of its own, and as in the paper
NAMES = {
    FAST: "policy with a learning rate of its own",
    SLOW: "policy as in the paper",
    "bpe": "BPE guidance (looks ahead)",
    "bpe_causal": "BPE without its look ahead",
    "hnet_port": "H-Net, as the paper's authors ran it",
    "whitespace": "white-space rule",
    "even": "evenly spaced",
}
SHORT = NAMES | {"bpe": "BPE guidance", "hnet_port": "H-Net", "whitespace": "the white-space rule", "even": "even spacing"}
ROWS = (FAST, SLOW, "bpe_causal", "hnet_port", "whitespace")  # of the table, each beside even spacing
LINES = (FAST, SLOW, "hnet_port", "even")  # of the picture
LARGE_POLICY = "ours_gamma0.9"  # as in the paper but for its discount, at 147M parameters
SETTLED = 0.95  # share of white space from which we say that boundaries stand at white space
APART = 0.1  # shares of white space by which seeds of one method differ so much that their mean says nothing


def best_sweep(results: Path) -> Sweep:
    """The runs of each method under its best schedule. Raises `RltokError` for records that are missing, damaged or unlike."""
    found = read_sweeps(results / "best", varied=("learning_rate", "warmup_fraction"), only=BEST)
    if BEST not in found:
        raise RltokError(
            f"{results / 'best'} holds no finished run of {BEST}. Take the folder of the repository, or make the records:"
            f" scripts/measure/run_sweep.py scripts/measure/sweeps/{BEST}.toml."
        )
    return found[BEST]


def large_sweep(results: Path) -> Sweep:
    """The runs of 147M parameters."""
    return read_sweeps(results / "sweeps", only=LARGE)[LARGE]


def place_of(sweep: Sweep) -> str:
    """The split that the verdict is about: test where every run was scored on it, else validation."""
    return "test" if all(run["scores"]["test"] is not None for run in sweep.records) else "validation"


def _amount(difference: Difference) -> str:
    """Less is better; with half the width of its 95 % interval."""
    return on_one_line(number(difference.bits, difference.reach(), "+.3f"))


def _gaps(sweep: Sweep, name: str, others: Sequence[str]) -> dict[str, Difference]:
    """Differences from others, those that have a run."""
    each = {other: gap(sweep, name, other, place_of(sweep)) for other in others}
    return {other: difference for other, difference in each.items() if difference is not None}


def against(gaps: Mapping[str, Difference]) -> str:
    """In words: which of the others a method predicts better than, which worse, and from which it cannot be told apart."""
    heads = {"lower": "better than", "undecided": "not clearly better or worse than", "higher": "worse than"}
    sides = {side: [f"{SHORT[other]} ({_amount(gap)})" for other, gap in gaps.items() if gap.verdict == side] for side in heads}
    return ", and ".join(f"{heads[side]} {' and '.join(named)}" for side, named in sides.items() if named)


def share(sweep: Sweep, name: str) -> float:
    """Share of white space with a boundary after it, mean over seeds."""
    return statistics.fmean(sweep.values(name, "whitespace_share", place_of(sweep)))


def shares(sweep: Sweep, name: str, remark: str = " (by seed)") -> str:
    """The share of white space with a boundary after it in words: where seeds part, their lowest and highest, and the remark."""
    return span(sweep.values(name, "whitespace_share", place_of(sweep)), remark)


def span(values: Sequence[float], remark: str = "") -> str:
    """Shares of several seeds in words: their mean; where they part, the lowest and the highest, and the remark."""
    low, high = min(values), max(values)
    return f"{low:.0%} to {high:.0%}{remark}" if high - low > APART else f"{statistics.fmean(values):.0%}"


def settled_after(sweep: Sweep, name: str) -> float | None:
    """Bytes of training text after which every seed stays at white space (`SETTLED`); None where one does not."""
    steps = []
    for run in sweep.runs[name].values():
        late = [point["bytes"] for point in run["held_out"] if (point["whitespace_share"] or 0) < SETTLED]
        after = [point["bytes"] for point in run["held_out"] if point["bytes"] > max(late, default=-1)]
        if not after:
            return None
        steps.append(after[0])
    return max(steps)


def sentences(best: Sweep, large: Sweep) -> list[str]:
    """Whether the paper was reproduced, beside what, what works, what surprised us, what failed, and how sure all that is."""
    return [answer(best, large), rivals(best), _works(best), _surprise(best), _failed(large), _how_sure(best)]


def answer(best: Sweep, large: Sweep) -> str:
    """Yes, no or in part, with the claims of the paper that our runs show and those that they do not."""
    gaps = _gaps(best, FAST, ("even", "hnet_port"))
    times, spaces = settings(best, FAST).train.policy_lr_multiplier, at_spaces(best, FAST)
    shown = {
        f"that the policy learns to end tokens at spaces, given {times:g} times the network's learning rate": spaces,
        "that it then predicts text better than even spacing": gaps["even"].verdict == "lower",
        "that it predicts better than H-Net": gaps["hnet_port"].verdict == "lower",
        "that the paper's single learning rate is enough": SLOW in best.runs and at_spaces(best, SLOW),
        "that the paper's policy learns spaces at the paper's size": at_spaces(large, LARGE_POLICY),
    }
    sides = {side: [claim for claim, holds in shown.items() if holds == side] for side in (True, False)}
    said = "No" if not sides[True] else "In part" if sides[False] else "Yes"
    heads = {True: "Shown", False: "Not shown"}
    lists = (f"{heads[side]}: {'; '.join(claims)}." for side, claims in sides.items() if claims)
    return f"**Was the paper reproduced? {said}.** {' '.join(lists)}"


def rivals(best: Sweep) -> str:
    """What the policy is held against, and why the white-space rule leaves some white space out."""
    return (
        "**Compared with:** *even spacing*; *H-Net*, which learns by straight-through gradients; *BPE guidance*, boundaries where"
        " a BPE tokenizer starts tokens, which later bytes decide; the same *without its look ahead*; the *white-space rule*,"
        f" after the first of adjacent spaces and punctuation marks (not the space after a comma: {shares(best, 'whitespace')})."
    )


def at_spaces(sweep: Sweep, name: str) -> bool:
    """Whether every run of a method ends with a boundary after nearly all white space (`SETTLED`)."""
    return min(sweep.values(name, "whitespace_share", place_of(sweep))) >= SETTLED


def _works(best: Sweep) -> str:
    config = settings(best, FAST)
    after = settled_after(best, FAST)
    since = "" if after is None else f" (at least {SETTLED:.0%} in every seed once it has read {after / 1e6:.0f} MB)"
    return (
        f"**What works:** a policy with {config.train.policy_lr_multiplier:g} times the network's learning rate"
        f" ends tokens after {share(best, FAST):.0%} of white space{since}. It predicts held-out text, in bits per byte,"
        f" {against(_gaps(best, FAST, ('even', 'hnet_port', 'whitespace')))}. {_guidance(best)}"
    )


def _surprise(best: Sweep) -> str:
    if SLOW not in best.runs:
        return ""
    travel = travel_share(settings(best, SLOW))
    return (
        f"**What surprised us:** with the paper's single learning rate, the policy's weights can move only"
        f" {travel:.0%} as far as in the paper's longer run. It ends with a boundary after {shares(best, SLOW)} of white space,"
        f" and predicts {against(_gaps(best, SLOW, ('even',)))}. A short run tests a policy only if it can move."
    )


def _guidance(best: Sweep) -> str:
    """At as many boundaries as the tokenizer where such runs have their seeds, else each at its own rate."""
    tokenizers = ("bpe", "bpe_causal")
    equal = {rival: matched_gap(best, f"{FAST}{RATE_OF}{rival}", place_of(best)) for rival in tokenizers}
    if all(difference and difference.seeds >= LEAST_SEEDS for difference in equal.values()):
        return f"Run with as many boundaries as the tokenizer, it predicts {against(equal)}."
    return f"It predicts {against(_gaps(best, FAST, tokenizers))}, each at a rate of its own."


def _failed(large: Sweep) -> str:
    name, guide = LARGE_POLICY, "bpe"
    budget = statistics.fmean(run["bytes"] for run in large.runs[name].values())
    difference = gap(large, name, guide, place_of(large))
    side = "" if difference is None else f", {abs(difference.bits):.3f} bits per byte {_side(difference)} {SHORT[guide]}"
    fast = "" if FAST in large.runs else "; one with a learning rate of its own is yet to run"
    return (
        f"**What failed:** at 147M parameters, on {budget / 1e9:.2g} GB, the policy as in the paper"
        f" ({many(len(large.runs[name]), 'run')}) ended tokens after {share(large, name):.0%} of white space"
        f"{side}{fast}."
    )


def _side(difference: Difference) -> str:
    return "behind" if difference.bits > 0 else "ahead of"


def _how_sure(best: Sweep) -> str:
    run = best.records[0]
    seeds = {len(best.runs[name]) for name in (*ROWS, "even") if name in best.runs}
    counted = many(min(seeds), "seed") if len(seeds) == 1 else f"{min(seeds)} to {many(max(seeds), 'seed')}"
    return (
        f"**How sure:** {run['matrix_parameters'] / 1e6:.0f}M parameters and {run['bytes'] / 1e6:.0f} MB of English a run (the"
        f" paper: 147M, 6 GB of FineWeb); {counted}; each method under its best learning-rate schedule (by validation text);"
        f" scores on {place_of(best)} text, ± half a 95% interval of Student's t."
    )


def settings(sweep: Sweep, name: str) -> Config:
    """The settings of a method, of its smallest seed."""
    return from_dict(sweep.runs[name][min(sweep.runs[name])]["config"])


def table(best: Sweep) -> str:
    """Markdown: five methods, lowest first, beside even spacing."""
    place = place_of(best)
    means = {name: best.mean(name, place) for name in ROWS if name in best.runs}
    rows = []
    for name in sorted(means, key=lambda name: means[name].bits):
        less = gap(best, name, "even", place)
        rate = statistics.fmean(best.values(name, "rate", place))
        row = [NAMES[name], f"{means[name].bits:.3f}", on_one_line(number(less.bits, less.reach(), "+.3f")), f"{rate:.3f}"]
        rows.append([*row, shares(best, name, remark="")])
    even = f"minus even spacing ({best.mean('even', place).bits:.3f})"
    return markdown(["32M parameters, boundaries by", "bits per byte", even, "boundaries per byte", "after white space"], rows)


def verdict(results: Path) -> str:
    """Markdown: the sentences, then the table."""
    best = best_sweep(results)
    lines = [f"* {sentence}" for sentence in sentences(best, large_sweep(results)) if sentence]
    return "\n\n".join(("\n".join(lines), table(best)))


def figure(results: Path) -> "Figure":
    """Share of white space with a boundary after it, by bytes of training text: a line for each seed."""
    import matplotlib.pyplot as plt

    from rltok.show.plots import PALETTE, use_style

    use_style()
    best = best_sweep(results)
    drawing, axes = plt.subplots()
    for colour, name in zip(PALETTE, (name for name in LINES if name in best.runs), strict=False):
        for seed, run in best.runs[name].items():
            points = [(point["bytes"] / 1e6, point["whitespace_share"]) for point in run["held_out"]]
            label = NAMES[name] if seed == min(best.runs[name]) else None
            axes.plot(*zip(*points, strict=True), color=colour, label=label)
    axes.set(xlabel="training text read (MB)", ylabel="share of white space\nwith a boundary after it", ylim=(0, 1.02))
    drawing.legend(loc="outside upper center", ncols=2)
    return drawing
