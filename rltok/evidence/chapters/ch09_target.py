"""Chapter 09: the rule by which a policy counts as never behind BPE guidance, and what stored runs say of it.

sweep, the sweep whose spread over seeds is to be halved --target_table--> each part of the rule with its verdict
results --judged--> a table for the runs that were known before, and one for each size that has run since
"""

import statistics
from pathlib import Path

from rltok.evidence import differences, verdicts
from rltok.evidence.chapters.ch09_courses import cell
from rltok.evidence.criteria import MARGIN
from rltok.evidence.headline import FAST, IN_SENTENCES, best_sweep, place_of
from rltok.evidence.records import RATE_OF, SCHEDULE, Sweep, read_sweeps
from rltok.evidence.words import ends, many
from rltok.show.tables import markdown
from rltok.statistics import Difference

PLANS = ("32m_target", "147m_target")
GUIDANCE, CAUSAL = "bpe", "bpe_causal"
MORE_FLOPS = 1.02  # the policy's training FLOPs over the tokenizer's, at most
TO_HALVE = "to be halved"  # in place of a verdict on the runs that set the measure
LESS_SPREAD = 0.5  # of the deviation over seeds of the runs that the rule was written after


def matched(rival: str) -> str:
    """The policy that draws as many boundaries as a tokenizer."""
    return f"{FAST}{RATE_OF}{rival}"


def deviation(sweep: Sweep) -> float | None:
    """Deviation over seeds of the policy's loss minus BPE guidance's at equal rates, bits per byte; None from too few."""
    bits = sweep.bits_per_byte[place_of(sweep)]
    if not {matched(GUIDANCE), GUIDANCE} <= set(sweep.runs):
        return None
    ours, theirs = bits[matched(GUIDANCE)], bits[GUIDANCE]
    apart = (ours - theirs).dropna()
    return statistics.stdev(apart) if len(apart) >= verdicts.LEAST_SEEDS else None


def flops_ratio(sweep: Sweep, rival: str) -> float:
    """The policy's training FLOPs over a tokenizer's at equal rates, attention included; means over seeds."""
    ours, theirs = (
        statistics.fmean(sweep.each(name, lambda run: run["flops"] + run["attention_flops"])) for name in (matched(rival), rival)
    )
    return ours / theirs


def _row(words: str, verdict: str, found: Difference) -> list[str]:
    return [words, f"{cell(found)} bits per byte, {many(found.seeds, 'seed')}", verdict]


def target_table(sweep: Sweep, before: Sweep) -> str:
    """Markdown: the parts of the rule, what was measured, and the verdict by the book's rule of judging.

    Args:
        before: the runs that were known when the rule was written, whose spread over seeds is to be halved.
    """
    rows, place = [], place_of(sweep)
    behind, ahead = (differences.matched_gap(sweep, matched(rival), place) for rival in (GUIDANCE, CAUSAL))
    if behind is not None:
        words = f"at most {MARGIN} worse than {IN_SENTENCES[GUIDANCE]}"
        rows.append(_row(words, verdicts.non_inferior(behind, MARGIN), behind))
    if ahead is not None:
        words = f"better than {IN_SENTENCES[CAUSAL]}"
        rows.append(_row(words, verdicts.one_sided(ahead, wanted=-1), ahead))
    if ratios := [flops_ratio(sweep, rival) for rival, found in ((GUIDANCE, behind), (CAUSAL, ahead)) if found is not None]:
        met = verdicts.SUPPORTED if max(ratios) <= MORE_FLOPS else verdicts.CONTRADICTED
        rows.append([f"at most {MORE_FLOPS} times the FLOPs of either", ends(ratios, ".3f"), met])
    now, then = deviation(sweep), deviation(before)
    if now is not None and then is not None:
        most = LESS_SPREAD * then
        met = verdicts.SUPPORTED if now <= most else verdicts.CONTRADICTED
        words = f"deviation over seeds at most {most:.4f}, half that of `{before.name}`"
        rows.append([words, f"{now:.4f} bits per byte", TO_HALVE if sweep is before else met])
    return markdown([f"part of the rule (`{sweep.name}`, {place} text)", "measured", "verdict"], rows)


def judged(results: Path) -> str:
    """Markdown: the rule applied to the runs that were known when it was written, then to those of each plan that has run."""
    before, folder = best_sweep(results), results / "beyond"
    since = [read_sweeps(folder, varied=SCHEDULE, only=plan)[plan] for plan in PLANS if (folder / plan).is_dir()]
    tables = [target_table(sweep, before) for sweep in (before, *since)]
    yet = [f"`{plan}`" for plan in PLANS if plan not in [sweep.name for sweep in since]]
    return "\n\n".join([*tables, *([f"Not run yet: {' and '.join(yet)}."] if yet else [])])
