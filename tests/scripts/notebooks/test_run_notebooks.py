"""The runner: the same bytes every time, nothing written unless every cell ran, and stored GPU outputs kept."""

import json

import nbformat
import pytest
import run_notebooks
from nbtools import checks, execute, generated, normalise
from nbtools.rules import NotebookError
from notebooks_in_a_folder import BODY, HEADER, SMALL, TOP, WITH_GPU, contents, read, run, store, use_light_first_cell, write

FACTS = execute.Facts("cpu", "x86_64", 20.0, 300_000_000, None, "3.11.1", "2.9.0")


@pytest.fixture(autouse=True)
def light_first_cell(monkeypatch, tmp_path):
    use_light_first_cell(monkeypatch, tmp_path)


@pytest.fixture
def no_kernel(monkeypatch):
    """Cells count as run and print what they hold; for tests of everything around the kernel."""

    def run_cells(nb, path, *, gpu, timeout, extra=None):
        for cell in nb.cells:
            if cell.cell_type == "code" and (gpu or "gpu" not in cell.metadata.get("tags", [])):
                cell.execution_count, cell.outputs = 1, [nbformat.v4.new_output("stream", name="stdout", text="ran\n")]
        return FACTS

    monkeypatch.setattr(run_notebooks, "run_cells", run_cells)


def test_running_twice_gives_the_same_bytes(tmp_path):
    path = run(write(tmp_path / "notebooks"))
    first = contents(path)
    assert set(first) == {"07_small.py", "07_small.ipynb", "results/headers.json"}
    assert contents(run(path)) == first


def test_stored_outputs_hold_nothing_of_the_run(tmp_path):
    nb = read(run(write(tmp_path / "notebooks")))
    assert [cell.id for cell in nb.cells] == [f"cell-{i:03d}" for i in range(len(nb.cells))]
    assert [c.execution_count for c in nb.cells if c.cell_type == "code"] == [1, 2, 3, 4, 5, 6]
    assert nb.cells[3].outputs[0].text == "value 0.375\ndone\n"
    assert nb.cells[5].outputs[0].traceback == ["ValueError: too large"]
    assert set(nb.metadata) == {"jupytext", "kernelspec", "rltok"}


def test_a_cell_that_raises_is_named_and_nothing_is_written(tmp_path):
    path = write(tmp_path / "notebooks", SMALL.replace('print("drawn")', "undrawn"))
    before = contents(path)
    with pytest.raises(NotebookError) as error:
        run(path)
    assert str(error.value) == (
        "07_small: cell 7 raised NameError: name 'undrawn' is not defined. Mend it and run `make notebooks NB=07`."
    )
    assert contents(path) == before


def test_a_cell_that_takes_too_long_is_named(tmp_path):
    path = write(tmp_path / "notebooks", SMALL.replace('print("drawn")', "import time\n\ntime.sleep(60)"))
    with pytest.raises(NotebookError, match="07_small: cell 7 ran over 1 s"):
        run(path, timeout=1)


def test_a_notebook_edited_while_it_runs_is_not_overwritten(tmp_path, monkeypatch):
    path = write(tmp_path / "notebooks")

    def edit(nb, path, **options):
        write(path.parent, SMALL + "\n# %%\nprint(1)\n")
        return FACTS

    monkeypatch.setattr(run_notebooks, "run_cells", edit)
    with pytest.raises(NotebookError, match="07_small.py was edited while it ran"):
        run(path)
    assert list(contents(path)) == ["07_small.py"]


def test_a_first_cell_with_code_of_its_own_is_not_overwritten(tmp_path, no_kernel):
    path = write(tmp_path / "notebooks", HEADER + TOP + "import torch\n" + BODY)
    with pytest.raises(NotebookError, match="cell 1 is tagged first-cell and holds other code"):
        run(path)


def test_a_notebook_without_strip_is_named(tmp_path, no_kernel):
    with pytest.raises(NotebookError, match='07_small: cell 0 must be markdown with tags=."header-strip"'):
        run(write(tmp_path / "notebooks", HEADER + BODY))


def test_the_strip_changes_only_when_measured_anew(tmp_path, no_kernel, monkeypatch, capsys):
    path = run(write(tmp_path / "notebooks"))
    assert "*CPU · under 1 minute on one x86_64 core · under 1 GB of memory · no download*" in path.with_suffix(".py").read_text()
    before, slow = contents(path), run_notebooks.run_cells
    monkeypatch.setattr(
        run_notebooks, "run_cells", lambda *a, **k: slow(*a, **k) and execute.Facts(**vars(FACTS) | {"seconds": 90})
    )
    assert contents(run(path)) == before
    assert "took 90 s, the strip promises under 1 min" in capsys.readouterr().out
    run(path, measure=True)
    assert "under 2 minutes" in path.with_suffix(".py").read_text()
    assert "under 2 minutes" in read(path).cells[0].source
    assert json.loads((path.parent / "results" / "headers.json").read_text())["07_small"]["seconds"] == 90


@pytest.mark.parametrize(
    "change, expected",
    [
        ({}, "*CPU · under 1 minute on one x86_64 core · under 1 GB of memory · no download*"),
        ({"seconds": 49}, "*CPU · under 2 minutes on one x86_64 core · under 1 GB of memory · no download*"),
        (
            {"device": "NVIDIA H100", "seconds": 4000.0, "peak_memory": 9e9, "gpu_memory": 41e9},
            "*GPU · under 120 minutes on NVIDIA H100 · under 12 GB of memory and 64 GB on the card · no download*",
        ),
    ],
)
def test_the_strip_rounds_up_with_room_to_spare(change, expected):
    assert generated.strip_line(vars(FACTS) | change, 0) == expected


def test_gpu_outputs_are_kept_where_there_is_no_gpu(tmp_path, no_kernel):
    path = run(write(tmp_path / "notebooks", WITH_GPU), gpu=True)
    nb = read(path)
    nb.cells[2].outputs[0].text = "from the card\n"
    store(nb, path)
    before = contents(path)
    assert contents(run(path)) == before
    assert read(path).cells[2].outputs[0].text == "from the card\n"


def test_an_edited_gpu_cell_needs_a_gpu(tmp_path, no_kernel):
    path = run(write(tmp_path / "notebooks", WITH_GPU), gpu=True)
    write(path.parent, WITH_GPU.replace("trained on", "retrained on"))
    before = contents(path)
    with pytest.raises(NotebookError, match="07_small: cell 2 needs a GPU and no outputs are stored"):
        run(path)
    assert contents(path) == before


def test_smoke_runs_the_gpu_cells_small_and_writes_nothing(tmp_path):
    text = WITH_GPU.replace('print("trained on a card")', 'import os\n\nopen(os.environ["RLTOK_SMOKE"], "w").close()')
    path = write(tmp_path / "notebooks", text)
    run(path, smoke=True)
    assert sorted(contents(path)) == ["07_small.py", "1"]


def test_widgets_are_numbered_in_order_of_use():
    def notebook(first, second):
        view = {"text/plain": "IntSlider()", normalise.VIEW: {"model_id": second}}
        cell = nbformat.v4.new_code_cell("slider", outputs=[nbformat.v4.new_output("display_data", data=view)])
        state = {first: {"model_name": "LayoutModel"}, second: {"layout": f"IPY_MODEL_{first}"}}
        return nbformat.v4.new_notebook(cells=[cell], metadata={"widgets": {normalise.STATE: {"state": state}}})

    ours = normalise.normalise(notebook("ab" * 16, "cd" * 16))
    assert ours == normalise.normalise(notebook("12" * 16, "34" * 16))
    assert ours.cells[0].outputs[0].data[normalise.VIEW]["model_id"] == "0" * 32
    assert ours.metadata.widgets[normalise.STATE]["state"]["0" * 32]["layout"] == "IPY_MODEL_" + "0" * 31 + "1"


def test_make_selects_notebooks_by_the_start_of_their_name(tmp_path):
    paths = [write(tmp_path, name=name) for name in ("03_a", "04_b")]
    assert run_notebooks.select(tmp_path, []) == paths
    assert run_notebooks.select(tmp_path, ["04"]) == paths[1:]
    with pytest.raises(NotebookError, match="no notebook starts with '05'; there are: 03_a, 04_b"):
        run_notebooks.select(tmp_path, ["05"])


def test_the_command_reports_broken_rules_after_writing(tmp_path, monkeypatch, capsys, no_kernel):
    path = write(tmp_path / "notebooks")
    monkeypatch.setattr("sys.argv", ["run_notebooks.py", "07", "--folder", str(path.parent)])
    monkeypatch.setattr(run_notebooks, "has_gpu", lambda: False)
    assert run_notebooks.main() == 1
    assert "07_small: cell 5 is tagged raises-exception and raises nothing" in capsys.readouterr().err
    assert path.with_suffix(".ipynb").exists() and checks.all_problems(path)
