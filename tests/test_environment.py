"""environment.yml, pyproject.toml and CITATION.cff say the same. conda itself is not needed, and not tried."""

import re
import tomllib
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

import rltok

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
CONDA_TO_PYPI = {"pytorch": "torch", "matplotlib-base": "matplotlib"}


def read_yaml(name: str) -> dict:
    return yaml.safe_load((ROOT / name).read_text(encoding="utf-8"))


def conda_requirements() -> dict[str, SpecifierSet]:
    """PyPI name -> versions, from the plain match specs of environment.yml."""
    found = {}
    for spec in read_yaml("environment.yml")["dependencies"]:
        if isinstance(spec, str):
            match = re.fullmatch(r"([a-z0-9][a-z0-9._-]*)((?:[<>=!]=?[0-9][0-9.*]*,?)*)", spec)
            assert match, f"not a plain conda match spec: {spec!r}"
            found[CONDA_TO_PYPI.get(match[1], match[1])] = SpecifierSet(match[2])
    return found | {requirement.name: requirement.specifier for requirement in of_pip()}


def of_pip() -> list[Requirement]:
    """What pip adds to the conda packages, beside rltok itself."""
    (pip,) = (entry["pip"] for entry in read_yaml("environment.yml")["dependencies"] if isinstance(entry, dict))
    return [Requirement(entry) for entry in pip if entry != "-e ."]


def project_requirements(requirements: list[str]) -> dict[str, SpecifierSet]:
    """Name -> versions, with `rltok[extra]` replaced by what that extra names."""
    found = {}
    for requirement in map(Requirement, requirements):
        if requirement.name == PROJECT["name"]:
            for extra in requirement.extras:
                found |= project_requirements(PROJECT["optional-dependencies"][extra])
        else:
            found[requirement.name] = requirement.specifier
    return found


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
