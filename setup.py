"""The one thing that pyproject.toml cannot say: the package's links, made from the address of the repository."""

import tomllib
from pathlib import Path

from setuptools import setup

address = tomllib.loads(Path(__file__).with_name("pyproject.toml").read_text(encoding="utf-8"))["tool"]["rltok"]["repository"]
pages = {"Source": "", "Issues": "/issues", "Changelog": "/blob/main/CHANGELOG.md"}
setup(project_urls={name: address + page for name, page in pages.items()} if address else {})
