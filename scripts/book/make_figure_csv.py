"""Write the data of every figure of chapter 07, and all differences from ours, as CSV, from the stored evidence records.

python scripts/book/make_figure_csv.py     # rewrites notebooks/results/figures; a test fails while it is out of date
"""

import shutil
from pathlib import Path

from rltok.evidence import measuring
from rltok.evidence.figures import DATA, as_csv, gaps_data
from rltok.evidence.records import read_sweeps

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "notebooks" / "results"
FOLDER = RESULTS / "figures"


def files() -> dict[str, str]:
    """Name inside the folder -> what belongs there."""
    sweeps = read_sweeps(RESULTS / "sweeps")
    if not sweeps:
        raise SystemExit(f"there is no evidence record under {RESULTS / 'sweeps'}; what is stored stays. Restore the records.")
    made = DATA | {"gaps": gaps_data}
    return {f"{name}/{figure}.csv": as_csv(data(sweep)) for name, sweep in sweeps.items() for figure, data in made.items()}


def main() -> None:
    """Rewrite the folder; what belongs to no sweep any more goes."""
    made = files()
    shutil.rmtree(FOLDER, ignore_errors=True)
    for name, text in made.items():
        (FOLDER / name).parent.mkdir(parents=True, exist_ok=True)
        (FOLDER / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    measuring.run(main)
