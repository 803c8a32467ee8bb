"""workers: workers end with who asked for them, whatever ends that process; and jobs that wait are dropped, not finished."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from paths import ROOT

from rltok.system.workers import end_with_parent

SCRIPT = """
import multiprocessing, os, sys, time, types
package = sys.modules["rltok"] = types.ModuleType("rltok")  # its own first file imports torch, which is not needed here
package.__path__ = [os.path.join(os.environ["PYTHONPATH"], "rltok")]
from concurrent.futures import ProcessPoolExecutor, as_completed
from rltok.errors import RltokError
from rltok.system.workers import end_with_parent, stopping

def work(number):
    if number == int(sys.argv[2]):
        os._exit(3)
    open(os.path.join(sys.argv[1], f"{number}-{os.getpid()}"), "w").close()
    time.sleep(0.05)
    return number

if __name__ == "__main__":
    context = multiprocessing.get_context("spawn")
    try:
        with ProcessPoolExecutor(2, mp_context=context, initializer=end_with_parent) as pool, stopping(pool, 2, "Try again."):
            for done in as_completed([pool.submit(work, number) for number in range(2000)]):
                print(done.result(), flush=True)
    except RltokError as error:
        sys.exit(str(error))
"""


COMMAND = """
import pathlib, signal, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(300)"])

def end(*_):
    time.sleep(0.5)  # as torchrun, which ends its processes first
    child.kill()
    sys.exit(1)

signal.signal(signal.SIGTERM, end)
pathlib.Path(sys.argv[1], f"0-{child.pid}").touch()
time.sleep(300)
"""
MEASURING = f"""
import os, pathlib, sys
from rltok.evidence.measuring import run
from rltok.system.workers import printed_by

print("starts", flush=True)
run(lambda: printed_by("it", [sys.executable, "-c", {COMMAND!r}, sys.argv[1]]))
"""


@pytest.fixture
def started(tmp_path):
    """Starts the script and waits for its first result; ends what is left of it afterwards."""
    script, made = tmp_path / "script.py", tmp_path / "made"
    made.mkdir()
    processes = []

    def start(broken=-1, code=SCRIPT):
        script.write_text(code)
        environment = {"PYTHONPATH": str(ROOT), "PATH": os.environ["PATH"]}
        command = [sys.executable, str(script), str(made), str(broken)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment, text=True)
        processes.append(process)
        if broken < 0:
            assert process.stdout.readline()
        return process, made

    yield start
    for process in processes:
        process.kill()
        process.communicate()


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().split(")")[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks into /proc")
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_workers_end_with_the_process_that_started_them_and_jobs_are_dropped(how, started):
    process, made = started()
    process.send_signal(how)
    process.wait(timeout=60)
    workers = {int(path.name.split("-")[1]) for path in made.iterdir()}
    deadline = time.monotonic() + 60
    while any(map(alive, workers)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert workers and not any(map(alive, workers))
    assert len(list(made.iterdir())) < 2000


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks into /proc")
@pytest.mark.parametrize("how, said", [(signal.SIGINT, "interrupted"), (signal.SIGTERM, "ended by SIGTERM")])
def test_a_measuring_script_ends_with_the_command_that_it_waits_for_and_what_that_started(how, said, started):
    process, made = started(code=MEASURING)
    deadline = time.monotonic() + 60
    while not list(made.iterdir()) and time.monotonic() < deadline:
        time.sleep(0.05)
    (grandchild,) = (int(path.name.split("-")[1]) for path in made.iterdir())
    process.send_signal(how)
    _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (
        128 + how, f"script.py: {said}. The same command goes on from what is stored.\n"
    )  # fmt: skip
    assert not alive(grandchild)


def test_measuring_scripts_start_no_process_that_could_outlive_them():
    for path in (ROOT / "scripts/measure").glob("*.py"):
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"\bsubprocess\b|os\.(fork|spawn|system|popen)", text), f"{path.name}: start it with printed_by"
        pools, ends = text.count("ProcessPoolExecutor("), text.count("stopping(") * text.count("end_with_parent")
        assert bool(pools) == bool(ends), f"{path.name}: a pool needs `stopping` around it and `end_with_parent` in its workers"


@pytest.mark.parametrize("before, after", [(signal.SIG_IGN, signal.SIG_IGN), (signal.default_int_handler, signal.SIG_DFL)])
def test_where_control_c_was_ignored_at_the_start_a_worker_ignores_it_too(before, after):
    kept = signal.signal(signal.SIGINT, before)
    try:
        end_with_parent()
        assert signal.getsignal(signal.SIGINT) is after
    finally:
        signal.signal(signal.SIGINT, kept)


def test_a_worker_that_ends_by_itself_is_one_line_with_the_remedy(started):
    process, _ = started(broken=5)
    output = process.communicate(timeout=60)[1]
    assert process.returncode == 1
    assert output.strip() == "one of 2 worker processes ended, perhaps for want of memory. Try again."
