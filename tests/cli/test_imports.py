"""What explains commands waits for nothing: torch is imported by the commands themselves, and by the names of `import rltok`."""

import ast
import json
import subprocess
import sys

import pytest
from paths import ROOT

import rltok
from rltok.cli.options import build_parser

HEAVY = ("torch", "jaxtyping", "matplotlib", "pandas", "pyarrow", "safetensors", "scipy")
COMMANDS = next(action.choices for action in build_parser()._actions if action.dest == "command")
EXPLAINED = """
import json, sys
from rltok.cli.main import main

for words in json.loads(sys.argv[1]):
    try:
        main(words)
    except SystemExit as ended:
        assert ended.code in (0, 2)
    print("imported:", words, sorted(set(json.loads(sys.argv[2])) & sys.modules.keys()))
"""
ASKED = """
import sys
import rltok

assert rltok.presets()[0] and callable(rltok.presets), "not the module"
assert "torch" not in sys.modules and not hasattr(rltok, "no_such_name")
from rltok import *

print(*(f"{name}={globals()[name].__module__ if hasattr(globals()[name], '__module__') else ''}" for name in rltok.__all__))
assert set(rltok.__all__) <= set(dir(rltok)) and rltok.presets is presets
"""
MODULE = """
import rltok
print(*vars(rltok))
rltok.kernels.backends.requested()  # modules are there as well
from rltok import exact  # of which nobody has heard yet
"""


def fresh(code, *arguments):
    """What a process of its own prints."""
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT, timeout=120).stdout


def test_help_the_version_and_a_mistake_import_nothing_heavy():
    asked = [["--help"], ["--version"], ["trian"], *([name, "--help"] for name in COMMANDS), ["show"]]
    said = [line for line in fresh(EXPLAINED, json.dumps(asked), json.dumps(HEAVY)).splitlines() if line.startswith("imported:")]
    assert said == [f"imported: {words} []" for words in asked]


def test_a_command_does_import_it():
    (said,) = fresh(EXPLAINED, json.dumps([["show", "no run of this name"]]), json.dumps(HEAVY)).splitlines()
    assert said.endswith("]") and "torch" in said


def test_every_name_of_the_package_is_there_when_it_is_asked_for():
    names = dict(pair.split("=") for pair in fresh(ASKED).split())
    assert names.keys() == set(rltok.__all__) and names["train"] == "rltok.runs.training" and names["Config"] == "rltok.config"


def test_modules_are_there_when_they_are_asked_for_and_inside_the_package_none_asks_for_all_of_them():
    at_once = fresh(MODULE).split()
    for path in (ROOT / "rltok").rglob("*.py"):
        asked = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ImportFrom)]
        late = {alias.name for node in asked if node.module == "rltok" for alias in node.names} - set(at_once)
        assert not late or path.name == "api.py", (
            f"{path.name}: imports go in circles, write import rltok.NAME as NAME for {late}"
        )


def test_a_name_that_is_none_is_said_to_be_none_of_the_package():
    with pytest.raises(AttributeError, match="module 'rltok' has no attribute 'no_such_name'"):
        rltok.no_such_name  # noqa: B018
    with pytest.raises(AttributeError, match="module 'rltok.generation' has no attribute 'no_such_name'"):
        rltok.generation.no_such_name  # noqa: B018
