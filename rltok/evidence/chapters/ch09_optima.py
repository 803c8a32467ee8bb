"""Which optimum a policy found: at which places around words its boundaries lie, how often that happens, and at what loss.

run --found--> name of its places        sweep --optima--> each name: runs, share, loss with its interval --optima_table--> rows
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from rltok.errors import RltokError
from rltok.evidence.chapters.ch06_where import around_words
from rltok.evidence.record_file import Record
from rltok.evidence.records import Sweep, is_learned
from rltok.evidence.words import number
from rltok.show.tables import markdown
from rltok.statistics import SURE, mean_and_reach

PLACES = {"after spaces": "the space", "before second letters": "letter 1", "at last letters": "last letter before the space"}
MOST = 0.5  # share of words with a boundary at a place from which on it counts as found
NOWHERE = "at none of these"


def word_shares(run: Record) -> dict[str, float]:
    """The share of words that have a boundary at each of PLACES, in the held-out passages that the record keeps.

    Raises:
        RltokError: the passages hold no word after a letter and a space.
    """
    each = [around_words(sample) for sample in run["samples"]]
    drawn = {name: [bit for one in each for bit in one[place]] for name, place in PLACES.items()}
    if not all(drawn.values()):
        raise RltokError(f"the passages of {run['name']}, seed {run['seed']}, hold no words, so its boundaries have no place.")
    return {name: fmean(bits) for name, bits in drawn.items()}


def found(run: Record) -> str:
    """The places at which most words have a boundary, in the order of PLACES: runs with the same ones found the same optimum."""
    return ", ".join(name for name, share in word_shares(run).items() if share > MOST) or NOWHERE


@dataclass(frozen=True)
class Optimum:
    """Runs that found the same places."""

    name: str  # of `found`
    runs: int
    share: float  # of all runs that were looked at
    bits: float  # validation bits per byte, their mean
    reach: float | None  # half the width of its interval by Student's t; None for a single run
    places: dict[str, float]  # means of `word_shares`


def optima(runs: Sequence[Record]) -> list[Optimum]:
    """The optima that runs found, the most frequent first."""
    by_name: dict[str, list[Record]] = {}
    for run in runs:
        by_name.setdefault(found(run), []).append(run)
    made = []
    for name, alike in sorted(by_name.items(), key=lambda one: (-len(one[1]), one[0])):
        bits, reach = mean_and_reach([run["scores"]["validation"]["bits_per_byte"] for run in alike])
        shares = [word_shares(run) for run in alike]
        places = {place: fmean(share[place] for share in shares) for place in PLACES}
        made.append(Optimum(name, len(alike), len(alike) / len(runs), bits, reach, places))
    return made


def optima_table(sweep: Sweep) -> str:
    """Markdown: the optima that the policies of a sweep found, of all together and of each method; a row for each optimum."""
    methods = {name: list(seeds.values()) for name, seeds in sweep.runs.items() if is_learned(next(iter(seeds.values())))}
    groups = {"all": [run for runs in methods.values() for run in runs]} | {f"`{name}`": runs for name, runs in methods.items()}
    rows = [
        [
            label, one.name, f"{one.runs} of {len(runs)}", f"{one.share:.0%}", number(one.bits, one.reach, ".4f"),
            *(f"{one.places[place]:.2f}" for place in PLACES),
        ]
        for label, runs in groups.items() for one in optima(runs)
    ]  # fmt: skip
    head = ["policy", "most words have a boundary", "runs", "share", f"bits per byte, {SURE:.0%}", *PLACES]
    return markdown(head, rows)
