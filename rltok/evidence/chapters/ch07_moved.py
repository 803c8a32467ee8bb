"""What a change of the rule of judging moved, and what the sweep at each method's best schedule says otherwise than the first.

results --judge_all--> verdicts on all claims by the rule of today      a record of those by an earlier rule --moved--> Markdown
sweeps under several schedules --overturned--> Markdown
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rltok.errors import RltokError
from rltok.evidence import differences, tables
from rltok.evidence.chapters import ch06_runs, ch07_results
from rltok.evidence.claims import claims
from rltok.evidence.headline import NAMES, SLOW, shares
from rltok.evidence.records import Sweep
from rltok.evidence.small_claims import judged, small_claims
from rltok.evidence.summary import GAMMAS
from rltok.evidence.verdicts import RULE
from rltok.evidence.words import NONE
from rltok.show.tables import markdown
from rltok.system.files import read_file

RENAMED = {"indicative: for": "leans for", "indicative: against": "leans against"}
REMEDY = "Judge all sweeps anew: scripts/measure/keep_verdicts.py."
OVERTURNED = ((SLOW, "bpe"), (SLOW, "even"), (SLOW, "hnet_port"), ("bpe", "even"), ("bpe_causal", "even"), ("whitespace", "even"),
              ("entropy", "even"), ("hnet_port", "even"), ("random_k", "even"))  # fmt: skip
SMALL = "small runs"  # in place of a sweep: what counts, enumeration and small runs answer
Verdicts = Mapping[str, Sequence[str | None]]  # by claim, for each of POLICIES (None where it is not asked of one), or for all


def judge_all(results: Path) -> dict[str, dict[str, Any]]:
    """By sweep the rule and the verdicts of all claims: those at full size, that with another learning rate, and small runs."""
    sweeps = ch06_runs.all_sweeps(results / "sweeps")
    first = next(iter(sweeps.values()))
    slow = ch06_runs.schedule_sweep(results / "causes", f"{first.name}_slow", first)
    verdicts_of = {
        sweep.name: {claim.id: [one and one.verdict for one in findings]
                     for claim, findings in tables.judged_claims(differences.borrowing(sweep, first))}
        for sweep in [*sweeps.values(), *([slow] if slow else [])]
    }  # fmt: skip
    verdicts_of[SMALL] = {claim.id: [judged(claim, results).verdict] for claim in small_claims()}
    return {name: {"rule": RULE, "verdicts": verdicts} for name, verdicts in verdicts_of.items()}


def read(path: Path) -> tuple[str, dict[str, Verdicts]]:
    """An earlier rule, and the verdicts by it of each sweep.

    Raises:
        RltokError: the record is damaged, holds verdicts by several rules, or by the rule of today.
    """
    try:
        sweeps = json.loads(read_file(path))["sweeps"]
        rules = sorted({sweep["rule"] for sweep in sweeps.values()})
        verdicts = {name: dict(sweep["verdicts"]) for name, sweep in sweeps.items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise RltokError(f"{path} is no record of verdicts ({error!r}). Restore it from the repository.") from error
    if len(rules) != 1:
        raise RltokError(f"{path} mixes verdicts by {len(rules)} rules of judging: {'; '.join(rules) or 'none'}. {REMEDY}")
    if rules == [RULE]:
        raise RltokError(f"{path} holds verdicts by the rule of today, {RULE!r}, so nothing can have moved. {REMEDY}")
    return rules[0], verdicts


def moved(path: Path, now: Mapping[str, Mapping[str, Any]]) -> str:
    """Markdown: each verdict of the record that is another by the rule of today, and how many are the same.

    Raises:
        RltokError: see `read`; or `now` holds a verdict by another rule than that of today.
    """
    rule, before = read(path)
    if other := sorted({sweep["rule"] for sweep in now.values()} - {RULE}):
        raise RltokError(f"a table of verdicts by {RULE!r} cannot hold some by {other[0]!r}. {REMEDY}")
    texts, rows, same = {claim.id: claim.text for claim in (*claims(), *small_claims())}, [], 0
    for name, verdicts in before.items():
        for claim, each in now.get(name, {"verdicts": {}})["verdicts"].items():
            gammas = GAMMAS if len(each) > 1 else (NONE,)
            for gamma, old, new in zip(gammas, verdicts.get(claim, [None] * len(each)), each, strict=True):
                if old is not None and new is not None:
                    same += RENAMED.get(old, old) == new
                    rows += [[name, texts[claim], gamma, old, new]] if RENAMED.get(old, old) != new else []
    names = "; ".join(f"{old!r} is now {new!r}" for old, new in RENAMED.items())
    summary = f"By {rule}, then by {RULE}: {same} verdicts are the same ({names}), {len(rows)} are not:"
    return f"{summary}\n\n{markdown(['sweep', 'claim', 'γ', 'before', 'now'], rows)}"


def overturned(sweeps: Sequence[Sweep]) -> str:
    """Markdown: what the last of these sweeps, each under another schedule, says otherwise than the first; a column a sweep.

    Differences whose verdict or side is another, ± half a 95 % interval; and white space, where the policy's share differs.
    """
    first, *_, last = sweeps
    rows = []
    for one, other in OVERTURNED:
        gaps = [ch07_results.minus(sweep, one, other) for sweep in sweeps]
        if gaps[0] is None or gaps[-1] is None or ch07_results.side(gaps[0]) == ch07_results.side(gaps[-1]):
            continue
        rows.append(
            [f"{ch07_results.HEADS[one]} minus {NAMES[other]}", *map(ch07_results.cell, gaps), ch07_results.side(gaps[-1])]
        )
    share_cells = [shares(sweep, ch07_results.name_in(sweep, SLOW)) for sweep in sweeps]
    rows.append([f"white space with a boundary, {NAMES[SLOW]}", *share_cells, NONE])
    return markdown(["bits per byte", *(f"`{sweep.name}`" for sweep in sweeps), "now"], rows)
