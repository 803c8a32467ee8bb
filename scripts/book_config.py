"""Write the parts of the book that name the public repository, from [tool.rltok] repository in pyproject.toml.

python scripts/book_config.py     # rewrites book/_config.yml and book/_generated/repository.md; a test checks they are current

Without an address there are no buttons, no badges and no links. Colab opens notebooks from GitHub only.
"""

import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CONFIG = ROOT / "book" / "_config.yml"
PAGE = ROOT / "book" / "_generated" / "repository.md"
BRANCH = "main"
GITHUB, COLAB = "https://github.com/", "https://colab.research.google.com"
FIRST_NOTEBOOK = "notebooks/00_quickstart.ipynb"


def repository() -> str:
    """The address, or "" for none."""
    address = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["rltok"]["repository"]
    if address and (not address.startswith("https://") or address.endswith("/")):
        raise SystemExit(
            f"pyproject.toml, [tool.rltok]: repository = {address!r} must start with https:// and not end in /. Empty means none."
        )
    return address


def source_link(name: str, path: str, address: str) -> str:
    """Markdown for a file of the repository: a link where there is an address, otherwise the name alone."""
    return f"[`{name}`]({address}/blob/{BRANCH}/{path})" if address else f"`{name}`"


def _colab(address: str) -> bool:
    return address.startswith(GITHUB)


def _top(address: str) -> list[str]:
    if not address:
        return []
    lines = ["repository:", f"  url: {address}", '  path_to_book: ""', f"  branch: {BRANCH}"]
    return lines + ["launch_buttons:", f'  colab_url: "{COLAB}"'] if _colab(address) else lines


def _theme(address: str) -> list[str]:
    if not address:
        return []
    lines = [f"repository_url: {address}", f"repository_branch: {BRANCH}", 'path_to_docs: ""', "use_repository_button: true"]
    return (
        lines + ["launch_buttons:", f'  colab_url: "{COLAB}"', "  notebook_interface: jupyterlab"] if _colab(address) else lines
    )


def _fill(text: str, name: str, lines: list[str]) -> str:
    begin, end = f"# {name}: begin\n", f"# {name}: end"
    if text.count(begin) != 1 or text.count(end) != 1:
        raise SystemExit(f"book/_config.yml must hold the lines '# {name}: begin' and '# {name}: end' once each; put them back.")
    before, rest = text.split(begin)
    kept, after = rest.split(end)
    indent = before.rsplit("\n", 1)[1]
    return before + begin + "".join(f"{indent}{line}\n" for line in lines) + indent + end + after


def render_config(text: str, address: str) -> str:
    """book/_config.yml with the parts between its markers made anew."""
    return _fill(_fill(text, "repository", _top(address)), "theme", _theme(address))


def render_page(address: str) -> str:
    """What the first page says about where the source is."""
    if not address:
        return "The source lies beside this book; this copy names no public address.\n"
    lines = [f"The source: [{address.removeprefix('https://')}]({address})."]
    if _colab(address):
        path = f"{COLAB}/github/{address.removeprefix(GITHUB)}/blob/{BRANCH}/{FIRST_NOTEBOOK}"
        lines.append(f"Without installing anything: [open the quickstart in Colab]({path}).")
    return " ".join(lines) + "\n"


def main() -> None:
    """Rewrite both files."""
    address = repository()
    CONFIG.write_text(render_config(CONFIG.read_text(), address))
    PAGE.write_text(render_page(address))


if __name__ == "__main__":
    main()
