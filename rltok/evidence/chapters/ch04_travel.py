"""Chapter 04's view of the sweep tiny_travel: how far the policy's weights may move, from when on, and where boundaries end.

sweep --settings_of--> multiplier and start of each method    sweep --result--> a sentence    --table--> Markdown    --figure-->
"""

from pathlib import Path
from typing import TYPE_CHECKING

from rltok.config import Config, from_dict
from rltok.errors import RltokError
from rltok.evidence import differences
from rltok.evidence.records import Sweep, is_learned, read_sweeps
from rltok.evidence.tables import BASELINE, over_seeds
from rltok.evidence.words import NONE, number
from rltok.presets import travel_share
from rltok.show.plots import PALETTE
from rltok.show.tables import markdown

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PLAN = "tiny_travel"
MOSTLY = 0.8  # share of white space from which on a policy counts as one that found it


def read(folder: Path) -> Sweep:
    """The sweep, from the folder that holds it.

    Raises:
        RltokError: it is not there, or its records are damaged.
    """
    found = read_sweeps(folder, only=PLAN)
    if PLAN not in found:
        raise RltokError(
            f"{folder} holds no sweep {PLAN}. Make it: scripts/measure/run_sweep.py scripts/measure/sweeps/{PLAN}.toml."
        )
    return found[PLAN]


def settings_of(sweep: Sweep) -> dict[str, Config]:
    """The settings of each learned method, one seed's: those that move earliest first, then by their multiplier."""
    learned = {name: next(iter(runs.values())) for name, runs in sweep.runs.items()}
    configs = {name: from_dict(run["config"]) for name, run in learned.items() if is_learned(run)}
    return dict(sorted(configs.items(), key=lambda one: (one[1].train.policy_start_fraction, one[1].train.policy_lr_multiplier)))


def method(config: Config) -> str:
    """The policy's multiplier, and whether it starts late, in words."""
    train = config.train
    return f"policy × {train.policy_lr_multiplier:g}" + (
        f", after {train.policy_start_fraction:.0%}" * (train.policy_start_fraction > 0)
    )


def least_multiplier(sweep: Sweep) -> float | None:
    """The smallest multiplier at which a policy that moves at once finds white space with every seed; None where none does."""
    early = {name: config for name, config in settings_of(sweep).items() if config.train.policy_start_fraction == 0}
    there = [config.train.policy_lr_multiplier for name, config in early.items()
             if min(sweep.values(name, "whitespace_share")) >= MOSTLY]  # fmt: skip
    return min(there, default=None)


def table(sweep: Sweep) -> str:
    """Markdown: a row for each method, of learned ones by when and how fast they move; ± over seeds, the loss ± its interval."""
    rows, configs = [], settings_of(sweep)
    for name in [*configs, *(name for name in sweep.runs if name not in configs)]:
        train = configs[name].train if name in configs else None
        about = [name, NONE] if train is None else [method(configs[name]), f"{travel_share(configs[name]):.2g}"]
        gap = None if name == BASELINE else differences.gap(sweep, name, BASELINE, "validation")
        rows.append([
            *about, over_seeds(sweep.values(name, "whitespace_share"), ".2f"), _first_letters(sweep, name),
            over_seeds(sweep.values(name, "policy_entropy"), ".2f"),
            NONE if gap is None else number(gap.bits, gap.reach(), "+.3f"),
        ])  # fmt: skip
    head = ["", "travel", "white space", "first letters", "entropy, nats", f"bits minus {BASELINE}"]
    return markdown(head, rows)


def result(sweep: Sweep) -> str:
    """Which multipliers bring every seed to white space when the policy moves at once, and whether a late one gets there, in a
    sentence; and what the loss says of it."""
    configs = settings_of(sweep)
    ends = {name: sweep.values(name, "whitespace_share") for name in configs}
    early = {name: config for name, config in configs.items() if config.train.policy_start_fraction == 0}
    there = [f"× {early[name].train.policy_lr_multiplier:g}" for name in early if min(ends[name]) >= MOSTLY]
    late = [value for name in configs if name not in early for value in ends[name]]
    gaps = [differences.gap(sweep, name, BASELINE, "validation") for name in configs]
    decided = sum(gap.verdict != "undecided" for gap in gaps)
    return (
        f"Policies that move from the first update on have a boundary after {MOSTLY:.0%} of white space or more, with every seed,"
        f" at {', '.join(there) or 'no multiplier'}; of {len(late)} that start late, {sum(value >= MOSTLY for value in late)} do."
        f" In {decided} of {len(gaps)} groups (a factor and a start) the loss differs from that of evenly spaced boundaries by"
        " more than its interval."
    )


def _first_letters(sweep: Sweep, name: str) -> str:
    """The share of the first letters of words with a boundary after them, over seeds."""
    return over_seeds(sweep.each(name, lambda run: run["scores"]["validation"]["class_rates"]["word start"]), ".2f")


def figure(sweep: Sweep) -> "Figure":
    """White space with a boundary by bytes read, a line for each seed (left), and where boundaries are at the end (right)."""
    import matplotlib.pyplot as plt

    drawing, (left, right) = plt.subplots(1, 2, figsize=(8.4, 3.9), layout="constrained")
    configs = settings_of(sweep)
    multipliers = sorted({config.train.policy_lr_multiplier for config in configs.values()})
    for name, config in configs.items():
        train, late = config.train, config.train.policy_start_fraction > 0
        colour = PALETTE[multipliers.index(train.policy_lr_multiplier)]
        label = None if late else f"× {train.policy_lr_multiplier:g}"
        for run in sweep.runs[name].values():
            across, up = zip(*((point["bytes"] / 1e6, point["whitespace_share"]) for point in run["curve"]), strict=True)
            left.plot(across, up, color=colour, linestyle="--" if late else "-", linewidth=1, label=label)
            end = run["scores"]["validation"]
            right.plot(end["whitespace_share"], end["class_rates"]["word start"], "o", color=colour,
                       fillstyle="none" if late else "full", label=label)  # fmt: skip
            label = None
    left.set(xlabel="MB of training text", ylabel="share of white space with a boundary", ylim=(0, 1.02))
    right.set(xlabel="share of white space with a boundary", ylabel="share of first letters", xlim=(0, 1.02), ylim=(0, None))
    drawing.legend(*right.get_legend_handles_labels(), loc="outside lower center", ncols=len(multipliers), fontsize=8)
    return drawing
