"""The rungs of the variance ladder: estimators of the policy gradient by name.

    naive  ->  causal  ->  + early  ->  + gamma0.9  ->  + batch

A name joins parts with "+": `naive` has none of the reductions, `causal+early+gamma0.9+batch` is the paper's estimator at
gamma = 0.9. What a name means is an `ObjectiveConfig`, so the laboratory measures what training uses.
"""

import difflib
import re
from dataclasses import replace

import numpy as np

from rltok.config import ObjectiveConfig
from rltok.errors import RltokError

NAIVE = ObjectiveConfig(gamma=1.0, relative_rewards=False, credit="total", centring="none")
PARTS = {
    "causal": {"credit": "causal"},  # reward-to-go: a decision is paid for what comes after it
    "early": {"relative_rewards": True},  # eq. (15)
    "batch": {"centring": "batch"},  # eq. (17)
    "loo": {"centring": "leave_one_out"},
}
REFERENCE = "causal+early+loo"  # unbiased for every batch of full rows, with less variance than naive
ALONE = ("naive", "causal", "early", "causal+gamma0.99", "causal+gamma0.9", "batch", "loo")
CUMULATIVE = (
    "naive", "causal", "causal+early", "causal+early+gamma0.99", "causal+early+gamma0.9", "causal+early+gamma0.99+batch",
    "causal+early+gamma0.9+batch", "causal+early+gamma0.9+loo",
)  # fmt: skip
GAMMAS = (0.0, 0.5, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 1.0)  # of the sweep over the discount


def ladder() -> list[str]:
    """Names of all rungs, alone and cumulative, the reference included; each once."""
    return list(dict.fromkeys((*CUMULATIVE, *ALONE, REFERENCE)))


def gamma_sweep() -> list[str]:
    """The full estimator at every discount of `GAMMAS`."""
    return [discounted_reference(gamma) for gamma in GAMMAS]


def spelled(gamma: float) -> str:
    """A discount as it stands in a name, exact and without an exponent: 0.9, 0, 0.00001."""
    return np.format_float_positional(gamma, trim="-")


def discounted_reference(gamma: float) -> str:
    """The reference at a discount."""
    return f"causal+early+gamma{spelled(gamma)}+loo" if gamma < 1 else REFERENCE


def estimator(name: str) -> ObjectiveConfig:
    """The four settings of an objective that a rung stands for.

    Raises:
        RltokError: a part that does not exist (it lists those that do), or parts that contradict each other.

    Example:
        >>> estimator("causal+early+gamma0.9+batch").gamma
        0.9
    """
    settings: dict[str, object] = {}
    for part in [] if name == "naive" else name.split("+"):
        gamma = re.fullmatch(r"gamma([0-9]+(?:\.[0-9]+)?)", part)
        own = {"gamma": float(gamma[1])} if gamma else PARTS.get(part)
        if own is None:
            close = difflib.get_close_matches(name, ladder(), n=1)
            raise RltokError(
                f"there is no estimator {name!r}: {part!r} is no part of one. A name is naive, or parts joined by +:"
                f" {', '.join(PARTS)}, gamma0.9 (any discount). The ladder has {', '.join(ladder())}."
                + (f" Did you mean {close[0]!r}?" if close else "")
            )
        if settings.keys() & own.keys():
            raise RltokError(f"estimator {name!r} sets {next(iter(own))} twice. Leave one of the parts out.")
        settings |= own
    if settings.get("gamma", 1.0) != 1.0 and "credit" not in settings:
        raise RltokError(
            f"estimator {name!r} discounts, but pays every decision the whole row's reward, near and far alike."
            f" Write causal+{name}, or leave gamma out."
        )
    try:
        return replace(NAIVE, **settings)
    except RltokError as error:  # a discount above 1
        raise RltokError(f"estimator {name!r}: {error}") from error
