"""scripts/slow_tests.py and the list that it writes."""

from paths import TESTS
from slow_tests import LIST, slow_files

DURATIONS = """
12.00s call     tests/test_a.py::test_long
3.00s setup    tests/runs/test_b.py::test_cases[x-1]
2.50s call     tests/runs/test_b.py::test_cases[y: a b]
4.00s call     tests/runs/test_b.py::test_short
0.25s teardown tests/runs/test_b.py::test_short
5.00s call     tests/test_c.py::test_middle
9.00s call     notebooks/00_quickstart.ipynb::Cell 3
"""


def test_the_files_that_take_longest_a_test_go_until_the_rest_is_short_enough():
    assert slow_files(DURATIONS, rest=26.75) == []
    assert slow_files(DURATIONS, rest=26) == ["test_a.py"]
    assert slow_files(DURATIONS, rest=10) == ["test_a.py", "test_c.py"]
    assert slow_files(DURATIONS, rest=10, short=5) == ["runs/test_b.py", "test_a.py"]


def test_the_list_names_files_that_are_there():
    names = LIST.read_text(encoding="utf-8").split()
    here = {str(path.relative_to(TESTS)) for path in TESTS.rglob("test_*.py")}
    assert names and set(names) < here, "run scripts/slow_tests.py, or take the name out of tests/slow_tests.txt"


def test_the_fast_tests_are_all_but_those_of_the_list():
    makefile = (LIST.parents[1] / "Makefile").read_text(encoding="utf-8")
    assert "pytest -n 2 tests $(addprefix --ignore=tests/,$(file < tests/slow_tests.txt))" in makefile
