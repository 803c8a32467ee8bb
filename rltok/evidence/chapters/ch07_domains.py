"""On which kind of held-out text a difference lies: books, speech, an encyclopaedia, or all alike.

documents --text_of--> Text: bytes and source of every scored one     sweep --by_kind--> gaps of each kind     record --table-->

Which source is of which kind does not depend on how much of it there is: the kinds in APART stand alone, all others are one.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rltok.config import DataConfig
from rltok.data import Document, cut_documents
from rltok.data.rows import PIECES
from rltok.errors import RltokError
from rltok.evidence.chapters import ch07_answers
from rltok.evidence.record_checks import Demand, check_digest, read_with_digest
from rltok.evidence.records import Sweep
from rltok.evidence.tables import BASELINE
from rltok.evidence.verdicts import LEAST_SEEDS
from rltok.evidence.words import NONE, many
from rltok.show.tables import markdown
from rltok.statistics import Difference, difference_of_units

APART = ("encyclopaedia", "books", "speech")  # kinds of book/texts.yml; each other one is under a tenth of the text
OTHER, ALL = "other", "all text"
BASELINES = (BASELINE, "bpe")  # differences to these are kept
DOMAINS_RECORD = "differences in bits per byte, by kind of text"
SCRIPT = "scripts/measure/measure_kinds.py"
REMEDY = f"Restore it from the repository, or make it again: {SCRIPT}."


class Text(NamedTuple):
    """The scored documents of a split, D of them in the order of the scores, parts of one document together."""

    hash: str  # of its rows
    sizes: np.ndarray  # int [D], scored bytes
    sources: list[str]  # [D]


def text_of(stream: Iterable[Document], config: DataConfig, name: str) -> Text:
    """The documents of a stream that have a row, cut as for a run. Raises `RltokError` where no row comes out.

    Args:
        stream: of `rltok.data.documents`.
        config: how documents become rows.
        name: of the text, in errors.
    """
    of_row: list[str] = []

    def noted() -> Iterator[Document]:
        for document in stream:
            of_row.extend([document.source] * len(PIECES[config.cut](len(document.text), config.sequence_length)))
            yield document

    rows = cut_documents(noted(), config.sequence_length, config.cut, name=name)
    _, first, number = np.unique(rows.document, return_index=True, return_inverse=True)
    sizes = np.bincount(number, weights=rows.scored).astype(int)
    return Text(rows.hash, sizes, [of_row[row] for row in first])


def check_scored(split: str, text: Text, sweeps: Sequence[Sweep]) -> None:
    """Raise `RltokError` unless every run of the sweeps that has a score on the split was scored on these documents.

    Smoke runs are refused, and scores of rows instead of documents.
    """
    for run in (run for sweep in sweeps for run in sweep.everything):
        where, score = f"{split} text: sweep {run['sweep']}, {run['name']}, seed {run['seed']}", run["scores"].get(split)
        if not run["full"]:
            raise RltokError(f"{where} is a smoke run, whose numbers mean nothing. Take runs at full size.")
        if score is None:
            continue
        if score["unit"] != "documents":
            raise RltokError(f"{where} was scored in units of {score['unit']}. Take runs scored on enough documents.")
        if score["hash"] != text.hash:
            raise RltokError(
                f"{where} was scored on rows whose hash is {score['hash']!r}; that of these is {text.hash!r}. Name the folder"
                " with the text that the runs were scored on."
            )
        if score["unit_bytes"] != text.sizes.tolist():
            raise RltokError(
                f"{where} was scored on {len(score['unit_bytes'])} documents of {sum(score['unit_bytes'])} bytes; these rows are"
                f" {len(text.sizes)} of {text.sizes.sum()}, or as many divided otherwise. Take the table whose ids name the parts"
                " of a document as they did then."
            )


def kinds_of(registers: Mapping[str, tuple[str, str]], words: Mapping[str, str]) -> dict[str, Any]:
    """What each kind is, in words, and its sources with their registers; the kinds that do not stand apart are one.

    Args:
        registers: by source its kind and register.
        words: by kind what it is.
    """
    rest = [kind for kind in words if kind not in APART]
    members = {kind: [kind] for kind in APART} | {OTHER: rest}
    return {
        kind: {
            "words": "; ".join(words[one] for one in names),
            "sources": {source: entry for source, (its, entry) in registers.items() if its in names},
        }
        for kind, names in members.items()
    }


def kind_of(text: Text, kinds: Mapping[str, Any]) -> np.ndarray:
    """The kind [D] of every document. Raises `RltokError` for a source that is of none."""
    kind_by_source = {source: kind for kind, entry in kinds.items() for source in entry["sources"]}
    unknown = sorted(set(text.sources) - kind_by_source.keys())
    if unknown:
        raise RltokError(
            f"source {', '.join(map(repr, unknown))} is of no kind. Enter it under sources in book/texts.yml; if it is the name"
            " of the file, its table has no column source, or an empty one."
        )
    return np.array([kind_by_source[source] for source in text.sources])


def _units(kind: np.ndarray) -> dict[str, np.ndarray]:
    """Which documents [D] count: all, then those of every kind that there is, in the order of the kinds."""
    return {ALL: np.ones(len(kind), bool)} | {one: kind == one for one in (*APART, OTHER) if (kind == one).any()}


def parts(text: Text, kind: np.ndarray) -> list[dict[str, Any]]:
    """Number of `documents` and `bytes` of the whole text, then of every `kind` that it has, in the order of the kinds."""
    return [
        {"kind": one, "documents": int(units.sum()), "bytes": int(text.sizes[units].sum())} for one, units in _units(kind).items()
    ]


def by_kind(sweep: Sweep, first: str, second: str, split: str, kind: np.ndarray) -> dict[str, Any] | None:
    """Differences between two methods on each kind of text, paired by seed and document; None without a seed in common.

    Delta_k = sum_u d_u / sum_u n_u over documents u of kind k,    d_u = bits of the first minus the second's, mean over seeds

    Args:
        sweep, first, second, split: as of `Sweep.paired`.
        kind: [D], of every document.

    Returns:
        number of `seeds`; in the order of `parts`, in bits per byte: `bits`, the standard error `over_documents`, that of a
        ratio (None for a single document), and `over_seeds` (None for all of them from fewer than three seeds); `by_seed`, the
        bits of each seed alone, a row for each seed.
    """
    paired = sweep.paired(first, second, split)
    if paired is None:
        return None
    bits, sizes = paired
    each = list(_units(kind).values())
    gaps, known = [difference_of_units(bits[:, units], sizes[units]) for units in each], len(bits) >= LEAST_SEEDS
    return {
        "seeds": len(bits),
        "bits": [gap.bits for gap in gaps],
        "over_documents": [gap.error_units for gap in gaps],
        "over_seeds": [gap.error_seeds for gap in gaps] if known else None,
        "by_seed": [[float(one[units].sum() / sizes[units].sum()) for units in each] for one in bits],
    }


def against(sweep: Sweep, reference: str, split: str, kind: np.ndarray) -> dict[str, dict[str, Any]]:
    """`by_kind` of every method minus a reference that it has a scored seed in common with."""
    gaps_of = {name: by_kind(sweep, name, reference, split, kind) for name in sweep.runs if name != reference}
    return {name: gaps for name, gaps in gaps_of.items() if gaps is not None}


def table(record: Mapping[str, Any], split: str, methods: Sequence[str], reference: str = BASELINE) -> str:
    """Markdown: bits per byte minus the reference's by kind of text, ± over documents / seeds, a row for each size and method.

    Args:
        record: of scripts/measure/measure_kinds.py.
        split: "validation" or "test".
        methods: in the order of the rows; those that a size lacks have no row in it.
        reference: one of BASELINES.
    """
    whole, *kinds = record["splits"][split]["parts"]
    head = [f"{whole['kind']}: {whole['bytes'] / 1e6:.2f} MB, {many(whole['documents'], 'document')}"]
    head += [f"{one['kind']}: {one['bytes'] / whole['bytes']:.0%}, {many(one['documents'], 'document')}" for one in kinds]
    rows = []
    for size, sweep in record["sweeps"].items():
        there = sweep["gaps"][split].get(reference, {})
        for name, entry in ((name, there[name]) for name in methods if name in there):
            over_seeds = entry["over_seeds"] or [None] * len(entry["bits"])
            each = zip(entry["bits"], entry["over_documents"], over_seeds, strict=True)
            gaps = [Difference(*one, entry["seeds"]) for one in each]
            rows.append([size, f"`{name}`", str(entry["seeds"]), *map(str, gaps)])
    return markdown(["size", f"minus `{reference}`", "seeds", *head], rows) if rows else ch07_answers.NO_DIFFERENCES


def contrast_table(record: Mapping[str, Any], methods: Sequence[str], one: str, other: str, reference: str = BASELINE) -> str:
    """Markdown: Delta on one kind of text minus Delta on another, bits per byte, seed by seed; a row for each size and method.

    Args:
        record, methods, reference: as of `table`.
        one, other: kinds. Splits that lack one of them have no column.
    """
    places = {split: [part["kind"] for part in entry["parts"]] for split, entry in record["splits"].items()}
    splits = {split: (names.index(one), names.index(other)) for split, names in places.items() if {one, other} <= set(names)}
    rows = []
    for size, sweep in record["sweeps"].items():
        for name in methods:
            there = {split: sweep["gaps"][split].get(reference, {}).get(name) for split in splits}
            cells = [
                ", ".join(f"{seed[first] - seed[second]:+.4f}" for seed in entry["by_seed"]) if entry else NONE
                for entry, (first, second) in zip(there.values(), splits.values(), strict=True)
            ]
            if any(there.values()):
                rows.append([size, f"`{name}`", *cells])
    head = ["size", f"minus `{reference}`, {one} less {other}", *(f"{split}, by seed" for split in splits)]
    return markdown(head, rows) if rows else ch07_answers.NO_DIFFERENCES


def kinds_table(record: Mapping[str, Any]) -> str:
    """Markdown: what every kind is, the registers of its sources, and its share of the bytes and documents of each split."""
    splits = {split: {one["kind"]: one for one in counted["parts"]} for split, counted in record["splits"].items()}
    rows = []
    for kind, entry in record["kinds"].items():
        shares = [
            f"{counted[kind]['bytes'] / counted[ALL]['bytes']:.1%}, {many(counted[kind]['documents'], 'document')}"
            if kind in counted else NONE
            for counted in splits.values()
        ]  # fmt: skip
        rows.append([kind, entry["words"], "; ".join(dict.fromkeys(entry["sources"].values())), *shares])
    return markdown(["kind", "what it is", "in detail", *splits], rows)


def read(path: Path) -> dict[str, Any]:
    """A record of scripts/measure/measure_kinds.py.

    Raises:
        RltokError: no such file, another kind of file, or an edited one.
    """
    return read_with_digest(path, path.name, REMEDY, _check)


def _check(record: Any, demand: Demand) -> None:
    check_digest(record, demand, DOMAINS_RECORD, 1)
    ch07_answers.check_gaps(record, demand, {f"{split} text": split for split in record["splits"]})
    demand(
        "kinds" in record and all("parts" in entry for entry in record["splits"].values()), "it lacks kinds, or parts of a split"
    )


def fitting(record: Mapping[str, Any], sweeps: Sequence[Sweep]) -> tuple[dict[str, Any], str]:
    """(the record with those sizes alone that were made of all runs of these sweeps, what was left out in words)."""
    return ch07_answers.fitting(record, sweeps, SCRIPT)
