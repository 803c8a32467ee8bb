"""Chapter 07: its cells about another learning rate run on whatever is stored, and say what is missing."""

import re
import warnings

import matplotlib
import pytest
from chapters import between, code
from notebooks_in_a_folder import read
from paths import ROOT
from sweeps import record, seeds_of, write

matplotlib.use("Agg")
CELLS = read(ROOT / "notebooks" / "07_reading_the_results").cells
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


@pytest.mark.parametrize("kind", CAUSES)
def test_cells_about_another_learning_rate_run_on_whatever_is_stored(tmp_path, monkeypatch, capsys, kind):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "results" / "sweeps", *FAST)
    write(tmp_path / "results" / "causes", *CAUSES[kind])
    shown, space = [], {}
    setup, top = code(CELLS, "plots.use_style()"), code(CELLS, "slow = ")
    larger = between(CELLS, "## A larger model", "## Another learning rate")
    sizes = [source for source in larger if re.match("(sizes|both) = ", source)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a notebook may write nothing on stderr
        exec(setup, space)
        space["Markdown"] = shown.append
        for source in (top, *sizes, *between(CELLS, "## Another learning rate", "## Where the boundaries are")):
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
