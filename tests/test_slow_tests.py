"""scripts/slow_tests.py and the list that it writes."""

from pathlib import Path

from slow_tests import LIST, slow_tests

TESTS = Path(__file__).parent
DURATIONS = """
12.00s call     tests/test_a.py::test_long
3.00s setup    tests/test_a.py::test_cases[x-1]
2.50s call     tests/test_a.py::test_cases[y: a b]
4.00s call     tests/test_b.py::test_short
0.25s teardown tests/test_b.py::test_short
9.00s call     notebooks/00_quickstart.ipynb::Cell 3
"""


def test_the_slowest_functions_go_until_the_rest_is_short_enough():
    assert slow_tests(DURATIONS, rest=21.75) == []
    assert slow_tests(DURATIONS, rest=21) == ["test_a.py::test_long"]
    assert slow_tests(DURATIONS, rest=5) == ["test_a.py::test_cases", "test_a.py::test_long"]


def test_the_list_names_tests_that_are_there_and_they_alone_are_marked(request):
    names = LIST.read_text(encoding="utf-8").split()
    lost = [name for name in names if f"def {name.split('::')[1]}(" not in (TESTS / name.split("::")[0]).read_text("utf-8")]
    assert names and lost == [], "run scripts/slow_tests.py, or take the name out of tests/slow_tests.txt"
    for item in request.session.items:
        listed = f"{item.path.name}::{item.name.partition('[')[0]}" in names
        assert listed == bool(item.get_closest_marker("slow")), item.nodeid
