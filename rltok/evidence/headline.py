"""What our runs say of the paper, in five sentences, a table and a picture: what README, the first page and chapters open with.

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
from rltok.evidence.words import many, number
from rltok.optim import policy_travel
from rltok.presets import preset
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
ROWS = (FAST, "bpe", "hnet_port", "whitespace", "even")  # of the table
LINES = (FAST, SLOW, "hnet_port", "even")  # of the picture
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
    """Its size with half the width of its 95 % interval."""
    return number(abs(difference.bits), difference.reach(), ".3f")


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
    """What works, what surprised us, how it stands to guidance, what failed, and how sure all that is."""
    return [_works(best), _surprise(best), _guidance(best), _failed(large), _how_sure(best)]


def _works(best: Sweep) -> str:
    config = _config(best, FAST)
    after = settled_after(best, FAST)
    since = "" if after is None else f"; from {after / 1e6:.0f} MB on, after {SETTLED:.0%} or more in every seed"
    return (
        f"**What works:** a policy whose weights have {config.train.policy_lr_multiplier:g} times the network's learning rate"
        f" learns to end tokens at spaces (after {share(best, FAST):.0%} of them{since}), and predicts held-out text, in bits per"
        f" byte, {against(_gaps(best, FAST, ('even', 'hnet_port', 'whitespace')))}."
    )


def _surprise(best: Sweep) -> str:
    if SLOW not in best.runs:
        return ""
    travel = policy_travel(_config(best, SLOW)) / policy_travel(preset("147m"))
    return (
        f"**What surprised us:** with one learning rate for all weights, as in the paper, the policy's weights move only"
        f" {travel:.0%} as far as in the paper's longer run. It ends with a boundary after {shares(best, SLOW)} of white space,"
        f" and predicts {against(_gaps(best, SLOW, ('even',)))}. A short run says little unless its policy may move."
    )


def _guidance(best: Sweep) -> str:
    """At as many boundaries as the tokenizer where such runs have their seeds, else each at its own rate."""
    rivals = ("bpe", "bpe_causal")
    equal = {rival: matched_gap(best, f"{FAST}{RATE_OF}{rival}", place_of(best)) for rival in rivals}
    if all(difference and difference.seeds >= LEAST_SEEDS for difference in equal.values()):
        return f"**Against a tokenizer:** with as many boundaries, the policy predicts {against(equal)}."
    return f"**Against a tokenizer:** the policy predicts {against(_gaps(best, FAST, rivals))}, each at a rate of its own."


def _failed(large: Sweep) -> str:
    name, guide = "ours_gamma0.9", "bpe"
    budget = statistics.fmean(run["bytes"] for run in large.runs[name].values())
    difference = gap(large, name, guide, place_of(large))
    side = "" if difference is None else f", {abs(difference.bits):.3f} bits per byte {_side(difference)} {SHORT[guide]}"
    return (
        f"**What failed:** at 147M parameters, on {budget / 1e9:.2g} GB, the policy as in the paper"
        f" ({many(len(large.runs[name]), 'run')}) ended with a boundary after {share(large, name):.0%} of white space{side}; runs"
        " of that size whose policy has a learning rate of its own are to come."
    )


def _side(difference: Difference) -> str:
    return "behind" if difference.bits > 0 else "ahead of"


def _how_sure(best: Sweep) -> str:
    run = best.records[0]
    seeds = {len(best.runs[name]) for name in ROWS}
    counted = many(min(seeds), "seed") if len(seeds) == 1 else f"{min(seeds)} to {many(max(seeds), 'seed')}"
    return (
        f"**How sure:** {run['matrix_parameters'] / 1e6:.0f}M parameters and {run['bytes'] / 1e6:.0f} MB of English a run, which"
        f" is not the paper's FineWeb (there 147M and 6 GB); {counted}, each method under the schedule that suits it best on"
        f" validation text; scores on {place_of(best)} text, ± half a 95 % interval of Student's t."
    )


def _config(sweep: Sweep, name: str) -> Config:
    return from_dict(next(iter(sweep.runs[name].values()))["config"])


def table(best: Sweep) -> str:
    """Markdown: five methods, lowest first, beside even spacing."""
    place = place_of(best)
    means = {name: best.mean(name, place) for name in ROWS}
    rows = []
    for name in sorted(means, key=lambda name: means[name].bits):
        difference = None if name == "even" else gap(best, name, "even", place)
        less = "" if difference is None else number(difference.bits, difference.reach(), "+.3f")
        rate = statistics.fmean(best.values(name, "rate", place))
        rows.append([NAMES[name], f"{means[name].bits:.3f}", less, f"{rate:.3f}", shares(best, name, remark="")])
    return markdown(
        ["32M, where boundaries come from", "bits per byte", "minus even", "boundaries per byte", "white space"], rows
    )


def verdict(results: Path) -> str:
    """Markdown: the sentences, then the table."""
    best = best_sweep(results)
    lines = [f"* {sentence}" for sentence in sentences(best, large_sweep(results)) if sentence]
    return "\n".join(lines) + "\n\n" + table(best)


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
    axes.legend(loc="center right")
    return drawing
