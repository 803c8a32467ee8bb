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
from rltok.evidence.words import NONE, amount, many, many_seeds
from rltok.presets import LITTLE_TRAVEL, preset, travel_share
from rltok.show.tables import markdown
from rltok.statistics import Difference

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BEST, LARGE = "32m_best", "147m"  # each method under its best schedule; the paper's size, under one schedule for all
AUTHORS = "147m_authors"  # the preset of what the authors' code very probably ran
FAST, SLOW = "policy_x20", "policy"  # with a higher learning rate than the network, and with the network's
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
    SLOW: "REINFORCE, the network's learning rate, discount {gamma:g}",
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
    words = {other: IN_SENTENCES[other] + (f" ({amount(gap)})" if amounts else "") for other, gap in gaps.items()}
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
    claims = _claims(best, large)
    lists = [(head, _stated(claims, side)) for head, side in (("Shown", True), ("Not shown", False))]
    said = " ".join(f"*{head}:* {'; '.join(claims)}." for head, claims in lists if claims)
    first = {
        IN_SENTENCES[FAST]: f"a *fast policy*, ours, with {_times(best)} the network's learning rate and a discount of"
        f" {settings(best, FAST).objective.gamma:g} for later bytes,",
        IN_SENTENCES[SLOW]: f"the *{NAMES[SLOW]}*, with the network's learning rate,",
    }
    for name, whole in first.items():
        said = said.replace(f"that {name}", f"that {whole}", 1)
    (_, shown), (_, not_shown) = lists
    verdict = "No" if not shown else "In part" if not_shown else "Yes"
    return f"**Was the paper reproduced? {verdict}.** {_of_the_paper(best)} {said} {_how_sure(best, large)}"


def _of_the_paper(best: Sweep) -> str:
    """What the paper says of its policy, with the rivals' names explained."""
    every = 1 / settings(best, "even").model.rule.target_rate
    return (
        "*The paper says* that its policy ends tokens at white space and predicts better than *even spacing* (a boundary every"
        f" {every:g} bytes) and *H-Net* (an earlier way to learn boundaries), and just as well as *BPE guidance* (the boundaries"
        " of an ordinary tokenizer)."
    )


def _claims(best: Sweep, large: Sweep) -> list[tuple[str, str, bool]]:
    """Claims: of which method, what, and whether our runs show it."""
    fast, slow, paper = IN_SENTENCES[FAST], IN_SENTENCES[SLOW], _paper(best, large)
    spaces, better = "ends tokens at white space", "predicts better than even spacing"
    small, here, there = _size(best), f" at {_size(best)}", f" at {LARGE.upper()}"
    every = f", at {small} parameters and {LARGE.upper()}, the paper's size"
    sizes = [sweep for sweep in (best, large) if FAST in sweep.runs]
    at_white = _by_size(spaces, [at_spaces(sweep, FAST) for sweep in sizes], "", every, here, f"{there}, the paper's size")
    ahead = _by_size(better, [_ahead(sweep, FAST, "even") for sweep in sizes], here, " at both sizes", here, there)
    return [
        *((fast, what, holds) for what, holds in (at_white | ahead).items()),
        (slow, better + here, _ahead(best, SLOW, "even")),
        (slow, spaces, bool(paper) and all(at_spaces(*run) for run in paper)),
        (fast, "predicts better than H-Net", _ahead(best, FAST, "hnet_port")),
        (fast, "predicts as well as BPE guidance", _better(_tokenizers(best)[0].get("bpe"))),  # shown only where it is better
    ]


def _by_size(what: str, holds: Sequence[bool], alone: str, both: str, here: str, there: str) -> dict[str, bool]:
    """A claim with the sizes at which it was tried: the smaller one alone, both together, or each where they part."""
    if len(holds) == 1:
        return {what + alone: holds[0]}
    return {what + both: holds[0]} if holds[0] == holds[1] else {what + here: holds[0], what + there: holds[1]}


def _stated(claims: Iterable[tuple[str, str, bool]], side: bool) -> list[str]:
    """The claims that hold, or those that do not; the method of the claim before is "it"."""
    kept = [(name, what) for name, what, holds in claims if holds == side]
    before = [None, *(name for name, _ in kept)]
    return [f"that {'it' if name == last else name} {what}" for (name, what), last in zip(kept, before, strict=False)]


def _better(difference: Difference | None) -> bool:
    """Whether a method predicts better than another one, in `LEAST_SEEDS` at least."""
    return difference is not None and difference.verdict == "lower" and difference.seeds >= LEAST_SEEDS


def _ahead(sweep: Sweep, name: str, other: str) -> bool:
    return name in sweep.runs and _better(gap(sweep, name, other, place_of(sweep)))


def _paper(best: Sweep, large: Sweep) -> list[tuple[Sweep, str]]:
    """The paper's policy at each size that it has run at."""
    return [(sweep, name) for sweep, name in ((best, SLOW), (large, LARGE_POLICY)) if name in sweep.runs]


def _size(sweep: Sweep) -> str:
    return f"{sweep.records[0]['matrix_parameters'] / 1e6:.0f}M"


def _how_sure(best: Sweep, large: Sweep) -> str:
    paper = preset(LARGE).train.training_bytes
    return (
        f"*How sure:* {_seeds(best)} of each method at {_size(best)} and {_text(best)} of text, {_seeds(large)} at"
        f" {LARGE.upper()} and {_text(large)} (the paper: {paper / 1e9:g} GB)."
    )


def _seeds(sweep: Sweep) -> str:
    """How many seeds the methods of the table have: 3 seeds, 1 to 2 seeds."""
    return many_seeds(len(sweep.runs[name]) for name in (*ROWS, LARGE_POLICY, "even") if name in sweep.runs)


def _text(sweep: Sweep) -> str:
    return f"{round(statistics.fmean(run['bytes'] for run in sweep.records) / 1e9, 1):g} GB"


def _times(best: Sweep) -> str:
    return f"{settings(best, FAST).train.policy_lr_multiplier:g} times"


def at_spaces(sweep: Sweep, name: str) -> bool:
    """Whether every run of a method ends with a boundary after nearly all white space (`SETTLED`)."""
    return min(sweep.values(name, "whitespace_share", place_of(sweep))) >= SETTLED


def _fast_works(best: Sweep) -> bool:
    return at_spaces(best, FAST) and _ahead(best, FAST, "even")


def _works(best: Sweep) -> str:
    """Where the fast policy ends tokens, and what it predicts better than."""
    head = "What works" if _fast_works(best) else "What we hoped would work"
    tokenizers, _ = _tokenizers(best)
    gaps = _gaps(best, FAST, ("even", "hnet_port")) | tokenizers | _gaps(best, FAST, ("whitespace",))
    return (
        f"**{head} at {_size(best)}:** the fast policy ends tokens after {shares(best, FAST)} of white space. It predicts"
        f" {against(gaps, amounts=False)}."
    )


def _many_boundaries(best: Sweep) -> str:
    """Whether tokenizers draw more boundaries than the fast policy, in words before "boundaries than"."""
    own, *theirs = (statistics.fmean(best.values(name, "rate", place_of(best))) for name in (FAST, "bpe", "bpe_causal"))
    return "more" if min(theirs) > own else "fewer" if max(theirs) < own else "other numbers of"


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
    sure = {other: gap for other, gap in gaps.items() if gap.seeds >= LEAST_SEEDS}
    few = [other for other in gaps if other not in sure]
    said = f" and predicts {against(sure, amounts=False)}" if sure else ""
    return (
        f"**{_head_at_scale(large)}:** the fast policy ({many(len(large.runs[FAST]), 'run')}) ends tokens after"
        f" {shares(large, FAST)} of white space{said}.{_few(large, few)}"
    )


def _head_at_scale(large: Sweep) -> str:
    """Works where its tokens end at white space and it predicts better than even spacing, in every seed while they are few."""
    seeds = by_seed(large, FAST, "even")
    better = _ahead(large, FAST, "even") if len(seeds) >= LEAST_SEEDS else all(bits < 0 for bits in seeds)
    there = at_spaces(large, FAST)
    if there and better and _ahead(large, FAST, "bpe"):
        return "What surprised us"
    if there and better and len(seeds) < LEAST_SEEDS:
        return f"Hints at {LARGE.upper()}"
    return f"What {'works' if there and better else 'we saw' if there or better else 'failed'} at {LARGE.upper()}"


def _few(large: Sweep, others: Sequence[str]) -> str:
    """In how many seeds the fast policy of the paper's size predicts better than others, a sentence; nothing without others."""
    counts: dict[str, list[str]] = {}
    for other in others:
        seeds = by_seed(large, FAST, other)
        better, ran = sum(bits < 0 for bits in seeds), f"the {many(len(seeds), 'seed')} that ran"
        counts.setdefault(ran if better == len(seeds) else f"{better} of {ran}", []).append(IN_SENTENCES[other])
    words = [f"{_listed(named)} in {count}" for count, named in counts.items()]
    return f" It predicts better than {', and than '.join(words)}: too few to be sure." if words else ""


def _failed(best: Sweep, large: Sweep) -> str:
    """Where the boundaries of the paper's policy are at both sizes, and how far the policies could move."""
    slow, fast = _paper(best, large), [(sweep, FAST) for sweep in (best, large) if FAST in sweep.runs]
    if not slow:
        return ""
    ended = [f"{shares(sweep, name)}{'' if number else ' of white space'} at {_size(sweep)}"
             for number, (sweep, name) in enumerate(slow)]  # fmt: skip
    moved, far = (_listed([f"{travel_share(settings(sweep, name)):.0%} ({_size(sweep)})" for sweep, name in runs])
                  for runs in (slow, fast))  # fmt: skip
    head, why = "What failed", "Added up over all updates"
    if all(at_spaces(*run) for run in slow):
        head = f"What works{', too' if _fast_works(best) else ''}"
    elif max(travel_share(settings(*run)) for run in slow) < LITTLE_TRAVEL:
        head, why = "What failed in runs so short", "The likely reason: too few updates. Added up over them"
    return (
        f"**{head}:** the paper's policy ends tokens after {_listed(ended)}. {why}, its learning rate reaches {moved} of the"
        f" paper's total, the fast policy's {far}."
    )


def settings(sweep: Sweep, name: str) -> Config:
    """The settings of a method, of its smallest seed."""
    return from_dict(sweep.runs[name][min(sweep.runs[name])]["config"])


def table(best: Sweep, large: Sweep) -> str:
    """Markdown: five methods, lowest first, beside even spacing, at both sizes."""
    place = place_of(best)
    drawn = DRAWN | {FAST: f"REINFORCE, {_times(best)} the network's learning rate, discount {{gamma:g}}"}
    rows = []
    for name in sorted((name for name in ROWS if name in best.runs), key=lambda name: best.mean(name, place).bits):
        apart = amount(gap(best, name, "even", place))
        at_scale = _at_scale_cell(large, LARGE_POLICY if name == SLOW else name)
        what = drawn[name].format(gamma=settings(best, name).objective.gamma)
        rows.append([f"**{NAMES[name]}**: {what}", apart, at_scale, shares(best, name, remark=" by seed")])
    heads = [f"minus even spacing's {sweep.mean('even', place_of(sweep)).bits:.3f}" if "even" in sweep.runs else NONE
             for sweep in (best, large)]  # fmt: skip
    columns = [f"{_size(best)}: bits per byte, {heads[0]}", f"{_size(large)}: {heads[1]}"]
    return markdown(["boundaries from", *columns, f"{_size(best)}: white space followed by a boundary"], rows)


def _at_scale_cell(large: Sweep, name: str) -> str:
    """Difference from even spacing: with its interval from three seeds on, else that of each seed."""
    place, each = place_of(large), by_seed(large, name, "even")
    if len(each) >= LEAST_SEEDS:
        return amount(gap(large, name, "even", place))
    return _listed([f"{difference:+.3f}" for difference in each]) if each else NONE


def by_seed(sweep: Sweep, name: str, other: str) -> list[float]:
    """Bits per byte of a method minus those of another one, seed by seed."""
    mine, theirs = (sweep.bits_per_byte[place_of(sweep)].get(one, {}) for one in (name, other))
    return [bits - theirs[seed] for seed, bits in sorted(mine.items()) if seed in theirs]


def legend(best: Sweep, large: Sweep) -> str:
    """How the numbers of the table came about."""
    few, (_, alike) = max(map(len, large.runs.values())) < LEAST_SEEDS, _tokenizers(best)
    equal = (
        f" The BPEs have {_many_boundaries(best)} boundaries than the fast policy; the list below compares them at equal numbers"
        " of boundaries."
    )
    return (
        f"Lower is better. {_size(best)}: means over seeds on {place_of(best)} text, ± 95% confidence intervals;"
        " learning-rate schedules chosen on validation text."
        f" {_size(large)}: one schedule for all; {'each seed' if few else 'without ±, single seeds'}.{equal if alike else ''}"
        f" The paper's discount: {discount()}."
    )


def discount() -> str:
    """The discount of the paper in words: its text and its code say different things."""
    text, code = (f"{preset(name).objective.gamma:g}" for name in (LARGE, AUTHORS))
    return f"{text} in its text, very probably {code} in its code"


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
