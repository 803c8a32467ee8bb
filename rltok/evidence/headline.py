"""Whether the paper was reproduced, in four paragraphs, a table and a picture: what README and the first page open with.

stored records --verdict--> Markdown      --figure--> share of white space with a boundary, over the text read

Every word that a record could overturn follows from the record: which method is better, whether one counts as better at all.
"""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rltok.config import Config, from_dict
from rltok.errors import RltokError
from rltok.evidence.differences import gap, matched_gap
from rltok.evidence.records import RATE_OF, Sweep, read_sweeps
from rltok.evidence.verdicts import LEAST_SEEDS
from rltok.evidence.words import NONE, many, number, on_one_line
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
IN_SENTENCES |= {"whitespace": "a fixed rule that splits after words"}
ROWS = (FAST, SLOW, "bpe", "bpe_causal", "hnet_port")  # of the table, each beside even spacing
DRAWN = {
    SLOW: "REINFORCE, the network's learning rate",
    "bpe": "ordinary BPE, which looks ahead",
    "bpe_causal": "BPE without looking ahead",
    "hnet_port": "an earlier method, straight-through gradients",
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
    return [sentence for sentence in (answer(best, large), _works(best), _at_scale(large), _failed(best, large)) if sentence]


def answer(best: Sweep, large: Sweep) -> str:
    """Yes, no or in part, with the claims of the paper that our runs show and those that they do not, and how sure that is."""
    gaps, size = _gaps(best, FAST, ("even", "hnet_port")), LARGE.upper()
    every = 1 / settings(best, "even").model.rule.target_rate
    spaces, wins = at_spaces(best, FAST), set()
    also = ""
    if FAST in large.runs:
        wins = {other for other, gap in _gaps(large, FAST, ("even", "bpe")).items() if gap.verdict == "lower"}
        also, spaces = f", at {_size(best)} parameters and at {size}, the paper's size", spaces and at_spaces(large, FAST)
    shown = {
        f"that a *fast policy*, ours, with {_times(best)} the network's learning rate, ends tokens at white space{also}": spaces,
        f"that at {_size(best)} the fast policy predicts better than *even spacing*, a boundary every {every:g} bytes":
            gaps["even"].verdict == "lower",
        f"that the *paper's policy*, with the network's learning rate, predicts better than even spacing at {_size(best)}":
            SLOW in best.runs and gap(best, SLOW, "even", place_of(best)).verdict == "lower",
        "that the paper's policy ends tokens at white space":
            SLOW in best.runs and at_spaces(best, SLOW) and at_spaces(large, LARGE_POLICY),
        "that the fast policy predicts better than *H-Net*, an earlier way to learn boundaries":
            gaps["hnet_port"].verdict == "lower",
    }  # fmt: skip
    if FAST in large.runs:
        shown[f"that at {size} the fast policy predicts better than even spacing and BPE"] = wins == {"even", "bpe"}
    sides = {side: [claim for claim, holds in shown.items() if holds == side] for side in (True, False)}
    said = "No" if not sides[True] else "In part" if sides[False] else "Yes"
    heads = {True: "Shown", False: "Not shown"}
    lists = (f"*{heads[side]}:* {'; '.join(claims)}." for side, claims in sides.items() if claims)
    return f"**Was the paper reproduced? {said}.** {' '.join(lists)} {_how_sure(best, large)}"


def _size(sweep: Sweep) -> str:
    return f"{sweep.records[0]['matrix_parameters'] / 1e6:.0f}M"


def _how_sure(best: Sweep, large: Sweep) -> str:
    paper = preset(LARGE).train.training_bytes
    slow = [travel_share(settings(sweep, name)) for sweep, name in ((best, SLOW), (large, LARGE_POLICY)) if name in sweep.runs]
    short = " Runs were too short to judge the paper's policy." if max(slow, default=1) < LITTLE_TRAVEL else ""
    return (
        f"*How sure:* {_seeds(best)} of each method at {_size(best)} and {_text(best)} of text, {_seeds(large)} at"
        f" {LARGE.upper()} and {_text(large)} (the paper: {paper / 1e9:g} GB).{short}"
    )


def _seeds(sweep: Sweep) -> str:
    """How many seeds the methods of the table have: 3 seeds, 1 to 2 seeds."""
    counts = {len(sweep.runs[name]) for name in (*ROWS, LARGE_POLICY, "even") if name in sweep.runs}
    return many(min(counts), "seed") if len(counts) == 1 else f"{min(counts)} to {many(max(counts), 'seed')}"


def _text(sweep: Sweep) -> str:
    return f"{statistics.fmean(run['bytes'] for run in sweep.records) / 1e9:.1g} GB"


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
        f" Against the BPEs, runs had equally many boundaries; in the table, the BPEs have {_many_boundaries(best)}."
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
    return f"; with the paper's discount of {gamma:g}, {there} of {many(len(ended), 'seed')} do"


def _many_boundaries(best: Sweep) -> str:
    """Whether tokenizers draw more boundaries than the fast policy, in words."""
    own, *theirs = (statistics.fmean(best.values(name, "rate", place_of(best))) for name in (FAST, "bpe", "bpe_causal"))
    return "more" if min(theirs) > own else "fewer" if max(theirs) < own else "other numbers"


def _tokenizers(best: Sweep) -> tuple[dict[str, Difference], bool]:
    """Differences from tokenizers: at as many boundaries as they draw, and True, where such runs have their seeds."""
    rivals = ("bpe", "bpe_causal")
    equal = {rival: matched_gap(best, f"{FAST}{RATE_OF}{rival}", place_of(best)) for rival in rivals}
    known = {rival: difference for rival, difference in equal.items() if difference and difference.seeds >= LEAST_SEEDS}
    return (known, True) if len(known) == len(rivals) else (_gaps(best, FAST, rivals), False)


def _at_scale(large: Sweep) -> str:
    """What the fast policy does at the paper's size; nothing before it has run."""
    if FAST not in large.runs:
        return ""
    gaps = _gaps(large, FAST, ("even", "bpe", "hnet_port"))
    enough = min(gap.seeds for gap in gaps.values()) >= LEAST_SEEDS
    ahead = "bpe" in gaps and gaps["bpe"].verdict == "lower"
    head = "What surprised us" if ahead else f"What works at {LARGE.upper()}" if enough else f"Hints at {LARGE.upper()}"
    head = head if at_spaces(large, FAST) else f"What failed at {LARGE.upper()}"
    return (
        f"**{head}:** the fast policy"
        f" ({many(len(large.runs[FAST]), 'run')}) ends tokens after {shares(large, FAST)} of white space and predicts"
        f" {against(gaps, amounts=False) if enough else _few(large, gaps)}."
    )


def _few(large: Sweep, others: Iterable[str]) -> str:
    """In how many seeds the fast policy of the paper's size predicts better than others."""
    counts: dict[str, list[str]] = {}
    for other in others:
        seeds = by_seed(large, FAST, other)
        counts.setdefault(f"{sum(bits < 0 for bits in seeds)} of {many(len(seeds), 'seed')}", []).append(IN_SENTENCES[other])
    words = [f"{_listed(named)} in {count}" for count, named in counts.items()]
    return f"better than {', and than '.join(words)}; too few to be sure"


def _failed(best: Sweep, large: Sweep) -> str:
    """Where the boundaries of the paper's policy are at both sizes, and how far its weights could move."""
    slow = [(sweep, name) for sweep, name in ((best, SLOW), (large, LARGE_POLICY)) if name in sweep.runs]
    fast = [sweep for sweep in (best, large) if FAST in sweep.runs]
    ended = [f"{shares(sweep, name)}{'' if number else ' of white space'} at {_size(sweep)}"
             for number, (sweep, name) in enumerate(slow)]  # fmt: skip
    moved, far = (_listed([f"{travel_share(settings(*run)):.0%} ({_size(run[0])})" for run in runs])
                  for runs in (slow, [(sweep, FAST) for sweep in fast]))  # fmt: skip
    return (
        f"**{'What works, too' if all(at_spaces(*run) for run in slow) else 'What failed'}:** the paper's policy ends tokens"
        f" after {_listed(ended)}. Our runs have fewer updates: its weights could move {moved} as far as in the paper's"
        f" run, those of the fast policy {far}."
    )


def settings(sweep: Sweep, name: str) -> Config:
    """The settings of a method, of its smallest seed."""
    return from_dict(sweep.runs[name][min(sweep.runs[name])]["config"])


def table(best: Sweep, large: Sweep) -> str:
    """Markdown: five methods, lowest first, beside even spacing, at both sizes."""
    place = place_of(best)
    drawn = DRAWN | {FAST: f"REINFORCE, {_times(best)} the network's learning rate"}
    rows = []
    for name in sorted((name for name in ROWS if name in best.runs), key=lambda name: best.mean(name, place).bits):
        amount = _amount(gap(best, name, "even", place))
        at_scale = _at_scale_cell(large, LARGE_POLICY if name == SLOW else name)
        rows.append([f"**{NAMES[name]}**: {drawn[name]}", amount, at_scale, shares(best, name, remark=" by seed")])
    heads = [f"minus even spacing's {sweep.mean('even', place_of(sweep)).bits:.3f}" for sweep in (best, large)]
    columns = [f"{_size(best)}: bits per byte, {heads[0]}", f"{_size(large)}: {heads[1]}"]
    return markdown(["boundaries from", *columns, f"{_size(best)}: white space followed by a boundary"], rows)


def _at_scale_cell(large: Sweep, name: str) -> str:
    """Difference from even spacing: with its interval from three seeds on, else that of each seed."""
    place, each = place_of(large), by_seed(large, name, "even")
    if len(each) >= LEAST_SEEDS:
        return _amount(gap(large, name, "even", place))
    return _listed([f"{difference:+.3f}" for difference in each]) if each else NONE


def by_seed(sweep: Sweep, name: str, other: str) -> list[float]:
    """Bits per byte of a method minus those of another one, seed by seed."""
    mine, theirs = (sweep.bits_per_byte[place_of(sweep)].get(one, {}) for one in (name, other))
    return [bits - theirs[seed] for seed, bits in sorted(mine.items()) if seed in theirs]


def legend(best: Sweep, large: Sweep) -> str:
    """How the numbers of the table came about."""
    few = max(map(len, large.runs.values())) < LEAST_SEEDS
    return (
        f"Lower is better. {_size(best)}: means over seeds on {place_of(best)} text, ± 95% confidence intervals;"
        " learning-rate schedules chosen on validation text."
        f" {_size(large)}: {'each seed' if few else 'the same, or each seed'}, under one schedule." + _discounts(best)
    )


def _discounts(best: Sweep) -> str:
    """The discounts of both policies beside those of the paper."""
    text, code = (f"{preset(name).objective.gamma:g}" for name in (LARGE, AUTHORS))
    own = [f"{NAMES[name]} {settings(best, name).objective.gamma:g}" for name in (FAST, SLOW) if name in best.runs]
    return f" Later bytes are discounted: {', '.join(own)} ({text} in the paper's text, very probably {code} in its code)."


def verdict(results: Path) -> str:
    """Markdown: the answer, the table, then the other sentences."""
    best = best_sweep(results)
    large = large_sweep(results)
    first, *others = sentences(best, large)
    return "\n\n".join((first, table(best, large), legend(best, large), "\n".join(f"* {sentence}" for sentence in others)))


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
