"""Write tests/slow_tests.txt: the tests that `make test-fast` leaves out, so that the others take under a minute on two cores.

OMP_NUM_THREADS=1 .venv/bin/python -m pytest --durations=0 --durations-min=0.01 > durations.txt    # on an idle machine
python scripts/slow_tests.py durations.txt

The slowest test functions go, all their cases with them, until the rest is short enough.
"""

import re
import sys
from collections import Counter
from pathlib import Path

LIST = Path(__file__).resolve().parents[1] / "tests" / "slow_tests.txt"
REST = 60.0  # seconds of the tests that stay; two processes share them, and each takes some 15 s to collect its tests
LINE = re.compile(r"([\d.]+)s (?:setup|call|teardown) +tests/([\w.]+::\w+)")


def slow_tests(durations: str, rest: float = REST) -> list[str]:
    """Names of the functions to leave out, by what `pytest --durations=0` printed."""
    taken: Counter[str] = Counter()
    for seconds, name in LINE.findall(durations):
        taken[name] += float(seconds)
    stays, left_out = taken.total(), []
    for name, seconds in taken.most_common():
        if stays <= rest:
            break
        stays -= seconds
        left_out.append(name)
    return sorted(left_out)


if __name__ == "__main__":
    names = slow_tests(Path(sys.argv[1]).read_text(encoding="utf-8"))
    LIST.write_text("".join(f"{name}\n" for name in names), encoding="utf-8")
    print(f"{len(names)} test functions in {LIST.name}")
