"""Pack the evidence records of a sweep: a small JSON of facts a run, and three tables for the long lists of all runs.

python scripts/measure/pack_records.py notebooks/results/sweeps/32m

Copy the records of new runs into the folder of their sweep and call this; those that are packed stay as they are. To take a
run out, remove its JSON file and call this again.
"""

import argparse
from pathlib import Path

from rltok.evidence.measuring import run
from rltok.evidence.packed import pack


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", type=Path, nargs="+", metavar="FOLDER", help="of a sweep, with the record of each run")
    for folder in parser.parse_args().folders:
        new = pack(folder)
        size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
        print(f"{folder}: {len(new)} packed now, {size:,} bytes in all")


if __name__ == "__main__":
    run(main)
