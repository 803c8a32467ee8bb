"""environment.yml, pyproject.toml and CITATION.cff say the same; tools are pinned; a built package has its files and links.

conda itself is not needed, and not tried.
"""

import email
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from importlib.metadata import PackageNotFoundError, version

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from paths import ROOT

import rltok
from rltok.runs.shipped import shipped_models

SETTINGS = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
PROJECT = tomllib.loads(SETTINGS)["project"]
CONDA_TO_PYPI = {
    "pytorch": "torch", "matplotlib-base": "matplotlib", "python-fastjsonschema": "fastjsonschema",
    "huggingface_hub": "huggingface-hub",
}  # fmt: skip


def read_yaml(name: str) -> dict:
    return yaml.safe_load((ROOT / name).read_text(encoding="utf-8"))


def conda_requirements() -> dict[str, SpecifierSet]:
    """PyPI name -> versions, from the plain match specs of environment.yml."""
    requirements = {}
    for spec in read_yaml("environment.yml")["dependencies"]:
        if isinstance(spec, str):
            match = re.fullmatch(r"([a-z0-9][a-z0-9._-]*)((?:[<>=!]=?[0-9][0-9.*]*,?)*)", spec)
            assert match, f"not a plain conda match spec: {spec!r}"
            requirements[CONDA_TO_PYPI.get(match[1], match[1])] = SpecifierSet(match[2])
    return requirements | {requirement.name: requirement.specifier for requirement in of_pip()}


def of_pip() -> list[Requirement]:
    """What pip adds to the conda packages, beside rltok itself."""
    (pip,) = (entry["pip"] for entry in read_yaml("environment.yml")["dependencies"] if isinstance(entry, dict))
    return [Requirement(entry) for entry in pip if entry != "-e ."]


def project_requirements(requirements: list[str]) -> dict[str, SpecifierSet]:
    """Name -> versions, with `rltok[extra]` replaced by what that extra names."""
    named = {}
    for requirement in map(Requirement, requirements):
        if requirement.name == PROJECT["name"]:
            for extra in requirement.extras:
                named |= project_requirements(PROJECT["optional-dependencies"][extra])
        else:
            named[requirement.name] = requirement.specifier
    return named


def test_environment_yml_names_conda_forge_and_installs_rltok_itself():
    environment = read_yaml("environment.yml")
    assert set(environment) == {"name", "channels", "dependencies"}
    assert environment["channels"] == ["conda-forge"]
    (pip,) = (entry["pip"] for entry in environment["dependencies"] if isinstance(entry, dict))
    assert pip[0] == "-e ."


def test_what_exists_for_some_systems_only_carries_the_marker_of_the_package():
    stated = {one.name: one.marker for one in map(Requirement, PROJECT["optional-dependencies"]["test"]) if one.marker}
    assert {one.name: one.marker for one in of_pip()} == stated  # a conda line would hold on every system


def test_environment_yml_equals_the_package_with_all_extras():
    expected = project_requirements([*PROJECT["dependencies"], "rltok[dev]"])
    expected |= {"python": SpecifierSet(PROJECT["requires-python"]), "pip": SpecifierSet()}
    assert conda_requirements() == expected


def test_dev_covers_every_extra():
    apart = {"book"}  # pinned, in an environment of its own
    every = project_requirements([f"rltok[{extra}]" for extra in PROJECT["optional-dependencies"] if extra not in apart])
    assert project_requirements(["rltok[dev]"]) == every


@pytest.mark.parametrize("name", sorted(set(conda_requirements()) - {"python", "pip"}))
def test_installed_version_satisfies_environment_yml(name):
    try:
        installed = version(name)
    except PackageNotFoundError:
        pytest.skip(f"{name} is not installed")
    assert conda_requirements()[name].contains(installed, prereleases=True)


def test_one_version_number_everywhere():
    assert read_yaml("CITATION.cff")["version"] == rltok.__version__ == PROJECT["version"]


def test_what_tests_and_lint_need_is_pinned_and_what_the_package_needs_is_not():
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = {one.name: one.specifier for one in map(Requirement, (line for line in lines if not line.startswith("#")))}
    assert all(re.fullmatch(r"==[\w.]+", str(pin)) for pin in pins.values())
    of_package = project_requirements([*PROJECT["dependencies"], "rltok[bpe,data,board]"])
    shared = {"triton", "pyyaml", "packaging", "setuptools"}  # the package's own dependencies ask for these, too
    assert not pins.keys() & (of_package.keys() | shared)
    tools = {canonicalize_name(name): version for name, version in project_requirements(["rltok[test]"]).items()}
    assert pins.keys() >= tools.keys() - of_package.keys() - shared, "run: make pins"
    wrong = {name for name in pins.keys() & tools.keys() if not tools[name].contains(str(pins[name]).removeprefix("=="))}
    assert wrong == set()


@pytest.fixture
def built(tmp_path):
    """Builds the package with another address of its repository; returns the names of its files, and its metadata."""

    def build(address):
        names = [path.relative_to(ROOT) for path in (ROOT / "rltok").rglob("*") if path.is_file() and path.suffix != ".pyc"]
        for name in ("setup.py", "README.md", "LICENSE", *names):
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, tmp_path / name)  # without its mode: the checkout may be read-only
        text, count = re.subn(r'^repository = ".*"$', f'repository = "{address}"', SETTINGS, flags=re.MULTILINE)
        assert count == 1
        (tmp_path / "pyproject.toml").write_text(text, encoding="utf-8")
        command = [sys.executable, "-c", "from setuptools.build_meta import build_wheel; build_wheel('wheels')"]
        subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
        with zipfile.ZipFile(next((tmp_path / "wheels").glob("*.whl"))) as wheel:
            metadata = next(name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
            return wheel.namelist(), email.message_from_bytes(wheel.read(metadata))

    return build


def test_a_built_package_holds_every_file_and_says_that_it_is_typed(built):
    names, metadata = built("")
    here = {path.relative_to(ROOT).as_posix() for path in (ROOT / "rltok").rglob("*") if path.is_file()}
    assert {name for name in here if not name.endswith(".pyc")} <= set(names)
    assert "rltok/py.typed" in names and "Typing :: Typed" in metadata.get_all("Classifier")
    assert metadata.get_all("Project-URL") is None  # no address, no links


def test_the_models_load_from_a_built_package(built, tmp_path):
    built("")
    with zipfile.ZipFile(next((tmp_path / "wheels").glob("*.whl"))) as wheel:
        wheel.extractall(tmp_path / "site")
    code = (
        "import rltok; from rltok.runs.shipped import shipped_models;"
        " print(rltok.__file__, [name for name in shipped_models() if rltok.load(name)])"
    )
    environment = os.environ | {"PYTHONPATH": str(tmp_path / "site")}
    run = subprocess.run([sys.executable, "-c", code], cwd="/", env=environment, capture_output=True, text=True, check=True)
    assert run.stdout == f"{tmp_path / 'site' / 'rltok' / '__init__.py'} {shipped_models()}\n"


def test_with_an_address_the_package_links_to_it(built):
    _, metadata = built("https://example.org/someone/rltok")
    links = dict(line.split(", ") for line in metadata.get_all("Project-URL"))
    assert links["Source"] == "https://example.org/someone/rltok" and links["Issues"] == links["Source"] + "/issues"


def test_what_runs_and_builds_leave_in_the_root_does_not_change_what_ruff_says(tmp_path):
    (tmp_path / "pyproject.toml").write_text(SETTINGS, encoding="utf-8")
    for place in ("runs", "build", "corpora", ".venv-book", "tests"):  # no repository, so ruff reads no .gitignore
        (tmp_path / place).mkdir()
        (tmp_path / place / "a.py").write_text("import sys, os\n")
    (tmp_path / "tests" / "a.py").write_text("import torch\nfrom runs import TEXT\n\nimport rltok\n\nprint(torch, TEXT, rltok)\n")
    command = [sys.executable, "-m", "ruff", "check", "--no-cache", "."]
    checked = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert checked.returncode == 0, checked.stdout
