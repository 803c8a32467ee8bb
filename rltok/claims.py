"""What the paper claims, each with the number behind it and the way in which our runs are asked about it.

A claim's `judge` takes a sweep and the name of the contender that stands for the paper's method: `ours` (gamma 0.99, as the
text says) or `ours_gamma0.9` (as the authors' code very probably ran). What no run can answer has `judges.no_run`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from rltok import judges
from rltok.judges import MARGIN, RATE_MARGIN, STABLE, WHITE
from rltok.paper_numbers import ABLATION, FIGURE_3, FIGURE_4, PLACE_NAMES, TABLE_1, TABLE_3
from rltok.records import Sweep
from rltok.verdicts import Finding

OURS = ("ours", "ours_gamma0.9")
Judge = Callable[[Sweep, str], Finding]


@dataclass(frozen=True)
class Claim:
    """One claim: a short name, what is claimed, where, the paper's number, and how it is judged."""

    id: str
    text: str
    source: str
    paper: str
    judge: Judge
    headline: bool = False  # also in the README


def _of_text(judge: Callable[..., Finding], **about: object) -> Judge:
    return partial(judges.of_text, judge=partial(judge, **about))


def _gap_of(first: str, second: str, place: str) -> str:
    a, b = TABLE_1[first][place], TABLE_1[second][place]
    return f"{a.mean - b.mean:+.3f} ± {(a.error**2 + b.error**2) ** 0.5:.3f}"


def _gaps_of(rivals: Sequence[str], place: str) -> str:
    return "; ".join(f"{rival}: {_gap_of('ours', rival, place)}" for rival in rivals)


def _table_1() -> list[Claim]:
    """Claims of Table 1 and of the text about it."""
    rivals = ("even", "dynamic_pooling_port", "hnet_port")
    words = {"even": "evenly spaced boundaries", "dynamic_pooling_port": "dynamic pooling", "hnet_port": "H-Net"}
    found = [
        Claim(
            f"test_{rival}",
            f"held-out text: fewer bits per byte than {words[rival]}",
            "Table 1",
            _gap_of("ours", rival, "test"),
            partial(judges.lower, first="ours", second=rival, place="test"),
            True,
        )
        for rival in rivals
    ]
    found += [
        Claim(
            f"best_{place}",
            f"{PLACE_NAMES[place]}: the lowest of the four primary methods",
            "§4.2, Table 1",
            _gaps_of(rivals, place),
            partial(judges.lower_than_each, rivals=rivals, place=place),
            True,
        )
        for place in ("piqa", "hellaswag", "lambada")
    ]
    even = Claim(
        "arc_even",
        "ARC-Easy: evenly spaced boundaries beat ours (by Table 1; the text says about one standard error)",
        "Table 1",
        _gap_of("even", "ours", "arc_easy"),
        partial(judges.lower, first="even", second="ours", place="arc_easy"),
    )
    return [*found, even]


def _guidance_and_lags() -> list[Claim]:
    """Claims of Table 1 about BPE guidance and about a shorter memory."""
    bpe = [
        Claim(
            f"bpe_{place}",
            f"{PLACE_NAMES[place]}: fewer bits per byte than BPE guidance",
            "Table 1",
            _gap_of("ours", "bpe", place),
            partial(judges.lower, first="ours", second="bpe", place=place),
        )
        for place in ("piqa", "hellaswag", "arc_easy")
    ]
    return [
        Claim(
            "bpe_test",
            f"held-out text: as good as BPE guidance, within {MARGIN} bits per byte",
            "§4.3, Table 1",
            _gap_of("ours", "bpe", "test"),
            partial(judges.equal, first="ours", second="bpe", place="test"),
            True,
        ),
        *bpe,
        Claim(
            "bpe_lambada",
            "LAMBADA: BPE guidance beats ours (by Table 1)",
            "Table 1",
            _gap_of("bpe", "ours", "lambada"),
            partial(judges.lower, first="bpe", second="ours", place="lambada"),
        ),
        Claim(
            "lags1_test",
            f"one lag does as well as eight, within {MARGIN} bits per byte",
            "§2.5, §4.2",
            _gap_of("ours_lags1", "ours", "test"),
            _of_text(judges.equal, first="ours_lags1", second="ours", place="test"),
            True,
        ),
        Claim(
            "lags1_lambada",
            "LAMBADA: one lag beats eight (by Table 1)",
            "Table 1",
            _gap_of("ours_lags1", "ours", "lambada"),
            _of_text(judges.lower, first="ours_lags1", second="ours", place="lambada"),
        ),
    ]


def _figures() -> list[Claim]:
    """Claims of Table 3 and of the curves."""
    end, straight = FIGURE_3["ours"], " and ".join(f"{end:.2f}" for end in FIGURE_3["straight_through"])
    curves = {
        "random_k": ("random boundaries", f"{end} against {FIGURE_3['random_k']}"),
        "dynamic_pooling_port": ("dynamic pooling", f"{end} against one of {straight}"),
        "hnet_port": ("H-Net", f"{end} against one of {straight}"),
    }
    return [
        Claim(
            "rates",
            f"boundaries per byte within {RATE_MARGIN} of the target",
            "Table 3",
            "; ".join(f"{name}: {rate}" for name, rate in TABLE_3.items() if name != "bpe"),
            judges.rates_near_target,
        ),
        *(
            Claim(
                f"flops_{rival}",
                f"at equal training FLOPs, fewer bits per byte than {told}",
                "Figure 3",
                paper,
                partial(judges.at_equal_flops, rival=rival),
            )
            for rival, (told, paper) in curves.items()
        ),
        Claim(
            "python",
            "Python code at 90M: fewer bits per byte than H-Net",
            "Figure 4",
            f"{FIGURE_4['ours']} against {FIGURE_4['hnet_port']}",
            judges.no_run,
        ),
    ]


def _boundaries() -> list[Claim]:
    """Claims about where boundaries are, and when they got there."""
    return [
        Claim(
            "python_places",
            "Python code: boundaries at the start of module names, few in repeated licences",
            "§4.4, Figures 5, 9, 10",
            "pictures",
            judges.no_run,
        ),
        Claim(
            "white_space",
            f"boundaries at white space: after at least {WHITE} of its bytes",
            "§4.1, Figures 2 and 6",
            f"pictures; {ABLATION['ours'][1]} in the authors' ablation at 40M",
            judges.white_space,
            True,
        ),
        Claim(
            "entropy",
            "the policy's entropy has halved after a tenth of training",
            "Figure 13",
            "picture",
            judges.entropy_falls_early,
        ),
        Claim(
            "stable",
            f"boundaries are stable after a tenth of training: F1 of at least {STABLE} against the final ones",
            "Figure 13",
            "about 10 % of training",
            judges.stable_after,
        ),
        Claim("returns", "returns grow with the position in the row", "§2.4", "in words", judges.returns_grow),
        Claim(
            "every_second",
            "at a target of 1/2: every second byte, and periods",
            "B.6, Figures 11 and 12",
            "pictures",
            judges.no_run,
        ),
        Claim("rates_robust", "at targets of 1/4 and 1/6: white space", "B.6, Figures 11 and 12", "pictures", judges.no_run),
        Claim("aspect", "two token layers at rate 1/2 have the lowest loss at 20M to 40M", "§5", "in words", judges.no_run),
    ]


def _ablations() -> list[Claim]:
    """Of the authors' repository, not of the paper; the sign of their difference is what is asked about."""
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
                _of_text(judges.ablation, without=name, wanted=wanted),
            )
        )
    return claims


def claims() -> list[Claim]:
    """Every claim that runs at scale are asked about, in the order of the paper."""
    return [*_table_1(), *_guidance_and_lags(), *_figures(), *_boundaries(), *_ablations()]
