"""Chapter 09: policies that differ in one thing: in their loss, in when they decide, and in where their boundaries end.

run --bytes_to_decide--> bytes     sweep, the method that others are compared with --courses_table, in_words--> Markdown
"""

import statistics
from collections.abc import Sequence

from rltok.evidence.chapters.ch09_optima import PLACES, found, optima
from rltok.evidence.differences import gap
from rltok.evidence.record_file import Record
from rltok.evidence.records import Sweep
from rltok.evidence.words import NONE, number, on_one_line
from rltok.show.tables import markdown
from rltok.statistics import Difference, difference_of_seeds

DECIDED = 0.1  # nats per decision: below it a policy counts as decided
FIRST = next(iter(PLACES))  # "after spaces"
PLACE = "validation"


def bytes_to_decide(run: Record) -> int | None:
    """Bytes read by the first point of the curve at which the policy's entropy is `DECIDED` or less; None where it never is."""
    low = (p["bytes"] for p in run["curve"] if p["policy_entropy"] is not None and p["policy_entropy"] <= DECIDED)
    return next(low, None)


def at_spaces(runs: Sequence[Record]) -> int:
    """Runs in which most words have a boundary after the space before them."""
    return sum(FIRST in found(run) for run in runs)


def later(sweep: Sweep, name: str, reference: str) -> Difference | None:
    """Megabytes to a decided policy minus the reference's, seed by seed; None where a run of either never decides."""
    pairs = [
        (bytes_to_decide(run), bytes_to_decide(sweep.runs[reference][seed]))
        for seed, run in sweep.runs[name].items() if seed in sweep.runs[reference]
    ]  # fmt: skip
    if not pairs or any(None in pair for pair in pairs):
        return None
    return difference_of_seeds([(mine - theirs) / 1e6 for mine, theirs in pairs])


def moved(sweep: Sweep, reference: str) -> dict[str, str]:
    """Of each method but the reference whether its loss is lower, higher, or undecided, by the interval over seeds and text."""
    return {name: gap(sweep, name, reference, PLACE).verdict for name in sweep.runs if name != reference}


def cell(found: Difference | None, shown: str = "+.3f") -> str:
    """A difference ± half its interval, on one line."""
    return NONE if found is None else on_one_line(number(found.bits, found.reach(), shown))


def _decides(runs: Sequence[Record]) -> str:
    """Megabytes to a decided policy, mean over the runs that get there; how many do not."""
    known = [bytes_to_decide(run) for run in runs]
    there = [one / 1e6 for one in known if one is not None]
    never = len(known) - len(there)
    return (f"{statistics.fmean(there):.2f}" if there else NONE) + (f", never in {never}" if never else "")


def courses_table(sweep: Sweep, reference: str) -> str:
    """Markdown: a row for each method: loss, bytes to a decided policy, tokens, FLOPs, and where its seeds ended.

    The loss of the reference stands in its own row; differences from it are seed by seed, ± half a 95 % interval.
    """
    rows, names = [], [one.name for one in optima(sweep.records)]
    for name in sorted(sweep.runs, key=lambda name: name != reference):  # the reference first
        seeds = sweep.runs[name]
        runs = list(seeds.values())
        flops = [run["flops"] / sweep.runs[reference][seed]["flops"] for seed, run in seeds.items()]
        own, ended = name == reference, [found(run) for run in runs]
        rows.append([
            f"`{name}`", f"{sweep.mean(name, PLACE).bits:.3f}" if own else cell(gap(sweep, name, reference, PLACE)),
            _decides(runs), NONE if own else cell(later(sweep, name, reference), "+.2f"),
            f"{statistics.fmean(sweep.values(name, 'tokens_per_byte', PLACE)):.3f}", f"{statistics.fmean(flops):.2f}",
            *(str(ended.count(place) or NONE) for place in names),
        ])  # fmt: skip
    head = ["policy", "bits per byte, then minus the first's", f"MB to {DECIDED} nats", "later by", "tokens per byte", "FLOPs"]
    return markdown([*head, *names], rows)


def in_words(sweep: Sweep, reference: str) -> str:
    """A sentence: in how many methods the loss, and the time to decide, differ from the reference's by more than an interval."""
    others = [name for name in sweep.runs if name != reference]
    lower = [name for name, verdict in moved(sweep, reference).items() if verdict == "lower"]
    higher = [name for name, verdict in moved(sweep, reference).items() if verdict == "higher"]
    times = {name: later(sweep, name, reference) for name in others}
    sooner = [name for name, one in times.items() if one is not None and one.sign() < 0]
    slower = [name for name, one in times.items() if one is not None and one.sign() > 0]
    parts = [
        f"the loss is lower in {len(lower)}{_named(lower)} and higher in {len(higher)}{_named(higher)}",
        f"the policy decides sooner in {len(sooner)}{_named(sooner)} and later in {len(slower)}{_named(slower)}",
    ]
    return f"Beyond its interval, of {len(others)} changes to `{reference}`: {'; '.join(parts)}."


def _named(names: Sequence[str]) -> str:
    return f" ({', '.join(f'`{name}`' for name in names)})" if names else ""
