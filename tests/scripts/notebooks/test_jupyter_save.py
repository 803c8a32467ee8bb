"""JupyterLab's save of a chapter that nobody edited changes no byte of its two files. No browser and no kernel runs here."""

import shutil

import pytest
from ipykernel.kernelspec import get_kernel_dict
from jupytext import TextFileContentsManager
from nbtools.pairs import read_stored, stems, to_percent
from nbtools.rules import NOTEBOOKS, ROOT, tags
from notebooks_in_a_folder import contents
from traitlets.config.loader import PyFileConfigLoader

CHAPTERS = stems(NOTEBOOKS)
# The server warns of its own check of the hook, which runs twice.
pytestmark = pytest.mark.filterwarnings("ignore:Overriding existing pre_save_hook")
each_chapter = pytest.mark.parametrize("chapter", CHAPTERS, ids=[path.name for path in CHAPTERS])


def open_and_save(root, path, edit=None):
    """What the server does when `make lab` opens and saves a notebook, with what the page adds in between.

    The page notes the kernel's name and language, and that a cell with hidden outputs is collapsed.
    """
    config = PyFileConfigLoader(str(ROOT / "scripts" / "notebooks" / "jupyter_server_config.py")).load_config()
    server = TextFileContentsManager(config=config, root_dir=str(root))
    name = path.with_suffix(".ipynb").relative_to(root).as_posix()
    notebook = server.get(name, type="notebook", content=True)["content"]
    kernel = get_kernel_dict()
    notebook["metadata"]["kernelspec"] |= {"display_name": kernel["display_name"], "language": kernel["language"]}
    notebook["metadata"]["language_info"] = {"name": "python", "version": "3.99.0"}
    for cell in notebook["cells"]:
        if cell["metadata"].get("jupyter", {}).get("outputs_hidden"):
            cell["metadata"]["collapsed"] = True
    if edit:
        edit(notebook)
    server.save({"type": "notebook", "content": notebook}, name)


@pytest.fixture
def copy(tmp_path):
    """Copies a chapter into a project of its own; `deep` is whether JupyterLab starts above the folder of notebooks."""

    def make(chapter):
        (tmp_path / "notebooks").mkdir()
        shutil.copy(ROOT / "pyproject.toml", tmp_path)
        for suffix in (".py", ".ipynb"):
            shutil.copy(chapter.with_suffix(suffix), tmp_path / "notebooks")
        return tmp_path / "notebooks" / chapter.name

    return make


@pytest.mark.parametrize("start", ["project", "notebooks"])
@each_chapter
def test_saving_a_chapter_in_jupyterlab_changes_no_byte(copy, chapter, start):
    path = copy(chapter)
    before = contents(path)
    open_and_save(path.parent if start == "notebooks" else path.parent.parent, path)
    after = contents(path)
    assert [name for name in before if after[name] != before[name]] == []


def test_what_is_edited_in_jupyterlab_arrives_in_both_files_and_nothing_else_changes(copy):
    path = copy(CHAPTERS[0])
    lines = path.with_suffix(".py").read_text().splitlines()

    def edit(notebook):
        notebook["cells"][-1]["source"] += "\nedited"
        notebook["cells"][-1]["metadata"]["scrolled"] = True  # a wish of one reader

    open_and_save(path.parent, path, edit)
    assert path.with_suffix(".py").read_text().splitlines() == [*lines, "# edited"]
    assert to_percent(read_stored(path.with_suffix(".ipynb"))) == path.with_suffix(".py").read_text()


@each_chapter
def test_first_cells_and_solutions_are_folded_in_jupyterlab_and_colab(chapter):
    cells = read_stored(chapter.with_suffix(".ipynb")).cells
    wanted = {"first-cell": {"source_hidden": True}, "solution": {"source_hidden": True, "outputs_hidden": True}}
    folded = [(tag, cell.metadata) for cell in cells for tag in wanted if tag in tags(cell)]
    assert len(folded) > 1
    assert all(metadata.get("jupyter") == wanted[tag] and metadata.get("cellView") == "form" for tag, metadata in folded)
