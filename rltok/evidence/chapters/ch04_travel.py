"""Chapter 04's view of the sweep tiny_travel: how far the policy's weights may move, from when on, and where boundaries end.

sweep --settings_of--> multiplier and start of each method    sweep --table--> Markdown    sweep --figure--> by bytes read
"""

import statistics
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from rltok.config import Config, from_dict
from rltok.errors import RltokError
from rltok.evidence import differences
from rltok.evidence.records import Sweep, is_learned, read_sweeps
from rltok.evidence.tables import BASELINE, over_seeds
from rltok.evidence.words import NONE, with_interval
from rltok.optim import policy_travel
from rltok.presets import preset
from rltok.show.plots import PALETTE
from rltok.show.tables import markdown

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PLAN = "tiny_travel"
PANELS = (("whitespace_share", "share of white space with a boundary"), ("policy_entropy", "policy entropy (nats per decision)"))


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


def travel_share(config: Config) -> float:
    """How far the policy's weights can move in this run, as a share of how far they can in the paper's at 147M."""
    return policy_travel(config) / policy_travel(preset("147m"))


def table(sweep: Sweep) -> str:
    """Markdown: a row for each method, of learned ones by when and how fast they move; ± over seeds, and the interval."""
    rows, configs = [], settings_of(sweep)
    for name in [*configs, *(name for name in sweep.runs if name not in configs)]:
        train = configs[name].train if name in configs else None
        about = [NONE] * 3 if train is None else [
            f"{train.policy_lr_multiplier:g}", f"{train.policy_start_fraction:.0%}", f"{travel_share(configs[name]):.2g}"
        ]  # fmt: skip
        gap = None if name == BASELINE else differences.gap(sweep, name, BASELINE, "validation")
        rows.append([
            f"`{name}`", *about, str(len(sweep.runs[name])), NONE if gap is None else with_interval(gap),
            over_seeds(sweep.values(name, "whitespace_share"), ".2f"), _first_letters(sweep, name),
            over_seeds(sweep.values(name, "policy_entropy"), ".3f"), over_seeds(sweep.values(name, "rate"), ".3f"),
        ])  # fmt: skip
    head = ["contender", "multiplier", "starts after", "travel / the paper's", "seeds", f"minus `{BASELINE}`", "white space",
            "first letters", "entropy, nats", "rate"]  # fmt: skip
    return markdown(head, rows)


def _first_letters(sweep: Sweep, name: str) -> str:
    """The share of the first letters of words with a boundary after them, over seeds."""
    return over_seeds(sweep.each(name, lambda run: run["scores"]["validation"]["class_rates"]["word start"]), ".2f")


def figure(sweep: Sweep) -> "Figure":
    """White space with a boundary (left) and entropy (right) by bytes read, means over seeds; dashed for a late start."""
    import matplotlib.pyplot as plt

    drawing, panels = plt.subplots(1, 2, figsize=(8.4, 3.9), layout="constrained")
    configs = settings_of(sweep)
    multipliers = sorted({config.train.policy_lr_multiplier for config in configs.values()})
    for axes, (key, words) in zip(panels, PANELS, strict=True):
        for name, config in configs.items():
            train, curves = config.train, [run["curve"] for run in sweep.runs[name].values()]
            across = [statistics.fmean(point["bytes"] for point in points) / 1e6 for points in zip(*curves, strict=True)]
            up = np.mean([[point[key] for point in curve] for curve in curves], axis=0)
            late = train.policy_start_fraction > 0
            axes.plot(across, up, color=PALETTE[multipliers.index(train.policy_lr_multiplier)], linestyle="--" if late else "-",
                      label=f"× {train.policy_lr_multiplier:g}" + (", late" if late else ""))  # fmt: skip
        axes.set(xlabel="MB of training text", ylabel=words, ylim=(0, None))
    drawing.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, fontsize=8)
    return drawing
