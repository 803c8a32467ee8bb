"""What learned boundaries cost beside BPE guidance, by the rule of section 4.2: the claim of less than 0.1 % more compute.

BPE guidance is given its boundaries: byte layers, token layers and output head alone. Learned boundaries take besides an early
head (14) of 257 d parameters a byte, and a policy (21) of (lags + 1) d. Estimator and scan multiply no matrices, so the rule
counts them as nothing; `Extra` counts their operations all the same. Both sides have the same number of tokens.
"""

import math
from dataclasses import dataclass, replace

from rltok.config import ModelConfig
from rltok.errors import RltokError
from rltok.flops import flops_per_byte, parameter_counts
from rltok.vocab import PREDICTED

CLAIM = 0.001  # section 2.1: "less than 0.1% additional pretraining compute"


@dataclass(frozen=True)
class Extra:
    """Training FLOPs per byte of BPE guidance, and what learned boundaries add to them."""

    guided: float
    early_head: float
    policy: float
    scan: float  # draw of one boundary: a product of decision and term, and a sum, a lag; scale, bias, comparison
    estimator: float  # eqs. (15) to (18): a difference; a product and a sum; a sum and a difference; a product and a sum

    @property
    def counted_share(self) -> float:
        """FLOPs of early head and policy, which is all that the paper's rule counts, in BPE guidance."""
        return (self.early_head + self.policy) / self.guided

    @property
    def share(self) -> float:
        """FLOPs of everything."""
        return (self.early_head + self.policy + self.scan + self.estimator) / self.guided


def extra(model: ModelConfig, tokens_per_byte: float, rank: int | None = None) -> Extra:
    """The costs of learned boundaries at this size; `rank` gives the early head two maps, of r d and 257 r parameters.

    Raises:
        RltokError: a rule other than learned, whose policy would be counted.
    """
    if model.rule.name != "learned":
        raise RltokError(f"costs of a policy are counted for the rule 'learned'; got {model.rule.name!r}. Take that rule.")
    d, lags, counts = model.embedding_dim, model.rule.lags, parameter_counts(model)
    given = replace(model, rule=replace(model.rule, name="even"))  # boundaries from outside: a rule without parameters
    early = counts["early_head"] if rank is None else rank * (d + len(PREDICTED))
    return Extra(
        guided=flops_per_byte(given, tokens_per_byte) - 6 * counts["early_head"],
        early_head=6 * early,
        policy=6 * counts["policy"],
        scan=2 * lags + 3,
        estimator=7,
    )


def largest_rank(model: ModelConfig, tokens_per_byte: float, bound: float) -> int:
    """The largest rank of an early head with which policy and early head stay within `bound` of BPE guidance; below 1: none does.

    floor((bound * guided / 6 - (lags + 1) d) / (d + 257)), where guided / 6 are byte layers + tokens_per_byte * token layers
    + output head.
    """
    costs = extra(model, tokens_per_byte)
    return math.floor((bound * costs.guided - costs.policy) / (6 * (model.embedding_dim + len(PREDICTED))))
