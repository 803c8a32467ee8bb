"""The appendices of results: their tables and pictures are of the stored records, and each stands on a page."""

import re

import make_results  # noqa: E402
from paths import ROOT

from rltok.show.plots import digest


def test_appendices_and_their_pictures_are_of_the_stored_records():
    made = make_results.files()
    assert {path: path.read_text() for path in made} == made, "run: python scripts/book/make_results.py"
    assert {path for path in make_results.TABLES.iterdir()} == made.keys()
    stored = make_results.Stored()
    for name, draw in make_results.DRAWN.items():
        drawing = draw(stored)
        picture = (make_results.PICTURES / f"{name}.svg").read_text()
        assert f"<dc:description>{digest(drawing)}<" in re.sub(r"\s+", " ", picture).replace("> ", ">"), name


def test_every_generated_part_stands_on_a_page():
    pages = "".join(page.read_text() for page in (ROOT / "book").glob("*.md"))
    parts = [*(f"results/{name}.md" for name in make_results.PARTS), *(f"results/{name}.svg" for name in make_results.DRAWN)]
    assert [part for part in parts if part not in pages] == []


def test_lines_of_passages_and_of_the_rule_fit_a_page():
    lines = [line for name in ("rule", "best_passages", "first_passages", "large_passages")
             for line in (make_results.TABLES / f"{name}.md").read_text().splitlines()]  # fmt: skip
    assert max(map(len, lines)) <= make_results.WIDTH
