"""Output that goes into a pipe or a file shows at once that a command works: its first lines do not wait for later ones."""

import os
import subprocess
import sys

import pytest
from runs import write_text

# Training waits before update UPDATE until the test has closed standard input; SIGALRM ends a wait for ever.
WAITING = """
import signal, sys
import rltok.runs.training as training
from rltok.cli.main import main
signal.alarm(300)
original, updates = training.train_step, []
def waiting(*arguments, **named):
    updates.append(1)
    if len(updates) == UPDATE:
        sys.stdin.read()
    return original(*arguments, **named)
training.train_step = waiting
sys.exit(main(sys.argv[1:]))
"""
SETTINGS = ("data.sequence_length=64", "train.sequences_per_update=4", "train.micro_batch=4", "train.training_bytes=5120")


@pytest.mark.parametrize(
    ("arguments", "update", "awaited"),
    [
        (["demo", "--smoke", "--out", "demo"], 1, "1/2  "),
        (["train", "--data", "text.txt", "--out", "run", "--set", *SETTINGS], 2, "  5%"),  # of 20 updates
    ],
)
def test_first_lines_reach_a_pipe_while_training_has_yet_to_go_on(arguments, update, awaited, tmp_path):
    write_text(tmp_path)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    command = [sys.executable, "-c", WAITING.replace("UPDATE", str(update)), *arguments]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    with subprocess.Popen(command, **pipes, text=True, cwd=tmp_path, env=environment) as child:
        before = next((line for line in child.stdout if line.startswith(awaited)), None)  # None: the child ended without it
        child.kill()
    assert before is not None
