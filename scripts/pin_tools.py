"""Write constraints.txt: the versions, as installed here, of all that tests and lint need and the package does not.

    make pins      # in an environment of its own, with the newest versions; then `make lint test`, and commit

What the package needs keeps the ranges of pyproject.toml, so that tests run with its newest releases, too. Triton is no tool:
torch's builds for CUDA ask for one version of it.
"""

import re
import tomllib
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
PINS = ROOT / "constraints.txt"
HEAD = """\
# Written by `make pins`: tools of tests and lint, pinned, so that a new release of one cannot turn a clone red.
# pip keeps to these versions when it is told to: pip install -c constraints.txt -e '.[test]'
"""
NO_TOOLS = ("bpe", "data", "board")  # extras of the package itself


def closure(requirements: list[str]) -> dict[str, str]:
    """Name -> installed version of everything that these requirements ask for, directly or through others."""
    pins, waiting = {}, [(Requirement(line), "") for line in requirements]
    while waiting:
        requirement, extra = waiting.pop()
        name = canonicalize_name(requirement.name)
        if requirement.marker and not requirement.marker.evaluate({"extra": extra}):
            continue
        try:
            installed = distribution(name)
        except PackageNotFoundError:
            continue
        for wanted in ("", *requirement.extras):
            if (name, wanted) not in pins:
                pins[name, wanted] = installed.version
                waiting += [(Requirement(line), wanted) for line in installed.requires or ()]
    return {name: version for (name, _), version in pins.items()}


def main() -> None:
    """Compare what the tools need with what the package needs."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    package = project["dependencies"] + sum((extras[name] for name in NO_TOOLS), [])
    package += [line for line in extras["test"] if line.startswith("triton")]
    ours = closure(package) | {"rltok": ""}
    tools = closure([line for name in ("test", "notebook") for line in extras[name] if not line.startswith("rltok[")])
    lines = [f"{name}=={re.sub(r'[+].*', '', version)}\n" for name, version in sorted(tools.items()) if name not in ours]
    PINS.write_text(HEAD + "".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
