"""Write the parts of the book that name the public repository, from [tool.rltok] repository in pyproject.toml.

PYTHONPATH=scripts/notebooks python scripts/book/book_config.py

rewrites book/_config.yml and book/_generated/repository.md; a test checks that they are current.

`make address` changes the address, here and everywhere else. Without an address there are no buttons and no links. Colab opens
notebooks from GitHub only.
"""

from nbtools.address import BRANCH, COLAB, colab_link, repository
from nbtools.rules import ROOT

CONFIG = ROOT / "book" / "_config.yml"
PAGE = ROOT / "book" / "_generated" / "repository.md"
FIRST_NOTEBOOK = "00_quickstart"


def source_link(name: str, path: str, address: str) -> str:
    """Markdown for a file of the repository: a link where there is an address, otherwise the name alone."""
    return f"[`{name}`]({address}/blob/{BRANCH}/{path})" if address else f"`{name}`"


def _colab(address: str) -> list[str]:
    return ["launch_buttons:", f'  colab_url: "{COLAB}"'] if colab_link(address, FIRST_NOTEBOOK) else []


def _top(address: str) -> list[str]:
    if not address:
        return []
    return ["repository:", f"  url: {address}", '  path_to_book: ""', f"  branch: {BRANCH}", *_colab(address)]


def _theme(address: str) -> list[str]:
    if not address:
        return []
    lines = [f"repository_url: {address}", f"repository_branch: {BRANCH}", 'path_to_docs: ""', "use_repository_button: true"]
    return lines + ([*_colab(address), "  notebook_interface: jupyterlab"] if _colab(address) else [])


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
        return "The code is in the folder that this book was built from.\n"
    lines = [f"The source: [{address.removeprefix('https://')}]({address})."]
    if link := colab_link(address, FIRST_NOTEBOOK):
        lines.append(f"Without installing anything: [open the quickstart in Colab]({link}).")
    return " ".join(lines) + "\n"


def main() -> None:
    """Rewrite both files."""
    address = repository()
    CONFIG.write_text(render_config(CONFIG.read_text(), address))
    PAGE.write_text(render_page(address))


if __name__ == "__main__":
    main()
