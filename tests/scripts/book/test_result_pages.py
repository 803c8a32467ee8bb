"""The appendices of results: their tables and pictures are of the stored records, and each stands on a page."""

import re

import make_results  # noqa: E402
from paths import ROOT

from rltok.evidence.chapters import ch07_domains
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


def test_what_texts_and_answers_says_of_the_large_runs_is_what_they_say():
    rewrite = "the stored runs no longer say so: rewrite the sentence of book/texts_and_answers.md"
    large = make_results.Stored().large
    seeds = {"even": 3, "policy_x20": 3, "bpe": 3, "hnet_port": 1, "ours_gamma0.9": 1}
    assert {name: len(runs) for name, runs in large.runs.items()} == seeds, rewrite
    arc, lambada = ({name: dict(large.bits_per_byte[task][name]) for name in seeds} for task in ("arc_easy", "lambada"))
    assert min(arc["even"], key=arc["even"].get) == min(arc["even"]) == 0, rewrite
    assert arc["ours_gamma0.9"][0] > max(arc["even"].values()) and max(arc["bpe"].values()) == arc["bpe"][0], rewrite
    assert [arc["bpe"][seed] > arc["even"][seed] for seed in range(3)] == [True, True, False], rewrite
    assert [arc["policy_x20"][seed] > arc["even"][seed] for seed in range(3)] == [True, False, False], rewrite
    ahead = [*lambada["policy_x20"].values(), lambada["hnet_port"][0], lambada["ours_gamma0.9"][0]]
    assert max(ahead) < min(lambada["even"].values()) and min(lambada["bpe"].values()) > max(lambada["even"].values()), rewrite
    record = ch07_domains.read(make_results.RESULTS / "kinds.json")
    for split, gaps in record["sweeps"]["147m"]["gaps"].items():
        parts = [part["kind"] for part in record["splits"][split]["parts"]]
        books, encyclopaedia = parts.index("books"), parts.index("encyclopaedia")
        for reference in ("even", "bpe"):
            assert max(gaps[reference]["policy_x20"]["bits"]) < 0, rewrite
            by_seed = gaps[reference]["policy_x20"]["by_seed"]
            assert len(by_seed) == 3 and all(seed[books] > seed[encyclopaedia] for seed in by_seed), rewrite


def test_every_generated_part_stands_on_a_page():
    pages = "".join(page.read_text() for page in (ROOT / "book").glob("*.md"))
    parts = [*(f"results/{name}.md" for name in make_results.PARTS), *(f"results/{name}.svg" for name in make_results.DRAWN)]
    assert [part for part in parts if part not in pages] == []


def test_lines_of_passages_and_of_the_rule_fit_a_page():
    lines = [line for name in ("rule", "best_passages", "first_passages", "large_passages")
             for line in (make_results.TABLES / f"{name}.md").read_text().splitlines()]  # fmt: skip
    assert max(map(len, lines)) <= make_results.WIDTH
