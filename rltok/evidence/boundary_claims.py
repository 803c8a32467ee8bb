"""Claims about boundaries, returns, and parts of the method: Figures 2, 5 to 13, Table 3, sections 2.4, 5 and B.6."""

from functools import partial

from rltok.evidence import criteria
from rltok.evidence.criteria import RATE_MARGIN, STABLE, WHITE, Claim, of_text
from rltok.evidence.paper import ABLATION, TABLE_3
from rltok.presets import preset

TENTH = f"{preset('147m').train.training_bytes / 1e7:.0f} MB"  # of the paper's text


def place_claims() -> list[Claim]:
    """How many boundaries, where, and from when on."""
    return [
        Claim(
            "rate",
            f"our boundaries per byte lie within {RATE_MARGIN} (our threshold) of the target",
            "Table 3",
            f"{TABLE_3['ours']} for 0.2",
            criteria.rate_near_target,
        ),
        Claim(
            "rate_below",
            "our rate is below those of H-Net and BPE guidance",
            "appendix D, Table 3",
            f"{TABLE_3['ours']} against {TABLE_3['hnet_port']} and {TABLE_3['bpe']}",
            partial(criteria.rate_below, rivals=("hnet_port", "bpe")),
        ),
        Claim(
            "python_places",
            "Python code: boundaries at the start of module names, few in repeated licences",
            "§4.4, Figures 5, 9, 10",
            "pictures",
            criteria.no_run,
        ),
        Claim(
            "white_space",
            f"boundaries at white space: after at least {WHITE} of its bytes (our threshold)",
            "§4.1, Figures 2 and 6",
            f"pictures\n{ABLATION['ours'][1]} in the authors' ablation at 40M",
            criteria.white_space,
            True,
        ),
        Claim(
            "entropy",
            "the policy's entropy falls early: to half after a tenth of training (our threshold)",
            "Figure 13",
            f"picture\na tenth is {TENTH}",
            criteria.entropy_falls_early,
        ),
        Claim(
            "stable",
            f"boundaries are stable after a tenth of training: F1 of at least {STABLE} (our threshold)",
            "Figure 13",
            f"about 10 % of training, {TENTH}",
            criteria.stable_after,
        ),
        Claim("returns_positive", "returns tend to be positive", "§2.4", "in words", criteria.returns_positive),
        Claim("returns", "returns grow with the position in the row", "§2.4", "in words", criteria.returns_grow),
        Claim(
            "every_second",
            "at a target of 1/2: every second byte, and periods",
            "B.6, Figures 11 and 12",
            "pictures",
            criteria.no_run,
        ),
        Claim("rates_robust", "at targets of 1/4 and 1/6: white space", "B.6, Figures 11 and 12", "pictures", criteria.no_run),
        Claim("aspect", "two token layers at rate 1/2 have the lowest loss at 20M to 40M", "§5", "in words", criteria.no_run),
    ]


def ablation_claims() -> list[Claim]:
    """Of the authors' repository, not of the paper, and made with gamma 0.99; the sign of their difference is asked about."""
    words = {
        "ours_gamma1": "no discount",
        "ours_no_centring": "no batch mean",
        "ours_no_early": "no early-exit baseline",
        "ours_lags0": "a policy without memory",
        "ours_no_rate_loss": "no rate loss",
    }
    claims = []
    for name, told in words.items():
        change = ABLATION[name][0] - ABLATION["ours"][0]
        side, wanted = ("more", 1) if change > 0 else ("fewer", -1)
        claims.append(
            Claim(
                f"ablation_{name.removeprefix('ours_')}",
                f"{told}: {side} bits per byte than the whole",
                "authors' repository",
                f"{change:+.3f}, white space {ABLATION[name][1]:g}",
                of_text(criteria.ablation, without=name, wanted=wanted),
            )
        )
    return claims
