"""Write the cards of the chapters on the book's first page, and the pictures on them, from the notebooks.

PYTHONPATH=scripts/notebooks python scripts/book/make_cards.py

rewrites book/_generated/cards.md, which a test holds to the chapters, and book/_static/cards/, which git does not keep: the
pictures are in the notebooks. A chapter without a figure gets a card without a picture.
"""

import base64
import functools
import itertools
import json
import math
import re
from pathlib import Path
from typing import Any

import yaml
from nbtools.rules import ROOT

PAGE = ROOT / "book" / "_generated" / "cards.md"
PICTURES = ROOT / "book" / "_static" / "cards"
WORDS_A_MINUTE = 200
STEP = 5  # reading times are rounded up to so many minutes
FOLDED = {"hide-output", "hide-cell", "first-cell"}
READ = ("text/html", "text/markdown", "text/plain")  # of an output in several forms the page shows the first of these

Cell = dict[str, Any]


def chapters() -> list[list[str]]:
    """Names of the notebooks in the book's table of contents, those of one number together, such as 02 and 02b."""
    parts = yaml.safe_load((ROOT / "book" / "_toc.yml").read_text(encoding="utf-8"))["parts"]
    files = [Path(entry["file"]) for part in parts for entry in part["chapters"]]
    names = [file.name for file in files if file.parent.name == "notebooks"]
    return [list(group) for _, group in itertools.groupby(names, key=lambda name: name[:2])]


@functools.cache
def load(name: str) -> list[Cell]:
    """The cells of a chapter, the source of each as one text."""
    cells = json.loads((ROOT / "notebooks" / f"{name}.ipynb").read_text(encoding="utf-8"))["cells"]
    return [cell | {"source": "".join(cell["source"])} for cell in cells]


def output_text(output: dict[str, Any]) -> str:
    """The words of an output, without tags and scripts; those of a picture are in the caption."""
    data = output.get("data", {"text/plain": output.get("text", "")})
    if any(kind.startswith("image/") for kind in data):
        return ""
    text = next(("".join(data[kind]) for kind in READ if kind in data), "")
    return re.sub(r"<[^>]+>", " ", re.sub(r"<(script|style|svg)\b.*?</\1>", " ", text, flags=re.S))


def words(cells: list[Cell]) -> int:
    """Words of prose and of outputs that are not folded away; code is not counted."""
    texts = [re.sub(r"<!--.*?-->", " ", cell["source"], flags=re.S) for cell in cells if cell["cell_type"] == "markdown"]
    for cell in cells:
        if not FOLDED & set(cell["metadata"].get("tags", [])):
            texts += [output_text(output) for output in cell.get("outputs", [])]
    return sum(len(re.findall(r"\w[\w'.-]*", text)) for text in texts)


def minutes(counted: int) -> int:
    """Reading time of so many words, rounded up to a multiple of STEP."""
    return STEP * math.ceil(counted / WORDS_A_MINUTE / STEP)


def figure(cells: list[Cell]) -> tuple[str, bytes] | None:
    """The text and the PNG of a chapter's first figure, None if it has none."""
    for cell in cells:
        for output in cell.get("outputs", []):
            if "image/png" in output.get("data", {}):
                return cell["metadata"]["mystnb"]["image"]["alt"], base64.b64decode("".join(output["data"]["image/png"]))
    return None


def title(cells: list[Cell]) -> str:
    """The heading of a chapter."""
    return cells[0]["source"].splitlines()[0].removeprefix("# ")


def opening(cells: list[Cell]) -> str:
    """The first sentence after "In short.", with which every chapter opens."""
    return " ".join(re.search(r"\*\*In short\.\*\* (.+?[.?])\s", cells[0]["source"], re.S)[1].split())


def card(name: str, *more: str) -> str:
    """The card of a chapter; below stand links to the others of its number."""
    cells = load(name)
    lines = [f":::{{grid-item-card}} [{title(cells)}](../notebooks/{name}.ipynb)"]
    if shown := figure(cells):
        lines += [f":img-top: _static/cards/{name}.png", f":img-alt: {shown[0]}"]
    lines += ["", opening(cells), "", f"About {minutes(words(cells))} minutes"]
    for other in more:
        cells = load(other)
        lines[-1] += "\\"
        lines.append(f"[{title(cells)}](../notebooks/{other}.ipynb), {minutes(words(cells))} minutes more")
    return "\n".join([*lines, ":::"])


def render() -> str:
    """The grid of cards."""
    cards = "\n\n".join(card(*names) for names in chapters())
    rule = f"Reading times: {WORDS_A_MINUTE} words of prose and visible output a minute, no code, rounded up to {STEP} minutes."
    return f"::::{{grid}} 1 1 2 2\n:gutter: 3\n:class-container: rltok-cards\n\n{cards}\n\n::::\n\n{rule}\n"


def main() -> None:
    """Rewrite the page and the pictures."""
    PAGE.write_text(render(), encoding="utf-8")
    PICTURES.mkdir(exist_ok=True)
    for name, *_ in chapters():
        if shown := figure(load(name)):
            (PICTURES / f"{name}.png").write_bytes(shown[1])


if __name__ == "__main__":
    main()
