"""The address of the public repository, which stands in pyproject.toml, [tool.rltok]; empty where there is none."""

import re
import tomllib
from pathlib import Path

from nbtools.rules import ROOT

BRANCH = "main"
GITHUB, COLAB = "https://github.com/", "https://colab.research.google.com"
MEND = "Write `make address REPOSITORY=https://github.com/OWNER/REPO`, without a slash at the end, or REPOSITORY= for none."


def checked(address: str) -> str:
    """The address, or SystemExit if it is none of a repository; it becomes part of links and of a command."""
    if address and not re.fullmatch(r"https://[\w.-]+(:\d+)?(/[\w.~-]+)+(?<!\.git)", address, re.ASCII):
        raise SystemExit(f"the repository's address is {address!r}. {MEND}")
    return address


def repository(root: Path = ROOT) -> str:
    """The address, or "" for none."""
    settings = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    return checked(settings["tool"]["rltok"]["repository"])


def colab_link(address: str, notebook: str) -> str:
    """Where Colab opens a notebook, or "": it opens those of GitHub only."""
    if not address.startswith(GITHUB):
        return ""
    return f"{COLAB}/github/{address.removeprefix(GITHUB)}/blob/{BRANCH}/notebooks/{notebook}.ipynb"
