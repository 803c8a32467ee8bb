"""Plant known mistakes in a copy of the package, one at a time, and check that the named tests notice each.

    python scripts/mutate.py [NAME ...]

A mutation is an entry of scripts/mutations.toml: name, file, old text, new text, tests (arguments for pytest). The old text
must stand in the file exactly once. Outcomes:

    killed    the tests pass without the mutation and fail with it: what we want
    survived  they pass with it: a test is missing
    broken    nothing can be said: the tests fail without it, or with it they cannot be collected, hang, or select nothing
"""

import argparse
import dataclasses
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
COPIED = ("rltok", "tests", "pyproject.toml")
TIME_LIMIT = 600  # seconds for one run of pytest
GREEN, RED = 0, 1  # pytest's exit codes for "all passed" and "tests failed"; all others mean that nothing was tested
WORDS = {
    2: "interrupted: an error during collection",
    3: "pytest's own error",
    4: "a file of tests is missing, or an argument wrong",
    5: "no tests selected",
}

# Loaded by pytest in the copy: an editable install of rltok must not take the copy's place. It does not import rltok,
# which would come before the shape checks are hooked in.
GUARD = """
import importlib.util, pathlib, pytest

def pytest_collection_finish(session):
    origin = pathlib.Path(importlib.util.find_spec("rltok").origin).resolve()
    if pathlib.Path(__file__).resolve().parent not in origin.parents:
        pytest.exit(f"rltok was imported from {origin}, not from the copy", returncode=3)
"""


@dataclasses.dataclass(frozen=True)
class Mutation:
    """One mistake, and the tests that must notice it."""

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Result:
    """What became of one mutation: killed, survived or broken, and why."""

    name: str
    outcome: str
    reason: str = ""


def read_mutations(path: Path) -> list[Mutation]:
    """The entries of a mutations file, in its order."""
    entries = tomllib.loads(path.read_text(encoding="utf-8")).get("mutation", [])
    mutations = [Mutation(**{**entry, "tests": tuple(entry["tests"])}) for entry in entries]
    names = [mutation.name for mutation in mutations]
    doubled = sorted({name for name in names if names.count(name) > 1})
    if doubled:
        raise ValueError(f"{path.name} has several mutations named {', '.join(doubled)}; give each its own name.")
    return mutations


def mutated(root: Path, mutation: Mutation) -> str:
    """The file's text with the mistake in it."""
    text = (root / mutation.file).read_text(encoding="utf-8")
    count = text.count(mutation.old)
    if count != 1 or mutation.old == mutation.new:
        raise ValueError(
            f"mutation does not apply: {mutation.name} replaces a text that must stand exactly once in {mutation.file}"
            f" and must change; found {count} times. Mend `old` and `new` in scripts/mutations.toml."
        )
    return text.replace(mutation.old, mutation.new)


def run_tests(root: Path, tests: tuple[str, ...], mutation: Mutation | None = None) -> int:
    """pytest's exit code in a copy of the project, with or without a mutation; -1 when it ran out of time."""
    with tempfile.TemporaryDirectory(prefix="rltok-mutate-") as folder:
        copy = Path(folder)
        for name in COPIED:
            if (root / name).is_dir():
                shutil.copytree(root / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(root / name, copy / name)
        (copy / "mutate_guard.py").write_text(GUARD, encoding="utf-8")
        if mutation is not None:
            (copy / mutation.file).write_text(mutated(root, mutation), encoding="utf-8")
        environment = {**os.environ, "PYTHONPATH": str(copy), "OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE"}
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "mutate_guard", *tests]
        try:
            return subprocess.run(command, cwd=copy, env=environment, capture_output=True, timeout=TIME_LIMIT).returncode
        except subprocess.TimeoutExpired:
            return -1


def explain(code: int) -> str:
    """An exit code of pytest in words."""
    return {GREEN: "tests passed", RED: "tests failed", -1: f"over {TIME_LIMIT} s", **WORDS}.get(code, f"exit code {code}")


def judge(mutation: Mutation, before: int, after: Callable[[], int]) -> Result:
    """Outcome of a mutation from pytest's exit codes without it and, asked for only where it matters, with it."""
    if before != GREEN:
        return Result(mutation.name, "broken", f"without the mutation: {explain(before)}")
    code = after()
    outcome = {GREEN: "survived", RED: "killed"}.get(code, "broken")
    return Result(mutation.name, outcome, "" if outcome == "killed" else f"with the mutation: {explain(code)}")


def run_mutations(root: Path, mutations: list[Mutation]) -> list[Result]:
    """Run all mutations, two at a time; each distinct selection of tests is first run once without any."""
    for mutation in mutations:
        mutated(root, mutation)  # a list that does not apply is an error before minutes are spent
    selections = list(dict.fromkeys(mutation.tests for mutation in mutations))
    with ThreadPoolExecutor(2) as pool:
        before = dict(zip(selections, pool.map(lambda tests: run_tests(root, tests), selections), strict=True))

        def outcome(mutation: Mutation) -> Result:
            return judge(mutation, before[mutation.tests], lambda: run_tests(root, mutation.tests, mutation))

        return list(pool.map(outcome, mutations))


def main() -> int:
    """Print a table of outcomes; exit code 0 when every mutation was killed, 1 otherwise, 2 when the list is at fault."""
    parser = argparse.ArgumentParser(description="Check that the tests notice known mistakes.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="mutations to run (default: all)")
    names = parser.parse_args().names
    try:
        mutations = read_mutations(ROOT / "scripts" / "mutations.toml")
        unknown = set(names) - {mutation.name for mutation in mutations}
        if unknown:
            raise ValueError(f"no mutation named {', '.join(sorted(unknown))}; there are {', '.join(m.name for m in mutations)}.")
        results = run_mutations(ROOT, [mutation for mutation in mutations if not names or mutation.name in names])
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    width = max(len(result.name) for result in results)
    for result in results:
        print(f"{result.name:<{width}}  {result.outcome:<8}  {result.reason}".rstrip())
    killed = sum(result.outcome == "killed" for result in results)
    print(f"{killed} of {len(results)} killed")
    return 0 if killed == len(results) else 1


if __name__ == "__main__":
    sys.exit(main())
