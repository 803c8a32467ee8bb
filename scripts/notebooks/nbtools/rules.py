"""The rules of the notebooks, in one place: tags, kinds of output, limits, and what a kernel's environment holds."""

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
NOTEBOOKS = ROOT / "notebooks"

# Every tag that a cell may have, and why it exists. A tag that is not here is a mistake.
TAGS = {
    "header-strip": "first cell: title, what the reader will be able to do, and the strip that the runner writes",
    "first-cell": "first code cell, written by the runner from scripts/notebooks/templates/first_cell.py; describes the machine",
    "setup": "imports and settings of this notebook",
    "prediction": "the reader writes down a guess, before the measurement it belongs to",
    "measurement": "the cell that the prediction was about, where several follow",
    "solution": "of the exercise above, executed. Goes with hide-cell",
    "gpu": "needs a GPU; its outputs are stored with their provenance. Goes with nbval-skip",
    "nbval-skip": "nbval leaves the cell out. Only together with gpu",
    "nbval-ignore-output": "nbval runs the cell but does not compare. The cell says why: `# not compared: reason`",
    "raises-exception": "shows an error on purpose; its name and message are compared",
    "hide-input": "book, JupyterLab and Colab fold the code away",
    "hide-output": "book and JupyterLab fold the output away",
    "hide-cell": "book and JupyterLab fold both away, Colab the code",
}
# What JupyterLab goes by, under `jupyter` in a cell's metadata.
FOLDS = {"hide-input": ["source_hidden"], "hide-output": ["outputs_hidden"], "hide-cell": ["outputs_hidden", "source_hidden"]}
# Only these kinds of output can be stored. JPEG is missing: nbval never compares it.
MIME_TYPES = {
    "text/plain": "print, repr",
    "text/html": "boundary colouring, tables; compared byte for byte",
    "text/latex": "a formula made by code",
    "text/markdown": "a table made by code",
    "image/svg+xml": "figures; compared number by number",
    "image/png": "figures shown by rltok.show.plots.show: nbval skips the picture and compares the digest of its data beneath",
    "application/vnd.jupyter.widget-view+json": "widgets; their state is stored in the notebook",
}
FOLD_KEYS = ("cellView", "collapsed", "jupyter")
METADATA = ("jupytext", "kernelspec", "rltok", "rltok_provenance", "widgets")
CELL_METADATA = ("cellView", "jupyter", "mystnb", "tags")
SPACING = "lines_to_next_cell"  # where jupytext keeps in the .ipynb how many empty lines follow a cell in the .py
KERNELSPEC = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}  # as ipykernel has it
# What jupytext needs so that whoever saves, it writes the .py as the runner does: keys that it may write, no versions.
JUPYTEXT = {
    "cell_metadata_filter": ",".join([*CELL_METADATA, "-all"]),
    "formats": "ipynb,py:percent",
    "notebook_metadata_filter": "rltok,"
    + ",".join(f"-jupytext.text_representation.{version}" for version in ("format_version", "jupytext_version")),
}
# What the header of a notebook may declare under `rltok`.
DECLARATIONS = {
    "download_mb": "megabytes that the notebook downloads, 0 for none; shown in the strip. Required",
    "constants": "numbers that the prose may state because they are definitions, each with its reason",
    "seeds": "seeds of its runs, copied into the provenance",
    "config_hash": "digest of the configuration of its runs, copied into the provenance",
}
CONSTANTS = {"2602.13940": "the paper's number on arXiv"}  # numbers that any notebook may state

MAX_BYTES = 1_000_000  # of one .ipynb
MAX_SECONDS = 45  # of one CPU notebook, as measured for its strip
MIN_COMPARED = 0.9  # of the CPU cells with text output
MIN_WITH_TEXT = 0.6  # of the CPU code cells
FIGURE_DIGEST = r"^figure(?: data)?: .*$"  # what rltok.show.plots.show prints under a picture
FIGURE_TOLERANCE = 0.05  # points: far below what is visible, far above what another processor's rounding moves


class NotebookError(Exception):
    """A user's mistake in one line: file, cell and mend."""


def tags(cell) -> list[str]:
    """A cell's tags."""
    return list(cell.get("metadata", {}).get("tags", []))


def folds(cell) -> dict:
    """The metadata that fold a cell in JupyterLab and Colab as its tags say."""
    hidden = {name: True for tag in tags(cell) for name in FOLDS.get(tag, [])}
    metadata = {"jupyter": hidden} if hidden else {}
    if "source_hidden" in hidden:
        metadata["cellView"] = "form"  # Colab's word for it
    if "outputs_hidden" in hidden:
        metadata["collapsed"] = True  # JupyterLab adds it when it saves; the .py does without
    return metadata


def is_cpu_code(cell) -> bool:
    """Whether the shares of compared cells count this cell: code, not the common first cell, not for the GPU."""
    return cell["cell_type"] == "code" and not {"gpu", "first-cell"} & set(tags(cell))


def mend(path: Path) -> str:
    """The command that executes a notebook anew."""
    return f"make notebooks NB={path.stem.split('_')[0]}"


def where(path: Path, index: int) -> str:
    """File and cell, as every message names them; cells count from 0, as in their ids."""
    return f"{path.with_suffix('').name}: cell {index}"


def kernel_environment(gpu: bool) -> dict[str, str]:
    """What a kernel needs so that the same digits come out everywhere; without `gpu` it sees no card.

    The checkout comes first on the path: an installed rltok must not take its place.
    """
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    fixed = {"PYTHONPATH": os.pathsep.join(paths), "OMP_WAIT_POLICY": "PASSIVE", "PYTHONHASHSEED": "0"}
    fixed["TRITON_INTERPRET"] = "0"  # which tests of kernels set, and a worker runs those and notebooks
    fixed |= {name: "1" for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")}
    return fixed if gpu else fixed | {"CUDA_VISIBLE_DEVICES": ""}
