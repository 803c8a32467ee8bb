"""Chapter 09: of each question the runs of the largest model that are stored, and which are yet to be made.

results --largest--> Sweep     --stored_table--> each question, the size that answers it, and what has not run
"""

from pathlib import Path

from rltok.errors import RltokError
from rltok.evidence.records import SCHEDULE, Sweep, read_sweeps
from rltok.evidence.words import NONE, many
from rltok.presets import size_of
from rltok.show.tables import markdown

SIZES = ("32m", "tiny")  # that have plans for these questions, the largest model first
FOLDERS = {"ceiling": "beyond", "draws": "causes", "optima": "causes"}
QUESTIONS = {
    "ceiling": "how much boundaries can give",
    "draws": "whether less noise lowers the loss",
    "optima": "which optimum a policy finds",
}


def stored(results: Path, question: str) -> list[Sweep]:
    """The sweeps about a question that have finished runs, that of the largest model first."""
    folder = results / FOLDERS[question]
    plans = [f"{size}_{question}" for size in SIZES]
    return [read_sweeps(folder, varied=SCHEDULE, only=plan)[plan] for plan in plans if (folder / plan).is_dir()]


def largest(results: Path, question: str) -> Sweep:
    """The sweep about a question with the largest model that has finished runs.

    Raises:
        RltokError: no run is stored, or one is damaged.
    """
    found = stored(results, question)
    if not found:
        raise RltokError(
            f"{results / FOLDERS[question]} holds no run about {QUESTIONS[question]}. Take the folder of the repository, or make"
            f" them: scripts/measure/run_sweep.py scripts/measure/sweeps/{SIZES[-1]}_{question}.toml."
        )
    return found[0]


def stored_table(results: Path) -> str:
    """Markdown: each question with the size and the number of runs that answer it here, and the plans without a stored run."""
    rows = []
    for question, words in QUESTIONS.items():
        sweep = largest(results, question)
        first, there = sweep.records[0], {one.name for one in stored(results, question)}
        size = f"{size_of(first['config']['name'])}, {first['matrix_parameters'] / 1e6:.2g}M parameters"
        missing = [f"`{size}_{question}`" for size in SIZES if f"{size}_{question}" not in there]
        runs = f"{many(len(sweep.records), 'run')} of {first['bytes'] / 1e6:.2g} MB"
        rows.append([words, size, f"`{sweep.name}`, {runs}", ", ".join(missing) or NONE])
    return markdown(["question", "answered here at", "from", "not run yet"], rows)
