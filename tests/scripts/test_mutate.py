"""The mutation harness, on a package of two files: it must not call a mistake noticed when no test has failed."""

import importlib.util
import sys

import pytest
from paths import ROOT

SUM_TEST = "import rltok\n\ndef test_sum():\n    assert rltok.add(2, 3) == 5\n\ndef test_nothing():\n    pass\n"


def load_harness():
    spec = importlib.util.spec_from_file_location("mutate", ROOT / "scripts" / "mutate.py")
    module = sys.modules["mutate"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


mutate = load_harness()


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A project whose package has the name that the harness copies, with one function and two tests."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # it needs no plugin, and loading them takes most of the time
    for folder in ("rltok", "tests"):
        (tmp_path / folder).mkdir()
    (tmp_path / "rltok" / "__init__.py").write_text("def add(a, b):\n    return a + b\n")
    (tmp_path / "tests" / "test_sum.py").write_text(SUM_TEST)
    (tmp_path / "pyproject.toml").write_text("[tool.pytest.ini_options]\n")
    return tmp_path


def mutation(old="a + b", new="a - b", tests=("tests/test_sum.py",), name="m"):
    return mutate.Mutation(name=name, file="rltok/__init__.py", old=old, new=new, tests=tests)


def outcomes(project, *mutations):
    return {result.name: result.outcome for result in mutate.run_mutations(project, list(mutations))}


def test_a_noticed_mistake_is_killed_and_an_unnoticed_one_survives(project):
    missed = mutation(name="missed", tests=("tests/test_sum.py", "-k", "nothing"))
    assert outcomes(project, mutation(name="noticed"), missed) == {"noticed": "killed", "missed": "survived"}


def test_the_project_itself_stays_as_it_is(project):
    outcomes(project, mutation())
    assert (project / "rltok" / "__init__.py").read_text() == "def add(a, b):\n    return a + b\n"
    assert sorted(path.name for path in project.iterdir()) == ["pyproject.toml", "rltok", "tests"]


def test_code_that_cannot_be_imported_is_broken_not_killed(project):
    assert outcomes(project, mutation(new="a +")) == {"m": "broken"}


def test_an_empty_selection_is_broken_not_killed(project):
    assert outcomes(project, mutation(tests=("tests/test_sum.py", "-k", "absent"))) == {"m": "broken"}


def test_tests_that_fail_without_the_mutation_say_nothing_about_it(project):
    (project / "tests" / "test_sum.py").write_text(SUM_TEST.replace("== 5", "== 6"))
    assert outcomes(project, mutation()) == {"m": "broken"}


def test_a_package_from_elsewhere_is_broken_not_survived(project, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / "rltok.py").write_text("def add(a, b):\n    return a + b\n")
    (project / "tests" / "conftest.py").write_text(f"import sys\nsys.path.insert(0, {str(elsewhere)!r})\n")
    assert mutate.run_tests(project, ("tests/test_sum.py",)) == 3


@pytest.mark.parametrize("old", ["a * b", "a", "a + b\n    return"])
def test_a_text_that_does_not_stand_exactly_once_is_refused(project, old):
    with pytest.raises(ValueError, match="mutation does not apply: m"):
        mutate.run_mutations(project, [mutation(old=old)])


def test_a_mutation_that_changes_nothing_is_refused(project):
    with pytest.raises(ValueError, match="mutation does not apply"):
        mutate.run_mutations(project, [mutation(new="a + b")])


@pytest.mark.parametrize("entry", mutate.read_mutations(ROOT / "scripts" / "mutations.toml"), ids=lambda m: m.name)
def test_the_project_s_own_mutations_apply(entry):
    assert mutate.mutated(ROOT, entry)


def test_two_mutations_of_one_name_are_refused(tmp_path):
    entry = '[[mutation]]\nname = "m"\nfile = "f"\nold = "a"\nnew = "b"\ntests = []\n'
    (tmp_path / "mutations.toml").write_text(entry * 2)
    with pytest.raises(ValueError, match="several mutations named m"):
        mutate.read_mutations(tmp_path / "mutations.toml")
