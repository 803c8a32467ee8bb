"""Keep the verdicts on all claims by the rule of judging of today, before the rule is changed.

    python scripts/measure/keep_verdicts.py --out notebooks/results/verdicts_before.json

Chapter 07 then lists which of them the next rule moved. Commit first: the record names the code that judged.
"""

import argparse
from pathlib import Path

from rltok.evidence import measuring
from rltok.evidence.chapters.ch07_moved import judge_all
from rltok.system.files import write_json

RESULTS = Path(__file__).resolve().parents[2] / "notebooks" / "results"


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    what = "verdicts on all claims by one rule of judging"
    measuring.stored_record(options.out, what)
    write_json(options.out, {"schema": 1, "what": what, "commit": measuring.clean_commit(), "sweeps": judge_all(RESULTS)})


if __name__ == "__main__":
    measuring.run(main)
