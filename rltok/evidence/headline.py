"""Whether the paper was reproduced, in four paragraphs, a table and a picture: what README and the first page open with.

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
from rltok.presets import LITTLE_TRAVEL, preset, travel_share
from rltok.show.tables import markdown
from rltok.statistics import Difference

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BEST, LARGE = "32m_best", "147m"  # each method under its best schedule; the paper's size, under one schedule for all
AUTHORS = "147m_authors"  # the preset of what the authors' code very probably ran
FAST, SLOW = "policy_x20", "policy"  # with a higher learning rate than the network, and with the network's
UNDISCOUNTED = "policy_x20_gamma0.99"  # the fast policy with the discount of the paper's text
NAMES = {
    FAST: "fast policy",
    SLOW: "paper's policy",
    "bpe": "BPE guidance",
    "bpe_causal": "causal BPE",
    "hnet_port": "H-Net",
    "whitespace": "white-space rule",
    "even": "even spacing",
}
IN_SENTENCES = NAMES | {name: f"the {NAMES[name]}" for name in (FAST, SLOW)}
IN_SENTENCES |= {"whitespace": "a fixed rule that splits at white space (not in the table)"}
ROWS = (FAST, SLOW, "bpe", "bpe_causal", "hnet_port")  # of the table, each beside even spacing
DRAWN = {
    SLOW: "REINFORCE, the network's learning rate",
    "bpe": "an ordinary BPE tokenizer, which looks ahead: its boundaries give away something of later bytes",
    "bpe_causal": "a BPE tokenizer that reads only the bytes so far",
    "hnet_port": "straight-through: the backward pass treats the decision as if it were its probability",
}
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


def _listed(names: Sequence[str]) -> str:
    """Names as a sentence lists them: A, B and C."""
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last


def against(gaps: Mapping[str, Difference], *, amounts: bool = True) -> str:
    """In words: which of the others a method predicts better than, which worse, and from which it cannot be told apart."""
    heads = {"lower": "better than", "undecided": "neither clearly better nor worse than", "higher": "worse than"}
    words = {other: IN_SENTENCES[other] + (f" ({_amount(gap)})" if amounts else "") for other, gap in gaps.items()}
    sides = {side: [words[other] for other, gap in gaps.items() if gap.verdict == side] for side in heads}
    return ", and ".join(f"{heads[side]} {_listed(named)}" for side, named in sides.items() if named)


def shares(sweep: Sweep, name: str, remark: str = " (by seed)") -> str:
    """The share of white space with a boundary after it in words: where seeds part, their lowest and highest, and the remark."""
    return span(sweep.values(name, "whitespace_share", place_of(sweep)), remark)


def span(values: Sequence[float], remark: str = "") -> str:
    """Shares of several seeds in words: their mean; where they part, the lowest and the highest, and the remark."""
    low, high = min(values), max(values)
    return f"{low:.0%} to {high:.0%}{remark}" if high - low > APART else f"{statistics.fmean(values):.0%}"


def sentences(best: Sweep, large: Sweep) -> list[str]:
    """Whether the paper was reproduced and how sure that is, what works, what surprised us, what failed."""
    return [answer(best, large), _works(best), _surprise(best), _failed(large)]


def answer(best: Sweep, large: Sweep) -> str:
    """Yes, no or in part, with the claims of the paper that our runs show and those that they do not, and how sure that is."""
    gaps = _gaps(best, FAST, ("even", "hnet_port"))
    every = 1 / settings(best, "even").model.rule.target_rate
    shown = {
        f"that a *fast policy*, ours, with {_times(best)} the network's learning rate, ends tokens at white space":
            at_spaces(best, FAST),
        f"that it then predicts text better than *even spacing*, a boundary every {every:g} bytes":
            gaps["even"].verdict == "lower",
        "that the *paper's policy*, with the network's learning rate, predicts better than even spacing":
            SLOW in best.runs and gap(best, SLOW, "even", place_of(best)).verdict == "lower",
        "that the paper's policy ends tokens at white space": SLOW in best.runs and at_spaces(best, SLOW),
        f"that it does so at {LARGE.upper()}, the paper's size": at_spaces(large, LARGE_POLICY),
        "that the fast policy predicts better than *H-Net*, an earlier way to learn boundaries":
            gaps["hnet_port"].verdict == "lower",
    }  # fmt: skip
    if FAST in large.runs:
        shown["that the fast policy ends tokens at white space at that size, too"] = at_spaces(large, FAST)
    sides = {side: [claim for claim, holds in shown.items() if holds == side] for side in (True, False)}
    said = "No" if not sides[True] else "In part" if sides[False] else "Yes"
    heads = {True: "Shown", False: "Not shown"}
    lists = (f"*{heads[side]}:* {'; '.join(claims)}." for side, claims in sides.items() if claims)
    return f"**Was the paper reproduced? {said}.** {' '.join(lists)} {_how_sure(best)}"


def _how_sure(best: Sweep) -> str:
    run, paper = best.records[0], preset(LARGE).train.training_bytes
    seeds = {len(best.runs[name]) for name in (*ROWS, "even") if name in best.runs}
    counted = many(min(seeds), "seed") if len(seeds) == 1 else f"{min(seeds)} to {many(max(seeds), 'seed')}"
    slow = SLOW in best.runs and travel_share(settings(best, SLOW)) < LITTLE_TRAVEL
    short = ", too short a run to judge the paper's policy" if slow else ""
    return (
        f"*How sure:* {counted} of each method, at {run['matrix_parameters'] / 1e6:.0f}M parameters and"
        f" {run['bytes'] / 1e6:.0f} MB of text (the paper: {LARGE.upper()}, {paper / 1e9:g} GB){short}."
    )


def _times(best: Sweep) -> str:
    return f"{settings(best, FAST).train.policy_lr_multiplier:g} times"


def at_spaces(sweep: Sweep, name: str) -> bool:
    """Whether every run of a method ends with a boundary after nearly all white space (`SETTLED`)."""
    return min(sweep.values(name, "whitespace_share", place_of(sweep))) >= SETTLED


def _works(best: Sweep) -> str:
    head = "What works" if at_spaces(best, FAST) else "What we hoped would work"
    tokenizers, alike = _tokenizers(best)
    gaps = _gaps(best, FAST, ("even", "hnet_port")) | tokenizers | _gaps(best, FAST, ("whitespace",))
    by = (
        f" In the table the BPEs place {_many_boundaries(best)}; this comparison is from further runs with equally many."
        if alike
        else ""
    )
    return (
        f"**{head}:** the fast policy ends tokens after {shares(best, FAST)} of white space{_other_discount(best)}. It predicts"
        f" {against(gaps, amounts=False)}.{by}"
    )


def _other_discount(best: Sweep) -> str:
    """How many seeds end at white space with the discount of the paper's text, where such runs are there."""
    if UNDISCOUNTED not in best.runs:
        return ""
    ended = best.values(UNDISCOUNTED, "whitespace_share", place_of(best))
    gamma, there = settings(best, UNDISCOUNTED).objective.gamma, sum(share >= SETTLED for share in ended)
    return f"; with a discount of {gamma:g}, as in the paper's text, {there} of {many(len(ended), 'seed')} do so"


def _many_boundaries(best: Sweep) -> str:
    """Whether tokenizers draw more boundaries than the fast policy, in words."""
    own, *theirs = (statistics.fmean(best.values(name, "rate", place_of(best))) for name in (FAST, "bpe", "bpe_causal"))
    return f"{'more' if min(theirs) > own else 'fewer' if max(theirs) < own else 'other numbers of'} boundaries"


def _tokenizers(best: Sweep) -> tuple[dict[str, Difference], bool]:
    """Differences from tokenizers: at as many boundaries as they draw, and True, where such runs have their seeds."""
    rivals = ("bpe", "bpe_causal")
    equal = {rival: matched_gap(best, f"{FAST}{RATE_OF}{rival}", place_of(best)) for rival in rivals}
    known = {rival: difference for rival, difference in equal.items() if difference and difference.seeds >= LEAST_SEEDS}
    return (known, True) if len(known) == len(rivals) else (_gaps(best, FAST, rivals), False)


def _surprise(best: Sweep) -> str:
    if SLOW not in best.runs:
        return ""
    slow, fast = (travel_share(settings(best, name)) for name in (SLOW, FAST))
    head = "What works, too" if at_spaces(best, SLOW) else "What surprised us"
    return (
        f"**{head}:** the paper's policy ends tokens after {shares(best, SLOW)} of white space. Our runs have fewer"
        f" updates: summed over all, the paper's policy has {slow:.0%} of the learning rate of the paper's own run, the fast"
        f" policy {fast:.0%}."
    )


def _failed(large: Sweep) -> str:
    head = "What works at the paper's size" if at_spaces(large, LARGE_POLICY) else "What failed"
    read = statistics.fmean(run["bytes"] for run in large.runs[LARGE_POLICY].values())
    far = travel_share(settings(large, LARGE_POLICY))
    short = "This run, too, was short: its" if far < LITTLE_TRAVEL else "Its"
    fast = f"At this size, {_ended(large, FAST, FAST)}" if FAST in large.runs else "The fast policy is yet to run at this size"
    return (
        f"**{head}:** at {LARGE.upper()} parameters and {read / 1e9:.2g} GB of text, {_ended(large, LARGE_POLICY, SLOW)}."
        f" {short} summed learning rate was {far:.0%} of the paper's. {fast}."
    )


def _ended(large: Sweep, name: str, kind: str) -> str:
    """Where the boundaries of a large run ended, and which of two others it clearly predicts better or worse than."""
    gaps = _gaps(large, name, ("bpe", "even"))
    predicted = against({other: gap for other, gap in gaps.items() if gap.verdict != "undecided"}, amounts=False)
    return (
        f"{IN_SENTENCES[kind]} ({many(len(large.runs[name]), 'run')}) ended tokens after {shares(large, name)} of white space"
        + (f" and predicted {predicted}" if predicted else "")
    )


def settings(sweep: Sweep, name: str) -> Config:
    """The settings of a method, of its smallest seed."""
    return from_dict(sweep.runs[name][min(sweep.runs[name])]["config"])


def table(best: Sweep) -> str:
    """Markdown: five methods, lowest first, beside even spacing."""
    place = place_of(best)
    drawn = DRAWN | {FAST: f"REINFORCE, {_times(best)} the network's learning rate"}
    rows = []
    for name in sorted((name for name in ROWS if name in best.runs), key=lambda name: best.mean(name, place).bits):
        amount = _amount(gap(best, name, "even", place))
        rows.append([f"**{NAMES[name]}**: {drawn[name]}", amount, shares(best, name, remark=" by seed")])
    even = f"bits per byte, minus even spacing's {best.mean('even', place).bits:.3f}"
    return markdown(["boundaries from", even, "white space followed by a boundary"], rows)


def legend(best: Sweep) -> str:
    """How the numbers of the table came about."""
    return (
        f"Lower is better. Means over seeds on {place_of(best)} text, ± a 95% confidence interval over seeds and documents. Each"
        " method has its best learning-rate schedule, by validation text." + _discounts(best)
    )


def _discounts(best: Sweep) -> str:
    """The discounts of both policies beside those of the paper."""
    text, code = (f"{preset(name).objective.gamma:g}" for name in (LARGE, AUTHORS))
    own = [f"{settings(best, name).objective.gamma:g} in the {NAMES[name]}" for name in (FAST, SLOW) if name in best.runs]
    return f" Later rewards are discounted by {_listed(own)}; by {text} in the paper's text, very probably by {code} in its code."


def verdict(results: Path) -> str:
    """Markdown: the answer, the table, then the other sentences."""
    best = best_sweep(results)
    first, *others = sentences(best, large_sweep(results))
    return "\n\n".join((first, table(best), legend(best), "\n".join(f"* {sentence}" for sentence in others if sentence)))


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
