"""What runs of another size or learning rate say, in short: their order, and each claim that they speak for or against.

(sweep, sweep beside it) --aside--> Markdown
"""

from collections.abc import Sequence

from rltok.evidence import donors
from rltok.evidence.claims import claims
from rltok.evidence.criteria import many, seeds_told
from rltok.evidence.loss_claims import RIVALS
from rltok.evidence.records import Sweep
from rltok.evidence.summary import GAMMAS, order, parts_of
from rltok.evidence.tables import REFERENCE, SMOKE, claim_rows, contenders_of, label
from rltok.evidence.verdicts import CONTRADICTED, INDICATIVE, LEAST_SEEDS, NO_PAIR, NO_RUN, SUPPORTED, UNDECIDED, in_sigmas

GUIDED = "bpe"  # what the paper's method is to match
SPOKEN = (  # words, verdicts, and whether of the main claims alone
    ("Speaks against", (CONTRADICTED, INDICATIVE[CONTRADICTED]), False),
    ("Speaks for", (SUPPORTED, INDICATIVE[SUPPORTED]), False),
    ("Leaves open", (UNDECIDED, NO_PAIR), True),
)


def aside(sweep: Sweep, beside: Sweep | None = None, main: bool = False) -> str:
    """Markdown: the order of its methods, then a line for each claim that it speaks against, for, or leaves open.

    `main` leaves out other claims than main ones, such as those about a tenth of training, which a later peak of the learning
    rate makes unfair. Where no two of its contenders have three seeds, it borrows the deviation from seed to seed of `beside`.
    """
    sweep = donors.borrowing(sweep, beside)
    rows = claim_rows(sweep)
    seeds = max((len(runs) for name, runs in sweep.runs.items() if name != REFERENCE), default=1)  # it alone compares nothing
    more = f" beside `{REFERENCE}`" if len(sweep.runs.get(REFERENCE, ())) > seeds else ""
    least = "" if seeds >= LEAST_SEEDS else ", so indicative at most"
    head = f"**At `{label(sweep)}`** ({many(len(sweep.records), 'run')}, at most {seeds_told(seeds)} each{more}{least}):"
    ordered = order(sweep, pointer=False).replace("**", "").replace("Bits", "bits", 1)
    blocks = [_spoken(rows, words, verdicts, main or only) for words, verdicts, only in SPOKEN]
    told = [head, ordered, _minus_guided(sweep)]
    lent = _borrowed(sweep) if any("/ (" in part for part in (*told, *blocks)) else ""
    return "\n\n".join([" ".join(filter(None, [*told, lent, _without(sweep)])), *blocks])


def _spoken(rows: Sequence[Sequence[str]], words: str, verdicts: Sequence[str], main: bool) -> str:
    """The claims with one of these verdicts, a line each; where a rival has no run, the parts that have one."""
    lines = []
    for claim, (text, where, _, *found) in zip(claims(), rows, strict=True):
        sides = zip(GAMMAS, found[::2], found[1::2], strict=True)
        told = {gamma: _told(ours, said.removeprefix(SMOKE), verdicts) for gamma, ours, said in sides}
        if not any(told.values()) or (main and not claim.headline):
            continue
        alike = len(set(told.values())) == 1  # of a claim that is not about ours
        each = [found if alike else f"γ = {gamma}: {found}" for gamma, found in told.items() if found]
        lines.append(f"* {text} ({where}): {'; '.join(dict.fromkeys(each))}")
    of = ", of the main claims that were run" if main else ""
    return f"**{words}{of}:**\n\n" + "\n".join(lines or ["* nothing"])


def _told(ours: str, verdict: str, verdicts: Sequence[str]) -> str:
    """What was found of a claim with one of these verdicts, or of its parts with one; nothing of others."""
    if verdict == NO_PAIR in verdicts:
        return "no score in common"
    if verdict in verdicts:
        return parts_of(ours, verdict).removesuffix(f": {verdict}")
    parts = [part.removesuffix(f": {one}") for part in ours.split("; ") for one in verdicts if part.endswith(f": {one}")]
    return f"in part, {'; '.join(parts)}" if parts and verdict == NO_RUN else ""


def _minus_guided(sweep: Sweep, place: str = "test") -> str:
    """How far each of ours is from guidance, which it is to match."""
    gaps = {name: donors.gap(sweep, name, GUIDED, place) for name in contenders_of(sweep) if name.startswith("ours")}
    told = [f"`{name}` minus `{GUIDED}` is {in_sigmas(gap[0])}." for name, gap in gaps.items() if gap]
    return " ".join(told)


def _borrowed(sweep: Sweep, place: str = "test") -> str:
    """Whose deviation the errors in parentheses are."""
    lender = donors.source(sweep, place)
    spread = donors.deviation(sweep, place)
    if spread is None:
        return ""
    return (
        f"Errors in parentheses are borrowed: from seed to seed at `{label(lender)}` a difference on {place} text deviates by"
        f" {spread:.3f}, on benchmarks by other amounts."
    )


def _without(sweep: Sweep) -> str:
    """Which rivals of the paper's table have no run, and what that does to claims about each of them."""
    missing = [f"`{rival}`" for rival in (*RIVALS, GUIDED) if rival not in sweep.runs]
    if not missing:
        return ""
    return f"Not run: {', '.join(missing)}; a claim about each of several rivals can fail without them, but not succeed."
