"""Chapter 05b: rates that rules reached against those wanted, from a record of `measure_rates.py` or of a comparison."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rltok.evidence.ranking import MARKERS, last_fifth
from rltok.evidence.records import Sweep
from rltok.registry import RULES
from rltok.show.plots import PALETTE

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NEAREST = 1e-4  # distances are drawn as at least this, on a logarithmic axis


def controls_rate(rule: str) -> bool:
    """Whether a rule of `rltok.config` reads a target rate."""
    return "target_rate" in RULES[rule].settings


def farthest(sweep: Sweep, name: str) -> float | None:
    """Largest distance over seeds of a method's rate, over the last fifth of training, from its target; None without one."""
    runs = list(sweep.runs[name].values())
    rules = [run["config"]["model"]["rule"] for run in runs]
    if not controls_rate(rules[0]["name"]):
        return None
    return max(abs(last_fifth(run["curve"], "rate") - rule["target_rate"]) for run, rule in zip(runs, rules, strict=True))


def rate_runs(record: dict[str, Any]) -> dict[str, dict[int, list[dict[str, Any]]]]:
    """Runs of a record of rates by rule and bytes per token, in the record's order."""
    runs: dict[str, dict[int, list[dict[str, Any]]]] = {}
    for run in record["runs"]:
        runs.setdefault(run["rule"], {}).setdefault(round(1 / run["target"]), []).append(run)
    return runs


def rates_held(record: dict[str, Any]) -> list[str]:
    """A sentence for each rule: in how many runs the rate came within the record's tolerance, and the largest distance."""
    lines = []
    for rule, of in rate_runs(record).items():
        off = [abs(run["off"]) for runs in of.values() for run in runs]
        held = sum(value <= record["within"] for value in off)
        lines.append(f"{rule:16s} within {record['within']} in {held} of {len(off)} runs, at most {max(off):.4f} off")
    return lines


def rates_figure(record: dict[str, Any]) -> "Figure":
    """Rates reached against the target, and their distance from it; one dot for each run."""
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(8.4, 3.3))
    every = [1 / n for of in rate_runs(record).values() for n in of]
    left.plot([min(every), max(every)], [min(every), max(every)], color="k", linewidth=0.8)
    for number, (rule, of) in enumerate(rate_runs(record).items()):
        style = {
            "color": PALETTE[number % len(PALETTE)],
            "marker": MARKERS[number % len(MARKERS)],
            "linestyle": "",
            "markersize": 4,
        }
        runs = [run for runs in of.values() for run in runs]
        shift = 0.98 + 0.01 * number  # dots of different rules beside each other
        _points(left, [(run["target"] * shift, run["rate"]) for run in runs], rule, style)
        _points(right, [(run["target"] * shift, max(abs(run["off"]), NEAREST)) for run in runs], rule, style)
    right.axhline(record["within"], color="k", linewidth=0.8)
    left.set(xscale="log", yscale="log", xlabel="target rate", ylabel="rate reached")
    right.set(xscale="log", yscale="log", xlabel="target rate", ylabel="distance from the target")
    for panel in (left, right):
        panel.set_xticks(sorted(set(every)), [f"1/{round(1 / rate)}" for rate in sorted(set(every))])
        panel.minorticks_off()
    left.set_yticks(sorted(set(every)), [f"1/{round(1 / rate)}" for rate in sorted(set(every))])
    left.minorticks_off()
    figure.legend(*right.get_legend_handles_labels(), fontsize=8, loc="outside upper center", ncols=4)
    return figure


def _points(axes: "Axes", points: Sequence[tuple[float, float]], label: str, style: dict[str, Any]) -> None:
    axes.plot([x for x, _ in points], [y for _, y in points], label=label, **style)
