"""Counts, differences and findings in words, as tables and sentences print them."""

from collections.abc import Iterable

from rltok.evidence.verdicts import NO_PAIR, NO_RUN, Finding, Number, Part
from rltok.show.words import many
from rltok.statistics import ROUNDING, SURE, Difference

NONE = "-"  # a cell without a number
TOGETHER = "\N{NO-BREAK SPACE}"
NO_USE = "not interpretable at this size"  # of a benchmark whose accuracies are those of guessing


def many_seeds(counts: Iterable[int]) -> str:
    """How many seeds several methods have: 3 seeds, 1 to 2 seeds."""
    known = [*counts]
    fewest, most = min(known), max(known)
    return many(most, "seed") if fewest == most else f"{fewest} to {many(most, 'seed')}"


def ends(values: Iterable[float], shown: str) -> str:
    """The least and the most of several numbers, or the one that both read."""
    known = [*values]
    low, high = (format(end, shown) for end in (min(known), max(known)))
    return low if low == high else f"{low} to {high}"


def with_interval(difference: Difference) -> str:
    """A difference with its errors, and half the width of its interval where the error over seeds is known."""
    reach = difference.reach()
    if difference.error_seeds is None or reach is None or reach < ROUNDING:
        return str(difference)
    return f"{difference} ({SURE:.0%}: ± {reach:.4f})"


def with_seeds(difference: Difference) -> str:
    """A difference with its interval, and its number of seeds."""
    return f"{with_interval(difference)}, {many(difference.seeds, 'seed')}"


def number(mean: float, error: float | None, shown: str) -> str:
    """A mean, ± its error where there is one; `shown` is the format of the mean, whose sign the error does without."""
    return f"{mean:{shown}}" + ("" if error is None else f" ± {error:{shown.removeprefix('+')}}")


def on_one_line(text: str) -> str:
    """With spaces that break no line around ±, so that a number and its error stay together."""
    return text.replace(" ± ", f"{TOGETHER}±{TOGETHER}")


def amount(difference: Difference, shown: str = "+.3f") -> str:
    """A difference ± half its interval, on one line."""
    return on_one_line(number(difference.bits, difference.reach(), shown))


def measured(part: Part) -> str:
    """What was measured of a part of a claim; after its name where the claim has several."""
    match part.measured:
        case Difference() as difference:
            value = with_seeds(difference)
        case Number(mean, error, seeds, shown, after):
            late = "" if after is None else f", after {after / 1e6:.3g} MB"
            value = f"{number(mean, error, shown)}, {many(seeds, 'seed')}{late}"
        case text:
            value = text or NONE
    return f"{part.name}: {value}" if part.name else value


def lines(finding: Finding) -> list[str]:
    """What was measured of a claim, a line for each part; with its verdict where there are several."""
    return [measured(part) + (f": {part.verdict}" if part.name else "") for part in finding.measured]


def deciding(finding: Finding) -> str:
    """The parts of a claim that decide its verdict, and how many others there are."""
    parts = [measured(part) for part in finding.measured if part.verdict == finding.verdict]
    left = len(finding.measured) - len(parts)
    return ", ".join(parts) + (f" ({many(left, 'other part')} in the table)" if left else "") + chance_mark(finding)


def chance_mark(finding: Finding) -> str:
    """What is said of a claim about a benchmark that no method of the sweep answers better than by guessing; else nothing."""
    return f" [{NO_USE}]" if finding.at_chance and finding.measured else ""


def verdict(finding: Finding | None) -> str:
    """The verdict on a claim; one of smoke runs says so, and a claim that was not asked has none."""
    if finding is None:
        return NONE
    return finding.verdict if not finding.smoke or finding.verdict in (NO_RUN, NO_PAIR) else f"smoke: {finding.verdict}"
