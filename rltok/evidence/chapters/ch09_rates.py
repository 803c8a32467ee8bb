"""One model for a range of rates beside models with one rate each: what each costs and loses at the same target rates.

sweep --rate_curve--> at each rate both forms' bits and tokens per byte, and their difference --rates_table, rates_figure-->
"""

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Any

from rltok.errors import RltokError
from rltok.evidence.records import Sweep, is_learned
from rltok.evidence.words import NONE, number
from rltok.show.plots import PALETTE
from rltok.show.tables import markdown
from rltok.statistics import SURE, Difference, difference_of_seeds, mean_and_reach

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Scores = Mapping[int, Mapping[str, float]]  # by seed: bits_per_byte, tokens_per_byte, rate


@dataclass(frozen=True)
class OfForm:
    """What the models of one form score at a target rate, means over seeds; `reach` is half the width of a mean's interval by
    Student's t, None for a single seed."""

    seeds: int
    bits: float  # per byte
    bits_reach: float | None
    tokens: float  # per byte, forced ones too
    tokens_reach: float | None
    rate: float  # boundaries per drawn position


@dataclass(frozen=True)
class AtRate:
    """Both forms at one target rate."""

    target: float  # boundaries per byte
    ranged: OfForm  # one model for the whole range, told this rate
    single: OfForm | None  # a model with this rate alone; None where the sweep has none
    difference: Difference | None  # bits per byte, ranged minus single, paired by seed


def rate_curve(sweep: Sweep, place: str = "validation") -> list[AtRate]:
    """The curve of the sweep 32m_rates (or tiny_rates): loss and tokens of the model for a range at each rate that its records
    have a score for, beside the models with one rate each, densest rate first.

    Args:
        sweep: of one learned method with a range of rates and of any with one target rate each; other rules are passed over.
        place: "validation", or "test" where that has been scored.

    Raises:
        RltokError: no method, or several, with a range; two with the same single rate; no score here yet, or at any rate.
    """
    first = {name: next(iter(seeds.values())) for name, seeds in sweep.runs.items()}
    rules = {name: run["config"]["model"]["rule"] for name, run in first.items() if is_learned(run)}
    ranged = [name for name, rule in rules.items() if rule.get("lowest_rate") is not None]
    if len(ranged) != 1:
        raise RltokError(
            f"sweep {sweep.name} has {len(ranged)} methods with a range of rates, and a curve is of one. Take 32m_rates, or one"
            " like it."
        )
    single: dict[float, str] = {}
    for name in (name for name in rules if name not in ranged):
        if (other := single.setdefault(rules[name]["target_rate"], name)) != name:
            raise RltokError(f"{other} and {name} of sweep {sweep.name} have the same rate. Leave one of them out.")
    scored = _at_rates(sweep, ranged[0], place)
    if not scored:
        raise RltokError(f"{ranged[0]} of sweep {sweep.name} has a score at no rate: its range has none of export.RATES.")
    return [_at_rate(target, scored[target], _own(sweep, single.get(target), place)) for target in sorted(scored, reverse=True)]


def _at_rates(sweep: Sweep, name: str, place: str) -> dict[float, Scores]:
    """Scores of the model with a range by target rate and seed; a seed that was run several times has their mean."""
    found: dict[float, dict[int, list[dict[str, Any]]]] = {}
    for seed in sweep.runs[name]:
        for run in sweep.of_seed(name, seed):
            for score in _required(run["rates"][place], sweep, name, place):
                found.setdefault(score["target_rate"], {}).setdefault(seed, []).append(score)
    return {target: {seed: _mean(scores) for seed, scores in seeds.items()} for target, seeds in found.items()}


def _own(sweep: Sweep, name: str | None, place: str) -> Scores:
    """Scores of a model with one rate by seed; none without such a model."""
    seeds = {} if name is None else {seed: sweep.of_seed(name, seed) for seed in sweep.runs[name]}
    return {seed: _mean([_required(run["scores"][place], sweep, name, place) for run in runs]) for seed, runs in seeds.items()}


def _required(score: Any, sweep: Sweep, name: str | None, place: str) -> Any:
    if score is None:
        raise RltokError(f"{name} of sweep {sweep.name} has no score on {place} yet. Make it: scripts/measure/score_test.py.")
    return score


def _mean(scores: list[dict[str, Any]]) -> dict[str, float]:
    return {key: fmean(score[key] for score in scores) for key in ("bits_per_byte", "tokens_per_byte", "rate")}


def _at_rate(target: float, ranged: Scores, single: Scores) -> AtRate:
    shared = [seed for seed in ranged if seed in single]
    gaps = [ranged[seed]["bits_per_byte"] - single[seed]["bits_per_byte"] for seed in shared]
    return AtRate(target, _form(ranged), _form(single) if single else None, difference_of_seeds(gaps) if gaps else None)


def _form(scores: Scores) -> OfForm:
    bits, tokens = (mean_and_reach([score[key] for score in scores.values()]) for key in ("bits_per_byte", "tokens_per_byte"))
    return OfForm(len(scores), *bits, *tokens, fmean(score["rate"] for score in scores.values()))


def rates_table(sweep: Sweep, place: str = "validation") -> str:
    """Markdown: `rate_curve`, a row for each target rate, means ± half their intervals."""
    rows = []
    for at in rate_curve(sweep, place):
        forms = [at.ranged, at.single]
        rows.append([
            f"{at.target:.3f}",
            *(NONE if one is None else number(one.tokens, one.tokens_reach, ".3f") for one in forms),
            *(NONE if one is None else number(one.bits, one.bits_reach, ".4f") for one in forms),
            NONE if at.difference is None else number(at.difference.bits, at.difference.reach(), "+.4f"),
        ])  # fmt: skip
    forms = ["one for all", "one for this rate"]
    return markdown(
        ["target rate", *(f"tokens per byte, {form}" for form in forms), *(f"bits per byte, {form}" for form in forms),
         f"difference, {SURE:.0%}"], rows,
    )  # fmt: skip


def rates_figure(sweep: Sweep, place: str = "validation") -> "Figure":
    """`rate_curve`: bits per byte against tokens per byte with both intervals; a line joins the points of one model."""
    import matplotlib.pyplot as plt

    drawing, axes = plt.subplots(figsize=(6.4, 3.9), layout="constrained")
    curve = rate_curve(sweep, place)
    looks = (("one model for all rates", "o-", [at.ranged for at in curve]),
             ("a model for each rate", "s", [at.single for at in curve if at.single is not None]))  # fmt: skip
    for colour, (label, look, forms) in zip(PALETTE, looks, strict=False):
        axes.errorbar(
            [one.tokens for one in forms], [one.bits for one in forms], xerr=[one.tokens_reach or 0.0 for one in forms],
            yerr=[one.bits_reach or 0.0 for one in forms], fmt=look, color=colour, label=label, capsize=2, markersize=5,
        )  # fmt: skip
    axes.set(xlabel="tokens per byte", ylabel=f"bits per byte, {place}")
    axes.legend(fontsize=8)
    return drawing
