"""The paper's claims about losses: Table 1, BPE guidance, a shorter memory, Figures 3 and 4."""

from collections.abc import Sequence
from functools import partial

from rltok.evidence import criteria
from rltok.evidence.criteria import MARGIN, Claim, of_text
from rltok.evidence.paper import FIGURE_3, FIGURE_4, PLACE_NAMES, TABLE_1

RIVALS = ("even", "dynamic_pooling_port", "hnet_port")
NAMES = {"even": "evenly spaced boundaries", "dynamic_pooling_port": "dynamic pooling", "hnet_port": "H-Net"}
ARC_MARGIN = 0.025  # one standard error of the difference in Table 1, which is what the text says of it


def _gap_of(first: str, second: str, place: str) -> str:
    a, b = TABLE_1[first][place], TABLE_1[second][place]
    return f"{a.mean - b.mean:+.3f} ± {(a.error**2 + b.error**2) ** 0.5:.3f}"


def _gaps_of(first: str, rivals: Sequence[str], place: str) -> str:
    return "\n".join(f"{rival}: {_gap_of(first, rival, place)}" for rival in rivals)


def table_1_claims() -> list[Claim]:
    """Against the three methods that do not know a tokenizer."""
    found = [
        Claim(
            f"test_{rival}",
            f"held-out text: fewer bits per byte than {NAMES[rival]}",
            "Table 1",
            _gap_of("ours", rival, "test"),
            partial(criteria.lower, first="ours", second=rival, place="test"),
            True,
        )
        for rival in RIVALS
    ]
    found += [
        Claim(
            f"best_{place}",
            f"{PLACE_NAMES[place]}: fewer bits per byte than each of the three",
            "§4.2, Table 1",
            _gaps_of("ours", RIVALS, place),
            partial(criteria.lower_than_each, first="ours", rivals=RIVALS, place=place),
            True,
        )
        for place in ("piqa", "hellaswag", "lambada")
    ]
    arc = Claim(
        "arc_even",
        f"ARC-Easy: no difference from evenly spaced boundaries beyond about one standard error ({ARC_MARGIN})",
        "§4.2; Table 1 has 1.7",
        _gap_of("ours", "even", "arc_easy"),
        partial(criteria.equal, first="ours", second="even", place="arc_easy", margin=ARC_MARGIN),
    )
    return [*found, arc]


def guidance_claims() -> list[Claim]:
    """Beside BPE guidance, which knows a tokenizer."""
    bpe = [
        Claim(
            f"bpe_{place}",
            f"{PLACE_NAMES[place]}: fewer bits per byte than BPE guidance",
            "Table 1",
            _gap_of("ours", "bpe", place),
            partial(criteria.lower, first="ours", second="bpe", place=place),
        )
        for place in ("piqa", "hellaswag", "arc_easy")
    ]
    return [
        Claim(
            "bpe_test",
            f"held-out text: as good as BPE guidance, at most {MARGIN} bits per byte worse",
            "§4.3, Table 1",
            _gap_of("ours", "bpe", "test"),
            partial(criteria.as_good, first="ours", second="bpe", place="test"),
            True,
        ),
        Claim(
            "bpe_others",
            "held-out text: none of the other three is as good as BPE guidance",
            "§4.3, Table 1",
            _gaps_of("bpe", RIVALS, "test"),
            partial(criteria.lower_than_each, first="bpe", rivals=RIVALS, place="test"),
        ),
        *bpe,
        Claim(
            "bpe_lambada",
            "LAMBADA: BPE guidance has fewer bits per byte than ours",
            "Table 1",
            _gap_of("bpe", "ours", "lambada"),
            partial(criteria.lower, first="bpe", second="ours", place="lambada"),
        ),
    ]


def memory_claims() -> list[Claim]:
    """A policy that sees one earlier decision, w = 1; what the authors' code ran under that name sees none."""
    paper = _gap_of("ours_lags1", "ours", "test")
    return [
        Claim(
            "lags1_test",
            f"one lag is as good as eight, at most {MARGIN} bits per byte worse",
            "§2.5, §4.2",
            paper,
            of_text(criteria.as_good, first="ours_lags1", second="ours", place="test"),
            True,
        ),
        Claim(
            "lags0_test",
            f"no lag, which the authors' code very probably ran as w = 1, is at most {MARGIN} bits per byte worse than eight",
            "§4.2",
            paper,
            of_text(criteria.as_good, first="ours_lags0", second="ours", place="test"),
        ),
        Claim(
            "lags1_lambada",
            "LAMBADA: one lag has fewer bits per byte than eight",
            "Table 1",
            _gap_of("ours_lags1", "ours", "lambada"),
            of_text(criteria.lower, first="ours_lags1", second="ours", place="lambada"),
        ),
    ]


def curve_claims() -> list[Claim]:
    """At equal cost."""
    end, straight = FIGURE_3["ours"], " and ".join(f"{value:.2f}" for value in FIGURE_3["straight_through"])
    curves = {
        "random_k": ("random boundaries", f"{end} against {FIGURE_3['random_k']}"),
        "dynamic_pooling_port": ("dynamic pooling", f"{end} against one of {straight}"),
        "hnet_port": ("H-Net", f"{end} against one of {straight}"),
    }
    return [
        *(
            Claim(
                f"flops_{rival}",
                f"at equal training FLOPs, fewer bits per byte than {told}",
                "Figure 3",
                paper,
                partial(criteria.at_equal_flops, rival=rival),
            )
            for rival, (told, paper) in curves.items()
        ),
        Claim(
            "all_along",
            "at equal training FLOPs, fewer bits per byte than these three after each quarter of training",
            "§4.2, Figure 3",
            "curves",
            partial(criteria.all_along, rivals=tuple(curves)),
        ),
        Claim(
            "python",
            "Python code at 90M: fewer bits per byte than H-Net",
            "Figure 4",
            f"{FIGURE_4['ours']} against {FIGURE_4['hnet_port']}",
            criteria.no_run,
        ),
    ]
