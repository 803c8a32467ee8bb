"""Every stored notebook keeps the rules of nbtools. No kernel runs here; `pytest --nbval` is what compares outputs."""

import pytest
from nbtools.checks import CHECKS
from nbtools.pairs import stems
from nbtools.rules import NOTEBOOKS
from notebooks_in_a_folder import read

STORED = stems(NOTEBOOKS)


@pytest.mark.parametrize("path", STORED, ids=[path.name for path in STORED])
@pytest.mark.parametrize("check", CHECKS)
def test_a_stored_notebook_keeps_the_rules(path, check):
    if check == "pair" or path.with_suffix(".ipynb").exists():  # a missing side is the pair check's to name
        problems = CHECKS[check](None if check == "pair" else read(path), path)
        assert problems == [], "\n".join(problems)
