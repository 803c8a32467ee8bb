"""Settings that only a learned policy has, and the rates that it can have.

Each has the paper's value, at which a digest leaves it out, and which every rule without a policy must have.
"""

import dataclasses
import math
import operator
from typing import Any

from rltok.errors import RltokError
from rltok.registry import RULES

# Settings of training that only a policy has, with the paper's values, which every other rule must have.
OF_POLICY: dict[str, Any] = {
    "policy_lr_multiplier": 1.0, "policy_start_fraction": 0.0, "policy_first_multiplier": 0.0, "policy_beta2": None,
    "policy_restarts": 0, "policy_anneal_fraction": 0.0, "policy_first_rate": None, "policy_first_temperature": 1.0,
}  # fmt: skip
# the same of the objective
OF_ESTIMATOR: dict[str, Any] = {"draws": 1, "further_draws": "baseline", "lambda_entropy": 0.0, "least_entropy": 0.0}
# the same of the rule
OF_RANGE: dict[str, Any] = {"lowest_rate": None, "highest_rate": None}
# All of them by their dotted names.
OF_LEARNED: dict[str, Any] = {
    f"{section}.{name}": value
    for section, settings in (("train", OF_POLICY), ("objective", OF_ESTIMATOR), ("model.rule", OF_RANGE))
    for name, value in settings.items()
}
# Settings that do nothing while the one beside them is at the paper's value.
NEEDS = (
    ("train.policy_first_multiplier", "train.policy_start_fraction"),
    ("train.policy_first_rate", "train.policy_anneal_fraction"),
    ("train.policy_first_temperature", "train.policy_anneal_fraction"),
    ("objective.further_draws", "objective.draws"),
    ("objective.least_entropy", "objective.lambda_entropy"),
)


def check_policy(config: Any) -> None:
    """Raise `RltokError` where settings (a `Config`) have what only a policy has without one, or what does nothing, or no sense,
    with the rest."""
    rule, own = config.model.rule, {name: operator.attrgetter(name)(config) for name in OF_LEARNED}
    for name, value in own.items():
        if value != OF_LEARNED[name] and not RULES[rule.name].policy:
            raise RltokError(
                f"{name}={_shown(value)} is of a learned policy, and the rule {rule.name!r} has none."
                f" Set it to {_shown(OF_LEARNED[name])}, or model.rule.name to learned."
            )
    for name, other in NEEDS:
        if own[name] != OF_LEARNED[name] and own[other] == OF_LEARNED[other]:
            raise RltokError(
                f"{name}={_shown(own[name])} does nothing while {other} is {_shown(own[other])}."
                f" Set that, too, or {name} to {_shown(OF_LEARNED[name])}."
            )
    if rule.lowest_rate is not None and config.train.policy_first_rate is not None:
        raise RltokError(
            f"train.policy_first_rate={config.train.policy_first_rate:g} lets one target rate anneal, and model.rule.lowest_rate"
            " and highest_rate give every micro-batch its own. Set it to null, or those two."
        )
    rate = rule.target_rate if config.train.policy_first_rate is None else config.train.policy_first_rate
    dataclasses.replace(rule, target_rate=rate, scale=rule.scale * config.train.policy_first_temperature)  # checks its limits


def _shown(value: Any) -> str:
    """A setting as `--set` takes it."""
    return "null" if value is None else value if isinstance(value, str) else f"{value:g}"


def check_target_rate(setting: str, rate: float, softcap: float | None) -> None:
    """Raise `RltokError` for a rate without a logit, or with one that a policy under this soft cap (None: no cap) cannot have."""
    if not 0 < rate < 1:
        raise RltokError(
            f"{setting} must lie strictly between 0 and 1 because eq. (22) takes its logit; got {rate!r}."
            + (f" For one boundary every {rate:g} bytes write 1/{rate:g}." if rate > 1 else "")
        )
    start = abs(math.log(rate / (1 - rate)))
    if softcap is not None and start >= softcap:
        raise RltokError(
            f"model.rule.softcap={softcap:g} cannot reach {setting.rpartition('.')[2]}={rate:g}: its logit is"
            f" {math.log(rate / (1 - rate)):.2f}, and eq. (23) keeps logits inside ±{softcap:g}. Raise softcap above"
            f" {math.ceil(10 * start) / 10:g} or set it to null."
        )


def check_range(lowest: float | None, highest: float | None, target: float, softcap: float | None) -> None:
    """Raise `RltokError` for a range of target rates that is none, or without the rate that is taken where none is chosen."""
    both = "model.rule.lowest_rate and highest_rate"
    if lowest is None and highest is None:
        return
    if lowest is None or highest is None:
        raise RltokError(f"{both} are the ends of one range; got {lowest} and {highest}. Set both, or both to null.")
    for end, rate in (("lowest", lowest), ("highest", highest)):
        check_target_rate(f"model.rule.{end}_rate", rate, softcap)
    if lowest >= highest:
        raise RltokError(f"{both} must be in this order; got {lowest} and {highest}. Lower the first or raise the second.")
    if not lowest <= target <= highest:
        raise RltokError(
            f"model.rule.target_rate={target} must lie in the range from lowest_rate={lowest} to highest_rate={highest}:"
            " it is the rate of a model for which none is chosen. Change one of the three."
        )
