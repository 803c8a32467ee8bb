"""`make chapter`: a notebook that keeps all rules from the first minute, entered in the table of contents."""

import new_chapter
import pytest
from nbtools.checks import all_problems
from nbtools.rules import NotebookError
from notebooks_in_a_folder import contents

TOC = """format: jb-book
parts:
  - caption: Start
    chapters:
      - file: notebooks/00_quickstart  # first
      - file: notebooks/06_scale_up
  - caption: Appendices
    chapters:
      - file: book/glossary
"""
NAME, TITLE = "04_the_boundary_policy", "The boundary policy"


@pytest.fixture
def project(tmp_path):
    (tmp_path / "notebooks").mkdir()
    (tmp_path / "book").mkdir()
    (tmp_path / "book" / "_toc.yml").write_text(TOC)
    return tmp_path


def test_a_new_chapter_keeps_all_rules_and_stands_in_the_book(project):
    new_chapter.new_chapter(NAME, TITLE, project)
    path = project / "notebooks" / NAME
    assert all_problems(path) == []
    assert path.with_suffix(".py").read_text().count(f"# # 04 {TITLE}\n") == 1
    assert sorted(contents(path)) == [f"{NAME}.ipynb", f"{NAME}.py", "results/headers.json"]
    lines = (project / "book" / "_toc.yml").read_text().splitlines()
    assert lines[4:7] == [
        "      - file: notebooks/00_quickstart  # first",
        f"      - file: notebooks/{NAME}",
        "      - file: notebooks/06_scale_up",
    ]


@pytest.mark.parametrize(
    "name, after",
    [
        ("01_b", "notebooks/00_quickstart  # first"),
        ("06b_c", "notebooks/06_scale_up"),
        ("07_c", "notebooks/06_scale_up"),
        ("00_a", "chapters:"),
    ],
)
def test_chapters_stand_in_order_of_their_number(name, after):
    lines = new_chapter.with_entry(TOC, name).splitlines()
    assert lines[lines.index(f"      - file: notebooks/{name}") - 1].endswith(after)
    assert [line for line in lines if name not in line] == TOC.splitlines()


@pytest.mark.parametrize(
    "name, title, said",
    [
        ("policy", TITLE, "NAME='policy' must be two digits, perhaps a letter, and words"),
        ("04_Policy", TITLE, "must be two digits, perhaps a letter, and words"),
        (NAME, " ", "TITLE is empty"),
        ("06_other", TITLE, "notebooks/06_scale_up.py has the number 06 already"),
    ],
)
def test_a_name_that_does_not_do_is_refused_and_nothing_written(project, name, title, said):
    (project / "notebooks" / "06_scale_up.py").write_text("")
    before = contents(project / "notebooks" / "x")
    with pytest.raises(NotebookError, match=said):
        new_chapter.new_chapter(name, title, project)
    assert contents(project / "notebooks" / "x") == before


@pytest.mark.parametrize(
    "toc, said",
    [
        (None, "book/_toc.yml is missing"),
        ("root: book/intro\n", "lists no notebook beside which to put one"),
        (TOC.replace("06_scale_up", NAME), f"already lists notebooks/{NAME}"),
    ],
)
def test_a_table_of_contents_without_room_is_named_before_anything_is_written(project, toc, said):
    path = project / "book" / "_toc.yml"
    path.write_text(toc) if toc else path.unlink()
    with pytest.raises(NotebookError, match=said):
        new_chapter.new_chapter(NAME, TITLE, project)
    assert list((project / "notebooks").iterdir()) == []
