"""The rules of scripts/notebooks/nbtools: each is known to notice what it is for, and to name file, cell and mend."""

import copy

import nbformat
import pytest
from nbtools import checks, prose
from nbtools.figures import same_figure
from nbtools.pairs import stems
from nbtools.rules import TAGS
from notebooks_in_a_folder import read, run, store, use_light_first_cell, write


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A notebook that was run once and keeps all rules."""
    folder = tmp_path_factory.mktemp("small")
    with pytest.MonkeyPatch.context() as monkeypatch:
        use_light_first_cell(monkeypatch, folder)
        yield run(write(folder / "notebooks"))


def test_the_small_notebook_keeps_all_rules(small):
    assert checks.all_problems(small) == []


def output_text(text):
    return nbformat.v4.new_output("stream", name="stdout", text=text)


def plant(kind):
    """Functions that each spoil one thing in a notebook."""

    def image(nb, mime, data="data"):
        nb.cells[4].outputs[0].data = nbformat.from_dict({mime: data})

    def prose_of(nb, text):
        nb.cells[0].source += "\n\n" + text

    return {
        "run out of order": lambda nb: nb.cells[3].update(execution_count=9),
        "never run": lambda nb: nb.cells[3].update(execution_count=None, outputs=[]),
        "empty cell": lambda nb: nb.cells[3].update(source=" "),
        "stray error": lambda nb: nb.cells[5].metadata.pop("tags"),
        "error that stopped": lambda nb: nb.cells[5].update(outputs=[]),
        "stderr": lambda nb: nb.cells[3].outputs[0].update(name="stderr"),
        "no alt text": lambda nb: nb.cells[4].metadata.mystnb.pop("image"),
        "alt text of one word": lambda nb: nb.cells[4].metadata.mystnb.image.update(alt="figure"),
        "no caption": lambda nb: nb.cells[4].metadata.mystnb.pop("figure"),
        "two figures": lambda nb: nb.cells[4].outputs.append(copy.deepcopy(nb.cells[4].outputs[0])),
        "markdown image": lambda nb: prose_of(nb, "![](a.svg)"),
        "img without alt": lambda nb: nb.cells[3].outputs.append(
            nbformat.v4.new_output("display_data", data={"text/html": "<img src='a'>"})
        ),
        "path": lambda nb: nb.cells[3].outputs.append(output_text("in /" + "home/ann/rltok")),
        "pid": lambda nb: nb.cells[3].outputs.append(output_text("see ipykernel_1234")),
        "address": lambda nb: nb.cells[3].outputs.append(output_text("<object at 0x7f12ab34cd56>")),
        "date": lambda nb: nb.cells[3].outputs.append(output_text("on 2026-03-04")),
        "date in a figure": lambda nb: image(nb, "image/svg+xml", "<svg aria-label='a'><dc:date>now</dc:date></svg>"),
        "jpeg": lambda nb: image(nb, "image/jpeg"),
        "png without digest": lambda nb: image(nb, "image/png"),
        "too large": lambda nb: nb.cells[3].outputs.append(output_text("x" * 1_000_000)),
        "kernel": lambda nb: nb.metadata.kernelspec.update(name="my-env"),
        "unknown tag": lambda nb: nb.cells[3].metadata.tags.append("slow"),
        "unfolded": lambda nb: nb.cells[7].metadata.pop("jupyter"),
        "skipped": lambda nb: nb.cells[3].metadata.tags.append("nbval-skip"),
        "ignored without reason": lambda nb: nb.cells[3].metadata.tags.append("nbval-ignore-output"),
        "nbval's comment": lambda nb: nb.cells[3].update(source="# NBVAL_IGNORE_OUTPUT\nprint(1)"),
        "few compared": lambda nb: nb.cells[3].metadata.tags.append("nbval-ignore-output"),
        "few print": lambda nb: [nb.cells[i].update(outputs=[]) for i in (2, 3, 7)],
        "typed result": lambda nb: prose_of(nb, "It fell by 12.5 %."),
        "typed percentage": lambda nb: prose_of(nb, "It fell by 12 %."),
        "typed thousands": lambda nb: prose_of(nb, "It has 147,000 parameters."),
        "unused constant": lambda nb: nb.metadata.rltok.constants.update({"0.75": "not used"}),
        "constant without reason": lambda nb: nb.metadata.rltok.constants.update({"0.25": ""}),
        "unknown declaration": lambda nb: nb.metadata.rltok.update(speed=1),
        "no download": lambda nb: nb.metadata.rltok.pop("download_mb"),
        "typed strip": lambda nb: nb.cells[0].update(source=nb.cells[0].source.replace("1 minute", "2 minutes")),
        "no strip": lambda nb: nb.cells[0].update(source="# Title"),
        "other first cell": lambda nb: nb.cells[1].update(source="import torch"),
        "no first cell": lambda nb: nb.cells[1].metadata.pop("tags"),
        "no title": lambda nb: nb.cells[0].update(source=nb.cells[0].source[2:]),
        "no prediction": lambda nb: [nb.cells[i].metadata.pop("tags") for i in (2, 3)],
        "late prediction": lambda nb: nb.cells.insert(3, nb.cells.pop(2)),
        "no findings": lambda nb: nb.cells[6].update(source=nb.cells[6].source.replace("What we saw", "End")),
        "no exercise": lambda nb: nb.cells[6].update(source=nb.cells[6].source.replace("**", "")),
        "two exercises": lambda nb: nb.cells[6].update(source=nb.cells[6].source + "\n\n**2. More** Draw."),
        "no solution": lambda nb: nb.cells[7].metadata.tags.remove("solution"),
        "unsolved before another": lambda nb: nb.cells.insert(6, nbformat.v4.new_markdown_cell("**3. Other** Draw.")),
        "open solution": lambda nb: nb.cells[7].metadata.tags.remove("hide-cell"),
    }[kind]


@pytest.mark.parametrize(
    "check, kind, said",
    [
        ("counts", "run out of order", "cell 3 has execution count 9, not 3. Run `make notebooks NB=07`"),
        ("counts", "never run", "cell 3 has execution count None"),
        ("counts", "empty cell", "cell 3 is empty"),
        ("errors", "stray error", "cell 5 holds an error"),
        ("errors", "error that stopped", "cell 5 is tagged raises-exception and raises nothing"),
        ("errors", "stderr", "cell 3 wrote to stderr"),
        ("images", "no alt text", "cell 4 shows a figure without alt text"),
        ("images", "alt text of one word", "cell 4 shows a figure without alt text"),
        ("images", "no caption", "cell 4 shows a figure without caption"),
        ("images", "two figures", "cell 4 shows several figures"),
        ("images", "markdown image", "cell 0 has an image without alt text"),
        ("images", "img without alt", "cell 3 has an <img> without alt text"),
        ("traces", "path", "cell 3 shows an absolute path in stdout"),
        ("traces", "pid", "cell 3 shows a process number"),
        ("traces", "address", "cell 3 shows a memory address"),
        ("traces", "date", "cell 3 shows a date"),
        ("traces", "date in a figure", "cell 4 shows a date in image/svg+xml"),
        ("kinds", "jpeg", "cell 4 stores image/jpeg"),
        ("kinds", "png without digest", "cell 4 shows a PNG without a digest"),
        ("kinds", "too large", "07_small.ipynb has 100"),
        ("kinds", "kernel", "metadata that its runner does not write"),
        ("tags", "unknown tag", "cell 3 has the unknown tag 'slow'"),
        ("tags", "unfolded", "cell 7 is not folded in JupyterLab and Colab"),
        ("tags", "skipped", "cell 3: gpu and nbval-skip go together"),
        ("tags", "ignored without reason", "cell 3 is not compared and does not say why"),
        ("tags", "nbval's comment", "cell 3 has the comment NBVAL_IGNORE_OUTPUT"),
        ("shares", "few compared", "3 of 4 cells with text are compared, at least 90%"),
        ("shares", "few print", "1 of 5 code cells print something, at least 60%"),
        ("numbers", "typed result", "cell 0 states 12.5, which no cell prints"),
        ("numbers", "typed percentage", "cell 0 states 12, which no cell prints"),
        ("numbers", "typed thousands", "cell 0 states 147,000, which no cell prints"),
        ("numbers", "unused constant", "declares the constant 0.75"),
        ("declarations", "constant without reason", "the constant '0.25' needs"),
        ("declarations", "unknown declaration", "declares rltok: speed"),
        ("declarations", "no download", "must declare rltok: download_mb"),
        ("generated", "typed strip", "cell 0: the strip is not what was measured"),
        ("generated", "no strip", "cell 0 must be tagged header-strip"),
        ("generated", "other first cell", "cell 1 differs from scripts/notebooks/templates/first_cell.py"),
        ("generated", "no first cell", "first code cell must be tagged first-cell"),
        ("structure", "no title", "cell 0 must start with the title"),
        ("structure", "no prediction", "07_small measures before the reader predicts"),
        ("structure", "late prediction", "cell 2 measures before the reader predicts"),
        ("structure", "no findings", "does not say what we saw"),
        ("structure", "no exercise", "has no exercise"),
        ("structure", "two exercises", "cell 6 holds 2 exercises"),
        ("structure", "no solution", "cell 6: exercise 'A line' has no solution"),
        ("structure", "unsolved before another", "cell 6: exercise 'Other' has no solution"),
        ("structure", "open solution", "cell 7 gives the solution away"),
    ],
)
def test_a_planted_fault_is_named_with_file_cell_and_mend(small, check, kind, said):
    nb = read(small)
    plant(kind)(nb)
    problems = checks.CHECKS[check](nb, small)
    assert len(problems) == 1, problems
    assert problems[0].startswith("07_small") and said in problems[0]


def test_a_notebook_edited_on_the_wrong_side_is_named_with_its_cell(small, tmp_path):
    path = write(tmp_path, small.with_suffix(".py").read_text())
    nb = read(small)
    nb.cells[3].source = 'print("value 0.5")'
    store(nb, path)
    (problem,) = checks.CHECKS["pair"](nb, path)
    assert problem.startswith("07_small: cell 3 differs") and problem.endswith("run `make notebooks NB=07`.")


@pytest.mark.parametrize("missing", [".py", ".ipynb"])
def test_half_a_pair_is_named(small, tmp_path, missing):
    path = write(tmp_path, small.with_suffix(".py").read_text())
    store(read(small), path)
    path.with_suffix(missing).unlink()
    assert stems(tmp_path) == [path]
    assert checks.CHECKS["pair"](None, path)[0].startswith(f"07_small{missing} is missing")


@pytest.mark.parametrize(
    "text, expected",
    [
        ("It fell to 0.42 and then by 3 %, from 1,234 to 5e-4.", ["0.42", "3", "1,234", "5e-4"]),
        ("See §2.4, section 3.1 and 3.2, Table 1.2, eq. (2.7), Python 3.11, arXiv and `0.99`.", []),
        ("With $\\gamma = 0.99$ and\n$$a = 0.5$$\nand [a link](v1.2/x) and {eq}`eq-1.5`.", []),
        ("```\n0.5\n```\n\nten bytes, 12 layers, 3 seeds", []),
        ("```{note}\n:name: n-0.5\nIt is 0.5 here.\n```", ["0.5"]),
        ("1. first\n2. second 2.5", ["2.5"]),
        ("a price of \\$3 and 0.75 \\$", ["0.75"]),
    ],
)
def test_numbers_that_read_like_results_are_found_in_prose_only(text, expected):
    assert prose.stated(text) == expected


def test_figures_are_equal_up_to_the_last_digits_and_names_of_parts():
    svg = '<svg><metadata>Matplotlib</metadata><path id="{}" d="M 1.5 {} L 3.25 4"/><use href="#{}"/><text>{}</text></svg>'
    drawn = svg.format("m1f", "2.500001", "m1f", "loss")
    assert same_figure(drawn, svg.format("m9a", "2.500004", "m9a", "loss"))
    assert same_figure(drawn, drawn.replace("Matplotlib", "Matplotlib v3"))
    assert not same_figure(drawn, svg.format("m1f", "2.6", "m1f", "loss"))
    assert not same_figure(drawn, svg.format("m1f", "2.500001", "m1f", "rate"))
    assert not same_figure(drawn, svg.format("m1f", "2.500001", "other", "loss"))


def test_every_tag_has_a_reason():
    assert all(len(reason) > 20 for reason in TAGS.values())
