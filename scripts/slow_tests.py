"""Write tests/slow_tests.txt: the test files that `make test-fast` leaves out, so that it takes under a minute on two cores.

OMP_NUM_THREADS=1 .venv/bin/python -m pytest --durations=0 -vv > durations.txt    # on an idle machine
python scripts/slow_tests.py durations.txt

Whole files, because what a file's tests share is paid by the first of them that runs. Those that take longest a test go
first, until the rest is short enough; a short file stays, so that as much of the package as can be is looked at.
"""

import re
import sys
from collections import Counter
from pathlib import Path

LIST = Path(__file__).resolve().parents[1] / "tests" / "slow_tests.txt"
REST = 40.0  # seconds of the tests that stay; two processes share them, and each needs some 20 s to start and collect
SHORT = 2.0  # seconds of a file
LINE = re.compile(r"([\d.]+)s (setup|call|teardown) +tests/([\w/]+\.py)::")


def slow_files(durations: str, rest: float = REST, short: float = SHORT) -> list[str]:
    """Paths below tests/ of the files to leave out, by what `pytest --durations=0 -vv` printed."""
    seconds: Counter[str] = Counter()
    tests: Counter[str] = Counter()
    for taken, phase, name in LINE.findall(durations):
        seconds[name] += float(taken)
        tests[name] += phase == "call"
    stays, left_out = seconds.total(), []
    long = [name for name in seconds if seconds[name] > short]
    for name in sorted(long, key=lambda name: -seconds[name] / max(tests[name], 1)):
        if stays <= rest:
            break
        stays -= seconds[name]
        left_out.append(name)
    return sorted(left_out)


if __name__ == "__main__":
    names = slow_files(Path(sys.argv[1]).read_text(encoding="utf-8"))
    LIST.write_text("".join(f"{name}\n" for name in names), encoding="utf-8")
    print(f"{len(names)} files in {LIST.name}")
