"""What the paper claims about runs at scale, each with the number behind it and the way in which our runs are asked about it.

A claim's `criterion` takes a sweep and the name of the method that stands for the paper's policy: `ours` (gamma 0.99, as the text
says) or `ours_gamma0.9` (as the authors' code very probably ran). What no run can answer has `criteria.no_run`.
"""

from collections.abc import Sequence
from functools import partial

from rltok.evidence import criteria
from rltok.evidence.criteria import MARGIN, RATE_MARGIN, STABLE, TEXT_POLICY, WHITE, Claim, of_text
from rltok.evidence.paper import ABLATION, FIGURE_3, FIGURE_4, PLACE_NAMES, TABLE_1, TABLE_3
from rltok.presets import preset

POLICIES = (TEXT_POLICY, "ours_gamma0.9")
RIVALS = ("even", "dynamic_pooling_port", "hnet_port")
NAMES = {"even": "evenly spaced boundaries", "dynamic_pooling_port": "dynamic pooling", "hnet_port": "H-Net"}
ARC_MARGIN = 0.025  # one standard error of the difference in Table 1, which is what the text says of it
TENTH = f"{preset('147m').train.training_bytes / 1e7:.0f} MB"  # of the paper's text


def _gap_of(first: str, second: str, place: str) -> str:
    a, b = TABLE_1[first][place], TABLE_1[second][place]
    return f"{a.mean - b.mean:+.3f} ± {(a.error**2 + b.error**2) ** 0.5:.3f}"


def _gaps_of(first: str, rivals: Sequence[str], place: str) -> str:
    return "\n".join(f"{rival}: {_gap_of(first, rival, place)}" for rival in rivals)


def table_1_claims() -> list[Claim]:
    """Claims against the three methods that do not know a tokenizer."""
    from_table = [
        Claim(f"test_{rival}", f"held-out text: fewer bits per byte than {NAMES[rival]}", "Table 1",
            _gap_of("ours", rival, "test"), partial(criteria.lower, first="ours", second=rival, place="test"), True)
        for rival in RIVALS
    ]  # fmt: skip
    from_table += [
        Claim(f"best_{place}", f"{PLACE_NAMES[place]}: fewer bits per byte than each of the three", "§4.2, Table 1",
            _gaps_of("ours", RIVALS, place), partial(criteria.lower_than_each, first="ours", rivals=RIVALS, place=place), True)
        for place in ("piqa", "hellaswag", "lambada")
    ]  # fmt: skip
    arc = Claim("arc_even",
        f"ARC-Easy: no difference from evenly spaced boundaries beyond about one standard error ({ARC_MARGIN})",
        "§4.2; Table 1 has 1.7", _gap_of("ours", "even", "arc_easy"),
        partial(criteria.equal, first="ours", second="even", place="arc_easy", margin=ARC_MARGIN))  # fmt: skip
    return [*from_table, arc]


def guidance_claims() -> list[Claim]:
    """Claims about BPE guidance, which knows a tokenizer."""
    bpe = [
        Claim(f"bpe_{place}", f"{PLACE_NAMES[place]}: fewer bits per byte than BPE guidance", "Table 1",
            _gap_of("ours", "bpe", place), partial(criteria.lower, first="ours", second="bpe", place=place))
        for place in ("piqa", "hellaswag", "arc_easy")
    ]  # fmt: skip
    return [
        Claim("bpe_test", f"held-out text: as good as BPE guidance, at most {MARGIN} bits per byte worse", "§4.3, Table 1",
            _gap_of("ours", "bpe", "test"), partial(criteria.as_good, first="ours", second="bpe", place="test"), True),
        Claim("bpe_others", "held-out text: none of the other three is as good as BPE guidance", "§4.3, Table 1",
            _gaps_of("bpe", RIVALS, "test"), partial(criteria.lower_than_each, first="bpe", rivals=RIVALS, place="test")),
        *bpe,
        Claim("bpe_lambada", "LAMBADA: BPE guidance has fewer bits per byte than ours", "Table 1",
            _gap_of("bpe", "ours", "lambada"), partial(criteria.lower, first="bpe", second="ours", place="lambada")),
    ]  # fmt: skip


def memory_claims() -> list[Claim]:
    """Claims about a policy that sees one earlier decision, w = 1; what the authors' code ran under that name sees none."""
    paper = _gap_of("ours_lags1", "ours", "test")
    return [
        Claim("lags1_test", f"one lag is as good as eight, at most {MARGIN} bits per byte worse", "§2.5, §4.2", paper,
            of_text(criteria.as_good, first="ours_lags1", second="ours", place="test"), True),
        Claim("lags0_test",
            f"no lag, which the authors' code very probably ran as w = 1, is at most {MARGIN} bits per byte worse than eight",
            "§4.2", paper, of_text(criteria.as_good, first="ours_lags0", second="ours", place="test")),
        Claim("lags1_lambada", "LAMBADA: one lag has fewer bits per byte than eight", "Table 1",
            _gap_of("ours_lags1", "ours", "lambada"),
            of_text(criteria.lower, first="ours_lags1", second="ours", place="lambada")),
    ]  # fmt: skip


def curve_claims() -> list[Claim]:
    """Claims about losses at equal cost."""
    end, straight = FIGURE_3["ours"], " and ".join(f"{value:.2f}" for value in FIGURE_3["straight_through"])
    curves = {
        "random_k": ("random boundaries", f"{end} against {FIGURE_3['random_k']}"),
        "dynamic_pooling_port": ("dynamic pooling", f"{end} against one of {straight}"),
        "hnet_port": ("H-Net", f"{end} against one of {straight}"),
    }
    return [
        *(
            Claim(f"flops_{rival}", f"at equal training FLOPs, fewer bits per byte than {what}", "Figure 3", paper,
                partial(criteria.at_equal_flops, rival=rival))
            for rival, (what, paper) in curves.items()
        ),
        Claim("all_along", "at equal training FLOPs, fewer bits per byte than these three after each quarter of training",
            "§4.2, Figure 3", "curves", partial(criteria.all_along, rivals=tuple(curves))),
        Claim("python", "Python code at 90M: fewer bits per byte than H-Net", "Figure 4",
            f"{FIGURE_4['ours']} against {FIGURE_4['hnet_port']}", criteria.no_run),
    ]  # fmt: skip


def place_claims() -> list[Claim]:
    """Claims about how many boundaries there are, where, and from when on."""
    return [
        Claim("rate", f"our boundaries per byte lie within {RATE_MARGIN} (our threshold) of the target", "Table 3",
            f"{TABLE_3['ours']} for 0.2", criteria.rate_near_target),
        Claim("rate_below", "our rate is below those of H-Net and BPE guidance", "appendix D, Table 3",
            f"{TABLE_3['ours']} against {TABLE_3['hnet_port']} and {TABLE_3['bpe']}",
            partial(criteria.rate_below, rivals=("hnet_port", "bpe"))),
        Claim("python_places", "Python code: boundaries at the start of module names, few in repeated licences",
            "§4.4, Figures 5, 9, 10", "pictures", criteria.no_run),
        Claim("white_space", f"boundaries at white space: after at least {WHITE} of its bytes (our threshold)",
            "§4.1, Figures 2 and 6", f"pictures\n{ABLATION['ours'][1]} in the authors' ablation at 40M", criteria.white_space,
            True),
        Claim("entropy", "the policy's entropy falls early: to half after a tenth of training (our threshold)", "Figure 13",
            f"picture\na tenth is {TENTH}", criteria.entropy_falls_early),
        Claim("stable", f"boundaries are stable after a tenth of training: F1 of at least {STABLE} (our threshold)", "Figure 13",
            f"about 10 % of training, {TENTH}", criteria.stable_after),
        Claim("returns_positive", "returns tend to be positive", "§2.4", "in words", criteria.returns_positive),
        Claim("returns", "returns grow with the position in the row", "§2.4", "in words", criteria.returns_grow),
        Claim("every_second", "at a target of 1/2: every second byte, and periods", "B.6, Figures 11 and 12", "pictures",
            criteria.no_run),
        Claim("rates_robust", "at targets of 1/4 and 1/6: white space", "B.6, Figures 11 and 12", "pictures", criteria.no_run),
        Claim("aspect", "two token layers at rate 1/2 have the lowest loss at 20M to 40M", "§5", "in words", criteria.no_run),
    ]  # fmt: skip


def ablation_claims() -> list[Claim]:
    """Claims about the sign of ablations that stand in the authors' repository, not in the paper; made with gamma 0.99."""
    words = {
        "ours_gamma1": "no discount",
        "ours_no_centring": "no batch mean",
        "ours_no_early": "no early-exit baseline",
        "ours_lags0": "a policy without memory",
        "ours_no_rate_loss": "no rate loss",
    }
    claims = []
    for name, what in words.items():
        change = ABLATION[name][0] - ABLATION["ours"][0]
        side, wanted = ("more", 1) if change > 0 else ("fewer", -1)
        claims.append(
            Claim(f"ablation_{name.removeprefix('ours_')}", f"{what}: {side} bits per byte than the whole", "authors' repository",
                f"{change:+.3f}, white space {ABLATION[name][1]:g}", of_text(criteria.ablation, without=name, wanted=wanted))
        )  # fmt: skip
    return claims


def claims() -> list[Claim]:
    """All of them, losses first."""
    return [*table_1_claims(), *guidance_claims(), *memory_claims(), *curve_claims(), *place_claims(), *ablation_claims()]
