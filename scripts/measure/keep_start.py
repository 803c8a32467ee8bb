"""Keep what an unfinished run has logged: its curves and last boundaries, without a score.

python scripts/measure/keep_start.py runs/147m/ours_gamma0.9-seed1 --sweep 147m --name ours_gamma0.9 \\
    --why "stopped when the time of the card was used up" --out notebooks/results/start_147m.json
"""

import argparse
from pathlib import Path

from rltok.errors import RltokError
from rltok.evidence import measuring
from rltok.evidence.export import start_of
from rltok.evidence.schema import START
from rltok.system.files import write_json


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="of the run; its checkpoints are not needed")
    parser.add_argument("--sweep", required=True)
    parser.add_argument("--name", required=True, help="the method")
    parser.add_argument("--why", required=True, help="it was not gone on with")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    before = measuring.stored_record(options.out, START)
    record = start_of(options.folder, sweep=options.sweep, name=options.name, why=options.why)
    if before is not None and any(before.get(key) != record[key] for key in ("sweep", "name", "seed")):
        raise RltokError(f"--out {options.out} holds the start of another run, so it stays. Name another file.")
    write_json(options.out, record)
    print(f"{options.out}: {record['updates']} updates, {record['bytes']:,} bytes, seed {record['seed']}")


if __name__ == "__main__":
    measuring.run(main)
