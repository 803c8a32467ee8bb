"""Settings of every test run. Nothing of rltok is imported here: fixtures do, in tests."""

import gc
import json
import os
import signal
import subprocess
import sys
from contextlib import contextmanager

import jaxtyping
import pytest
from hypothesis import settings
from paths import ROOT, TESTS

# git must act on the folder that a test names, by its own rules: not on the repository whose hook runs the tests, and not as a
# user's settings have it (signed commits, hooks for all repositories).
for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_COMMON_DIR", "GIT_PREFIX"):
    os.environ.pop(name, None)
os.environ |= {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}

# A job in the background of a shell may inherit that control-C is ignored; then tests could send none to what they start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# A test may end with its process, never with the machine's power: it need not wait for the disk, 22 times a small run.
os.fsync = lambda handle: None

# The same examples every time, and no limit on how long one takes: a busy machine must not turn a test red.
settings.register_profile("rltok", deadline=None, derandomize=True)
settings.load_profile("rltok")


def pytest_configure(config):
    """Where tests run, all that rltok needs is imported before it.

    jaxtyping's hook has whatever is imported during an import of rltok compiled anew, as it looks for bytecode under a name of
    its own; that took several seconds. The process that hands out the tests of `-n` runs none, and workers start after it.
    """
    if config.getoption("dist", "no") != "no":
        return
    import beartype  # noqa: F401
    import filelock  # noqa: F401
    import pandas  # noqa: F401
    import pyarrow.parquet  # noqa: F401
    import safetensors.torch  # noqa: F401
    import scipy.special  # noqa: F401
    import torch

    # Without a card Triton's interpreter runs the kernels; it reads this when the first of them is imported.
    if not torch.cuda.is_available():
        os.environ.setdefault("TRITON_INTERPRET", "1")
    gc.disable()  # until all is collected: what is made there stays


def pytest_collection_modifyitems(items):
    """What takes long comes first, notebooks before all: at the end two processes share short files, and neither waits."""
    long = {TESTS / name for name in (TESTS / "slow_tests.txt").read_text(encoding="utf-8").split()}
    items.sort(key=lambda item: (item.path.suffix != ".ipynb", item.path not in long))


def pytest_collection_finish():
    """What is there before the first test stays to the end: no collection of garbage need look at its million objects again."""
    gc.collect()
    gc.freeze()
    gc.enable()


def pytest_sessionfinish():
    """Libraries that count what they gave out say so at the end of a process if something was never freed."""
    gc.unfreeze()


@pytest.fixture(autouse=True)
def closed_figures():
    """No figure of one test lives on in the next: pyplot warns of the 21st in a process, and which tests share one is chance."""
    yield
    if pyplot := sys.modules.get("matplotlib.pyplot"):
        pyplot.close("all")


@pytest.fixture
def shapes_unchecked():
    """For tests of hundreds of forward passes: the shape checks would take most of the time, and other tests have them on."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


@pytest.fixture(scope="module")
def quick():
    """For files of whole runs: no shape checks, and one short text for the snapshots, which most of the time would go into."""
    from killed_runs import SHORT_TEXT

    jaxtyping.config.update("jaxtyping_disable", True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("rltok.runs.snapshots.FIXED_TEXTS", {"short": SHORT_TEXT})
        yield
    jaxtyping.config.update("jaxtyping_disable", False)


@pytest.fixture
def run(capsys):
    """`rltok` with arguments; what it wrote. Where it is to fail, the last line says why."""
    from rltok.cli.main import main

    def run(*arguments, code=0):
        ended = main([str(argument) for argument in arguments])
        output = capsys.readouterr()
        assert ended == code, output.err
        assert not code or output.err.splitlines()[-1].startswith("rltok: ")
        return output

    return run


@pytest.fixture(scope="session")
def finished(tmp_path_factory):
    """Folder of a finished run of `runs.small_config()` on `runs.TEXT`; for looking at only."""
    from runs import small_config, write_text

    import rltok

    folder = tmp_path_factory.mktemp("finished")
    rltok.train(small_config(), write_text(folder), folder / "run", note="for tests", device="cpu")
    return folder / "run"


@pytest.fixture
def short_snapshots(monkeypatch):
    """Runs keep the boundaries of ten bytes of text instead of long ones."""
    monkeypatch.setattr("rltok.runs.snapshots.FIXED_TEXTS", {"short": "Two gulls."})


@contextmanager
def helper(name, **streams):
    """The process of a file beside this one that takes orders, a line each, and runs them in its children."""
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, str(TESTS / name)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment, **streams
    ) as process:
        yield process
        process.stdin.close()


@pytest.fixture(scope="session")
def children():
    """The process of `killed_runs.py`, which runs.kill_run talks to."""
    with helper("killed_runs.py", stderr=subprocess.DEVNULL) as process:
        yield process


@pytest.fixture(scope="session")
def commands():
    """The process of `signalled_commands.py`, which `ended` talks to."""
    with helper("signalled_commands.py") as process:
        yield process


@pytest.fixture
def ended_together(commands, tmp_path):
    """Run commands at once, one a process; their exit codes, and what each wrote on standard error.

    Each is a table with "arguments", and perhaps "signals", "ignored" and "environment".
    """

    def run(*orders):
        folders = [tmp_path / f"process-{number}" for number in range(len(orders))]
        alone = {"signals": (), "ignored": (), "environment": {}}
        told = []
        for order, folder in zip(orders, folders, strict=True):
            folder.mkdir(exist_ok=True)
            arguments = order["arguments"]
            words = arguments if isinstance(arguments, dict) else [str(argument) for argument in arguments]
            told.append(alone | order | {"arguments": words, "folder": str(folder)})
        commands.stdin.write(json.dumps(told) + "\n")
        commands.stdin.flush()
        codes, outputs = json.loads(commands.stdout.readline()), [(folder / "stderr").read_text() for folder in folders]
        assert not any(word in output for output in outputs for word in ("Traceback", "Interrupt"))
        return codes, outputs

    return run


@pytest.fixture
def ended(ended_together):
    """Run a command in a process of its own, which may send itself signals; its exit code and its standard error."""

    def run(arguments, *sent, ignored=()):
        (code,), (output,) = ended_together({"arguments": arguments, "signals": sent, "ignored": ignored})
        return code, output

    return run


@pytest.fixture
def job(ended_together):
    """Run the processes of one job of torchrun, `ended_together` with its environment; its store is in this process.

    With `same_store` that is the store of the job before.
    """
    from torch.distributed import TCPStore

    stores = []

    def run(*orders, same_store=False):
        if not same_store:
            stores.append(TCPStore("localhost", 0, is_master=True, wait_for_workers=False))
        store = stores[-1]
        common = {"MASTER_ADDR": "localhost", "MASTER_PORT": str(store.port), "TORCHELASTIC_USE_AGENT_STORE": "True",
                  "WORLD_SIZE": str(len(orders))}  # fmt: skip
        places = [{"RANK": str(number), "LOCAL_RANK": str(number)} for number in range(len(orders))]
        given = [order.get("environment", {}) for order in orders]
        environments = [common | place | more for place, more in zip(places, given, strict=True)]
        return ended_together(*(order | {"environment": each} for order, each in zip(orders, environments, strict=True)))

    return run


@pytest.fixture
def nothing_read():
    """Fails when an operation needs a number or a size from the device, for which a CUDA card would have to be waited for."""
    from torch.utils._python_dispatch import TorchDispatchMode

    waiting = ("aten._local_scalar_dense", "aten.equal", "aten.nonzero", "aten.masked_select")

    class NothingRead(TorchDispatchMode):
        def __torch_dispatch__(self, operation, types, arguments=(), settings=None):
            assert not str(operation).startswith(waiting), f"{operation} waits for the device"
            return operation(*arguments, **(settings or {}))

    with NothingRead():
        yield
