"""Runs of another size or learning rate in short: their order, and each claim that they speak for or against.

(sweep, sweep beside it) --aside--> Markdown
"""

from collections.abc import Sequence

from rltok.evidence import differences, words
from rltok.evidence.claims import RIVALS
from rltok.evidence.criteria import TEXT_POLICY, Claim
from rltok.evidence.records import Sweep
from rltok.evidence.summary import GAMMAS, minus_baseline, order
from rltok.evidence.tables import BASELINE, judged_claims, label, methods_of
from rltok.evidence.verdicts import CONTRADICTED, LEANS, LEAST_SEEDS, NO_PAIR, NO_RUN, SUPPORTED, UNDECIDED, Finding, Part
from rltok.evidence.words import many, with_interval
from rltok.statistics import Difference

GUIDED = "bpe"  # what the paper's method is to match
PLACE = "test"
SIDES = (  # words, verdicts, and whether of the main claims alone
    ("Speaks against", (CONTRADICTED, LEANS[CONTRADICTED]), False),
    ("Speaks for", (SUPPORTED, LEANS[SUPPORTED]), False),
    ("Leaves open", (UNDECIDED, NO_PAIR), True),
)
Judged = tuple[Claim, list[Finding | None]]


def aside(sweep: Sweep, beside: Sweep | None = None, main: bool = False) -> str:
    """Markdown: the order of its methods, then a line for each claim that it speaks against, for, or leaves open.

    `main` leaves out other claims than main ones, such as those about a tenth of training, which a later peak of the learning
    rate makes unfair. Where no two of its methods share two seeds, it borrows the deviation from seed to seed of `beside`.
    """
    sweep = differences.borrowing(sweep, beside)
    seeds = max((len(runs) for name, runs in sweep.runs.items() if name != BASELINE), default=1)  # it alone compares nothing
    more = f" beside `{BASELINE}`" if len(sweep.runs.get(BASELINE, ())) > seeds else ""
    least = "" if seeds >= LEAST_SEEDS else ", so leaning at most"
    head = f"**At `{label(sweep)}`** ({many(len(sweep.records), 'run')}, at most {many(seeds, 'seed')} each{more}{least}):"
    guided = {name: differences.gap(sweep, name, GUIDED, PLACE) for name in methods_of(sweep) if name.startswith(TEXT_POLICY)}
    sentences = [f"`{name}` minus `{GUIDED}` is {with_interval(gap)}." for name, gap in guided.items() if gap is not None]
    judged = judged_claims(sweep)
    sides = [_side(judged, title, verdicts, main or of_main) for title, verdicts, of_main in SIDES]
    gaps = [gap for name, gap in minus_baseline(sweep, PLACE).items() if name != BASELINE]
    printed = [*gaps, *guided.values(), *(part.measured for _, parts in sides for part in parts)]
    if any(isinstance(one, Difference) and one.borrowed for one in printed):
        sentences.append(_donor(sweep))
    paragraph = " ".join(filter(None, [head, order(sweep, PLACE, page=False), *sentences, _without(sweep)]))
    return "\n\n".join([paragraph, *(block for block, _ in sides)])


def _side(judged: Sequence[Judged], title: str, verdicts: Sequence[str], main: bool) -> tuple[str, list[Part]]:
    """The claims with one of these verdicts, a line each, and the parts of them that the lines print."""
    lines, printed = [], []
    for claim, findings in judged:
        spoken = {
            gamma: (_spoken(one, verdicts), _in_words(one, verdicts)) for gamma, one in zip(GAMMAS, findings, strict=True) if one
        }
        texts = {gamma: text for gamma, (_, text) in spoken.items() if text}
        if not texts or (main and not claim.headline):
            continue
        printed += [part for parts, _ in spoken.values() for part in parts]
        same = len(texts) == len(findings) and len(set(texts.values())) == 1  # of a claim that is not about the policy
        each = [text if same else f"γ = {gamma}: {text}" for gamma, text in texts.items()]
        lines.append(f"* {claim.text} ({claim.source}): {'; '.join(dict.fromkeys(each))}")
    of = ", of the main claims that were run" if main else ""
    return f"**{title}{of}:**\n\n" + "\n".join(lines or ["* nothing"]), printed


def _spoken(finding: Finding, verdicts: Sequence[str]) -> list[Part]:
    """The parts that decide a verdict of these; of a claim whose other rivals have no run, those that have one of these."""
    wanted = [finding.verdict] if finding.verdict in verdicts else verdicts if finding.verdict == NO_RUN else []
    return [part for part in finding.measured if part.verdict in wanted]


def _in_words(finding: Finding, verdicts: Sequence[str]) -> str:
    if finding.verdict == NO_PAIR and NO_PAIR in verdicts:
        return "no score in common"
    if finding.verdict in verdicts:
        return words.deciding(finding)
    parts = [words.measured(part) for part in _spoken(finding, verdicts)]
    return f"in part, {'; '.join(parts)}" if parts else ""


def _donor(sweep: Sweep) -> str:
    """Whose deviation the errors in parentheses are."""
    spread = differences.deviation(sweep, PLACE)
    if spread is None:
        return ""
    return (
        f"Errors in parentheses are borrowed: from seed to seed at `{label(differences.source(sweep, PLACE))}` a difference on"
        f" {PLACE} text deviates by {spread:.3f}, on benchmarks by other amounts."
    )


def _without(sweep: Sweep) -> str:
    """Which rivals of the paper's table have no run, and what that does to claims about each of them."""
    missing = [f"`{rival}`" for rival in (*RIVALS, GUIDED) if rival not in sweep.runs]
    if not missing:
        return ""
    return f"Not run: {', '.join(missing)}; a claim about each of several rivals can fail without them, but not succeed."
