"""What the paper claims about runs at scale, each with the number behind it and the way in which our runs are asked about it.

A claim's `judge` takes a sweep and the name of the method that stands for the paper's policy: `ours` (gamma 0.99, as the text
says) or `ours_gamma0.9` (as the authors' code very probably ran). What no run can answer has `criteria.no_run`.
"""

from rltok.evidence.boundary_claims import ablation_claims, place_claims
from rltok.evidence.criteria import Claim
from rltok.evidence.loss_claims import curve_claims, guidance_claims, memory_claims, table_1_claims

POLICIES = ("ours", "ours_gamma0.9")


def claims() -> list[Claim]:
    """All of them, losses first."""
    return [*table_1_claims(), *guidance_claims(), *memory_claims(), *curve_claims(), *place_claims(), *ablation_claims()]
