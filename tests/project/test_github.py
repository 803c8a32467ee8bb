"""Workflows, container and page on publishing: what they run exists, and what they publish is what the book's build writes."""

import re

import pytest
import yaml
from packaging.specifiers import SpecifierSet
from paths import ROOT
from test_environment import PROJECT

WORKFLOWS = {path.stem: yaml.safe_load(path.read_text(encoding="utf-8")) for path in (ROOT / ".github/workflows").glob("*.yml")}
MAKE = re.compile(r"\bmake ([a-z][a-z-]*|\.venv/installed/[a-z]+)(?=[\s`\",;]|$)")
WITH_COMMANDS = [".github/workflows/book.yml", "Dockerfile", ".devcontainer/devcontainer.json", "book/publishing.md"]


def steps(name):
    (job,) = WORKFLOWS[name]["jobs"].values()
    return job["steps"]


@pytest.mark.parametrize("name", WITH_COMMANDS)
def test_every_target_of_make_that_is_named_exists(name):
    made = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    made |= {f".venv/installed/{extra}" for extra in PROJECT["optional-dependencies"]}
    named = set(MAKE.findall((ROOT / name).read_text(encoding="utf-8")))
    assert named and named <= made


def test_tests_and_pages_are_run_on_github():
    assert set(WORKFLOWS) == {"tests", "book"}
    assert steps("tests")[-1] == {"run": ".ci/run"} and (ROOT / ".ci/run").stat().st_mode & 0o100
    (published,) = [step["with"]["path"] for step in steps("book") if "upload-pages-artifact" in step.get("uses", "")]
    assert published == "build/_build/html" and "--path-output build " in (ROOT / "Makefile").read_text(encoding="utf-8")
    (python,) = [step["with"]["python-version"] for step in steps("book") if "setup-python" in step.get("uses", "")]
    assert SpecifierSet(PROJECT["requires-python"]).contains(python)


def test_the_image_holds_no_environment_of_the_machine_that_built_it():
    left_out = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    ignored = (ROOT / ".gitignore").read_text(encoding="utf-8").splitlines()
    wanted = {".venv", ".venv-book", "build", "corpora", "runs"}
    assert wanted <= set(left_out) and {".venv*", "/build/", "/corpora/", "/runs/"} <= set(ignored)
