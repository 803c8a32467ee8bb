"""Chapter 07: its cells about another learning rate run on whatever is stored, and say what is missing."""

import warnings
from pathlib import Path

import matplotlib
import nbformat
import pytest
from sweeps import record, seeds_of, write

matplotlib.use("Agg")
ROOT = Path(__file__).resolve().parents[1]
CELLS = nbformat.read(ROOT / "notebooks" / "07_reading_the_results.ipynb", as_version=4).cells
SLOW = {"sweep": "32m_slow", "train.learning_rate": 0.5}
FAST = [*seeds_of("ours_gamma0.9", 2.0), *seeds_of("even", 2.1), *seeds_of("bpe", 2.2, rule="bpe")]
CAUSES = {
    "none": [],
    "all": [
        record("ours_gamma0.9", bits=1.9, **SLOW), record("even", bits=1.95, **SLOW), record("bpe", bits=1.8, rule="bpe", **SLOW)
    ],
    "no reference": [record("ours_gamma0.9", bits=1.9, **SLOW)],
    "another budget": [record("ours_gamma0.9", **SLOW | {"train.training_bytes": 8192})],
    "another sweep, damaged": [
        record("ours", sweep="schedule"), record("even", sweep="schedule", **{"train.weight_decay": 0.5})
    ],
}  # fmt: skip


def sources(begin, end):
    """Code of the cells between two headings."""
    at = [
        next(i for i, cell in enumerate(CELLS) if any(line == words for line in cell.source.splitlines()))
        for words in (begin, end)
    ]
    return [cell.source for cell in CELLS[at[0] : at[1]] if cell.cell_type == "code"]


@pytest.mark.parametrize("kind", CAUSES)
def test_cells_about_another_learning_rate_run_on_whatever_is_stored(tmp_path, monkeypatch, capsys, kind):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "results" / "sweeps", *FAST)
    write(tmp_path / "results" / "causes", *CAUSES[kind])
    shown, space = [], {}
    setup = next(cell.source for cell in CELLS if "setup" in cell.metadata.get("tags", []))
    top = next(cell.source for cell in CELLS if cell.source.startswith("slow = "))
    sizes = [
        source for source in sources("## A larger model", "### On which text") if "sizes = " in source or "both = " in source
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a notebook may write nothing on stderr
        exec(setup, space)
        space["Markdown"] = shown.append
        for source in (top, *sizes, *sources("## Another learning rate", "## Where the boundaries are")):
            exec(source, space)
    words, printed = "\n".join(shown), capsys.readouterr().out
    there = kind in ("all", "no reference")
    assert ("No sweep 32m_slow of the same text and budget is stored." in words) == (not there)
    assert ("**At `32m_slow`**" in words) == ("| 32m_slow |" in words) == there
    assert f"fewest: {({'all': 'bpe', 'no reference': 'ours_gamma0.9'}).get(kind, 'nobody')};" in printed
    gap = (
        "ours_gamma0.9 minus bpe: +0.1"
        if kind == "all"
        else "ours_gamma0.9 minus bpe: not known"
        if there
        else "no run to compare"
    )
    assert gap in printed
