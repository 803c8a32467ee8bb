"""How strict nbval runs the notebooks: `pytest --nbval`. Nothing here acts on other tests."""

import os

import nbval.kernel
import pytest
from jupyter_client.manager import KernelManager
from nbtools import provenance
from nbtools.figures import same_figure
from nbtools.kernels import own_sockets
from nbtools.pairs import read_stored, stems
from nbtools.rules import NOTEBOOKS, kernel_environment

SVG = "image/svg+xml"


def pytest_configure(config):
    """The kernel is of this environment; cells of one notebook must stay together and in order.

    No output is sanitized: each pattern would hide changes, and what differs between machines must not be printed.
    """
    config.option.nbval_current_env = True
    nbval.kernel.KernelManager = _manager
    spread = getattr(
        config.option, "numprocesses", None
    ) and config.option.dist not in ("loadfile", "loadscope", "no")
    if getattr(config.option, "nbval", False) and spread:
        raise pytest.UsageError(
            "-n would cut a notebook into pieces: add --dist loadfile, or leave out -n."
        )


def _manager(**settings):
    return KernelManager(**settings, **own_sockets())


def pytest_itemcollected(item):
    """Stored and new figures count as equal when they look equal, and stderr is a matter of tests/scripts/notebooks/test_notebooks.py."""
    if item.path.suffix == ".ipynb":
        if "stderr" not in item.parent.skip_compare:
            item.parent.skip_compare = (*item.parent.skip_compare, "stderr")
        item.compare_outputs = _with_tolerance(item.compare_outputs)
        # nbval leaves the kernel's stderr open; other tests treat that as an error.
        item.add_marker(pytest.mark.filterwarnings("ignore::ResourceWarning"))


def _with_tolerance(compare):
    """nbval's comparison, with the stored figure in the place of a new one that shows the same."""

    def compare_outputs(test, ref, skip_compare=None):
        stored = [
            output["data"][SVG]
            for output in ref
            if SVG in output.get("data", {})
        ]
        shown = [output for output in test if SVG in output.get("data", {})]
        for output, svg in zip(shown, stored, strict=False):
            if same_figure(output["data"][SVG], svg):
                output["data"][SVG] = svg
        return compare(test, ref, skip_compare)

    return compare_outputs


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_setup(item):
    """Kernels start here: one thread, no GPU, this checkout's package. Other tests keep the environment that they had."""
    before = dict(os.environ)
    if item.path.suffix == ".ipynb":
        os.environ.update(kernel_environment(gpu=False))
    yield
    if item.path.suffix == ".ipynb":
        for name in kernel_environment(gpu=False):
            if name in before:
                os.environ[name] = before[name]
            else:
                os.environ.pop(name, None)


def pytest_terminal_summary(terminalreporter):
    """What to do about a red cell. Stored GPU outputs older than the package are no failure, but nobody should miss them."""
    red = {
        report.nodeid.split("::")[0]
        for report in terminalreporter.stats.get("failed", ())
    }
    for path in sorted(name for name in red if name.endswith(".ipynb")):
        number = path.split("/")[-1].split("_")[0]
        told = f"{path}: if the new output is the right one, `make notebooks NB={number}`; see book/when_nbval_turns_red.md"
        terminalreporter.write_line(told, red=True)
    for path in stems(NOTEBOOKS):
        stored = path.with_suffix(".ipynb")
        if stored.exists() and (
            moved := provenance.drift(read_stored(stored), path)
        ):
            terminalreporter.write_line(
                f"{path.name}: stored GPU outputs are older than {', '.join(moved)}",
                yellow=True,
            )
