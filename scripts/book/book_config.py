"""Write the parts of the book that name the public repository, from [tool.rltok] repository in pyproject.toml.

PYTHONPATH=scripts/notebooks python scripts/book/book_config.py

rewrites book/_config.yml, and repository.md and run_it.md in book/_generated; a test checks that they are current.

`make address` changes the address, here and everywhere else. Without an address there are no buttons and no links. Colab opens
notebooks from GitHub only.
"""

from nbtools.address import BRANCH, COLAB, GITHUB, colab_link, repository
from nbtools.rules import ROOT

CONFIG = ROOT / "book" / "_config.yml"
PAGE = ROOT / "book" / "_generated" / "repository.md"
RUN_IT = ROOT / "book" / "_generated" / "run_it.md"
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


def _published(address: str) -> list[str]:
    """Where GitHub publishes the pages: previews of links name their picture by its whole address."""
    owner, _, name = address.removeprefix(GITHUB).partition("/")
    return [f"ogp_site_url: https://{owner}.github.io/{name}/"] if address.startswith(GITHUB) else []


def render_config(text: str, address: str) -> str:
    """book/_config.yml with the parts between its markers made anew."""
    parts = {"repository": _top(address), "theme": _theme(address), "published": _published(address)}
    for name, lines in parts.items():
        text = _fill(text, name, lines)
    return text


def render_page(address: str) -> str:
    """What the first page says about where the source is."""
    if not address:
        return "The code is in the folder that this book was built from.\n"
    return f"The source: [{address.removeprefix('https://')}]({address}).\n"


def render_run_it(address: str) -> str:
    """Buttons of the first page: into the page's own model, the first chapter and, where Colab can open it, its notebook."""
    buttons = ["link} #try-it-on-your-own-text\n:color: primary\nTry it in this page"]
    buttons.append(f"ref}} ../notebooks/{FIRST_NOTEBOOK}\n:ref-type: myst\n:color: primary\n:outline:\nRead the first chapter")
    if link := colab_link(address, FIRST_NOTEBOOK):
        buttons.append(f"link}} {link}\n:color: primary\n:outline:\nRun it in Colab")
    return "::::{div} rltok-buttons\n" + "".join(f":::{{button-{button}\n:::\n" for button in buttons) + "::::\n"


def main() -> None:
    """Rewrite all three files."""
    address = repository()
    RUN_IT.write_text(render_run_it(address))
    CONFIG.write_text(render_config(CONFIG.read_text(), address))
    PAGE.write_text(render_page(address))


if __name__ == "__main__":
    main()
