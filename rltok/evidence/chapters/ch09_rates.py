"""One model for a range of rates beside models with one rate each: what each costs and loses at the same target rates.

sweep --rate_curve--> at each rate both forms' bits and tokens per byte, and their difference --rates_table, rates_figure-->
"""

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Any

from rltok.errors import RltokError
from rltok.evidence.records import Sweep, is_learned
from rltok.evidence.words import NONE, amount
from rltok.show.plots import PALETTE
from rltok.show.tables import markdown
from rltok.statistics import Difference, difference_of_seeds, mean_and_reach

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Scores = Mapping[int, Mapping[str, float]]  # by seed: bits_per_byte and tokens_per_byte


@dataclass(frozen=True)
class OfForm:
    """Scores of the models of one form at a target rate: means over seeds, `reach` half the width of their interval."""

    bits: float  # per byte
    bits_reach: float | None  # None for a single seed
    tokens: float  # per byte, forced ones too
    tokens_reach: float | None


@dataclass(frozen=True)
class AtRate:
    """Both forms at one target rate."""

    target: float  # boundaries per byte
    ranged: OfForm  # one model for the whole range, at this rate
    single: OfForm | None  # a model with this rate alone; None where the sweep has none
    difference: Difference | None  # bits per byte, ranged minus single, paired by seed


def rate_curve(sweep: Sweep, place: str = "validation") -> list[AtRate]:
    """Loss and tokens of a model for a range of rates, at each rate that its records have a score for, beside models with that
    rate alone; the densest rate first.

    Args:
        sweep: of one learned method with a range of rates and of any with one target rate each; other rules are passed over.
        place: "validation", or "test" where that has been scored.

    Raises:
        RltokError: no method, or several, with a range; two with the same single rate; no score here yet, or at any rate.
    """
    first = {name: next(iter(seeds.values())) for name, seeds in sweep.runs.items()}
    rules = {name: _rule(run) for name, run in first.items() if is_learned(run)}
    ranged = [name for name, rule in rules.items() if rule.get("lowest_rate")]
    if len(ranged) != 1:
        raise RltokError(
            f"sweep {sweep.name} has {len(ranged)} methods with a range of rates, and a curve is of one. Take 32m_rates, or one"
            " like it."
        )
    single: dict[float, str] = {}
    for name in (name for name in rules if name not in ranged):
        if (other := single.setdefault(rules[name]["target_rate"], name)) != name:
            raise RltokError(f"{other} and {name} of sweep {sweep.name} have the same rate. Leave one of them out.")
    scored = _scores(sweep, ranged[0], place)
    if not scored:
        raise RltokError(f"{ranged[0]} of sweep {sweep.name} has a score at no rate: its range has none of export.RATES.")
    own = {target: _scores(sweep, name, place)[target] for target, name in single.items() if target in scored}
    return [_at_rate(target, scored[target], own.get(target, {})) for target in sorted(scored, reverse=True)]


def _rule(run: Mapping[str, Any]) -> dict[str, Any]:
    return run["config"]["model"]["rule"]


def _scores(sweep: Sweep, name: str, place: str) -> dict[float, Scores]:
    """Scores of a method by target rate and seed; a seed that was run several times has their mean."""
    found: dict[float, dict[int, list[dict[str, Any]]]] = {}
    for seed in sweep.runs[name]:
        for run in sweep.of_seed(name, seed):
            rule = _rule(run)
            scores = run["rates"][place] if rule.get("lowest_rate") else run["scores"][place]
            if scores is None:
                raise RltokError(
                    f"{name} of sweep {sweep.name} has no score on {place} yet. Make it: scripts/measure/score_test.py."
                )
            for score in scores if isinstance(scores, list) else [scores | {"target_rate": rule["target_rate"]}]:
                found.setdefault(score["target_rate"], {}).setdefault(seed, []).append(score)
    keys = ("bits_per_byte", "tokens_per_byte")
    return {
        target: {seed: {key: fmean(score[key] for score in scores) for key in keys} for seed, scores in seeds.items()}
        for target, seeds in found.items()
    }


def _at_rate(target: float, ranged: Scores, single: Scores) -> AtRate:
    gaps = [ranged[seed]["bits_per_byte"] - single[seed]["bits_per_byte"] for seed in ranged if seed in single]
    return AtRate(target, _form(ranged), _form(single) if single else None, difference_of_seeds(gaps) if gaps else None)


def _form(scores: Scores) -> OfForm:
    bits, tokens = (mean_and_reach([score[key] for score in scores.values()]) for key in ("bits_per_byte", "tokens_per_byte"))
    return OfForm(*bits, *tokens)


def rates_table(sweep: Sweep, place: str = "validation") -> str:
    """Markdown: `rate_curve`, a row for each target rate: bits per byte of both forms, their difference ± half its interval."""
    rows = []
    for at in rate_curve(sweep, place):
        bits = [NONE if form is None else f"{form.bits:.3f}" for form in (at.ranged, at.single)]
        rows.append([f"1/{1 / at.target:.3g}", *bits, NONE if at.difference is None else amount(at.difference)])
    heads = [f"bits per byte, model for {form}" for form in ("all rates", "this rate")]
    return markdown(["target rate", *heads, "difference"], rows)


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
