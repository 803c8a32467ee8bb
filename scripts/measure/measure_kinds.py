"""On which kind of held-out text methods differ: bits per byte by kind, minus `even` and minus `bpe`.

    python scripts/measure/measure_kinds.py --sweeps notebooks/results/sweeps --data FOLDER --out notebooks/results/kinds.json

Evidence records hold the bits of every document, not where it is from, and the text is not part of the repository. FOLDER holds
english-validation.parquet and english-test.parquet, and they must be those that the runs were scored on. Which source is of which
kind stands in book/texts.yml. No model is loaded, and no run scored.
Run it again after records were added: the file names those that it was made of, and a test compares.
"""

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from rltok.config import from_dict
from rltok.data import documents
from rltok.errors import RltokError
from rltok.evidence.chapters.ch07_domains import (
    BASELINES,
    DOMAINS_RECORD,
    Text,
    against,
    check_scored,
    kind_of,
    kinds_of,
    parts,
    text_of,
)
from rltok.evidence.measuring import clean_commit, rounded, run, stored_record, stored_sweeps
from rltok.evidence.records import Sweep
from rltok.runs.results import versions
from rltok.system.digest import with_digest
from rltok.system.files import write_record

FILES = {"validation": "english-validation.parquet", "test": "english-test.parquet"}
WORDS = Path(__file__).resolve().parents[2] / "book" / "texts.yml"


def read_texts(folder: Path, sweeps: Sequence[Sweep]) -> dict[str, Text]:
    """The held-out splits, cut as the first run says; the others must have been scored on the same rows."""
    config = from_dict(sweeps[0].records[0]["config"]).data
    return {split: text_of(documents(folder / name), config, name) for split, name in FILES.items()}


def kinds(texts: Mapping[str, Text]) -> dict[str, Any]:
    """Kinds and registers of the sources that the texts have, in the order of book/texts.yml."""
    described = yaml.safe_load(WORDS.read_text(encoding="utf-8"))
    there = {source for text in texts.values() for source in text.sources}
    registers = {source: (each["kind"], each["register"]) for source, each in described["sources"].items() if source in there}
    return kinds_of(registers, described["kinds"])


def of_sweep(sweep: Sweep, kind: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """The digests of a sweep's records, and by split, reference and method the differences."""
    gaps = {split: {reference: against(sweep, reference, split, each) for reference in BASELINES} for split, each in kind.items()}
    return {"records": sweep.digests, "gaps": rounded(gaps)}


def measure(sweeps: Sequence[Sweep], folder: Path) -> dict[str, Any]:
    """All that the record holds of the kinds of text, in the order of the sweeps."""
    texts = read_texts(folder, sweeps)
    for split, text in texts.items():
        check_scored(split, text, sweeps)
    described = kinds(texts)
    kind = {split: kind_of(text, described) for split, text in texts.items()}
    return {
        "kinds": described,
        "splits": {split: {"hash": text.hash, "parts": parts(text, kind[split])} for split, text in texts.items()},
        "sweeps": {sweep.name: of_sweep(sweep, kind) for sweep in sweeps},
    }


def main() -> None:
    """Compute and write the record."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--sweeps", type=Path, default=Path("notebooks/results/sweeps"))
    parser.add_argument("--data", type=Path, required=True, help="folder with the held-out text")
    parser.add_argument("--out", type=Path, default=Path("notebooks/results/kinds.json"))
    options = parser.parse_args()
    stored_record(options.out, DOMAINS_RECORD)
    commit = clean_commit()
    measured = measure(stored_sweeps(options.sweeps), options.data)
    gaps = [
        gap
        for sweep in measured["sweeps"].values()
        for split in sweep["gaps"].values()
        for each in split.values()
        for gap in each
    ]
    if not gaps:
        raise RltokError(f"no run of a sweep was scored together with {' or '.join(BASELINES)}, so there is nothing to tell.")
    write_record(
        options.out, with_digest({"schema": 1, "what": DOMAINS_RECORD, "commit": commit, "versions": versions()} | measured)
    )
    print(f"{options.out}: {len(gaps)} differences of {', '.join(measured['sweeps'])}")


if __name__ == "__main__":
    run(main)
